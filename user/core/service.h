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
	bool wanted;      /* a configuration has it, in force or about to be: it does not leave */
	bool joined;      /* the batcher knows of it */
	_Atomic int link; /* enum sl_link */
};

struct sl_service {
	struct sl_core *core;
	const struct sl_cfg_pool *pool;
	struct sl_batcher *batcher;
	uint32_t index;
	bool wanted;
	struct sl_service_backend backends[SL_MAX_BACKENDS];
};

extern const struct sl_rpc_ops sl_service_rpc_ops;

extern const struct sl_batch_ops sl_service_batch_ops;

int sl_service_init(struct sl_service *s, struct sl_core *c, uint32_t index);
/* The backend has a channel, UP or DOWN; the batcher will know of it when it joins. */
void sl_service_set_backend(struct sl_service *s, uint32_t index, struct sl_rpc_channel *ch);
/* True if there is such a backend, and it wants transports. */
bool sl_service_wants(const struct sl_core *c, uint32_t pool, uint32_t backend);
void sl_service_fini(struct sl_service *s);

#endif
