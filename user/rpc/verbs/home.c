/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/home.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "rpc/verbs/budget.h"
#include "rpc/verbs/verbs.h"

enum {
	RXE_VENDOR = 0xffffff, /* soft-RoCE */
	CHUNK = 512,           /* slots, which fill a huge page */
	CHUNKS_MAX = VB_HOME_SLOTS / CHUNK,
	POST = 16,
	SHORT = 16, /* slots: fewer are left where somebody takes more than its window, and else never */
	PAUSE_MIN_MS = 4,  /* between two looks at the windows; */
	PAUSE_MAX_MS = 64, /* where looking changes nothing */
	IDLE_MS = 100,     /* for which what has come says how large a window need be */
};
#define CHUNK_LEN ((size_t)CHUNK * SL_RPC_SLOT_SIZE)

struct vb_home {
	struct sl_list node;
	struct ibv_context *device;
	struct ibv_context **held; /* keeps it open, also once it has gone; NULL: nothing does */
	unsigned group;
	pid_t pid;            /* what a fork has copied is not the child's */
	_Atomic bool spoiled; /* set without the lock */
	_Atomic bool ran_short;
	bool tells, filling; /* filling: not to be freed */
	struct vb_budget budget;
	_Atomic bool wanted;       /* a window is used up */
	unsigned pause_ms;         /* before the next look */
	uint64_t look_ns, idle_ns; /* not before; since when arrivals are counted */
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct vb_desk desk;
	struct vb_arena arena;
	struct vb_ends ends;
	uint32_t chunk_cnt;
	struct ibv_mr *mrs[CHUNKS_MAX];
	uint8_t *chunks[CHUNKS_MAX]; /* an entry stays as it is once its slots are posted */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

struct ibv_pd *vb_home_pd(const struct vb_home *h)
{
	return h->pd;
}

struct ibv_srq *vb_home_srq(const struct vb_home *h)
{
	return h->srq;
}

struct vb_desk *vb_home_desk(struct vb_home *h)
{
	return &h->desk;
}

struct vb_arena *vb_home_arena(struct vb_home *h)
{
	return &h->arena;
}

struct vb_ends *vb_home_ends(struct vb_home *h)
{
	return &h->ends;
}

bool vb_home_tells(const struct vb_home *h)
{
	return h->tells;
}

uint8_t *vb_home_slot(const struct vb_home *h, uint32_t slot)
{
	return h->chunks[slot / CHUNK] + (size_t)(slot % CHUNK) * SL_RPC_SLOT_SIZE;
}

int vb_home_post(struct vb_home *h, const uint32_t *slots, unsigned cnt)
{
	while (cnt) {
		SL_UNINIT struct ibv_recv_wr wr[POST];
		SL_UNINIT struct ibv_sge sge[POST];
		struct ibv_recv_wr *bad;
		unsigned n = cnt < POST ? cnt : POST;

		for (unsigned i = 0; i < n; i++) {
			sge[i] = (struct ibv_sge){.addr = (uintptr_t)vb_home_slot(h, slots[i]),
						  .length = SL_RPC_SLOT_SIZE,
						  .lkey = h->mrs[slots[i] / CHUNK]->lkey};
			wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
						     .next = i + 1 < n ? &wr[i + 1] : NULL,
						     .sg_list = &sge[i],
						     .num_sge = 1};
		}
		if (ibv_post_srq_recv(h->srq, wr, &bad))
			return -EIO;
		slots += n;
		cnt -= n;
	}
	return 0;
}

static int add_chunk(struct vb_home *h)
{
	uint32_t slots[CHUNK];
	size_t map_len;
	uint8_t *mem = vb_map(CHUNK_LEN, h->arena.node, &map_len);
	struct ibv_mr *mr;

	if (!mem)
		return -ENOMEM;
	mr = ibv_reg_mr(h->pd, mem, CHUNK_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		munmap(mem, CHUNK_LEN);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < CHUNK; i++)
		slots[i] = h->chunk_cnt * CHUNK + i;
	h->chunks[h->chunk_cnt] = mem;
	h->mrs[h->chunk_cnt++] = mr;
	return vb_home_post(h, slots, CHUNK);
}

/* The device says once when there are fewer. One that cannot does not say it. */
static void watch_slots(struct vb_home *h)
{
	struct ibv_srq_attr attr = {.srq_limit = SHORT};

	(void)ibv_modify_srq(h->srq, &attr, IBV_SRQ_LIMIT);
}

void vb_home_run_short(struct vb_home *h)
{
	h->ran_short = true;
	vb_desk_pull(&h->desk, NULL);
}

