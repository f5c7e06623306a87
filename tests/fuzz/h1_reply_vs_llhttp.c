// FUZZ_LDFLAGS: -w -I/usr/share/include/llhttp /usr/share/llhttp/*.c
/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: dict=http1.dict */
/*
 * Differential: whatever the agent takes for replies of an HTTP/1 server, llhttp (strict mode) must
 * read as the same statuses, fields and bodies. The first byte says whether HEAD asked.
 *
 * The other direction does not hold on purpose, see origin/h1_reply.h. Left out of the comparison:
 *   - chunk extensions with values, which llhttp 8.1 reads in another way (both drop them), and blanks
 *     around them and behind a size, which it refuses
 *   - a Content-Length that is repeated, and framing fields of 204 and 304, which llhttp refuses
 *   - a TAB in or behind a length, Connection or a coding, which llhttp refuses or takes for a part
 *   - trailers that repeat a field of framing or of the connection, which the agent does not heed
 *   - Proxy-Connection and Upgrade, which llhttp heeds
 *   - status lines with octets beyond ASCII in the reason
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "origin/h1_reply.h"
#include "front/http1/http1.h"
#include <llhttp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD = 1 << 18, MESSAGES = 64 };

/* The messages as a parser understood them, as text; marks[i] is the end of message i. */
struct record {
	char text[RECORD];
	size_t len, marks[MESSAGES];
	unsigned messages;
};

static struct record ours, theirs;
static bool in_trailer, to_head;

static void add(struct record *r, const void *p, size_t n)
{
	if (n > RECORD - r->len)
		n = RECORD - r->len;
	if (n)
		memcpy(r->text + r->len, p, n);
	r->len += n;
}

static void add_str(struct record *r, const char *s)
{
	add(r, s, strlen(s));
}

static void add_status(struct record *r, unsigned status)
{
	char text[16];

	add(r, text, (size_t)snprintf(text, sizeof(text), "%u\n", status));
}

static void message_over(struct record *r)
{
	add_str(r, "\n.\n");
	if (r->messages < MESSAGES)
		r->marks[r->messages++] = r->len;
}

/* --- llhttp --- */

static int on_begin(llhttp_t *p)
{
	(void)p;
	in_trailer = false;
	return 0;
}

static int on_status(llhttp_t *p)
{
	add_status(&theirs, p->status_code);
	return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
	(void)p;
	if (!in_trailer)
		add(&theirs, at, len);
	return 0;
}

static int on_field_complete(llhttp_t *p)
{
	(void)p;
	if (!in_trailer)
		add_str(&theirs, ":");
	return 0;
}

/* llhttp leaves blanks behind a value to its caller. */
static int on_value_complete(llhttp_t *p)
{
	(void)p;
	if (in_trailer)
		return 0;
	while (theirs.len &&
	       (theirs.text[theirs.len - 1] == ' ' || theirs.text[theirs.len - 1] == '\t'))
		theirs.len--;
	add_str(&theirs, "\n");
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	in_trailer = true;
	add_str(&theirs, "\n");
	return to_head || p->status_code == 304; /* 1: no body, as llhttp wants to be told */
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	(void)p;
	add(&theirs, at, len);
	return 0;
}

static int on_complete(llhttp_t *p)
{
	(void)p;
	message_over(&theirs);
	return 0;
}

static void run_theirs(const uint8_t *data, size_t size)
{
	static llhttp_settings_t settings;
	llhttp_t parser;

	llhttp_settings_init(&settings);
	settings.on_message_begin = on_begin;
	settings.on_status_complete = on_status;
	settings.on_header_field = on_field;
	settings.on_header_field_complete = on_field_complete;
	settings.on_header_value = on_field;
	settings.on_header_value_complete = on_value_complete;
	settings.on_headers_complete = on_headers_complete;
	settings.on_body = on_body;
	settings.on_message_complete = on_complete;
	llhttp_init(&parser, HTTP_RESPONSE, &settings);
	theirs.len = theirs.messages = 0;
	if (llhttp_execute(&parser, (const char *)data, size) == HPE_OK)
		llhttp_finish(&parser);
}

/* --- the agent --- */

static bool contains(struct sl_span s, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= s.len; i++) {
		if (sl_span_eq_nocase(sl_span_of(s.ptr + i, n), sl_span_of(word, n)))
			return true;
	}
	return false;
}

