/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool's share on this worker: one batcher, one RPC channel per backend.
 */
#ifndef SL_CORE_SERVICE_H
#define SL_CORE_SERVICE_H

#include <stdatomic.h>
#include "core/exchange.h"

/*
 * A batch whose bytes the transport may still read. Requests that end earlier leave their frames
 * here until it says `sent`: a frame that is used anew would show one client's bytes to a backend
 * as another's.
 */
struct sl_flight {
	struct sl_list link;
	uint64_t batch;
	struct sl_store limbo;
};

/* What a channel's upcalls find: whose backend it is. */
struct sl_service_backend {
	struct sl_service *service;
	struct sl_rpc_channel *channel;
	struct sl_list flights; /* not yet `sent`; few */
	uint64_t reply_ns;      /* of the last part of a reply */
	uint32_t together; /* of the batch whose replies come in: how many it was merged with */
	uint8_t index;
	_Atomic int link; /* enum sl_link */
};

struct sl_service {
	struct sl_core *core;
	const struct sl_cfg_pool *pool;
	struct sl_batcher *batcher;
	uint32_t index;
	struct sl_service_backend backends[SL_MAX_BACKENDS];
};

extern const struct sl_rpc_ops sl_service_rpc_ops;

int sl_service_init(struct sl_service *s, struct sl_core *c, uint32_t index);
void sl_service_fini(struct sl_service *s);

#endif
