/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mempool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LINK_LEN = sizeof(void *), ALIGN_MAX = 4096 };

int sl_mempool_init(struct sl_mempool *p, size_t obj_size, size_t align, uint32_t capacity)
{
	int err;

	*p = (struct sl_mempool){0};
	if (!obj_size || obj_size > UINT32_MAX || !capacity || align > ALIGN_MAX ||
	    (align & (align - 1)) != 0)
		return -EINVAL;
	if (align < LINK_LEN)
		align = LINK_LEN;
	p->stride = (obj_size + align - 1) & ~(align - 1);
	p->cap = capacity;
	p->shift = (uint32_t)__builtin_ctzll(p->stride);
	/* Newton's inverse of an odd number: each step doubles the right bits, from 3. */
	p->odd_inv = p->stride >> p->shift;
	for (int i = 0; i < 5; i++)
		p->odd_inv *= 2 - (p->stride >> p->shift) * p->odd_inv;
	p->map_len = p->stride * capacity;
	p->base = mmap(NULL, p->map_len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->base == MAP_FAILED) {
		err = -errno;
		goto out;
	}
	p->in_use = calloc(p->cap / 64 + 1, sizeof(*p->in_use));
	err = -ENOMEM;
	if (!p->in_use)
		goto unmap;
	SL_POISON(p->base, p->map_len);
	return 0;

unmap:
	munmap(p->base, p->map_len);
out:
	*p = (struct sl_mempool){0};
	return err;
}

void sl_mempool_fini(struct sl_mempool *p)
{
	if (p->base) {
		SL_UNPOISON(p->base, p->map_len);
		munmap(p->base, p->map_len);
	}
	free(p->in_use);
	*p = (struct sl_mempool){0};
}

#ifdef SL_DEBUG
void sl_mempool_check_get(const struct sl_mempool *p, const uint8_t *obj, bool was_free)
{
	SL_CHECK(!sl_mempool_in_use(p, sl_mempool_index(p, obj)));
	for (size_t k = LINK_LEN; was_free && k < p->stride; k++)
		SL_CHECK(obj[k] == SL_MEMPOOL_POISON);
}
#endif
