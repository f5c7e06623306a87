/* SPDX-License-Identifier: Apache-2.0 */
/* Recent changes with their reasons. */
#include "control_bed.h"
#include "control/notes.h"
#include "suite.h"

static struct sl_notes *n;
static uint64_t now_ms;

static void begin(void)
{
	set_up();
	n = sl_notes_new();
	ck_assert_ptr_nonnull(n);
	now_ms = 1000000;
	sl_notes_tick(n, &gw, now_ms);
}

static void end(void)
{
	sl_notes_free(n);
	tear_down();
}

static void tick(void)
{
	now_ms += 1000;
	sl_notes_tick(n, &gw, now_ms);
}

static size_t count(void)
{
	json_t *o = sl_notes_json(n);
	size_t cnt = json_array_size(o);

	json_decref(o);
	return cnt;
}

/* The newest note is this one. */
static void expect_note(const char *text, bool bad)
{
	json_t *o = sl_notes_json(n), *first = json_array_get(o, 0);
	const char *found = json_string_value(json_object_get(first, "text"));

	ck_assert_msg(found && strcmp(found, text) == 0, "%s", found ? found : "none");
	ck_assert_int_eq(json_is_true(json_object_get(first, "bad")), bad);
	json_decref(o);
}

static void set_state(enum sl_rpc_state state, const char *info)
{
	struct sl_backend_info *k = &gw.info.workers[0].backends[0]; /* of both workers */

	k->state = (uint8_t)state;
	snprintf(k->info, sizeof(k->info), "%s", info);
}

FIXTURE(begin, end)

TEST(what_was_so_at_the_start_is_no_news)
{
	tick();
	ck_assert_uint_eq(count(), 0);
}

TEST(a_backend_that_goes_and_comes_back_is_noted)
{
	set_state(SL_RPC_CONNECTING, "connection refused");
	tick();
	expect_note("backend score/a is down: connection refused", true);
	set_state(SL_RPC_DOWN, "connection refused");
	tick();
	ck_assert_uint_eq(count(), 1);
	set_state(SL_RPC_UP, "shm /a");
	tick();
	expect_note("backend score/a is up: shm /a", false);
	ck_assert_uint_eq(count(), 2);
}

TEST(requests_with_one_outcome_are_one_note)
{
	gw.info.workers[0].core.outcomes[SL_OUTCOME_SHED] += 3;
	tick();
	expect_note("3 requests not served: shed (503: overloaded: the deadline cannot be met)",
		    true);
	gw.info.workers[1].core.outcomes[SL_OUTCOME_SHED] += 4;
	tick();
	expect_note("7 requests not served: shed (503: overloaded: the deadline cannot be met)",
		    true);
	ck_assert_uint_eq(count(), 1);
	now_ms += 20000;
	gw.info.workers[0].core.outcomes[SL_OUTCOME_SHED]++;
	tick();
	expect_note("1 request not served: shed (503: overloaded: the deadline cannot be met)",
		    true);
	gw.info.workers[0].core.outcomes[SL_OUTCOME_OK]++;
	gw.info.workers[0].core.outcomes[SL_OUTCOME_CLIENT_GONE]++;
	tick();
	ck_assert_uint_eq(count(), 2);
}

TEST(readiness_has_its_reason)
{
	gw.ready = false;
	tick();
	expect_note("not ready: no backend of pool score is up", true);
	gw.ready = true;
	tick();
	expect_note("ready", false);
}

TEST(old_notes_are_dropped)
{
	for (unsigned i = 0; i < SL_NOTES + 10; i++) {
		gw.ready = !gw.ready;
		tick();
	}
	ck_assert_uint_eq(count(), SL_NOTES);
}

/* Two reloads within a second: the first configuration is freed, the third one gets its memory. */
TEST(configuration_at_the_address_of_a_former_one_is_new)
{
	struct sl_config former = *cfg;
	struct sl_config *next = sl_config_parse("user = root\n", "c.conf", &err);

	ck_assert_msg(next != NULL, "%s", err.text);
	ck_assert_uint_ne(next->number, cfg->number);
	*cfg = *next;
	tick();
	expect_note("a new configuration is in force", false);
	*cfg = former;
	sl_config_free(next);
}

/* The name in a note is cut within a character; names of a file have any bytes. */
TEST(text_that_is_not_utf8_is_shown)
{
	json_t *o = sl_json_text("a\xff\"b\xc3");

	ck_assert_str_eq(json_string_value(o), "a\xef\xbf\xbd\"b\xef\xbf\xbd");
	json_decref(o);
	set_state(SL_RPC_DOWN, "\xc3");
	tick();
	expect_note("backend score/a is down: \xef\xbf\xbd", true);
}
