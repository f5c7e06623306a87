/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/rc_iface.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	RXE_VENDOR = 0xffffff, /* soft-RoCE */
	PAUSE_MIN_MS = 4,      /* interval of rebalances */
	PAUSE_MAX_MS = 64,
	IDLE_MS = 100,
	REFILL_MS = 20,
	SRQ_LIMIT_MS = 2,
};

struct rc_iface {
	struct sl_list node;
	struct ibv_context *device;
	unsigned group;
	pid_t pid; /* a forked child does not use it */
	_Atomic bool srq_low;
	bool last_wqe_event, refilling; /* refilling: must not be freed */
	struct srq_credits credits;
	_Atomic bool rebalance_requested;
	unsigned pause_ms;
	uint64_t rebalance_ns, idle_ns;
	struct ibv_pd *pd;
	struct rc_srq srq; /* `failed` is set without the lock */
	struct rc_rx_cq rx_cq;
	struct mr_pool mr_pool;
	struct rc_qp_pool qp_pool;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

struct ibv_srq *rc_iface_srq(const struct rc_iface *iface)
{
	return iface->srq.srq;
}

struct rc_rx_cq *rc_iface_rx_cq(struct rc_iface *iface)
{
	return &iface->rx_cq;
}

struct mr_pool *rc_iface_mr_pool(struct rc_iface *iface)
{
	return &iface->mr_pool;
}

struct rc_qp_pool *rc_iface_qp_pool(struct rc_iface *iface)
{
	return &iface->qp_pool;
}

bool rc_iface_has_last_wqe_event(const struct rc_iface *iface)
{
	return iface->last_wqe_event;
}

uint8_t *rc_iface_slot(const struct rc_iface *iface, uint32_t slot)
{
	return rc_srq_slot(&iface->srq, slot);
}

int rc_iface_post(struct rc_iface *iface, const uint32_t *slots, unsigned cnt)
{
	return rc_srq_post(&iface->srq, slots, cnt);
}

void rc_iface_srq_low(struct rc_iface *iface)
{
	iface->srq_low = true;
	rc_rx_cq_poll_for(&iface->rx_cq, NULL);
}

void rc_ifaces_arm_srq_limit(void)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->pid != getpid() || !atomic_exchange(&iface->srq_low, false))
			continue;
		rc_srq_arm_limit(&iface->srq);
		rc_rx_cq_poll_for(&iface->rx_cq, NULL); /* no event is sent for an empty SRQ */
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t srq_limit_due(uint64_t now_ns)
{
	(void)now_ns;
	rc_ifaces_arm_srq_limit();
	return UINT64_MAX;
}

void rc_ifaces_schedule_srq_limit(void)
{
	static struct service_task task = {.run = srq_limit_due};

	(void)service_task_schedule(&task, sl_now_ns() + SRQ_LIMIT_MS * SL_NS_PER_MS);
}

bool rc_iface_is_supported(struct ibv_context *device)
{
	struct ibv_device_attr caps;

	return ibv_query_device(device, &caps) == 0 && rc_srq_size(&caps);
}

static void iface_free(struct rc_iface *iface)
{
	rc_qp_pool_fini(&iface->qp_pool);
	if (iface->srq.srq)
		ibv_destroy_srq(iface->srq.srq); /* waits for its events, which use rx_cq */
	rc_rx_cq_fini(&iface->rx_cq);
	rc_srq_free_slots(&iface->srq);
	mr_pool_fini(&iface->mr_pool);
	if (iface->pd)
		ibv_dealloc_pd(iface->pd);
	free(iface);
}

