/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/num.h"
#include "front/http1/http1.h"
#include "http/scan.h"

enum {
	SEEN_HOST = 1 << 0,
	SEEN_LENGTH = 1 << 1,
	SEEN_CODING = 1 << 2,
	SEEN_CLOSE = 1 << 3,
	SEEN_KEEP_ALIVE = 1 << 4,
	SEEN_EXPECT = 1 << 5,
	SEEN_AUTHORITY = 1 << 6, /* in the request target */
	SEEN_UPGRADE = 1 << 7,   /* in the Connection field */
};

static bool port_ok(struct sl_span port)
{
	uint64_t n;

	return port.len == 0 || (port.len <= 5 && sl_parse_u64_max(port, 65535, &n) == 0);
}

/* IP-literal [ ":" port ]; between the brackets only the alphabet is checked. */
static bool ip_literal_ok(struct sl_span a)
{
	size_t i = 1;

	while (i < a.len && (sl_http_is(a.ptr[i], SL_CT_HEX) || a.ptr[i] == ':' || a.ptr[i] == '.'))
		i++;
	if (i == a.len || a.ptr[i] != ']' || i < 3)
		return false;
	a = sl_span_skip(a, i + 1);
	return a.len == 0 || (a.ptr[0] == ':' && port_ok(sl_span_skip(a, 1)));
}

/* uri-host [ ":" port ] without userinfo, RFC 9110 4.2.4, 7.2. Empty is accepted. */
bool sl_http1_authority_ok(struct sl_span a)
{
	const uint8_t *end;
	size_t n;

	if (!a.len)
		return true;
	if (a.ptr[0] == '[')
		return ip_literal_ok(a);
	end = sl_scan_table(a.ptr, a.ptr + a.len, SL_CT_HOST);
	n = (size_t)(end - a.ptr);
	if (n == 0)
		return false;
	return n == a.len || (*end == ':' && port_ok(sl_span_skip(a, n + 1)));
}

static void split_query(struct sl_span target, struct sl_request *rq)
{
	const uint8_t *mark = target.len ? memchr(target.ptr, '?', target.len) : NULL;

	rq->path = target;
	if (mark) {
		rq->path.len = (size_t)(mark - target.ptr);
		rq->query = sl_span_skip(target, rq->path.len + 1);
	}
}

/* RFC 9112 3.2.2 */
static bool absolute_target(struct sl_span target, struct sl_http1_head *head)
{
	static const struct sl_span http = SL_SPAN_LIT("http://"), https = SL_SPAN_LIT("https://");
	struct sl_span rest;
	size_t n = 0;

	if (sl_span_eq_nocase(sl_span_first(target, http.len), http))
		rest = sl_span_skip(target, http.len);
	else if (sl_span_eq_nocase(sl_span_first(target, https.len), https))
		rest = sl_span_skip(target, https.len);
	else
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	while (n < rest.len && rest.ptr[n] != '/' && rest.ptr[n] != '?')
		n++;
	head->rq.authority = sl_span_first(rest, n);
	head->seen |= SEEN_AUTHORITY;
	if (n == 0 || !sl_http1_authority_ok(head->rq.authority))
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	split_query(sl_span_skip(rest, n), &head->rq);
	if (!head->rq.path.len) /* RFC 9112 3.2.4: OPTIONS without a path */
		head->rq.path = head->rq.method == SL_METHOD_OPTIONS && n == rest.len
					? sl_span_str("*")
					: sl_span_str("/");
	return true;
}

bool sl_http1_target(struct sl_span target, struct sl_http1_head *head)
{
	if (head->rq.method == SL_METHOD_CONNECT || head->rq.method == SL_METHOD_TRACE)
		return sl_http1_refuse(head, 405, SL_FRONT_ERR_METHOD);
	if (target.ptr[0] == '/') {
		split_query(target, &head->rq);
		return true;
	}
	if (target.len == 1 && target.ptr[0] == '*') {
		if (head->rq.method != SL_METHOD_OPTIONS)
			return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
		head->rq.path = target;
		return true;
	}
	return absolute_target(target, head);
}

static bool field_host(struct sl_span v, struct sl_http1_head *head)
{
	if ((head->seen & SEEN_HOST) || !sl_http1_authority_ok(v))
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	head->seen |= SEEN_HOST;
	head->host = v;
	return true;
}

/* Refuses repeated, even equal lengths (stricter than RFC 9112 6.3). */
static bool field_length(struct sl_span v, struct sl_http1_head *head)
{
	int err = sl_parse_u64(v, &head->rq.content_length);

	if ((head->seen & SEEN_LENGTH) || err == -EINVAL)
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
	if (err || head->rq.content_length == SL_LEN_UNKNOWN)
		return sl_http1_refuse(head, 413, SL_FRONT_ERR_BODY_TOO_LARGE);
	head->seen |= SEEN_LENGTH;
	return true;
}

/*
 * Another coding before "chunked" gives 501 (RFC 9112 6.1). Empty list elements (RFC 9110 5.6.1.2)
 * are refused: llhttp and others do not take "chunked," for chunked.
 */
