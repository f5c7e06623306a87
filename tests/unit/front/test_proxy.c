/* SPDX-License-Identifier: Apache-2.0 */
/* PROXY headers: by the byte, in every way of cutting them, and through the filter. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include "front/proxy/proxy.h"
#include "suite.h"

/* Ends right behind the bytes, so that a byte read beyond is noticed under ASan. */
static int parse(const void *bytes, size_t len, struct sl_proxy_header *h)
{
	uint8_t *exact = malloc(len ? len : 1);
	int n;

	memcpy(exact, bytes, len);
	n = sl_proxy_parse(sl_span_of(exact, len), h);
	free(exact);
	return n;
}

static int parse_text(const char *text, struct sl_proxy_header *h)
{
	return parse(text, strlen(text), h);
}

static void ck_addr(const struct sl_addr *a, const char *text, unsigned port)
{
	char got[INET6_ADDRSTRLEN];

	inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->addr, got, sizeof(got));
	ck_assert_str_eq(got, text);
	ck_assert_uint_eq(ntohs(a->port_be), port);
}

/* Whatever stands behind it; and nothing is told before its last byte. */
static void ck_whole(const char *header, size_t len, struct sl_proxy_header *h)
{
	uint8_t with[SL_PROXY_HEADER_MAX + 4];

	for (size_t i = 0; i < len; i++)
		ck_assert_int_eq(parse(header, i, h), 0);
	ck_assert_int_eq(parse(header, len, h), (int)len);
	memcpy(with, header, len);
	memcpy(with + len, "GET ", 4);
	ck_assert_int_eq(parse(with, len + 4, h), (int)len);
}

TEST(a_line_tells_addresses_of_either_family)
{
	const char *v4 = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
	const char *v6 = "PROXY TCP6 2001:db8::1 2001:db8:0:1::2 0 65535\r\n";
	struct sl_proxy_header h;

	ck_whole(v4, strlen(v4), &h);
	ck_assert(h.told);
	ck_addr(&h.source, "192.0.2.1", 56324);
	ck_addr(&h.destination, "198.51.100.2", 443);
	ck_whole(v6, strlen(v6), &h);
	ck_assert(h.told);
	ck_addr(&h.source, "2001:db8::1", 0);
	ck_addr(&h.destination, "2001:db8:0:1::2", 65535);
}

TEST(an_unknown_line_leaves_the_addresses_as_they_are)
{
	const char *plain = "PROXY UNKNOWN\r\n";
	const char *more = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n";
	struct sl_proxy_header h;

	ck_whole(plain, strlen(plain), &h);
	ck_assert(!h.told);
	ck_whole(more, strlen(more), &h);
	ck_assert(!h.told);
}

TEST(a_malformed_line_is_refused)
{
	static const char *const bad[] = {
		"GET / HTTP/1.1\r\n",
		"PROXY\r\n",
		"proxy TCP4 1.2.3.4 1.2.3.5 1 2\r\n",
		"PROXY TCP5 1.2.3.4 1.2.3.5 1 2\r\n",
		"PROXY  TCP4 1.2.3.4 1.2.3.5 1 2\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 1 2 \r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 1 2 3\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 1\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 1 65536\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 01 2\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 -1 2\r\n",
		"PROXY TCP4 1.2.3 1.2.3.5 1 2\r\n",
		"PROXY TCP4 1.2.3.04 1.2.3.5 1 2\r\n",
		"PROXY TCP4 ::1 ::1 1 2\r\n",
		"PROXY TCP6 1.2.3.4 1.2.3.5 1 2\r\n",
		"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.5 1 2\rx",
		"\r\n\r\nGET",
	};
	struct sl_proxy_header h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(parse_text(bad[i], &h) == -1, "taken: %s", bad[i]);
	ck_assert_int_eq(parse("PROXY TCP4 1.2.3.4\0 1.2.3.5 1 2\r\n", 33, &h), -1);
}

TEST(a_line_that_does_not_end_is_refused_after_107_bytes)
{
	struct sl_proxy_header h;
	char line[120];

	memset(line, 'x', sizeof(line));
	memcpy(line, "PROXY UNKNOWN ", 14);
	ck_assert_int_eq(parse(line, 105, &h), 0);
	ck_assert_int_eq(parse(line, 106, &h), -1);
	memcpy(line + 105, "\r\n", 2);
	ck_assert_int_eq(parse(line, 107, &h), 107);
	memcpy(line + 105, "x\r\n", 3);
	ck_assert_int_eq(parse(line, 108, &h), -1);
}

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

TEST(a_binary_header_tells_addresses_of_either_family)
{
	static const char v4[] = SIGNATURE "\x21\x11\0\x0c"
					   "\xc0\0\x02\x01\xc6\x33\x64\x02\xdc\x04\x01\xbb";
	static const char v6[] = SIGNATURE "\x21\x21\0\x27"
					   "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
					   "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02"
					   "\0\x01\0\x02"
					   "\x04\0\0"; /* NOOP, which is for padding */
	struct sl_proxy_header h;

	ck_whole(v4, sizeof(v4) - 1, &h);
	ck_assert(h.told);
	ck_addr(&h.source, "192.0.2.1", 56324);
	ck_addr(&h.destination, "198.51.100.2", 443);
	ck_whole(v6, sizeof(v6) - 1, &h);
	ck_assert(h.told);
	ck_addr(&h.source, "2001:db8::1", 1);
	ck_addr(&h.destination, "2001:db8::2", 2);
}

