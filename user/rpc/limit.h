/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns how many posted bytes keep the other side busy while more wait behind a cap: as many as
 * are never all gone when somebody looks. Too few, and what takes them stands still between two
 * looks; each one too many is in the way of whatever is more urgent. Neither rates nor clocks are
 * needed: a slow link, a reader that sleeps, and a sender that comes by rarely show in the same
 * way.
 *
 *   posted:  ####......   some are left: more than needed, perhaps
 *            ..........   all gone: too few
 */
#ifndef SL_RPC_LIMIT_H
#define SL_RPC_LIMIT_H

#include <stdint.h>

struct sl_limit {
	uint32_t bytes;      /* the limit */
	uint32_t least, max; /* it stays between */
	uint32_t spare;      /* fewest left of late */
	uint32_t looks;
};

void sl_limit_init(struct sl_limit *l, uint32_t least, uint32_t max);
/* While the limit held something back, some posted bytes were taken; so many are left. */
void sl_limit_look(struct sl_limit *l, uint32_t left);

#endif
