/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "rpc/shm/shm.h"

enum {
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

bool sl_shm_geometry_ok(const struct sl_shm_geometry *g)
{
	return is_power_of_two(g->slots) && g->slots >= SL_RPC_MIN_SLOTS &&
	       g->slots <= SL_RPC_MAX_SLOTS && is_power_of_two(g->bulk_len) &&
	       g->bulk_len >= SL_RPC_MIN_BULK && g->bulk_len <= SL_RPC_MAX_BULK;
}

static size_t slots_len(const struct sl_shm_geometry *g)
{
	size_t len = (size_t)g->slots * SL_SHM_SLOT_STRIDE;

	return (len + SL_SHM_PAGE - 1) & ~(size_t)(SL_SHM_PAGE - 1);
}

size_t sl_shm_len(const struct sl_shm_geometry *g)
{
	return SL_SHM_PAGE + 2 * slots_len(g) + 2 * (size_t)g->bulk_len;
}

int sl_shm_memory_create(const struct sl_shm_geometry *g)
{
	int fd = memfd_create("sluice-rpc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)sl_shm_len(g)) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* Checks size and seals. A file could fail to page in. */
static int verify_memfd(int memfd, size_t len)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(memfd, F_GET_SEALS);

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memfd, &st) < 0 ||
	    st.st_size != (off_t)len || fstatfs(memfd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return -EBADMSG;
	return 0;
}

static void set_ring_pointers(struct sl_shm *s, const struct sl_shm_geometry *g, bool acceptor)
{
	struct sl_shm_side *sides = s->map;
	uint8_t *slots = (uint8_t *)s->map + SL_SHM_PAGE;
	uint8_t *bulk = slots + 2 * slots_len(g);

	s->mine = &sides[acceptor];
	s->peer = &sides[!acceptor];
	s->rx_slots = slots + (acceptor ? 0 : slots_len(g));
	s->tx_slots = slots + (acceptor ? slots_len(g) : 0);
	s->rx_bulk = bulk + (acceptor ? 0 : g->bulk_len);
	s->tx_bulk = bulk + (acceptor ? g->bulk_len : 0);
	s->mask = g->slots - 1;
}

struct sl_shm *sl_shm_new(int sock, int memfd, const struct sl_shm_geometry *g, bool acceptor)
{
	struct sl_shm *s = calloc(1, sizeof(*s));
	size_t len = sl_shm_len(g);
	int rc = -ENOMEM;

	if (!s)
		goto fail;
	s->rx_bulk_end = calloc(g->slots, sizeof(*s->rx_bulk_end));
	s->posted = calloc(g->slots, sizeof(*s->posted));
	if (!s->rx_bulk_end || !s->posted)
		goto free_s;
	rc = verify_memfd(memfd, len);
	if (rc)
		goto free_s;
	s->map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	rc = -errno;
	if (s->map == MAP_FAILED)
		goto free_s;
	s->map_len = len;
	set_ring_pointers(s, g, acceptor);
	(void)madvise(s->map, len, MADV_DONTDUMP);
	(void)madvise(s->map, SL_SHM_PAGE + 2 * slots_len(g), MADV_POPULATE_WRITE);
	s->base.ops = &sl_shm_ops;
	s->base.fd = sock;
	s->base.copies = true;
	s->base.slot_len = SL_RPC_SLOT_SIZE;
	s->base.bulk_max = g->bulk_len / 4;
	sl_credits_init(&s->base.credits, g->slots, g->slots, g->bulk_len);
	s->base.rate_bps = SL_SHM_RATE_BPS;
	s->base.slice_min = SL_SHM_SLICE_MIN;
	return s;
free_s:
	free(s->posted);
	free(s->rx_bulk_end);
	free(s);
fail:
	errno = -rc;
	return NULL;
}

void sl_shm_close(struct sl_transport *t)
{
	struct sl_shm *s = (struct sl_shm *)t;

	close(t->fd);
	munmap(s->map, s->map_len);
	free(s->posted);
	free(s->rx_bulk_end);
	free(s);
}