static struct rc_iface *iface_new(struct ibv_context *device, unsigned group)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_sge = 1}};
	struct ibv_device_attr caps;
	struct rc_iface *iface;
	int error;

	if (ibv_query_device(device, &caps) || !rc_srq_size(&caps)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	errno = 0;
	attr.attr.max_wr = rc_srq_size(&caps);
	iface = calloc(1, sizeof(*iface));
	if (!iface)
		return NULL;
	attr.srq_context = iface;
	iface->rx_cq.group.fd = iface->rx_cq.wake = -1;
	iface->device = device;
	iface->group = group;
	iface->pid = getpid();
	iface->pause_ms = PAUSE_MIN_MS;
	/* IBTA requires LAST_WQE_REACHED with an SRQ; soft-RoCE does not send it (Linux 6.1). */
	iface->last_wqe_event = caps.vendor_id != RXE_VENDOR;
	srq_credits_init(&iface->credits, attr.attr.max_wr, RC_IFACE_CONNS);
	iface->pd = ibv_alloc_pd(device);
	mr_pool_init(&iface->mr_pool, iface->pd, rdma_numa_node(device));
	iface->srq.pd = iface->pd;
	iface->srq.numa_node = iface->mr_pool.numa_node;
	if (iface->pd)
		iface->srq.srq = ibv_create_srq(iface->pd, &attr);
	error = errno == ENOSYS ? EOPNOTSUPP : errno;
	if (iface->srq.srq)
		error = -rc_rx_cq_init(&iface->rx_cq, &iface->srq, device,
				       rdma_comp_vector(device, group), iface->credits.total);
	rc_qp_pool_init(&iface->qp_pool,
			&(struct rc_qp_attr){.device = device,
					     .pd = iface->pd,
					     .srq = iface->srq.srq,
					     .comp_channel = iface->rx_cq.comp_channel,
					     .cq = iface->rx_cq.cq,
					     .vector = rdma_comp_vector(device, group)});
	if (iface->rx_cq.cq)
		return iface;
	iface_free(iface);
	errno = error ? error : ENOMEM;
	return NULL;
}

/*
 * Frees a failed interface without connections. Others are kept: making one takes longer than
 * connecting.
 */
static void free_if_unused(struct rc_iface *iface)
{
	if (iface->credits.members || !iface->srq.failed || iface->refilling)
		return;
	sl_list_del(&iface->node);
	iface_free(iface);
}

static void leave_locked(struct rc_iface *iface, uint32_t window)
{
	srq_credits_leave(&iface->credits, window);
	free_if_unused(iface);
}

static int join_locked(struct rc_iface *iface)
{
	if (!srq_credits_join(&iface->credits))
		return -EUSERS;
	if (rc_srq_grow(&iface->srq, iface->credits.granted) == 0)
		return 0;
	leave_locked(iface, SL_RPC_MIN_SLOTS);
	return -ENOMEM;
}

static struct rc_iface *find_or_make(struct ibv_context *device, unsigned group)
{
	struct rc_iface *iface;
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		iface = sl_container_of(at, struct rc_iface, node);
		if (iface->device == device && iface->group == group && !iface->srq.failed &&
		    iface->pid == getpid())
			return iface;
	}
	iface = iface_new(device, group);
	if (iface)
		sl_list_add_tail(&all, &iface->node);
	return iface;
}

int rc_iface_join(struct ibv_context *device, unsigned group, struct rc_iface **joined)
{
	struct rc_iface *iface;
	int rc;

	pthread_mutex_lock(&lock);
	iface = find_or_make(device, group);
	rc = iface ? join_locked(iface) : -errno;
	*joined = rc ? NULL : iface;
	pthread_mutex_unlock(&lock);
	return rc;
}

void rc_iface_request(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len)
{
	struct rc_iface *iface;

	pthread_mutex_lock(&lock);
	iface = find_or_make(device, group);
	if (iface) {
		mr_pool_request(&iface->mr_pool, rings_len);
		rc_qp_pool_request(&iface->qp_pool, slots);
	}
	pthread_mutex_unlock(&lock);
}

void rc_iface_leave(struct rc_iface *iface, uint32_t window)
{
	pthread_mutex_lock(&lock);
	leave_locked(iface, window);
	pthread_mutex_unlock(&lock);
}

