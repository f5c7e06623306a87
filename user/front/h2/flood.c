/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked after nghttp2 has read the frames: it does not report all (ignored DATA, PRIORITY without
 * RFC 7540 priorities).
 */
#include "base/clock.h"
#include "front/h2/conn.h"

enum {
	BURST_S = 10,          /* seconds of the rates below, usable at once */
	CONTROLS = 10,         /* PING, SETTINGS and similar; multiple of resets */
	MAX_CONTINUATIONS = 8, /* after one HEADERS */
	RECENT = 64,
	PREFACE = 24,
	FRAME_HEAD = 9,
	PRIORITY_LEN = 5,
	DEPENDENCY = 4,
	PAD_LENGTH = 1,
	UPDATES_FREE = 10,
	UPDATES_MAX = 10 << 10,
	BEYOND = 16 << 10, /* dropped header bytes that cost one reset */
	BURST_BEYOND = 256 << 10,
	BURST_HEADS = 1 << 20,
	HEADS_MAX = 8, /* largest head; multiple of the head limit */
};

static bool bucket_take(struct h2_bucket *b, uint64_t now_ns, uint32_t per_s)
{
	uint64_t step = SL_NS_PER_SEC / (per_s ? per_s : 1);

	if (b->full_ns < now_ns)
		b->full_ns = now_ns;
	if (b->full_ns + step > now_ns + BURST_S * SL_NS_PER_SEC)
		return false;
	b->full_ns += step;
	return true;
}

static void bucket_return(struct h2_bucket *b, uint32_t per_s)
{
	uint64_t step = SL_NS_PER_SEC / (per_s ? per_s : 1);

	b->full_ns -= b->full_ns < step ? b->full_ns : step;
}

static void take_reset(struct h2_conn *c)
{
	if (!bucket_take(&c->resets, *c->front->now_ns, c->env->limits->max_resets_per_s))
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
}

void sl_h2_flood_credit(struct h2_conn *c)
{
	c->updates = c->updates < UPDATES_MAX ? c->updates + UPDATES_FREE : UPDATES_MAX;
}

static bool take_update(struct h2_conn *c)
{
	if (!c->updates)
		return false;
	c->updates--;
	return true;
}

static bool is_control(struct h2_conn *c, const nghttp2_frame_hd *hd, uint32_t padding)
{
	switch (hd->type) {
	case NGHTTP2_DATA: return hd->length <= padding && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_WINDOW_UPDATE: return !take_update(c);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION: return false;
	default: return true;
	}
}

static void charge_frame(struct h2_conn *c, const nghttp2_frame_hd *hd, uint32_t padding)
{
	uint32_t rate = c->env->limits->max_resets_per_s * CONTROLS;
	bool ok = true;

	if (hd->type == NGHTTP2_CONTINUATION)
		ok = ++c->continuations <= MAX_CONTINUATIONS;
	else
		c->continuations = 0;
	if (hd->type == NGHTTP2_HEADERS)
		sl_h2_flood_credit(c);
	if (is_control(c, hd, padding))
		ok = bucket_take(&c->controls, *c->front->now_ns, rate);
	if (!ok)
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
}

static uint64_t bit_of(struct h2_recent *r, const nghttp2_frame_hd *hd)
{
	uint32_t back;

	if (!(hd->stream_id & 1))
		return 0;
	if (hd->stream_id > r->top) {
		if (hd->type != NGHTTP2_HEADERS)
			return 0; /* idle stream: nghttp2 reports the error */
		back = ((uint32_t)hd->stream_id - (uint32_t)r->top) / 2;
		r->opened = back < RECENT ? r->opened << back : 0;
		r->over = back < RECENT ? r->over << back : 0;
		r->opened |= 1;
		r->top = hd->stream_id;
	}
	back = (uint32_t)(r->top - hd->stream_id) / 2;
	return back < RECENT ? UINT64_C(1) << back : 0;
}

static uint32_t stream_error(struct h2_recent *r, const nghttp2_frame_hd *hd)
{
	bool head = hd->type == NGHTTP2_HEADERS, part = head || hd->type == NGHTTP2_DATA;
	uint64_t bit = bit_of(r, hd);

	if (part && bit && !(r->opened & bit))
		return head ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED;
	if (part && (r->over & bit))
		return NGHTTP2_STREAM_CLOSED;
	if (hd->type == NGHTTP2_RST_STREAM || (part && (hd->flags & NGHTTP2_FLAG_END_STREAM)))
		r->over |= bit;
	return NGHTTP2_NO_ERROR;
}

void sl_h2_flood_open(struct h2_conn *c)
{
	c->recent.top = -1;
	c->walk.left = PREFACE;
}

void sl_h2_flood_reset(struct h2_conn *c, uint32_t code)
{
	switch (code) {
	case NGHTTP2_PROTOCOL_ERROR:
	case NGHTTP2_FLOW_CONTROL_ERROR:
	case NGHTTP2_STREAM_CLOSED:
	case NGHTTP2_FRAME_SIZE_ERROR:
	case NGHTTP2_ENHANCE_YOUR_CALM: take_reset(c); break;
	default: break;
	}
}

