/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing, off the data path: whoever closes a connection puts it on a list, and a thread of ours
 * does what blocks. The same thread hears what devices have to tell (event.c), makes ahead what the
 * next connection will need (arena.h), and moves windows (home.h).
 *
 *   last words   what was posted right before close() gets a moment to be acknowledged
 *   quiet        queue pair in error: the device lets go of the owner's memory and shared slots
 *   gone         slots back in the shared queue, everything freed
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "rpc/verbs/verbs.h"

enum {
	WORDS_MS = 50,
	QUIET_MS = 5,       /* for devices that do not say when they are done with shared slots */
	LAST_WQE_MS = 1000, /* for those that do */
	FLUSH_MS = 1,
	FILL_MS = 20, /* behind a connection, whose first requests go first */
	WATCH_MS = 2, /* of six times as long an honest peer waits for a slot */
	DRAIN = 16,
};

static struct {
	pthread_rwlock_t work; /* held for reading while threads work; taken before the lock */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int epoll_fd, wake, timer; /* timer: of fill_ns */
	struct sl_list closing;
	bool runs, forks_seen; /* the thread; in_child() is called after a fork */
	bool fill, filling;    /* homes want to be looked at; are being */
	uint64_t fill_ns;      /* when */
	uint64_t watch_ns;     /* when queues of slots are watched again; 0: they are */
	uint64_t share_ns;     /* when windows are looked at; 0: when somebody asks for it */
	unsigned left;
} closer = {
	.work = PTHREAD_RWLOCK_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.epoll_fd = -1,
	.wake = -1,
	.timer = -1,
	.idle = PTHREAD_COND_INITIALIZER,
	.closing = {&closer.closing, &closer.closing},
};

/* The device has nothing to do with it any more. */
static void free_memory(struct sl_verbs *v)
{
	if (v->home) {
		struct vb_arena *a = vb_home_arena(v->home);

		if (v->mem_mr)
			vb_arena_unshare(a, v->mem_mr);
		if (v->slab)
			vb_arena_put(a, v->slab, v->bulk_len);
	} else {
		struct ibv_mr *mine[] = {v->mem_mr, v->bulk_mr, v->ring_mr, v->keys_mr};

		for (unsigned i = 0; i < SL_ARRAY_LEN(mine); i++) {
			if (mine[i])
				ibv_dereg_mr(mine[i]);
		}
		if (v->map)
			munmap(v->map, v->map_len);
	}
	free(v->inbox.of);
	free(v->posted);
	free(v->rx_bulk_end);
	free(v->rx_slot);
	free(v->borrowed);
}

static int change_state(struct sl_verbs *v, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(v->end.qp, &attr, IBV_QP_STATE);
}

static void destroy_queue_pair(struct sl_verbs *v)
{
	struct vb_arrival a;
	uint32_t from;

	if (v->desk)
		vb_desk_part(v->desk, v);
	/* One that is reset is one that the device has let go of as well. */
	if (v->leash && vb_leash_keeps(v->leash, v->end.qp)) {
		(void)change_state(v, IBV_QPS_RESET);
	} else {
		if (v->leash && v->leash->id->qp == v->end.qp)
			v->leash->id->qp = NULL;
		if (v->end.qp)
			ibv_destroy_qp(v->end.qp);
		v->end.qp = NULL;
	}
	if (!v->desk)
		return;
	vb_desk_leave(v->desk, v);
	/* Slots of what has come and nobody took. */
	while (vb_inbox_next(&v->inbox, &a))
		vb_give_back(v, &a);
	/* And the slots of messages that were taken and not released. */
	for (from = v->put_back; v->rx_slot && from != v->rx_next; from++)
		(void)vb_home_post(v->home, &v->rx_slot[from & v->slot_mask], 1);
}

