/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/h1_reply.h"

#include "base/num.h"
#include "front/http1/http1.h"
#include "http/scan.h"

struct origin_head_cursor {
	const uint8_t *lo, *p, *end;
	const char *wrong;
};

enum origin_head_step { STEP_OK, STEP_PARTIAL, STEP_REFUSED };

static enum origin_head_step refuse_head(struct origin_head_cursor *c, const char *why)
{
	c->wrong = why;
	return STEP_REFUSED;
}

/* Refuses a bare CR or LF, which recipients read differently. */
static enum origin_head_step take_crlf(struct origin_head_cursor *c)
{
	if (c->p == c->end)
		return STEP_PARTIAL;
	if (*c->p != '\r')
		return refuse_head(c, "a line does not end with CR LF");
	if (c->p + 1 == c->end)
		return STEP_PARTIAL;
	if (c->p[1] != '\n')
		return refuse_head(c, "a CR without LF");
	c->p += 2;
	return STEP_OK;
}

/* Pattern: 'v' is the minor version, 's' a digit of the status. */
static enum origin_head_step status_line(struct origin_head_cursor *c, struct origin_h1_reply *out)
{
	static const char form[] = "HTTP/1.v sss";
	unsigned status = 0;

	for (const char *f = form; *f; f++, c->p++) {
		if (c->p == c->end)
			return STEP_PARTIAL;
		if (*f == 's' && *c->p >= '0' && *c->p <= '9')
			status = status * 10 + (unsigned)(*c->p - '0');
		else if (*f == 'v' && (*c->p == '0' || *c->p == '1'))
			out->minor = (uint8_t)(*c->p - '0');
		else if (*f == 's' || *f == 'v' || *c->p != (uint8_t)*f)
			return refuse_head(c, "no status line of HTTP/1.0 or 1.1");
	}
	out->status = (uint16_t)status;
	if (status < 100 || status > 599)
		return refuse_head(c, "a status that is none");
	if (c->p == c->end)
		return STEP_PARTIAL;
	if (*c->p == ' ') {
		const uint8_t *from = ++c->p;

		c->p = sl_scan_value(from, c->lo, c->end);
		out->reason = sl_span_of(from, (size_t)(c->p - from));
	}
	return take_crlf(c);
}

/* field-line = field-name ":" OWS field-value OWS CRLF; RFC 9112 5.1, 5.2 */
static enum origin_head_step field_line(struct origin_head_cursor *c, struct sl_header *h)
{
	const uint8_t *from = c->p, *to, *p = sl_scan_token(from, c->lo, c->end);
	enum origin_head_step step;

	if (p == c->end)
		return STEP_PARTIAL;
	if (*p != ':' || p == from)
		return refuse_head(c, "a line that is no field");
	h->name = sl_span_of(from, (size_t)(p - from));
	do {
		p++;
	} while (p < c->end && (*p == ' ' || *p == '\t'));
	from = p;
	c->p = sl_scan_value(from, c->lo, c->end);
	to = c->p;
	step = take_crlf(c);
	while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
		to--;
	h->value = sl_span_of(from, (size_t)(to - from));
	return step;
}

static enum origin_head_step parse_fields(struct origin_head_cursor *c, struct origin_fields *out)
{
	enum origin_head_step step;

	out->cnt = 0;
	while (c->p < c->end && *c->p != '\r') {
		if (out->cnt == ORIGIN_FIELDS_MAX)
			return refuse_head(c, "more fields than max_reply_fields can allow");
		step = field_line(c, &out->at[out->cnt]);
		if (step != STEP_OK)
			return step;
		out->cnt++;
	}
	return take_crlf(c);
}

static ssize_t head_result(const struct origin_head_cursor *c, enum origin_head_step step,
			   const char **wrong)
{
	*wrong = c->wrong;
	if (step == STEP_PARTIAL && c->end - c->lo < ORIGIN_HEAD_MAX)
		return 0;
	if (step == STEP_PARTIAL)
		*wrong = "fields of more bytes than max_reply_head can allow";
	return step == STEP_OK ? c->p - c->lo : -1;
}

ssize_t origin_h1_fields(struct sl_span in, struct origin_fields *out, const char **wrong)
{
	struct sl_span view = sl_span_first(in, ORIGIN_HEAD_MAX);
	struct origin_head_cursor c = {.lo = view.ptr, .p = view.ptr, .end = view.ptr + view.len};
	enum origin_head_step step = parse_fields(&c, out);

	return head_result(&c, step, wrong);
}

enum { SEEN_LENGTH = 1 << 0, SEEN_CODING = 1 << 1, SEEN_CLOSE = 1 << 2, SEEN_KEEP = 1 << 3 };

