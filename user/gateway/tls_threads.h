/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for TLS handshakes, which would delay requests of a worker.
 *
 *   worker --in ring--> thread --out ring--> worker        a pair per (thread, worker)
 *
 * Rings never overflow: each has room for all handshakes of its worker. A thread runs handshakes in
 * this order: those in progress, those with a known ticket, those of addresses with few handshakes,
 * others. Every ninth is one of the others.
 *
 * A thread has a share of a tenth of a processor (base/fair_share.h) at nice 10. Beyond that share it
 * runs at SCHED_IDLE.
 */
#ifndef SL_GATEWAY_TLS_THREADS_H
#define SL_GATEWAY_TLS_THREADS_H

#include "front/tls/tls.h"

/* The RLIMIT_NICE is needed to leave SCHED_IDLE. */
enum { SL_TLS_THREAD_NICE = 10, SL_TLS_THREAD_RLIMIT = 20 - SL_TLS_THREAD_NICE };

struct sl_tls_threads;
struct sl_worker;

/* Starts no thread. Returns NULL without memory. */
struct sl_tls_threads *sl_tls_threads_new(const struct sl_config *cfg, struct sl_worker *workers,
					  unsigned worker_cnt);
/* Starts the threads if a listener has TLS and they do not run yet. Returns 0 or -errno. */
int sl_tls_threads_start(struct sl_tls_threads *h, const struct sl_config *cfg);
/* Stops the threads. The workers must free remaining handshakes. */
void sl_tls_threads_stop(struct sl_tls_threads *h);
void sl_tls_threads_free(struct sl_tls_threads *h);

/* Fills in the callbacks of a worker. */
void sl_tls_threads_join(struct sl_tls_threads *h, unsigned worker, struct sl_tls_config *cfg);

#endif
