/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's datagrams: udp below, a front above. One client stands for all peers. */
#ifndef SL_CORE_DGRAM_H
#define SL_CORE_DGRAM_H

#include "core/core.h"

/* 0 or -errno; after a failure call fini. */
int sl_dgram_init(struct sl_core *c);
void sl_dgram_fini(struct sl_core *c);

#endif
