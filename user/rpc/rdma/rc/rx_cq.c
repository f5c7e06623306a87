/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/rx_cq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	POLL = 16,
	POLL_ROUNDS = RC_SRQ_SLOTS / POLL, /* one call can see all slots */
	EVENTS_MAX = 16,
	TRIES = 1000, /* before a sched_yield() */
	BLOCK_MS = 1000,
};

struct rc_poller {
	bool is_owner;
	const struct rc_conn *for_conn;
};

static const struct rc_poller owner_poller = {.is_owner = true};

static bool trylock_poll(struct rc_rx_cq *rx)
{
	return !atomic_flag_test_and_set_explicit(&rx->poll_lock, memory_order_acquire);
}

static void lock_poll(struct rc_rx_cq *rx)
{
	for (unsigned i = 1; !trylock_poll(rx); i++) {
		if (i % TRIES == 0)
			sched_yield();
	}
}

static void unlock_poll(struct rc_rx_cq *rx)
{
	atomic_flag_clear_explicit(&rx->poll_lock, memory_order_release);
}

static struct rc_conn **bucket_of(struct rc_rx_cq *rx, uint32_t qpn)
{
	return &rx->buckets[qpn % RC_RX_CQ_BUCKETS];
}

static void mark_ready(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	if (sl_list_empty(&conn->base.ready_node))
		sl_list_add_tail(&rx->group.ready, &conn->base.ready_node);
}

void rc_rx_cq_notify_owner(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	if (atomic_exchange(&conn->notified, true))
		return;
	atomic_store(&rx->notified, true);
	(void)eventfd_write(rx->wake, 1);
}

static void notify_conn(struct rc_rx_cq *rx, struct rc_conn *conn, const struct rc_poller *poller)
{
	if (conn == poller->for_conn)
		return;
	if (!conn->attached)
		rc_wake_fd(conn);
	else if (poller->is_owner)
		mark_ready(rx, conn);
	else
		rc_rx_cq_notify_owner(rx, conn);
}

static struct rc_rx_comp comp_of(const struct ibv_wc *wc)
{
	struct rc_rx_comp a = {.slot = (uint32_t)wc->wr_id, .len = wc->byte_len, .op = RC_RX_OTHER};

	if (wc->status != IBV_WC_SUCCESS) {
		a.op = RC_RX_FAILED;
	} else if (wc->opcode == IBV_WC_RECV) {
		a.op = RC_RX_SEND;
	} else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		a.op = RC_RX_WRITE;
		a.len = ntohl(wc->imm_data);
	}
	return a;
}

bool rc_rx_fifo_push(struct rc_rx_fifo *b, const struct ibv_wc *wc)
{
	uint32_t in = atomic_load_explicit(&b->in, memory_order_relaxed);

	if (in - atomic_load_explicit(&b->out, memory_order_acquire) >=
	    atomic_load_explicit(&b->limit, memory_order_relaxed))
		return false;
	b->comps[in & (b->size - 1)] = comp_of(wc);
	atomic_store_explicit(&b->in, in + 1, memory_order_release);
	return true;
}

static void fail_flooding_conn(struct rc_rx_cq *rx, struct rc_conn *conn,
			       const struct rc_poller *poller)
{
	if (conn->flooded || conn->removing)
		return;
	conn->flooded = true;
	(void)ibv_modify_qp(conn->qp.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
			    IBV_QP_STATE);
	notify_conn(rx, conn, poller);
}

/*
 * Blocks a peer that has exceeded its window, and ends its host's connections: the process is only
 * a claim.
 */
static void block_host(struct rc_rx_cq *rx, struct rc_conn *conn, const struct rc_poller *poller)
{
	if (conn->flooded)
		return;
	fail_flooding_conn(rx, conn, poller);
	if (!conn->is_inbound)
		return;
	memcpy(rx->blocked_host, conn->path.gid, sizeof(rx->blocked_host));
	rx->blocked_until_ns = sl_now_ns() + BLOCK_MS * SL_NS_PER_MS;
	for (unsigned i = 0; i < RC_RX_CQ_BUCKETS; i++) {
		for (struct rc_conn *other = rx->buckets[i]; other; other = other->next) {
			if (!memcmp(other->path.gid, conn->path.gid, sizeof(conn->path.gid)))
				fail_flooding_conn(rx, other, poller);
		}
	}
}

