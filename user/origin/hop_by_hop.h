/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that must not be passed on: hop-by-hop (RFC 9110 7.6.1) and framing. */
#ifndef SL_ORIGIN_HOP_BY_HOP_H
#define SL_ORIGIN_HOP_BY_HOP_H

#include "base/bytes.h"

enum { ORIGIN_OPTIONS_MAX = 16 };

/* Names in Connection fields. */
struct origin_options {
	struct sl_span at[ORIGIN_OPTIONS_MAX];
	unsigned cnt;
};

/* Adds the names of a Connection field. False: too many. */
bool origin_options_note(struct origin_options *o, struct sl_span value);
/* Return true if the name is listed, or hop-by-hop; case is ignored. */
bool origin_is_one_of(struct sl_span name, const struct sl_span *names, size_t cnt);
bool origin_is_hop_by_hop(struct sl_span name);

#endif
