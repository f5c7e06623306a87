/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may send, and how often: judged frame by frame, behind nghttp2, which does not show
 * all of them (not DATA that it ignores, not PRIORITY when RFC 7540's priorities are off).
 *
 * Read from the bottom: sl_h2_guard_until -> frame -> judge, spend.
 */
#include "base/clock.h"
#include "front/h2/conn.h"

enum {
	BURST_S = 10,          /* of the rates below may come at once */
	CONTROLS = 10,         /* PING, SETTINGS and the like: so many times the resets */
	MAX_CONTINUATIONS = 8, /* frames behind one HEADERS */
	RECENT = 64,           /* bits of h2_recent */
	PREFACE = 24,
	FRAME_HEAD = 9,
	PRIORITY_LEN = 5,
	DEPENDENCY = 4, /* of it: the stream it depends on */
	PAD_LENGTH = 1,
	UPDATES_FREE = 10, /* WINDOW_UPDATEs for each stream, and for each DATA frame of a reply */
	UPDATES_MAX = 10 << 10, /* of those that are not used */
	BEYOND = 16 << 10,      /* bytes of fields that nothing keeps, for the price of a reset */
	BURST_BEYOND = 256 << 10,
	HEADS_MAX = 8, /* so many times the longest head may be unpacked for one */
};

static bool take(struct h2_bucket *b, uint64_t now_ns, uint32_t per_s)
{
	uint64_t step = SL_NS_PER_SEC / (per_s ? per_s : 1);

	if (b->full_ns < now_ns)
		b->full_ns = now_ns;
	if (b->full_ns + step > now_ns + BURST_S * SL_NS_PER_SEC)
		return false;
	b->full_ns += step;
	return true;
}

/* Takes back what one of them has cost. */
static void give_back(struct h2_bucket *b, uint32_t per_s)
{
	uint64_t step = SL_NS_PER_SEC / (per_s ? per_s : 1);

	b->full_ns -= b->full_ns < step ? b->full_ns : step;
}

static void take_reset(struct h2_conn *c)
{
	if (!take(&c->resets, *c->front->now_ns, c->env->limits->max_resets_per_s))
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
}

void sl_h2_guard_credit(struct h2_conn *c)
{
	c->updates = c->updates < UPDATES_MAX ? c->updates + UPDATES_FREE : UPDATES_MAX;
}

/* Returns true if the frame is one for which streams and replies have given credit. */
static bool take_update(struct h2_conn *c)
{
	if (!c->updates)
		return false;
	c->updates--;
	return true;
}

/* Returns true for frames that cost us work and the peer nothing; `padding`: bytes that are no data. */
static bool is_control(struct h2_conn *c, const nghttp2_frame_hd *hd, uint32_t padding)
{
	switch (hd->type) {
	case NGHTTP2_DATA: return hd->length <= padding && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_WINDOW_UPDATE: return !take_update(c);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION: return false;
	default: return true; /* RST_STREAM too; what else it costs, sl_h2_guard_abandoned() says */
	}
}

/* Each frame takes what it costs. */
static void spend(struct h2_conn *c, const nghttp2_frame_hd *hd, uint32_t padding)
{
	uint32_t rate = c->env->limits->max_resets_per_s * CONTROLS;
	bool ok = true;

	if (hd->type == NGHTTP2_CONTINUATION)
		ok = ++c->continuations <= MAX_CONTINUATIONS;
	else
		c->continuations = 0;
	if (hd->type == NGHTTP2_HEADERS)
		sl_h2_guard_credit(c);
	if (is_control(c, hd, padding))
		ok = take(&c->controls, *c->front->now_ns, rate);
	if (!ok)
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
}

/* The bit of a stream in h2_recent; 0: it was too long ago, or is none that a client opens. */
static uint64_t bit_of(struct h2_recent *r, const nghttp2_frame_hd *hd)
{
	uint32_t back;

	if (!(hd->stream_id & 1))
		return 0;
	if (hd->stream_id > r->top) {
		if (hd->type != NGHTTP2_HEADERS)
			return 0; /* an idle stream: nghttp2 says so */
		back = ((uint32_t)hd->stream_id - (uint32_t)r->top) / 2;
		r->opened = back < RECENT ? r->opened << back : 0;
		r->over = back < RECENT ? r->over << back : 0;
		r->opened |= 1;
		r->top = hd->stream_id;
	}
	back = (uint32_t)(r->top - hd->stream_id) / 2;
	return back < RECENT ? UINT64_C(1) << back : 0;
}

/* RFC 9113 5.1, 5.1.1: the error of a connection on which such a frame comes now. */
static uint32_t judge(struct h2_recent *r, const nghttp2_frame_hd *hd)
{
	bool head = hd->type == NGHTTP2_HEADERS, part = head || hd->type == NGHTTP2_DATA;
	uint64_t bit = bit_of(r, hd);

	if (part && bit && !(r->opened & bit)) /* jumped over */
		return head ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED;
	if (part && (r->over & bit))
		return NGHTTP2_STREAM_CLOSED;
	if (hd->type == NGHTTP2_RST_STREAM || (part && (hd->flags & NGHTTP2_FLAG_END_STREAM)))
		r->over |= bit;
	return NGHTTP2_NO_ERROR;
}

void sl_h2_guard_open(struct h2_conn *c)
{
	c->recent.top = -1;
	c->walk.left = PREFACE;
}

void sl_h2_guard_reset(struct h2_conn *c, uint32_t code)
{
	switch (code) {
	case NGHTTP2_PROTOCOL_ERROR:
	case NGHTTP2_FLOW_CONTROL_ERROR:
	case NGHTTP2_STREAM_CLOSED:
	case NGHTTP2_FRAME_SIZE_ERROR:
	case NGHTTP2_ENHANCE_YOUR_CALM: take_reset(c); break;
	default: break; /* not the client's fault */
	}
}

/*
 * A stream that a backend works at was in vain. One that has its reply, or whose time is over, the
 * gateway has ended itself or is about to: its RST_STREAM costs no more than any control frame.
 */
void sl_h2_guard_abandoned(struct h2_conn *c, const struct h2_stream *s)
{
	if (!s || (s->flags & ST_END_SENT) || ((s->flags & ST_LOCAL) && !(s->flags & ST_CALL)))
		return;
	if (s->deadline_ns && *c->front->now_ns >= s->deadline_ns)
		return;
	take_reset(c);
}

void sl_h2_guard_served(struct h2_conn *c)
{
	give_back(&c->resets, c->env->limits->max_resets_per_s);
}

/*
 * The connections of one address share what such bytes may cost in a burst. Behind that a connection
 * waits, so that the input of others is read. False: there was too much.
 */
static bool has_its_share(struct h2_conn *c, uint32_t len)
{
	struct h2_source *src = c->source;

	if (src->burst_ns != *c->front->now_ns) {
		src->burst_ns = *c->front->now_ns;
		src->beyond = 0;
	}
	src->beyond += len;
	if (src->beyond <= BURST_BEYOND)
		return true;
	c->front->host->later(c->host);
	return false;
}

/*
 * HPACK repeats thousands of bytes for one, and nghttp2 looks at each of them. Bytes beyond what a head
 * may have are paid for; a head of many times that ends the connection before the rest is unpacked.
 */
enum h2_verdict sl_h2_guard_field(struct h2_conn *c, size_t len)
{
	uint32_t max = c->env->limits->max_head;

	c->told += (uint32_t)len;
	if (c->told <= max)
		return H2_GO_ON;
	if (c->told / HEADS_MAX >= max)
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
	for (c->beyond += (uint32_t)len; c->beyond >= BEYOND; c->beyond -= BEYOND)
		take_reset(c);
	if (c->flags & H2_FAILED)
		return H2_END;
	return has_its_share(c, (uint32_t)len) ? H2_GO_ON : H2_PAUSE;
}

/* Returns how many bytes of the payload are looked at too, of a frame whose head is there. */
static uint32_t payload_wanted(const struct h2_walk *w)
{
	uint32_t len = sl_get_be24(w->head);

	if (w->head[3] == NGHTTP2_PRIORITY && len == PRIORITY_LEN)
		return DEPENDENCY;
	return w->head[3] == NGHTTP2_DATA && (w->head[4] & NGHTTP2_FLAG_PADDED) && len ? PAD_LENGTH
										       : 0;
}

/* A PRIORITY frame whose head is there. */
static bool is_priority(const struct h2_walk *w)
{
	return w->have >= FRAME_HEAD && w->head[3] == NGHTTP2_PRIORITY &&
	       sl_get_be24(w->head) == PRIORITY_LEN;
}

/* RFC 7540 5.3.1; the first bits are flags. */
static bool depends_on_itself(const struct h2_walk *w)
{
	uint32_t id = sl_get_be32(w->head + FRAME_HEAD - 4);
	uint32_t on = sl_get_be32(w->head + FRAME_HEAD);

	return !((id ^ on) << 1);
}

static void frame(struct h2_conn *c, const struct h2_walk *w)
{
	const nghttp2_frame_hd hd = {
		.length = sl_get_be24(w->head),
		.stream_id = (int32_t)(sl_get_be32(w->head + FRAME_HEAD - 4) & INT32_MAX),
		.type = w->head[3],
		.flags = w->head[4],
	};
	bool padded = hd.type == NGHTTP2_DATA && payload_wanted(w);
	uint32_t padding = padded ? PAD_LENGTH + (uint32_t)w->head[FRAME_HEAD] : 0;
	uint32_t error = judge(&c->recent, &hd);

	if (is_priority(w) && depends_on_itself(w))
		error = NGHTTP2_PROTOCOL_ERROR;
	if (hd.type == NGHTTP2_PRIORITY && !hd.stream_id) /* RFC 9113 6.3 */
		error = NGHTTP2_PROTOCOL_ERROR;
	if (error)
		sl_h2_fail(c, error, SL_FRONT_ERR_H2_PROTOCOL);
	else
		spend(c, &hd, padding);
}

bool sl_h2_guard_until(struct h2_conn *c, const uint8_t *end)
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
		frame(c, w);
		w->left = sl_get_be24(w->head) - (uint32_t)(want - FRAME_HEAD);
		w->have = 0;
	}
	return !(c->flags & H2_FAILED);
}
