/* SPDX-License-Identifier: Apache-2.0 */
/* Hop-by-hop fields and framing, which are not passed on (RFC 9110 7.6.1). */
#ifndef SL_ORIGIN_HOP_BY_HOP_H
#define SL_ORIGIN_HOP_BY_HOP_H

#include "base/bytes.h"

enum { ORIGIN_OPTIONS_MAX = 16 };

/* Names in Connection fields. */
struct origin_options {
	struct sl_span at[ORIGIN_OPTIONS_MAX];
	unsigned cnt;
};

/*
 * Adds the names of a Connection field. Returns false if there are too many: the rest would be
 * passed on.
 */
bool origin_options_note(struct origin_options *o, struct sl_span value);
bool origin_is_one_of(struct sl_span name, const struct sl_span *names, size_t cnt);
bool origin_is_hop_by_hop(struct sl_span name);

#endif
