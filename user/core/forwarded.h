/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a client for backends (front/trusted_headers.h): x-forwarded-* and forwarded. The
 * client's own fields of these names are dropped, or kept in front with `forwarded = append`.
 */
#ifndef SL_CORE_FORWARDED_H
#define SL_CORE_FORWARDED_H

#include <stdbool.h>
#include "base/bytes.h"

struct sl_cfg_route;
struct sl_exchange;
struct sl_request;
struct sl_tlv_writer;

/*
 * Returns true if the route lists the name or forwards all. Then names with an underscore pass only
 * with `underscores`: a server could read it as '-'.
 */
bool sl_forwarded_wanted(const struct sl_cfg_route *r, struct sl_span name);
/* Returns true if a client's field is forwarded. `all`: by its protocol. */
bool sl_forwarded_passes(const struct sl_cfg_route *r, struct sl_span name, bool all);
/* Writes forwarded fields, and always the verified TLS subject and API key. */
void sl_forwarded_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		      const struct sl_request *rq);

#endif
