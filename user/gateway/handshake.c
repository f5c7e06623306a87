/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/handshake.h"

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

enum { RING = 4096, NEW_EACH = 8, TELL_NS = 500000 };

/* Whom a thread serves first. */
enum rank { UNDER_WAY, WITH_TICKET, OF_FEW, NEW, RANK_CNT };

struct thread {
	struct sl_handshakers *all;
	unsigned index;
	pthread_t id;
	bool started;
	int wake_fd;
	_Atomic bool asleep;
	struct sl_list todo[RANK_CNT];
	unsigned served; /* since the last new one */
	struct sl_fair_share share;
	bool may_idle, idle; /* SCHED_IDLE, and back again */
	struct sl_ring *in[SL_MAX_WORKERS], *out[SL_MAX_WORKERS];
	uint64_t untold_ns[SL_MAX_WORKERS]; /* when `out` got what is not told yet; 0: nothing */
};

/* What a worker submits to. */
struct port {
	struct sl_handshakers *all;
	unsigned worker, next; /* thread for the next handshake */
};

struct sl_handshakers {
	struct sl_worker *workers;
	unsigned worker_cnt, thread_cnt;
	bool running;
	_Atomic bool stopping;
	struct port ports[SL_MAX_WORKERS];
	struct thread threads[SL_CFG_MAX_HANDSHAKE_THREADS];
};

static bool put(struct sl_ring *r, struct sl_tls_hs *hs)
{
	return sl_ring_put(r, (uint64_t)(uintptr_t)hs);
}

/* NULL: empty. */
static struct sl_tls_hs *get(struct sl_ring *r)
{
	uint64_t v;

	return sl_ring_get(r, &v) ? (struct sl_tls_hs *)(uintptr_t)v : NULL;
}

/* --- the worker's side --- */

