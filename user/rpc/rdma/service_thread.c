/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background thread for work that blocks.
 *
 *   closing:  linger    messages posted just before close() get time to be acknowledged
 *             quiesce   queue pair in error: the device releases memory and SRQ slots
 *             free      slots reposted, everything freed
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
#include "rpc/rdma/rc/rc_conn.h"

enum {
	LINGER_MS = 50,
	QUIESCE_MS = 5,     /* devices without LAST_WQE_REACHED */
	LAST_WQE_MS = 1000, /* devices with it */
	FLUSH_MS = 1,
	FLUSH_POLLS = 100,
	REFILL_MS = 20,   /* delay after a connection */
	SRQ_LIMIT_MS = 2, /* an honest peer retries for six times as long */
	DRAIN = 16,
};

static struct {
	pthread_rwlock_t work; /* read-locked while threads work; taken before `lock` */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int epoll_fd, wake, timer; /* timer: expires at refill_ns */
	struct sl_list closing;
	bool running, forks_seen; /* forks_seen: fork handlers are installed */
	bool refill_due, refilling;
	uint64_t refill_ns;
	uint64_t srq_limit_ns; /* 0: not due */
	uint64_t rebalance_ns; /* 0: not due */
	unsigned closing_cnt;
} service = {
	.work = PTHREAD_RWLOCK_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.epoll_fd = -1,
	.wake = -1,
	.timer = -1,
	.idle = PTHREAD_COND_INITIALIZER,
	.closing = {&service.closing, &service.closing},
};

/* The device must not use the memory any more. */
static void free_memory(struct rc_conn *conn)
{
	if (conn->iface) {
		struct mr_pool *a = rc_iface_mr_pool(conn->iface);

		if (conn->mem_mr)
			mr_pool_dereg_shared(a, conn->mem_mr);
		if (conn->ring_buf)
			mr_pool_put(a, conn->ring_buf, conn->bulk_len);
	} else {
		struct ibv_mr *mine[] = {conn->mem_mr, conn->bulk_mr, conn->ring_mr, conn->keys_mr};

		for (unsigned i = 0; i < SL_ARRAY_LEN(mine); i++) {
			if (mine[i])
				ibv_dereg_mr(mine[i]);
		}
		if (conn->map)
			munmap(conn->map, conn->map_len);
	}
	free(conn->rx_fifo.comps);
	free(conn->posted);
	free(conn->rx_bulk_end);
	free(conn->rx_slot);
	free(conn->zcopy_ops);
}

static int change_state(struct rc_conn *conn, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(conn->qp.qp, &attr, IBV_QP_STATE);
}

static void destroy_qp(struct rc_conn *conn)
{
	struct rc_rx_comp a;
	uint32_t from;

	if (conn->rx_cq)
		rc_rx_cq_begin_remove(conn->rx_cq, conn);
	/* A reset queue pair has released memory and slots, too. */
	if (conn->peer && rc_peer_needs_qp(conn->peer, conn->qp.qp)) {
		(void)change_state(conn, IBV_QPS_RESET);
	} else {
		if (conn->peer && conn->peer->id->qp == conn->qp.qp)
			conn->peer->id->qp = NULL;
		if (conn->qp.qp)
			ibv_destroy_qp(conn->qp.qp);
		conn->qp.qp = NULL;
	}
	if (!conn->rx_cq)
		return;
	rc_rx_cq_remove(conn->rx_cq, conn);
	while (rc_rx_fifo_pop(&conn->rx_fifo, &a))
		rc_repost_slot(conn, &a);
	for (from = conn->reposted; conn->rx_slot && from != conn->rx_next; from++)
		(void)rc_iface_post(conn->iface, &conn->rx_slot[from & conn->slot_mask], 1);
}

