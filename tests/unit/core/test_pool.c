/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backend groups from one table to the next, with exchanges in flight. Clients 0 and 1 of the bed
 * ask `echo` (backends a and b), which is tables[0]; each test brings another table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_bed.h"
#include "core/client.h"
#include "core/reload.h"
#include "suite.h"

#define BACKEND(name) "backend " name " { endpoint = \"shm:///" name "\" } "
#define ECHO(inside)  "pool echo { batch { max_latency = 10s max_size = 16 } " inside "}\n"
#define ECHO_AB       ECHO(BACKEND("a") BACKEND("b"))
#define OTHER         "pool other { batch { max_latency = 10s max_size = 16 } " BACKEND("o") "}\n"
#define TO_ECHO       "route \"/e\" { pool = echo idempotent = yes }\n"
#define TO_OTHER      "route \"/o\" { pool = other }\n"

enum { CONFIGS = 32, SLOTS = 2 };

static struct sl_config *configs[CONFIGS];
static unsigned config_cnt;
static uint32_t slots[SLOTS];

static void set_up(void)
{
	bed_begin();
	config_cnt = 0;
	slots[0] = 0;
	slots[1] = 1;
	for (unsigned i = 0; i < 2; i++)
		bed_connect(i, true);
	bed_open(0);
	bed_open(1);
	bed_turns(2);
}

static void release_all(void)
{
	struct sl_list *at, *m;

	sl_list_for_each (at, &bed.core.pools_made) {
		sl_list_for_each (m, &sl_container_of(at, struct sl_pool, made)->backends)
			atomic_store(&sl_container_of(m, struct sl_backend_ref, made)->released,
				     true);
	}
}

static void tear_down(void)
{
	bed_settle();
	bed_end();
	for (unsigned i = 0; i < config_cnt; i++)
		sl_config_free(configs[i]);
}

FIXTURE(set_up, tear_down)

static struct sl_worker_cfg *prepare(const char *text)
{
	static const char limits[] =
		"limits { max_connections = 64 max_exchanges = 64 max_half_open = 64 }\n";
	struct sl_err err = SL_ERR(256);
	char *whole = malloc(strlen(text) + sizeof(limits));
	struct sl_config *cfg;
	struct sl_worker_cfg *t;

	strcat(strcpy(whole, limits), text);
	cfg = configs[config_cnt++] = sl_config_parse(whole, "t.conf", &err);
	free(whole);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	t = sl_worker_cfg_create(&bed.core, cfg, bed.core.wcfg, slots);
	ck_assert_ptr_nonnull(t);
	sl_worker_cfg_prepare(t, &bed.core);
	return t;
}

static struct sl_worker_cfg *reload(const char *text)
{
	struct sl_worker_cfg *t = prepare(text);

	sl_worker_cfg_switch(t, &bed.core);
	sl_worker_cfg_tidy(t);
	bed_turns(2);
	return t;
}

static struct sl_backend_ref *backend(unsigned pool, unsigned backend)
{
	return bed.core.wcfg->pools[pool].backends[backend];
}

static unsigned count(const struct sl_list *list)
{
	const struct sl_list *at;
	unsigned n = 0;

	sl_list_for_each (at, list)
		n++;
	return n;
}

/* One exchange that backend k of `echo` has. */
static unsigned ask(unsigned client)
{
	unsigned before[2] = {bed.backends[0].id_cnt, bed.backends[1].id_cnt};

	bed_post_request(client, "/e", 'x', 10);
	bed_turns(2);
	ck_assert_uint_eq(bed.backends[0].id_cnt + bed.backends[1].id_cnt,
			  before[0] + before[1] + 1);
	return bed.backends[0].id_cnt > before[0] ? 0 : 1;
}

static void answer(unsigned backend, const char *text)
{
	struct bed_backend *be = &bed.backends[backend];

	bed_complete(be, 100);
	ck_assert(bed_reply(be, be->ids[(be->id_cnt - 1) % BED_IDS], SL_RPC_OK, 0, text));
	bed_turns(3);
}

