/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "origin/server.h"

enum {
	RETRY_MIN_MS = 20,
	RETRY_MAX_MS = 5000,
	SHORT_MAX_MS = 500,
};
#define SHORT_NS (10 * SL_NS_PER_SEC)
#define SAY_NS   (60 * SL_NS_PER_SEC)

static const struct origin_owner *owner_of(const struct origin_server *s)
{
	return s->origin->owner;
}

static void end_retry(struct origin_timer *t)
{
	struct origin_server *s = sl_container_of(t, struct origin_server, retry);

	owner_of(s)->retry(s);
}

void origin_server_init(struct origin_server *s, struct origin *o, const struct origin_proto *proto,
			uint32_t concurrency)
{
	s->origin = o;
	s->proto = proto;
	s->retry_ms = RETRY_MIN_MS;
	s->retry.fn = end_retry;
	s->rest.fn = origin_calls_rested;
	origin_queue_init(&s->waiting, &o->clients);
	sl_list_init(&s->resting);
	sl_list_init(&s->ready);
	sl_list_init(&s->conns);
	origin_concurrency_limit_init(&s->limit, concurrency);
}

static void refuse_waiting(struct origin_server *s)
{
	struct origin_call *next;

	while ((next = origin_queue_any(&s->waiting)) ||
	       (next = sl_list_first(&s->resting, struct origin_call, link)))
		origin_call_refuse(next);
}

static void tell_ready(struct origin_server *s)
{
	bool ready = !s->down_ns && !s->unhealthy;

	if (s->told_unready == !ready)
		return;
	s->told_unready = !ready;
	owner_of(s)->ready(s);
}

static void tell_why(const struct origin_server *s)
{
	owner_of(s)->explain(s);
}

static bool is_mute(const struct origin_server *s)
{
	return s->mute_cnt >= ORIGIN_MUTE_MAX;
}

bool origin_server_is_up(const struct origin_server *s)
{
	return !s->down_ns && !is_mute(s);
}

static void say_back(struct origin_server *s)
{
	s->retry_ms = RETRY_MIN_MS;
	if (s->said_ns)
		sl_log_info("%s: %s: the server is back", s->origin->area, s->name);
	s->said_ns = 0;
	snprintf(s->why, sizeof(s->why), "%s", s->unhealthy ? "health checks fail" : "");
	tell_why(s);
}

/* A mute server is tried with a call; its back-off goes on until it replies. */
void origin_server_up(struct origin_server *s)
{
	if (!is_mute(s))
		s->retry_ms = RETRY_MIN_MS;
	origin_timer_cancel(s->origin, &s->retry);
	if (!s->down_ns)
		return;
	s->down_ns = 0;
	if (!is_mute(s))
		say_back(s);
	tell_ready(s);
}

void origin_server_mute(struct origin_server *s, const char *why)
{
	if (!is_mute(s))
		s->mute_cnt++;
	if (is_mute(s))
		origin_server_down(s, why);
}

void origin_server_spoke(struct origin_server *s)
{
	bool was = is_mute(s);

	s->mute_cnt = 0;
	s->refused = false;
	if (was && !s->down_ns)
		say_back(s);
}

void origin_server_healthy(struct origin_server *s, bool reaches)
{
	bool was = s->unhealthy;

	s->unhealthy = false;
	if (s->down_ns && reaches)
		origin_server_up(s);
	if (!was)
		return;
	if (s->said_unhealthy)
		sl_log_info("%s: %s: the health check succeeds", s->origin->area, s->name);
	s->said_unhealthy = false;
	if (s->down_ns)
		return;
	s->why[0] = 0;
	tell_why(s);
	tell_ready(s);
}

void origin_server_unhealthy(struct origin_server *s, const char *why)
{
	char text[sizeof(s->why)];

	snprintf(text, sizeof(text), "health check: %s", why);
	if (s->down_ns)
		return;
	if (!s->said_unhealthy)
		sl_log_warn("%s: %s: %s; it gets no requests", s->origin->area, s->name, text);
	s->unhealthy = s->said_unhealthy = true;
	snprintf(s->why, sizeof(s->why), "%s", text);
	tell_why(s);
	tell_ready(s); /* must precede refusals */
	refuse_waiting(s);
}

void origin_server_retry(struct origin_server *s)
{
	struct origin *o = s->origin;
	/* A call that makes a server close connections must not block others for long. */
	uint32_t max = s->down_ns && (!is_mute(s) || s->refused) ? RETRY_MAX_MS : SHORT_MAX_MS;
	uint64_t jitter = sl_prng_below(o->prng, s->retry_ms / 2 + 1);

	if (sl_timer_pending(&s->retry.t))
		return;
	origin_timer_set(o, &s->retry, o->now_ns + (s->retry_ms + jitter) * SL_NS_PER_MS);
	s->retry_ms = s->retry_ms * 2 < max ? s->retry_ms * 2 : max;
}