static const char *take_length(struct sl_span list, struct origin_h1_reply *out, unsigned *seen)
{
	bool cut = list.len && list.ptr[list.len - 1] == ',';
	struct sl_span e;
	uint64_t length;

	do {
		if (cut || !sl_span_next_element(&list, &e) || sl_parse_u64(e, &length) ||
		    length == SL_LEN_UNKNOWN)
			return "a Content-Length that is no length";
		if (*seen & SEEN_LENGTH && length != out->length)
			return "two Content-Lengths that differ";
		*seen |= SEEN_LENGTH;
		out->length = length;
	} while (list.len);
	return NULL;
}

static const char *look_at(const struct sl_header *h, struct origin_h1_reply *out, unsigned *seen)
{
	struct sl_span options = h->value, e;

	if (h->name.len == 14 && SL_NAME_IS(h->name, "content-length")) {
		return take_length(h->value, out, seen);
	} else if (h->name.len == 17 && SL_NAME_IS(h->name, "transfer-encoding")) {
		if (*seen & SEEN_CODING)
			return "Transfer-Encoding twice";
		*seen |= SEEN_CODING;
		if (!sl_span_eq_nocase(h->value, sl_span_str("chunked")))
			return "a Transfer-Encoding other than chunked";
	} else if (h->name.len == 10 && SL_NAME_IS(h->name, "connection")) {
		while (sl_span_next_element(&options, &e)) {
			if (sl_span_eq_nocase(e, sl_span_str("close")))
				*seen |= SEEN_CLOSE;
			else if (sl_span_eq_nocase(e, sl_span_str("keep-alive")))
				*seen |= SEEN_KEEP;
		}
	}
	return NULL;
}

/* RFC 9112 6.1 to 6.3, without its leniency for old software. */
static const char *decide_framing(struct origin_h1_reply *out, unsigned seen, bool to_head)
{
	bool coded = seen & SEEN_CODING, bare = out->status < 200 || out->status == 204;
	bool announced = coded || ((seen & SEEN_LENGTH) && out->length);

	out->keep_alive = !(seen & SEEN_CLOSE) && (out->minor || (seen & SEEN_KEEP));
	if (out->status == 204 && announced)
		out->keep_alive = false;
	else if (out->status < 200 && announced)
		return "a body announced where there can be none";
	if (out->status == 304 && coded)
		out->keep_alive = false;
	if (out->status != 204 && out->status != 304) {
		if (coded && (seen & SEEN_LENGTH))
			return "both Content-Length and Transfer-Encoding";
		if (coded && out->minor == 0)
			return "Transfer-Encoding in HTTP/1.0";
	}
	if (bare || to_head || out->status == 304)
		out->body = ORIGIN_NO_BODY;
	else if (coded)
		out->body = ORIGIN_CHUNKS;
	else
		out->body = seen & SEEN_LENGTH ? ORIGIN_LENGTH : ORIGIN_UNTIL_CLOSE;
	if (out->body == ORIGIN_UNTIL_CLOSE)
		out->keep_alive = false;
	return NULL;
}

ssize_t origin_h1_head(struct sl_span in, bool to_head, struct origin_h1_reply *out)
{
	struct sl_span view = sl_span_first(in, ORIGIN_HEAD_MAX);
	struct origin_head_cursor c = {.lo = view.ptr, .p = view.ptr, .end = view.ptr + view.len};
	enum origin_head_step step;

	out->length = SL_LEN_UNKNOWN;
	out->reason = sl_span_of(NULL, 0);
	out->fields.cnt = 0;
	step = status_line(&c, out);
	if (step == STEP_OK)
		step = parse_fields(&c, &out->fields);
	if (step == STEP_OK) {
		const char *wrong = NULL;
		unsigned seen = 0;

		for (uint32_t i = 0; i < out->fields.cnt && !wrong; i++)
			wrong = look_at(&out->fields.at[i], out, &seen);
		c.wrong = wrong ? wrong : decide_framing(out, seen, to_head);
		step = c.wrong ? STEP_REFUSED : STEP_OK;
	}
	return head_result(&c, step, &out->wrong);
}

const char *origin_h1_upgrade(const struct origin_fields *f, struct sl_span asked,
			      const char *accept)
{
	bool agreed = false, keyed = !accept[0];

	for (uint32_t i = 0; i < f->cnt; i++) {
		struct sl_span name = f->at[i].name, value = f->at[i].value, left = asked, e;

		if (sl_span_eq_nocase(name, sl_span_str("upgrade"))) {
			agreed = false;
			while (sl_span_next_element(&left, &e))
				agreed |= sl_span_eq_nocase(e, value);
		} else if (accept[0] &&
			   sl_span_eq_nocase(name, sl_span_str("sec-websocket-accept"))) {
			keyed = sl_span_eq(value, sl_span_cstr(accept));
		}
	}
	if (!agreed)
		return "an upgrade that was not requested";
	return keyed ? NULL : "a wrong Sec-WebSocket-Accept";
}
