/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of gRPC: they go on as the server sent them, however its bytes are cut. */
#include "agent_h2.h"

static void set_up(void)
{
	bed_start("h2c");
}

FIXTURE(set_up, bed_stop)

#define TYPE_OF(text, len) FIELD("\x0c", "content-type", len, text)
#define GRPC               "\x88" TYPE_OF("application/grpc", "\x10")
#define STATUS(digit)      FIELD("\x0b", "grpc-status", "\x01", digit)
#define WHY                FIELD("\x0c", "grpc-message", "\x04", "a%20")
#define META               FIELD("\x02", "id", "\x01", "7")
#define MESSAGE            "\0\0\0\0\5hello"

/* The frames of a reply, one behind the other. */
static struct {
	uint8_t bytes[4096];
	size_t len;
} wire;

static void put(uint8_t type, uint8_t flags, const char *payload, size_t len)
{
	uint8_t *at = wire.bytes + wire.len;

	ck_assert_uint_le(wire.len + FRAME_HEAD + len, sizeof(wire.bytes));
	memset(at, 0, FRAME_HEAD);
	sl_put_be16(at + 1, (uint16_t)len);
	at[3] = type;
	at[4] = flags;
	sl_put_be32(at + 5, 1);
	memcpy(at + FRAME_HEAD, payload, len);
	wire.len += FRAME_HEAD + len;
}
#define PUT(type, flags, lit) put((type), (flags), (lit), sizeof(lit) - 1)
#define PUT_HEAD(lit)         PUT(HEADERS, END_HEADERS, lit)
#define PUT_TAIL(lit)         PUT(HEADERS, END_HEADERS | END_STREAM, lit)

enum reply {
	SUCCESS,
	FAILS_BEHIND_A_MESSAGE,
	FAILS_BEHIND_A_HEAD,
	FAILS_BEHIND_TWO,
	TRAILERS_ONLY,
	NO_STATUS,
	PAGE,
	PAGE_WITHOUT_TYPE,
	PAGE_OF_SUCCESS,
	PAGE_WITH_STATUS,
	OTHER_CODEC,
	RESET_AT_ONCE,
	RESET_BEHIND_A_MESSAGE,
	RESET_WITHIN_A_MESSAGE,
	CUT_OFF,
	RESERVED_BITS,
	MALFORMED_BEHIND_A_MESSAGE,
	REPLIES
};

static const struct {
	int error, grpc_status;
	const char *heard, *message, *type;
	unsigned head_cnt, trailer_cnt;
} expected[REPLIES] = {
	[SUCCESS] = {0, 0, "hello", "", "", 1, 1},
	[FAILS_BEHIND_A_MESSAGE] = {0, 5, "hello", "a ", "", 1, 1},
	[FAILS_BEHIND_A_HEAD] = {0, 5, "", "a ", "", 1, 1},
	[FAILS_BEHIND_TWO] = {0, 5, "hellohello", "", "", 0, 0},
	[TRAILERS_ONLY] = {0, 5, "", "a ", "", 0, 1},
	[NO_STATUS] = {0, 2, "hello", "", "", 0, 0},
	[PAGE] = {0, 16, "", "the server answered HTTP 401 and no gRPC", "", 0, 1},
	[PAGE_WITHOUT_TYPE] = {0, 14, "", "the server answered HTTP 503", "", 0, 0},
	[PAGE_OF_SUCCESS] = {0, 2, "", "the server answered HTTP 200 and no gRPC", "", 0, 0},
	[PAGE_WITH_STATUS] = {0, 8, "", "a ", "", 0, 0},
	[OTHER_CODEC] = {0, 0, "hello", "", "application/grpc+json", 0, 0},
	[RESET_AT_ONCE] = {0, 1, "", "the server reset the call: CANCEL", "", 0, 0},
	[RESET_BEHIND_A_MESSAGE] = {0, 8, "hello", "the server reset the call: ENHANCE_YOUR_CALM",
				    "", 1, 0},
	[RESET_WITHIN_A_MESSAGE] = {0, 13, "", "the server reset the call: INTERNAL_ERROR", "", 0,
				    0},
	[CUT_OFF] = {SL_RPC_INTERNAL, 0, "hello", "", "", 0, 0},
	[RESERVED_BITS] = {SL_RPC_INTERNAL, 0, "", "", "", 1, 0},
	[MALFORMED_BEHIND_A_MESSAGE] = {SL_RPC_INTERNAL, 0, "hello", "", "", 1, 0},
};

