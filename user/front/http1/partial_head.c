/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mempool.h"
#include "front/http1/conn.h"
#include "http/scan.h"

static struct sl_frame *take_frame(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_frame *f;

	if (sl_umem_low(env->umem) || !env->cb->hold(h->conn, 1))
		return NULL;
	f = sl_frame_get(env->umem, SL_FRAME_HELD, 0);
	if (!f)
		env->cb->hold(h->conn, -1);
	return f;
}

static void put_frame(struct http1 *h, const struct sl_front_env *env)
{
	sl_frame_put(env->umem, h->part.frame);
	env->cb->hold(h->conn, -1);
}

void sl_http1_drop_part(struct http1 *h, const struct sl_front_env *env)
{
	if (!h->part_len)
		return;
	if (h->flags & CONN_POOLED)
		sl_front_head_put(env, h->part.buf);
	else
		put_frame(h, env);
	h->part.buf = NULL;
	h->part_len = 0;
	h->flags &= (uint8_t)~CONN_POOLED;
}

void sl_http1_keep_id(struct http1 *h, const struct sl_front_env *env, struct sl_span id)
{
	h->part.frame = take_frame(h, env);
	if (!h->part.frame)
		return;
	memcpy(h->part.frame->data, id.ptr, id.len);
	h->part_len = (uint32_t)id.len;
}

static struct sl_mspan part_space(struct http1 *h, const struct sl_front_env *env)
{
	size_t max = env->limits->max_head, cap = env->umem->frame_size;

	if (cap > max)
		cap = max;
	if (!h->part_len) {
		h->part.frame = take_frame(h, env);
		if (h->part.frame)
			return sl_mspan_of(h->part.frame->data, cap);
		sl_http1_refuse_request(h, env, NULL, 503, SL_FRONT_ERR_NO_FRAME);
		return sl_mspan_of(NULL, 0);
	}
	if (!(h->flags & CONN_POOLED) && h->part_len == cap) {
		uint8_t *buf = env->heads ? sl_front_head_get(env, h->conn) : NULL;

		if (!buf) {
			sl_http1_refuse_request(h, env, NULL, env->heads ? 503 : 431,
						env->heads ? SL_FRONT_ERR_NO_FRAME
							   : SL_FRONT_ERR_HEAD_TOO_LARGE);
			return sl_mspan_of(NULL, 0);
		}
		memcpy(buf, h->part.frame->data, h->part_len);
		put_frame(h, env);
		h->part.buf = buf;
		h->flags |= CONN_POOLED;
	}
	if (h->flags & CONN_POOLED)
		return sl_mspan_of(h->part.buf, max);
	return sl_mspan_of(h->part.frame->data, cap);
}

static bool worth_parsing(const struct sl_front_limits *limits, struct sl_span part, size_t old)
{
	size_t line = (size_t)limits->max_target + 2;
	const uint8_t *end = part.ptr + part.len;
	const uint8_t *p = part.ptr + old;

	if (part.len >= limits->max_head || (old < line && part.len >= line))
		return true;
	while ((p = sl_scan_value(p, part.ptr, end)) < end && *p == '\r')
		p++;
	return p < end; /* LF ends a line; other bytes are invalid */
}

struct sl_span sl_http1_keep_part(struct http1 *h, const struct sl_front_env *env,
				  const uint8_t *ptr, size_t *len)
{
	size_t old = h->part_len;
	struct sl_mspan space = part_space(h, env);
	struct sl_span part;

	if (!space.len)
		return sl_span_of(NULL, 0);
	if (*len > space.len - old)
		*len = space.len - old;
	memcpy(space.ptr + old, ptr, *len);
	part = sl_span_of(space.ptr, old + *len);
	h->part_len = (uint32_t)part.len;
	return old && worth_parsing(env->limits, part, old) ? part : sl_span_of(NULL, 0);
}
