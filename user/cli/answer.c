/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"

#include <stdlib.h>
#include <string.h>

#include "front/http1/http1.h"
#include "origin/h1_reply.h"

static const struct sl_front_limits no_limits = {.max_body = UINT64_MAX / 2,
						 .max_head = ORIGIN_HEAD_MAX};

/* Returns the number of bytes, or -1 without an end. */
static ssize_t join_chunks(struct sl_span in, char *to)
{
	struct sl_http1_chunked c = {0};
	size_t len = 0, n;
	unsigned wrong = 0;

	while (in.len && !wrong && c.state != SL_CHUNKED_DONE) {
		in = sl_span_skip(in, sl_http1_chunked_next(&c, in, &no_limits, &wrong));
		if (wrong || c.state != SL_CHUNKED_DATA)
			continue;
		n = c.left < in.len ? (size_t)c.left : in.len;
		memcpy(to + len, in.ptr, n);
		len += n;
		c.left -= n;
		in = sl_span_skip(in, n);
	}
	return c.state == SL_CHUNKED_DONE ? (ssize_t)len : -1;
}

static ssize_t take_body(const struct origin_h1_reply *r, struct sl_span in, bool ended, char *to)
{
	switch (r->body) {
	case ORIGIN_NO_BODY: return 0;
	case ORIGIN_CHUNKS: return join_chunks(in, to);
	case ORIGIN_LENGTH:
		if (in.len < r->length)
			return -1;
		in.len = (size_t)r->length;
		break;
	default:
		if (!ended)
			return -1;
		break;
	}
	if (in.len)
		memcpy(to, in.ptr, in.len);
	return (ssize_t)in.len;
}

int cli_answer_take(struct sl_span text, bool ended, char **body, struct sl_err *err)
{
	static struct origin_h1_reply r;
	ssize_t head = origin_h1_head(text, false, &r), len = -1;

	*body = NULL;
	if (head < 0)
		return sl_fail(err, -1, "the answer is no HTTP: %s", r.wrong);
	if (head > 0) {
		text = sl_span_skip(text, (size_t)head);
		*body = malloc(text.len + 1);
		if (!*body)
			return sl_fail(err, -1, "out of memory");
		len = take_body(&r, text, ended, *body);
	}
	if (len >= 0) {
		(*body)[len] = 0;
		return r.status;
	}
	free(*body);
	*body = NULL;
	return sl_fail(err, -1, "the answer is cut short");
}
