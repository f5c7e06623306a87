/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's datagrams: joins udp with its front. One client represents all peers. */
#ifndef SL_CORE_DGRAM_H
#define SL_CORE_DGRAM_H

#include "core/core.h"

/* Creates both. Returns 0 or -errno; call fini after a failure, too. */
int sl_dgram_init(struct sl_core *c);
/* Frees them. */
void sl_dgram_fini(struct sl_core *c);

#endif