void rc_conn_free(struct rc_conn *conn)
{
	rc_conn_events_close(conn);
	if (conn->qp.mw)
		ibv_dealloc_mw(conn->qp.mw);
	conn->qp.mw = NULL;
	destroy_qp(conn);
	free_memory(conn);
	if (conn->peer)
		rc_peer_park_qp(conn->peer, conn);
	rc_qp_destroy(&conn->qp);
	if (conn->iface)
		rc_iface_leave(conn->iface, conn->window);
	else if (conn->pd)
		ibv_dealloc_pd(conn->pd);
	if (conn->peer)
		rc_peer_put(conn->peer);
	if (conn->base.fd >= 0)
		close(conn->base.fd);
	free(conn);
}

/*
 * Waits until the device has flushed all sends: this one completes last. Returns false on a
 * time-out. A thread that was not scheduled meanwhile still polls FLUSH_POLLS times.
 */
static bool flush_sends(struct rc_conn *conn)
{
	struct ibv_send_wr last = {
		.wr_id = RC_WR_LAST, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	uint64_t until_ns = sl_now_ns() + FLUSH_MS * SL_NS_PER_MS;
	struct ibv_wc wc[DRAIN];
	unsigned polls = 0;
	int n;

	if (rdma_post_chain(conn->qp.qp, &last))
		return false;
	do {
		n = ibv_poll_cq(conn->qp.tx_cq, DRAIN, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id == RC_WR_LAST)
				return true;
		}
	} while (n >= 0 && (++polls < FLUSH_POLLS || sl_now_ns() < until_ns));
	return false;
}

/*
 * A reset makes the device release memory before the call returns. Receives about to be reported
 * are lost, with their SRQ slots. If the reset fails, the device is gone.
 */
void rc_conn_halt(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);

	rc_progress(t);
	/* Slices of a batch are lent before its cookie is. */
	if (conn->zcopy_upto == conn->reaped)
		return;
	conn->gone = conn->broken = true;
	conn->chain_len = conn->sge_cnt = 0;
	if (change_state(conn, IBV_QPS_ERR) == 0 && flush_sends(conn))
		return;
	if (conn->iface)
		rc_iface_fail(conn->iface);
	conn->ready = false;
	(void)change_state(conn, IBV_QPS_RESET);
}

/* A device that has not reported the end may still hold a slot. */
static bool is_quiesced(struct rc_conn *conn, uint64_t now_ns)
{
	if (conn->last_receive)
		return true;
	if (now_ns < conn->until_ns)
		return false;
	if (conn->iface && conn->ready && rc_iface_has_last_wqe_event(conn->iface))
		rc_iface_fail(conn->iface);
	return true;
}

/* Tells the peer by an empty message: the CM reports only the last connection. */
static void send_bye(struct rc_conn *conn)
{
	struct ibv_send_wr bye = {
		.wr_id = RC_WR_BYE, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (conn->bye || conn->gone || !conn->ready)
		return;
	conn->bye = rdma_post_chain(conn->qp.qp, &bye) ? RC_BYE_DONE : RC_BYE_SENT;
}

static bool close_step(struct rc_conn *conn, uint64_t now_ns)
{
	unsigned quiesce_ms = 0;

	if (!conn->quiescing) {
		send_bye(conn);
		if (!conn->gone && (conn->signaled || conn->bye == RC_BYE_SENT))
			rc_progress(&conn->base);
		if (!conn->gone && (conn->signaled || conn->bye == RC_BYE_SENT) &&
		    now_ns < conn->until_ns)
			return false;
		if (conn->iface && conn->ready)
			quiesce_ms =
				rc_iface_has_last_wqe_event(conn->iface) ? LAST_WQE_MS : QUIESCE_MS;
		rc_peer_disconnect_last(conn->peer);
		if (conn->qp.qp)
			(void)change_state(conn, IBV_QPS_ERR);
		conn->quiescing = true;
		conn->until_ns = now_ns + quiesce_ms * SL_NS_PER_MS;
	}
	(void)rc_check(&conn->base);
	return is_quiesced(conn, now_ns);
}

static void close_pending(void)
{
	struct sl_list mine, *at, *next;
	unsigned done = 0;

	pthread_mutex_lock(&service.lock);
	sl_list_init(&mine);
	while ((at = sl_list_pop_head(&service.closing)))
		sl_list_add_tail(&mine, at);
	pthread_mutex_unlock(&service.lock);
	sl_list_for_each_safe (at, next, &mine) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, closing);

		if (!close_step(conn, sl_now_ns()))
			continue;
		sl_list_del(&conn->closing);
		rc_conn_free(conn);
		done++;
	}
	pthread_mutex_lock(&service.lock);
	while ((at = sl_list_pop_head(&mine)))
		sl_list_add_tail(&service.closing, at);
	service.closing_cnt -= done;
	if (!service.closing_cnt)
		pthread_cond_broadcast(&service.idle);
	pthread_mutex_unlock(&service.lock);
}

