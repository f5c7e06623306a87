/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing, off the data path: whoever closes a connection puts it on a list, and a thread of ours
 * does what blocks.
 *
 *   last words   what was posted right before close() gets a moment to be acknowledged
 *   quiet        queue pair in error: the device lets go of the owner's memory and shared slots
 *   gone         slots back in the shared queue, everything freed
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "rpc/verbs/verbs.h"

enum {
	WORDS_MS = 50,
	QUIET_MS = 5, /* for devices that say when they are done with shared slots */
	TURN_US = 500,
	DRAIN = 16,
};

static struct {
	pthread_mutex_t turn; /* held while the thread works; taken before the lock */
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	struct sl_list closing;
	bool runs, forks_seen; /* the thread; in_child() is called after a fork */
	unsigned left;
} closer = {
	.turn = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake = PTHREAD_COND_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
	.closing = {&closer.closing, &closer.closing},
};

static void free_map(struct sl_verbs *v)
{
	if (v->mem_mr)
		ibv_dereg_mr(v->mem_mr);
	if (v->bulk_mr)
		ibv_dereg_mr(v->bulk_mr);
	if (v->ring_mr)
		ibv_dereg_mr(v->ring_mr);
	if (v->keys_mr)
		ibv_dereg_mr(v->keys_mr);
	if (v->map)
		munmap(v->map, v->map_len);
	free(v->posted);
	free(v->rx_bulk_end);
	free(v->rx_slot);
	free(v->borrowed);
}

/* Slots that completions name and nobody took. How many. */
static uint32_t return_arrived(struct sl_verbs *v)
{
	struct ibv_wc wc[DRAIN];
	uint32_t found = 0;
	int n;

	while (v->rx_cq && (n = ibv_poll_cq(v->rx_cq, DRAIN, wc)) > 0) {
		for (int i = 0; i < n; i++)
			vb_give_back(v, &wc[i]);
		found += (uint32_t)n;
	}
	return found;
}

/* And those of messages that were taken and not released. */
static void return_lent(struct sl_verbs *v)
{
	uint32_t from = v->put_back;

	if (v->have_wc)
		vb_give_back(v, &v->wc);
	v->have_wc = false;
	for (; v->rx_slot && from != v->rx_next; from++)
		(void)vb_home_post(v->home, &v->rx_slot[from & v->slot_mask], 1);
}

/* A driver may forget the completions of a queue pair that goes: they are taken before, and after.
 */
static void destroy_queue_pair(struct sl_verbs *v)
{
	uint32_t found = v->home ? return_arrived(v) : 0;

	if (v->id && v->id->qp)
		rdma_destroy_qp(v->id);
	if (!v->home)
		return;
	found += return_arrived(v);
	return_lent(v);
	/* A queue of completions that has run over has lost some. */
	if (found >= v->window)
		vb_home_spoil(v->home);
}

void vb_free(struct sl_verbs *v)
{
	vb_events_close(v);
	if (v->mw)
		ibv_dealloc_mw(v->mw);
	destroy_queue_pair(v);
	free_map(v);
	if (v->tx_cq)
		ibv_destroy_cq(v->tx_cq);
	if (v->rx_cq)
		ibv_destroy_cq(v->rx_cq);
	if (v->bell)
		ibv_destroy_comp_channel(v->bell);
	if (v->home)
		vb_home_leave(v->home, v->window);
	else if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->id)
		rdma_destroy_id(v->id);
	if (v->cm)
		rdma_destroy_event_channel(v->cm);
	close(v->base.fd);
	free(v);
}

void vb_halt(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (v->borrowed_cnt == v->returned_cnt)
		return;
	v->gone = v->broken = true;
	(void)ibv_modify_qp(v->id->qp, &attr, IBV_QP_STATE);
}

static void make_quiet(struct sl_verbs *v, uint64_t now_ns)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)rdma_disconnect(v->id);
	if (v->id->qp)
		(void)ibv_modify_qp(v->id->qp, &attr, IBV_QP_STATE);
	v->quieting = true;
	v->until_ns = now_ns + (v->home ? QUIET_MS : 0) * SL_NS_PER_MS;
}

/* True once there is nothing more to wait for. */
static bool advance(struct sl_verbs *v, uint64_t now_ns)
{
	if (!v->quieting) {
		if (!v->gone && v->signalled)
			vb_progress(&v->base);
		if (!v->gone && v->signalled && now_ns < v->until_ns)
			return false;
		make_quiet(v, now_ns);
	}
	(void)vb_check(&v->base);
	return v->last_receive || now_ns >= v->until_ns;
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

static void *closer_main(void *arg)
{
	(void)arg;
	sl_thread_name_set("closer");
	for (;;) {
		pthread_mutex_lock(&closer.lock);
		while (sl_list_empty(&closer.closing))
			pthread_cond_wait(&closer.wake, &closer.lock);
		pthread_mutex_unlock(&closer.lock);
		pthread_mutex_lock(&closer.turn);
		close_some();
		pthread_mutex_unlock(&closer.turn);
		usleep(TURN_US);
	}
	return NULL;
}

/* With the lock. Signals are others' business. */
static int start_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	int rc;

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

/* In the middle of a turn the thread holds locks of the libraries, which a child would find held.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&closer.turn);
	pthread_mutex_lock(&closer.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&closer.lock);
	pthread_mutex_unlock(&closer.turn);
}

/*
 * A child has not got the thread, and what it was closing is not the child's. Nor may it use the
 * conditions: the parent's thread still waits in their memory, and would swallow the first signal.
 */
static void in_child(void)
{
	pthread_mutex_init(&closer.turn, NULL);
	pthread_mutex_init(&closer.lock, NULL);
	pthread_cond_init(&closer.wake, NULL);
	pthread_cond_init(&closer.idle, NULL);
	sl_list_init(&closer.closing);
	closer.runs = false;
	closer.left = 0;
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

	if (!v->gone && v->map)
		vb_flush(t);
	v->until_ns = sl_now_ns() + WORDS_MS * SL_NS_PER_MS;
	pthread_mutex_lock(&closer.lock);
	sl_list_add_tail(&closer.closing, &v->closing);
	closer.left++;
	pthread_cond_signal(&closer.wake);
	pthread_mutex_unlock(&closer.lock);
}

void sl_verbs_settle(void)
{
	pthread_mutex_lock(&closer.lock);
	while (closer.runs && closer.left)
		pthread_cond_wait(&closer.idle, &closer.lock);
	pthread_mutex_unlock(&closer.lock);
}