/* ALPN, an authority, what a cloud adds of its own, one of nothing. */
TEST(fields_that_are_not_known_are_passed_by)
{
	static const char fields[] = SIGNATURE "\x21\x11\0\x25"
					       "\xc0\0\x02\x01\xc6\x33\x64\x02\xdc\x04\x01\xbb"
					       "\x01\0\x02"
					       "h2"
					       "\x02\0\x07"
					       "a.b.com"
					       "\xea\0\x04"
					       "\x01vpc"
					       "\xff\0\0";
	struct sl_proxy_header h;

	ck_whole(fields, sizeof(fields) - 1, &h);
	ck_assert(h.told);
	ck_addr(&h.source, "192.0.2.1", 56324);
}

TEST(a_health_check_of_the_balancer_has_its_own_address)
{
	static const char local[] = SIGNATURE "\x20\0\0\x05"
					      "hello";
	static const char of_unix[] = SIGNATURE "\x21\x31\0\x02"
						"//";
	static const char unspecified[] = SIGNATURE "\x21\0\0\0";
	struct sl_proxy_header h;

	ck_whole(local, sizeof(local) - 1, &h);
	ck_assert(!h.told);
	ck_whole(of_unix, sizeof(of_unix) - 1, &h);
	ck_assert(!h.told);
	ck_whole(unspecified, sizeof(unspecified) - 1, &h);
	ck_assert(!h.told);
}

TEST(a_malformed_binary_header_is_refused)
{
	static const struct {
		const char *what, *bytes;
		size_t len;
	} bad[] = {
#define BAD(what, bytes) {what, SIGNATURE bytes, sizeof(SIGNATURE bytes) - 1}
		BAD("version 1", "\x11\x11\0\x0c"
				 "aaaabbbbcccc"),
		BAD("unknown command", "\x22\x11\0\x0c"
				       "aaaabbbbcccc"),
		BAD("datagrams", "\x21\x12\0\x0c"
				 "aaaabbbbcccc"),
		BAD("unknown family", "\x21\x41\0\x0c"
				      "aaaabbbbcccc"),
		BAD("short IPv4", "\x21\x11\0\x0b"
				  "aaaabbbbccc"),
		BAD("short IPv6", "\x21\x21\0\x0c"
				  "aaaabbbbcccc"),
		BAD("a field's head cut", "\x21\x11\0\x0e"
					  "aaaabbbbcccc\x04\0"),
		BAD("a field too long", "\x21\x11\0\x10"
					"aaaabbbbcccc\x04\0\x02x"),
		BAD("a checksum of two bytes", "\x21\x11\0\x11"
					       "aaaabbbbcccc\x03\0\x02xx"),
		BAD("longer than anybody needs", "\x21\x11\x03\xf1"),
#undef BAD
	};
	struct sl_proxy_header h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(parse(bad[i].bytes, bad[i].len, &h) == -1, "taken: %s", bad[i].what);
}

/* Made by another implementation: crc32c of the header with four zeros in place of the sum. */
TEST(a_checksum_is_compared_when_there_is_one)
{
	char header[] = SIGNATURE "\x21\x11\0\x13"
				  "\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x02"
				  "\x03\0\x04\0\0\0\0";
	struct sl_proxy_header h;

	ck_assert_int_eq(parse(header, sizeof(header) - 1, &h), -1);
	memcpy(header + 31, "\xe9\x16\x6d\x07", 4);
	ck_assert_int_eq(parse(header, sizeof(header) - 1, &h), (int)sizeof(header) - 1);
	header[17] ^= 1;
	ck_assert_int_eq(parse(header, sizeof(header) - 1, &h), -1);
}

/* --- the filter, between a transport and a client that note what they are told --- */

static struct seen {
	char bytes[256], written[64];
	size_t len;
	unsigned named, opened, eofs, closed, resets, closes;
	bool with_frame, greedy;
} seen;

static size_t took(void *user, struct sl_chunk *chunk)
{
	size_t n = seen.greedy ? chunk->len : chunk->len - 1;

	(void)user;
	memcpy(seen.bytes + seen.len, chunk->ptr, n);
	seen.len += n;
	seen.with_frame = chunk->frame;
	return n;
}

#define NOTE(name, field)                                                                          \
	static void name(void *user)                                                               \
	{                                                                                          \
		(void)user;                                                                        \
		seen.field++;                                                                      \
	}
NOTE(on_named, named)
NOTE(on_opened, opened)
NOTE(on_eof, eofs)
NOTE(on_closed, closed)
NOTE(was_reset, resets)
NOTE(was_closed, closes)

static void ignore(void *user)
{
	(void)user;
}

