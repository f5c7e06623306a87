/* SPDX-License-Identifier: Apache-2.0 */
/* The order of dialers, and the cost of looking at all of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dial_bed.h"

enum { FEW = 100 };

FIXTURE(set_up, tear_down)

TEST(dialers_are_taken_in_order_of_their_due_time)
{
	unsigned due = 0, taken = 0;
	uint64_t last = 0;
	struct sl_dialer *d;

	add_all(FEW, SL_BACKEND_DOWN);
	for (unsigned i = 0; i < FEW; i++)
		due += dialers[i]->due_ns <= now_ns;
	while ((d = sl_dial_timer_pop(cm, now_ns))) {
		ck_assert_uint_ge(d->due_ns, last);
		last = d->due_ns;
		taken++;
	}
	ck_assert_uint_gt(due, 0);
	ck_assert_uint_eq(taken, due);
	ck_assert_uint_gt(sl_dial_timer_next_ns(cm), now_ns);
}

/* Returns the earliest due time of waiting dialers; UINT64_MAX: none waits. */
static uint64_t first_of_all(const bool *waits)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < FEW; i++) {
		if (waits[i] && dialers[i]->due_ns < first)
			first = dialers[i]->due_ns;
	}
	return first;
}

TEST(times_that_change_are_in_order)
{
	bool waits[FEW];

	memset(waits, true, sizeof(waits));
	add_all(FEW, SL_BACKEND_DOWN);
	for (unsigned n = 0; n < 20000; n++) {
		unsigned i = (unsigned)sl_prng_below(&prng, FEW);

		waits[i] = sl_prng_below(&prng, 3) != 0;
		dialers[i]->due_ns = sl_prng_below(&prng, 500);
		if (waits[i])
			sl_dial_timer_set(dialers[i]);
		else
			sl_dial_timer_cancel(dialers[i]);
		ck_assert_uint_eq(sl_dial_timer_next_ns(cm), first_of_all(waits));
	}
}

TEST(idle_scan_updates_no_dialer)
{
	add_all(MANY, SL_BACKEND_UP);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns));
	sl_promotion_update(cm, now_ns);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(cm->update_cnt, 0);
}

TEST(waiting_dialers_are_not_updated)
{
	for (unsigned i = 0; i < MANY; i++)
		add(i, SL_BACKEND_DOWN, now_ns + i + 1);
	cm->update_cnt = 0;
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns));
	ck_assert_uint_eq(cm->update_cnt, 0);
	ck_assert_ptr_eq(sl_dial_timer_pop(cm, now_ns + 1), dialers[0]);
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns + 1));
	ck_assert_uint_eq(cm->update_cnt, 1);
}

TEST_EACH(a_lost_link_is_seen_whichever_it_is, WORKERS)
{
	unsigned i = 700 + (unsigned)_i;

	add_all(MANY, SL_BACKEND_UP);
	dialers[i]->due_ns = now_ns - 1;
	sl_backend_ref_set_state(members[i][_i], SL_BACKEND_DOWN);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(cm->update_cnt, 1);
	ck_assert_ptr_eq(sl_dial_timer_pop(cm, now_ns), dialers[i]);
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns));
}

TEST(busy_or_stopped_dialer_is_not_updated)
{
	add_all(FEW, SL_BACKEND_UP);
	for (unsigned i = 0; i < 2; i++)
		sl_backend_ref_set_state(members[i][0], SL_BACKEND_DOWN);
	dialers[0]->busy = true;
	dialers[1]->stop = true;
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	ck_assert_uint_eq(cm->update_cnt, 0);
}

TEST(a_transport_that_the_worker_lost_at_once_is_dialled_for_again)
{
	add_all(FEW, SL_BACKEND_OFFERED);
	sl_backend_ref_set_state(members[3][5], SL_BACKEND_UP);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	sl_backend_ref_set_state(members[3][5], SL_BACKEND_DOWN);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), dialers[3]->due_ns);
}

