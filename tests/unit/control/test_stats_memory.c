/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics are whole, or it is known that they are not, whichever piece of memory is missing. */
#include "alloc.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "control/json_memory.h"
#include "control/stats.h"
#include "fake_gateway.h"
#include "suite.h"

enum { LIMIT = 16 << 20 };

static struct sl_config *cfg;
static struct sl_window window;

static void set_up(void)
{
	struct sl_err err = SL_ERR(512);

	cfg = sl_config_parse("log_level = warn user = root\n"
			      "pool score { backend a { endpoint = \"shm:///a\" } }\n",
			      "c.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	gw_fill(cfg);
	cfg->file = (char *)(uintptr_t) "no \xff UTF-8";
	ck_assert_int_eq(sl_window_init(&window, 1), 0);
}

static void tear_down(void)
{
	cfg->file = NULL;
	sl_window_fini(&window);
	sl_config_free(cfg);
}

FIXTURE(set_up, tear_down)

static size_t count(const json_t *o)
{
	const char *key;
	json_t *v;
	size_t i, n = 1;

	if (json_is_object(o))
		json_object_foreach((json_t *)(uintptr_t)o, key, v) n += count(v);
	else
		json_array_foreach(o, i, v) n += count(v);
	return n;
}

static int make(unsigned allocs, size_t limit, size_t *values)
{
	json_t *o;
	int rc;

	sl_json_memory_begin(limit);
	allocs_left = allocs;
	o = sl_stats_json(&gw, &window);
	allocs_left = UINT32_MAX;
	rc = sl_json_memory_end();
	*values = o ? count(o) : 0;
	json_decref(o);
	return rc;
}

TEST(statistics_without_memory_are_an_error)
{
	size_t all, some;
	long before = allocs_alive;
	unsigned n = 0;
	int rc = -1;

	ck_assert_int_eq(make(UINT32_MAX, LIMIT, &all), 0);
	ck_assert_uint_gt(all, 100);
	for (; rc; n++) {
		rc = make(n, LIMIT, &some);
		ck_assert(rc == 0 ? some == all : rc == -ENOMEM);
	}
	ck_assert_uint_gt(n, all);
#ifndef __SANITIZE_ADDRESS__ /* which has allocations of its own, and finds leaks itself */
	ck_assert_int_eq(allocs_alive, before);
#else
	(void)before;
#endif
}

TEST(statistics_beyond_their_memory_are_an_error)
{
	size_t all, some, limit = 0;
	int rc = -1;

	ck_assert_int_eq(make(UINT32_MAX, LIMIT, &all), 0);
	for (; rc; limit += 64) {
		rc = make(UINT32_MAX, limit, &some);
		ck_assert(rc == 0 ? some == all : rc == -E2BIG);
	}
	ck_assert_uint_gt(limit, 64 * 64);
}
