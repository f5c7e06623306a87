/* SPDX-License-Identifier: Apache-2.0 */
/* Joins udp with its front. One client represents all peers. */
#ifndef SL_CORE_DGRAM_H
#define SL_CORE_DGRAM_H

#include "core/core.h"

/* Returns 0 or -errno; fini must follow even then. Before the worker starts. */
int sl_dgram_init(struct sl_core *c);
/* Ends exchanges of datagrams. Called after the worker's end. */
void sl_dgram_fini(struct sl_core *c);

#endif
