/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of pools and backends. */
#include "control_bed.h"
#include "control/history.h"
#include "control/stage_map.h"
#include "suite.h"

static struct sl_history *h;
static uint64_t now_ns;

static void begin(void)
{
	set_up();
	h = sl_history_new();
	ck_assert_ptr_nonnull(h);
	now_ns = UINT64_C(1000000000);
}

static void end(void)
{
	sl_history_free(h);
	tear_down();
}

static void tick(void)
{
	sl_history_tick(h, &gw, now_ns);
	now_ns += UINT64_C(1000000000);
}

static json_t *history(void)
{
	struct sl_strbuf b;
	json_t *o;

	sl_strbuf_grow(&b, 1 << 20);
	sl_history_write(h, &b);
	o = json_loads(sl_strbuf_cstr(&b), 0, NULL);
	ck_assert_ptr_nonnull(o);
	sl_strbuf_fini(&b);
	return o;
}

static json_t *series(json_t *o, const char *list, const char *name)
{
	return json_object_get(json_array_get(json_object_get(o, list), 0), name);
}

static double last_of(const char *list, const char *name)
{
	json_t *o = history(), *s = series(o, list, name);
	double v = json_number_value(json_array_get(s, json_array_size(s) - 1));

	ck_assert_uint_gt(json_array_size(s), 0);
	json_decref(o);
	return v;
}

FIXTURE(begin, end)

TEST(a_sample_has_rates_of_its_second)
{
	gw.pool_codes[0].http[SL_CODE_200] = 1000; /* before the first sample */
	tick();
	gw.pool_codes[0].http[SL_CODE_200] += 30;
	gw.pool_codes[1].http[SL_CODE_503] += 5;
	gw.pool_codes[1].http[SL_CODE_OTHER + 4] += 2;
	gw.hist[1][0][SL_STAGE_QUEUE].count = 4;
	gw.hist[1][0][SL_STAGE_QUEUE].sum_ns = 4000;
	sl_hist_add((uint64_t *)gw.hist[0][0][SL_STAGE_TOTAL].bucket, 1000000);
	tick();
	ck_assert_double_eq(last_of("pools", "2xx"), 30);
	ck_assert_double_eq(last_of("pools", "5xx"), 7);
	ck_assert_double_eq(last_of("pools", "rate"), 37);
	ck_assert_double_eq(last_of("pools", "queue_ns"), 1000);
	ck_assert_double_gt(last_of("pools", "p99_ns"), 900000);
	tick();
	ck_assert_double_eq(last_of("pools", "rate"), 0);
	ck_assert_double_eq(last_of("pools", "p99_ns"), 0);
}

TEST(a_backend_has_rates_errors_and_latency)
{
	json_t *o;

	tick();
	gw.backend_codes.codes.http[SL_CODE_500] = 3; /* both workers show the same */
	sl_hist_add(gw.backend_codes.bucket, 2000000);
	tick();
	ck_assert_double_eq(last_of("backends", "rate"), 6);
	ck_assert_double_eq(last_of("backends", "errors"), 6);
	ck_assert_double_gt(last_of("backends", "p50_ns"), 1800000);
	o = sl_history_backend(h, "score", "a", 10);
	ck_assert_double_eq(json_number_value(json_object_get(o, "errors")), 6);
	ck_assert_double_gt(json_number_value(json_object_get(o, "p50_ns")), 1800000);
	json_decref(o);
	ck_assert_ptr_null(sl_history_backend(h, "score", "z", 10));
	ck_assert_ptr_null(sl_history_pool(h, "a", 10));
}

TEST(bpftool_sees_quantiles_of_the_window)
{
	uint64_t shown = 0;
	struct sl_window w;

	ck_assert_int_eq(sl_window_init(&w, 1), 0);
	ck_assert(sl_window_tick(&w, &gw, now_ns));
	for (int i = 0; i < 100; i++)
		sl_hist_add((uint64_t *)gw.hist[i % 2][0][SL_STAGE_QUEUE].bucket,
			    i < 95 ? 1000 : 1000000);
	gw.hist[0][0][SL_STAGE_QUEUE].count = 100;
	gw.hist[0][0][SL_STAGE_QUEUE].sum_ns = 200000;
	ck_assert(!sl_window_tick(&w, &gw, now_ns + 1));
	ck_assert(sl_window_tick(&w, &gw, now_ns + UINT64_C(3000000000)));
	sl_stage_map_write(&gw, &w, &shown);
	ck_assert_str_eq(stage_pool, "score");
	ck_assert_uint_eq(stage_times[SL_STAGE_QUEUE].count, 100);
	ck_assert_uint_eq(stage_times[SL_STAGE_QUEUE].recent, 100);
	ck_assert_uint_eq(stage_times[SL_STAGE_QUEUE].mean_ns, 2000);
	ck_assert_uint_lt(stage_times[SL_STAGE_QUEUE].p90_ns, 2000);
	ck_assert_uint_gt(stage_times[SL_STAGE_QUEUE].p99_ns, 900000);
	ck_assert_uint_eq(shown, cfg->number);
	sl_window_fini(&w);
}

TEST(ten_minutes_are_kept)
{
	json_t *o;

	for (unsigned i = 0; i < SL_HISTORY_LEN + 50; i++) {
		gw.pool_codes[0].http[SL_CODE_200] += i;
		tick();
	}
	o = history();
	ck_assert_uint_eq(json_array_size(series(o, "pools", "rate")), SL_HISTORY_LEN);
	ck_assert_double_eq(json_number_value(json_array_get(series(o, "pools", "rate"), 0)), 50);
	json_decref(o);
	ck_assert_double_eq(last_of("pools", "rate"), SL_HISTORY_LEN + 49);
}

TEST(a_pool_that_leaves_is_forgotten)
{
	uint32_t cnt = cfg->pool_cnt;
	json_t *o;

	tick();
	cfg->pool_cnt = 0;
	tick();
	o = history();
	cfg->pool_cnt = cnt;
	ck_assert_uint_eq(json_array_size(json_object_get(o, "pools")), 0);
	ck_assert_uint_eq(json_array_size(json_object_get(o, "backends")), 0);
	json_decref(o);
}
