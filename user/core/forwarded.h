/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a client for backends, besides its own fields (front/trusted_headers.h):
 * x-forwarded-* and forwarded. Fields that the client sent under these names are dropped. A
 * listener with `forwarded = append` keeps them in front.
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
 * Returns true if the route forwards fields of this name: it is listed, or all are forwarded. Then
 * names with an underscore pass only with `underscores`, since a server could read it as '-'.
 */
bool sl_forwarded_wanted(const struct sl_cfg_route *r, struct sl_span name);
/* Returns true if a client's field is forwarded. `all`: its protocol forwards all. */
bool sl_forwarded_passes(const struct sl_cfg_route *r, struct sl_span name, bool all);
/* Writes the fields that the route forwards, and always the verified TLS subject. */
void sl_forwarded_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		      const struct sl_request *rq);

#endif
