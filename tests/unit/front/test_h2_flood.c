/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that ordinary clients send often, and that are no flood: resets, WINDOW_UPDATE, padding. */
#include "h2_talk.h"
#include "suite.h"

FIXTURE(setup_h2, teardown_h2)

/* :path /p.S/M, content-type application/grpc, grpc-timeout 500u */
#define CALL                                                                                       \
	"HEADERS 4 %x @grpc 00 0c 677270632d74696d656f7574 04 35303075; DATA 1 %x 0000000001 61"

static void talk_on(const char *text, uint32_t id)
{
	char frames[400];

	snprintf(frames, sizeof(frames), text, id, id, id, id);
	talk(frames);
	m->out_len = 0;
}

static void open_conn(void)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("");
}

/* A call is given up behind its deadline, or before. Only the latter was work in vain. */
TEST_EACH(resets_of_calls_that_are_late_count_as_control_frames, 2)
{
	uint32_t id = 1;

	open_conn();
	for (; id < 8000 && !m->closed; id += 2) {
		talk_on("-" CALL, id);
		m->now_ns += _i ? 1000 : 500000;
		talk_on("-RST 0 %x 00000008", id);
		ck_assert_uint_eq(m->cancelled, id / 2 + 1);
	}
	ck_assert_int_eq(m->closed, _i);
	ck_assert_int_eq(id > 1900 && id < 2100, _i);
	ck_sound();
}

/* The reply and the reset may have met. */
TEST(resets_of_streams_that_are_answered_count_as_control_frames)
{
	open_conn();
	m->answer = MOCK_IN_BEGIN;
	for (uint32_t id = 1; id < 8000; id += 2) {
		talk_on("-HEADERS 4 %x @post", id);
		talk_on("-RST 0 %x 00000008", id);
	}
	ck_assert_uint_eq(m->done, 4000);
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}

/* A client may give up as many requests as it lets end, for however long. */
TEST_EACH(a_client_may_give_up_every_other_request, 2)
{
	uint32_t id = 1;

	open_conn();
	for (; id < 16000 && !m->closed; id += 4) {
		talk_on("-HEADERS 5 %x @get", id);
		if (!_i)
			mock_answer(mock_find(m, m->begun - 1));
		else
			talk_on("-RST 0 %x 00000008", id);
		talk_on("-HEADERS 5 %x @get; RST 0 %x 00000008", id + 2);
	}
	ck_assert_int_eq(m->closed, _i);
	ck_sound();
}

TEST(window_updates_of_ordinary_clients_are_no_flood)
{
	open_conn();
	m->answer = MOCK_AT_END;
	for (uint32_t id = 1; id < 16000; id += 2) {
		talk_on("-HEADERS 4 %x @post; WINDOW 0 %x 00001000; DATA 9 %x 0261 0000", id);
		talk_on("-WINDOW 0 0 00000002; WINDOW 0 %x 00000002", id);
	}
	ck_assert_uint_eq(m->closed, 0);
	ck_assert_uint_eq(m->done, 8000);
	ck_sound();
}

/* --- streams that have not begun --- */

/* GRPC_ALLOW_TRUE_BINARY_METADATA */
#define CORE "SETTINGS 0 0 fe0300000001"

static const struct {
	const char *in, *out;
} idle[] = {
	{"RST 0 1 00000008; HEADERS 5 3 @get", "HEADERS 3; DATA 3 2 end"},
	{"HEADERS 5 1 @get; RST 0 3 00000008; RST 0 5 00000008; HEADERS 5 7 @get",
	 "HEADERS 1; DATA 1 2 end; HEADERS 7; DATA 7 2 end"},
	{"HEADERS 4 1 @post; RST 0 3 00000008; DATA 8 1 02 6161 0000; PRIORITY 0 1 0000000310;"
	 "RST 0 5 00000008; DATA 1 1; RST 0 7 00000008",
	 "HEADERS 1; DATA 1 2 end"},
	/* Those of streams that have begun, and those that are malformed, mean what they always do. */
	{"HEADERS 4 1 @post; RST 0 1 00000008; HEADERS 5 3 @get", "HEADERS 3; DATA 3 2 end"},
	{"RST 0 2 00000008; HEADERS 5 3 @get", "GOAWAY 1"},
	{"RST 0 0 00000008; HEADERS 5 3 @get", "GOAWAY 1"},
	{"RST 0 1 000008; HEADERS 5 3 @get", "GOAWAY 6"},
	{"RST 0 1 00000008; DATA 0 1 61", "GOAWAY 1"},
	{"RST 0 1 00000008; WINDOW 0 1 00000001", "GOAWAY 1"},
};

TEST_EACH(grpcs_core_may_reset_streams_that_have_not_begun, SL_ARRAY_LEN(idle) * 3)
{
	struct bytes b;
	size_t step = (size_t[]){1000, 1, 7}[_i % 3];
	char in[300], out[300];

	mock_open(m);
	talk(CORE);
	snprintf(in, sizeof(in), "-%s", idle[_i / 3].in);
	b = frames_of(in);
	m->out_len = 0;
	for (size_t at = 0; at < b.len; at += step)
		mock_input(m, b.p + at, b.len - at < step ? b.len - at : step);
	free(b.p);
	summarize((const uint8_t *)m->out, m->out_len, out, sizeof(out));
	ck_assert_str_eq(out, idle[_i / 3].out);
	ck_sound();
}

