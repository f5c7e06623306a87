// FUZZ_LDFLAGS: -w -I/usr/share/include/llhttp /usr/share/llhttp/*.c
/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=8192 */
/* fuzz: dict=http1.dict */
/*
 * A request to an HTTP/1.1 server must be one request for llhttp (strict mode), for any
 * metadata. It must also be the intended one: its line, its one Host, its fields in order, its
 * body, and nothing behind that. Request smuggling by a client or a lying gateway would break this.
 *
 * Input: flags (enum flag), lengths of method, path and query (16 bits) and of the body (8 bits),
 * these, then the metadata.
 *
 * Left out: methods that llhttp does not know, CONNECT, and targets with octets beyond ASCII or in
 * a form that llhttp does not read. Servers do not agree on those either.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "origin/scratch.h"
#include "sluice/backend.h"
#include <llhttp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum flag {
	HAS_QUERY = 1,
	STREAM = 2,   /* in chunks, unless */
	LENGTH = 4,   /* its length is known */
	OF_HTTP2 = 8, /* its client's protocol; or else HTTP/1.1 */
	OF_GRPC = 16, /* then -bin fields are bytes */
	NAMED = 32,   /* the server is asked for by its own name */
	EXPECTS = 64,
};

enum { RECORD = 1 << 17 };

static struct {
	char text[RECORD];
	size_t len, body_len;
	unsigned hosts, lengths, messages;
	bool upgrade;
} heard;

static struct origin_request made;
static struct origin_scratch scratch;
static struct origin own = {.scratch = &scratch};
static struct origin_server server = {.origin = &own};
static struct origin_h1_conn h = {.c = {.server = &server}};

/* --- bodies, which this target does not check --- */

void origin_body_begin(struct origin_call *call, enum origin_framing framing, uint64_t len)
{
	call->body.framing = framing;
	(void)len;
}

unsigned origin_body_peek(const struct origin_call *call, struct iovec *iov, unsigned max)
{
	(void)call, (void)iov, (void)max;
	return 0;
}

void origin_body_skip(struct origin_call *call, size_t n)
{
	(void)call, (void)n;
}

void origin_body_drop(struct origin_call *call)
{
	(void)call;
}

/* --- the server --- */

static void add(const void *p, size_t n)
{
	if (n > RECORD - heard.len)
		abort();
	if (n)
		memcpy(heard.text + heard.len, p, n);
	heard.len += n;
}

static int on_text(llhttp_t *p, const char *at, size_t len)
{
	(void)p;
	add(at, len);
	return 0;
}

static int on_line_end(llhttp_t *p)
{
	(void)p;
	add("\n", 1);
	return 0;
}

static int on_name_end(llhttp_t *p)
{
	static const char host[] = "\nhost", length[] = "\ncontent-length";

	(void)p;
	heard.hosts += heard.len >= 5 && memcmp(heard.text + heard.len - 5, host, 5) == 0;
	heard.lengths += heard.len >= 15 && memcmp(heard.text + heard.len - 15, length, 15) == 0;
	add(":", 1);
	return 0;
}

/* llhttp leaves blanks behind a value to its caller. */
static int on_value_end(llhttp_t *p)
{
	(void)p;
	while (heard.len && (heard.text[heard.len - 1] == ' ' || heard.text[heard.len - 1] == '\t'))
		heard.len--;
	add("\n", 1);
	return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	(void)p, (void)at;
	heard.body_len += len;
	return 0;
}

static int on_complete(llhttp_t *p)
{
	heard.messages++;
	heard.upgrade = p->upgrade;
	return 0;
}

/* How far it is understood; NULL: it is not. */
static const char *hear(const char *bytes, size_t len)
{
	static llhttp_settings_t settings;
	llhttp_t parser;
	llhttp_errno_t rc;

	llhttp_settings_init(&settings);
	settings.on_method = on_text;
	settings.on_method_complete = on_line_end;
	settings.on_url = on_text;
	settings.on_url_complete = on_line_end;
	settings.on_header_field = on_text;
	settings.on_header_field_complete = on_name_end;
	settings.on_header_value = on_text;
	settings.on_header_value_complete = on_value_end;
	settings.on_body = on_body;
	settings.on_message_complete = on_complete;
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	memset(&heard, 0, offsetof(__typeof__(heard), text));
	heard.len = heard.body_len = heard.hosts = heard.lengths = heard.messages = 0;
	rc = llhttp_execute(&parser, bytes, len);
	if (rc == HPE_PAUSED_UPGRADE)
		return llhttp_get_error_pos(&parser);
	if (rc != HPE_OK) {
		fprintf(stderr, "llhttp: %s\n", llhttp_get_error_reason(&parser));
		return NULL;
	}
	return bytes + len;
}

/* --- what was meant --- */

static bool is_known(struct sl_span method)
{
	static const char *const known[] = {"GET",   "HEAD",    "POST",  "PUT",
					    "PATCH", "OPTIONS", "DELETE"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (sl_span_eq(method, sl_span_cstr(known[i])))
			return true;
	}
	return false;
}

