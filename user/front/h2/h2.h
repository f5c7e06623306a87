/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-worker state of the HTTP/2 front. The core creates it and sets sl_front_env.h2.
 */
#ifndef SL_FRONT_H2_H
#define SL_FRONT_H2_H

#include "front/front.h"

struct sl_h2_env;

struct sl_h2_config {
	uint32_t max_connections;
	uint32_t max_streams;
	uint32_t max_calls; /* health watches and reflection */
	uint32_t max_calls_per_source;
	uint32_t max_watches;
	uint32_t sources;     /* upper bound of `source` in sl_front_ops.open */
	uint64_t memory;      /* all sessions */
	uint64_t conn_memory; /* one session */
	uint32_t stream_window, conn_window;
};
/* Sets the default limits. */
void sl_h2_config_default(struct sl_h2_config *cfg);

/* Returns NULL without memory. `limits` must outlive the result. */
struct sl_h2_env *sl_h2_env_create(const struct sl_h2_config *cfg,
				   const struct sl_front_limits *limits);
/* Frees e (may be NULL). All connections must be closed. */
void sl_h2_env_destroy(struct sl_h2_env *e);

/* Sends changes of sl_front_env.serving to health watches. Must not be called within a front. */
void sl_h2_env_serving_changed(struct sl_h2_env *e);

struct sl_h2_stats {
	uint32_t connections, streams, calls;
	uint64_t memory;
	uint64_t heads_put_off;
};
/* Copies the counters. */
void sl_h2_env_stats(const struct sl_h2_env *e, struct sl_h2_stats *out);

#endif