TEST(a_move_that_was_offered_is_watched_until_it_is_over)
{
	struct worker_link *wl;

	add_all(FEW, SL_BACKEND_UP);
	wl = &dialers[7]->workers[2];
	wl->ep = EP_FALLBACK;
	wl->to_ep = EP_PRIMARY;
	wl->next_ns = now_ns;
	sl_dial_timer_set(dialers[7]);
	ck_assert_ptr_eq(sl_dial_timer_pop(cm, now_ns), dialers[7]);
	wl->offered = true;
	wl->next_ns = now_ns + 1000 * MS;
	sl_dial_timer_update(dialers[7], now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	atomic_fetch_add(&members[7][2]->switched_cnt, 1);
	cm->update_cnt = 0;
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_int_eq(wl->ep, EP_PRIMARY);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(cm->update_cnt, 1);
}

TEST(a_move_in_vain_is_due_again)
{
	struct worker_link *wl;

	add_all(FEW, SL_BACKEND_UP);
	wl = &dialers[7]->workers[2];
	wl->ep = EP_FALLBACK;
	wl->to_ep = EP_PRIMARY;
	wl->offered = true;
	wl->retry_ms = 1000;
	wl->next_ns = now_ns + 30000 * MS;
	sl_dial_timer_update(dialers[7], now_ns);
	atomic_fetch_add(&members[7][2]->stayed_cnt, 1);
	sl_dial_timer_scan(cm, now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), now_ns + 1000 * MS);
}

TEST(silent_link_is_probed_only_while_silent)
{
	struct sl_rpc_channel *ch;

	add_all(FEW, SL_BACKEND_UP);
	ch = members[9][4]->channel;
	dialers[9]->workers[4].number = 1;
	sl_dial_timer_update(dialers[9], now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	ch->seen.silent_ns = now_ns;
	sl_dial_timer_scan(cm, now_ns + 20 * MS);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), now_ns + 200 * MS);
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns + 199 * MS));
	ch->seen.silent_ns = 0; /* after the last look */
	ck_assert_ptr_null(sl_dial_timer_pop(cm, now_ns + 200 * MS));
	ch->seen.silent_ns = now_ns + 200 * MS;
	sl_dial_timer_scan(cm, now_ns + 220 * MS);
	ck_assert_ptr_eq(sl_dial_timer_pop(cm, now_ns + 400 * MS), dialers[9]);
}

TEST(promoted_link_is_due_at_once)
{
	struct worker_link *wl;

	add_all(FEW, SL_BACKEND_UP);
	sl_conn_mgr_set_max_promoted(cm, 1);
	dialers[5]->backend.first = strdup("first");
	sl_list_add_tail(&cm->with_bootstrap, &dialers[5]->bootstrap_node);
	wl = &dialers[5]->workers[6];
	for (unsigned w = 0; w < WORKERS; w++)
		dialers[5]->workers[w].ep = dialers[5]->workers[w].to_ep = EP_BOOTSTRAP;
	sl_promotion_update(cm, now_ns);
	ck_assert_uint_eq(sl_dial_timer_next_ns(cm), UINT64_MAX);
	members[5][6]->channel->link.stats.messages_sent += 10 * PROMO_MESSAGES;
	sl_promotion_update(cm, now_ns + 20 * MS);
	ck_assert_int_eq(wl->to_ep, EP_PRIMARY);
	ck_assert_ptr_eq(sl_dial_timer_pop(cm, now_ns + 20 * MS), dialers[5]);
}

/* A connection that broke would break again, and lose requests each time. */
TEST_EACH(broken_primary_endpoint_is_retried_after_a_delay, 2)
{
	struct worker_link *wl;
	uint64_t at_ns;

	add_all(FEW, SL_BACKEND_UP);
	sl_conn_mgr_set_max_promoted(cm, 1);
	dialers[5]->backend.first = strdup("first");
	sl_list_add_tail(&cm->with_bootstrap, &dialers[5]->bootstrap_node);
	wl = &dialers[5]->workers[6];
	for (unsigned w = 0; w < WORKERS; w++)
		dialers[5]->workers[w].ep = dialers[5]->workers[w].to_ep = EP_BOOTSTRAP;
	at_ns = sl_now_ns();
	sl_ep_switch_reset(dialers[5], 6, EP_BOOTSTRAP, _i);
	for (unsigned i = 0; i < 20; i++, at_ns += 20 * MS) {
		members[5][6]->channel->link.stats.messages_sent += 10 * PROMO_MESSAGES;
		sl_promotion_update(cm, at_ns);
	}
	ck_assert_int_eq(wl->to_ep, _i ? EP_BOOTSTRAP : EP_PRIMARY);
	members[5][6]->channel->link.stats.messages_sent += 100 * PROMO_MESSAGES;
	sl_promotion_update(cm, at_ns + 5000 * MS);
	ck_assert_int_eq(wl->to_ep, EP_PRIMARY);
}

