/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten minutes of each pool and backend, a sample a second.
 *
 * Samples outlast a reload, by name. Control thread.
 */
#ifndef SL_CONTROL_HISTORY_H
#define SL_CONTROL_HISTORY_H

#include <jansson.h>

#include "base/strbuf.h"
#include "gateway/gateway.h"

enum { SL_HISTORY_LEN = 600, SL_HISTORY_BACKENDS = 1024 /* others have none */ };

struct sl_history;

/* Returns an empty history, or NULL without memory. */
struct sl_history *sl_history_new(void);
/* h may be NULL. */
void sl_history_free(struct sl_history *h);
/* Takes a sample; called once a second. */
void sl_history_tick(struct sl_history *h, struct sl_gateway *g, uint64_t now_ns);

/* Writes {"length": N, "pools": [...], "backends": [...]}, with arrays, oldest first. */
void sl_history_write(const struct sl_history *h, struct sl_strbuf *b);
/*
 * Return the mean of the last seconds: rates per second, latencies in nanoseconds. The caller
 * decrefs it. NULL: no samples.
 */
json_t *sl_history_pool(struct sl_history *h, const char *pool, uint32_t seconds);
json_t *sl_history_backend(struct sl_history *h, const char *pool, const char *backend,
			   uint32_t seconds);

#endif
