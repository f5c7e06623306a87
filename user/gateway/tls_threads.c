/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tls_threads.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/fair_share.h"
#include "sandbox/sandbox.h"
#include "worker/worker.h"

enum { RING_LEN = 4096, NEW_EACH = 8, WAKE_DELAY_NS = 500000 };

enum hs_rank { UNDER_WAY, WITH_TICKET, OF_FEW, NEW, RANK_CNT };

struct tls_thread {
	struct sl_tls_threads *all;
	unsigned index;
	pthread_t id;
	bool started;
	int wake_fd;
	_Atomic bool asleep;
	struct sl_list todo[RANK_CNT];
	unsigned served;
	struct sl_fair_share share;
	bool may_idle, idle;
	struct sl_ring *in[SL_MAX_WORKERS], *out[SL_MAX_WORKERS];
	uint64_t unsignaled_ns[SL_MAX_WORKERS]; /* first result without a wake-up; 0: none */
};

struct tls_queue {
	struct sl_tls_threads *all;
	unsigned worker, next;
};

struct sl_tls_threads {
	struct sl_worker *workers;
	unsigned worker_cnt, thread_cnt;
	bool running;
	_Atomic bool stopping;
	struct tls_queue queues[SL_MAX_WORKERS];
	struct tls_thread threads[SL_CFG_MAX_HANDSHAKE_THREADS];
};

static bool put_hs(struct sl_ring *r, struct sl_tls_hs *hs)
{
	return sl_ring_put(r, (uint64_t)(uintptr_t)hs);
}

static struct sl_tls_hs *get_hs(struct sl_ring *r)
{
	uint64_t v;

	return sl_ring_get(r, &v) ? (struct sl_tls_hs *)(uintptr_t)v : NULL;
}

static bool submit_hs(void *arg, struct sl_tls_hs *hs)
{
	struct tls_queue *p = arg;
	struct sl_tls_threads *all = p->all;
	unsigned cnt = sl_tls_server_threads(hs->server);
	struct tls_thread *t;
	uint64_t one = 1;

	if (!all->running)
		return false;
	if (!hs->begun && !hs->ssl)
		hs->thread = (uint8_t)(p->next++ % (cnt < all->thread_cnt ? cnt : all->thread_cnt));
	t = &all->threads[hs->thread];
	if (!put_hs(t->in[p->worker], hs))
		return false;
	/* Pairs with the fence of the thread, which sets asleep before it checks for work. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&t->asleep, memory_order_relaxed) &&
	    write(t->wake_fd, &one, sizeof(one)) < 0)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "cannot wake handshakes: %d", errno);
	return true;
}

static unsigned collect_hs(void *arg, struct sl_tls *tls)
{
	struct tls_queue *p = arg;
	unsigned n = 0;

	for (unsigned i = 0; i < p->all->thread_cnt; i++) {
		struct sl_ring *ring = p->all->threads[i].out[p->worker];
		struct sl_tls_hs *hs;

		for (; (hs = get_hs(ring)); n++)
			sl_tls_result(tls, hs);
	}
	return n;
}

void sl_tls_threads_join(struct sl_tls_threads *h, unsigned worker, struct sl_tls_config *cfg)
{
	h->queues[worker] = (struct tls_queue){.all = h, .worker = worker};
	cfg->submit = submit_hs;
	cfg->collect = collect_hs;
	cfg->arg = &h->queues[worker];
}

static enum hs_rank rank_of(struct sl_tls_hs *hs)
{
	uint8_t name[16];

	if (hs->begun || hs->step == SL_TLS_LEFT)
		return UNDER_WAY;
	if (hs->ticket && sl_tls_hello_ticket(sl_span_of(hs->in, hs->in_len), name) &&
	    sl_tls_tickets_know(sl_tls_server_tickets(hs->server), name))
		return WITH_TICKET;
	return hs->few ? OF_FEW : NEW;
}

static bool run_next(struct tls_thread *t)
{
	struct sl_list *next = NULL;
	struct sl_tls_hs *hs;
	bool new_is_due;
	unsigned w;

	for (unsigned i = 0; i < t->all->worker_cnt; i++) {
		while ((hs = get_hs(t->in[i]))) {
			hs->worker = (uint8_t)i;
			sl_list_add_tail(&t->todo[rank_of(hs)], &hs->link);
		}
	}
	new_is_due = t->served >= NEW_EACH && !sl_list_empty(&t->todo[NEW]);
	for (unsigned r = new_is_due ? NEW : 0; r < RANK_CNT && !next; r++) {
		next = sl_list_pop_head(&t->todo[r]);
		if (next)
			t->served = r == NEW ? 0 : t->served + 1;
	}
	if (!next)
		return false;
	hs = sl_container_of(next, struct sl_tls_hs, link);
	if (atomic_load_explicit(&hs->gone, memory_order_relaxed))
		hs->step = SL_TLS_LEFT;
	if (hs->step == SL_TLS_LEFT)
		sl_tls_hs_end(hs);
	else
		sl_tls_hs_step(hs, sl_now_ns());
	sl_list_init(&hs->link);
	w = hs->worker; /* the worker owns hs after put_hs() */
	if (!t->unsignaled_ns[w])
		t->unsignaled_ns[w] = sl_now_ns();
	(void)put_hs(t->out[w], hs); /* RING_LEN is the limit of a worker's handshakes */
	return true;
}

