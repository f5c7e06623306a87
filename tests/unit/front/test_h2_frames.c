/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9113 frame by frame: what a client sends, and what it is told. */
#include "h2_talk.h"
#include "suite.h"

/* The reply to a whole request is HEADERS and two bytes. */
#define OK(id) "HEADERS " #id "; DATA " #id " 2 end"
/* A malformed request has an answer of so many bytes before its stream is reset: 8.1.1. */
#define BAD(bytes) "HEADERS 1; DATA 1 " #bytes " end; RST 1 1"

static const struct {
	const char *name; /* "~": depends on whether the reply was out before the last frame came */
	const char *in, *out;
} cases[] = {
	/* 3.4, 4.1 */
	{"preface and settings", "", ""},
	{"a request", "HEADERS 5 1 @get", OK(1)},
	{"no preface", "-SETTINGS 0 0", "GOAWAY 1"},
	{"another protocol", "-UNKNOWN 50 204854 len=5390368 5450", "GOAWAY 1"},
	{"unknown frame type is ignored", "UNKNOWN 0 0 01; HEADERS 5 1 @get", OK(1)},
	{"unknown frame on a stream", "UNKNOWN ff 1 01; HEADERS 5 1 @get", OK(1)},
	{"reserved bit of the stream is ignored", "HEADERS 5 80000001 @get", OK(1)},
	{"undefined flags are ignored", "HEADERS d5 1 @get", OK(1)},
	/* 4.2 */
	{"DATA above the frame size", "HEADERS 4 1 @post; DATA 0 1 16385*61", "GOAWAY 6"},
	{"SETTINGS above the frame size", "SETTINGS 0 0 16386*00", "GOAWAY 6"},
	{"HEADERS above the frame size", "HEADERS 5 1 @get 16380*00", "GOAWAY 6"},
	{"PING of 16385", "PING 0 0 16385*00", "GOAWAY 6"},
	/* 4.3 */
	{"header block cannot be decoded", "HEADERS 5 1 ff ff ff ff ff ff ff", "GOAWAY 9"},
	{"index 0", "HEADERS 5 1 80", "GOAWAY 9"},
	{"index beyond the table", "HEADERS 5 1 @get fe", "GOAWAY 9"},
	{"Huffman code with EOS", "HEADERS 5 1 @get 0084ffffffff8161", "GOAWAY 9"},
	{"table size above the limit", "HEADERS 5 1 3fe2ff01 @get", "GOAWAY 9"},
	{"table size update behind a field", "HEADERS 5 1 82 20 @get", "GOAWAY 9"},
	{"string longer than the block", "HEADERS 5 1 @get 4005 6162", "GOAWAY 9"},
	{"other frame inside a header block", "HEADERS 1 1 @get; DATA 0 1 61", "GOAWAY 1"},
	{"PING inside a header block", "HEADERS 1 1 @get; PING 0 0 8*00", "GOAWAY 1"},
	{"CONTINUATION of another stream", "HEADERS 1 1 @get; CONTINUATION 4 3 00", "GOAWAY 1"},
	{"header block in three frames",
	 "HEADERS 1 1 8286; CONTINUATION 0 1 84; CONTINUATION 4 1 410161", OK(1)},
	/* 5.1 */
	{"DATA on an idle stream", "DATA 0 1 61", "GOAWAY 1"},
	{"RST_STREAM on an idle stream", "RST 0 1 00000008", "GOAWAY 1"},
	{"WINDOW_UPDATE on an idle stream", "WINDOW 0 1 00000001", "GOAWAY 1"},
	{"CONTINUATION on an idle stream", "CONTINUATION 4 1 @get", "GOAWAY 1"},
	{"CONTINUATION behind END_HEADERS", "HEADERS 4 1 @post; CONTINUATION 4 1 @get", "GOAWAY 1"},
	{"PRIORITY on an idle stream", "PRIORITY 0 5 0000000010; HEADERS 5 7 @get", OK(7)},
	{"stream of the server", "HEADERS 5 2 @get", "GOAWAY 1"},
	{"stream 0", "HEADERS 5 0 @get", "GOAWAY 1"},
	{"~stream numbers that fall", "HEADERS 5 5 @get; HEADERS 5 3 @get", "GOAWAY 1"},
	{"~DATA on a stream that was jumped over", "HEADERS 5 5 @get; DATA 0 3 61", "GOAWAY 5"},
	{"~DATA behind END_STREAM", "HEADERS 5 1 @post; DATA 1 1 61", "GOAWAY 5"},
	{"WINDOW_UPDATE on a closed stream", "HEADERS 5 1 @get; WINDOW 0 1 00000001", OK(1)},
	{"~RST_STREAM on a closed stream", "HEADERS 5 1 @get; RST 0 1 00000008", ""},
	{"PRIORITY on a closed stream", "HEADERS 5 1 @get; PRIORITY 0 1 0000000010", OK(1)},
	{"HEADERS that depend on themselves", "HEADERS 25 1 0000000110 @get", "GOAWAY 1"},
	{"PRIORITY that depends on itself", "HEADERS 4 1 @post; PRIORITY 0 1 0000000110",
	 "GOAWAY 1"},
	{"PRIORITY that depends on itself, exclusively", "PRIORITY 0 3 8000000310", "GOAWAY 1"},
	{"PRIORITY between pieces of a body",
	 "HEADERS 4 1 @post; DATA 0 1 5*01; PRIORITY 0 1 0000000310; DATA 1 1 61", OK(1)},
	/* 6.1 */
	{"DATA on stream 0", "DATA 0 0 61", "GOAWAY 1"},
	{"padded DATA", "HEADERS 4 1 @post; DATA 9 1 026161 0000", OK(1)},
	{"padding as long as the frame", "HEADERS 4 1 @post; DATA 9 1 04616161", "GOAWAY 1"},
	{"padding flag without a byte", "HEADERS 4 1 @post; DATA 9 1", "GOAWAY 1"},
	{"empty DATA with END_STREAM", "HEADERS 4 1 @post; DATA 1 1", OK(1)},
	/* 6.2 */
	{"padded HEADERS", "HEADERS d 1 02 @get 0000", OK(1)},
	{"HEADERS with too much padding", "HEADERS d 1 50 @get", "GOAWAY 1"},
	{"HEADERS with priority", "HEADERS 25 1 0000000010 @get", OK(1)},
	{"HEADERS with priority that is cut", "HEADERS 25 1 000000", "GOAWAY 6"},
	{"trailers", "HEADERS 4 1 @post; DATA 0 1 61; HEADERS 5 1 40016101 62", OK(1)},
	{"trailers without END_STREAM", "HEADERS 4 1 @post; HEADERS 4 1 40016101 62", "RST 1 1"},
	{"pseudo-header in trailers", "HEADERS 4 1 @post; HEADERS 5 1 82", "RST 1 1"},
	/* 6.3 to 6.10 */
	{"PRIORITY on stream 0", "PRIORITY 0 0 0000000010", "GOAWAY 1"},
	{"PRIORITY of 4 bytes", "HEADERS 4 1 @post; PRIORITY 0 1 00000000", "GOAWAY 6"},
	{"RST_STREAM on stream 0", "RST 0 0 00000008", "GOAWAY 1"},
	{"RST_STREAM of 3 bytes", "HEADERS 4 1 @post; RST 0 1 000000", "GOAWAY 6"},
	{"SETTINGS with ACK and payload", "SETTINGS 1 0 000100000000", "GOAWAY 6"},
	{"SETTINGS on a stream", "SETTINGS 0 1", "GOAWAY 1"},
	{"SETTINGS of 5 bytes", "SETTINGS 0 0 0001000000", "GOAWAY 6"},
	{"ENABLE_PUSH of 2", "SETTINGS 0 0 000200000002", "GOAWAY 1"},
	{"INITIAL_WINDOW_SIZE of 2^31", "SETTINGS 0 0 000480000000", "GOAWAY 3"},
	{"MAX_FRAME_SIZE of 16383", "SETTINGS 0 0 000500003fff", "GOAWAY 1"},
	{"MAX_FRAME_SIZE of 2^24", "SETTINGS 0 0 000501000000", "GOAWAY 1"},
	{"unknown setting", "SETTINGS 0 0 0fff00000000; HEADERS 5 1 @get", OK(1)},
	{"PUSH_PROMISE from a client", "HEADERS 4 1 @post; PUSH_PROMISE 4 1 00000002 @get",
	 "GOAWAY 1"},
	{"PING on a stream", "PING 0 1 8*00", "GOAWAY 1"},
	{"PING of 7 bytes", "PING 0 0 7*00", "GOAWAY 6"},
	{"GOAWAY on a stream", "GOAWAY 0 1 0000000000000000", "GOAWAY 1"},
	{"GOAWAY of 7 bytes", "GOAWAY 0 0 7*00", "GOAWAY 6"},
	{"WINDOW_UPDATE of 0", "WINDOW 0 0 00000000", "GOAWAY 1"},
	{"WINDOW_UPDATE of 0 on a stream", "HEADERS 4 1 @post; WINDOW 0 1 00000000", "GOAWAY 1"},
	{"WINDOW_UPDATE of 3 bytes", "WINDOW 0 0 000001", "GOAWAY 6"},
	{"connection window overflows", "WINDOW 0 0 7fffffff", "GOAWAY 3"},
	{"stream window overflows", "HEADERS 4 1 @post; WINDOW 0 1 7fffffff", "RST 1 3"},
	{"SETTINGS make a window overflow",
	 "HEADERS 4 1 @post; WINDOW 0 1 7fff0000; SETTINGS 0 0 00047fffffff", "RST 1 3"},
	/* 8.1 to 8.3 */
	{"upper case field name", "HEADERS 5 1 @get 40014101 62", BAD(38)},
	{"field name with a colon", "HEADERS 5 1 @get 4002613a0162", BAD(38)},
	{"field value with LF", "HEADERS 5 1 @get 4001610161 4001620361 0a61", BAD(39)},
	{"blank in front of a field value", "HEADERS 5 1 @get 40016103 206162", BAD(39)},
	{"tab behind a field value", "HEADERS 5 1 @get 40016103 616209", BAD(39)},
	{"~a field value of blanks", "HEADERS 4 1 @post 400161022020; DATA 1 1 61", BAD(39)},
	{"blanks inside a field value", "HEADERS 5 1 @get 4001610361 2062", OK(1)},
	{"blank around a trailer", "HEADERS 4 1 @post; HEADERS 5 1 4001610220 62", "RST 1 1"},
	{"blank in front of a path", "HEADERS 5 1 8286 0402202f 410161", BAD(41)},
	{"connection field", "HEADERS 5 1 @get 400a636f6e6e656374696f6e0161", BAD(43)},
	{"te other than trailers", "HEADERS 5 1 @get 400274650461626364", BAD(40)},
	{"transfer-encoding", "HEADERS 5 1 @get 0f2a0161", BAD(43)},
	{"pseudo-header behind a field", "HEADERS 5 1 82864001610162 84410161", BAD(45)},
	{"unknown pseudo-header", "HEADERS 5 1 @get 40023a610162", BAD(39)},
	{"response pseudo-header", "HEADERS 5 1 @get 88", BAD(39)},
	{"no :method", "HEADERS 5 1 8684410161", BAD(42)},
	{"no :scheme", "HEADERS 5 1 8284410161", BAD(42)},
	{"no :path", "HEADERS 5 1 8286410161", BAD(42)},
	{"empty :path", "HEADERS 5 1 8286040041 0161", BAD(33)},
	{":method twice", "HEADERS 5 1 8282868441 0161", BAD(32)},
	{"content-length met", "HEADERS 4 1 @post @cl5; DATA 1 1 5*61", OK(1)},
	{"content-length not reached", "HEADERS 4 1 @post @cl5; DATA 1 1 4*61", "RST 1 1"},
	{"content-length exceeded", "HEADERS 4 1 @post @cl5; DATA 1 1 6*61", "RST 1 1"},
	{"content-length without body", "HEADERS 5 1 @post @cl5", BAD(47)},
	{"content-length that is no number", "HEADERS 5 1 @post 0f0d0161", BAD(42)},
	{"authority and host disagree", "HEADERS 5 1 @get 660162", "HEADERS 1; DATA 1 40 end"},
	{"authority that is no host", "HEADERS 5 1 828684 4103612062", "HEADERS 1; DATA 1 38 end"},
	{"authority with userinfo", "HEADERS 5 1 828684 4103754061", "HEADERS 1; DATA 1 38 end"},
	{"authority of a large upload",
	 "HEADERS 4 1 838684 4103612062; DATA 0 1 9000*61; DATA 1 1 61",
	 "HEADERS 1; DATA 1 38 end"},
	{"empty authority", "HEADERS 5 1 828684 4100", BAD(34)},
	{"authority twice", "HEADERS 5 1 828684 410161 410161", BAD(35)},
	{"no authority and no host", "HEADERS 5 1 828684", BAD(43)},
	{"host without authority", "HEADERS 5 1 828684 660161", OK(1)},
	{"host twice", "HEADERS 5 1 828684 660161 660161", BAD(29)},
	{"empty host", "HEADERS 5 1 828684 6600", BAD(28)},
	{"GET of *", "HEADERS 5 1 8286 04012a 410161", BAD(33)},
	{"OPTIONS of *", "HEADERS 5 1 02074f5054494f4e53 86 04012a 410161", OK(1)},
	{"path that is a URL", "HEADERS 5 1 8286 040a687474703a2f2f612f62 410161", BAD(33)},
	{"scheme that begins with a digit", "HEADERS 5 1 82 060131 84 410161", BAD(35)},
	{"scheme twice", "HEADERS 5 1 @get 86", BAD(32)},
	{"method that is no token", "HEADERS 5 1 0203412042 8684 410161", BAD(35)},
	{"upper case pseudo-header", "HEADERS 5 1 8286 00053a50415448012f 410161", BAD(39)},
	{"NUL in a path", "HEADERS 5 1 8286 04022f00 410161", BAD(41)},
	{"empty field name", "HEADERS 5 1 @get 00000161", BAD(38)},
	{"keep-alive", "HEADERS 5 1 @get 000a6b6565702d616c6976650161", BAD(43)},
	{"proxy-connection", "HEADERS 5 1 @get 001070726f78792d636f6e6e656374696f6e0161", BAD(43)},
	{"upgrade", "HEADERS 5 1 @get 0007757067726164650161", BAD(43)},
	{"te: trailers", "HEADERS 5 1 @get 0002746508547261696c657273", OK(1)},
	{"content-length twice", "HEADERS 5 1 @post @cl5 @cl5", BAD(39)},
	{"content-length exceeded by a second frame",
	 "HEADERS 4 1 @post @cl5; DATA 0 1 3*61; DATA 1 1 3*61", "RST 1 1"},
	{"content-length not reached before trailers",
	 "HEADERS 4 1 @post @cl5; DATA 0 1 61; HEADERS 5 1 40016101 62", "RST 1 1"},
	{"CONNECT with a path", "HEADERS 5 1 0207434f4e4e454354 84 410161", BAD(47)},
	{"CONNECT without authority", "HEADERS 5 1 0207434f4e4e454354 660161", BAD(44)},
	{"connection field in trailers",
	 "HEADERS 4 1 @post; HEADERS 5 1 400a636f6e6e656374696f6e0161", "RST 1 1"},
	{"upper case in trailers", "HEADERS 4 1 @post; HEADERS 5 1 40014101 62", "RST 1 1"},
	{"LF in trailers", "HEADERS 4 1 @post; HEADERS 5 1 40016101 0a", "RST 1 1"},
	{"HEAD that is malformed", "HEADERS 5 1 020448454144 868441 0161 40014101 62",
	 "HEADERS 1 end; RST 1 1"},
	{"HEAD has no body", "HEADERS 5 1 @head", "HEADERS 1 end"},
	/* limits of the gateway itself */
	{"nine CONTINUATION frames",
	 "HEADERS 1 1 @get; CONTINUATION 0 1; CONTINUATION 0 1; CONTINUATION 0 1; CONTINUATION 0 1;"
	 "CONTINUATION 0 1; CONTINUATION 0 1; CONTINUATION 0 1; CONTINUATION 0 1; CONTINUATION 0 1",
	 "GOAWAY b"},
	{"SETTINGS of 33 entries", "SETTINGS 0 0 198*00", "GOAWAY b"},
	/* gRPC */
	{"a message", "HEADERS 4 1 @grpc; DATA 1 1 0000000001 61",
	 "HEADERS 1; DATA 1 7; HEADERS 1 end"},
	{"blanks around a message's trailer",
	 "HEADERS 4 1 @grpc; DATA 0 1 0000000001 61; HEADERS 5 1 4001610220 62",
	 "HEADERS 1; DATA 1 7; HEADERS 1 end"},
	{"a message in three frames",
	 "HEADERS 4 1 @grpc; DATA 0 1 0000; DATA 0 1 000002 61; DATA 1 1 62",
	 "HEADERS 1; DATA 1 7; HEADERS 1 end"},
	{"blanks around metadata of a call",
	 "HEADERS 4 1 @grpc 4001610220 62; DATA 1 1 0000000001 61",
	 "HEADERS 1; DATA 1 7; HEADERS 1 end"},
	{"upper case metadata of a call", "HEADERS 5 1 @grpc 40014101 62",
	 "HEADERS 1 end; RST 1 1"},
	{"content-length of a call not reached", "HEADERS 4 1 @grpc @cl5; DATA 1 1 00000000",
	 "RST 1 1"},
	{"no message", "HEADERS 5 1 @grpc", "HEADERS 1 end"},
	{"no message, with DATA", "HEADERS 4 1 @grpc; DATA 1 1", "HEADERS 1 end"},
	{"half a message", "HEADERS 4 1 @grpc; DATA 1 1 0000000002 61", "HEADERS 1 end"},
	{"half a prefix", "HEADERS 4 1 @grpc; DATA 1 1 000000", "HEADERS 1 end"},
	{"two messages", "HEADERS 4 1 @grpc; DATA 1 1 0000000000 0000000000", "HEADERS 1 end"},
	{"compressed", "HEADERS 4 1 @grpc; DATA 1 1 0100000001 61",
	 "HEADERS 1; DATA 1 7; HEADERS 1 end"},
	{"reserved flag", "HEADERS 4 1 @grpc; DATA 0 1 0200000001 61", "HEADERS 1 end"},
	{"message above the limit", "HEADERS 4 1 @grpc; DATA 0 1 00ffffffff 61", "HEADERS 1 end"},
};