static bool field_coding(struct sl_span v, struct sl_http1_head *head)
{
	struct sl_span coding;
	bool unknown = false;

	if (head->seen & SEEN_CODING)
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
	head->seen |= SEEN_CODING;
	if (v.len && v.ptr[v.len - 1] == ',')
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
	while (sl_span_next_element(&v, &coding)) {
		const uint8_t *end =
			sl_scan_table(coding.ptr, coding.ptr + coding.len, SL_CT_TOKEN);

		if (head->chunked || !coding.len || end != coding.ptr + coding.len)
			return sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
		if (sl_span_eq_nocase(coding, sl_span_str("chunked")))
			head->chunked = true;
		else
			unknown = true;
	}
	if (unknown)
		return sl_http1_refuse(head, 501, SL_FRONT_ERR_UNKNOWN_CODING);
	return head->chunked || sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
}

static bool field_connection(struct sl_span v, struct sl_http1_head *head)
{
	struct sl_span option;

	while (sl_span_next_element(&v, &option)) {
		if (sl_span_eq_nocase(option, sl_span_str("close")))
			head->seen |= SEEN_CLOSE;
		else if (sl_span_eq_nocase(option, sl_span_str("keep-alive")))
			head->seen |= SEEN_KEEP_ALIVE;
		else if (sl_span_eq_nocase(option, sl_span_str("upgrade")))
			head->seen |= SEEN_UPGRADE;
	}
	return true;
}

static bool field_te(struct sl_span v, struct sl_http1_head *head)
{
	struct sl_span e;

	while (sl_span_next_element(&v, &e))
		head->trailers |= sl_span_eq_nocase(e, sl_span_str("trailers"));
	return true;
}

/* RFC 9110 10.1.1 */
static bool field_expect(struct sl_span v, struct sl_http1_head *head)
{
	if (head->minor == 0)
		return true;
	if (!sl_span_eq_nocase(v, sl_span_str("100-continue")))
		return sl_http1_refuse(head, 417, SL_FRONT_ERR_BAD_REQUEST);
	head->seen |= SEEN_EXPECT;
	return true;
}

/* RFC 9218 4.2: the last valid "i". */
static void read_incremental(struct sl_span e, struct sl_http1_head *head)
{
	struct sl_span v = sl_span_skip(e, 1);

	if (!v.len || v.ptr[0] == ';')
		head->incremental = true;
	else if (v.len >= 3 && !memcmp(v.ptr, "=?", 2) && (v.len == 3 || v.ptr[3] == ';') &&
		 (v.ptr[2] == '0' || v.ptr[2] == '1'))
		head->incremental = v.ptr[2] == '1';
}

/* RFC 9218 4.1: the last valid "u" of 0 to 7. */
static bool field_priority(struct sl_span v, struct sl_http1_head *head)
{
	struct sl_span e;

	while (sl_span_next_element(&v, &e)) {
		if (e.len && e.ptr[0] == 'i')
			read_incremental(e, head);
		if (e.len < 3 || e.ptr[0] != 'u' || e.ptr[1] != '=' || e.ptr[2] < '0' ||
		    e.ptr[2] > '7')
			continue;
		if (e.len == 3 || e.ptr[3] == ';')
			head->rq.urgency = (int8_t)(e.ptr[2] - '0');
	}
	return true;
}

bool sl_http1_field(const struct sl_header *f, struct sl_http1_head *head)
{
	switch (f->name.len) {
	case 2: return !sl_span_eq_nocase(f->name, sl_span_str("te")) || field_te(f->value, head);
	case 4: return !SL_NAME_IS(f->name, "host") || field_host(f->value, head);
	case 6: return !SL_NAME_IS(f->name, "expect") || field_expect(f->value, head);
	case 7:
		if (SL_NAME_IS(f->name, "upgrade") && !head->rq.upgrade.len)
			head->rq.upgrade = f->value;
		return true;
	case 8: return !SL_NAME_IS(f->name, "priority") || field_priority(f->value, head);
	case 10: return !SL_NAME_IS(f->name, "connection") || field_connection(f->value, head);
	case 12:
		if (SL_NAME_IS(f->name, "content-type") && !head->rq.content_type.len)
			head->rq.content_type = f->value;
		return true;
	case 14: return !SL_NAME_IS(f->name, "content-length") || field_length(f->value, head);
	case 17: return !SL_NAME_IS(f->name, "transfer-encoding") || field_coding(f->value, head);
	default: return true;
	}
}

bool sl_http1_framing(struct sl_http1_head *head)
{
	struct sl_request *rq = &head->rq;

	if (head->minor == 1 && !(head->seen & SEEN_HOST)) /* RFC 9112 3.2 */
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	/* RFC 9112 6.1: an attack */
	if ((head->seen & SEEN_CODING) && ((head->seen & SEEN_LENGTH) || head->minor == 0))
		return sl_http1_refuse(head, 400, SL_FRONT_ERR_SMUGGLING);
	if (!(head->seen & SEEN_AUTHORITY))
		rq->authority = head->host;
	rq->end = !head->chunked && (!(head->seen & SEEN_LENGTH) || rq->content_length == 0);
	head->keep_alive =
		!(head->seen & SEEN_CLOSE) && (head->minor == 1 || (head->seen & SEEN_KEEP_ALIVE));
	rq->expect = (head->seen & SEEN_EXPECT) && !rq->end;
	if (!(head->seen & SEEN_UPGRADE) || head->minor == 0 || !rq->end ||
	    rq->method != SL_METHOD_GET)
		rq->upgrade = (struct sl_span){0};
	return true;
}