static bool heard(unsigned client, const char *text)
{
	const struct bed_client *c = &bed.clients[client];

	return memmem(c->heard, c->heard_len, text, strlen(text)) != NULL;
}

TEST(unchanged_pool_keeps_channels_and_counters)
{
	struct sl_backend_ref *a = backend(0, 0), *b = backend(0, 1);
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;
	struct sl_worker_cfg *old = bed.core.wcfg;
	struct sl_rpc_stats stats;
	unsigned k = ask(0);

	/* In another order, with other options. */
	slots[0] = 1;
	slots[1] = 0;
	reload(OTHER "pool echo { max_queue = 7 batch { max_latency = 1s max_size = 3 } " BACKEND(
		"b") BACKEND("a") "}\n" TO_OTHER TO_ECHO);
	ck_assert_ptr_eq(bed.core.wcfg->pools[1].pool, echo);
	ck_assert_ptr_eq(backend(1, 0), b);
	ck_assert_ptr_eq(backend(1, 1), a);
	ck_assert_uint_eq(echo->slot, 0);
	ck_assert_uint_eq(echo->cfg->max_queue, 7);
	ck_assert_int_ne(sl_worker_cfg_step(old),
			 SL_WORKER_CFG_GONE); /* the exchange has its route */
	answer(k, "the answer");
	ck_assert(heard(0, "the answer"));
	ck_assert_int_eq(sl_worker_cfg_step(old), SL_WORKER_CFG_GONE);
	sl_rpc_channel_stats((k ? b : a)->channel, &stats);
	ck_assert_uint_eq(stats.replies, 1);
	answer(ask(1), "another");
	ck_assert(heard(1, "another"));
	ck_assert_uint_eq(bed.backends[0].goaways + bed.backends[1].goaways, 0);
}

static enum sl_serving all_serve(void)
{
	return bed.core.env.serving(bed.core.env.serving_arg, SL_ASKED_ALL, sl_span_cstr(""));
}

/* One that does not is found wherever it stands. */
TEST(all_serve_when_each_pool_does)
{
	reload(ECHO_AB TO_ECHO);
	ck_assert_int_eq(all_serve(), SL_SERVING_YES);
	reload(ECHO_AB OTHER TO_ECHO TO_OTHER);
	ck_assert_int_eq(all_serve(), SL_SERVING_NO);
	slots[0] = 1;
	slots[1] = 0;
	reload(OTHER ECHO_AB TO_ECHO TO_OTHER);
	ck_assert_int_eq(all_serve(), SL_SERVING_NO);
}

TEST(a_group_that_is_removed_lives_until_its_last_exchange_has_ended)
{
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;
	unsigned k = ask(0);

	slots[0] = 1;
	reload(OTHER TO_OTHER);
	release_all();
	bed_turns(20);
	ck_assert_uint_eq(echo->refs, 1);
	ck_assert(!atomic_load(&echo->gone));
	ck_assert_uint_eq(count(&bed.core.pools), 2);
	answer(k, "the last one");
	ck_assert(heard(0, "the last one"));
	ck_assert_uint_eq(echo->refs, 0);
	bed_turns(200);
	ck_assert(atomic_load(&echo->gone));
	ck_assert_uint_eq(count(&bed.core.pools), 1);
	ck_assert(!bed.backends[0].up && !bed.backends[1].up);
	sl_pools_reap(&bed.core);
	ck_assert_uint_eq(count(&bed.core.pools_made), 1);
	/* There is no route to it any more. */
	bed_post_request(1, "/e", 'x', 10);
	bed_turns(3);
	ck_assert(heard(1, "404"));
}

