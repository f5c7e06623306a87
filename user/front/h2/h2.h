/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the HTTP/2 front keeps per worker: connections and streams in bounded pools, the memory that
 * nghttp2 works in. The core makes one at start and puts it into sl_front_env.h2.
 */
#ifndef SL_FRONT_H2_H
#define SL_FRONT_H2_H

#include "front/front.h"

struct sl_h2_env;

struct sl_h2_config {
	uint32_t max_connections;
	uint32_t max_streams; /* of all connections */
	uint32_t max_calls;   /* of them, health watches and reflection */
	uint32_t max_calls_per_source;
	uint32_t max_watches; /* of one connection */
	uint32_t sources;     /* sl_front_ops.open has lower ones only */
	uint64_t memory;      /* of all sessions together */
	uint64_t conn_memory; /* of one session */
	uint32_t stream_window, conn_window;
};
void sl_h2_config_default(struct sl_h2_config *cfg);

/* NULL when memory is short. `limits` must outlive it. */
struct sl_h2_env *sl_h2_env_create(const struct sl_h2_config *cfg,
				   const struct sl_front_limits *limits);
/* After the last connection was closed. NULL is allowed. */
void sl_h2_env_destroy(struct sl_h2_env *e);

/* What sl_front_env.serving says may have changed: who watches is told. From no front's call. */
void sl_h2_env_serving_changed(struct sl_h2_env *e);

struct sl_h2_stats {
	uint32_t connections, streams, calls;
	uint64_t memory;
};
void sl_h2_env_stats(const struct sl_h2_env *e, struct sl_h2_stats *out);

#endif
