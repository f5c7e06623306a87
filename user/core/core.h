/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a worker: it joins clients (tcp, udp, front) with services (batch, rpc).
 *
 *   client.c     a TCP connection and the front that speaks on it
 *   exchange.c   one request from its first byte to the last byte of its reply
 *   route.c      which service or fixed reply a request goes to
 *   reload.c     from one configuration to the next (reload.h)
 *   service.c    a pool's queue on this worker; batches to and replies from its backends
 *   reply.c      replies of backends and of the gateway, to the front, kept when it cannot take
 * them dgram.c      requests in single datagrams batch.c      what is sent next (batch.h)
 *
 * One struct sl_core per worker, used by its thread only. Memory: clients and exchanges from pools
 * sized by the configuration, request bodies and waiting replies in frames of the worker's UMEM.
 */
#ifndef SL_CORE_CORE_H
#define SL_CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/pool.h"
#include "base/wheel.h"
#include "config/config.h"
#include "core/batch.h"
#include "core/stats.h"
#include "front/front.h"
#include "net/net.h"
#include "rpc/rpc.h"
#include "tcp/tcp.h"
#include "udp/udp.h"

struct sl_service;
struct sl_dgram;

/*
 * A configuration in force, and the exchanges that began under it: they keep what it says, and its
 * routes and pools, until their end. The worker's own; `number` counts up.
 */
struct sl_generation {
	const struct sl_config *cfg;
	uint64_t number;
	uint32_t exchanges;
};

/* Entries of the mmapped maps that belong to one worker. */
struct sl_core_maps {
	uint32_t service_cnt;         /* room in them, at least cfg->pool_cnt */
	struct sl_svc_hist *hist;     /* [services][SL_STAGE_CNT] */
	struct sl_svc_live *live;     /* [services] */
	const struct sl_svc_ctl *ctl; /* [services] */
};

struct sl_core {
	const struct sl_config *cfg; /* gen->cfg */
	struct sl_generation *gen;   /* of new exchanges */
	struct sl_net *net;
	struct sl_tcp *tcp;
	struct sl_udp *udp;
	struct sl_rpc *rpc;
	struct sl_front_env env;
	struct sl_front_limits limits;
	struct sl_wheel wheel;
	struct sl_pool clients;
	struct sl_pool exchanges;
	struct sl_pool flights; /* struct sl_flight */
	struct sl_pool heads;   /* env.heads */
	/*
	 * [maps.service_cnt], of which those below service_cnt may be in use; one without a batcher
	 * is not.
	 */
	struct sl_service *services;
	uint32_t service_cnt;
	struct sl_dgram *dgram;
	struct sl_core_maps maps;
	struct sl_core_stats stats;
	struct sl_list deferred; /* exchanges that the gateway answers itself, by item.link */
	uint32_t client_head;    /* client.h: index + 1 */
	struct sl_span *spans;   /* scratch for one batch */
	uint32_t span_cap;
	char date[32];
	uint64_t date_ns;  /* when `date` was formatted */
	uint8_t *meta_buf; /* scratch: a stored metadata block, SL_RPC_MAX_META */
	uint64_t now_ns;
	bool draining;
	bool serving_changed; /* a backend came or went: gRPC health watches are to be looked at */
	bool leaving;         /* something of an older generation is there still */
	uint64_t leave_ns;    /* when to look again */
	_Atomic uint64_t settled; /* number of the generation that is alone here */
	struct sl_generation first_gen;
};

/* Builds tcp, udp, rpc and services on a net whose ports exist. 0 or -errno. */
int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps);
void sl_core_fini(struct sl_core *c);

/* Time of this burst; also keeps the Date header. */
void sl_core_set_now(struct sl_core *c, uint64_t now_ns);
/* Timers, batches; after input and replies of this burst. Returns events handled. */
unsigned sl_core_run(struct sl_core *c);
/* When sl_core_run wants to be called at the latest. */
uint64_t sl_core_next_ns(const struct sl_core *c);

/* The channel of a pool's backend, for the worker to adopt transports on. */
struct sl_rpc_channel *sl_core_channel(struct sl_core *c, uint32_t pool, uint32_t backend);

/* The worker: that backend's channel comes up on this transport. */
void sl_core_adopt(struct sl_core *c, uint32_t pool, uint32_t backend, struct sl_transport *t);

/* Whether a backend has a channel; any thread. OFFERED: a transport is on its way to the worker. */
enum sl_link { SL_LINK_DOWN, SL_LINK_OFFERED, SL_LINK_UP };
enum sl_link sl_core_link(const struct sl_core *c, uint32_t pool, uint32_t backend);
void sl_core_link_set(struct sl_core *c, uint32_t pool, uint32_t backend, enum sl_link link);

/* No new requests; connections close as they fall idle. */
void sl_core_drain(struct sl_core *c);
/* Nothing is in flight. */
bool sl_core_idle(const struct sl_core *c);

#endif