/* The body selects the pool after a reload has removed it: the request keeps it until then. */
TEST(pool_that_a_body_may_still_select_stays)
{
	static const char head[] =
		"POST /m HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"mod";
	static const char rest[] = "el\":\"a\"}";
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;

	reload(ECHO_AB OTHER TO_ECHO
	       "route \"/m\" { pool = other match_body = model match a { pool = echo } }\n");
	bed_say(0, head, sizeof(head) - 1);
	bed_turns(2);
	slots[0] = 1;
	reload(OTHER TO_OTHER);
	release_all();
	bed_turns(20);
	sl_pools_reap(&bed.core);
	ck_assert_uint_eq(echo->refs, 1);
	bed_say(0, rest, sizeof(rest) - 1);
	bed_turns(2);
	ck_assert_uint_eq(bed.backends[0].id_cnt + bed.backends[1].id_cnt, 1);
	ck_assert_uint_eq(echo->refs, 1);
	answer(bed.backends[0].id_cnt ? 0 : 1, "the last one");
	ck_assert(heard(0, "the last one"));
	bed_turns(200);
	ck_assert(atomic_load(&echo->gone));
}

static uint64_t counted(uint32_t slot)
{
	return bed.core.maps.hist[slot * SL_STAGE_CNT + SL_STAGE_TOTAL].count;
}

/* Its streams and requests may last for days, and pools come and go meanwhile. */
TEST(a_group_that_is_removed_has_no_slot_in_the_maps)
{
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;
	unsigned k = ask(0);
	struct sl_worker_cfg *t;

	ck_assert_uint_eq(echo->slot, 0);
	/* Another one gets its slot while it is in force: the slot is free once that is prepared. */
	slots[1] = 0;
	slots[0] = 1;
	t = prepare(OTHER "pool third { " BACKEND("x") "}" TO_OTHER);
	ck_assert_uint_eq(echo->slot, SL_NO_SLOT);
	ck_assert_uint_eq(bed.core.wcfg->pools[1].pool->slot, 1);
	ck_assert_uint_eq(t->pools[1].pool->slot, 0);
	sl_worker_cfg_switch(t, &bed.core);
	sl_worker_cfg_tidy(t);
	memset(bed.core.maps.hist, 0, SL_STAGE_CNT * sizeof(*bed.core.maps.hist));
	answer(k, "late");
	ck_assert(heard(0, "late"));
	ck_assert_uint_eq(counted(0), 0);
	ck_assert_uint_eq(bed.core.unread[SL_STAGE_TOTAL].count, 1);
}

TEST(a_group_gives_its_slot_up_when_it_is_not_in_force_any_more)
{
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;
	unsigned k = ask(0);

	slots[0] = 1;
	prepare(OTHER TO_OTHER);
	ck_assert_uint_eq(echo->slot, 0);
	reload(OTHER TO_OTHER);
	ck_assert_uint_eq(echo->slot, SL_NO_SLOT);
	answer(k, "late");
	ck_assert(heard(0, "late"));
	ck_assert_uint_eq(counted(0), 0);
}

TEST(removed_backend_answers_its_requests_and_gets_no_new_ones)
{
	unsigned k = ask(0);
	struct sl_backend_ref *m = backend(0, k);

	reload(k ? ECHO(BACKEND("a")) TO_ECHO : ECHO(BACKEND("b")) TO_ECHO);
	release_all();
	bed_turns(20);
	ck_assert(m->leaving);
	for (unsigned i = 0; i < 5; i++) {
		unsigned to = ask(1);

		ck_assert_uint_eq(to, 1 - k);
		answer(to, "from the other");
	}
	ck_assert(bed.backends[k].up);
	bed.backends[k].id_cnt = 1;
	answer(k, "from the one that leaves");
	ck_assert(heard(0, "from the one that leaves"));
	bed_turns(200);
	ck_assert(!bed.backends[k].up);
	ck_assert_uint_eq(count(&m->pool->backends), 2);
	sl_pools_reap(&bed.core);
	ck_assert_uint_eq(count(&bed.core.wcfg->pools[0].pool->backends), 1);
}