/* RFC 9113 5.1, 5.1.1: what comes for a stream that is over, and was answered or reset. */
static const struct {
	const char *name, *first, *then, *out;
} closed[] = {
	{"DATA behind END_STREAM", "HEADERS 5 1 @get", "DATA 0 1 61", "GOAWAY 5"},
	{"HEADERS behind END_STREAM", "HEADERS 5 1 @get", "HEADERS 5 1 @get", "GOAWAY 5"},
	{"CONTINUATION behind END_STREAM", "HEADERS 5 1 @get", "CONTINUATION 4 1 82", "GOAWAY 1"},
	{"DATA behind END_STREAM in DATA", "HEADERS 4 1 @post; DATA 1 1 61", "DATA 0 1 61",
	 "GOAWAY 5"},
	{"DATA behind trailers", "HEADERS 4 1 @post; HEADERS 5 1 40016101 62", "DATA 1 1 61",
	 "GOAWAY 5"},
	{"DATA behind RST_STREAM", "HEADERS 4 1 @post; RST 0 1 00000008", "DATA 0 1 61",
	 "GOAWAY 5"},
	{"HEADERS behind RST_STREAM", "HEADERS 4 1 @post; RST 0 1 00000008", "HEADERS 5 1 @get",
	 "GOAWAY 5"},
	{"CONTINUATION behind RST_STREAM", "HEADERS 4 1 @post; RST 0 1 00000008",
	 "CONTINUATION 4 1 82", "GOAWAY 1"},
	{"WINDOW_UPDATE behind END_STREAM", "HEADERS 5 1 @get", "WINDOW 0 1 00000001", ""},
	{"RST_STREAM behind END_STREAM", "HEADERS 5 1 @get", "RST 0 1 00000008", ""},
	{"PRIORITY behind END_STREAM", "HEADERS 5 1 @get", "PRIORITY 0 1 0000000010", ""},
	{"RST_STREAM twice", "HEADERS 4 1 @post; RST 0 1 00000008", "RST 0 1 00000008", ""},
	{"HEADERS with a lower number", "HEADERS 5 5 @get", "HEADERS 5 3 @get", "GOAWAY 1"},
	{"the highest number, then a lower one", "HEADERS 5 7fffffff @get", "HEADERS 5 3 @get", ""},
	{"... of which it is known", "HEADERS 5 7fffffff @get", "HEADERS 5 7fffff81 @get",
	 "GOAWAY 1"},
	{"... of which nothing is known", "HEADERS 5 7fffffff @get", "HEADERS 5 7fffff7f @get", ""},
	/* The peer does not know of our RST_STREAM yet: RFC 9113 5.1, "closed". */
	{"DATA behind our reset", "HEADERS 4 1 @post; WINDOW 0 1 7fffffff", "DATA 0 1 61", ""},
	{"trailers behind our reset", "HEADERS 4 1 @post; WINDOW 0 1 7fffffff",
	 "HEADERS 5 1 40016101 62", ""},
	{"more behind these", "HEADERS 4 1 @post; WINDOW 0 1 7fffffff; DATA 1 1", "DATA 0 1 61",
	 "GOAWAY 5"},
};

