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
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	RXE_VENDOR = 0xffffff, /* soft-RoCE */
	CHUNK = 512,           /* slots; fills a huge page */
	CHUNKS_MAX = RC_IFACE_SLOTS / CHUNK,
	POST = 16,
	SRQ_LOW = 16,      /* slots: fewer are left only if a peer exceeds its window */
	PAUSE_MIN_MS = 4,  /* interval of rebalances */
	PAUSE_MAX_MS = 64, /* the same, while they change nothing */
	IDLE_MS = 100,     /* to find too large windows */
};
#define CHUNK_LEN ((size_t)CHUNK * SL_RPC_SLOT_SIZE)

struct rc_iface {
	struct sl_list node;
	struct ibv_context *device;
	struct ibv_context **device_list; /* keeps the device open, also after its removal */
	unsigned group;
	pid_t pid;           /* a forked child does not use it */
	_Atomic bool failed; /* set without the lock */
	_Atomic bool srq_low;
	bool last_wqe_event, refilling; /* refilling: must not be freed */
	struct srq_credits credits;
	_Atomic bool rebalance_requested;
	unsigned pause_ms;
	uint64_t rebalance_ns, idle_ns;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct rc_rx_cq rx_cq;
	struct mr_pool mr_pool;
	struct rc_qp_pool qp_pool;
	uint32_t chunk_cnt;
	struct ibv_mr *mrs[CHUNKS_MAX];
	uint8_t *chunks[CHUNKS_MAX]; /* an entry is constant once its slots are posted */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

struct ibv_pd *rc_iface_pd(const struct rc_iface *iface)
{
	return iface->pd;
}

struct ibv_srq *rc_iface_srq(const struct rc_iface *iface)
{
	return iface->srq;
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
	return iface->chunks[slot / CHUNK] + (size_t)(slot % CHUNK) * SL_RPC_SLOT_SIZE;
}

int rc_iface_post(struct rc_iface *iface, const uint32_t *slots, unsigned cnt)
{
	while (cnt) {
		SL_UNINIT struct ibv_recv_wr wr[POST];
		SL_UNINIT struct ibv_sge sge[POST];
		struct ibv_recv_wr *bad;
		unsigned n = cnt < POST ? cnt : POST;

		for (unsigned i = 0; i < n; i++) {
			sge[i] = (struct ibv_sge){.addr = (uintptr_t)rc_iface_slot(iface, slots[i]),
						  .length = SL_RPC_SLOT_SIZE,
						  .lkey = iface->mrs[slots[i] / CHUNK]->lkey};
			wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
						     .next = i + 1 < n ? &wr[i + 1] : NULL,
						     .sg_list = &sge[i],
						     .num_sge = 1};
		}
		if (ibv_post_srq_recv(iface->srq, wr, &bad))
			return -EIO;
		slots += n;
		cnt -= n;
	}
	return 0;
}

static int add_chunk(struct rc_iface *iface)
{
	uint32_t slots[CHUNK];
	size_t map_len;
	uint8_t *mem = mr_map(CHUNK_LEN, iface->mr_pool.numa_node, &map_len);
	struct ibv_mr *mr;

	if (!mem)
		return -ENOMEM;
	mr = ibv_reg_mr(iface->pd, mem, CHUNK_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		munmap(mem, CHUNK_LEN);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < CHUNK; i++)
		slots[i] = iface->chunk_cnt * CHUNK + i;
	iface->chunks[iface->chunk_cnt] = mem;
	iface->mrs[iface->chunk_cnt++] = mr;
	return rc_iface_post(iface, slots, CHUNK);
}

/* Requests one event when few slots are left. Devices without the feature send none. */
static void arm_srq_limit(struct rc_iface *iface)
{
	struct ibv_srq_attr attr = {.srq_limit = SRQ_LOW};

	(void)ibv_modify_srq(iface->srq, &attr, IBV_SRQ_LIMIT);
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
		arm_srq_limit(iface);
		rc_rx_cq_poll_for(&iface->rx_cq, NULL); /* no event is sent for an empty SRQ */
	}
	pthread_mutex_unlock(&lock);
}

/* Unlisted and without connections. */
static void iface_free(struct rc_iface *iface)
{
	rc_qp_pool_fini(&iface->qp_pool);
	if (iface->srq)
		ibv_destroy_srq(iface->srq); /* waits for its events, which use rx_cq */
	rc_rx_cq_fini(&iface->rx_cq);
	for (uint32_t i = 0; i < iface->chunk_cnt; i++) {
		ibv_dereg_mr(iface->mrs[i]);
		munmap(iface->chunks[i], CHUNK_LEN);
	}
	mr_pool_fini(&iface->mr_pool);
	if (iface->pd)
		ibv_dealloc_pd(iface->pd);
	if (iface->device_list)
		rdma_free_devices(iface->device_list);
	free(iface);
}

static uint32_t srq_size(const struct ibv_device_attr *a)
{
	static const unsigned windows =
		IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	uint32_t most = a->max_srq_wr > 0 ? (uint32_t)a->max_srq_wr : 0;

	if (!(a->device_cap_flags & windows) || a->max_srq < 1)
		return 0;
	if (most > (a->max_cqe > 0 ? (uint32_t)a->max_cqe : 0))
		most = (uint32_t)a->max_cqe;
	most = most < RC_IFACE_SLOTS ? most : RC_IFACE_SLOTS;
	return most / CHUNK * CHUNK;
}