TEST(backend_is_freed_only_after_its_dialer_has_released_it)
{
	struct sl_backend_ref *m = backend(0, 0);

	reload(ECHO(BACKEND("b")) TO_ECHO);
	bed_turns(200);
	ck_assert(!bed.backends[0].up);
	ck_assert(!atomic_load(&m->gone));
	/* A transport that was on its way is dropped, and then nothing more comes. */
	sl_backend_ref_set_state(m, SL_BACKEND_OFFERED);
	atomic_store(&m->released, true);
	bed_turns(20);
	ck_assert(!atomic_load(&m->gone));
	bed_offer(0, true, m);
	ck_assert(!bed.backends[0].up);
	bed_turns(20);
	ck_assert(atomic_load(&m->gone));
	release_all();
}

TEST(a_new_backend_is_connected_first_and_then_gets_its_part)
{
	struct sl_worker_cfg *t =
		prepare(ECHO(BACKEND("a") BACKEND("b") BACKEND("c")) OTHER TO_ECHO);
	struct sl_backend_ref *c = t->pools[0].backends[2];
	unsigned k;

	bed_offer(2, true, c);
	bed_turns(2);
	ck_assert_int_eq(sl_backend_ref_state(c), SL_BACKEND_UP);
	k = ask(0); /* not to the new one, as long as the old table is in force */
	sl_worker_cfg_switch(t, &bed.core);
	sl_worker_cfg_tidy(t);
	answer(k, "before");
	for (unsigned i = 0; i < 40 && !bed.backends[2].id_cnt; i++) {
		bed_post_request(1, "/e", 'x', 10);
		bed_turns(2);
		for (unsigned b = 0; b < 2; b++) {
			if (bed.backends[b].up &&
			    bed.backends[b].post_head > bed.backends[b].post_tail)
				answer(b, "old");
		}
	}
	ck_assert_uint_eq(bed.backends[2].id_cnt, 1);
	answer(2, "from the new one");
	ck_assert(heard(1, "from the new one"));
}

TEST(a_backend_with_another_name_is_another_backend)
{
	struct sl_backend_ref *a = backend(0, 0);

	reload(ECHO("backend renamed { endpoint = \"shm:///a\" } " BACKEND("b")) TO_ECHO);
	ck_assert_ptr_ne(backend(0, 0), a);
	ck_assert_str_eq(backend(0, 0)->name, "renamed");
	ck_assert_uint_eq(backend(0, 0)->number, 2); /* the place of `a` is still used */
	release_all();
	bed_turns(200);
	sl_pools_reap(&bed.core);
	reload(ECHO("backend renamed { endpoint = \"shm:///a\" } " BACKEND("b") BACKEND("d"))
		       TO_ECHO);
	ck_assert_uint_eq(backend(0, 2)->number, 0); /* now it is */
}

TEST(a_group_that_comes_back_is_a_new_one)
{
	struct sl_pool *echo = bed.core.wcfg->pools[0].pool;
	unsigned k = ask(0);

	slots[0] = 1; /* the place of the old one is used, also for later ones */
	reload(OTHER TO_OTHER);
	reload(ECHO_AB TO_ECHO);
	ck_assert_ptr_ne(bed.core.wcfg->pools[0].pool, echo);
	ck_assert_uint_eq(echo->refs, 1);
	answer(k, "from the old group");
	ck_assert(heard(0, "from the old group"));
	release_all();
	bed_turns(200);
	ck_assert(atomic_load(&echo->gone));
	sl_pools_reap(&bed.core);
	bed_offer(2, true, backend(0, 0));
	bed_turns(2);
	bed_post_request(1, "/e", 'x', 10);
	bed_turns(2);
	answer(2, "from the new group");
	ck_assert(heard(1, "from the new group"));
}

/* Sent requests wait for a while, for others to join the batch. */
#define SLOWLY(inside)                                                                             \
	"pool echo { batch { policy = fixed size = 4 delay = 50ms } " inside "}\n" TO_ECHO

