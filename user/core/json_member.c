/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json_member.h"

#include <string.h>

#include "base/num.h"

enum json_state {
	AT_START,
	AT_VALUE,
	AT_FIRST_ITEM, /* a value, or ] */
	AT_FIRST_KEY,  /* a key, or } */
	AT_KEY,
	AT_COLON,
	AFTER_VALUE,
	IN_STRING,
	IN_ESCAPE,
	IN_HEX1, /* four digits of \u */
	IN_HEX2,
	IN_HEX3,
	IN_HEX4,
	IN_HIGH,     /* a backslash must follow a high surrogate */
	IN_HIGH_ESC, /* then a u */
	IN_LITERAL,
	IN_MINUS,
	IN_ZERO,
	IN_DIGITS,
	IN_POINT,
	IN_FRACTION,
	IN_EXPONENT,
	IN_EXPONENT_SIGN,
	IN_EXPONENT_DIGITS,
};

enum json_role { ROLE_OTHER, ROLE_KEY, ROLE_VALUE };

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void decide(struct sl_json_member *m, enum sl_json_verdict v)
{
	m->verdict = (uint8_t)v;
}

void sl_json_member_begin(struct sl_json_member *m, struct sl_span name)
{
	memset(m, 0, offsetof(struct sl_json_member, value));
	m->name = name;
}

static bool in_object(const struct sl_json_member *m)
{
	uint32_t level = m->depth - 1;

	return m->objects[level / 64] >> level % 64 & 1;
}

static void take_text(struct sl_json_member *m, const uint8_t *p, size_t len)
{
	uint32_t at = m->text_len;

	if (m->role == ROLE_OTHER)
		return;
	m->text_len += (uint32_t)len;
	if (m->role == ROLE_KEY) {
		m->differs |= at + len > m->name.len || memcmp(m->name.ptr + at, p, len) != 0;
		m->text_len = m->differs ? 0 : m->text_len;
	} else if (m->text_len <= SL_JSON_VALUE_MAX) {
		memcpy(m->value + at, p, len);
	} else {
		m->text_len = SL_JSON_VALUE_MAX + 1; /* none of it is used */
	}
}

