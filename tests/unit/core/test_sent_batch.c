/* SPDX-License-Identifier: Apache-2.0 */
/* Flights are found at once, however many have not left. */
#include <string.h>

#include "base/clock.h"
#include "core/sent_batch.h"
#include "suite.h"

enum { MANY = 1 << 14, FEW = 16, ROUNDS = 2000, TRIES = 7, MEMBERS = 2 };

static struct sl_net net; /* without frames */
static struct sl_core core;
static struct sl_backend_ref backends[MEMBERS];
static uint64_t batches[MEMBERS];

static void begin(unsigned m)
{
	struct sl_sent_batch *f = sl_mempool_get(&core.sent_batches);

	ck_assert_ptr_nonnull(f);
	f->batch = ++batches[m];
	sl_sent_batch_begin(&core, &backends[m], f);
}

static void set_up(void)
{
	memset(&core, 0, sizeof(core));
	core.net = &net;
	memset(batches, 0, sizeof(batches));
	ck_assert_int_eq(sl_sent_batches_init(&core, MEMBERS * MANY), 0);
}

static void tear_down(void)
{
	ck_assert_uint_eq(sl_mempool_used(&core.sent_batches), 0);
	sl_sent_batches_fini(&core);
}

FIXTURE(set_up, tear_down)

/* Returns the cost of one more batch among so many: the minimum of some tries. */
static uint64_t ns_with(uint64_t waiting)
{
	uint64_t best = UINT64_MAX;

	while (batches[0] < waiting) {
		begin(0);
		begin(1);
	}
	for (int i = 0; i < TRIES; i++) {
		uint64_t at = sl_now_ns(), ns;

		for (int k = 0; k < ROUNDS; k++) {
			begin(0);
			sl_sent_batch_done(&core, &backends[0], batches[0]--);
		}
		ns = (sl_now_ns() - at) / ROUNDS;
		best = ns < best ? ns : best;
	}
	return best;
}

TEST(one_of_many_is_found_as_fast_as_one_of_few)
{
	uint64_t few = ns_with(FEW), many = ns_with(MANY - 1);

	ck_assert_msg(many < 10 * few + 8000, "%lu ns, of few %lu ns", many, few);
	for (unsigned m = 0; m < MEMBERS; m++) {
		for (uint64_t b = 1; b <= batches[m]; b++)
			sl_sent_batch_done(&core, &backends[m], b);
	}
}

/* Batches end in any order, each by its own number; a repeated end is ignored. */
TEST(each_ends_by_its_own_number)
{
	enum { CNT = 1000 };

	for (unsigned i = 0; i < CNT; i++) {
		begin(0);
		begin(1);
	}
	for (unsigned i = 0; i < CNT; i++) {
		uint64_t batch = 1 + i * 7 % CNT;

		sl_sent_batch_done(&core, &backends[i % 2], batch);
		sl_sent_batch_done(&core, &backends[i % 2], batch);
		ck_assert_uint_eq(sl_mempool_used(&core.sent_batches), 2 * CNT - i - 1);
	}
	for (unsigned i = 0; i < CNT; i++) {
		uint64_t batch = 1 + i * 7 % CNT;

		sl_sent_batch_done(&core, &backends[1 - i % 2], batch);
		ck_assert_uint_eq(sl_mempool_used(&core.sent_batches), CNT - i - 1);
	}
}