void vb_free(struct sl_verbs *v)
{
	vb_events_close(v);
	if (v->end.mw)
		ibv_dealloc_mw(v->end.mw);
	v->end.mw = NULL;
	destroy_queue_pair(v);
	free_memory(v);
	if (v->leash)
		vb_leash_park(v->leash, v);
	vb_end_free(&v->end);
	if (v->home)
		vb_home_leave(v->home, v->window);
	else if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->leash)
		vb_leash_put(v->leash);
	if (v->base.fd >= 0)
		close(v->base.fd);
	free(v);
}

/*
 * In error the device flushes what it has in the order of the queue, so that it is done with all
 * when it comes to this one. False: no word of it in time.
 */
static bool flush_sends(struct sl_verbs *v)
{
	struct ibv_send_wr last = {
		.wr_id = VB_ID_LAST, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	uint64_t until_ns = sl_now_ns() + FLUSH_MS * SL_NS_PER_MS;
	struct ibv_wc wc[DRAIN];
	int n;

	if (vb_post_chain(v->end.qp, &last))
		return false;
	do {
		n = ibv_poll_cq(v->end.tx_cq, DRAIN, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id == VB_ID_LAST)
				return true;
		}
	} while (n >= 0 && sl_now_ns() < until_ns);
	return false;
}

/*
 * A queue pair that is reset is one that the device has let go of when the call returns; receives
 * that it was about to report are lost, and their shared slots with them. If even that fails the
 * device is gone, and has no way into our memory any more.
 */
void vb_halt(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);

	vb_progress(t);
	/* Slices of a batch are lent before its cookie is. */
	if (v->lent_to == v->reaped)
		return;
	v->gone = v->broken = true;
	v->chain_len = v->piece_cnt = 0;
	if (change_state(v, IBV_QPS_ERR) == 0 && flush_sends(v))
		return;
	if (v->home)
		vb_home_spoil(v->home);
	v->ready = false;
	(void)change_state(v, IBV_QPS_RESET);
}

/* A device that has not said that it is done may still have a slot: it is lost. */
static bool is_quiet(struct sl_verbs *v, uint64_t now_ns)
{
	if (v->last_receive)
		return true;
	if (now_ns < v->until_ns)
		return false;
	if (v->home && v->ready && vb_home_tells(v->home))
		vb_home_spoil(v->home);
	return true;
}

/*
 * The connection manager tells the peer of the last connection only. So each says it itself, by an
 * empty message behind all others.
 */
static void say_bye(struct sl_verbs *v)
{
	struct ibv_send_wr bye = {
		.wr_id = VB_ID_BYE, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (v->bye || v->gone || !v->ready)
		return;
	v->bye = vb_post_chain(v->end.qp, &bye) ? VB_BYE_DONE : VB_BYE_SAID;
}

/* True once there is nothing more to wait for. */
static bool advance(struct sl_verbs *v, uint64_t now_ns)
{
	unsigned quiet_ms = 0;

	if (!v->quieting) {
		say_bye(v);
		if (!v->gone && (v->signalled || v->bye == VB_BYE_SAID))
			vb_progress(&v->base);
		if (!v->gone && (v->signalled || v->bye == VB_BYE_SAID) && now_ns < v->until_ns)
			return false;
		if (v->home && v->ready)
			quiet_ms = vb_home_tells(v->home) ? LAST_WQE_MS : QUIET_MS;
		vb_leash_end(v->leash);
		if (v->end.qp)
			(void)change_state(v, IBV_QPS_ERR);
		v->quieting = true;
		v->until_ns = now_ns + quiet_ms * SL_NS_PER_MS;
	}
	(void)vb_check(&v->base);
	return is_quiet(v, now_ns);
}

/* The list is taken as it is; what comes meanwhile has its turn next time. */
static void close_some(void)
{
	struct sl_list mine, *at, *next;
	unsigned done = 0;

	pthread_mutex_lock(&closer.lock);
	sl_list_init(&mine);
	while ((at = sl_list_pop_head(&closer.closing)))
		sl_list_add_tail(&mine, at);
	pthread_mutex_unlock(&closer.lock);
	sl_list_for_each_safe (at, next, &mine) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, closing);

		if (!advance(v, sl_now_ns()))
			continue;
		sl_list_del(&v->closing);
		vb_free(v);
		done++;
	}
	pthread_mutex_lock(&closer.lock);
	while ((at = sl_list_pop_head(&mine)))
		sl_list_add_tail(&closer.closing, at);
	closer.left -= done;
	if (!closer.left)
		pthread_cond_broadcast(&closer.idle);
	pthread_mutex_unlock(&closer.lock);
}