static void dispatch_wc(struct rc_rx_cq *rx, const struct ibv_wc *wc,
			const struct rc_poller *poller)
{
	struct rc_conn *conn = *bucket_of(rx, wc->qp_num);
	uint32_t slot = (uint32_t)wc->wr_id;

	while (conn && conn->qpn != wc->qp_num)
		conn = conn->next;
	if (sl_likely(conn && rc_rx_fifo_push(&conn->rx_fifo, wc))) {
		notify_conn(rx, conn, poller);
		return;
	}
	(void)rc_srq_post(rx->srq, &slot, 1);
	if (conn)
		block_host(rx, conn, poller);
}

static void fail_all_conns(struct rc_rx_cq *rx, const struct rc_poller *poller)
{
	rx->srq->failed = true;
	for (unsigned i = 0; i < RC_RX_CQ_BUCKETS; i++) {
		for (struct rc_conn *conn = rx->buckets[i]; conn; conn = conn->next) {
			if (!conn->gone)
				notify_conn(rx, conn, poller);
			conn->gone = conn->broken = true;
		}
	}
}

static void poll_cq(struct rc_rx_cq *rx, const struct rc_poller *poller)
{
	SL_UNINIT struct ibv_wc wc[POLL];
	int n = POLL;

	for (unsigned i = 0; i < POLL_ROUNDS && n == POLL; i++) {
		n = ibv_poll_cq(rx->cq, POLL, wc);
		for (int k = 0; k < n; k++)
			dispatch_wc(rx, &wc[k], poller);
	}
	if (sl_unlikely(n < 0))
		fail_all_conns(rx, poller);
}

/* Requesting an event is a system call, so one pending request is enough. */
static bool arm_cq(struct rc_rx_cq *rx)
{
	rx->notify_armed = rx->notify_armed || ibv_req_notify_cq(rx->cq, 0) == 0;
	return rx->notify_armed;
}

static bool handle_cq_event(struct rc_rx_cq *rx, const struct rc_poller *poller)
{
	struct rc_conn *conn;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(rx->comp_channel, &cq, &context))
		return false;
	conn = cq->cq_context;
	if (cq == rx->cq) {
		rx->notify_armed = false;
	} else if (conn) {
		conn->tx_armed = false;
		notify_conn(rx, conn, poller);
	}
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void mark_notified(struct rc_rx_cq *rx)
{
	atomic_store(&rx->notified, false);
	for (unsigned i = 0; i < RC_RX_CQ_BUCKETS; i++) {
		for (struct rc_conn *conn = rx->buckets[i]; conn; conn = conn->next) {
			if (conn->attached && atomic_exchange(&conn->notified, false))
				mark_ready(rx, conn);
		}
	}
}

static void rx_cq_poll(struct sl_poll_group *group)
{
	struct rc_rx_cq *rx = (struct rc_rx_cq *)group;

	if (!trylock_poll(rx))
		return;
	if (sl_unlikely(atomic_load_explicit(&rx->notified, memory_order_relaxed)))
		mark_notified(rx);
	poll_cq(rx, &owner_poller);
	unlock_poll(rx);
}

static bool rx_cq_arm(struct sl_poll_group *group)
{
	struct rc_rx_cq *rx = (struct rc_rx_cq *)group;
	bool empty;

	lock_poll(rx);
	empty = arm_cq(rx);
	poll_cq(rx, &owner_poller);
	empty = empty && sl_list_empty(&group->ready);
	unlock_poll(rx);
	return empty && !atomic_load(&rx->notified);
}

static void rx_cq_check(struct sl_poll_group *group)
{
	struct rc_rx_cq *rx = (struct rc_rx_cq *)group;
	eventfd_t many;

	(void)eventfd_read(rx->wake, &many);
	lock_poll(rx);
	for (unsigned i = 0;
	     i < EVENTS_MAX && handle_cq_event(rx, &owner_poller) && rx->notify_armed; i++)
		;
	/* Threads that sleep on their own fd depend on this request. */
	if (rx->conn_cnt != rx->attached_cnt)
		(void)arm_cq(rx);
	unlock_poll(rx);
}