/* A reset wastes work only while the backend computes; later it costs a control frame. */
void sl_h2_flood_abandoned(struct h2_conn *c, const struct h2_stream *s)
{
	if (!s || (s->flags & ST_END_SENT) || ((s->flags & ST_LOCAL) && !(s->flags & ST_CALL)))
		return;
	if (s->deadline_ns && *c->front->now_ns >= s->deadline_ns)
		return;
	take_reset(c);
}

void sl_h2_flood_served(struct h2_conn *c)
{
	bucket_return(&c->resets, c->env->limits->max_resets_per_s);
}

/* `above`: the head limit. False: the share of this burst is used. */
static bool has_its_share(struct h2_conn *c, uint32_t len, bool above)
{
	struct h2_source *src = c->source;

	if (src->burst_ns != *c->front->now_ns) {
		src->burst_ns = *c->front->now_ns;
		src->beyond = src->heads = 0;
	}
	src->heads += len;
	if (above)
		src->beyond += len;
	if (src->beyond <= BURST_BEYOND && src->heads <= BURST_HEADS)
		return true;
	c->env->heads_put_off++;
	c->front->cb->later(c->conn);
	return false;
}

/*
 * HPACK can expand one byte to thousands: bytes above the head limit also count as resets, and
 * HEADS_MAX times the limit ends the connection.
 */
enum h2_verdict sl_h2_flood_field(struct h2_conn *c, size_t len)
{
	uint32_t max = c->env->limits->max_head;

	c->told += (uint32_t)len;
	if (c->told <= max)
		return has_its_share(c, (uint32_t)len, false) ? H2_GO_ON : H2_PAUSE;
	if (c->told / HEADS_MAX >= max)
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
	for (c->beyond += (uint32_t)len; c->beyond >= BEYOND; c->beyond -= BEYOND)
		take_reset(c);
	if (c->flags & H2_FAILED)
		return H2_END;
	return has_its_share(c, (uint32_t)len, true) ? H2_GO_ON : H2_PAUSE;
}

static uint32_t payload_wanted(const struct h2_walk *w)
{
	uint32_t len = sl_get_be24(w->head);

	if (w->head[3] == NGHTTP2_PRIORITY && len == PRIORITY_LEN)
		return DEPENDENCY;
	return w->head[3] == NGHTTP2_DATA && (w->head[4] & NGHTTP2_FLAG_PADDED) && len ? PAD_LENGTH
										       : 0;
}

static bool is_priority(const struct h2_walk *w)
{
	return w->have >= FRAME_HEAD && w->head[3] == NGHTTP2_PRIORITY &&
	       sl_get_be24(w->head) == PRIORITY_LEN;
}

/* RFC 7540 5.3.1; each word's first bit is a flag. */
static bool depends_on_itself(const struct h2_walk *w)
{
	uint32_t id = sl_get_be32(w->head + FRAME_HEAD - 4);
	uint32_t on = sl_get_be32(w->head + FRAME_HEAD);

	return !((id ^ on) << 1);
}

static void check_frame(struct h2_conn *c, const struct h2_walk *w)
{
	const nghttp2_frame_hd hd = {
		.length = sl_get_be24(w->head),
		.stream_id = (int32_t)(sl_get_be32(w->head + FRAME_HEAD - 4) & INT32_MAX),
		.type = w->head[3],
		.flags = w->head[4],
	};
	bool padded = hd.type == NGHTTP2_DATA && payload_wanted(w);
	uint32_t padding = padded ? PAD_LENGTH + (uint32_t)w->head[FRAME_HEAD] : 0;
	uint32_t error = stream_error(&c->recent, &hd);

	if (is_priority(w) && depends_on_itself(w))
		error = NGHTTP2_PROTOCOL_ERROR;
	if (hd.type == NGHTTP2_PRIORITY && !hd.stream_id) /* RFC 9113 6.3 */
		error = NGHTTP2_PROTOCOL_ERROR;
	if (error)
		sl_h2_fail(c, error, SL_FRONT_ERR_H2_PROTOCOL);
	else
		charge_frame(c, &hd, padding);
}

bool sl_h2_flood_until(struct h2_conn *c, const uint8_t *end)
{
	struct h2_walk *w = &c->walk;
	const uint8_t *p = c->walked;
	size_t n, want, len = end > p ? (size_t)(end - p) : 0;

	c->walked += len;
	for (; len && !(c->flags & H2_FAILED); p += n, len -= n) {
		if (w->left) {
			n = len < w->left ? len : w->left;
			w->left -= (uint32_t)n;
			continue;
		}
		want = FRAME_HEAD + (w->have >= FRAME_HEAD ? payload_wanted(w) : 0);
		n = len < want - w->have ? len : want - w->have;
		memcpy(w->head + w->have, p, n);
		w->have = (uint8_t)(w->have + n);
		if (w->have < want || want - FRAME_HEAD < payload_wanted(w))
			continue;
		check_frame(c, w);
		w->left = sl_get_be24(w->head) - (uint32_t)(want - FRAME_HEAD);
		w->have = 0;
	}
	return !(c->flags & H2_FAILED);
}