static bool submit(void *arg, struct sl_tls_hs *hs)
{
	struct port *p = arg;
	struct sl_handshakers *all = p->all;
	unsigned cnt = sl_tls_server_threads(hs->server);
	struct thread *t;
	uint64_t one = 1;

	if (!all->running)
		return false;
	if (!hs->begun && !hs->ssl)
		hs->thread = (uint8_t)(p->next++ % (cnt < all->thread_cnt ? cnt : all->thread_cnt));
	t = &all->threads[hs->thread];
	if (!put(t->in[p->worker], hs))
		return false;
	/* As it says that it sleeps before it looks once more. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&t->asleep, memory_order_relaxed) &&
	    write(t->wake_fd, &one, sizeof(one)) < 0)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "cannot wake handshakes: %d", errno);
	return true;
}

static unsigned collect(void *arg, struct sl_tls *tls)
{
	struct port *p = arg;
	unsigned n = 0;

	for (unsigned i = 0; i < p->all->thread_cnt; i++) {
		struct sl_ring *ring = p->all->threads[i].out[p->worker];
		struct sl_tls_hs *hs;

		for (; (hs = get(ring)); n++)
			sl_tls_result(tls, hs);
	}
	return n;
}

void sl_handshakers_join(struct sl_handshakers *h, unsigned worker, struct sl_tls_config *cfg)
{
	h->ports[worker] = (struct port){.all = h, .worker = worker};
	cfg->submit = submit;
	cfg->collect = collect;
	cfg->arg = &h->ports[worker];
}

/* --- the thread --- */

static enum rank rank_of(struct sl_tls_hs *hs)
{
	uint8_t name[16];

	if (hs->begun || hs->step == SL_TLS_LEFT)
		return UNDER_WAY;
	if (hs->ticket && sl_tls_hello_ticket(sl_span_of(hs->in, hs->in_len), name) &&
	    sl_tls_tickets_know(sl_tls_server_tickets(hs->server), name))
		return WITH_TICKET;
	return hs->few ? OF_FEW : NEW;
}

static bool work(struct thread *t)
{
	struct sl_list *next = NULL;
	struct sl_tls_hs *hs;
	bool turn_of_new;
	unsigned w;

	for (unsigned i = 0; i < t->all->worker_cnt; i++) {
		while ((hs = get(t->in[i]))) {
			hs->worker = (uint8_t)i; /* which it is of goes along with it */
			sl_list_add_tail(&t->todo[rank_of(hs)], &hs->link);
		}
	}
	turn_of_new = t->served >= NEW_EACH && !sl_list_empty(&t->todo[NEW]);
	for (unsigned r = turn_of_new ? NEW : 0; r < RANK_CNT && !next; r++) {
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
	w = hs->worker; /* afterwards it is that one's */
	if (!t->untold_ns[w])
		t->untold_ns[w] = sl_now_ns();
	(void)put(t->out[w], hs); /* there is room: RING */
	return true;
}

static bool has_work(const struct thread *t)
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
 * Wakes workers for their results. One that shares the thread's processor takes it away each time, so
 * while there is more to do a result waits for the next, but not for long.
 */
static void tell(struct thread *t, bool more)
{
	uint64_t now_ns = sl_now_ns(), one = 1;

	for (unsigned w = 0; w < t->all->worker_cnt; w++) {
		if (!t->untold_ns[w] || (more && now_ns - t->untold_ns[w] < TELL_NS))
			continue;
		t->untold_ns[w] = 0;
		if (sl_ring_count(t->out[w]) &&
		    write(t->all->workers[w].wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "cannot wake worker %u: %d", w,
				     errno);
	}
}

static uint64_t used_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Beside everybody else while it has credit, behind them without. */
static void take_class(struct thread *t, bool has_credit)
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

/* To leave SCHED_IDLE again takes the right to what it was before. */
static void give_way(struct thread *t, const char *name)
{
	struct rlimit nice = {0};

	if (setpriority(PRIO_PROCESS, (id_t)gettid(), SL_HANDSHAKE_NICE) != 0)
		sl_log_warn("%s: cannot give way to workers: errno %d", name, errno);
	getrlimit(RLIMIT_NICE, &nice);
	t->may_idle = nice.rlim_cur >= SL_HANDSHAKE_RLIMIT;
	/* INVOCATION_ID: systemd has started this, whose unit can raise the limit. */
	if (!t->may_idle)
		sl_log_at(getenv("INVOCATION_ID") ? SL_LOG_WARN : SL_LOG_DEBUG,
			  "%s: gives way by nice %d only: the limit of nice is %llu, expected %d "
			  "(LimitNICE=%d)",
			  name, SL_HANDSHAKE_NICE, (unsigned long long)nice.rlim_cur,
			  SL_HANDSHAKE_RLIMIT, SL_HANDSHAKE_RLIMIT);
	sl_fair_share_update(&t->share, sl_now_ns(), used_ns());
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	char name[16];

	snprintf(name, sizeof(name), "handshake-%u", t->index);
	sl_thread_name_set(name);
	if (mallopt(M_TRIM_THRESHOLD, INT_MAX) != 1) /* it opens a file of /proc before it trims */
		sl_log_warn("%s: cannot keep freed memory", name);
	give_way(t, name);
	sl_sandbox_thread(SL_THREAD_HANDSHAKE);
	while (!atomic_load_explicit(&t->all->stopping, memory_order_relaxed)) {
		if (work(t)) {
			tell(t, has_work(t));
			take_class(t, sl_fair_share_update(&t->share, sl_now_ns(), used_ns()));
		} else {
			uint64_t count;

			atomic_store_explicit(&t->asleep, true, memory_order_relaxed);
			atomic_thread_fence(memory_order_seq_cst);
			if (!has_work(t) && read(t->wake_fd, &count, sizeof(count)) < 0 &&
			    errno != EINTR)
				SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR,
					     "handshakes cannot wait: %d", errno);
			atomic_store_explicit(&t->asleep, false, memory_order_relaxed);
			sl_fair_share_begin(&t->share, sl_now_ns(), used_ns());
			take_class(t, t->share.credit_ns > 0);
		}
	}
	tell(t, false);
	return NULL;
}

/* --- starting and stopping --- */

static unsigned wanted(const struct sl_config *cfg, bool *any)
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

struct sl_handshakers *sl_handshakers_new(const struct sl_config *cfg, struct sl_worker *workers,
					  unsigned worker_cnt)
{
	struct sl_handshakers *h = calloc(1, sizeof(*h));
	unsigned cnt;
	bool any;

	if (!h)
		return NULL;
	h->workers = workers;
	h->worker_cnt = worker_cnt;
	cnt = wanted(cfg, &any);
	while (h->thread_cnt < cnt) {
		struct thread *t = &h->threads[h->thread_cnt];
		bool ok;

		t->all = h;
		t->index = h->thread_cnt++;
		t->wake_fd = eventfd(0, EFD_CLOEXEC);
		ok = t->wake_fd >= 0;
		for (unsigned r = 0; r < RANK_CNT; r++)
			sl_list_init(&t->todo[r]);
		for (unsigned w = 0; w < worker_cnt && ok; w++) {
			t->in[w] = sl_ring_new(RING);
			t->out[w] = sl_ring_new(RING);
			ok = t->in[w] && t->out[w];
		}
		if (!ok) {
			sl_handshakers_free(h);
			return NULL;
		}
	}
	return h;
}

int sl_handshakers_start(struct sl_handshakers *h, const struct sl_config *cfg)
{
	bool any;
	int rc = 0;

	wanted(cfg, &any);
	if (!any || h->running)
		return 0;
	for (unsigned i = 0; i < h->thread_cnt && !rc; i++) {
		struct thread *t = &h->threads[i];

		rc = t->started ? 0 : sl_thread_start(&t->id, thread_main, t);
		t->started = !rc;
	}
	h->running = !rc;
	return rc;
}

void sl_handshakers_stop(struct sl_handshakers *h)
{
	uint64_t one = 1;

	if (!h)
		return;
	atomic_store(&h->stopping, true);
	h->running = false;
	for (unsigned i = 0; i < h->thread_cnt; i++) {
		struct thread *t = &h->threads[i];

		if (t->started && write(t->wake_fd, &one, sizeof(one)) == sizeof(one))
			pthread_join(t->id, NULL);
		t->started = false;
	}
}

void sl_handshakers_free(struct sl_handshakers *h)
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
