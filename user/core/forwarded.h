/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What backends are told of a client beside what it says itself (front/trusted_headers.h). What it has sent
 * under the same names is dropped, or, where its listener says `forwarded = append`, stands in front
 * of from where it came: x-forwarded-*, forwarded.
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
 * Returns true if the route's backends see fields of this name, which is not empty: it is named, or all
 * of them are wanted and it has no underscore that a server could read as '-' (`underscores`).
 */
bool sl_forwarded_wanted(const struct sl_cfg_route *r, struct sl_span name);
/* Returns true if a field of a client's goes to the route's backends; `all`: its protocol wants that. */
bool sl_forwarded_passes(const struct sl_cfg_route *r, struct sl_span name, bool all);
/* Those of ours that the route's backends see; and always who the client has proven to be. */
void sl_forwarded_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		      const struct sl_request *rq);

#endif
