/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umem.c and frame.h: every frame has one owner; fake_port.c and fake_link.c: tests can trust them.
 */
#include <errno.h>
#include "unit.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "fake_link.h"
#include "suite.h"

enum { FRAMES = 64, SIZE = 2048 };

static void init(struct sl_umem *u)
{
	ck_assert_int_eq(sl_umem_init(u, SIZE, FRAMES), 0);
}

TEST(sizes_are_checked)
{
	struct sl_umem u;

	ck_assert_int_eq(sl_umem_init(&u, 1024, 8), -EINVAL);
	ck_assert_int_eq(sl_umem_init(&u, 3000, 8), -EINVAL);
	ck_assert_int_eq(sl_umem_init(&u, 131072, 8), -EINVAL);
	ck_assert_int_eq(sl_umem_init(&u, 4096, 0), -EINVAL);
	sl_umem_fini(&u); /* nothing was made */
	ck_assert_int_eq(sl_umem_init(&u, 65536, 64), 0);
	sl_umem_fini(&u);
	sl_umem_fini(&u);
}

TEST(each_frame_is_given_out_once)
{
	struct sl_frame *got[FRAMES];
	uint32_t census[SL_FRAME_STATE_CNT];
	struct sl_umem u;

	init(&u);
	ck_assert_uint_eq(u.low_water, FRAMES / 16);
	for (uint32_t i = 0; i < FRAMES; i++) {
		got[i] = sl_frame_get(&u, SL_FRAME_HELD, 100);
		ck_assert_ptr_eq(got[i]->data, sl_frame_base(&u, got[i]) + 100);
		ck_assert_ptr_eq(sl_frame_at(&u, (uint64_t)got[i]->index * SIZE + 5), got[i]);
		ck_assert_uint_eq(got[i]->len, 0);
		ck_assert_uint_eq(sl_frame_tailroom(&u, got[i]), SIZE - 100);
		memset(sl_frame_base(&u, got[i]), (int)i, SIZE);
		ck_assert_int_eq(sl_umem_low(&u), i >= FRAMES - FRAMES / 16);
	}
	ck_assert_ptr_null(sl_frame_get(&u, SL_FRAME_HELD, 0));
	for (uint32_t i = 0; i < FRAMES; i++) {
		ck_assert_uint_eq(sl_frame_base(&u, got[i])[0], i);
		ck_assert_uint_eq(sl_frame_base(&u, got[i])[SIZE - 1], i);
		got[i]->next = i ? got[i - 1] : NULL;
		got[i]->retain = 1;
	}
	sl_umem_census(&u, census);
	ck_assert_uint_eq(census[SL_FRAME_HELD], FRAMES);
	sl_frame_put_list(&u, got[FRAMES - 1]);
	sl_umem_census(&u, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], FRAMES);
	ck_assert_uint_eq(sl_frame_get(&u, SL_FRAME_TX, 0)->retain, 0);
	sl_umem_fini(&u);
}

#ifdef SL_DEBUG
struct step {
	enum sl_frame_state from, to;
};

static void take_step(void *arg)
{
	const struct step *s = arg;
	struct sl_frame *f;
	struct sl_umem u;

	if (sl_umem_init(&u, SIZE, FRAMES) != 0)
		_exit(0);
	f = &u.frames[3];
	f->state = (uint8_t)s->from;
	if (s->to == SL_FRAME_FREE)
		sl_frame_put(&u, f);
	else
		sl_frame_to(&u, f, s->to);
}

TEST(steps_outside_the_diagram_abort)
{
	static const struct step wrong[] = {
		{SL_FRAME_FREE, SL_FRAME_FREE},  {SL_FRAME_FREE, SL_FRAME_TX},
		{SL_FRAME_FILL, SL_FRAME_HELD},  {SL_FRAME_RX, SL_FRAME_TX},
		{SL_FRAME_RX, SL_FRAME_FILL},    {SL_FRAME_HELD, SL_FRAME_RX},
		{SL_FRAME_TX, SL_FRAME_HELD},    {SL_FRAME_TX, SL_FRAME_TX},
		{SL_FRAME_UNACKED, SL_FRAME_RX},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(wrong); i++) {
		struct step s = wrong[i];

		ck_assert_msg(aborts(take_step, &s), "%d -> %d is allowed", s.from, s.to);
	}
}

