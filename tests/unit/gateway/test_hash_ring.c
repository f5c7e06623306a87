/* SPDX-License-Identifier: Apache-2.0 */
/* Backends that each worker dials, from one generation to the next and as links come and go. */
#include <stdio.h>

#include "base/mpsc.h"
#include "dial_bed.h"

enum { CNT = 32, SUBSET = 4 };

static struct sl_cfg_backend backends[CNT];
static struct sl_cfg_pool pool = {.name = "p", .backends = backends, .subset = SUBSET};
static char texts[CNT][8];
static uint32_t generation;

/* The first `cnt` backends, of which the first `skipped` are not in it, in a generation that is being prepared. */
static void enter(unsigned skipped, unsigned cnt)
{
	generation++;
	pool.backends = backends + skipped;
	pool.backend_cnt = cnt - skipped;
	for (unsigned i = skipped; i < cnt; i++)
		dialers[i]->generation = generation;
	ck_assert_int_eq(sl_hash_ring_enter(cm, &pool, dialers + skipped, generation), 0);
}

static void look(unsigned after_ms)
{
	now_ns += after_ms * MS;
	sl_dial_timer_scan(cm, now_ns);
	sl_hash_rings_update(cm, now_ns);
}

static void set_up_ring(void)
{
	set_up();
	now_ns = sl_now_ns();
	generation = 0;
	pool.subset = SUBSET;
	for (unsigned w = 0; w < WORKERS; w++)
		ck_assert_int_eq(sl_worker_mailbox_open(&workers[w]), 0);
	for (unsigned i = 0; i < CNT; i++) {
		snprintf(texts[i], sizeof(texts[i]), "b%u", i);
		backends[i].name = texts[i];
		add(i, SL_BACKEND_DOWN, now_ns);
		for (unsigned w = 0; w < WORKERS; w++)
			atomic_store(&dialers[i]->workers[w].used, false);
		sl_dial_timer_set(dialers[i]);
	}
}

static void tear_down_ring(void)
{
	tear_down();
	for (unsigned w = 0; w < WORKERS; w++)
		sl_worker_mailbox_close(&workers[w]);
}

FIXTURE(set_up_ring, tear_down_ring)

static bool uses(unsigned worker, unsigned i)
{
	return sl_dialer_used(dialers[i], worker);
}

static unsigned used_cnt(unsigned worker)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CNT; i++)
		n += uses(worker, i);
	return n;
}

/* Connects all that is dialled. */
static void connect_used(void)
{
	for (unsigned i = 0; i < CNT; i++) {
		for (unsigned w = 0; w < WORKERS; w++) {
			if (uses(w, i))
				sl_backend_ref_set_state(members[i][w], SL_BACKEND_UP);
		}
	}
	look(20);
}

static void set_used_of(unsigned worker, enum sl_backend_state link)
{
	for (unsigned i = 0; i < CNT; i++) {
		if (uses(worker, i))
			sl_backend_ref_set_state(members[i][worker], link);
	}
}

/* Returns the releases in that worker's mailbox, and notes their members. */
static unsigned released(unsigned worker, struct sl_backend_ref **of)
{
	struct sl_worker_msg *m;
	unsigned n = 0;

	while ((m = sl_mpsc_get_ptr(workers[worker].mailbox))) {
		ck_assert_int_eq(m->verb, SL_WORKER_RELEASE);
		of[n++] = m->backend;
		free(m);
	}
	return n;
}

static unsigned released_by_all(void)
{
	struct sl_backend_ref *of[CNT];
	unsigned n = 0;

	for (unsigned w = 0; w < WORKERS; w++)
		n += released(w, of);
	return n;
}

TEST(dialer_without_a_ring_is_unused_and_a_ring_uses_a_subset)
{
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	ck_assert_uint_le(sl_dial_timer_next_ns(cm), now_ns);
	for (unsigned w = 0; w < WORKERS; w++)
		ck_assert_uint_eq(used_cnt(w), SUBSET);
	connect_used();
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	ck_assert_uint_eq(released_by_all(), 0);
}

TEST(next_generation_is_connected_before_the_old_one_is_released)
{
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	ck_assert(sl_hash_rings_ready(cm));
	pool.subset = 2 * SUBSET;
	enter(0, CNT);
	ck_assert(!sl_hash_rings_ready(cm));
	for (unsigned w = 0; w < WORKERS; w++)
		ck_assert_uint_eq(used_cnt(w), 2 * SUBSET);
	connect_used();
	ck_assert(sl_hash_rings_ready(cm));
	sl_conn_mgr_switch(cm, generation);
	pool.subset = 2;
	enter(0, CNT);
	look(20);
	ck_assert_uint_eq(released_by_all(), 0);
	ck_assert(sl_hash_rings_ready(cm));
	sl_conn_mgr_switch(cm, generation);
	look(20);
	ck_assert_uint_eq(released_by_all(), WORKERS * (2 * SUBSET - 2));
	look(20);
	ck_assert_uint_eq(released_by_all(), 0); /* once */
}