static bool has_work(const struct tls_thread *t)
{
	for (unsigned r = 0; r < RANK_CNT; r++) {
		if (!sl_list_empty(&t->todo[r]))
			return true;
	}
	for (unsigned w = 0; w < t->all->worker_cnt; w++) {
		if (sl_ring_count(t->in[w]))
			return true;
	}
	return atomic_load(&t->all->stopping);
}

/*
 * Wakes workers with finished handshakes; while more wait, up to WAKE_DELAY_NS later: a worker on
 * this processor preempts this thread.
 */
static void wake_workers(struct tls_thread *t, bool more)
{
	uint64_t now_ns = sl_now_ns(), one = 1;

	for (unsigned w = 0; w < t->all->worker_cnt; w++) {
		if (!t->unsignaled_ns[w] || (more && now_ns - t->unsignaled_ns[w] < WAKE_DELAY_NS))
			continue;
		t->unsignaled_ns[w] = 0;
		if (sl_ring_count(t->out[w]) &&
		    write(t->all->workers[w].wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "cannot wake worker %u: %d", w,
				     errno);
	}
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void set_sched_class(struct tls_thread *t, bool has_credit)
{
	const struct sched_param none = {0};

	if (!t->may_idle || t->idle == !has_credit)
		return;
	if (sched_setscheduler(0, has_credit ? SCHED_OTHER : SCHED_IDLE, &none) == 0)
		t->idle = !has_credit;
	else
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "handshakes cannot change their class: %d",
			     errno);
}

static void lower_priority(struct tls_thread *t, const char *name)
{
	struct rlimit nice = {0};

	if (setpriority(PRIO_PROCESS, (id_t)gettid(), SL_TLS_THREAD_NICE) != 0)
		sl_log_warn("%s: cannot lower its priority: errno %d", name, errno);
	getrlimit(RLIMIT_NICE, &nice);
	t->may_idle = nice.rlim_cur >= SL_TLS_THREAD_RLIMIT;
	/* INVOCATION_ID: started by a systemd unit, which can raise the limit. */
	if (!t->may_idle)
		sl_log_at(getenv("INVOCATION_ID") ? SL_LOG_WARN : SL_LOG_DEBUG,
			  "%s: uses nice %d, not SCHED_IDLE: RLIMIT_NICE is %llu, expected %d "
			  "(LimitNICE=%d)",
			  name, SL_TLS_THREAD_NICE, (unsigned long long)nice.rlim_cur,
			  SL_TLS_THREAD_RLIMIT, SL_TLS_THREAD_RLIMIT);
	sl_fair_share_update(&t->share, sl_now_ns(), thread_cpu_ns());
}

static void *thread_main(void *arg)
{
	struct tls_thread *t = arg;
	char name[16];

	snprintf(name, sizeof(name), "handshake-%u", t->index);
	sl_thread_name_set(name);
	if (mallopt(M_TRIM_THRESHOLD, INT_MAX) != 1)
		sl_log_warn("%s: cannot keep freed memory", name);
	lower_priority(t, name);
	sl_sandbox_thread(SL_THREAD_HANDSHAKE);
	while (!atomic_load_explicit(&t->all->stopping, memory_order_relaxed)) {
		if (run_next(t)) {
			wake_workers(t, has_work(t));
			set_sched_class(
				t, sl_fair_share_update(&t->share, sl_now_ns(), thread_cpu_ns()));
		} else {
			uint64_t count;

			atomic_store_explicit(&t->asleep, true, memory_order_relaxed);
			atomic_thread_fence(memory_order_seq_cst);
			if (!has_work(t) && read(t->wake_fd, &count, sizeof(count)) < 0 &&
			    errno != EINTR)
				SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR,
					     "handshakes cannot wait: %d", errno);
			atomic_store_explicit(&t->asleep, false, memory_order_relaxed);
			sl_fair_share_begin(&t->share, sl_now_ns(), thread_cpu_ns());
			set_sched_class(t, t->share.credit_ns > 0);
		}
	}
	wake_workers(t, false);
	return NULL;
}

