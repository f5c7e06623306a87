/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last ten minutes of each pool and backend, one sample a second, for the dashboard and for the
 * rates of `sluice status`.
 *
 *   counters of workers --difference once a second--> ring of samples --> /history, /stats
 *
 * Pools and backends keep their samples over a reload by their names. Control thread.
 */
#ifndef SL_CONTROL_HISTORY_H
#define SL_CONTROL_HISTORY_H

#include <jansson.h>

#include "base/strbuf.h"
#include "gateway/gateway.h"

enum { SL_HISTORY_LEN = 600, SL_HISTORY_BACKENDS = 1024 /* further ones have none */ };

struct sl_history;

/* Returns an empty history, or NULL. */
struct sl_history *sl_history_new(void);
/* h may be NULL. */
void sl_history_free(struct sl_history *h);
/* Takes a sample. Called once a second. */
void sl_history_tick(struct sl_history *h, struct sl_gateway *g, uint64_t now_ns);

/* Writes {"seconds": N, "pools": [...], "backends": [...]}, each with arrays, oldest first. */
void sl_history_write(const struct sl_history *h, struct sl_strbuf *b);
/*
 * Return the mean of the last seconds as an object, for the caller to decref, or NULL: rates per
 * second, and latencies in nanoseconds.
 */
json_t *sl_history_pool(struct sl_history *h, const char *pool, uint32_t seconds);
json_t *sl_history_backend(struct sl_history *h, const char *pool, const char *backend,
			   uint32_t seconds);

#endif
