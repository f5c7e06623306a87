/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "xio/frame.h"

/* Poisoned only if the checks below can lift it again. */
#if defined(__SANITIZE_ADDRESS__) && defined(SL_DEBUG)
#define SL_ASAN 1
#elif defined(__has_feature) && defined(SL_DEBUG)
#if __has_feature(address_sanitizer)
#define SL_ASAN 1
#endif
#endif
#ifdef SL_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size)   ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

enum {
	MIN_FRAME_SIZE = 2048,
	MAX_FRAME_SIZE = 65536,
};

static const size_t huge_page_len = 2u << 20;

static void *map_memory(size_t len)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *p = MAP_FAILED;

	if (len % huge_page_len == 0)
		p = mmap(NULL, len, prot, flags | MAP_HUGETLB, -1, 0);
	if (p == MAP_FAILED) {
		p = mmap(NULL, len, prot, flags, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		(void)madvise(p, len, MADV_HUGEPAGE);
	}
	(void)madvise(p, len, MADV_DONTDUMP); /* core dumps must not contain clients' data */
	return p;
}

static int debug_init(struct sl_umem *u)
{
#ifdef SL_DEBUG
	u->lent = calloc(u->frame_cnt, sizeof(*u->lent));
	return u->lent ? 0 : -ENOMEM;
#else
	(void)u;
	return 0;
#endif
}

int sl_umem_init(struct sl_umem *u, uint32_t frame_size, uint32_t frame_cnt)
{
	int err = -ENOMEM;

	memset(u, 0, sizeof(*u));
	if (frame_size < MIN_FRAME_SIZE || frame_size > MAX_FRAME_SIZE ||
	    (frame_size & (frame_size - 1)) || frame_cnt == 0)
		return -EINVAL;
	u->frame_size = frame_size;
	u->frame_shift = (uint32_t)__builtin_ctz(frame_size);
	u->frame_cnt = frame_cnt;
	u->area_len = (size_t)frame_size * frame_cnt;
	u->area = map_memory(u->area_len);
	if (!u->area)
		goto fail;
	u->frames = map_memory(sizeof(*u->frames) * frame_cnt);
	if (!u->frames)
		goto unmap_area;
	u->free = malloc(sizeof(struct sl_frame *) * frame_cnt);
	if (!u->free)
		goto unmap_frames;

	for (uint32_t i = 0; i < frame_cnt; i++) {
		u->frames[i].index = i;
		u->free[frame_cnt - 1 - i] = &u->frames[i];
	}
	if (debug_init(u))
		goto free_stack;
	u->free_cnt = frame_cnt;
	u->low_water = frame_cnt / 16;
	ASAN_POISON_MEMORY_REGION(u->area, u->area_len);
	return 0;

free_stack:
	free(u->free);
unmap_frames:
	munmap(u->frames, sizeof(*u->frames) * frame_cnt);
unmap_area:
	munmap(u->area, u->area_len);
fail:
	memset(u, 0, sizeof(*u));
	return err;
}

void sl_umem_fini(struct sl_umem *u)
{
	if (!u->area)
		return;
	ASAN_UNPOISON_MEMORY_REGION(u->area, u->area_len);
	free(u->free);
	free(u->lent);
	munmap(u->frames, sizeof(*u->frames) * u->frame_cnt);
	munmap(u->area, u->area_len);
	memset(u, 0, sizeof(*u));
}

void sl_umem_census(const struct sl_umem *u, uint32_t *out)
{
	memset(out, 0, sizeof(*out) * SL_FRAME_STATE_CNT);
	for (uint32_t i = 0; i < u->frame_cnt; i++) {
		if (u->frames[i].state < SL_FRAME_STATE_CNT)
			out[u->frames[i].state]++;
	}
}

#ifdef SL_DEBUG
enum {
	POISON_BYTE = 0xdb,
	POISON_LEN = 256, /* without ASan: the headers */
};

/* Steps of frame.h's diagram. Only sl_frame_get() leaves FREE. */
#define TO(state) (1u << SL_FRAME_##state)
static const uint8_t allowed_steps[SL_FRAME_STATE_CNT] = {
	[SL_FRAME_FILL] = TO(RX) | TO(FREE), /* FREE: the port was closed */
	[SL_FRAME_RX] = TO(HELD) | TO(FREE),    [SL_FRAME_HELD] = TO(TX) | TO(UNACKED) | TO(FREE),
	[SL_FRAME_TX] = TO(UNACKED) | TO(FREE), [SL_FRAME_UNACKED] = TO(TX) | TO(FREE),
};
#undef TO

static void check_member(const struct sl_umem *u, const struct sl_frame *f)
{
	SL_CHECK(f >= u->frames && f < u->frames + u->frame_cnt);
	SL_CHECK(&u->frames[f->index] == f);
	SL_CHECK(f->state < SL_FRAME_STATE_CNT);
}

void sl_frame_check_to(struct sl_umem *u, struct sl_frame *f, enum sl_frame_state state)
{
	check_member(u, f);
	SL_CHECK(allowed_steps[f->state] & (1u << state));
}

void sl_frame_check_get(struct sl_umem *u, struct sl_frame *f, enum sl_frame_state state)
{
	check_member(u, f);
	SL_CHECK(f->state == SL_FRAME_FREE);
	SL_CHECK(state == SL_FRAME_HELD || state == SL_FRAME_FILL || state == SL_FRAME_TX ||
		 state == SL_FRAME_UNACKED);
	ASAN_UNPOISON_MEMORY_REGION(sl_frame_base(u, f), u->frame_size);
}

void sl_frame_check_put(struct sl_umem *u, struct sl_frame *f)
{
	check_member(u, f);
	SL_CHECK(allowed_steps[f->state] & (1u << SL_FRAME_FREE));
	SL_CHECK(!u->lent[f->index]); /* else a backend would get another frame's bytes */
	memset(sl_frame_base(u, f), POISON_BYTE, POISON_LEN);
	ASAN_POISON_MEMORY_REGION(sl_frame_base(u, f), u->frame_size);
}

void sl_frame_check_lent(struct sl_umem *u, const void *bytes, int step)
{
	uintptr_t off = (uintptr_t)bytes - (uintptr_t)u->area;
	const struct sl_frame *f;

	if (off >= u->area_len)
		return;
	f = sl_frame_at(u, off);
	SL_CHECK(f->state != SL_FRAME_FREE);
	SL_CHECK(step > 0 || u->lent[f->index]);
	u->lent[f->index] = (uint16_t)(u->lent[f->index] + step);
}
#endif
