/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is to be dialled, and what a look at all of them costs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dial_bed.h"

enum { FEW = 100 };

FIXTURE(set_up, tear_down)

TEST(who_has_been_due_for_longest_is_first_and_nobody_is_missed)
{
	unsigned due = 0, taken = 0;
	uint64_t last = 0;
	struct sl_dialler *d;

	add_all(FEW, SL_LINK_DOWN);
	for (unsigned i = 0; i < FEW; i++)
		due += diallers[i]->due_ns <= now_ns;
	while ((d = sl_due_take(sb, now_ns))) {
		ck_assert_uint_ge(d->due_ns, last);
		last = d->due_ns;
		taken++;
	}
	ck_assert_uint_gt(due, 0);
	ck_assert_uint_eq(taken, due);
	ck_assert_uint_gt(sl_due_next_ns(sb), now_ns);
}

/* Of all that wait, by looking at each; UINT64_MAX: none does. */
static uint64_t first_of_all(const bool *waits)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < FEW; i++) {
		if (waits[i] && diallers[i]->due_ns < first)
			first = diallers[i]->due_ns;
	}
	return first;
}

TEST(times_that_change_are_in_order)
{
	bool waits[FEW];

	memset(waits, true, sizeof(waits));
	add_all(FEW, SL_LINK_DOWN);
	for (unsigned n = 0; n < 20000; n++) {
		unsigned i = (unsigned)sl_prng_below(&prng, FEW);

		waits[i] = sl_prng_below(&prng, 3) != 0;
		diallers[i]->due_ns = sl_prng_below(&prng, 500);
		if (waits[i])
			sl_due_place(diallers[i]);
		else
			sl_due_drop(diallers[i]);
		ck_assert_uint_eq(sl_due_next_ns(sb), first_of_all(waits));
	}
}

TEST(an_idle_look_looks_at_nobody)
{
	add_all(MANY, SL_LINK_UP);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	ck_assert_ptr_null(sl_due_take(sb, now_ns));
	sl_moves_allot(sb, now_ns);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sb->looks, 0);
}

TEST(those_that_wait_are_not_looked_at)
{
	for (unsigned i = 0; i < MANY; i++)
		add(i, SL_LINK_DOWN, now_ns + i + 1);
	sb->looks = 0;
	sl_due_watch(sb, now_ns);
	ck_assert_ptr_null(sl_due_take(sb, now_ns));
	ck_assert_uint_eq(sb->looks, 0);
	ck_assert_ptr_eq(sl_due_take(sb, now_ns + 1), diallers[0]);
	ck_assert_ptr_null(sl_due_take(sb, now_ns + 1));
	ck_assert_uint_eq(sb->looks, 1);
}

TEST_EACH(a_lost_link_is_seen_whichever_it_is, WORKERS)
{
	unsigned i = 700 + (unsigned)_i;

	add_all(MANY, SL_LINK_UP);
	diallers[i]->due_ns = now_ns - 1;
	sl_member_link_set(members[i][_i], SL_LINK_DOWN);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sb->looks, 1);
	ck_assert_ptr_eq(sl_due_take(sb, now_ns), diallers[i]);
	ck_assert_ptr_null(sl_due_take(sb, now_ns));
}

TEST(one_that_is_busy_or_has_stopped_is_let_alone)
{
	add_all(FEW, SL_LINK_UP);
	for (unsigned i = 0; i < 2; i++)
		sl_member_link_set(members[i][0], SL_LINK_DOWN);
	diallers[0]->busy = true;
	diallers[1]->stop = true;
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	ck_assert_uint_eq(sb->looks, 0);
}

TEST(a_transport_that_the_worker_lost_at_once_is_dialled_for_again)
{
	add_all(FEW, SL_LINK_OFFERED);
	sl_member_link_set(members[3][5], SL_LINK_UP);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	sl_member_link_set(members[3][5], SL_LINK_DOWN);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), diallers[3]->due_ns);
}

