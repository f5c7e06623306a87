/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "core/client.h"
#include "core/exchange.h"

enum {
	SMALL_FRAMES = 32, /* smaller bodies are always read */
	RESUMES_PER_RUN = 16,
	STUCK_NS = 1000000000,
	POLL_NS = 1000000,
};

enum level { LEVEL_CALM, LEVEL_NARROW, LEVEL_PAUSE };

static enum level level_of(const struct sl_core *c)
{
	const struct sl_umem *u = c->net->umem;
	uint64_t free_parts = (uint64_t)u->free_cnt * SL_FRAME_PARTS;

	if (free_parts < (uint64_t)u->frame_cnt * SL_PAUSE_PARTS)
		return LEVEL_PAUSE;
	return free_parts < (uint64_t)u->frame_cnt * SL_NARROW_PARTS ? LEVEL_NARROW : LEVEL_CALM;
}

static bool is_heavy(const struct sl_exchange *x)
{
	return x->frames > SMALL_FRAMES && sl_client_quota(x->client)->cnt[SL_QUOTA_FRAMES] >=
						   sl_addr_quota_most_frames(&x->core->quotas) / 2;
}

static void set_narrow(struct sl_exchange *x, bool narrow)
{
	bool changed = x->stream.windowed ? x->stream.narrow != narrow
					  : sl_client_narrow(x->client, narrow);

	x->stream.narrow = narrow;
	x->core->stats.request_windows_shrunk += changed && narrow;
}

static void pause_body(struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	char addr[SL_QUOTA_TEXT];

	if (!sl_list_empty(&x->item.link))
		return;
	if (sl_list_empty(&c->paused_bodies))
		c->paused_ns = c->now_ns;
	sl_list_add_tail(&c->paused_bodies, &x->item.link);
	c->stats.request_reads_paused++;
	SL_LOG_EVERY(10 * SL_NS_PER_SEC, SL_LOG_WARN,
		     "client %s: body paused, because frames are short",
		     sl_addr_quota_text(sl_client_quota(x->client), addr));
}

bool sl_body_may_read(struct sl_exchange *x)
{
	enum level level = level_of(x->core);
	bool heavy = level != LEVEL_CALM && is_heavy(x);

	if (x->client->proto == SL_CLIENT_DATAGRAM) /* complete */
		return true;
	set_narrow(x, heavy);
	if (heavy && level == LEVEL_PAUSE)
		pause_body(x);
	return x->stream.windowed || !sl_exchange_is_paused(x);
}

void sl_body_was_read(struct sl_exchange *x, size_t len)
{
	if (!x->stream.windowed)
		return;
	if (sl_exchange_is_paused(x))
		x->withheld += (uint32_t)len;
	else
		x->stream.passed += (uint32_t)len;
}

static void resume_body(struct sl_exchange *x)
{
	if (!x->stream.windowed) {
		sl_client_progress(x->client);
		return;
	}
	x->stream.passed += x->withheld;
	x->withheld = 0;
	sl_client_ready(x->client, &x->stream);
}

unsigned sl_bodies_resume(struct sl_core *c)
{
	struct sl_list *l;
	unsigned n = 0;

	for (; n < RESUMES_PER_RUN && level_of(c) != LEVEL_PAUSE; n++) {
		l = sl_list_pop_head(&c->paused_bodies);
		if (!l)
			break;
		c->paused_ns = c->now_ns;
		resume_body(sl_container_of(l, struct sl_exchange, item.link));
	}
	return n;
}

bool sl_bodies_are_stuck(const struct sl_core *c)
{
	return !sl_list_empty(&c->paused_bodies) && level_of(c) == LEVEL_PAUSE &&
	       c->now_ns - c->paused_ns >= STUCK_NS;
}

uint64_t sl_bodies_next_ns(const struct sl_core *c)
{
	uint64_t next = c->now_ns + POLL_NS;

	if (sl_list_empty(&c->paused_bodies))
		return UINT64_MAX;
	if (level_of(c) != LEVEL_PAUSE)
		return c->now_ns;
	return c->paused_ns + STUCK_NS > next ? c->paused_ns + STUCK_NS : next;
}