static const struct sl_poll_group_ops rx_cq_ops = {
	.poll = rx_cq_poll,
	.arm = rx_cq_arm,
	.handle_event = rx_cq_check,
};

bool rc_rx_cq_attach(struct rc_rx_cq *rx, struct rc_conn *conn, const void *owned_by)
{
	bool free_to_attach;

	lock_poll(rx);
	free_to_attach = !rx->owner || rx->owner == owned_by;
	if (free_to_attach) {
		rx->owner = owned_by;
		rx->attached_cnt++;
		conn->attached = true;
		conn->base.poll_group = &rx->group;
		mark_ready(rx, conn);
	}
	unlock_poll(rx);
	return free_to_attach;
}

void rc_rx_cq_detach(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	lock_poll(rx);
	sl_list_del(&conn->base.ready_node);
	conn->attached = false;
	if (!--rx->attached_cnt)
		rx->owner = NULL;
	unlock_poll(rx);
}

void rc_rx_cq_poll_for(struct rc_rx_cq *rx, const struct rc_conn *conn)
{
	lock_poll(rx);
	poll_cq(rx, &(struct rc_poller){.for_conn = conn});
	unlock_poll(rx);
}

bool rc_rx_cq_arm_for(struct rc_rx_cq *rx, const struct rc_conn *conn)
{
	bool armed;

	lock_poll(rx);
	armed = arm_cq(rx);
	poll_cq(rx, &(struct rc_poller){.for_conn = conn});
	unlock_poll(rx);
	return armed;
}

static void measure_conn(struct rc_conn *conn, struct srq_credits *b, bool idle,
			 struct srq_demand *wants)
{
	uint32_t enforced = conn->enforced, in = conn->rx_fifo.in;
	bool spent = atomic_exchange(&conn->spent, false);

	if (enforced == conn->target_window && enforced < conn->window) {
		srq_credits_lower(b, conn->window, enforced);
		conn->window = enforced;
	}
	conn->demand = srq_demand_of(conn->window, conn->mask + 1, in - conn->measured_in, spent);
	if (idle && !spent)
		conn->demand = srq_demand_idle(conn->demand, in - conn->measured_in_idle);
	conn->measured_in = in;
	if (idle)
		conn->measured_in_idle = in;
	srq_demand_add(wants, conn->demand);
}

void rc_rx_cq_measure_demand(struct rc_rx_cq *rx, struct srq_credits *b, bool idle,
			     struct srq_demand *wants)
{
	lock_poll(rx);
	for (unsigned i = 0; i < RC_RX_CQ_BUCKETS; i++) {
		for (struct rc_conn *conn = rx->buckets[i]; conn; conn = conn->next)
			measure_conn(conn, b, idle, wants);
	}
	unlock_poll(rx);
}

bool rc_rx_cq_host_blocked(struct rc_rx_cq *rx, const uint8_t host[16])
{
	bool blocked;

	lock_poll(rx);
	blocked = sl_now_ns() < rx->blocked_until_ns &&
		  !memcmp(rx->blocked_host, host, sizeof(rx->blocked_host));
	unlock_poll(rx);
	return blocked;
}

static bool set_window(struct rc_conn *conn, struct srq_credits *b, uint32_t posted, uint32_t level)
{
	uint32_t to = conn->demand < level ? conn->demand : level;

	if (!to || conn->target_window != conn->window || conn->enforced != conn->window)
		return false;
	if (to > conn->window)
		conn->window = to = srq_credits_raise(b, posted, conn->window, to);
	if (to == conn->target_window)
		return false;
	conn->target_window = to;
	return true;
}