TEST(a_move_that_was_offered_is_watched_until_it_is_over)
{
	struct way *way;

	add_all(FEW, SL_LINK_UP);
	way = &diallers[7]->workers[2];
	way->by = BY_FALLBACK;
	way->to = BY_OWN;
	way->next_ns = now_ns;
	sl_due_place(diallers[7]);
	ck_assert_ptr_eq(sl_due_take(sb, now_ns), diallers[7]);
	way->offered = true;
	way->next_ns = now_ns + 1000 * MS;
	sl_due_look(diallers[7], now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	atomic_fetch_add(&members[7][2]->moves, 1);
	sb->looks = 0;
	sl_due_watch(sb, now_ns);
	ck_assert_int_eq(way->by, BY_OWN);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sb->looks, 1);
}

TEST(a_move_in_vain_is_due_again)
{
	struct way *way;

	add_all(FEW, SL_LINK_UP);
	way = &diallers[7]->workers[2];
	way->by = BY_FALLBACK;
	way->to = BY_OWN;
	way->offered = true;
	way->retry_ms = 1000;
	way->next_ns = now_ns + 30000 * MS;
	sl_due_look(diallers[7], now_ns);
	atomic_fetch_add(&members[7][2]->stays, 1);
	sl_due_watch(sb, now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), now_ns + 1000 * MS);
}

TEST(a_silence_is_seen_and_one_that_has_ended_asks_nothing)
{
	struct sl_rpc_channel *ch;

	add_all(FEW, SL_LINK_UP);
	ch = members[9][4]->channel;
	diallers[9]->workers[4].number = 1;
	sl_due_look(diallers[9], now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	ch->seen.silent_ns = now_ns;
	sl_due_watch(sb, now_ns + 20 * MS);
	ck_assert_uint_eq(sl_due_next_ns(sb), now_ns + 200 * MS);
	ck_assert_ptr_null(sl_due_take(sb, now_ns + 199 * MS));
	ch->seen.silent_ns = 0; /* after the last look */
	ck_assert_ptr_null(sl_due_take(sb, now_ns + 200 * MS));
	ch->seen.silent_ns = now_ns + 200 * MS;
	sl_due_watch(sb, now_ns + 220 * MS);
	ck_assert_ptr_eq(sl_due_take(sb, now_ns + 400 * MS), diallers[9]);
}

TEST(who_gets_a_place_is_due_at_once)
{
	struct way *way;

	add_all(FEW, SL_LINK_UP);
	sl_switchboard_allow(sb, 1);
	diallers[5]->backend.first = strdup("first");
	sl_list_add_tail(&sb->with_first, &diallers[5]->first_node);
	way = &diallers[5]->workers[6];
	for (unsigned w = 0; w < WORKERS; w++)
		diallers[5]->workers[w].by = diallers[5]->workers[w].to = BY_FIRST;
	sl_moves_allot(sb, now_ns);
	ck_assert_uint_eq(sl_due_next_ns(sb), UINT64_MAX);
	members[5][6]->channel->link.stats.messages_sent += 10 * SL_PLACE_MESSAGES;
	sl_moves_allot(sb, now_ns + 20 * MS);
	ck_assert_int_eq(way->to, BY_OWN);
	ck_assert_ptr_eq(sl_due_take(sb, now_ns + 20 * MS), diallers[5]);
}

/* What has broken would break again, and each time requests are lost with it. */
TEST_EACH(what_has_broken_is_tried_again_after_a_while, 2)
{
	struct way *way;
	uint64_t at_ns;

	add_all(FEW, SL_LINK_UP);
	sl_switchboard_allow(sb, 1);
	diallers[5]->backend.first = strdup("first");
	sl_list_add_tail(&sb->with_first, &diallers[5]->first_node);
	way = &diallers[5]->workers[6];
	for (unsigned w = 0; w < WORKERS; w++)
		diallers[5]->workers[w].by = diallers[5]->workers[w].to = BY_FIRST;
	at_ns = sl_now_ns();
	sl_move_begin(diallers[5], 6, BY_FIRST, _i);
	for (unsigned i = 0; i < 20; i++, at_ns += 20 * MS) {
		members[5][6]->channel->link.stats.messages_sent += 10 * SL_PLACE_MESSAGES;
		sl_moves_allot(sb, at_ns);
	}
	ck_assert_int_eq(way->to, _i ? BY_FIRST : BY_OWN);
	members[5][6]->channel->link.stats.messages_sent += 100 * SL_PLACE_MESSAGES;
	sl_moves_allot(sb, at_ns + 5000 * MS);
	ck_assert_int_eq(way->to, BY_OWN);
}

/* --- with threads, for backends of which there is none --- */

static bool was_dialled(unsigned i)
{
	struct sl_backend_info info = {.info = ""};

	sl_dialler_info(diallers[i], 0, &info);
	return info.info[0] != '\0';
}

/* From now on; of an attempt that is under way as well. */
static void forget(unsigned i)
{
	pthread_mutex_lock(&sb->lock);
	diallers[i]->workers[0].text[0] = '\0';
	pthread_mutex_unlock(&sb->lock);
}

static void set_links(unsigned cnt, enum sl_member_link link)
{
	for (unsigned i = 0; i < cnt; i++) {
		for (unsigned w = 0; w < WORKERS; w++)
			sl_member_link_set(members[i][w], link);
	}
}

static unsigned dialled_of(unsigned cnt)
{
	unsigned n = 0;

	for (unsigned i = 0; i < cnt; i++)
		n += was_dialled(i);
	return n;
}

static void await_dialled(unsigned cnt)
{
	for (unsigned ms = 0; ms < 10000 && dialled_of(cnt) < cnt; ms += 10)
		usleep(10000);
	ck_assert_uint_eq(dialled_of(cnt), cnt);
}

static struct sl_cfg_backend nowhere = {.name = "b", .endpoint = "shm:///nowhere/at.sock"};
static const struct sl_cfg_pool pool = {.name = "p", .backends = &nowhere, .backend_cnt = 1};

static void start(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		make_members(i, SL_LINK_DOWN);
		diallers[i] = sl_dialler_add(sb, &pool, 0, members[i], 1, 0);
		ck_assert_ptr_nonnull(diallers[i]);
		ck_assert_int_eq(sl_ring_enter(sb, &pool, &diallers[i], 1), 0);
	}
	sl_switchboard_switch(sb, 1);
}