static void put_reply(enum reply kind)
{
	wire.len = 0;
	switch (kind) {
	case SUCCESS:
		PUT_HEAD(GRPC META);
		PUT(DATA, 0, MESSAGE);
		PUT_TAIL(STATUS("0") META);
		break;
	case FAILS_BEHIND_A_MESSAGE:
		PUT_HEAD(GRPC META);
		PUT(DATA, 0, MESSAGE);
		PUT_TAIL(STATUS("5") WHY META);
		break;
	case FAILS_BEHIND_A_HEAD:
		PUT_HEAD(GRPC META);
		PUT_TAIL(STATUS("5") WHY META);
		break;
	case FAILS_BEHIND_TWO:
		PUT_HEAD(GRPC);
		PUT(DATA, 0, MESSAGE MESSAGE);
		PUT_TAIL(STATUS("5"));
		break;
	case TRAILERS_ONLY: PUT_TAIL(GRPC STATUS("5") WHY META); break;
	case NO_STATUS:
		PUT_HEAD(GRPC);
		PUT(DATA, END_STREAM, MESSAGE);
		break;
	case PAGE:
		PUT_HEAD(FIELD("\x07", ":status", "\x03", "401") TYPE_OF("text/html", "\x09") META);
		PUT(DATA, END_STREAM, "<html>sorry");
		break;
	case PAGE_WITHOUT_TYPE:
		PUT_HEAD(FIELD("\x07", ":status", "\x03", "503"));
		PUT(DATA, END_STREAM, "<ht");
		break;
	case PAGE_OF_SUCCESS:
		PUT_HEAD("\x88" TYPE_OF("text/html", "\x09"));
		PUT(DATA, 0, "<html>hello");
		PUT_TAIL(STATUS("0") WHY);
		break;
	case PAGE_WITH_STATUS:
		PUT_HEAD(FIELD("\x07", ":status", "\x03", "503") STATUS("8") WHY);
		PUT(DATA, END_STREAM, "<html>sorry");
		break;
	case OTHER_CODEC:
		PUT_HEAD("\x88" TYPE_OF("application/grpc+json", "\x15"));
		PUT(DATA, 0, MESSAGE);
		PUT_TAIL(STATUS("0"));
		break;
	case RESET_AT_ONCE: PUT(RST_STREAM, 0, "\0\0\0\x08"); break;
	case RESET_BEHIND_A_MESSAGE:
		PUT_HEAD(GRPC META);
		PUT(DATA, 0, MESSAGE);
		PUT(RST_STREAM, 0, "\0\0\0\x0b");
		break;
	case RESET_WITHIN_A_MESSAGE:
		PUT_HEAD(GRPC);
		PUT(DATA, 0, "\0\0\0\0\5hel");
		PUT(RST_STREAM, 0, "\0\0\0\2");
		break;
	case RESERVED_BITS:
		PUT_HEAD(GRPC META);
		PUT(DATA, 0, "\2\0\0\0\5hello");
		PUT_TAIL(STATUS("0"));
		break;
	case MALFORMED_BEHIND_A_MESSAGE:
		PUT_HEAD(GRPC META);
		PUT(DATA, 0, MESSAGE);
		PUT_TAIL(STATUS("0") FIELD("\x01", "X", "\x01", "1"));
		PUT(RST_STREAM, 0, "\0\0\0\x08");
		break;
	default:
		PUT_HEAD(GRPC);
		PUT(DATA, 0, MESSAGE "\0\0\0\0\5hel");
		PUT_TAIL(STATUS("0"));
	}
}

static void check(const struct bed_request *r, enum reply kind)
{
	ck_assert_int_eq(r->error, expected[kind].error);
	ck_assert_int_eq(r->grpc_status, expected[kind].grpc_status);
	ck_assert_str_eq(r->message, expected[kind].message);
	ck_assert_str_eq(r->type, expected[kind].type);
	ck_assert_uint_eq(r->len, strlen(expected[kind].heard));
	ck_assert_mem_eq(r->heard, expected[kind].heard, r->len);
	ck_assert_uint_eq(r->head_cnt, expected[kind].head_cnt);
	ck_assert_uint_eq(r->trailer_cnt, expected[kind].trailer_cnt);
}

/* In one read; a frame at a time; a byte at a time. In both kinds of routes. */
TEST_EACH(a_reply_does_not_depend_on_how_it_is_cut, REPLIES * 6)
{
	enum reply kind = (enum reply)(_i / 6);
	unsigned cut = (unsigned)_i / 2 % 3;
	struct bed_request *r = ask_as(SL_PROTO_GRPC, _i & 1);
	size_t n;

	put_reply(kind);
	for (size_t at = 0; at < wire.len; at += n) {
		n = cut == 0   ? wire.len
		    : cut == 1 ? FRAME_HEAD + (size_t)sl_get_be16(wire.bytes + at + 1)
			       : 1;
		bed_server_say(wire.bytes + at, n);
		bed_turns(1);
	}
	bed_until(r->ends);
	check(r, kind);
	bed_request_free(r);
}

/* gRPC's PROTOCOL-HTTP2.md, "Errors". REFUSED_STREAM is tried again until the tries are used up. */
static const struct {
	uint8_t code, status;
} resets[] = {{0, 13}, {1, 13}, {2, 13},  {3, 13}, {4, 13}, {5, 13},  {6, 13},
	      {8, 1},  {9, 13}, {10, 13}, {11, 8}, {12, 7}, {13, 13}, {14, 2}};

TEST_EACH(a_reset_keeps_its_meaning, SL_ARRAY_LEN(resets) * 2)
{
	const uint8_t code[4] = {0, 0, 0, resets[_i / 2].code};
	struct bed_request *r = ask_as(SL_PROTO_GRPC, _i & 1);

	r->view->idempotent = true;
	frame(RST_STREAM, 0, 1, code, sizeof(code));
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_int_eq(r->grpc_status, resets[_i / 2].status);
	bed_request_free(r);
}

/* Its server may see the deadline first. */
TEST(a_cancel_at_the_deadline_is_the_deadline)
{
	struct bed_request *r = ask_as(SL_PROTO_GRPC, false);
	struct origin_call *call = r->view->own;

	call->deadline_ns = 1;
	frame(RST_STREAM, 0, 1, "\0\0\0\x08", 4);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_EXPIRED);
	bed_request_free(r);
}