static void refill_ifaces(void)
{
	bool wanted;

	pthread_mutex_lock(&service.lock);
	wanted = service.refill_due && sl_now_ns() >= service.refill_ns;
	service.refill_due &= !wanted;
	service.refilling = wanted;
	pthread_mutex_unlock(&service.lock);
	if (!wanted)
		return;
	rc_ifaces_refill();
	pthread_mutex_lock(&service.lock);
	service.refilling = false;
	pthread_cond_broadcast(&service.idle);
	pthread_mutex_unlock(&service.lock);
}

void service_work_begin(void)
{
	pthread_rwlock_rdlock(&service.work);
}

void service_work_end(void)
{
	pthread_rwlock_unlock(&service.work);
}

static uint64_t earlier_ns(uint64_t next_ns, bool due, uint64_t at_ns)
{
	return due && at_ns < next_ns ? at_ns : next_ns;
}

static int poll_timeout_ms(void)
{
	uint64_t now_ns = sl_now_ns(), next_ns = UINT64_MAX;

	pthread_mutex_lock(&service.lock);
	next_ns = earlier_ns(next_ns, !sl_list_empty(&service.closing), now_ns + 1);
	next_ns = earlier_ns(next_ns, service.srq_limit_ns != 0, service.srq_limit_ns);
	next_ns = earlier_ns(next_ns, service.rebalance_ns != 0, service.rebalance_ns);
	next_ns = earlier_ns(next_ns, service.refill_due, service.refill_ns);
	pthread_mutex_unlock(&service.lock);
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns > now_ns ? (int)((next_ns - now_ns) / SL_NS_PER_MS) + 1 : 0;
}

static void arm_srq_limits(void)
{
	bool due;

	pthread_mutex_lock(&service.lock);
	due = service.srq_limit_ns && sl_now_ns() >= service.srq_limit_ns;
	if (due)
		service.srq_limit_ns = 0;
	pthread_mutex_unlock(&service.lock);
	if (due)
		rc_ifaces_arm_srq_limit();
}

static void rebalance_windows(void)
{
	uint64_t now_ns = sl_now_ns(), next_ns;
	bool due;

	pthread_mutex_lock(&service.lock);
	due = service.rebalance_ns && now_ns >= service.rebalance_ns;
	if (due)
		service.rebalance_ns = 0;
	pthread_mutex_unlock(&service.lock);
	if (!due)
		return;
	next_ns = rc_ifaces_rebalance(now_ns);
	pthread_mutex_lock(&service.lock);
	if (next_ns != UINT64_MAX && !service.rebalance_ns)
		service.rebalance_ns = next_ns;
	pthread_mutex_unlock(&service.lock);
}

static void *service_main(void *arg)
{
	struct epoll_event ev[DRAIN];
	uint64_t cnt;

	(void)arg;
	sl_thread_name_set("rdma-service");
	for (;;) {
		int n = epoll_wait(service.epoll_fd, ev, DRAIN, poll_timeout_ms());

		service_work_begin();
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64)
				async_event_handle(ev[i].data.u64);
			else if (read(service.wake, &cnt, sizeof(cnt)) < 0)
				(void)!read(service.timer, &cnt, sizeof(cnt));
		}
		close_pending();
		arm_srq_limits();
		rebalance_windows();
		refill_ifaces();
		service_work_end();
	}
	return NULL;
}