/* Lock held. */
static void rebalance_iface(struct rc_iface *iface, uint64_t now_ns)
{
	bool idle = now_ns - iface->idle_ns >= IDLE_MS * SL_NS_PER_MS;
	struct srq_demand wants = {.cnt = {0}};
	uint32_t level;
	bool moved;

	iface->rebalance_requested = false;
	if (idle)
		iface->idle_ns = now_ns;
	rc_rx_cq_measure_demand(&iface->rx_cq, &iface->credits, idle, &wants);
	level = srq_credits_level(&iface->credits, &wants);
	(void)rc_srq_grow(&iface->srq, srq_credits_need(&iface->credits, &wants, level));
	moved = rc_rx_cq_set_windows(&iface->rx_cq, &iface->credits, rc_srq_slot_cnt(&iface->srq),
				     level);
	iface->pause_ms = moved ? PAUSE_MIN_MS : 2 * iface->pause_ms;
	if (iface->pause_ms > PAUSE_MAX_MS)
		iface->pause_ms = PAUSE_MAX_MS;
	iface->rebalance_ns = now_ns + iface->pause_ms * SL_NS_PER_MS;
}

static bool has_large_windows(const struct rc_iface *iface)
{
	return iface->credits.granted > iface->credits.members * SRQ_CREDITS_MIN;
}

static uint64_t rebalance_ifaces(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);
		uint64_t idle_ns = iface->idle_ns + IDLE_MS * SL_NS_PER_MS;

		if (iface->pid != getpid() || iface->srq.failed)
			continue;
		if ((iface->rebalance_requested && now_ns >= iface->rebalance_ns) ||
		    (has_large_windows(iface) && now_ns >= idle_ns))
			rebalance_iface(iface, now_ns);
		idle_ns = iface->idle_ns + IDLE_MS * SL_NS_PER_MS;
		if (iface->rebalance_requested && iface->rebalance_ns < next_ns)
			next_ns = iface->rebalance_ns;
		if (has_large_windows(iface) && idle_ns < next_ns)
			next_ns = idle_ns;
	}
	pthread_mutex_unlock(&lock);
	return next_ns;
}

void rc_iface_request_rebalance(struct rc_iface *iface)
{
	static struct service_task task = {.run = rebalance_ifaces};

	if (!atomic_load_explicit(&iface->rebalance_requested, memory_order_relaxed) &&
	    !atomic_exchange(&iface->rebalance_requested, true))
		(void)service_task_schedule(&task, SERVICE_NOW);
}

void rc_iface_fail(struct rc_iface *iface)
{
	iface->srq.failed = true;
}

bool rc_ifaces_host_blocked(unsigned group, const uint8_t host[16])
{
	bool blocked = false;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->group == group && iface->pid == getpid())
			blocked |= rc_rx_cq_host_blocked(&iface->rx_cq, host);
	}
	pthread_mutex_unlock(&lock);
	return blocked;
}

void rc_ifaces_retire(unsigned group)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	sl_list_for_each_safe (at, next, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->group != group || iface->pid != getpid())
			continue;
		iface->srq.failed = true;
		free_if_unused(iface);
	}
	pthread_mutex_unlock(&lock);
}

void rc_ifaces_sweep(const struct ibv_context *device)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	sl_list_for_each_safe (at, next, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->pid != getpid())
			continue;
		if (iface->device == device)
			iface->srq.failed = true;
		free_if_unused(iface);
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t refill_ifaces(uint64_t now_ns)
{
	struct sl_list *at, *next;

	(void)now_ns;
	pthread_mutex_lock(&lock);
	/* An interface that is refilled is not freed or moved in the list. */
	for (at = all.next; at != &all; at = next) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->pid == getpid() && !iface->srq.failed) {
			iface->refilling = true;
			pthread_mutex_unlock(&lock);
			mr_pool_refill(&iface->mr_pool);
			rc_qp_pool_refill(&iface->qp_pool);
			pthread_mutex_lock(&lock);
			iface->refilling = false;
		}
		next = at->next;
		free_if_unused(iface);
	}
	pthread_mutex_unlock(&lock);
	return UINT64_MAX;
}

void rc_ifaces_schedule_refill(void)
{
	static struct service_task task = {.run = refill_ifaces, .awaited = true};

	(void)service_task_schedule(&task, sl_now_ns() + REFILL_MS * SL_NS_PER_MS);
}