/* A frame that two sends read: the case says what happens when. */
static void lend_twice(void *arg)
{
	const int *at = arg;
	struct sl_frame *f;
	struct sl_umem u;

	if (sl_umem_init(&u, SIZE, FRAMES) != 0)
		_exit(0);
	f = sl_frame_get(&u, SL_FRAME_HELD, 0);
	sl_frame_check_lent(&u, arg, 1); /* outside of all frames */
	sl_frame_check_lent(&u, f->data + 5, 1);
	sl_frame_check_lent(&u, f->data + SIZE - 1, 1);
	for (int i = 0; i < (*at == 4 ? 2 : *at); i++)
		sl_frame_check_lent(&u, f->data, -1);
	sl_frame_put(&u, f);
	if (*at == 4)
		sl_frame_check_lent(&u, f->data, 0);
}

TEST(frame_being_read_is_not_freed)
{
	/* Put while read by two and by one; returned once too often; read when free. */
	for (int at = 0; at < 5; at++)
		ck_assert_msg(aborts(lend_twice, &at) == (at != 2), "case %d", at);
}
#endif

TEST(steps_of_the_diagram_are_allowed)
{
	struct sl_umem u;

	init(&u);
	struct sl_frame *f = sl_frame_get(&u, SL_FRAME_FILL, 0);

	sl_frame_to(&u, f, SL_FRAME_RX);
	sl_frame_to(&u, f, SL_FRAME_HELD);
	sl_frame_to(&u, f, SL_FRAME_TX);
	f->retain = 1;
	sl_frame_tx_done(&u, f);
	ck_assert_uint_eq(f->state, SL_FRAME_UNACKED);
	sl_frame_to(&u, f, SL_FRAME_TX);
	sl_frame_acked(&u, f);
	ck_assert_uint_eq(f->state, SL_FRAME_TX);
	sl_frame_tx_done(&u, f);
	ck_assert_uint_eq(f->state, SL_FRAME_FREE);
	f = sl_frame_get(&u, SL_FRAME_UNACKED, 0);
	sl_frame_acked(&u, f);
	ck_assert_uint_eq(u.free_cnt, FRAMES);
	sl_umem_fini(&u);
}

struct wire_bed {
	struct sl_umem u[2];
	struct sl_fake_port p[2];
	struct sl_fake_link link;
};

static void wire_begin(struct wire_bed *w, const struct sl_fake_link_config *cfg, uint64_t seed)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sl_umem_init(&w->u[i], SIZE, 1024), 0);
		sl_fake_port_init(&w->p[i], &w->u[i], 0);
	}
	ck_assert_int_eq(sl_fake_link_init(&w->link, &w->p[0], &w->p[1], cfg, 4096, seed), 0);
}

static void wire_end(struct wire_bed *w)
{
	sl_fake_link_fini(&w->link);
	for (int i = 0; i < 2; i++) {
		w->p[i].port.ops->close(&w->p[i].port);
		ck_assert_uint_eq(w->u[i].free_cnt, 1024);
		sl_umem_fini(&w->u[i]);
	}
}

static void send(struct wire_bed *w, uint32_t value)
{
	struct sl_frame *f = sl_frame_get(&w->u[0], SL_FRAME_TX, 0);

	memset(f->data, 0, 125);
	sl_put_be32(f->data, value);
	f->len = 125; /* 1000 bits */
	ck_assert_uint_eq(w->p[0].port.ops->tx_burst(&w->p[0].port, &f, 1), 1);
}

/* The value of the next packet, or -1. */
static int64_t receive(struct wire_bed *w, uint64_t *due_ns)
{
	struct sl_frame *f;
	int64_t value;

	if (w->p[1].port.ops->rx_burst(&w->p[1].port, &f, 1, 0) == 0)
		return -1;
	value = sl_get_be32(f->data);
	*due_ns = f->rx_ns;
	sl_frame_put(&w->u[1], f);
	return value;
}

