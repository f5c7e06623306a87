/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of reply statuses. */
#include "core_bed.h"
#include "front/codes.h"
#include "suite.h"

static void set_up(void)
{
	bed_begin();
	bed_connect(0, false);
	bed_connect(1, false);
	bed_connect(2, false);
	bed_open(0);
}

static void tear_down(void)
{
	bed_end();
}

static uint64_t sum_of(const struct sl_codes *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SL_CODE_CNT; i++)
		sum += c->http[i];
	return sum;
}

static struct sl_route_codes *route_at(uint32_t i)
{
	return bed.core.wcfg->route_codes[i];
}

FIXTURE(set_up, tear_down)

TEST(each_status_has_a_counter_of_its_class)
{
	for (unsigned status = 0; status < 2000; status++) {
		unsigned i = sl_code_index(status);

		ck_assert_uint_lt(i, SL_CODE_CNT);
		if (sl_code_status(i))
			ck_assert_uint_eq(sl_code_status(i), status);
		if (status >= 100 && status < 600)
			ck_assert_uint_eq(sl_code_class(i), status / 100);
	}
	ck_assert_uint_eq(sl_code_status(sl_code_index(500)), 500);
	ck_assert_uint_eq(sl_code_status(sl_code_index(599)), 0);
}

TEST(an_answered_request_counts_at_its_route_pool_and_backend)
{
	struct sl_backend_ref *m;
	unsigned b;

	bed_post_request(0, "/e/some", 'z', 10);
	bed_turns(3);
	b = bed.backends[0].id_cnt ? 0 : 1;
	bed_turn(5 * SL_NS_PER_MS);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_OK, 0, "answer");
	bed_turns(3);
	m = bed_member(b);
	ck_assert_uint_eq(m->codes.codes.http[SL_CODE_200], 1);
	ck_assert_uint_eq(sum_of(&m->codes.codes), 1);
	ck_assert_uint_eq(sl_hist_count(m->codes.bucket), 1);
	ck_assert_uint_ge(m->codes.sum_ns, 5 * SL_NS_PER_MS);
	ck_assert_uint_eq(m->pool->codes.http[SL_CODE_200], 1);
	ck_assert_uint_eq(sum_of(&m->pool->codes), 1);
	ck_assert_str_eq(route_at(0)->label, "/e");
	ck_assert_uint_eq(route_at(0)->codes.http[SL_CODE_200], 1);
	ck_assert_uint_ge(route_at(0)->http[0].sum_ns, 5 * SL_NS_PER_MS);
}

TEST(a_reply_of_the_gateway_counts_for_no_backend)
{
	unsigned b;

	bed_post_request(0, "/e", 'z', 10);
	bed_turns(3);
	b = bed.backends[0].id_cnt ? 0 : 1;
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_INTERNAL, 0, "");
	bed_turns(3);
	ck_assert_uint_eq(sum_of(&bed_member(b)->codes.codes), 0);
	ck_assert_uint_eq(bed_member(b)->pool->codes.http[SL_CODE_502], 1);
	ck_assert_uint_eq(route_at(0)->codes.http[SL_CODE_502], 1);
}

TEST(a_request_without_a_route_counts_at_the_last)
{
	static const char ask[] = "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n";
	struct sl_route_codes *none = route_at(bed.core.cfg->route_cnt);

	bed_say(0, ask, sizeof(ask) - 1);
	bed_turns(3);
	ck_assert_str_eq(none->label, "");
	ck_assert_uint_eq(none->codes.http[SL_CODE_404], 1);
	ck_assert_uint_eq(sum_of(&none->codes), 1);
}

TEST(a_client_that_has_gone_counts_as_499)
{
	struct sl_code_end e = {.status = 200, .outcome = SL_OUTCOME_CLIENT_GONE};

	ck_assert_uint_eq(sl_code_http(&e), 499);
	e.begun = true;
	ck_assert_uint_eq(sl_code_http(&e), 200);
	e = (struct sl_code_end){.outcome = SL_OUTCOME_EXPIRED, .proto = SL_PROTO_GRPC};
	ck_assert_uint_eq(sl_code_grpc(&e), SL_GRPC_DEADLINE_EXCEEDED);
}

TEST(durations_of_many_statuses_share_the_last_slot)
{
	struct sl_list made;
	struct sl_route_codes *r, *same;
	struct sl_duration sum[SL_DURATION_SLOTS] = {0};
	uint64_t all = 0;

	sl_list_init(&made);
	r = sl_route_codes_get(&made, NULL);
	same = sl_route_codes_get(&made, NULL);
	ck_assert_ptr_eq(r, same);
	for (unsigned status = 100; status < 600; status++) {
		struct sl_code_end e = {.status = status, .begun = true};

		sl_route_codes_add(r, sl_code_find(&e), status * UINT64_C(1000));
	}
	ck_assert_uint_eq(sum_of(&r->codes), 500);
	sl_durations_merge(sum, r->http);
	sl_durations_merge(sum, r->http);
	for (unsigned s = 0; s < SL_DURATION_SLOTS; s++) {
		for (unsigned i = 0; i <= SL_CODE_BOUND_CNT; i++) {
			ck_assert_uint_eq(sum[s].bucket[i], 2 * r->http[s].bucket[i]);
			all += sum[s].bucket[i];
		}
	}
	ck_assert_uint_eq(all, 1000);
	ck_assert_uint_eq(sum[SL_DURATION_OTHER].index, 0);
	ck_assert_uint_gt(sum[SL_DURATION_OTHER].bucket[SL_CODE_BOUND_500], 0);
	sl_route_codes_put(same);
	sl_route_codes_put(r);
	ck_assert(sl_list_empty(&made));
}

TEST(a_duration_is_at_most_its_bound)
{
	struct sl_route_codes *r;
	struct sl_list made;

	sl_list_init(&made);
	r = sl_route_codes_get(&made, NULL);
	for (unsigned i = 0; i < SL_CODE_BOUND_CNT; i++) {
		struct sl_code_end e = {.status = 200, .begun = true};

		sl_route_codes_add(r, sl_code_find(&e), sl_code_bound_ns(i));
		ck_assert_uint_eq(r->http[0].bucket[i], 1);
		sl_route_codes_add(r, sl_code_find(&e), sl_code_bound_ns(i) + 1);
		ck_assert_uint_eq(r->http[0].bucket[i + 1], 1);
		r->http[0].bucket[i + 1] = 0;
	}
	sl_route_codes_put(r);
}