static void take_code_point(struct sl_json_member *m, uint32_t c)
{
	uint8_t out[4];
	size_t n = 0;

	if (c < 0x80) {
		out[n++] = (uint8_t)c;
	} else if (c < 0x800) {
		out[n++] = (uint8_t)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		out[n++] = (uint8_t)(0xe0 | c >> 12);
		out[n++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	} else {
		out[n++] = (uint8_t)(0xf0 | c >> 18);
		out[n++] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
		out[n++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	}
	if (c >= 0x80)
		out[n++] = (uint8_t)(0x80 | (c & 0x3f));
	take_text(m, out, n);
}

static void begin_string(struct sl_json_member *m, bool is_key)
{
	m->state = IN_STRING;
	m->is_key = is_key;
	m->differs = false;
	m->text_len = 0;
	m->role = m->depth > 1 ? ROLE_OTHER
		  : is_key     ? ROLE_KEY
		  : m->wanted  ? ROLE_VALUE
			       : ROLE_OTHER;
}

static void end_string(struct sl_json_member *m)
{
	m->state = m->is_key ? AT_COLON : AFTER_VALUE;
	if (m->role == ROLE_VALUE)
		decide(m, SL_JSON_FOUND);
	else if (m->role == ROLE_KEY)
		m->wanted = !m->differs && m->text_len == m->name.len;
}

static size_t plain_len(const uint8_t *p, size_t len)
{
	size_t n = 0;

	for (; len - n >= 8; n += 8) {
		uint64_t w, quote, slash, odd;

		memcpy(&w, p + n, sizeof(w));
		quote = w ^ EACH_BYTE('"');
		slash = w ^ EACH_BYTE('\\');
		odd = (w - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1)) | w;
		if (odd & EACH_BYTE(0x80))
			break;
	}
	while (n < len && p[n] >= 0x20 && p[n] < 0x80 && p[n] != '"' && p[n] != '\\')
		n++;
	return n;
}

/* Takes a first byte (RFC 3629 4). False: invalid. */
static bool begin_utf8(struct sl_json_member *m, uint8_t c)
{
	m->utf8_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	m->utf8_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	m->utf8_left = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	return c >= 0xc2 && c <= 0xf4;
}

static void read_utf8(struct sl_json_member *m, uint8_t c)
{
	bool ok = m->utf8_left ? c >= m->utf8_low && c <= m->utf8_high : begin_utf8(m, c);

	if (!ok) {
		decide(m, SL_JSON_BAD);
		return;
	}
	if (c < 0xc0) {
		m->utf8_left--;
		m->utf8_low = 0x80;
		m->utf8_high = 0xbf;
	}
	take_text(m, &c, 1);
}

static size_t read_string(struct sl_json_member *m, const uint8_t *p, size_t len)
{
	size_t n;

	if (m->utf8_left || *p >= 0x80) {
		read_utf8(m, *p);
		return 1;
	}
	n = plain_len(p, len);
	if (n) {
		take_text(m, p, n);
		return n;
	}
	if (*p == '"')
		end_string(m);
	else if (*p == '\\')
		m->state = IN_ESCAPE;
	else
		decide(m, SL_JSON_BAD);
	return 1;
}

static void read_escape(struct sl_json_member *m, uint8_t c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = c ? strchr(from, c) : NULL;

	m->state = IN_STRING;
	m->code_point = 0;
	if (c == 'u')
		m->state = IN_HEX1;
	else if (at)
		take_text(m, (const uint8_t *)&to[at - from], 1);
	else
		decide(m, SL_JSON_BAD);
}

static void end_escape(struct sl_json_member *m)
{
	uint32_t c = m->code_point;
	bool is_low = c >= 0xdc00 && c < 0xe000;

	m->state = IN_STRING;
	if ((m->high != 0) != is_low) {
		decide(m, SL_JSON_BAD);
	} else if (is_low) {
		take_code_point(m, 0x10000 + ((m->high - UINT32_C(0xd800)) << 10) + (c - 0xdc00));
		m->high = 0;
	} else if (c >= 0xd800 && c < 0xdc00) {
		m->high = (uint16_t)c;
		m->state = IN_HIGH;
	} else {
		take_code_point(m, c);
	}
}

static void read_hex(struct sl_json_member *m, uint8_t c)
{
	int digit = sl_hex_digit(c);

	if (digit < 0) {
		decide(m, SL_JSON_BAD);
		return;
	}
	m->code_point = m->code_point << 4 | (uint32_t)digit;
	if (m->state == IN_HEX4)
		end_escape(m);
	else
		m->state++;
}

static void open_level(struct sl_json_member *m, bool object)
{
	uint64_t bit = UINT64_C(1) << m->depth % 64, *word = &m->objects[m->depth / 64 % 2];

	if (m->depth == SL_JSON_DEPTH_MAX) {
		decide(m, SL_JSON_DEEP);
		return;
	}
	*word = object ? *word | bit : *word & ~bit;
	m->depth++;
	m->state = object ? AT_FIRST_KEY : AT_FIRST_ITEM;
}

static void close_level(struct sl_json_member *m)
{
	m->state = AFTER_VALUE;
	if (--m->depth == 0)
		decide(m, SL_JSON_ABSENT);
}

static void begin_literal(struct sl_json_member *m, const char *rest)
{
	m->state = IN_LITERAL;
	m->literal = rest;
}

static void begin_value(struct sl_json_member *m, uint8_t c)
{
	if (m->wanted && m->depth == 1 && c != '"' && (strchr("{[tfn-", c) || is_digit(c)) && c) {
		decide(m, SL_JSON_OTHER);
		return;
	}
	switch (c) {
	case '"': begin_string(m, false); break;
	case '{': open_level(m, true); break;
	case '[': open_level(m, false); break;
	case 't': begin_literal(m, "rue"); break;
	case 'f': begin_literal(m, "alse"); break;
	case 'n': begin_literal(m, "ull"); break;
	case '-': m->state = IN_MINUS; break;
	case '0': m->state = IN_ZERO; break;
	default:
		m->state = IN_DIGITS;
		if (!is_digit(c))
			decide(m, SL_JSON_BAD);
	}
}

static void read_token(struct sl_json_member *m, uint8_t c)
{
	bool ok = true;

	if (is_blank(c))
		return;
	switch (m->state) {
	case AT_START:
		ok = c == '{';
		if (ok)
			open_level(m, true);
		break;
	case AT_FIRST_KEY:
	case AT_KEY:
		if (c == '"')
			begin_string(m, true);
		else if (c == '}' && m->state == AT_FIRST_KEY)
			close_level(m);
		else
			ok = false;
		break;
	case AT_COLON:
		ok = c == ':';
		m->state = AT_VALUE;
		break;
	case AFTER_VALUE:
		if (c == ',')
			m->state = in_object(m) ? AT_KEY : AT_VALUE;
		else if (c == (in_object(m) ? '}' : ']'))
			close_level(m);
		else
			ok = false;
		break;
	default: /* AT_VALUE, AT_FIRST_ITEM */
		if (c == ']' && m->state == AT_FIRST_ITEM)
			close_level(m);
		else
			begin_value(m, c);
	}
	if (!ok)
		decide(m, SL_JSON_BAD);
}

static int number_state(enum json_state state, uint8_t c)
{
	bool digit = is_digit(c), exponent = c == 'e' || c == 'E';

	switch (state) {
	case IN_MINUS: return c == '0' ? IN_ZERO : digit ? IN_DIGITS : AT_START;
	case IN_ZERO:
		if (digit)
			return AT_START;
		break;
	case IN_DIGITS:
		if (digit)
			return IN_DIGITS;
		break;
	case IN_POINT: return digit ? IN_FRACTION : AT_START;
	case IN_FRACTION:
		if (c == '.')
			return AT_START;
		if (digit)
			return IN_FRACTION;
		break;
	case IN_EXPONENT:
		if (c == '+' || c == '-')
			return IN_EXPONENT_SIGN;
		return digit ? IN_EXPONENT_DIGITS : AT_START;
	case IN_EXPONENT_SIGN: return digit ? IN_EXPONENT_DIGITS : AT_START;
	default: return digit ? IN_EXPONENT_DIGITS : -1;
	}
	if (c == '.')
		return IN_POINT;
	return exponent ? IN_EXPONENT : -1;
}

static void read_number(struct sl_json_member *m, uint8_t c)
{
	int next = number_state((enum json_state)m->state, c);

	if (next == AT_START) {
		decide(m, SL_JSON_BAD);
	} else if (next >= 0) {
		m->state = (uint8_t)next;
	} else {
		m->state = AFTER_VALUE;
		read_token(m, c);
	}
}

static void read_literal(struct sl_json_member *m, uint8_t c)
{
	if (c != (uint8_t)*m->literal) {
		decide(m, SL_JSON_BAD);
		return;
	}
	if (!*++m->literal)
		m->state = AFTER_VALUE;
}

static void read_pair(struct sl_json_member *m, uint8_t c)
{
	if (c != (m->state == IN_HIGH ? '\\' : 'u'))
		decide(m, SL_JSON_BAD);
	m->code_point = 0;
	m->state = m->state == IN_HIGH ? IN_HIGH_ESC : IN_HEX1;
}

size_t sl_json_member_read(struct sl_json_member *m, struct sl_span bytes)
{
	size_t n = 0;

	while (n < bytes.len && m->verdict == SL_JSON_MORE) {
		const uint8_t *p = bytes.ptr + n;
		size_t used = 1;

		if (m->state == IN_STRING)
			used = read_string(m, p, bytes.len - n);
		else if (m->state < IN_STRING)
			read_token(m, *p);
		else if (m->state == IN_ESCAPE)
			read_escape(m, *p);
		else if (m->state <= IN_HEX4)
			read_hex(m, *p);
		else if (m->state <= IN_HIGH_ESC)
			read_pair(m, *p);
		else if (m->state == IN_LITERAL)
			read_literal(m, *p);
		else
			read_number(m, *p);
		n += used;
	}
	return n;
}
