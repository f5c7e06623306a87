/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"
#include "base/tlv.h"

int sl_be_check_size(const void *given, size_t size, size_t known)
{
	const unsigned char *bytes = given;

	if (!size || size == known)
		return 0;
	if (size < known)
		return -EINVAL;
	for (size_t i = known; i < size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	return 0;
}

static void stats_now(const struct sl_backend *b, struct sl_backend_stats *out)
{
	*out = b->stats;
	for (unsigned i = 0; i < b->listener_cnt; i++)
		out->refused += b->listeners[i]->refused;
	out->channels = b->channel_cnt;
	out->open_requests = b->open_cnt;
}

void sl_be_stats_publish(struct sl_backend *b)
{
	if (b->opt.inline_handler)
		return;
	pthread_mutex_lock(&b->stats_lock);
	stats_now(b, &b->published);
	pthread_mutex_unlock(&b->stats_lock);
}

void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out)
{
	struct sl_backend_stats s;
	size_t size = out->size;

	if (b->opt.inline_handler) {
		stats_now(b, &s);
	} else {
		pthread_mutex_lock(&b->stats_lock);
		s = b->published;
		pthread_mutex_unlock(&b->stats_lock);
	}
	s.size = size;
	memcpy(out, &s, size < sizeof(s) ? size : sizeof(s));
}

static bool find_field(struct sl_span rest, uint16_t want, const char *name, const char **value,
		       size_t *value_len)
{
	size_t name_len = strlen(name);
	struct sl_span field;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &field)) {
		if (tag != want || field.len < 1 + name_len || field.ptr[0] != name_len ||
		    memcmp(field.ptr + 1, name, name_len) != 0)
			continue;
		*value = (const char *)field.ptr + 1 + name_len;
		*value_len = field.len - 1 - name_len;
		return true;
	}
	return false;
}

bool sl_request_header(const struct sl_request_view *rq, const char *name, const char **value,
		       size_t *value_len)
{
	return ((const struct request *)rq)->has_headers &&
	       find_field(sl_span_of(rq->meta, rq->meta_len), SL_META_HEADER, name, value,
			  value_len);
}

bool sl_request_trailer(const struct sl_request_view *rq, const char *name, const char **value,
			size_t *value_len)
{
	return find_field(sl_span_of(rq->trailers, rq->trailers_len), SL_META_TRAILER, name, value,
			  value_len);
}

bool sl_request_cancelled(const struct sl_request_view *view)
{
	const struct request *rq = (const struct request *)view;

	return atomic_load_explicit(&rq->gone, memory_order_relaxed) ||
	       (rq->deadline_ns != UINT64_MAX && sl_now_ns() >= rq->deadline_ns);
}
