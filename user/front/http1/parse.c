/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9112 2 to 5. An incomplete head is parsed again with more bytes. */
#include "base/cpu.h"
#include "front/http1/http1.h"
#include "http/scan.h"

enum http1_step { STEP_OK, STEP_PARTIAL, STEP_REFUSED };

struct http1_cursor {
	const uint8_t *lo, *p, *end;
};

static enum http1_step refuse_head(struct sl_http1_head *head, unsigned status,
				   enum sl_front_error error)
{
	sl_http1_refuse(head, status, error);
	return STEP_REFUSED;
}

static struct sl_span span_between(const uint8_t *from, const uint8_t *to)
{
	return sl_span_of(from, (size_t)(to - from));
}

/* A bare CR or LF ends a line for some recipients only: refused. */
static enum http1_step take_crlf(struct http1_cursor *c, struct sl_http1_head *head)
{
	if (c->p == c->end)
		return STEP_PARTIAL;
	if (*c->p != '\r')
		return refuse_head(head, 400,
				   *c->p == '\n' ? SL_FRONT_ERR_SMUGGLING
						 : SL_FRONT_ERR_BAD_REQUEST);
	if (c->p + 1 == c->end)
		return STEP_PARTIAL;
	if (c->p[1] != '\n')
		return refuse_head(head, 400, SL_FRONT_ERR_SMUGGLING);
	c->p += 2;
	return STEP_OK;
}

static enum http1_step take_method(struct http1_cursor *c, struct sl_http1_head *head)
{
	const uint8_t *from = c->p;
	struct sl_span name;

	c->p = sl_scan_table(from, c->end, SL_CT_TOKEN);
	name = span_between(from, c->p);
	if (name.len > SL_HTTP1_METHOD_MAX)
		return refuse_head(head, 501, SL_FRONT_ERR_METHOD);
	if (c->p == c->end)
		return STEP_PARTIAL;
	if (*c->p != ' ' || name.len == 0)
		return refuse_head(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	head->rq.method_name = name;
	head->rq.method = (uint8_t)sl_method_parse(name);
	c->p++;
	return STEP_OK;
}

static enum http1_step take_version(struct http1_cursor *c, struct sl_http1_head *head)
{
	static const uint8_t name[] = "HTTP/0.0", usual[] = "HTTP/1.1";
	const uint8_t *p = c->p;

	if (sl_likely(c->end - p >= 8 && memcmp(p, usual, 8) == 0)) {
		head->minor = 1;
		c->p = p + 8;
		return STEP_OK;
	}
	for (unsigned i = 0; i < sizeof(name) - 1; i++, p++) {
		if (p == c->end)
			return STEP_PARTIAL;
		if (name[i] == '0' ? *p < '0' || *p > '9' : *p != name[i])
			return refuse_head(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	}
	head->minor = (uint8_t)(p[-1] - '0');
	if (p[-3] != '1' || head->minor > 1)
		return refuse_head(head, 505, SL_FRONT_ERR_VERSION);
	c->p = p;
	return STEP_OK;
}

static enum http1_step request_line(struct http1_cursor *c, struct sl_http1_head *head)
{
	struct sl_span target;
	const uint8_t *from;
	enum http1_step step = take_method(c, head);

	if (step != STEP_OK)
		return step;
	from = c->p;
	c->p = sl_scan_target(from, c->lo, c->end);
	if (c->p == c->end)
		return STEP_PARTIAL;
	if (*c->p != ' ' || c->p == from)
		return refuse_head(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	target = span_between(from, c->p);
	c->p++;
	step = take_version(c, head);
	if (step == STEP_OK)
		step = take_crlf(c, head);
	if (step != STEP_OK)
		return step;
	return sl_http1_target(target, head) ? STEP_OK : STEP_REFUSED;
}

static enum http1_step limited_request_line(struct http1_cursor *c,
					    const struct sl_front_limits *limits,
					    struct sl_http1_head *head)
{
	const uint8_t *end = c->end;
	size_t max = (size_t)limits->max_target + 2;
	enum http1_step step;

