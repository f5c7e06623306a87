/* SPDX-License-Identifier: Apache-2.0 */
/* Exemplars of durations: where a request's is kept, and what another thread reads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "front/exemplar.h"
#include "suite.h"

static struct sl_list made;
static struct sl_route_codes *route;
static struct sl_exemplar best[SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS];
static struct sl_duration sum[SL_DURATION_SLOTS];

static void set_up(void)
{
	sl_list_init(&made);
	route = sl_route_codes_get(&made, NULL);
	ck_assert(sl_exemplars_make(route));
}

static void tear_down(void)
{
	sl_route_codes_put(route);
}

static void add(struct sl_route_codes *r, unsigned status, uint64_t ns, uint8_t id)
{
	struct sl_code_at at = sl_code_find(&(struct sl_code_end){.status = status, .begun = true});
	uint8_t trace_id[16];

	memset(trace_id, id, sizeof(trace_id));
	sl_route_codes_add(r, at, ns);
	if (id)
		sl_exemplar_put(r, at, ns, trace_id);
}

static void merge(const struct sl_route_codes *r)
{
	sl_durations_merge(sum, r->http);
	sl_exemplars_merge(best, sum, r, false);
}

static const struct sl_exemplar *find(unsigned status, unsigned bucket)
{
	return &best[sl_duration_slot(sum, sl_code_index(status))][bucket];
}

FIXTURE(set_up, tear_down)

TEST(the_last_sampled_request_of_a_bucket_is_its_exemplar)
{
	add(route, 200, 600000, 1);
	add(route, 200, 700000, 2);
	add(route, 200, 800000, 0);
	add(route, 200, 3000, 3);
	add(route, 500, 700000, 4);
	merge(route);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_1000)->ns, 700000);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_1000)->trace_id[15], 2);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_10)->trace_id[0], 3);
	ck_assert_uint_eq(find(500, SL_CODE_BOUND_1000)->trace_id[0], 4);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_25)->unix_ns, 0);
}

TEST(beyond_all_bounds_is_a_bucket_too)
{
	add(route, 200, UINT64_C(60000000000), 1);
	merge(route);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_CNT)->trace_id[0], 1);
}

TEST(statuses_without_a_slot_share_the_exemplars_of_the_last)
{
	for (unsigned i = 0; i < 20; i++)
		add(route, 400 + i, 600000, (uint8_t)(i + 1));
	merge(route);
	ck_assert_uint_eq(find(400, SL_CODE_BOUND_1000)->trace_id[0], 1);
	ck_assert_uint_eq(find(418, SL_CODE_BOUND_1000)->trace_id[0], 20);
	ck_assert_ptr_eq(find(418, 0), &best[SL_DURATION_OTHER][0]);
}

/* The workers have met the statuses in another order. */
TEST(the_newest_of_all_workers_is_shown)
{
	struct sl_list others;
	struct sl_route_codes *other;

	sl_list_init(&others);
	other = sl_route_codes_get(&others, NULL);
	ck_assert(sl_exemplars_make(other));
	add(other, 500, 600000, 1);
	add(route, 200, 600000, 2);
	add(other, 200, 700000, 3);
	add(route, 500, 800000, 4);
	merge(route);
	merge(other);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_1000)->trace_id[0], 3);
	ck_assert_uint_eq(find(500, SL_CODE_BOUND_1000)->trace_id[0], 4);
	sl_route_codes_put(other);
}

TEST(without_traces_there_is_none)
{
	struct sl_list others;
	struct sl_route_codes *other;

	sl_list_init(&others);
	other = sl_route_codes_get(&others, NULL);
	add(other, 200, 600000, 1);
	merge(other);
	ck_assert_ptr_null(other->exemplars);
	ck_assert_uint_eq(find(200, SL_CODE_BOUND_1000)->unix_ns, 0);
	sl_route_codes_put(other);
}

TEST(an_exemplar_that_is_being_written_is_left_out)
{
	struct sl_exemplar e = {.version = 3, .unix_ns = 1}, to;

	ck_assert(!sl_exemplar_read(&e, &to));
	e.version = 4;
	ck_assert(sl_exemplar_read(&e, &to));
	e.version = 0;
	ck_assert(!sl_exemplar_read(&e, &to));
}

static atomic_bool done;

/* ns and each byte of the id tell the same. */
static void *write_many(void *arg)
{
	for (unsigned i = 0; i < 300000; i++)
		add(route, 200, 600000 + i % 200, (uint8_t)(1 + i % 200));
	atomic_store(&done, true);
	return arg;
}

TEST(another_thread_reads_whole_exemplars)
{
	const struct sl_exemplar *e;
	pthread_t writer;

	ck_assert_int_eq(pthread_create(&writer, NULL, write_many, NULL), 0);
	while (!atomic_load(&done)) {
		memset(best, 0, sizeof(best));
		memset(sum, 0, sizeof(sum));
		merge(route);
		e = find(200, SL_CODE_BOUND_1000);
		for (unsigned i = 0; e->unix_ns && i < sizeof(e->trace_id); i++)
			ck_assert_uint_eq(e->trace_id[i], e->ns - 600000 + 1);
	}
	pthread_join(writer, NULL);
}
