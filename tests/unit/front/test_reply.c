/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of replies: of backends, and of the gateway in each protocol. */

#include "base/check.h"
#include "front/datagram/datagram.h"
#include "front/grpc/grpc.h"
#include "wire/rpc_wire.h"
#include "suite.h"

enum { BOTH = SL_REPLY_HEAD | SL_REPLY_TAIL };

static size_t put(uint8_t *at, uint16_t tag, const char *value, size_t len)
{
	sl_put_le16(at, tag);
	sl_put_le16(at + 2, (uint16_t)len);
	memcpy(at + 4, value, len);
	return 4 + len;
}

TEST(reply_metadata_is_decoded)
{
	uint8_t b[256];
	size_t n = put(b, SL_META_STATUS, "\xc9\x00", 2);
	struct sl_reply_parts out;

	n += put(b + n, 999, "unknown tags are skipped", 24);
	n += put(b + n, SL_META_CONTENT_TYPE, "text/html", 9);
	n += put(b + n, SL_META_HEADER, "\x03x-avalue", 9);
	ck_assert(sl_reply_decode(sl_span_of(b, n), BOTH, &out));
	ck_assert_uint_eq(out.reply.status, 201);
	ck_assert_uint_eq(out.reply.header_cnt, 1);
	ck_assert(sl_span_eq(out.headers[0].name, sl_span_str("x-a")));
	ck_assert(sl_span_eq(out.headers[0].value, sl_span_str("value")));
	for (size_t cut = 1; cut < 6; cut++) /* a cut block is no block */
		ck_assert(!sl_reply_decode(sl_span_of(b, n - cut), BOTH, &out));
}

TEST(reply_metadata_cannot_split_a_response)
{
	static const struct {
		uint16_t tag;
		const char *value;
		size_t len;
	} bad[] = {
		{SL_META_CONTENT_TYPE, "a\r\nb", 4}, {SL_META_HEADER, "\x01xa\nb", 5},
		{SL_META_HEADER, "\x02x:v", 4},      {SL_META_HEADER, "\x02x v", 4},
		{SL_META_HEADER, "\x00v", 2},        {SL_META_HEADER, "\x09x", 2},
		{SL_META_HEADER, "\x01Xv", 3},       {SL_META_STATUS, "\x63\x00", 2},
		{SL_META_STATUS, "\x58\x02", 2},     {SL_META_STATUS, "\xc8", 1},
		{SL_META_TRAILER, "\x01xa\0b", 5},
	};
	struct sl_reply_parts out;
	uint8_t b[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t n = put(b, bad[i].tag, bad[i].value, bad[i].len);

		ck_assert_msg(!sl_reply_decode(sl_span_of(b, n), BOTH, &out), "case %zu", i);
	}
}

TEST(reply_metadata_with_too_many_headers_is_refused)
{
	static uint8_t b[(SL_RPC_MAX_FIELDS + 1) * 7];
	struct sl_reply_parts out;
	size_t n = 0;

	for (int i = 0; i <= SL_RPC_MAX_FIELDS; i++)
		n += put(b + n, SL_META_HEADER, "\x01xv", 3);
	ck_assert(sl_reply_decode(sl_span_of(b, n - 7), BOTH, &out));
	ck_assert(!sl_reply_decode(sl_span_of(b, n), BOTH, &out));
}

/* Each block of a reply in parts counts for its own side only. */
TEST(a_side_does_not_see_the_other)
{
	uint8_t b[256];
	size_t n = put(b, SL_META_STATUS, "\xc9\x00", 2);
	struct sl_reply_parts out;

	n += put(b + n, SL_META_HEADER, "\x01xv", 3);
	n += put(b + n, SL_META_GRPC_STATUS, "\x05\x00", 2);
	n += put(b + n, SL_META_TRAILER, "\x01tv", 3);
	ck_assert(sl_reply_decode(sl_span_of(b, n), SL_REPLY_HEAD, &out));
	ck_assert_uint_eq(out.reply.status, 201);
	ck_assert_uint_eq(out.reply.header_cnt, 1);
	ck_assert_uint_eq(out.reply.grpc_status, 0);
	ck_assert_uint_eq(out.reply.trailer_cnt, 0);
	ck_assert(sl_reply_decode(sl_span_of(b, n), SL_REPLY_TAIL, &out));
	ck_assert_uint_eq(out.reply.status, 200);
	ck_assert_uint_eq(out.reply.header_cnt, 0);
	ck_assert_uint_eq(out.reply.grpc_status, 5);
	ck_assert_uint_eq(out.reply.trailer_cnt, 1);
}

static const struct {
	enum sl_outcome why;
	enum sl_datagram_status status;
} cases[] = {
	{SL_OUTCOME_FIXED, SL_DATAGRAM_OK},
	{SL_OUTCOME_NO_ROUTE, SL_DATAGRAM_NO_SERVICE},
	{SL_OUTCOME_TOO_LARGE, SL_DATAGRAM_TOO_LARGE},
	{SL_OUTCOME_SHED, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_QUEUE_FULL, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_FAIR_SHARE, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_NO_MEMORY, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_NO_BACKEND, SL_DATAGRAM_UNAVAILABLE},
	{SL_OUTCOME_BACKEND_LOST, SL_DATAGRAM_UNAVAILABLE},
	{SL_OUTCOME_EXPIRED, SL_DATAGRAM_EXPIRED},
	{SL_OUTCOME_REQUEST_TIMEOUT, SL_DATAGRAM_EXPIRED},
	{SL_OUTCOME_BACKEND_ERROR, SL_DATAGRAM_INTERNAL},
};

TEST_EACH(each_outcome_has_its_status, SL_ARRAY_LEN(cases))
{
	ck_assert_msg(sl_datagram_status_of(cases[_i].why) == cases[_i].status, "outcome %d",
		      cases[_i].why);
}

/* One that is added must not pass for success, in any protocol. */
TEST(only_answers_are_successes)
{
	for (unsigned o = 0; o < SL_OUTCOME_CNT; o++) {
		bool answered =
			o == SL_OUTCOME_OK || o == SL_OUTCOME_FIXED || o == SL_OUTCOME_PREFLIGHT;
		struct sl_reply_parts own;

		sl_reply_own(o, &own);
		ck_assert_int_eq(sl_datagram_status_of(o) == SL_DATAGRAM_OK, answered);
		ck_assert_int_eq(own.reply.status < 400, answered);
		ck_assert_int_eq(own.reply.grpc_status == 0, o == SL_OUTCOME_OK);
		ck_assert_uint_gt(sl_outcome_text(o).len, 0);
	}
}