static void ends(const void *self, struct sl_conn_info *out)
{
	(void)self;
	*out = (struct sl_conn_info){.listener = 7};
	out->peer = (struct sl_addr){.addr = {10, 0, 0, 9}, .family = 4};
	out->local = (struct sl_addr){.addr = {10, 0, 0, 1}, .port_be = htons(8443), .family = 4};
}

static const struct sl_conn_ops transport_ops = {
	.reset = was_reset, .close = was_closed, .info = ends};
static const struct sl_conn_user client_events = {.named = on_named,
						  .opened = on_opened,
						  .input = took,
						  .eof = on_eof,
						  .writable = ignore,
						  .closed = on_closed};

static struct sl_proxy_env env;
static uint64_t headers, malformed;

static struct sl_filter *open_one(void)
{
	struct sl_filter *f = sl_proxy_open(&env, (struct sl_conn){&transport_ops, NULL});

	ck_assert_ptr_nonnull(f);
	f->up = &client_events;
	return f;
}

static size_t feed(struct sl_filter *f, const char *bytes, size_t len)
{
	struct sl_frame frame;
	struct sl_chunk chunk = {.ptr = (const uint8_t *)bytes, .len = len, .frame = &frame};

	return f->below_tells->input(f, &chunk);
}

static void set_up(void)
{
	seen = (struct seen){.greedy = true};
	ck_assert_int_eq(sl_proxy_env_init(&env, 2, &headers, &malformed), 0);
}

static void tear_down(void)
{
	ck_assert_uint_eq(sl_mempool_used(&env.heads), 0);
	sl_proxy_env_fini(&env);
}

FIXTURE(set_up, tear_down)

static const char told[] = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";

TEST(bytes_behind_the_header_go_up_and_the_header_gives_the_address)
{
	char bytes[80];
	size_t len = sizeof(told) - 1 + 5;

	snprintf(bytes, sizeof(bytes), "%sHELLO", told);
	for (size_t cut = 1; cut <= len; cut++) {
		struct sl_filter *f = open_one();
		struct sl_conn_info info;

		seen = (struct seen){.greedy = true};
		ck_assert_uint_eq(feed(f, bytes, cut), cut);
		f->offers->info(f, &info);
		ck_assert(info.peer.addr[0] == (cut < sizeof(told) - 1 ? 10 : 192));
		if (cut < len)
			ck_assert_uint_eq(feed(f, bytes + cut, len - cut), len - cut);
		ck_assert_uint_eq(seen.named, 1);
		ck_assert_uint_eq(seen.opened, 1);
		ck_assert_mem_eq(seen.bytes, "HELLO", 5);
		ck_assert_uint_eq(seen.len, 5);
		f->offers->info(f, &info);
		ck_addr(&info.peer, "192.0.2.1", 56324);
		ck_addr(&info.local, "10.0.0.1", 8443); /* our door, not the balancer's */
		ck_assert_uint_eq(info.listener, 7);
		f->below_tells->closed(f);
		ck_assert_uint_eq(seen.closed, 1);
	}
	ck_assert_uint_eq(headers, len);
	ck_assert_uint_eq(sl_mempool_used(&env.filters), 0);
}

TEST(bytes_that_the_client_leaves_are_not_counted_as_used)
{
	struct sl_filter *f = open_one();
	char bytes[80];
	int len = snprintf(bytes, sizeof(bytes), "%sHELLO", told);

	seen.greedy = false;
	ck_assert_uint_eq(feed(f, bytes, (size_t)len), (size_t)len - 1);
	ck_assert(!seen.with_frame);
	ck_assert_uint_eq(feed(f, "Oh", 2), 1);
	ck_assert(seen.with_frame);
	f->offers->reset(f);
	ck_assert_uint_eq(seen.resets, 1);
	ck_assert_uint_eq(seen.closed, 0);
}

TEST(a_client_without_a_header_is_reset)
{
	struct sl_filter *f = open_one();

	ck_assert_uint_eq(feed(f, "GET / HTTP/1.1\r\n", 16), 16);
	ck_assert_uint_eq(seen.resets, 1);
	ck_assert_uint_eq(seen.closed, 1);
	ck_assert_uint_eq(seen.opened, 0);
	ck_assert_uint_eq(malformed, 1);
	ck_assert_uint_eq(sl_mempool_used(&env.filters), 0);
}

TEST(a_client_that_ends_within_the_header_is_reset)
{
	struct sl_filter *f = open_one();

	ck_assert_uint_eq(feed(f, told, 10), 10);
	f->below_tells->eof(f);
	ck_assert_uint_eq(seen.resets, 1);
	ck_assert_uint_eq(seen.closed, 1);
	ck_assert_uint_eq(seen.eofs, 0);
	ck_assert_uint_eq(sl_mempool_used(&env.filters), 0);
}

TEST(without_memory_for_a_piece_it_is_reset)
{
	void *held[2] = {sl_mempool_get(&env.heads), sl_mempool_get(&env.heads)};
	struct sl_filter *f = open_one();

	ck_assert_uint_eq(feed(f, told, 10), 10);
	ck_assert_uint_eq(seen.resets, 1);
	sl_mempool_put(&env.heads, held[0]);
	sl_mempool_put(&env.heads, held[1]);
}