FIXTURE(setup_h2, teardown_h2)

TEST_EACH(each_frame_on_a_closed_stream_has_its_answer, sizeof(closed) / sizeof(closed[0]))
{
	char got[1024], text[256];

	snprintf(text, sizeof(text), "-%s", closed[_i].then);
	mock_open(m);
	talk(closed[_i].first);
	m->out_len = 0;
	talk(text);
	summarize((uint8_t *)m->out, m->out_len, got, sizeof(got));
	ck_assert_msg(!strcmp(got, closed[_i].out), "%s: \"%s\", expected \"%s\"", closed[_i].name,
		      got, closed[_i].out);
	ck_assert_uint_eq(m->closed, strstr(got, "GOAWAY") != NULL);
	ck_sound();
}

static void run_case(int i, size_t step, char *got, size_t cap)
{
	struct bytes b = frames_of(cases[i].in);

	mock_open(m);
	for (size_t at = 0; at < b.len; at += step)
		mock_input(m, b.p + at, b.len - at < step ? b.len - at : step);
	free(b.p);
	summarize((uint8_t *)m->out, m->out_len, got, cap);
	if (strstr(got, "GOAWAY"))
		ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

TEST_EACH(each_frame_has_its_answer_however_it_is_cut, sizeof(cases) / sizeof(cases[0]))
{
	char got[1024], again[1024];

	run_case(_i, TALK_MAX, got, sizeof(got));
	ck_assert_msg(!strcmp(got, cases[_i].out), "%s: \"%s\", expected \"%s\"", cases[_i].name,
		      got, cases[_i].out);
	if (*cases[_i].name == '~')
		return;
	run_case(_i, 1, again, sizeof(again));
	ck_assert_msg(!strcmp(got, again), "%s: byte by byte \"%s\", else \"%s\"", cases[_i].name,
		      again, got);
}
