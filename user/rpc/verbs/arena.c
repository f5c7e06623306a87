/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/arena.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/check.h"

#define HUGE ((size_t)2 << 20)

enum { NODES = 1024, NODES_PER_WORD = 8 * sizeof(unsigned long) }; /* as many as Linux knows */

/* Memory of the owner's. */
struct shared {
	struct sl_list node;
	void *mem;
	size_t len;
	unsigned users;
	struct ibv_mr *mr;
};

void vb_arena_init(struct vb_arena *a, struct ibv_pd *pd, int node)
{
	a->pd = pd;
	a->node = node;
	a->unused_len = a->want = 0;
	pthread_mutex_init(&a->lock, NULL);
	sl_list_init(&a->shared);
	sl_list_init(&a->unused);
}

static void free_slab(struct vb_slab *s)
{
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->mem)
		munmap(s->mem, s->map_len);
	free(s);
}

void vb_arena_fini(struct vb_arena *a)
{
	struct sl_list *at;

	SL_CHECK(sl_list_empty(&a->shared));
	while ((at = sl_list_pop_head(&a->unused)))
		free_slab(sl_container_of(at, struct vb_slab, node));
	pthread_mutex_destroy(&a->lock);
}

struct ibv_mr *vb_arena_share(struct vb_arena *a, void *mem, size_t len)
{
	struct shared *s = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&a->lock);
	sl_list_for_each (at, &a->shared) {
		s = sl_container_of(at, struct shared, node);
		if (s->mem == mem && s->len == len)
			break;
		s = NULL;
	}
	if (!s && (s = calloc(1, sizeof(*s)))) {
		*s = (struct shared){.mem = mem, .len = len, .mr = ibv_reg_mr(a->pd, mem, len, 0)};
		if (s->mr) {
			sl_list_add_tail(&a->shared, &s->node);
		} else {
			free(s);
			s = NULL;
		}
	}
	if (s)
		s->users++;
	pthread_mutex_unlock(&a->lock);
	return s ? s->mr : NULL;
}

void vb_arena_unshare(struct vb_arena *a, const struct ibv_mr *mr)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&a->lock);
	sl_list_for_each_safe (at, next, &a->shared) {
		struct shared *s = sl_container_of(at, struct shared, node);

		if (s->mr != mr || --s->users)
			continue;
		sl_list_del(&s->node);
		ibv_dereg_mr(s->mr);
		free(s);
	}
	pthread_mutex_unlock(&a->lock);
}

/* Aligned to huge pages: what is mapped beyond is given back. */
static uint8_t *map_huge(size_t len)
{
	uint8_t *at =
		mmap(NULL, len + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t skip;

	if (at == MAP_FAILED)
		return NULL;
	skip = -(uintptr_t)at & (HUGE - 1);
	if (skip)
		munmap(at, skip);
	if (skip < HUGE)
		munmap(at + skip + len, HUGE - skip);
	(void)madvise(at + skip, len, MADV_HUGEPAGE); /* a wish: small pages work too */
	return at + skip;
}

int vb_node_of(const struct ibv_context *device)
{
	char path[IBV_SYSFS_PATH_MAX + sizeof("/device/numa_node")];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/device/numa_node", device->device->ibdev_path);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

/* A wish: a kernel without nodes, a node without memory, or a sandbox refuses. */
static void prefer_node(void *mem, size_t len, int node)
{
	unsigned long nodes[NODES / NODES_PER_WORD] = {0};

	if (node < 0 || node >= NODES)
		return;
	nodes[node / NODES_PER_WORD] = 1UL << node % NODES_PER_WORD;
	(void)syscall(SYS_mbind, mem, len, MPOL_PREFERRED, nodes, NODES + 1UL, 0UL);
}

void *vb_map(size_t len, int node, size_t *map_len)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *at = MAP_FAILED;

	*map_len = len;
	if (len >= HUGE) {
		*map_len = (len + HUGE - 1) & ~(HUGE - 1);
		at = mmap(NULL, *map_len, prot, flags | MAP_HUGETLB, -1, 0);
		if (at == MAP_FAILED)
			at = map_huge(*map_len);
	} else {
		at = mmap(NULL, len, prot, flags, -1, 0);
		at = at == MAP_FAILED ? NULL : at;
	}
	if (!at)
		return NULL;
	prefer_node(at, *map_len, node);
	(void)madvise(at, *map_len, MADV_DONTFORK);
	(void)madvise(at, *map_len, MADV_DONTDUMP); /* requests and replies of clients */
	return at;
}

static bool has_unused(const struct vb_arena *a, size_t len)
{
	struct sl_list *at;

	sl_list_for_each (at, &a->unused) {
		if (sl_container_of(at, struct vb_slab, node)->len == len)
			return true;
	}
	return false;
}

static struct vb_slab *make_slab(const struct vb_arena *a, size_t len)
{
	struct vb_slab *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->len = len;
	s->mem = vb_map(len, a->node, &s->map_len);
	if (s->mem)
		return s;
	free_slab(s);
	return NULL;
}

int vb_arena_pin(struct vb_arena *a, struct vb_slab *slab)
{
	if (slab->mr)
		return 0;
	errno = ENOMEM;
	slab->mr = ibv_reg_mr(a->pd, slab->mem, slab->len,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	return slab->mr ? 0 : -errno;
}

struct vb_slab *vb_arena_get(struct vb_arena *a, size_t len)
{
	struct vb_slab *s = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&a->lock);
	sl_list_for_each (at, &a->unused) {
		struct vb_slab *unused = sl_container_of(at, struct vb_slab, node);

		if (unused->len != len)
			continue;
		s = unused;
		sl_list_del(&s->node);
		a->unused_len -= s->map_len;
		break;
	}
	if (!has_unused(a, len))
		a->want = len;
	pthread_mutex_unlock(&a->lock);
	return s ? s : make_slab(a, len);
}

void vb_arena_want(struct vb_arena *a, size_t len)
{
	pthread_mutex_lock(&a->lock);
	a->want = len;
	pthread_mutex_unlock(&a->lock);
}

/* Kept for the next, if it is not too much. */
static void keep_slab(struct vb_arena *a, struct vb_slab *slab)
{
	bool keep;

	pthread_mutex_lock(&a->lock);
	keep = a->unused_len + slab->map_len <= VB_ARENA_KEEP;
	if (keep) {
		sl_list_add_tail(&a->unused, &slab->node);
		a->unused_len += slab->map_len;
	}
	pthread_mutex_unlock(&a->lock);
	if (!keep)
		free_slab(slab);
}

void vb_arena_put(struct vb_arena *a, struct vb_slab *slab, size_t written)
{
	if (!slab->mr) {
		free_slab(slab);
		return;
	}
	memset(slab->mem + slab->len - written, 0, written);
	keep_slab(a, slab);
}

void vb_arena_fill(struct vb_arena *a)
{
	struct vb_slab *s;
	size_t len;

	pthread_mutex_lock(&a->lock);
	len = a->want && !has_unused(a, a->want) ? a->want : 0;
	a->want = 0;
	pthread_mutex_unlock(&a->lock);
	s = len ? make_slab(a, len) : NULL;
	if (s && vb_arena_pin(a, s) == 0)
		keep_slab(a, s);
	else if (s)
		free_slab(s);
}