static void fill_homes(void)
{
	bool wanted;

	pthread_mutex_lock(&closer.lock);
	wanted = closer.fill && sl_now_ns() >= closer.fill_ns;
	closer.fill &= !wanted;
	closer.filling = wanted;
	pthread_mutex_unlock(&closer.lock);
	if (!wanted)
		return;
	vb_homes_fill();
	pthread_mutex_lock(&closer.lock);
	closer.filling = false;
	pthread_cond_broadcast(&closer.idle);
	pthread_mutex_unlock(&closer.lock);
}

void vb_work_begin(void)
{
	pthread_rwlock_rdlock(&closer.work);
}

void vb_work_end(void)
{
	pthread_rwlock_unlock(&closer.work);
}

static uint64_t earlier(uint64_t next_ns, bool due, uint64_t at_ns)
{
	return due && at_ns < next_ns ? at_ns : next_ns;
}

static int wait_ms(void)
{
	uint64_t now_ns = sl_now_ns(), next_ns = UINT64_MAX;

	pthread_mutex_lock(&closer.lock);
	next_ns = earlier(next_ns, !sl_list_empty(&closer.closing), now_ns + 1);
	next_ns = earlier(next_ns, closer.watch_ns != 0, closer.watch_ns);
	next_ns = earlier(next_ns, closer.share_ns != 0, closer.share_ns);
	next_ns = earlier(next_ns, closer.fill, closer.fill_ns);
	pthread_mutex_unlock(&closer.lock);
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns > now_ns ? (int)((next_ns - now_ns) / SL_NS_PER_MS) + 1 : 0;
}

static void watch_homes(void)
{
	bool due;

	pthread_mutex_lock(&closer.lock);
	due = closer.watch_ns && sl_now_ns() >= closer.watch_ns;
	if (due)
		closer.watch_ns = 0;
	pthread_mutex_unlock(&closer.lock);
	if (due)
		vb_homes_watch();
}

static void share_slots(void)
{
	uint64_t now_ns = sl_now_ns(), next_ns;
	bool due;

	pthread_mutex_lock(&closer.lock);
	due = closer.share_ns && now_ns >= closer.share_ns;
	if (due)
		closer.share_ns = 0;
	pthread_mutex_unlock(&closer.lock);
	if (!due)
		return;
	next_ns = vb_homes_share(now_ns);
	pthread_mutex_lock(&closer.lock);
	if (next_ns != UINT64_MAX && !closer.share_ns)
		closer.share_ns = next_ns;
	pthread_mutex_unlock(&closer.lock);
}

static void *closer_main(void *arg)
{
	struct epoll_event ev[DRAIN];
	uint64_t cnt;

	(void)arg;
	sl_thread_name_set("closer");
	for (;;) {
		int n = epoll_wait(closer.epoll_fd, ev, DRAIN, wait_ms());

		vb_work_begin();
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64)
				vb_async_take(ev[i].data.u64);
			else if (read(closer.wake, &cnt, sizeof(cnt)) < 0)
				(void)!read(closer.timer, &cnt, sizeof(cnt));
		}
		close_some();
		watch_homes();
		share_slots();
		fill_homes();
		vb_work_end();
	}
	return NULL;
}

