/* SPDX-License-Identifier: Apache-2.0 */
#include "core/usage_scan.h"

#include <string.h>

enum usage_state {
	USAGE_PREFIX, /* of a line of events */
	USAGE_SPACE,  /* behind "data:" */
	USAGE_OUTER,
	USAGE_INNER,
	USAGE_NUMBER,
	USAGE_SKIP, /* the rest of the line or body */
};

static const struct sl_span prefix = SL_SPAN_LIT("data:");

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static void begin_text(struct sl_usage_scan *s)
{
	s->state = USAGE_OUTER;
	sl_json_member_begin(&s->member, s->outer);
}

static void begin_line(struct sl_usage_scan *s)
{
	s->state = USAGE_PREFIX;
	s->matched = 0;
}

void sl_usage_scan_begin(struct sl_usage_scan *s, const char *path, bool events)
{
	const char *dot = strchr(path, '.');

	s->outer = sl_span_of(path, (size_t)(dot - path));
	s->inner = sl_span_cstr(dot + 1);
	s->events = events;
	s->has_value = false;
	if (events)
		begin_line(s);
	else
		begin_text(s);
}

static size_t read_prefix(struct sl_usage_scan *s, uint8_t c)
{
	if (c != prefix.ptr[s->matched])
		s->state = USAGE_SKIP;
	else if (++s->matched == prefix.len)
		s->state = USAGE_SPACE;
	return 1;
}

static size_t skip_space(struct sl_usage_scan *s, uint8_t c)
{
	begin_text(s);
	return c == ' ';
}

static size_t read_outer(struct sl_usage_scan *s, struct sl_span bytes)
{
	size_t n = sl_json_member_read(&s->member, bytes);
	enum sl_json_verdict v = sl_json_member_verdict(&s->member);

	if (v == SL_JSON_MORE)
		return n;
	s->state = USAGE_SKIP;
	if (v == SL_JSON_OTHER && bytes.ptr[n - 1] == '{') {
		s->state = USAGE_INNER;
		sl_json_member_begin(&s->member, s->inner);
		(void)sl_json_member_read(&s->member, sl_span_str("{"));
	}
	return n;
}

static size_t read_inner(struct sl_usage_scan *s, struct sl_span bytes)
{
	size_t n = sl_json_member_read(&s->member, bytes);
	enum sl_json_verdict v = sl_json_member_verdict(&s->member);

	if (v == SL_JSON_MORE)
		return n;
	s->state = USAGE_SKIP;
	if (v == SL_JSON_OTHER && is_digit(bytes.ptr[n - 1])) {
		s->state = USAGE_NUMBER;
		s->number = (uint64_t)(bytes.ptr[n - 1] - '0');
		s->matched = 1; /* digits, up to two */
	}
	return n;
}

/* Takes a byte of a number. RFC 8259 6: no leading zero. */
static size_t read_number(struct sl_usage_scan *s, uint8_t c)
{
	if (is_digit(c) && !(s->matched == 1 && !s->number) && s->number <= UINT32_MAX) {
		s->number = 10 * s->number + (uint64_t)(c - '0');
		s->matched = 2;
		return 1;
	}
	s->state = USAGE_SKIP;
	if (s->number > UINT32_MAX || !c || !strchr(" \t\r\n,}", c))
		return 1;
	s->value = s->number;
	s->has_value = true;
	return 1;
}

static size_t read_some(struct sl_usage_scan *s, struct sl_span bytes)
{
	switch ((enum usage_state)s->state) {
	case USAGE_PREFIX: return read_prefix(s, bytes.ptr[0]);
	case USAGE_SPACE: return skip_space(s, bytes.ptr[0]);
	case USAGE_OUTER: return read_outer(s, bytes);
	case USAGE_INNER: return read_inner(s, bytes);
	case USAGE_NUMBER: return read_number(s, bytes.ptr[0]);
	case USAGE_SKIP: break;
	}
	return bytes.len;
}

static void read_line(struct sl_usage_scan *s, struct sl_span bytes)
{
	while (bytes.len)
		bytes = sl_span_skip(bytes, read_some(s, bytes));
}

static size_t line_len(struct sl_span bytes)
{
	size_t n = 0;

	while (n < bytes.len && bytes.ptr[n] != '\n' && bytes.ptr[n] != '\r')
		n++;
	return n;
}

void sl_usage_scan_read(struct sl_usage_scan *s, struct sl_span bytes)
{
	while (s->events && bytes.len) {
		size_t n = line_len(bytes);

		read_line(s, sl_span_first(bytes, n));
		if (n == bytes.len)
			return;
		begin_line(s);
		bytes = sl_span_skip(bytes, n + 1);
	}
	read_line(s, bytes);
}

bool sl_usage_scan_value(const struct sl_usage_scan *s, uint64_t *value)
{
	*value = s->value;
	return s->has_value;
}
