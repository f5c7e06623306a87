// FUZZ_LDFLAGS: -w -I/usr/share/include/llhttp /usr/share/llhttp/*.c
/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: dict=http1.dict */
/*
 * Differential: llhttp (strict mode) must read each request that http1 accepts as the same method,
 * target, fields and body. llhttp comes from the package node-llhttp and is compiled into this
 * target only.
 *
 * The other direction does not hold on purpose. http1 refuses requests that llhttp accepts: targets
 * of other methods, absent or repeated Host, several empty lines in front, list members around
 * "chunked", and all that exceeds its limits.
 *
 * Left out of the comparison:
 * - methods that llhttp does not know (http1 passes them on, the route decides)
 * - chunk extensions with values: llhttp 8.1 takes the bytes behind an unquoted value and ';' for a chunk
 *   size, and knows no quoted pairs; both parsers drop extensions anyway
 * - blanks around the ';' of an extension (RFC 9110 5.6.3) and behind a size: llhttp refuses them
 * - a TAB in or behind a length, Connection or a coding: RFC 9110 5.6.3 makes it a blank, llhttp an error
 *   or a part of the word
 * - trailers that repeat a field of framing or of the connection: http1 ignores all trailers, llhttp
 *   refuses or obeys those
 * - Proxy-Connection, which no RFC knows and llhttp takes for Connection
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void message_over(struct record *r)
{
	add_str(r, "\n.\n");
	if (r->messages < MESSAGES)
		r->marks[r->messages++] = r->len;
}

/* llhttp leaves blanks behind a value to its caller. */
static void trim(struct record *r)
{
	while (r->len && (r->text[r->len - 1] == ' ' || r->text[r->len - 1] == '\t'))
		r->len--;
}

static int on_url_complete(llhttp_t *p)
{
	(void)p;
	add_str(&theirs, "\n");
	return 0;
}

static int on_bytes(llhttp_t *p, const char *at, size_t len)
{
	(void)p;
	add(&theirs, at, len);
	return 0;
}

static int on_method_complete(llhttp_t *p)
{
	add_str(&theirs, llhttp_method_name((llhttp_method_t)p->method));
	add_str(&theirs, " ");
	return 0;
}

static bool in_trailer;

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

static int on_value_complete(llhttp_t *p)
{
	(void)p;
	if (in_trailer)
		return 0;
	trim(&theirs);
	add_str(&theirs, "\n");
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	(void)p;
	in_trailer = true;
	add_str(&theirs, "\n");
	return 0;
}

static int on_message_complete(llhttp_t *p)
{
	(void)p;
	message_over(&theirs);
	return 0;
}

static int on_message_begin(llhttp_t *p)
{
	(void)p;
	in_trailer = false;
	return 0;
}

static void run_theirs(const uint8_t *data, size_t size)
{
	static llhttp_settings_t settings;
	const char *p = (const char *)data, *end = p + size;
	llhttp_t parser;

	llhttp_settings_init(&settings);
	settings.on_message_begin = on_message_begin;
	settings.on_method_complete = on_method_complete;
	settings.on_url = on_bytes;
	settings.on_url_complete = on_url_complete;
	settings.on_header_field = on_field;
	settings.on_header_field_complete = on_field_complete;
	settings.on_header_value = on_field;
	settings.on_header_value_complete = on_value_complete;
	settings.on_headers_complete = on_headers_complete;
	settings.on_body = on_bytes;
	settings.on_message_complete = on_message_complete;
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	theirs.len = theirs.messages = 0;
	while (p < end) {
		llhttp_errno_t err = llhttp_execute(&parser, p, (size_t)(end - p));

		if (err != HPE_PAUSED_UPGRADE)
			break;
		p = llhttp_get_error_pos(&parser); /* we ignore Upgrade */
		llhttp_resume_after_upgrade(&parser);
	}
}

/* Fields that llhttp interprets. */
static bool has_tab(const struct sl_header *h)
{
	static const char *const names[] = {"content-length", "connection", "transfer-encoding"};
	const uint8_t *behind = h->value.ptr + h->value.len;

	while (*behind == ' ')
		behind++;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (sl_span_eq_nocase(h->name, sl_span_of(names[i], strlen(names[i]))))
			return *behind == '\t' || memchr(h->value.ptr, '\t', h->value.len);
	}
	return false;
}