TEST(released_links_are_kept_until_others_are_connected)
{
	struct sl_backend_ref *of[CNT];

	pool.subset = 2;
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	/* No worker that had other backends has connected to one of the 16 that stay. */
	enter(CNT / 2, CNT);
	sl_conn_mgr_switch(cm, generation);
	for (unsigned w = 0; w < WORKERS; w++) {
		unsigned up = 0, left = 0;

		for (unsigned i = CNT / 2; i < CNT; i++) {
			bool is_up = sl_backend_ref_state(members[i][w]) == SL_BACKEND_UP;

			up += uses(w, i) && is_up;
			left += !uses(w, i) && is_up;
		}
		look(20);
		ck_assert_uint_eq(released(w, of), up < 2 ? 0 : left);
	}
	connect_used();
	for (unsigned w = 0; w < WORKERS; w++) {
		(void)released(w, of);
		for (unsigned i = CNT / 2; i < CNT; i++)
			ck_assert(uses(w, i) ||
				  sl_backend_ref_state(members[i][w]) == SL_BACKEND_DOWN ||
				  dialers[i]->workers[w].released);
	}
}

TEST(worker_that_lost_its_subset_borrows_and_returns)
{
	struct sl_subset_info info;
	struct sl_backend_ref *of[CNT];

	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	set_used_of(3, SL_BACKEND_DOWN);
	look(20);
	sl_conn_mgr_subset(cm, "p", 3, &info);
	ck_assert_uint_eq(info.subset, SUBSET);
	ck_assert_uint_eq(info.borrowed, 2);
	ck_assert_uint_eq(info.connected, 0);
	ck_assert_uint_eq(used_cnt(3), SUBSET + 2);
	ck_assert_uint_eq(used_cnt(2), SUBSET);
	set_used_of(3, SL_BACKEND_UP);
	look(20);
	look(4900);
	ck_assert_uint_eq(used_cnt(3), SUBSET + 2);
	look(200);
	ck_assert_uint_eq(used_cnt(3), SUBSET);
	ck_assert_uint_eq(released(3, of), 2);
	for (unsigned k = 0; k < 2; k++)
		sl_backend_ref_set_state(of[k], SL_BACKEND_DOWN);
	look(20);
	sl_conn_mgr_subset(cm, "p", 3, &info);
	ck_assert_uint_eq(info.borrowed, 0);
	ck_assert_uint_eq(info.connected, SUBSET);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
}

TEST(reload_keeps_borrowed_links)
{
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	set_used_of(3, SL_BACKEND_DOWN);
	look(20);
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	look(20);
	ck_assert_uint_eq(used_cnt(3), SUBSET + 2);
	ck_assert_uint_eq(released_by_all(), 0);
}

TEST(a_pool_that_all_use_is_not_looked_at)
{
	pool.subset = CNT;
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	set_used_of(3, SL_BACKEND_DOWN);
	look(20);
	for (unsigned w = 0; w < WORKERS; w++)
		ck_assert_uint_eq(used_cnt(w), CNT);
	ck_assert_uint_eq(cm->rings_check_ns, UINT64_MAX);
}

TEST(reload_does_not_wait_for_a_backend_that_was_down)
{
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	set_used_of(3, SL_BACKEND_DOWN);
	enter(0, CNT);
	ck_assert(sl_hash_rings_ready(cm));
}

TEST(next_generation_borrows_nothing)
{
	pool.subset = 2;
	enter(0, CNT);
	sl_conn_mgr_switch(cm, generation);
	connect_used();
	enter(CNT / 2, CNT);
	cm->rings_check_ns = 0; /* some link has changed */
	look(20);
	for (unsigned w = 0; w < WORKERS; w++)
		ck_assert_uint_le(used_cnt(w), 2 + 2);
}

/* Whether clients may come: each worker has a backend, or there is none to be had. */
TEST(a_pool_is_tried_when_its_workers_have_a_backend_or_all_attempts_have_failed)
{
	enter(0, CNT);
	ck_assert(sl_hash_rings_tried(cm)); /* it is not in force */
	sl_conn_mgr_switch(cm, generation);
	ck_assert(!sl_hash_rings_tried(cm));
	set_used_of(3, SL_BACKEND_OFFERED);
	connect_used();
	ck_assert(sl_hash_rings_tried(cm));
	set_used_of(3, SL_BACKEND_OFFERED);
	ck_assert(!sl_hash_rings_tried(cm));
	set_used_of(3, SL_BACKEND_UNREADY);
	ck_assert(sl_hash_rings_tried(cm));
	set_used_of(3, SL_BACKEND_DOWN);
	ck_assert(!sl_hash_rings_tried(cm));
	for (unsigned i = 0; i < CNT; i++)
		dialers[i]->tried = true;
	ck_assert(sl_hash_rings_tried(cm));
	/* An agent of the gateway's own may just be starting. */
	for (unsigned i = 0; i < CNT; i++)
		dialers[i]->agent_cnt = 1;
	ck_assert(!sl_hash_rings_tried(cm));
}
