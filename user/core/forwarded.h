/* SPDX-License-Identifier: Apache-2.0 */
/* Writes trusted fields (front/trusted_headers.h) about a client for backends. */
#ifndef SL_CORE_FORWARDED_H
#define SL_CORE_FORWARDED_H

#include <stdbool.h>
#include "base/bytes.h"

struct sl_cfg_route;
struct sl_exchange;
struct sl_request;
struct sl_tlv_writer;

/*
 * Returns true if the route lists the name or forwards all. Names with an underscore, for a server
 * perhaps '-', also need `underscores`.
 */
bool sl_forwarded_wanted(const struct sl_cfg_route *r, struct sl_span name);
/* Returns true if a client's field is passed on. `all`: the request's protocol forwards all. */
bool sl_forwarded_passes(const struct sl_cfg_route *r, struct sl_span name, bool all);
/*
 * Writes the client's wanted address and protocol, and always the verified TLS subject and API key.
 * Worker.
 */
void sl_forwarded_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		      const struct sl_request *rq);

#endif
