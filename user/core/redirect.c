/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"
#include "core/router.h"

enum { LOCATION_MAX = 8192 };

struct redirect_text {
	char *at, *end;
	bool full;
};

static void put_span(struct redirect_text *t, struct sl_span s)
{
	t->full |= s.len > (size_t)(t->end - t->at);
	if (t->full || !s.len)
		return;
	memcpy(t->at, s.ptr, s.len);
	t->at += s.len;
}

static void put_encoded(struct redirect_text *t, struct sl_span s)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.len; i++) {
		uint8_t c = s.ptr[i];
		char code[3] = {'%', digits[c >> 4], digits[c & 15]};

		if (c >= 0x80 || strchr("\"<>\\^`{|}", c))
			put_span(t, sl_span_of(code, sizeof(code)));
		else
			put_span(t, sl_span_of(&s.ptr[i], 1));
	}
}

static bool is_host(struct sl_span host)
{
	for (size_t i = 0; i < host.len; i++) {
		uint8_t c = host.ptr[i];

		if (c <= ' ' || c >= 0x7f || strchr("/?#@\\\"<>^`{|}", c))
			return false;
	}
	return host.len > 0;
}

enum sl_outcome sl_redirect_encode(struct sl_exchange *x, const struct sl_request *rq)
{
	SL_UNINIT char location[LOCATION_MAX];
	struct redirect_text t = {.at = location, .end = location + sizeof(location)};
	struct sl_span left = sl_span_cstr(x->route->redirect);
	const struct sl_span host = sl_span_str("{host}"), path = sl_span_str("{path}");
	size_t len;

	if (!is_host(sl_router_host(rq->authority)))
		return SL_OUTCOME_HOST;
	while (left.len) {
		if (sl_span_starts(left, host)) {
			put_span(&t, sl_router_host(rq->authority));
			left = sl_span_skip(left, host.len);
		} else if (sl_span_starts(left, path)) {
			put_encoded(&t, rq->path);
			if (rq->query.len) {
				put_span(&t, sl_span_str("?"));
				put_encoded(&t, rq->query);
			}
			left = sl_span_skip(left, path.len);
		} else {
			put_span(&t, sl_span_first(left, 1));
			left = sl_span_skip(left, 1);
		}
	}
	len = (size_t)(t.at - location);
	if (t.full || sl_store_copy(&x->tail, x->core->net->umem, location, len) != len)
		return SL_OUTCOME_NO_MEMORY;
	return SL_OUTCOME_FIXED;
}
