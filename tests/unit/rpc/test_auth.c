/* SPDX-License-Identifier: Apache-2.0 */
/* Replay protection of CREQs: which request numbers of a sender are accepted. */
#include "base/check.h"
#include "rpc/rdma/auth.h"
#include "suite.h"

/* In any order, and past 2^32. */
TEST(request_number_is_accepted_once)
{
	static const struct {
		int number;
		bool fresh;
	} steps[] = {{0, true},   {0, false},   {1, true},   {5, true},   {3, true},   {3, false},
		     {5, false},  {63, true},   {2, true},   {64, true},  {0, false},  {4, true},
		     {200, true}, {136, false}, {137, true}, {199, true}, {137, false}};
	static struct replay_filter seen;

	for (unsigned from = 0; from < 2; from++) {
		for (unsigned i = 0; i < SL_ARRAY_LEN(steps); i++)
			ck_assert_msg(replay_filter_accept(
					      &seen, from,
					      (uint32_t)(steps[i].number - 100 * (int)from)) ==
					      steps[i].fresh,
				      "step %u from %u", i, from);
	}
}

/* A sender that returns is among them. */
TEST(latest_senders_are_remembered)
{
	static struct replay_filter seen;

	for (uint64_t epoch = 1; epoch < 3 * REPLAY_SENDERS; epoch++) {
		ck_assert(replay_filter_accept(&seen, epoch, 7));
		ck_assert(replay_filter_accept(&seen, 0, (uint32_t)epoch));
	}
	for (uint64_t epoch = 2 * REPLAY_SENDERS + 1; epoch < 3 * REPLAY_SENDERS; epoch++)
		ck_assert(!replay_filter_accept(&seen, epoch, 7));
	ck_assert(!replay_filter_accept(&seen, 0, 3 * REPLAY_SENDERS - 1));
}