static unsigned threads_needed(const struct sl_config *cfg, bool *any)
{
	unsigned most = 1;

	*any = false;
	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const struct sl_cfg_tls *t = cfg->listeners[i].tls;

		*any = *any || t;
		if (t && t->handshake_threads > most)
			most = t->handshake_threads;
	}
	return most;
}

struct sl_tls_threads *sl_tls_threads_new(const struct sl_config *cfg, struct sl_worker *workers,
					  unsigned worker_cnt)
{
	struct sl_tls_threads *h = calloc(1, sizeof(*h));
	unsigned cnt;
	bool any;

	if (!h)
		return NULL;
	h->workers = workers;
	h->worker_cnt = worker_cnt;
	cnt = threads_needed(cfg, &any);
	while (h->thread_cnt < cnt) {
		struct tls_thread *t = &h->threads[h->thread_cnt];
		bool ok;

		t->all = h;
		t->index = h->thread_cnt++;
		t->wake_fd = eventfd(0, EFD_CLOEXEC);
		ok = t->wake_fd >= 0;
		for (unsigned r = 0; r < RANK_CNT; r++)
			sl_list_init(&t->todo[r]);
		for (unsigned w = 0; w < worker_cnt && ok; w++) {
			t->in[w] = sl_ring_new(RING_LEN);
			t->out[w] = sl_ring_new(RING_LEN);
			ok = t->in[w] && t->out[w];
		}
		if (!ok) {
			sl_tls_threads_free(h);
			return NULL;
		}
	}
	return h;
}

int sl_tls_threads_start(struct sl_tls_threads *h, const struct sl_config *cfg)
{
	bool any;
	int rc = 0;

	threads_needed(cfg, &any);
	if (!any || h->running)
		return 0;
	for (unsigned i = 0; i < h->thread_cnt && !rc; i++) {
		struct tls_thread *t = &h->threads[i];

		rc = t->started ? 0 : sl_thread_start(&t->id, thread_main, t);
		t->started = !rc;
	}
	h->running = !rc;
	return rc;
}

void sl_tls_threads_stop(struct sl_tls_threads *h)
{
	uint64_t one = 1;

	if (!h)
		return;
	atomic_store(&h->stopping, true);
	h->running = false;
	for (unsigned i = 0; i < h->thread_cnt; i++) {
		struct tls_thread *t = &h->threads[i];

		if (t->started && write(t->wake_fd, &one, sizeof(one)) == sizeof(one))
			pthread_join(t->id, NULL);
		t->started = false;
	}
}

void sl_tls_threads_free(struct sl_tls_threads *h)
{
	if (!h)
		return;
	for (unsigned i = 0; i < h->thread_cnt; i++) {
		for (unsigned w = 0; w < h->worker_cnt; w++) {
			sl_ring_free(h->threads[i].in[w]);
			sl_ring_free(h->threads[i].out[w]);
		}
		if (h->threads[i].wake_fd >= 0)
			close(h->threads[i].wake_fd);
	}
	free(h);
}