	if ((size_t)(end - c->p) > max)
		c->end = c->p + max;
	else
		max = SIZE_MAX;
	step = request_line(c, head);
	if (step == STEP_PARTIAL && (max != SIZE_MAX || (size_t)(end - c->lo) >= limits->max_head))
		return refuse_head(head, 414, SL_FRONT_ERR_TARGET_TOO_LONG);
	c->end = end;
	return step;
}

/* field-name ":" OWS field-value OWS CRLF, RFC 9112 5.1, 5.2. */
static enum http1_step field_line(struct http1_cursor *c, struct sl_header *out,
				  struct sl_http1_head *head)
{
	const uint8_t *from = c->p, *to;
	const uint8_t *p = sl_scan_token(from, c->lo, c->end);
	enum http1_step step;

	if (p == c->end)
		return STEP_PARTIAL;
	if (sl_unlikely(*p != ':' || p == from)) {
		bool blank = *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n';

		/* No token before a colon: obs-fold, a blank, or a truncated line. */
		return refuse_head(head, 400,
				   blank ? SL_FRONT_ERR_SMUGGLING : SL_FRONT_ERR_BAD_REQUEST);
	}
	out->name = span_between(from, p);
	do {
		p++;
	} while (p < c->end && (*p == ' ' || *p == '\t'));
	from = p;
	p = sl_scan_value(from, c->lo, c->end);
	c->p = p;
	step = take_crlf(c, head);
	if (sl_unlikely(step != STEP_OK))
		return step;
	for (to = p; to > from && (to[-1] == ' ' || to[-1] == '\t');)
		to--;
	out->value = span_between(from, to);
	return STEP_OK;
}

static enum http1_step field_section(struct http1_cursor *c, const struct sl_front_limits *limits,
				     struct sl_http1_head *head, bool of_head)
{
	uint32_t max = limits->max_headers < SL_HTTP1_HEADERS_MAX ? limits->max_headers
								  : SL_HTTP1_HEADERS_MAX;
	uint32_t n = 0;
	enum http1_step step;

	while (c->p < c->end && *c->p != '\r') {
		if (n == max)
			return refuse_head(head, 431, SL_FRONT_ERR_HEAD_TOO_LARGE);
		step = field_line(c, &head->headers[n], head);
		if (step != STEP_OK)
			return step;
		if (of_head && !sl_http1_field(&head->headers[n], head))
			return STEP_REFUSED;
		n++;
	}
	head->rq.header_cnt = n;
	return take_crlf(c, head);
}

ssize_t sl_http1_parse(struct sl_span in, const struct sl_front_limits *limits,
		       struct sl_http1_head *head)
{
	struct sl_span view = sl_span_first(in, limits->max_head);
	struct http1_cursor c = {.lo = view.ptr, .p = view.ptr, .end = view.ptr + view.len};
	enum http1_step step = STEP_OK;

	memset(&head->rq, 0, sizeof(head->rq));
	head->rq.proto = SL_PROTO_HTTP1;
	head->rq.urgency = -1;
	head->rq.content_length = SL_LEN_UNKNOWN;
	head->rq.headers = head->headers;
	head->chunked = false;
	head->keep_alive = false;
	head->trailers = false;
	head->minor = 1;
	head->status = 0;
	head->error = 0;
	head->seen = 0;
	head->host = sl_span_of(NULL, 0);
	/* RFC 9112 2.2 */
	if (view.len && *c.p == '\r')
		step = take_crlf(&c, head);
	if (step == STEP_OK)
		step = limited_request_line(&c, limits, head);
	if (step == STEP_OK)
		step = field_section(&c, limits, head, true);
	if (step == STEP_PARTIAL) {
		if (view.len < limits->max_head)
			return 0;
		step = refuse_head(head, 431, SL_FRONT_ERR_HEAD_TOO_LARGE);
	}
	if (step == STEP_REFUSED || !sl_http1_framing(head))
		return -1;
	return c.p - c.lo;
}

ssize_t sl_http1_trailers(struct sl_span in, const struct sl_front_limits *limits,
			  struct sl_http1_head *head)
{
	struct sl_span view = sl_span_first(in, limits->max_head);
	struct http1_cursor c = {.lo = view.ptr, .p = view.ptr, .end = view.ptr + view.len};
	enum http1_step step = field_section(&c, limits, head, false);

	if (step == STEP_PARTIAL && view.len == limits->max_head)
		step = refuse_head(head, 431, SL_FRONT_ERR_HEAD_TOO_LARGE);
	if (step == STEP_REFUSED)
		return -1;
	return step == STEP_OK ? c.p - c.lo : 0;
}