TEST(queued_requests_move_on_and_keep_their_exclusions)
{
	/* Chance would choose the other one as well, but not so often. */
	for (unsigned round = 0; round < 8; round++) {
		struct bed_backend *asked, *other;
		uint64_t id;
		unsigned k;

		reload(ECHO(BACKEND("a") BACKEND("b")) TO_ECHO);
		k = ask(0);
		asked = &bed.backends[k];
		id = asked->ids[(asked->id_cnt - 1) % BED_IDS];
		other = &bed.backends[1 - k];
		reload(SLOWLY(BACKEND("a") BACKEND("b")));
		bed_complete(asked, 100);
		asked->id_cnt = other->id_cnt = 0;
		bed_reply(asked, id, SL_RPC_REFUSED, 0, "");
		bed_turns(3);
		ck_assert_uint_eq(asked->id_cnt + other->id_cnt, 0);
		reload(SLOWLY(BACKEND("b") BACKEND("a")));
		bed_turn(60 * SL_NS_PER_MS);
		bed_turns(2);
		ck_assert_uint_eq(asked->id_cnt, 0);
		ck_assert_uint_eq(other->id_cnt, 1);
		answer(1 - k, "at last");
		ck_assert(heard(0, "at last"));
		bed.clients[0].heard_len = 0;
	}
}

/* It asks its member whether a flight has its request still. */
TEST(a_removed_member_lives_while_an_exchange_refers_to_it)
{
	unsigned k = ask(0);
	struct sl_backend_ref *m = backend(0, k);

	reload(k ? SLOWLY(BACKEND("a")) : SLOWLY(BACKEND("b")));
	release_all();
	bed.backends[k].broken = -ENOTCONN;
	bed_turns(20);
	ck_assert(!bed.backends[k].up);
	ck_assert_uint_eq(m->refs, 1);
	ck_assert(!atomic_load(&m->gone));
	bed_turn(60 * SL_NS_PER_MS);
	bed_turns(20);
	ck_assert(atomic_load(&m->gone));
	answer(1 - k, "from the other");
	ck_assert(heard(0, "from the other"));
}

static uint16_t listener_after_reload(uint16_t number, uint16_t port)
{
	struct sl_worker_cfg *t = prepare(ECHO(BACKEND("a") BACKEND("b")) OTHER TO_ECHO);

	t->listeners = malloc(sizeof(*t->listeners));
	t->listener_cnt = 1;
	t->listeners[0] = (struct sl_net_listener){.at = {.port_be = htobe16(port), .family = 4},
						   .protocol = PKT_TCP,
						   .listener = number};
	sl_worker_cfg_switch(t, &bed.core);
	sl_worker_cfg_tidy(t);
	return sl_client_listener(sl_client_next(&bed.core, NULL));
}

TEST(a_connection_has_the_number_that_its_listener_has_now)
{
	bed_open(0);
	ck_assert_uint_eq(sl_client_listener(sl_client_next(&bed.core, NULL)), 0);
	ck_assert_uint_eq(listener_after_reload(3, PKT_OUR_PORT), 3);
	ck_assert_uint_eq(listener_after_reload(1, PKT_OUR_PORT), 1);
	ck_assert_uint_eq(listener_after_reload(1, PKT_OUR_PORT + 1), SL_NO_LISTENER);
}

/* A table that no worker gets is undone. */
TEST(a_table_that_is_not_used_leaves_nothing_behind)
{
	struct sl_err err = SL_ERR(256);
	struct sl_config *cfg = sl_config_parse(
		ECHO(BACKEND("a") BACKEND("x")) "pool new { " BACKEND("y") "}\n", "t.conf", &err);
	struct sl_worker_cfg *t;

	configs[config_cnt++] = cfg;
	ck_assert_ptr_nonnull(cfg);
	t = sl_worker_cfg_create(&bed.core, cfg, bed.core.wcfg, slots);
	ck_assert_uint_eq(count(&bed.core.pools_made), 3);
	ck_assert_uint_eq(count(&bed.core.wcfg->pools[0].pool->backends), 3);
	sl_worker_cfg_free(t);
	ck_assert_uint_eq(count(&bed.core.pools_made), 2);
	ck_assert_uint_eq(count(&bed.core.wcfg->pools[0].pool->backends), 2);
	answer(ask(0), "as before");
	ck_assert(heard(0, "as before"));
}
