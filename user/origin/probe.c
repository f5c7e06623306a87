/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

enum {
	STATUS_LINE = 12,
	FRAME_HEAD = 9,
	FRAME_MAX = 16384,
	GRPC_PREFIX = 5,
	DATA = 0,
	HEADERS = 1,
	RST_STREAM = 3,
	GOAWAY = 7,
	END_STREAM = 1,
	PADDED = 8,
	LITERAL_MAX = 126, /* HPACK: lengths of one byte */
	SERVING = 1,
};

static enum origin_probe_result fail(struct origin_probe *p, const char *why)
{
	snprintf(p->why, sizeof(p->why), "%s", why);
	return ORIGIN_PROBE_FAILED;
}

static size_t write_http(const struct origin_probe_target *t, uint8_t to[ORIGIN_PROBE_REQUEST])
{
	int n = snprintf((char *)to, ORIGIN_PROBE_REQUEST,
			 "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice-health\r\n"
			 "Accept: */*\r\nConnection: close\r\n\r\n",
			 t->path, t->authority);

	return n > 0 && n < ORIGIN_PROBE_REQUEST ? (size_t)n : 0;
}

/* A literal field without indexing (RFC 7541 6.2.2); `name`: index of the static table, or text. */
static void put_field(struct sl_strbuf *b, uint8_t index, const char *name, const char *value)
{
	sl_strbuf_char(b, index < 15 ? (char)index : 15);
	if (index >= 15)
		sl_strbuf_char(b, (char)(index - 15));
	if (!index) {
		sl_strbuf_char(b, (char)strlen(name));
		sl_strbuf_str(b, name);
	}
	sl_strbuf_char(b, (char)strlen(value));
	sl_strbuf_str(b, value);
}

static void put_frame(struct sl_strbuf *b, uint8_t type, uint8_t flags, uint8_t stream, size_t len)
{
	const uint8_t head[FRAME_HEAD] = {
		0, (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, stream};

	sl_strbuf_add(b, head, sizeof(head));
}

static size_t write_grpc(const struct origin_probe_target *t, uint8_t to[ORIGIN_PROBE_REQUEST])
{
	enum { AUTHORITY = 1, PATH = 4, CONTENT_TYPE = 31, SETTINGS = 4, END_HEADERS = 4 };
	char fields_text[512], request[ORIGIN_PROBE_REQUEST];
	struct sl_strbuf fields, b;
	size_t service = strlen(t->service), len = service ? service + 2 : 0;

	if (service > LITERAL_MAX || strlen(t->authority) > LITERAL_MAX)
		return 0;
	sl_strbuf_fixed(&fields, fields_text, sizeof(fields_text));
	sl_strbuf_add(&fields, t->secure ? "\x83\x87" : "\x83\x86", 2);
	put_field(&fields, PATH, NULL, "/grpc.health.v1.Health/Check");
	put_field(&fields, AUTHORITY, NULL, t->authority);
	put_field(&fields, CONTENT_TYPE, NULL, "application/grpc");
	put_field(&fields, 0, "te", "trailers");
	sl_strbuf_fixed(&b, request, sizeof(request));
	sl_strbuf_str(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	put_frame(&b, SETTINGS, 0, 0, 0);
	put_frame(&b, HEADERS, END_HEADERS, 1, fields.len);
	sl_strbuf_add(&b, fields_text, fields.len);
	put_frame(&b, DATA, END_STREAM, 1, GRPC_PREFIX + len);
	sl_strbuf_add(&b, "\0\0\0\0", 4);
	sl_strbuf_char(&b, (char)len);
	if (service) {
		sl_strbuf_char(&b, 0x0a);
		sl_strbuf_char(&b, (char)service);
		sl_strbuf_str(&b, t->service);
	}
	if (fields.err || b.err)
		return 0;
	memcpy(to, request, b.len);
	return b.len;
}

size_t origin_probe_begin(struct origin_probe *p, const struct origin_probe_target *t,
			  uint8_t to[ORIGIN_PROBE_REQUEST])
{
	*p = (struct origin_probe){.grpc = t->grpc, .expect = t->expect};
	return t->grpc ? write_grpc(t, to) : write_http(t, to);
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static enum origin_probe_result read_http(struct origin_probe *p, const uint8_t *bytes, size_t len)
{
	const uint8_t *h = p->head;
	unsigned status;

	for (size_t i = 0; i < len && p->head_len < STATUS_LINE; i++)
		p->head[p->head_len++] = bytes[i];
	if (p->head_len < STATUS_LINE)
		return ORIGIN_PROBE_PENDING;
	if (memcmp(h, "HTTP/1.", 7) != 0 || h[8] != ' ' || !is_digit(h[9]) || !is_digit(h[10]) ||
	    !is_digit(h[11]))
		return fail(p, "the reply is not HTTP/1.1");
	status = (h[9] - '0') * 100u + (h[10] - '0') * 10u + (h[11] - '0');
	if (status == p->expect)
		return ORIGIN_PROBE_OK;
	snprintf(p->why, sizeof(p->why), "status %u; expected %u", status, p->expect);
	return ORIGIN_PROBE_FAILED;
}

static enum origin_probe_result read_message(struct origin_probe *p)
{
	const uint8_t *m = p->message;

	if (p->message_len < GRPC_PREFIX)
		return ORIGIN_PROBE_PENDING;
	if (m[0] || m[1] || m[2] || m[3] || m[4] > sizeof(p->message) - GRPC_PREFIX)
		return fail(p, "the reply is no HealthCheckResponse");
	if (p->message_len < GRPC_PREFIX + (uint32_t)m[4])
		return ORIGIN_PROBE_PENDING;
	if (m[4] >= 2 && m[GRPC_PREFIX] == 0x08 && m[GRPC_PREFIX + 1] == SERVING)
		return ORIGIN_PROBE_OK;
	return fail(p, "the status is not SERVING");
}

static enum origin_probe_result begin_frame(struct origin_probe *p)
{
	const uint8_t *h = p->head;

	p->left = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
	if (p->left > FRAME_MAX || (h[5] & 0x80))
		return fail(p, "the reply is not HTTP/2");
	if (h[3] == RST_STREAM || h[3] == GOAWAY)
		return fail(p, "the server ended the call");
	if (h[3] == HEADERS && (h[4] & END_STREAM))
		return fail(p, "the call failed; does the server have grpc.health.v1?");
	if (h[3] == DATA && (h[4] & PADDED))
		return fail(p, "the reply is padded");
	return ORIGIN_PROBE_PENDING;
}

static enum origin_probe_result read_grpc(struct origin_probe *p, const uint8_t *bytes, size_t len)
{
	enum origin_probe_result r = ORIGIN_PROBE_PENDING;

	for (size_t i = 0; i < len && r == ORIGIN_PROBE_PENDING; i++) {
		if (p->head_len < FRAME_HEAD) {
			p->head[p->head_len++] = bytes[i];
			if (p->head_len == FRAME_HEAD)
				r = begin_frame(p);
		} else {
			p->left--;
			if (p->head[3] == DATA && p->message_len < sizeof(p->message)) {
				p->message[p->message_len++] = bytes[i];
				r = read_message(p);
			}
		}
		if (p->head_len == FRAME_HEAD && !p->left)
			p->head_len = 0;
	}
	return r;
}

enum origin_probe_result origin_probe_input(struct origin_probe *p, const uint8_t *bytes,
					    size_t len)
{
	return p->grpc ? read_grpc(p, bytes, len) : read_http(p, bytes, len);
}