TEST(a_clean_link_has_rate_delay_and_a_queue)
{
	/* 1 Mbit/s: a packet takes 1 ms; three may wait */
	const struct sl_fake_link_config cfg = {
		.delay_ns = 5 * SL_NS_PER_MS, .bits_per_s = 1000000, .queue_cnt = 3};
	struct wire_bed w;
	uint64_t due = 0;

	wire_begin(&w, &cfg, 1);
	for (uint32_t i = 0; i < 5; i++)
		send(&w, i);
	ck_assert_uint_eq(sl_fake_link_next_ns(&w.link), UINT64_MAX);
	ck_assert_uint_eq(sl_fake_link_step(&w.link, 0), 0);
	ck_assert_uint_eq(w.link.wire[0].queue_full, 2);
	ck_assert_uint_eq(sl_fake_link_next_ns(&w.link), 6 * SL_NS_PER_MS);
	ck_assert_uint_eq(sl_fake_link_step(&w.link, 6 * SL_NS_PER_MS - 1), 0);
	ck_assert_uint_eq(sl_fake_link_step(&w.link, 6 * SL_NS_PER_MS), 1);
	ck_assert_uint_eq(sl_fake_link_step(&w.link, 100 * SL_NS_PER_MS), 2);
	for (int64_t i = 0; i < 3; i++) {
		ck_assert_int_eq(receive(&w, &due), i);
		ck_assert_uint_eq(due, (uint64_t)(6 + i) * SL_NS_PER_MS);
	}
	ck_assert_int_eq(receive(&w, &due), -1);
	wire_end(&w);
}

/* Counts of each kind of damage lie near what was asked for, and the same seed repeats them. */
TEST(damage_is_as_configured_and_repeatable)
{
	const struct sl_fake_link_config cfg = {.delay_ns = SL_NS_PER_MS,
						.loss = 0.1,
						.duplicate = 0.05,
						.corrupt = 0.05,
						.reorder = 0.05,
						.reorder_ns = 50 * SL_NS_PER_MS};
	uint64_t sums[2] = {0, 0};

	for (int run = 0; run < 2; run++) {
		uint32_t received = 0, late = 0, max = 0;
		const struct sl_fake_wire *wire;
		struct wire_bed w;

		wire_begin(&w, &cfg, 42);
		for (uint32_t i = 0; i < 10000 || sl_fake_link_next_ns(&w.link) != UINT64_MAX;
		     i++) {
			uint64_t due;
			int64_t v;

			if (i < 10000)
				send(&w, i);
			sl_fake_link_step(&w.link, i * SL_NS_PER_MS);
			while ((v = receive(&w, &due)) >= 0) {
				received++;
				sums[run] = sums[run] * 31 + (uint64_t)v;
				late += v < 10000 && v < max;
				max = v < 10000 && v > max ? (uint32_t)v : max;
			}
		}
		wire = &w.link.wire[0];
		ck_assert_uint_eq(wire->sent, 10000);
		ck_assert_uint_eq(received, wire->sent - wire->lost + wire->duplicated);
		ck_assert(wire->lost > 800 && wire->lost < 1200);
		ck_assert(wire->duplicated > 350 && wire->duplicated < 600);
		ck_assert(wire->corrupted > 350 && wire->corrupted < 600);
		ck_assert(wire->reordered > 350 && wire->reordered < 600);
		ck_assert(late > 300);
		wire_end(&w);
	}
	ck_assert_uint_eq(sums[0], sums[1]);
}

TEST(fake_port_injects_and_records_frames)
{
	struct sl_fake_port p;
	struct sl_umem u;
	uint8_t big[SIZE] = {0};

	init(&u);
	sl_fake_port_init(&p, &u, 0);
	ck_assert(!sl_fake_inject(&p, big, SIZE - 255, 0));
	ck_assert(sl_fake_inject(&p, big, SIZE - 256, 0));
	p.tx_room = 1;
	struct sl_frame *two[2] = {sl_frame_get(&u, SL_FRAME_TX, 0),
				   sl_frame_get(&u, SL_FRAME_TX, 0)};

	ck_assert_uint_eq(p.port.ops->tx_burst(&p.port, two, 2), 1);
	ck_assert_uint_eq(p.port.ops->tx_pending(&p.port), 1);
	ck_assert_ptr_eq(sl_fake_sent(&p, 0), two[0]);
	p.auto_complete = true;
	p.port.ops->flush(&p.port);
	ck_assert_uint_eq(p.port.ops->tx_pending(&p.port), 0);
	sl_frame_put(&u, two[1]);
	ck_assert_uint_eq(u.free_cnt, FRAMES - 1);
	p.port.ops->close(&p.port);
	ck_assert_uint_eq(u.free_cnt, FRAMES);
	sl_umem_fini(&u);
}