bool rc_rx_cq_set_windows(struct rc_rx_cq *rx, struct srq_credits *b, uint32_t posted,
			  uint32_t level)
{
	static const struct rc_poller no_owner = {.is_owner = false};
	bool any = false;

	lock_poll(rx);
	for (unsigned i = 0; i < RC_RX_CQ_BUCKETS; i++) {
		for (struct rc_conn *conn = rx->buckets[i]; conn; conn = conn->next) {
			if (!set_window(conn, b, posted, level))
				continue;
			any = true;
			notify_conn(rx, conn, &no_owner);
		}
	}
	unlock_poll(rx);
	return any;
}

void rc_rx_cq_handle_event(struct rc_rx_cq *rx, const struct rc_conn *conn)
{
	const struct rc_poller poller = {.for_conn = conn};

	lock_poll(rx);
	for (unsigned i = 0; i < EVENTS_MAX && handle_cq_event(rx, &poller); i++)
		;
	(void)arm_cq(rx);
	poll_cq(rx, &poller);
	unlock_poll(rx);
}

/* Completions with this qp_num in the CQ belong to an earlier connection. */
void rc_rx_cq_add(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	struct rc_conn **at;

	conn->qpn = conn->qp.qp->qp_num;
	at = bucket_of(rx, conn->qpn);
	lock_poll(rx);
	poll_cq(rx, &(struct rc_poller){.for_conn = conn});
	conn->next = *at;
	*at = conn;
	conn->rx_cq = rx;
	rx->conn_cnt++;
	unlock_poll(rx);
}

/* A driver may drop completions of a queue pair that is destroyed. */
void rc_rx_cq_begin_remove(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	lock_poll(rx);
	conn->removing = true;
	conn->qp.tx_cq->cq_context = NULL;
	poll_cq(rx, &(struct rc_poller){.for_conn = conn});
	unlock_poll(rx);
}

void rc_rx_cq_remove(struct rc_rx_cq *rx, struct rc_conn *conn)
{
	struct rc_conn **at;

	lock_poll(rx);
	poll_cq(rx, &(struct rc_poller){.for_conn = conn});
	for (at = bucket_of(rx, conn->qpn); *at != conn; at = &(*at)->next)
		;
	*at = conn->next;
	conn->rx_cq = NULL;
	rx->conn_cnt--;
	unlock_poll(rx);
}

static int open_events(struct rc_rx_cq *rx)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int flags = fcntl(rx->comp_channel->fd, F_GETFL);

	rx->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rx->group.fd = epoll_create1(EPOLL_CLOEXEC);
	if (flags < 0 || fcntl(rx->comp_channel->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    rx->wake < 0 || rx->group.fd < 0 ||
	    epoll_ctl(rx->group.fd, EPOLL_CTL_ADD, rx->wake, &ev) < 0 ||
	    epoll_ctl(rx->group.fd, EPOLL_CTL_ADD, rx->comp_channel->fd, &ev) < 0)
		return errno > 0 ? -errno : -EIO;
	return 0;
}

int rc_rx_cq_init(struct rc_rx_cq *rx, struct rc_srq *srq, struct ibv_context *device, int vector,
		  uint32_t slots)
{
	int rc;

	*rx = (struct rc_rx_cq){.group = {.ops = &rx_cq_ops, .fd = -1},
				.srq = srq,
				.wake = -1,
				.poll_lock = ATOMIC_FLAG_INIT};
	sl_list_init(&rx->group.ready);
	errno = 0;
	rx->comp_channel = ibv_create_comp_channel(device);
	if (rx->comp_channel)
		rx->cq = ibv_create_cq(device, (int)slots, NULL, rx->comp_channel, vector);
	if (rx->comp_channel && rx->cq)
		rc = open_events(rx);
	else
		rc = errno > 0 ? -errno : -ENOMEM;
	if (rc)
		rc_rx_cq_fini(rx);
	return rc;
}

void rc_rx_cq_fini(struct rc_rx_cq *rx)
{
	if (rx->group.fd >= 0)
		close(rx->group.fd);
	if (rx->wake >= 0)
		close(rx->wake);
	if (rx->cq)
		ibv_destroy_cq(rx->cq);
	if (rx->comp_channel)
		ibv_destroy_comp_channel(rx->comp_channel);
	rx->group.fd = rx->wake = -1;
	rx->cq = NULL;
	rx->comp_channel = NULL;
}