static int start_service_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;

	service.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	service.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	service.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (service.epoll_fd < 0 || service.wake < 0 || service.timer < 0 ||
	    epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, service.wake, &ev) < 0 ||
	    epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, service.timer, &ev) < 0)
		rc = -errno;
	else
		rc = async_event_init(service.epoll_fd);
	if (rc) {
		close(service.epoll_fd);
		close(service.wake);
		close(service.timer);
		return rc;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, service_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -rc;
	pthread_detach(thread);
	service.running = true;
	return 0;
}

/* A working thread holds locks of the libraries, which a child would inherit. */
static void before_fork(void)
{
	pthread_rwlock_wrlock(&service.work);
	pthread_mutex_lock(&service.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&service.lock);
	pthread_rwlock_unlock(&service.work);
}

/*
 * The child has no such thread, and closes nothing of its parent's. It must not use the condition,
 * which a thread of the parent may wait for, nor the shared descriptors.
 */
static void in_child(void)
{
	pthread_rwlock_init(&service.work, NULL);
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.idle, NULL);
	sl_list_init(&service.closing);
	if (service.running) {
		close(service.epoll_fd);
		close(service.wake);
		close(service.timer);
	}
	service.running = false;
	service.closing_cnt = 0;
	service.refill_due = service.refilling = false;
	service.srq_limit_ns = service.rebalance_ns = 0;
}

int service_thread_start(void)
{
	int rc = 0;

	pthread_mutex_lock(&service.lock);
	if (!service.forks_seen)
		rc = -pthread_atfork(before_fork, in_parent, in_child);
	service.forks_seen = rc == 0;
	if (!rc && !service.running)
		rc = start_service_thread();
	pthread_mutex_unlock(&service.lock);
	return rc;
}

void rc_conn_close(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);

	if (!conn->gone && conn->ready && conn->base.credits.window)
		rc_flush(t);
	rc_detach(conn);
	conn->until_ns = sl_now_ns() + LINGER_MS * SL_NS_PER_MS;
	pthread_mutex_lock(&service.lock);
	sl_list_add_tail(&service.closing, &conn->closing);
	service.closing_cnt++;
	pthread_mutex_unlock(&service.lock);
	(void)eventfd_write(service.wake, 1);
}

void service_thread_arm_srq_limit(void)
{
	pthread_mutex_lock(&service.lock);
	service.srq_limit_ns = sl_now_ns() + SRQ_LIMIT_MS * SL_NS_PER_MS;
	pthread_mutex_unlock(&service.lock);
}

void service_thread_rebalance(void)
{
	pthread_mutex_lock(&service.lock);
	service.rebalance_ns = 1; /* interfaces know when it is due */
	pthread_mutex_unlock(&service.lock);
	(void)eventfd_write(service.wake, 1);
}

/* A wake-up now would compete with the first request. */
void service_thread_refill(void)
{
	uint64_t at_ns = sl_now_ns() + REFILL_MS * SL_NS_PER_MS;
	const struct itimerspec at = {
		.it_value = {.tv_sec = (time_t)(at_ns / SL_NS_PER_SEC),
			     .tv_nsec = (long)(at_ns % SL_NS_PER_SEC)},
	};

	pthread_mutex_lock(&service.lock);
	if (!service.refill_due) {
		service.refill_ns = at_ns;
		(void)timerfd_settime(service.timer, TFD_TIMER_ABSTIME, &at, NULL);
	}
	service.refill_due = true;
	pthread_mutex_unlock(&service.lock);
}

void sl_rdma_wait_closed(void)
{
	pthread_mutex_lock(&service.lock);
	while (service.running && (service.closing_cnt || service.refill_due || service.refilling))
		pthread_cond_wait(&service.idle, &service.lock);
	pthread_mutex_unlock(&service.lock);
}
