/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 frames as text, for tests: "TYPE FLAGS STREAM PAYLOAD; ..." all in hex but the type; "@x"
 * stands for a prepared piece, "N*BYTES" repeats, "len=N" lies about the length. What comes back is
 * reduced to the frames that matter.
 */
#ifndef H2_TALK_H
#define H2_TALK_H

#include <check.h>
#include "front/h2/h2.h"
#include "front/h2/mem.h"
#include "mock_host.h"

/* The length of a frame. */
static inline void put_be24(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 16);
	b[1] = (uint8_t)(v >> 8);
	b[2] = (uint8_t)v;
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct bytes {
	uint8_t *p;
	size_t len;
};

enum { TALK_MAX = 1 << 20 };

static const struct {
	const char *name, *hex;
} pieces[] = {
	/* :scheme http, :path /, :authority a */
	{"@get", "82868441 0161"},
	{"@post", "83868441 0161"},
	{"@head", "020448454144 868441 0161"},
	/* content-length: 5 */
	{"@cl5", "0f0d0135"},
	/* :path /p.S/M, content-type application/grpc */
	{"@grpc", "8386 0406 2f702e532f4d 41 0161 0f10 106170706c69636174696f6e2f67727063"},
};

static inline void put_hex(struct bytes *b, const char *hex)
{
	for (; *hex; hex++) {
		unsigned v;

		if (*hex == ' ')
			continue;
		ck_assert_int_eq(sscanf(hex, "%2x", &v), 1);
		b->p[b->len++] = (uint8_t)v;
		hex++;
	}
}

static inline void put_token(struct bytes *b, const char *token)
{
	unsigned times, v, n;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		if (!strcmp(token, pieces[i].name)) {
			put_hex(b, pieces[i].hex);
			return;
		}
	}
	if (sscanf(token, "%u*%2x%n", &times, &v, (int *)&n) == 2) {
		ck_assert_uint_lt(b->len + times, TALK_MAX);
		memset(b->p + b->len, (int)v, times);
		b->len += times;
		return;
	}
	put_hex(b, token);
}

static inline void put_frame(struct bytes *b, char *text)
{
	static const char *const types[] = {"DATA",     "HEADERS",      "PRIORITY", "RST",
					    "SETTINGS", "PUSH_PROMISE", "PING",     "GOAWAY",
					    "WINDOW",   "CONTINUATION", "UNKNOWN"};
	char *save, *type = strtok_r(text, " ", &save), *token;
	size_t at = b->len;
	unsigned t = 0, len, flags, id;

	while (t < sizeof(types) / sizeof(types[0]) && strcmp(types[t], type) != 0)
		t++;
	ck_assert_uint_lt(t, sizeof(types) / sizeof(types[0]));
	flags = (unsigned)strtoul(strtok_r(NULL, " ", &save), NULL, 16);
	id = (unsigned)strtoul(strtok_r(NULL, " ", &save), NULL, 16);
	b->len += 9;
	len = UINT32_MAX;
	while ((token = strtok_r(NULL, " ", &save))) {
		if (sscanf(token, "len=%u", &len) != 1)
			put_token(b, token);
	}
	if (len == UINT32_MAX)
		len = (unsigned)(b->len - at - 9);
	put_be24(b->p + at, len);
	b->p[at + 3] = (uint8_t)t;
	b->p[at + 4] = (uint8_t)flags;
	sl_put_be32(b->p + at + 5, id);
}

/* The PING behind replies that came before the end of their requests has come back. */
#define EARLY_SEEN "PING 1 0 736c6561726c7900"

/* "-" in front: without preface and SETTINGS. */
static inline struct bytes frames_of(const char *text)
{
	struct bytes b = {.p = malloc(TALK_MAX)};
	char *copy = strdup(*text == '-' ? text + 1 : text), *save;

	if (*text != '-') {
		memcpy(b.p, PREFACE, strlen(PREFACE));
		b.len = strlen(PREFACE);
		put_frame(&b, (char[]){"SETTINGS 0 0"});
	}
	for (char *f = strtok_r(copy, ";", &save); f; f = strtok_r(NULL, ";", &save)) {
		while (*f == ' ')
			f++;
		if (*f)
			put_frame(&b, f);
	}
	free(copy);
	return b;
}

/* GOAWAY, RST and the first byte of response heads: "RST 1 8; GOAWAY 1". */
static inline void summarize(const uint8_t *p, size_t len, char *to, size_t cap)
{
	size_t n = 0;

	to[0] = 0;
	while (len >= 9) {
		uint32_t flen = sl_get_be24(p), id = sl_get_be32(p + 5);

		ck_assert_msg(len >= 9 + flen, "a cut frame");
		if (p[3] == 3)
			n += (size_t)snprintf(to + n, cap - n, "%sRST %u %x", n ? "; " : "", id,
					      sl_get_be32(p + 9));
		else if (p[3] == 7)
			n += (size_t)snprintf(to + n, cap - n, "%sGOAWAY %x", n ? "; " : "",
					      sl_get_be32(p + 13));
		else if (p[3] == 1)
			n += (size_t)snprintf(to + n, cap - n, "%sHEADERS %u%s", n ? "; " : "", id,
					      p[4] & 1 ? " end" : "");
		else if (p[3] == 0)
			n += (size_t)snprintf(to + n, cap - n, "%sDATA %u %u%s", n ? "; " : "", id,
					      flen, p[4] & 1 ? " end" : "");
		p += 9 + flen;
		len -= 9 + flen;
	}
	ck_assert_uint_eq(len, 0);
}

static struct mock *m;
static struct sl_h2_env *h2env;

static inline void setup_h2(void)
{
	struct sl_h2_config cfg;

	m = mock_new(&sl_front_h2);
	m->now_ns = 1000000000;
	sl_h2_config_default(&cfg);
	cfg.max_connections = 8;
	cfg.max_streams = 200;
	cfg.max_calls = 12;
	cfg.max_calls_per_source = 8;
	cfg.memory = 16u << 20;
	cfg.stream_window = 65535;
	cfg.conn_window = 65535;
	h2env = sl_h2_env_create(&cfg, &m->limits);
	ck_assert_ptr_nonnull(h2env);
	m->env.h2 = h2env;
}

static inline void teardown_h2(void)
{
	struct sl_h2_stats s;

	sl_h2_env_stats(h2env, &s);
	ck_assert_uint_eq(s.connections, 0);
	ck_assert_uint_eq(s.streams, 0);
	ck_assert_uint_eq(s.calls, 0);
	ck_assert_uint_eq(s.memory, 0);
	sl_h2_env_destroy(h2env);
	mock_free(m);
}

static inline void talk(const char *text)
{
	struct bytes b = frames_of(text);

	mock_input(m, b.p, b.len);
	free(b.p);
}

static inline void ck_sound(void)
{
	const char *broken = mock_shut(m);

	ck_assert_msg(!broken, "%s", broken);
}

#endif
