/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports addresses that limits refuse often (key penalty).
 *
 * Only sources proven by a TCP handshake count: a forged source must not keep its owner out.
 */
#ifndef SL_CORE_OFFENDER_H
#define SL_CORE_OFFENDER_H

#include <stdbool.h>
#include "base/ring.h"
#include "wire/addr.h"

struct sl_client;

enum { SL_OFFENDER_RING = 256 /* words */, SL_OFFENDER_ADDRESSES = 16384 };

/*
 * Counts a refusal of the client, whose address is `peer` (NULL: that of its quota); reports
 * repeated ones. A full ring delays the report. Worker.
 */
void sl_offender_count(const struct sl_client *cl, const struct sl_addr *peer);

/* Takes a reported address, of IPv6 the /64. False: there is none. Control thread. */
bool sl_offender_take(struct sl_ring *r, struct sl_addr *net);

#endif