static bool known_difference(const struct sl_http1_head *head)
{
	if (head->rq.method == SL_METHOD_OTHER)
		return true;
	for (uint32_t i = 0; i < head->rq.header_cnt; i++) {
		const struct sl_header *h = &head->rq.headers[i];

		if (has_tab(h) || sl_span_eq_nocase(h->name, sl_span_str("proxy-connection")))
			return true;
	}
	return false;
}

static void record_head(const struct sl_http1_head *head)
{
	const uint8_t *target = head->rq.method_name.ptr + head->rq.method_name.len + 1;
	const uint8_t *end = memchr(target, ' ', SIZE_MAX - (uintptr_t)target);
	size_t len = (size_t)(end - target), known = head->rq.path.len;

	/* path and query must be the end of the target, unless the path was empty */
	if (head->rq.query.ptr)
		known += 1 + head->rq.query.len;
	if (head->rq.path.ptr >= target && head->rq.path.ptr <= end &&
	    head->rq.path.ptr + known != end)
		abort();
	add(&ours, head->rq.method_name.ptr, head->rq.method_name.len);
	add_str(&ours, " ");
	add(&ours, target, len);
	add_str(&ours, "\n");
	for (uint32_t i = 0; i < head->rq.header_cnt; i++) {
		add(&ours, head->rq.headers[i].name.ptr, head->rq.headers[i].name.len);
		add_str(&ours, ":");
		add(&ours, head->rq.headers[i].value.ptr, head->rq.headers[i].value.len);
		add_str(&ours, "\n");
	}
	add_str(&ours, "\n");
}

static bool contains(struct sl_span s, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= s.len; i++) {
		if (sl_span_eq_nocase(sl_span_of(s.ptr + i, n), sl_span_of(word, n)))
			return true;
	}
	return false;
}

/* Returns true if there is a blank in the size line of a chunk, behind the end of the one before. */
static bool has_blank(struct sl_span framing)
{
	size_t i = framing.len && framing.ptr[0] == '\r' ? 1 : 0;

	for (; i < framing.len && framing.ptr[i] != '\r'; i++) {
		if (framing.ptr[i] == ' ' || framing.ptr[i] == '\t')
			return true;
	}
	return false;
}

/* Records a chunked body. Returns what is behind it; len 0 with *ok false if it is not whole. */
static struct sl_span chunked(struct sl_span in, const struct sl_front_limits *limits, bool *ok)
{
	struct sl_http1_chunked c = {0};
	struct sl_span trailer = in;
	bool comparable = true;
	unsigned status = 0;

	*ok = false;
	while (c.state != SL_CHUNKED_DONE) {
		size_t n = sl_http1_chunked_next(&c, in, limits, &status);

		if (status)
			return in;
		trailer = sl_span_first(in, n);
		if (n && (memchr(trailer.ptr, '=', n) || has_blank(trailer)))
			comparable = false;
		in = sl_span_skip(in, n);
		if (c.state == SL_CHUNKED_DATA) {
			n = in.len < c.left ? in.len : (size_t)c.left;
			add(&ours, in.ptr, n);
			in = sl_span_skip(in, n);
			c.left -= n;
		}
		if (!in.len && c.state != SL_CHUNKED_DONE)
			return in;
	}
	*ok = comparable && !contains(trailer, "content-length") &&
	      !contains(trailer, "transfer-encoding") && !contains(trailer, "connection") &&
	      !contains(trailer, "upgrade");
	return in;
}

static void run_ours(struct sl_span in)
{
	struct sl_front_limits limits;
	struct sl_http1_head head;
	bool go = true;

	sl_front_limits_default(&limits);
	ours.len = ours.messages = 0;
	while (go && in.len) {
		ssize_t n = sl_http1_parse(in, &limits, &head);

		if (n <= 0 || known_difference(&head))
			return;
		record_head(&head);
		in = sl_span_skip(in, (size_t)n);
		if (head.chunked) {
			in = chunked(in, &limits, &go);
		} else if (!head.rq.end) {
			go = in.len >= head.rq.content_length;
			if (go) {
				add(&ours, in.ptr, (size_t)head.rq.content_length);
				in = sl_span_skip(in, (size_t)head.rq.content_length);
			}
		}
		if (!go)
			return;
		message_over(&ours);
		go = head.keep_alive;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len;

	run_ours(sl_span_of(data, size));
	if (!ours.messages)
		return 0;
	run_theirs(data, size);
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