static bool comparable(const struct origin_h1_reply *r, struct sl_span head)
{
	const uint8_t *eol = memchr(head.ptr, '\r', head.len);
	unsigned lengths = 0, codings = 0;

	for (uint32_t i = 0; i < r->fields.cnt; i++) {
		struct sl_span name = r->fields.at[i].name, value = r->fields.at[i].value;
		bool length = sl_span_eq_nocase(name, sl_span_str("content-length"));

		lengths += length + (length && value.len && memchr(value.ptr, ',', value.len));
		codings += sl_span_eq_nocase(name, sl_span_str("transfer-encoding"));
	}
	if (lengths > 1 || ((r->status == 204 || r->status == 304) && lengths + codings))
		return false;
	for (const uint8_t *p = head.ptr; p < eol; p++) {
		if (*p >= 0x80)
			return false;
	}
	if (memchr(head.ptr, '\t', head.len))
		return false;
	return !contains(head, "proxy-connection") && !contains(head, "upgrade") &&
	       r->status != 101;
}

static void record_head(const struct origin_h1_reply *r)
{
	add_status(&ours, r->status);
	for (uint32_t i = 0; i < r->fields.cnt; i++) {
		add(&ours, r->fields.at[i].name.ptr, r->fields.at[i].name.len);
		add_str(&ours, ":");
		add(&ours, r->fields.at[i].value.ptr, r->fields.at[i].value.len);
		add_str(&ours, "\n");
	}
	add_str(&ours, "\n");
}

/* Returns what is behind the body; *ok false: it is not whole, or cannot be compared. */
static struct sl_span chunked(struct sl_span in, bool *ok)
{
	struct sl_http1_chunked c = {.stops = true};
	struct sl_front_limits limits;
	struct origin_fields f;
	const char *wrong;
	unsigned status = 0;
	ssize_t len;

	*ok = false;
	sl_front_limits_default(&limits);
	while (c.state != SL_CHUNKED_TRAILER) {
		size_t n = sl_http1_chunked_next(&c, in, &limits, &status);

		if (status || (n && (memchr(in.ptr, '=', n) || memchr(in.ptr, '\t', n) ||
				     memchr(in.ptr, ' ', n))))
			return in;
		in = sl_span_skip(in, n);
		if (c.state == SL_CHUNKED_DATA) {
			n = in.len < c.left ? in.len : (size_t)c.left;
			add(&ours, in.ptr, n);
			in = sl_span_skip(in, n);
			c.left -= n;
		}
		if (!in.len && c.state != SL_CHUNKED_TRAILER)
			return in;
	}
	len = origin_h1_fields(in, &f, &wrong);
	if (len <= 0)
		return in;
	*ok = !contains(sl_span_first(in, (size_t)len), "content-length") &&
	      !contains(sl_span_first(in, (size_t)len), "transfer-encoding") &&
	      !contains(sl_span_first(in, (size_t)len), "connection") &&
	      !contains(sl_span_first(in, (size_t)len), "upgrade");
	return sl_span_skip(in, (size_t)len);
}

static void run_ours(struct sl_span in)
{
	bool go = true;

	ours.len = ours.messages = 0;
	while (go && in.len) {
		static struct origin_h1_reply r;
		ssize_t n = origin_h1_head(in, to_head, &r);

		if (n <= 0 || !comparable(&r, sl_span_first(in, (size_t)n)))
			return;
		record_head(&r);
		in = sl_span_skip(in, (size_t)n);
		if (r.body == ORIGIN_CHUNKS) {
			in = chunked(in, &go);
		} else if (r.body != ORIGIN_NO_BODY) {
			go = r.body == ORIGIN_UNTIL_CLOSE || in.len >= r.length;
			n = r.body == ORIGIN_UNTIL_CLOSE ? (ssize_t)in.len : (ssize_t)r.length;
			if (go) {
				add(&ours, in.ptr, (size_t)n);
				in = sl_span_skip(in, (size_t)n);
			}
		}
		if (!go)
			return;
		message_over(&ours);
		go = r.keep_alive;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len;

	if (!size)
		return 0;
	to_head = data[0] & 1;
	run_ours(sl_span_of(data + 1, size - 1));
	if (!ours.messages)
		return 0;
	run_theirs(data + 1, size - 1);
	len = ours.marks[ours.messages - 1];
	if (len == RECORD)
		return 0;
	if (theirs.messages < ours.messages || theirs.marks[ours.messages - 1] != len ||
	    memcmp(ours.text, theirs.text, len) != 0) {
		fprintf(stderr, "ours, %u:\n%.*s\ntheirs, %u:\n%.*s\n", ours.messages, (int)len,
			ours.text, theirs.messages, (int)theirs.len, theirs.text);
		abort();
	}
	return 0;
}
