/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/shm/shm.h"
#include "suite.h"

/* Each part of the memory begins on a page, whatever the number of slots. */
TEST(memory_is_whole_pages)
{
	for (uint32_t slots = 1; slots <= 1024; slots *= 2) {
		struct sl_shm_geometry few = {.slots = slots, .bulk_len = 64 << 10};
		struct sl_shm_geometry more = {.slots = 2 * slots, .bulk_len = 64 << 10};

		ck_assert_uint_eq(sl_shm_len(&few) % 4096, 0);
		ck_assert_uint_ge(sl_shm_len(&more), sl_shm_len(&few));
		ck_assert_uint_ge(sl_shm_len(&few),
				  2 * (64 << 10) + 2 * slots * sizeof(struct sl_shm_slot));
	}
}