static bool is_ascii(struct sl_span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] <= ' ' || s.ptr[i] >= 0x7f || s.ptr[i] == '#')
			return false;
	}
	return true;
}

static struct sl_span trimmed(struct sl_span s)
{
	while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
		s = sl_span_skip(s, 1);
	while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static size_t expected(char *to)
{
	size_t n = (size_t)sprintf(to, "%.*s\n%.*s%s%.*s\nhost:%.*s\n", (int)made.method.len,
				   made.method.ptr, (int)made.path.len, made.path.ptr,
				   made.query.ptr ? "?" : "", (int)made.query.len,
				   made.query.len ? (const char *)made.query.ptr : "",
				   (int)made.authority.len, made.authority.ptr);

	for (uint32_t i = 0; i < made.cnt; i++) {
		struct sl_span parts[] = {made.fields[i].name, sl_span_str(":"),
					  trimmed(made.fields[i].value), sl_span_str("\n")};

		for (unsigned k = 0; k < 4; k++) {
			if (parts[k].len)
				memcpy(to + n, parts[k].ptr, parts[k].len);
			n += parts[k].len;
		}
	}
	return n;
}

static void complain(const char *what, const char *bytes, size_t len)
{
	fprintf(stderr, "%s\nwritten:\n%.*s\nheard:\n%.*s\n", what, (int)len, bytes, (int)heard.len,
		heard.text);
	abort();
}

/* Head and body as they go to the server; how many bytes. */
static size_t written(char *to, const struct origin_call *call)
{
	size_t len = h.head_len;

	memcpy(to, h.tx, len);
	if (h.upgrade.len)
		return len;
	if (!call->body.on) {
		if (call->rq->body_len)
			memcpy(to + len, call->rq->body, call->rq->body_len);
		return len + call->rq->body_len;
	}
	if (call->body.framing == ORIGIN_CHUNKED) {
		memcpy(to + len, "3\r\nabc\r\n0\r\n\r\n", 13);
		return len + 13;
	}
	memset(to + len, 'x', call->rq->length);
	return len + call->rq->length;
}

static void check(const struct origin_call *call)
{
	static char bytes[RECORD], want[RECORD];
	size_t len = written(bytes, call), want_len;
	const char *end = hear(bytes, len);

	if (!end || heard.messages != 1 || end != bytes + len)
		complain("not one request", bytes, len);
	if (heard.hosts != 1 || heard.lengths > 1)
		complain("not one Host, or several lengths", bytes, len);
	if (heard.upgrade != (h.upgrade.len != 0))
		complain("an upgrade", bytes, len);
	want_len = expected(want);
	if (heard.len < want_len || memcmp(heard.text, want, want_len) != 0)
		complain("another request", bytes, len);
	if (!h.upgrade.len &&
	    heard.body_len != (call->body.on
				       ? call->body.framing == ORIGIN_CHUNKED ? 3 : call->rq->length
				       : call->rq->body_len))
		complain("another body", bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct origin_authority names[] = {{"own.example:8", false},
							{"own.example:8", true}};
	static const uint8_t trace[24] = {7};
	struct sl_span in = sl_span_of(data, size);
	struct sl_request_view rq = {.idempotent = true};
	struct origin_call call = {.rq = &rq};
	struct sl_span part[4]; /* method, path, query, body */
	uint8_t flags;

	if (size < 8)
		return 0;
	flags = data[0];
	in = sl_span_skip(in, 8);
	for (unsigned i = 0; i < 4; i++) {
		size_t len = i == 0 ? data[1] & 63 : i == 3 ? data[6] : sl_get_le16(data + 2 * i);

		part[i] = sl_span_first(in, len < in.len ? len : in.len);
		in = sl_span_skip(in, part[i].len);
	}
	rq.method = (const char *)part[0].ptr;
	rq.method_len = (uint16_t)part[0].len;
	rq.path = (const char *)part[1].ptr;
	rq.path_len = (uint16_t)part[1].len;
	rq.query = flags & HAS_QUERY ? (const char *)part[2].ptr : NULL;
	rq.query_len = flags & HAS_QUERY ? (uint16_t)part[2].len : 0;
	rq.protocol = flags & OF_GRPC    ? SL_PROTO_GRPC
		      : flags & OF_HTTP2 ? SL_PROTO_HTTP2
					 : SL_PROTO_HTTP1;
	rq.meta = in.ptr;
	rq.meta_len = (uint16_t)(in.len < SL_RPC_MAX_META ? in.len : SL_RPC_MAX_META);
	rq.expects = flags & EXPECTS;
	call.body.on = flags & STREAM;
	if (call.body.on) {
		rq.length = flags & LENGTH ? part[3].len : SL_LEN_UNKNOWN;
	} else {
		rq.body = part[3].ptr;
		rq.body_len = part[3].len;
	}
	h.call = &call;
	if (!origin_request_make(&made, &rq, &names[!!(flags & NAMED)], trace) ||
	    !origin_h1_format(&h, &made))
		return 0;
	if (is_known(made.method) && is_ascii(made.path) && is_ascii(made.query))
		check(&call);
	return 0;
}