/* Returns NULL and errno; errno 0: the device cannot share. */
static struct rc_iface *iface_new(struct ibv_context *device, unsigned group)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_sge = 1}};
	struct ibv_device_attr caps;
	struct rc_iface *iface;
	int error;

	errno = 0;
	if (ibv_query_device(device, &caps) || !srq_size(&caps))
		return NULL;
	attr.attr.max_wr = srq_size(&caps);
	iface = calloc(1, sizeof(*iface));
	if (!iface)
		return NULL;
	attr.srq_context = iface;
	iface->rx_cq.group.fd = iface->rx_cq.wake = -1;
	iface->device = device;
	iface->device_list = rdma_get_devices(NULL);
	iface->group = group;
	iface->pid = getpid();
	iface->pause_ms = PAUSE_MIN_MS;
	/* IBTA requires LAST_WQE_REACHED with an SRQ; soft-RoCE does not send it (Linux 6.1). */
	iface->last_wqe_event = caps.vendor_id != RXE_VENDOR;
	srq_credits_init(&iface->credits, attr.attr.max_wr, RC_IFACE_CONNS);
	iface->pd = ibv_alloc_pd(device);
	mr_pool_init(&iface->mr_pool, iface->pd, rdma_numa_node(device));
	if (iface->pd)
		iface->srq = ibv_create_srq(iface->pd, &attr);
	error = iface->srq ? 0 : errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
	if (iface->srq)
		error = -rc_rx_cq_init(&iface->rx_cq, iface, device,
				       rdma_comp_vector(device, group), iface->credits.total);
	rc_qp_pool_init(&iface->qp_pool,
			&(struct rc_qp_attr){.device = device,
					     .pd = iface->pd,
					     .srq = iface->srq,
					     .comp_channel = iface->rx_cq.comp_channel,
					     .cq = iface->rx_cq.cq,
					     .vector = rdma_comp_vector(device, group)});
	if (iface->rx_cq.cq)
		return iface;
	iface_free(iface);
	errno = error;
	return NULL;
}

/* An empty interface is kept: making one takes longer than connecting. */
static void free_if_unused(struct rc_iface *iface)
{
	if (iface->credits.members || !iface->failed || iface->refilling)
		return;
	sl_list_del(&iface->node);
	iface_free(iface);
}

static void leave_locked(struct rc_iface *iface, uint32_t window)
{
	srq_credits_leave(&iface->credits, window);
	free_if_unused(iface);
}

static int add_slots(struct rc_iface *iface, uint32_t cnt)
{
	int rc = 0;

	while (!rc && iface->chunk_cnt * CHUNK < cnt) {
		rc = add_chunk(iface);
		if (!rc && iface->chunk_cnt == 1)
			arm_srq_limit(iface);
	}
	return rc;
}

static int join_locked(struct rc_iface *iface)
{
	if (!srq_credits_join(&iface->credits))
		return -EUSERS;
	if (add_slots(iface, iface->credits.granted) == 0)
		return 0;
	leave_locked(iface, SL_RPC_MIN_SLOTS);
	return -ENOMEM;
}

/* Returns NULL and errno; errno 0: the device cannot share. Lock held. */
static struct rc_iface *find_or_make(struct ibv_context *device, unsigned group)
{
	struct rc_iface *iface;
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		iface = sl_container_of(at, struct rc_iface, node);
		if (iface->device == device && iface->group == group && !iface->failed &&
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

void rc_iface_lower_window(struct rc_iface *iface, uint32_t from, uint32_t to)
{
	pthread_mutex_lock(&lock);
	srq_credits_lower(&iface->credits, from, to);
	pthread_mutex_unlock(&lock);
}

void rc_iface_leave(struct rc_iface *iface, uint32_t window)
{
	pthread_mutex_lock(&lock);
	leave_locked(iface, window);
	pthread_mutex_unlock(&lock);
}

void rc_iface_request_rebalance(struct rc_iface *iface)
{
	if (!atomic_load_explicit(&iface->rebalance_requested, memory_order_relaxed) &&
	    !atomic_exchange(&iface->rebalance_requested, true))
		service_thread_rebalance();
}

/* Measures demand and sets windows. Lock held throughout, so that no connection joins or leaves. */
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
	(void)add_slots(iface, srq_credits_need(&iface->credits, &wants, level));
	moved = rc_rx_cq_set_windows(&iface->rx_cq, &iface->credits, iface->chunk_cnt * CHUNK,
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

uint64_t rc_ifaces_rebalance(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);
		uint64_t idle_ns = iface->idle_ns + IDLE_MS * SL_NS_PER_MS;

		if (iface->pid != getpid() || iface->failed)
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

void rc_iface_fail(struct rc_iface *iface)
{
	iface->failed = true;
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
		iface->failed = true;
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
			iface->failed = true;
		free_if_unused(iface);
	}
	pthread_mutex_unlock(&lock);
}

void rc_ifaces_refill(void)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	/* An interface that is refilled is not freed or moved in the list. */
	for (at = all.next; at != &all; at = next) {
		struct rc_iface *iface = sl_container_of(at, struct rc_iface, node);

		if (iface->pid == getpid() && !iface->failed) {
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
}
