/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/mr_pool.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/check.h"
#include "rpc/rdma/device.h"

#define HUGE ((size_t)2 << 20)

enum { NODES = 1024, NODES_PER_WORD = 8 * sizeof(unsigned long) }; /* the kernel's maximum */

struct shared_mr {
	struct sl_list node;
	void *mem;
	size_t len;
	unsigned users;
	struct ibv_mr *mr;
};

void mr_pool_init(struct mr_pool *pool, struct ibv_pd *pd, int node)
{
	pool->pd = pd;
	pool->numa_node = node;
	pool->unused_len = pool->refill_len = 0;
	pthread_mutex_init(&pool->lock, NULL);
	sl_list_init(&pool->shared);
	sl_list_init(&pool->unused);
}

static void free_buf(struct mr_buf *s)
{
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->mem)
		munmap(s->mem, s->map_len);
	free(s);
}

void mr_pool_fini(struct mr_pool *pool)
{
	struct sl_list *at;

	SL_CHECK(sl_list_empty(&pool->shared));
	while ((at = sl_list_pop_head(&pool->unused)))
		free_buf(sl_container_of(at, struct mr_buf, node));
	pthread_mutex_destroy(&pool->lock);
}

struct ibv_mr *mr_pool_reg_shared(struct mr_pool *pool, void *mem, size_t len)
{
	struct shared_mr *s = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&pool->lock);
	sl_list_for_each (at, &pool->shared) {
		s = sl_container_of(at, struct shared_mr, node);
		if (s->mem == mem && s->len == len)
			break;
		s = NULL;
	}
	if (!s && (s = calloc(1, sizeof(*s)))) {
		*s = (struct shared_mr){
			.mem = mem, .len = len, .mr = ibv_reg_mr(pool->pd, mem, len, 0)};
		if (s->mr) {
			sl_list_add_tail(&pool->shared, &s->node);
		} else {
			free(s);
			s = NULL;
		}
	}
	if (s)
		s->users++;
	pthread_mutex_unlock(&pool->lock);
	return s ? s->mr : NULL;
}

void mr_pool_dereg_shared(struct mr_pool *pool, const struct ibv_mr *mr)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&pool->lock);
	sl_list_for_each_safe (at, next, &pool->shared) {
		struct shared_mr *s = sl_container_of(at, struct shared_mr, node);

		if (s->mr != mr || --s->users)
			continue;
		sl_list_del(&s->node);
		ibv_dereg_mr(s->mr);
		free(s);
	}
	pthread_mutex_unlock(&pool->lock);
}

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
	(void)madvise(at + skip, len, MADV_HUGEPAGE);
	return at + skip;
}

int rdma_numa_node(const struct ibv_context *device)
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

static void prefer_numa_node(void *mem, size_t len, int node)
{
	unsigned long nodes[NODES / NODES_PER_WORD] = {0};

	if (node < 0 || node >= NODES)
		return;
	nodes[node / NODES_PER_WORD] = 1UL << node % NODES_PER_WORD;
	(void)syscall(SYS_mbind, mem, len, MPOL_PREFERRED, nodes, NODES + 1UL, 0UL);
}

int rdma_comp_vector(const struct ibv_context *device, unsigned group)
{
	unsigned number = group >= RDMA_GROUP_BACKEND ? (unsigned)getpid() : group;

	return device->num_comp_vectors > 1 ? (int)(number % (unsigned)device->num_comp_vectors)
					    : 0;
}

void *mr_map(size_t len, int node, size_t *map_len)
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
	prefer_numa_node(at, *map_len, node);
	(void)madvise(at, *map_len, MADV_DONTFORK);
	(void)madvise(at, *map_len, MADV_DONTDUMP); /* requests and replies of clients */
	return at;
}

static bool has_unused(const struct mr_pool *pool, size_t len)
{
	struct sl_list *at;

	sl_list_for_each (at, &pool->unused) {
		if (sl_container_of(at, struct mr_buf, node)->len == len)
			return true;
	}
	return false;
}

static struct mr_buf *alloc_buf(const struct mr_pool *pool, size_t len)
{
	struct mr_buf *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->len = len;
	s->mem = mr_map(len, pool->numa_node, &s->map_len);
	if (s->mem)
		return s;
	free_buf(s);
	return NULL;
}

int mr_pool_register(struct mr_pool *pool, struct mr_buf *buf)
{
	if (buf->mr)
		return 0;
	errno = ENOMEM;
	buf->mr = ibv_reg_mr(pool->pd, buf->mem, buf->len,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	return buf->mr ? 0 : -errno;
}

struct mr_buf *mr_pool_get(struct mr_pool *pool, size_t len)
{
	struct mr_buf *s = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&pool->lock);
	sl_list_for_each (at, &pool->unused) {
		struct mr_buf *unused = sl_container_of(at, struct mr_buf, node);

		if (unused->len != len)
			continue;
		s = unused;
		sl_list_del(&s->node);
		pool->unused_len -= s->map_len;
		break;
	}
	if (!has_unused(pool, len))
		pool->refill_len = len;
	pthread_mutex_unlock(&pool->lock);
	return s ? s : alloc_buf(pool, len);
}

void mr_pool_request(struct mr_pool *pool, size_t len)
{
	pthread_mutex_lock(&pool->lock);
	pool->refill_len = len;
	pthread_mutex_unlock(&pool->lock);
}

static void keep_buf(struct mr_pool *pool, struct mr_buf *buf)
{
	bool keep;

	pthread_mutex_lock(&pool->lock);
	keep = pool->unused_len + buf->map_len <= MR_POOL_KEEP;
	if (keep) {
		sl_list_add_tail(&pool->unused, &buf->node);
		pool->unused_len += buf->map_len;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!keep)
		free_buf(buf);
}

void mr_pool_put(struct mr_pool *pool, struct mr_buf *buf, size_t written)
{
	if (!buf->mr) {
		free_buf(buf);
		return;
	}
	memset(buf->mem + buf->len - written, 0, written);
	keep_buf(pool, buf);
}

void mr_pool_refill(struct mr_pool *pool)
{
	struct mr_buf *s;
	size_t len;

	pthread_mutex_lock(&pool->lock);
	len = pool->refill_len && !has_unused(pool, pool->refill_len) ? pool->refill_len : 0;
	pool->refill_len = 0;
	pthread_mutex_unlock(&pool->lock);
	s = len ? alloc_buf(pool, len) : NULL;
	if (s && mr_pool_register(pool, s) == 0)
		keep_buf(pool, s);
	else if (s)
		free_buf(s);
}
