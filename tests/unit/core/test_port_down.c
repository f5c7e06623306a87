/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend whose port is down is up, and nothing reaches it: others are served instead, while there
 * are any.
 */
#include "core_bed.h"
#include "suite.h"

static void set_up(void)
{
	bed_begin();
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed_connect(i, false);
	bed_open(0);
}

static void tear_down(void)
{
	bed_settle();
	bed_end();
}

static void hold(unsigned i, bool held)
{
	bed.backends[i].base.port_down = held;
	bed_turn(SL_NS_PER_MS); /* each is looked at so often */
}

/* How many of ten requests each of the two gets. */
static unsigned got[2];

static void ask_ten(void)
{
	unsigned before[] = {bed.backends[0].id_cnt, bed.backends[1].id_cnt};

	for (unsigned i = 0; i < 10; i++) {
		unsigned at[] = {bed.backends[0].id_cnt, bed.backends[1].id_cnt};

		bed_post_request(0, "/e", 'z', 10);
		bed_turns(3);
		for (unsigned k = 0; k < 2; k++) {
			const struct bed_backend *be = &bed.backends[k];

			if (be->id_cnt != at[k])
				ck_assert(bed_reply(&bed.backends[k],
						    be->ids[(be->id_cnt - 1) % BED_IDS], SL_RPC_OK,
						    0, "x"));
		}
		bed_turns(3);
	}
	for (unsigned k = 0; k < 2; k++)
		got[k] = bed.backends[k].id_cnt - before[k];
	ck_assert_uint_eq(got[0] + got[1], 10);
}

FIXTURE(set_up, tear_down)

TEST_EACH(backend_with_port_down_gets_no_requests_while_another_is_up, 2)
{
	hold((unsigned)_i, true);
	ask_ten();
	ck_assert_uint_eq(got[_i], 0);
	ck_assert_uint_eq(sl_backend_ref_state(bed_member((unsigned)_i)), SL_BACKEND_UP);
	hold((unsigned)_i, false);
	hold(1 - (unsigned)_i, true);
	ask_ten();
	ck_assert_uint_eq(got[_i], 10);
}

/* Streams go past the batcher. */
TEST_EACH(backend_with_port_down_gets_no_streams_while_another_is_up, 2)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].stream = true;
	hold((unsigned)_i, true);
	ask_ten();
	ck_assert_uint_eq(got[_i], 0);
}

/* It is sent what there is for all of them, which waits there for the port to come back. */
TEST(requests_are_sent_if_all_ports_are_down)
{
	hold(0, true);
	hold(1, true);
	ask_ten();
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_NO_BACKEND], 0);
}

/* And what waits for the one that goes is the held one's. */
TEST_EACH(backend_with_port_down_serves_once_the_others_are_gone, 2)
{
	struct bed_backend *held = &bed.backends[_i], *goes = &bed.backends[1 - _i];

	hold((unsigned)_i, true);
	bed_post_request(0, "/e", 'z', 10);
	bed_turns(3);
	ck_assert_uint_eq(goes->id_cnt, 1);
	ck_assert_uint_eq(held->id_cnt, 0);
	goes->broken = -ENOTCONN;
	bed_turns(3);
	ck_assert_uint_eq(held->id_cnt, 1);
	ck_assert(bed_reply(held, held->ids[0], SL_RPC_OK, 0, "from the held one"));
	bed_turns(3);
	ck_assert_ptr_nonnull(memmem(bed.clients[0].heard, bed.clients[0].heard_len, "held", 4));
	bed_connect(1 - (unsigned)_i, false);
	bed_turns(3);
	ask_ten();
	ck_assert_uint_eq(got[_i], 0);
}

/* One that comes up behind a port that is down is held from the start. */
TEST(backend_that_comes_up_with_port_down_gets_nothing)
{
	struct sl_transport *t;

	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	t = bed_transport(&bed.backends[0], false);
	t->port_down = true;
	sl_backend_ref_adopt(bed_member(0), t);
	ck_assert(!bed_member(0)->served);
	bed_turns(3);
	ask_ten();
	ck_assert_uint_eq(got[0], 0);
}

/* A dialer offers another connection only to a backend that is down. */
TEST(backend_whose_new_connection_cannot_be_watched_is_dialed_again)
{
	struct sl_transport *t;

	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	sl_backend_ref_set_state(bed_member(0), SL_BACKEND_OFFERED);
	t = bed_transport(&bed.backends[0], false);
	close(t->fd);
	t->fd = -1;
	sl_backend_ref_adopt(bed_member(0), t);
	ck_assert_int_eq(sl_backend_ref_state(bed_member(0)), SL_BACKEND_DOWN);
}
