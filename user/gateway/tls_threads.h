/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for TLS handshakes.
 *
 *   worker --in ring--> thread --out ring--> worker        a pair per (thread, worker)
 *
 * A thread runs handshakes in this order: in progress, with a known ticket, of addresses with few
 * handshakes, others. It has a tenth of a processor (base/fair_share.h) at nice 10; beyond that it
 * runs at SCHED_IDLE.
 */
#ifndef SL_GATEWAY_TLS_THREADS_H
#define SL_GATEWAY_TLS_THREADS_H

#include "front/tls/tls.h"

enum { SL_TLS_THREAD_NICE = 10, SL_TLS_THREAD_RLIMIT = 20 - SL_TLS_THREAD_NICE };

struct sl_tls_threads;
struct sl_worker;

/* Starts no thread. Returns NULL without memory or descriptors. Control thread, as all here. */
struct sl_tls_threads *sl_tls_threads_new(const struct sl_config *cfg, struct sl_worker *workers,
					  unsigned worker_cnt);
/* Starts the threads if a listener has TLS and they do not run. Returns 0 or -errno. */
int sl_tls_threads_start(struct sl_tls_threads *h, const struct sl_config *cfg);
/* Stops the threads. The workers must free remaining handshakes. h may be NULL. */
void sl_tls_threads_stop(struct sl_tls_threads *h);
/* Frees the stopped threads and their rings. h may be NULL. */
void sl_tls_threads_free(struct sl_tls_threads *h);

/* Sets the worker's functions in `cfg`, before sl_tls_create(). */
void sl_tls_threads_join(struct sl_tls_threads *h, unsigned worker, struct sl_tls_config *cfg);

#endif