void vb_homes_watch(void)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);

		if (h->pid != getpid() || !atomic_exchange(&h->ran_short, false))
			continue;
		watch_slots(h);
		vb_desk_pull(&h->desk, NULL); /* of an empty queue the device says nothing */
	}
	pthread_mutex_unlock(&lock);
}

/* Unlisted, without members. */
static void home_free(struct vb_home *h)
{
	vb_ends_fini(&h->ends);
	if (h->srq)
		ibv_destroy_srq(h->srq); /* its events, which are waited for, use the desk */
	vb_desk_fini(&h->desk);
	for (uint32_t i = 0; i < h->chunk_cnt; i++) {
		ibv_dereg_mr(h->mrs[i]);
		munmap(h->chunks[i], CHUNK_LEN);
	}
	vb_arena_fini(&h->arena);
	if (h->pd)
		ibv_dealloc_pd(h->pd);
	if (h->held)
		rdma_free_devices(h->held);
	free(h);
}

static uint32_t slots_of(const struct ibv_device_attr *a)
{
	static const unsigned windows =
		IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	uint32_t most = a->max_srq_wr > 0 ? (uint32_t)a->max_srq_wr : 0;

	if (!(a->device_cap_flags & windows) || a->max_srq < 1)
		return 0;
	if (most > (a->max_cqe > 0 ? (uint32_t)a->max_cqe : 0))
		most = (uint32_t)a->max_cqe;
	most = most < VB_HOME_SLOTS ? most : VB_HOME_SLOTS;
	return most / CHUNK * CHUNK;
}

/* NULL, and errno 0 if the device cannot share. */
static struct vb_home *home_new(struct ibv_context *device, unsigned group)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_sge = 1}};
	struct ibv_device_attr caps;
	struct vb_home *h;
	int error;

	errno = 0;
	if (ibv_query_device(device, &caps) || !slots_of(&caps))
		return NULL;
	attr.attr.max_wr = slots_of(&caps);
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	attr.srq_context = h;
	h->desk.hub.fd = h->desk.wake = -1;
	h->device = device;
	h->held = rdma_get_devices(NULL);
	h->group = group;
	h->pid = getpid();
	h->pause_ms = PAUSE_MIN_MS;
	/* The specification wants the event of all that share; soft-RoCE has none (Linux 6.1). */
	h->tells = caps.vendor_id != RXE_VENDOR;
	vb_budget_init(&h->budget, attr.attr.max_wr, VB_HOME_MEMBERS);
	h->pd = ibv_alloc_pd(device);
	vb_arena_init(&h->arena, h->pd, vb_node_of(device));
	if (h->pd)
		h->srq = ibv_create_srq(h->pd, &attr);
	error = h->srq ? 0 : errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
	if (h->srq)
		error = -vb_desk_init(&h->desk, h, device, vb_vector_of(device, group),
				      h->budget.total);
	vb_ends_init(&h->ends, &(struct vb_place){.device = device,
						  .pd = h->pd,
						  .srq = h->srq,
						  .bell = h->desk.bell,
						  .cq = h->desk.cq,
						  .vector = vb_vector_of(device, group)});
	if (h->desk.cq)
		return h;
	home_free(h);
	errno = error;
	return NULL;
}

/* An empty one waits for those who come back: to make it takes longer than to connect. */
static void end_if_over(struct vb_home *h)
{
	if (h->budget.members || !h->spoiled || h->filling)
		return;
	sl_list_del(&h->node);
	home_free(h);
}

static void leave(struct vb_home *h, uint32_t window)
{
	vb_budget_leave(&h->budget, window);
	end_if_over(h);
}

/* As many slots, or more. */
static int add_slots(struct vb_home *h, uint32_t cnt)
{
	int rc = 0;

	while (!rc && h->chunk_cnt * CHUNK < cnt) {
		rc = add_chunk(h);
		if (!rc && h->chunk_cnt == 1)
			watch_slots(h);
	}
	return rc;
}

static int join(struct vb_home *h)
{
	if (!vb_budget_join(&h->budget))
		return -EUSERS;
	if (add_slots(h, h->budget.granted) == 0)
		return 0;
	leave(h, SL_RPC_MIN_SLOTS);
	return -ENOMEM;
}

/* With the lock; NULL, and errno 0 if the device cannot share. */
static struct vb_home *find_or_make(struct ibv_context *device, unsigned group)
{
	struct vb_home *h;
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		h = sl_container_of(at, struct vb_home, node);
		if (h->device == device && h->group == group && !h->spoiled && h->pid == getpid())
			return h;
	}
	h = home_new(device, group);
	if (h)
		sl_list_add_tail(&all, &h->node);
	return h;
}