/* With the lock. Signals are others' business. */
static int start_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;

	closer.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	closer.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	closer.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (closer.epoll_fd < 0 || closer.wake < 0 || closer.timer < 0 ||
	    epoll_ctl(closer.epoll_fd, EPOLL_CTL_ADD, closer.wake, &ev) < 0 ||
	    epoll_ctl(closer.epoll_fd, EPOLL_CTL_ADD, closer.timer, &ev) < 0)
		rc = -errno;
	else
		rc = vb_async_open(closer.epoll_fd);
	if (rc) {
		close(closer.epoll_fd);
		close(closer.wake);
		close(closer.timer);
		return rc;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, closer_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -rc;
	pthread_detach(thread);
	closer.runs = true;
	return 0;
}

/* In the middle of work a thread holds locks of the libraries, which a child would find held. */
static void before_fork(void)
{
	pthread_rwlock_wrlock(&closer.work);
	pthread_mutex_lock(&closer.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&closer.lock);
	pthread_rwlock_unlock(&closer.work);
}

/*
 * A child has not got the thread, and what it was closing is not the child's. Nor may it use the
 * condition, in whose memory a thread of the parent's may wait, or the descriptors, which both
 * have.
 */
static void in_child(void)
{
	pthread_rwlock_init(&closer.work, NULL);
	pthread_mutex_init(&closer.lock, NULL);
	pthread_cond_init(&closer.idle, NULL);
	sl_list_init(&closer.closing);
	if (closer.runs) {
		close(closer.epoll_fd);
		close(closer.wake);
		close(closer.timer);
	}
	closer.runs = false;
	closer.left = 0;
	closer.fill = closer.filling = false;
	closer.watch_ns = closer.share_ns = 0;
}

int vb_closer_start(void)
{
	int rc = 0;

	pthread_mutex_lock(&closer.lock);
	if (!closer.forks_seen)
		rc = -pthread_atfork(before_fork, in_parent, in_child);
	closer.forks_seen = rc == 0;
	if (!rc && !closer.runs)
		rc = start_thread();
	pthread_mutex_unlock(&closer.lock);
	return rc;
}

void vb_close(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);

	if (!v->gone && v->ready && v->base.credits.window)
		vb_flush(t);
	vb_detach(v);
	v->until_ns = sl_now_ns() + WORDS_MS * SL_NS_PER_MS;
	pthread_mutex_lock(&closer.lock);
	sl_list_add_tail(&closer.closing, &v->closing);
	closer.left++;
	pthread_mutex_unlock(&closer.lock);
	(void)eventfd_write(closer.wake, 1);
}

void vb_closer_watch(void)
{
	pthread_mutex_lock(&closer.lock);
	closer.watch_ns = sl_now_ns() + WATCH_MS * SL_NS_PER_MS;
	pthread_mutex_unlock(&closer.lock);
}

void vb_closer_share(void)
{
	pthread_mutex_lock(&closer.lock);
	closer.share_ns = 1; /* homes know when it is time */
	pthread_mutex_unlock(&closer.lock);
	(void)eventfd_write(closer.wake, 1);
}

/* The thread sleeps on until then: the connection's first request has use for the processor now. */
void vb_closer_fill(void)
{
	uint64_t at_ns = sl_now_ns() + FILL_MS * SL_NS_PER_MS;
	const struct itimerspec at = {
		.it_value = {.tv_sec = (time_t)(at_ns / SL_NS_PER_SEC),
			     .tv_nsec = (long)(at_ns % SL_NS_PER_SEC)},
	};

	pthread_mutex_lock(&closer.lock);
	if (!closer.fill) {
		closer.fill_ns = at_ns;
		(void)timerfd_settime(closer.timer, TFD_TIMER_ABSTIME, &at, NULL);
	}
	closer.fill = true;
	pthread_mutex_unlock(&closer.lock);
}

void sl_verbs_settle(void)
{
	pthread_mutex_lock(&closer.lock);
	while (closer.runs && (closer.left || closer.fill || closer.filling))
		pthread_cond_wait(&closer.idle, &closer.lock);
	pthread_mutex_unlock(&closer.lock);
}
