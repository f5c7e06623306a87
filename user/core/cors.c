/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "core/exchange.h"

static struct sl_span find_field(const struct sl_request *rq, struct sl_span name)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, name))
			return rq->headers[i].value;
	}
	return sl_span_of(NULL, 0);
}

enum sl_method sl_cors_asked(const struct sl_request *rq)
{
	static const struct sl_span method = SL_SPAN_LIT("access-control-request-method");
	static const struct sl_span origin = SL_SPAN_LIT("origin");

	if (rq->method != SL_METHOD_OPTIONS || !find_field(rq, origin).len)
		return SL_METHOD_OTHER;
	return sl_method_parse(find_field(rq, method));
}

void sl_cors_begin(struct sl_exchange *x, const struct sl_cfg_cors *cors,
		   const struct sl_request *rq)
{
	const struct sl_span origin = find_field(rq, sl_span_str("origin"));

	x->cors = cors;
	for (uint32_t i = 0; i < cors->origin_cnt && origin.len; i++) {
		if (cors->origins[i][0] == '*' ||
		    sl_span_eq(origin, sl_span_cstr(cors->origins[i])))
			x->cors_origin = (uint8_t)(i + 1);
	}
}

/* Removes the backend's Access-Control fields, which could allow more. */
static void drop_fields(struct sl_reply_parts *out)
{
	static const struct sl_span prefix = SL_SPAN_LIT("access-control-");
	uint32_t n = 0;

	for (uint32_t i = 0; i < out->reply.header_cnt; i++) {
		if (!sl_span_eq_nocase(sl_span_first(out->headers[i].name, prefix.len), prefix))
			out->headers[n++] = out->headers[i];
	}
	out->reply.header_cnt = n;
}

static bool add_field(struct sl_reply_parts *out, struct sl_span name, const char *value)
{
	if (!value)
		return true;
	if (out->reply.header_cnt == SL_ARRAY_LEN(out->headers))
		return false;
	out->headers[out->reply.header_cnt++] = (struct sl_header){name, sl_span_cstr(value)};
	return true;
}

static bool add_preflight(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	const struct sl_cfg_cors *c = x->cors;
	char *age = x->core->limit_texts[1];

	snprintf(age, SL_QUOTA_FIELD, "%" PRIu64, c->max_age_ns / SL_NS_PER_SEC);
	return add_field(out, sl_span_str("access-control-allow-methods"), c->methods) &&
	       add_field(out, sl_span_str("access-control-allow-headers"), c->headers) &&
	       add_field(out, sl_span_str("access-control-max-age"), age);
}

bool sl_cors_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	const struct sl_cfg_cors *c = x->cors;
	const bool preflight = x->outcome == SL_OUTCOME_PREFLIGHT;
	bool ok = true;

	drop_fields(out);
	out->reply.headers = out->headers;
	/* Caches must not give one origin's reply to another. */
	if (c->origins[0][0] != '*')
		ok = add_field(out, sl_span_str("vary"), "Origin");
	if (!x->cors_origin)
		return ok;
	ok = ok && add_field(out, sl_span_str("access-control-allow-origin"),
			     c->origins[x->cors_origin - 1]);
	if (c->credentials)
		ok = ok && add_field(out, sl_span_str("access-control-allow-credentials"), "true");
	if (preflight)
		return ok && add_preflight(x, out);
	return ok && add_field(out, sl_span_str("access-control-expose-headers"), c->expose);
}