int vb_home_join(struct ibv_context *device, unsigned group, struct vb_home **home)
{
	struct vb_home *h;
	int rc;

	pthread_mutex_lock(&lock);
	h = find_or_make(device, group);
	rc = h ? join(h) : -errno;
	*home = rc ? NULL : h;
	pthread_mutex_unlock(&lock);
	return rc;
}

void vb_home_expect(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len)
{
	struct vb_home *h;

	pthread_mutex_lock(&lock);
	h = find_or_make(device, group);
	if (h) {
		vb_arena_want(&h->arena, rings_len);
		vb_ends_want(&h->ends, slots);
	}
	pthread_mutex_unlock(&lock);
}

void vb_home_lower(struct vb_home *h, uint32_t from, uint32_t to)
{
	pthread_mutex_lock(&lock);
	vb_budget_lower(&h->budget, from, to);
	pthread_mutex_unlock(&lock);
}

void vb_home_leave(struct vb_home *h, uint32_t window)
{
	pthread_mutex_lock(&lock);
	leave(h, window);
	pthread_mutex_unlock(&lock);
}

void vb_home_want(struct vb_home *h)
{
	if (!atomic_load_explicit(&h->wanted, memory_order_relaxed) &&
	    !atomic_exchange(&h->wanted, true))
		vb_closer_share();
}

/* Both with the lock, and so nobody joins or leaves; slots are added between the two. */
static void share(struct vb_home *h, uint64_t now_ns)
{
	bool idle = now_ns - h->idle_ns >= IDLE_MS * SL_NS_PER_MS;
	struct vb_wants wants = {.cnt = {0}};
	uint32_t level;
	bool moved;

	h->wanted = false;
	if (idle)
		h->idle_ns = now_ns;
	vb_desk_count(&h->desk, &h->budget, idle, &wants);
	level = vb_budget_level(&h->budget, &wants);
	(void)add_slots(h, vb_budget_need(&h->budget, &wants, level));
	moved = vb_desk_move(&h->desk, &h->budget, h->chunk_cnt * CHUNK, level);
	h->pause_ms = moved ? PAUSE_MIN_MS : 2 * h->pause_ms;
	if (h->pause_ms > PAUSE_MAX_MS)
		h->pause_ms = PAUSE_MAX_MS;
	h->look_ns = now_ns + h->pause_ms * SL_NS_PER_MS;
}

static bool has_raised(const struct vb_home *h)
{
	return h->budget.granted > h->budget.members * VB_BUDGET_LEAST;
}

uint64_t vb_homes_share(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);
		uint64_t idle_ns = h->idle_ns + IDLE_MS * SL_NS_PER_MS;

		if (h->pid != getpid() || h->spoiled)
			continue;
		if ((h->wanted && now_ns >= h->look_ns) || (has_raised(h) && now_ns >= idle_ns))
			share(h, now_ns);
		idle_ns = h->idle_ns + IDLE_MS * SL_NS_PER_MS;
		if (h->wanted && h->look_ns < next_ns)
			next_ns = h->look_ns;
		if (has_raised(h) && idle_ns < next_ns)
			next_ns = idle_ns;
	}
	pthread_mutex_unlock(&lock);
	return next_ns;
}

void vb_home_spoil(struct vb_home *h)
{
	h->spoiled = true;
}

bool vb_homes_shun(unsigned group, const uint8_t host[16])
{
	bool shun = false;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);

		if (h->group == group && h->pid == getpid())
			shun |= vb_desk_shuns(&h->desk, host);
	}
	pthread_mutex_unlock(&lock);
	return shun;
}

void vb_homes_retire(unsigned group)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	sl_list_for_each_safe (at, next, &all) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);

		if (h->group != group || h->pid != getpid())
			continue;
		h->spoiled = true;
		end_if_over(h);
	}
	pthread_mutex_unlock(&lock);
}

void vb_homes_sweep(const struct ibv_context *device)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	sl_list_for_each_safe (at, next, &all) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);

		if (h->pid != getpid())
			continue;
		if (h->device == device)
			h->spoiled = true;
		end_if_over(h);
	}
	pthread_mutex_unlock(&lock);
}

void vb_homes_fill(void)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&lock);
	/* No other frees what is being filled, and nothing else moves it in the list. */
	for (at = all.next; at != &all; at = next) {
		struct vb_home *h = sl_container_of(at, struct vb_home, node);

		/* Without the lock while it lasts. */
		if (h->pid == getpid() && !h->spoiled) {
			h->filling = true;
			pthread_mutex_unlock(&lock);
			vb_arena_fill(&h->arena);
			vb_ends_fill(&h->ends);
			pthread_mutex_lock(&lock);
			h->filling = false;
		}
		next = at->next;
		end_if_over(h);
	}
	pthread_mutex_unlock(&lock);
}
