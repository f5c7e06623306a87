/* SPDX-License-Identifier: Apache-2.0 */
/* Backends by how many batches they have, against a plain list of the same. */
#include "base/rand.h"
#include "batch/roster.h"
#include "suite.h"

enum { ROOM = 40 };

static struct sl_roster roster;
static struct {
	bool up;
	unsigned batches;
} plain[ROOM];

static void set_up(void)
{
	ck_assert_int_eq(sl_roster_init(&roster, ROOM), 0);
}

static void tear_down(void)
{
	sl_roster_fini(&roster);
}

FIXTURE(set_up, tear_down)

static void assert_zones(void)
{
	uint32_t cnt[SL_ZONES] = {0}, end = 0;

	for (unsigned i = 0; i < ROOM; i++) {
		ck_assert_int_eq(sl_roster_up(&roster, i), plain[i].up);
		ck_assert_int_eq(sl_roster_idle(&roster, i), plain[i].up && !plain[i].batches);
		cnt[plain[i].batches] += plain[i].up;
	}
	for (unsigned n = 0; n < SL_ZONES; n++) {
		uint32_t at = end;

		end += cnt[n];
		ck_assert_uint_eq(roster.end[n], end);
		for (; at < end; at++)
			ck_assert_uint_eq(plain[roster.order[at]].batches, n);
	}
	for (uint32_t at = 0; at < end; at++)
		ck_assert_uint_eq(roster.place[roster.order[at]], at);
}

static void change(unsigned i, unsigned how)
{
	if (how == 0 && plain[i].batches < SL_OUTSTANDING_MAX) {
		sl_roster_more(&roster, i, plain[i].batches++);
	} else if (how == 1 && plain[i].batches) {
		sl_roster_less(&roster, i, plain[i].batches--);
	} else if (how == 2) {
		sl_roster_add(&roster, i, plain[i].batches);
		plain[i].up = true;
	} else if (how == 3) {
		sl_roster_remove(&roster, i);
		plain[i].up = false;
	}
}

TEST(zones_are_right_as_backends_come_and_go)
{
	struct sl_prng rng;

	sl_prng_seed(&rng, 7);
	for (unsigned round = 0; round < 5000; round++) {
		change((unsigned)sl_prng_below(&rng, ROOM), (unsigned)sl_prng_below(&rng, 4));
		assert_zones();
	}
}

TEST(backend_number_beyond_the_room_is_not_up)
{
	ck_assert(!sl_roster_up(&roster, ROOM));
	ck_assert(!sl_roster_idle(&roster, ROOM));
}
