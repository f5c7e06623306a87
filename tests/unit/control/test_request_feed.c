/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of /requests. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fake_gateway.h"
#include "control/request_feed.h"
#include "suite.h"

static struct sl_err err = SL_ERR(300);

static bool matches(const char *key, const char *value, const struct sl_event *e)
{
	struct request_filter *f = request_filter_empty();
	bool found;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(request_filter_set(f, key, value, &err), 0);
	found = request_filter_matches(f, e);
	free(f);
	return found;
}

static struct sl_event event_of(unsigned status)
{
	return (struct sl_event){
		.status = (uint16_t)status,
		.begun = true,
		.pool = "score",
		.backend = "a",
		.route = "/score",
		.stage_ns = {[SL_EVENT_QUEUE] = 40000000, [SL_EVENT_BACKEND] = 60000000}};
}

TEST(a_filter_takes_statuses_and_classes)
{
	struct sl_event e = event_of(503);

	ck_assert(matches("status", "503", &e));
	ck_assert(matches("status", "5xx", &e));
	ck_assert(!matches("status", "500", &e));
	ck_assert(!matches("status", "4xx", &e));
	e.outcome = SL_OUTCOME_CLIENT_GONE;
	e.begun = false;
	ck_assert(matches("status", "499", &e));
}

TEST(a_call_has_the_class_of_its_grpc_status)
{
	struct sl_event e = event_of(200);

	e.proto = SL_PROTO_GRPC;
	ck_assert(matches("status", "2xx", &e));
	e.grpc_status = SL_GRPC_UNAVAILABLE;
	ck_assert(matches("status", "5xx", &e));
	ck_assert(matches("status", "200", &e));
	e.grpc_status = SL_GRPC_NOT_FOUND;
	ck_assert(matches("status", "4xx", &e));
}

TEST(a_filter_takes_the_sum_of_the_stages)
{
	struct sl_event e = event_of(200);

	ck_assert(matches("slow", "100ms", &e));
	ck_assert(!matches("slow", "101ms", &e));
}

TEST(a_filter_takes_names)
{
	struct sl_event e = event_of(200);
	char longer[64];

	ck_assert(matches("pool", "score", &e));
	ck_assert(!matches("pool", "scor", &e));
	ck_assert(matches("backend", "a", &e));
	ck_assert(!matches("backend", "b", &e));
	ck_assert(matches("route", "/score", &e));
	ck_assert(!matches("route", "/", &e));
	/* Cut as in the record. */
	memset(longer, 'p', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	memset(e.pool, 'p', sizeof(e.pool) - 1);
	e.pool[sizeof(e.pool) - 1] = 0;
	ck_assert(matches("pool", longer, &e));
}

TEST(a_wrong_filter_is_refused)
{
	static const char *const wrong[][2] = {
		{"status", "6xx"}, {"status", "99"}, {"status", "x"}, {"status", "600"},
		{"slow", "x"},     {"other", "x"},   {"status", ""},
	};
	struct request_filter *f = request_filter_empty();

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_ne(request_filter_set(f, wrong[i][0], wrong[i][1], &err), 0);
		ck_assert_ptr_nonnull(strstr(err.text, "allowed: "));
	}
	free(f);
}