/* Bytes that the host does not take are offered again, and nothing behind them is lost. */
TEST(a_body_that_waits_stands_before_such_a_reset)
{
	mock_open(m);
	talk(CORE);
	m->body_max = 1;
	talk("-HEADERS 4 1 @post; DATA 0 1 616161; RST 0 3 00000008; DATA 1 1 616161;"
	     "RST 0 5 00000008; HEADERS 5 7 @get");
	ck_assert_uint_eq(m->done, 2);
	ck_assert_ptr_nonnull(strstr(m->log, "0[6]aaaaaa end"));
	ck_sound();
}

TEST(a_flood_of_such_resets_ends_the_connection)
{
	uint32_t id = 1;

	mock_open(m);
	talk(CORE);
	for (; id < 30000 && !m->closed; id += 2)
		talk_on("-RST 0 %x 00000008", id);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_gt(id, 19000);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_H2_FLOOD], 1);
	ck_sound();
}

/* --- bytes that HPACK repeats --- */

/* Gives input once, as a burst does. Returns how many requests were read to their end. */
static unsigned read_burst(const struct bytes *b, size_t *at)
{
	struct sl_chunk c = {.ptr = b->p + *at, .len = b->len - *at};
	uint64_t before = m->errors[SL_FRONT_ERR_HEAD_TOO_LARGE];

	if (c.len)
		*at += mock_chunk(m, &c);
	m->out_len = 0;
	return (unsigned)(m->errors[SL_FRONT_ERR_HEAD_TOO_LARGE] - before);
}

/* Heads of 12 KiB in 20 bytes, each within the limit: the work is counted in heads that are unpacked. */
TEST(an_address_has_a_share_of_each_burst_for_ordinary_heads)
{
	enum { HEADS = 200, INPUTS = 5, BYTES = 3 * 4001, MOST = (1 << 20) / BYTES + 1 };
	char text[HEADS * 60] = "-";
	struct sl_h2_stats stats;
	struct bytes b;
	unsigned bursts = 0;
	size_t at = 0;

	mock_open(m);
	talk("HEADERS 5 1 828684 010161 400174 7fa11e 4000*61");
	for (uint32_t id = 3; id < 3 + 2 * HEADS; id += 2)
		sprintf(text + strlen(text), "HEADERS 5 %x 828684 010161 3*be;", id);
	b = frames_of(text);
	for (; at < b.len && bursts < 100; bursts++) {
		unsigned before = m->begun;

		m->now_ns += 1000;
		for (int i = 0; i < INPUTS && at < b.len; i++) { /* as from several connections */
			size_t len = b.len / INPUTS;

			len = b.len - at < len ? b.len - at : len;
			at += mock_chunk(m, &(struct sl_chunk){.ptr = b.p + at, .len = len});
			m->out_len = 0;
		}
		ck_assert_uint_le(m->begun - before, MOST + INPUTS);
	}
	free(b.p);
	ck_assert_uint_eq(m->begun, 1 + HEADS);
	ck_assert_uint_ge(bursts, HEADS / (MOST + INPUTS));
	sl_h2_env_stats(h2env, &stats);
	ck_assert_uint_ge(stats.heads_put_off, 1);
	ck_assert_uint_eq(m->later, stats.heads_put_off);
	ck_sound();
}

/* Heads of 100 KiB in 40 bytes. The address has 256 KiB in a burst, by however many connections. */
TEST_EACH(an_address_has_a_share_of_each_burst_for_repeated_fields, 2)
{
	enum { HEADS = 40 };
	char text[HEADS * 60] = "-";
	struct bytes b;
	unsigned heads = 0, bursts = 0;
	size_t at = 0;

	open_conn();
	talk("-HEADERS 5 1 828684 010161 400174 7fa11e 4000*61");
	m->out_len = 0;
	for (uint32_t id = 3; id < 3 + 2 * HEADS; id += 2)
		sprintf(text + strlen(text), "HEADERS 5 %x 828684 010161 25*be;", id);
	b = frames_of(text);
	for (; at < b.len && bursts < 100; bursts++) {
		unsigned n = read_burst(&b, &at);

		ck_assert_uint_le(n, 4);
		heads += n;
		if (_i == 1 && at < b.len) { /* in the same burst there is no more for it */
			size_t before = at;

			ck_assert_uint_eq(read_burst(&b, &at), 0);
			ck_assert_uint_le(at - before, 2);
		}
		ck_assert_uint_eq(m->later > 0, at < b.len || bursts > 0);
		m->now_ns += 1000;
	}
	free(b.p);
	ck_assert_uint_eq(heads, HEADS);
	ck_assert_uint_ge(bursts, HEADS / 4);
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}