TEST(all_that_are_down_are_dialled_again_and_again)
{
	start(FEW);
	for (unsigned n = 0; n < 3; n++) {
		await_dialled(FEW);
		for (unsigned i = 0; i < FEW; i++)
			forget(i);
	}
}

TEST(links_that_are_lost_are_dialled_for)
{
	start(FEW);
	await_dialled(FEW);
	set_links(FEW, SL_LINK_UP);
	usleep(600000); /* attempts that were under way, and back-off */
	for (unsigned i = 0; i < FEW; i++)
		forget(i);
	usleep(100000);
	ck_assert_uint_eq(dialled_of(FEW), 0);
	set_links(FEW, SL_LINK_DOWN);
	await_dialled(FEW);
}

static uint64_t looks_now(void)
{
	uint64_t looks;

	pthread_mutex_lock(&sb->lock);
	looks = sb->looks;
	pthread_mutex_unlock(&sb->lock);
	return looks;
}

TEST(threads_look_at_nobody_while_nothing_is_due)
{
	uint64_t looks;

	start(FEW);
	await_dialled(FEW);
	set_links(FEW, SL_LINK_UP);
	usleep(600000);
	looks = looks_now();
	usleep(200000);
	ck_assert_uint_eq(looks_now(), looks);
}

TEST(those_that_are_retired_go_and_the_others_are_dialled_on)
{
	start(FEW);
	for (unsigned i = 0; i < FEW / 2; i++)
		sl_dialler_keep(diallers[i], 2);
	for (unsigned i = 0; i < FEW / 2; i++)
		ck_assert_int_eq(sl_ring_enter(sb, &pool, &diallers[i], 2), 0);
	sl_switchboard_switch(sb, 2);
	for (unsigned ms = 0; ms < 10000 && sb->dialler_cnt > FEW / 2; ms += 10) {
		usleep(10000);
		sl_switchboard_reap(sb);
	}
	ck_assert_uint_eq(sb->dialler_cnt, FEW / 2);
	for (unsigned i = 0; i < FEW / 2; i++)
		forget(i);
	await_dialled(FEW / 2);
}