static void say_down(struct origin_server *s)
{
	struct origin *o = s->origin;
	uint64_t at_ns = sl_timer_expires_ns(&o->wheel, &s->retry.t);
	char where[128];

	s->said_ns = o->now_ns;
	owner_of(s)->address(s, where, sizeof(where));
	sl_log_warn(
		"%s: %s: %s%s%s%s; retrying in %llu ms", o->area, s->name,
		where[0] ? "cannot connect to " : "", where, where[0] ? ": " : "", s->why,
		(unsigned long long)(at_ns > o->now_ns ? (at_ns - o->now_ns) / SL_NS_PER_MS : 0));
}

void origin_server_down(struct origin_server *s, const char *why)
{
	struct origin *o = s->origin;

	bool is_new = !s->down_ns && !(is_mute(s) && s->said_ns);

	if (s->conn_cnt > s->connecting + s->ended_cnt) {
		origin_server_retry(s);
		return;
	}
	if (!s->down_ns)
		s->down_ns = o->now_ns;
	origin_server_retry(s);
	if (is_new || strncmp(s->why, why, sizeof(s->why) - 1) != 0) {
		snprintf(s->why, sizeof(s->why), "%s", why);
		tell_why(s);
		is_new |= !s->said_ns;
	}
	if (is_new || o->now_ns >= s->said_ns + SAY_NS)
		say_down(s);
	tell_ready(s); /* must precede refusals */
	refuse_waiting(s);
}

void origin_server_short(struct origin_server *s, const char *why)
{
	if (!s->conn_cnt) {
		origin_server_down(s, why);
		return;
	}
	origin_server_retry(s);
	SL_LOG_EVERY(SHORT_NS, SL_LOG_WARN,
		     "%s: %s: no further connection: %s; %u are open, %u requests wait",
		     s->origin->area, s->name, why, s->conn_cnt, s->waiting.cnt);
}

void origin_server_begin(struct origin_server *s, const char *why)
{
	s->down_ns = s->origin->now_ns;
	snprintf(s->why, sizeof(s->why), "%s", why);
	tell_why(s);
	tell_ready(s);
}

void origin_server_fini(struct origin_server *s, const char *why)
{
	struct origin_conn *c;

	refuse_waiting(s);
	while ((c = sl_list_first(&s->conns, struct origin_conn, link)))
		origin_conn_close(c, why);
	refuse_waiting(s);
	origin_timer_cancel(s->origin, &s->retry);
	origin_timer_cancel(s->origin, &s->rest);
}

void origin_server_try(struct origin_server *s)
{
	if ((s->down_ns || !sl_list_empty(&s->resting)) && !s->connecting)
		(void)owner_of(s)->connect(s);
}

void origin_server_moved(struct origin_server *s)
{
	origin_timer_cancel(s->origin, &s->retry);
	s->retry_ms = RETRY_MIN_MS;
	owner_of(s)->retry(s);
}

static bool may_connect(struct origin_server *s)
{
	if (s->conn_cnt < owner_of(s)->conns_max)
		return true;
	origin_server_short(s, "a server gets no more");
	return false;
}

static struct origin_shares shares_of(const struct origin_server *s)
{
	return (struct origin_shares){
		.places = origin_concurrency_limit_now(&s->limit),
		.busy = s->busy_cnt,
		.exact = s->limit.fixed,
		.streams = owner_of(s)->streams_max(s),
	};
}

void origin_server_pump(struct origin_server *s)
{
	uint32_t per = s->proto->calls_per_conn, wanted;
	struct origin_shares shares = shares_of(s);
	struct origin_conn *c;
	struct origin_call *call;

	while ((call = origin_queue_next(&s->waiting, &shares)) &&
	       (c = sl_list_first(&s->ready, struct origin_conn, ready))) {
		origin_queue_take(&s->waiting, call);
		origin_call_assign(call, c);
		s->proto->start(c, call);
		origin_conn_room(c);
		shares.busy = s->busy_cnt;
	}
	if (s->probe && !s->connecting && !sl_timer_pending(&s->retry.t))
		(void)owner_of(s)->connect(s);
	s->probe = false;
	if (!call)
		return;
	if (sl_timer_pending(&s->retry.t))
		return;
	wanted = shares.busy < shares.places ? shares.places - shares.busy : 1;
	wanted = wanted < s->waiting.cnt ? wanted : s->waiting.cnt;
	wanted = (wanted + per - 1) / per;
	while (s->connecting < wanted && may_connect(s) && owner_of(s)->connect(s))
		;
}