/* --- with threads, for backends of which there is none --- */

static bool was_dialled(unsigned i)
{
	struct sl_backend_info info = {.info = ""};

	sl_dialer_info(dialers[i], 0, &info);
	return info.info[0] != '\0';
}

/* From now on; of an attempt that is under way as well. */
static void forget(unsigned i)
{
	pthread_mutex_lock(&cm->lock);
	dialers[i]->workers[0].text[0] = '\0';
	pthread_mutex_unlock(&cm->lock);
}

static void set_links(unsigned cnt, enum sl_backend_state link)
{
	for (unsigned i = 0; i < cnt; i++) {
		for (unsigned w = 0; w < WORKERS; w++)
			sl_backend_ref_set_state(members[i][w], link);
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
	for (unsigned ms = 0; ms < 60000 && dialled_of(cnt) < cnt; ms += 10)
		usleep(10000);
	ck_assert_uint_eq(dialled_of(cnt), cnt);
}

static struct sl_cfg_backend nowhere = {.name = "b", .endpoint = "shm:///nowhere/at.sock"};
static const struct sl_cfg_pool pool = {.name = "p", .backends = &nowhere, .backend_cnt = 1};

static void start(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		make_backends(i, SL_BACKEND_DOWN);
		dialers[i] = sl_dialer_add(cm, &pool, 0, members[i], 1, 0);
		ck_assert_ptr_nonnull(dialers[i]);
		ck_assert_int_eq(sl_hash_ring_enter(cm, &pool, &dialers[i], 1), 0);
	}
	sl_conn_mgr_switch(cm, 1);
}

static bool is_quiet(void)
{
	bool quiet;

	pthread_mutex_lock(&cm->lock);
	quiet = sl_dial_timer_next_ns(cm) == UINT64_MAX;
	for (unsigned i = 0; i < FEW; i++)
		quiet &= !dialers[i]->busy;
	pthread_mutex_unlock(&cm->lock);
	return quiet;
}

/* Attempts that were under way have ended, and none is due. */
static void await_quiet(void)
{
	for (unsigned ms = 0; ms < 60000 && !is_quiet(); ms += 10)
		usleep(10000);
	ck_assert(is_quiet());
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
	set_links(FEW, SL_BACKEND_UP);
	await_quiet();
	for (unsigned i = 0; i < FEW; i++)
		forget(i);
	usleep(100000);
	ck_assert_uint_eq(dialled_of(FEW), 0);
	set_links(FEW, SL_BACKEND_DOWN);
	await_dialled(FEW);
}

static uint64_t looks_now(void)
{
	uint64_t update_cnt;

	pthread_mutex_lock(&cm->lock);
	update_cnt = cm->update_cnt;
	pthread_mutex_unlock(&cm->lock);
	return update_cnt;
}

TEST(threads_update_no_dialer_while_none_is_due)
{
	uint64_t update_cnt;

	start(FEW);
	await_dialled(FEW);
	set_links(FEW, SL_BACKEND_UP);
	await_quiet();
	update_cnt = looks_now();
	usleep(200000);
	ck_assert_uint_eq(looks_now(), update_cnt);
}

TEST(retired_dialers_end_and_others_continue)
{
	start(FEW);
	for (unsigned i = 0; i < FEW / 2; i++)
		sl_dialer_keep(dialers[i], 2);
	for (unsigned i = 0; i < FEW / 2; i++)
		ck_assert_int_eq(sl_hash_ring_enter(cm, &pool, &dialers[i], 2), 0);
	sl_conn_mgr_switch(cm, 2);
	for (unsigned ms = 0; ms < 60000 && cm->dialer_cnt > FEW / 2; ms += 10) {
		usleep(10000);
		sl_conn_mgr_reap(cm);
	}
	ck_assert_uint_eq(cm->dialer_cnt, FEW / 2);
	for (unsigned i = 0; i < FEW / 2; i++)
		forget(i);
	await_dialled(FEW / 2);
}
