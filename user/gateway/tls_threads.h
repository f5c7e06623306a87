/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for handshakes of TLS, beside the workers: a full one would stall a hundred requests.
 *
 *   worker --todo ring--> thread --done ring--> worker        a pair for each (thread, worker)
 *
 * No ring is ever full: each has room for all handshakes of its worker. A thread serves those that
 * are on their way first, then those with a ticket of ours, then new ones, of addresses with few of
 * them before the others; of eight one is of those others, so that nobody waits for ever.
 *
 * A thread is owed a tenth of a processor (base/fair_share.h), which it takes beside everybody else, at
 * nice 10. What it needs beyond that it takes at SCHED_IDLE, of processors that nobody else wants:
 * there a worker that wakes has the processor at once, however many handshakes wait, and where
 * nothing is left, new clients still get their tenth.
 */
#ifndef SL_GATEWAY_TLS_THREADS_H
#define SL_GATEWAY_TLS_THREADS_H

#include "front/tls/tls.h"

/* And the limit of nice that the process needs for it. */
enum { SL_TLS_THREAD_NICE = 10, SL_TLS_THREAD_RLIMIT = 20 - SL_TLS_THREAD_NICE };

struct sl_tls_threads;
struct sl_worker;

/* Rings, and no thread yet. NULL: no memory. */
struct sl_tls_threads *sl_tls_threads_new(const struct sl_config *cfg, struct sl_worker *workers,
					  unsigned worker_cnt);
/* Once a listener has TLS; what runs already stays. 0 or -errno. */
int sl_tls_threads_start(struct sl_tls_threads *h, const struct sl_config *cfg);
/* Ends the threads; what they have stays the workers', to be freed by them. */
void sl_tls_threads_stop(struct sl_tls_threads *h);
void sl_tls_threads_free(struct sl_tls_threads *h);

/* What a worker's connections take to reach them. */
void sl_tls_threads_join(struct sl_tls_threads *h, unsigned worker, struct sl_tls_config *cfg);

#endif
