/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "front/grpc/grpc.h"
#include "suite.h"

#define S(lit) sl_span_str(lit)

TEST(a_timeout_has_a_unit_and_at_most_eight_digits)
{
	static const struct {
		const char *text;
		uint64_t ns; /* 0: refused */
	} cases[] = {
		{"1H", 3600000000000},
		{"2M", 120000000000},
		{"3S", 3000000000},
		{"100m", 100000000},
		{"5u", 5000},
		{"7n", 7},
		{"99999999n", 99999999},
		{"99999999H", UINT64_MAX / 2},
		{"0n", 1},
		{"999999999n", 0},
		{"", 0},
		{"S", 0},
		{"1", 0},
		{"1s", 0},
		{"-1S", 0},
		{" 1S", 0},
		{"1SS", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns = 0;
		bool ok = sl_grpc_timeout(sl_span_cstr(cases[i].text), &ns);

		ck_assert_msg(ok == (cases[i].ns != 0), "%s", cases[i].text);
		if (ok)
			ck_assert_uint_eq(ns, cases[i].ns);
	}
}

TEST(base64_is_strict_about_all_but_its_padding)
{
	static const struct {
		const char *text, *bytes; /* bytes NULL: refused */
	} cases[] = {
		{"", ""},
		{"Zg==", "f"},
		{"Zg", "f"},
		{"Zm8=", "fo"},
		{"Zm8", "fo"},
		{"Zm9v", "foo"},
		{"Zm9vYg", "foob"},
		{"Zm9vYmFy", "foobar"},
		{"+/+/", "\xfb\xff\xbf"},
		{"Z", NULL},
		{"Zg=", NULL},
		{"Zm9v=", NULL},
		{"Zm-v", NULL},
		{"Zm 9v", NULL},
		{"====", NULL},
		{"AZaz", "\x01\x96\xb3"},
		{"0990", "\xd3\xdf\x74"},
		{"zzzz", "\xcf\x3c\xf3"},
	};
	uint8_t raw[64];
	char text[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = sl_base64_decode(raw, sl_span_cstr(cases[i].text)), len;

		if (!cases[i].bytes) {
			ck_assert_msg(n == SIZE_MAX, "%s", cases[i].text);
			continue;
		}
		ck_assert_msg(n == strlen(cases[i].bytes), "%s", cases[i].text);
		ck_assert_int_eq(memcmp(raw, cases[i].bytes, n), 0);
		len = sl_base64_encode(text, sl_span_of(raw, n));
		ck_assert_uint_eq(len, (n * 4 + 2) / 3);
		ck_assert_int_eq(memcmp(text, cases[i].text, len), 0);
	}
}

TEST(a_message_is_percent_encoded_in_whole_characters)
{
	char buf[16];

	ck_assert_uint_eq(sl_grpc_percent_encode(buf, sizeof(buf), S("a% \n~\xc3")), 12);
	ck_assert_int_eq(memcmp(buf, "a%25 %0A~%C3", 12), 0);
	/* An escape that does not fit is left out whole. */
	ck_assert_uint_eq(sl_grpc_percent_encode(buf, 3, S("ab%")), 2);
}

/* Three messages in pieces of every size. */
TEST(messages_are_found_however_bytes_are_cut)
{
	static const uint8_t in[] = "\0\0\0\0\3abc"
				    "\1\0\0\0\0"
				    "\0\0\0\0\1z";
	size_t len = sizeof(in) - 1;

	for (size_t step = 1; step <= len; step++) {
		struct sl_grpc_reader r = {0};
		char got[64];
		size_t n = 0;

		for (size_t at = 0; at < len; at += step) {
			struct sl_span piece = sl_span_first(sl_span_of(in + at, len - at), step);
			struct sl_span data;
			enum sl_grpc_event e;

			while ((e = sl_grpc_read(&r, &piece, &data)) != SL_GRPC_NEED) {
				if (e == SL_GRPC_BEGIN)
					got[n++] = (char)('0' + r.prefix[0]);
				else if (e == SL_GRPC_FINISH)
					got[n++] = '.';
				else
					for (size_t i = 0; i < data.len; i++)
						got[n++] = (char)data.ptr[i];
			}
			ck_assert_uint_eq(piece.len, 0);
		}
		got[n] = 0;
		ck_assert_str_eq(got, "0abc.1.0z.");
		ck_assert_uint_eq(r.messages, 3);
		ck_assert(!r.in_message && !r.have);
	}
}

TEST(content_types_and_reserved_names_are_known)
{
	ck_assert(sl_grpc_content_type(S("application/grpc")));
	ck_assert(sl_grpc_content_type(S("application/grpc+proto")));
	ck_assert(sl_grpc_content_type(S("Application/gRPC;x=y")));
	ck_assert(!sl_grpc_content_type(S("application/grpc-web")));
	ck_assert(!sl_grpc_content_type(S("application/grp")));
	ck_assert(sl_grpc_is_reserved(S("grpc-status")) && sl_grpc_is_reserved(S("te")));
	ck_assert(sl_grpc_is_reserved(S(":path")) && sl_grpc_is_reserved(S("content-type")));
	ck_assert(!sl_grpc_is_reserved(S("grpc-status-details-bin")));
	ck_assert(!sl_grpc_is_reserved(S("user-agent")));
	ck_assert(sl_grpc_is_reserved(S("grpc-encodings")) &&
		  sl_grpc_is_reserved(S("grpc-accept")));
	ck_assert(!sl_grpc_is_reserved(S("grpc-encoding")) &&
		  !sl_grpc_is_reserved(S("grpc-accept-encoding")));
	ck_assert(sl_grpc_is_binary(S("x-bin")) && !sl_grpc_is_binary(S("x-bi")));
	ck_assert_int_eq(sl_grpc_from_http(503), SL_GRPC_UNAVAILABLE);
	ck_assert_int_eq(sl_grpc_from_http(404), SL_GRPC_UNIMPLEMENTED);
	ck_assert_int_eq(sl_grpc_from_http(400), SL_GRPC_INTERNAL);
	ck_assert_int_eq(sl_grpc_from_http(500), SL_GRPC_UNKNOWN);
}
