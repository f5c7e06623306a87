/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of backends over gRPC: head, message and status reach the client as the backend sent them. */
#include "grpc_talk.h"
#include "suite.h"

FIXTURE(setup_h2, teardown_h2)

#define MESSAGE "\0\0\0\0\2ok"

static const struct sl_header meta[] = {{SL_SPAN_LIT("x-id"), SL_SPAN_LIT("7")}};
static const struct sl_header trailer[] = {{SL_SPAN_LIT("x-end"), SL_SPAN_LIT("8")}};

enum sends { NOTHING, HEAD = 1, MESSAGES = 2 };

static void begin_call(void)
{
	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
}

/* Sends a whole reply at once, as a backend does that knows the status already. */
static void reply(enum sends what, unsigned http, enum sl_grpc_status status, const char *type)
{
	struct mock_stream *s = mock_find(m, 0);
	struct sl_reply r = {
		.status = (uint16_t)http,
		.grpc_status = (uint16_t)status,
		.grpc_message = S("why"),
		.content_type = sl_span_cstr(type),
		.headers = meta,
		.header_cnt = what & HEAD ? 1 : 0,
		.trailers = trailer,
		.trailer_cnt = 1,
		.body_len = what & MESSAGES ? SL_GRPC_PREFIX + 2 : 0,
	};

	s->head = s->tail = r;
	s->has_head = s->ended = s->answered = true;
	if (what & MESSAGES) {
		mock_message(s, 2);
		mock_keep(s, S("ok"));
	}
	mock_announce(s);
}

static void ck_blocks(const char *want)
{
	static char text[1000];

	summarize((const uint8_t *)m->out, m->out_len, text, sizeof(text));
	ck_assert_str_eq(text, want);
}

TEST_EACH(a_failing_reply_keeps_its_head_and_message, 4)
{
	enum sends what = (enum sends)_i;

	begin_call();
	reply(what, 200, SL_GRPC_OUT_OF_RANGE, "application/grpc");
	ck_got(1, what & MESSAGES ? S(MESSAGE) : S(""), SL_GRPC_OUT_OF_RANGE);
	ck_blocks(what & MESSAGES ? "HEADERS 1; DATA 1 7; HEADERS 1 end"
		  : what & HEAD   ? "HEADERS 1; HEADERS 1 end"
				  : "HEADERS 1 end");
	ck_assert_ptr_nonnull(strstr(got.fields, "x-end: 8\n"));
	ck_assert_ptr_nonnull(strstr(got.fields, "grpc-message: why\n"));
	ck_sound();
}

/* A page of HTTP holds no message: the status of HTTP says how the call ends. */
TEST(a_page_is_no_message)
{
	begin_call();
	reply(HEAD | MESSAGES, 404, SL_GRPC_OK, "text/html");
	ck_got(1, S(""), SL_GRPC_UNIMPLEMENTED);
	ck_blocks("HEADERS 1 end");
	ck_sound();
}

TEST(the_type_of_a_reply_is_kept)
{
	static const struct {
		const char *type, *sent;
	} cases[] = {
		{"application/grpc", "application/grpc"},
		{"application/grpc+json", "application/grpc+json"},
		{"application/grpc; charset=utf-8", "application/grpc; charset=utf-8"},
		{"", "application/grpc"},
		{"text/html", "application/grpc"},
	};
	char want[100];

	for (size_t i = 0; i < SL_ARRAY_LEN(cases) * 2; i++) {
		begin_call();
		/* The last block is the head only of Trailers-Only. */
		if (i & 1)
			reply(NOTHING, 200, SL_GRPC_NOT_FOUND, cases[i / 2].type);
		else
			mock_head(mock_find(m, 0), &(struct sl_reply){.status = 200,
								      .content_type = sl_span_cstr(
									      cases[i / 2].type),
								      .body_len = SL_LEN_UNKNOWN});
		collect(1);
		snprintf(want, sizeof(want), "content-type: %s\n", cases[i / 2].sent);
		ck_assert_msg(strstr(got.fields, want), "%s: %s", cases[i / 2].type, got.fields);
		ck_sound();
	}
}
