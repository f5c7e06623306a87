/* SPDX-License-Identifier: Apache-2.0 */
#include "control/request_feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/units.h"
#include "control/access_line.h"
#include "control/control_impl.h"
#include "control/event_stream.h"
#include "front/codes.h"

enum { EVENTS_AT_ONCE = 16, STATUS_CLASS = 1000 };

struct request_filter {
	char pool[sizeof(((struct sl_event *)0)->pool)];
	char route[sizeof(((struct sl_event *)0)->route)];
	char backend[sizeof(((struct sl_event *)0)->backend)];
	unsigned status;
	uint64_t slow_ns;
};

static uint64_t missed_total;

uint64_t sl_request_feed_missed(void)
{
	return missed_total;
}

static void set_name(char *to, size_t size, const char *value)
{
	size_t n = strnlen(value, size - 1);

	memcpy(to, value, n);
	to[n] = 0;
}

static int set_status(struct request_filter *f, const char *value, struct sl_err *err)
{
	uint64_t n;

	if (value[0] >= '1' && value[0] <= '5' && strcmp(value + 1, "xx") == 0)
		f->status = STATUS_CLASS + (unsigned)(value[0] - '0');
	else if (sl_parse_u64_max(sl_span_cstr(value), 599, &n) == 0 && n >= 100)
		f->status = (unsigned)n;
	else
		return sl_fail(err, -EINVAL,
			       "found status = \"%.64s\"; allowed: 100 to 599, or 1xx to 5xx",
			       value);
	return 0;
}

int request_filter_set(struct request_filter *f, const char *key, const char *value,
		       struct sl_err *err)
{
	if (strcmp(key, "pool") == 0)
		set_name(f->pool, sizeof(f->pool), value);
	else if (strcmp(key, "route") == 0)
		set_name(f->route, sizeof(f->route), value);
	else if (strcmp(key, "backend") == 0)
		set_name(f->backend, sizeof(f->backend), value);
	else if (strcmp(key, "status") == 0)
		return set_status(f, value, err);
	else if (strcmp(key, "slow") != 0)
		return sl_fail(err, -EINVAL,
			       "found \"%.64s\"; allowed: pool, route, backend, status, slow", key);
	else if (sl_parse_duration(sl_span_cstr(value), &f->slow_ns))
		return sl_fail(err, -EINVAL,
			       "found slow = \"%.64s\"; allowed: a duration like 100ms", value);
	return 0;
}

struct request_filter *request_filter_empty(void)
{
	return calloc(1, sizeof(struct request_filter));
}

struct filter_args {
	struct request_filter *f;
	struct sl_err *err;
	bool failed;
};

static enum MHD_Result take_arg(void *arg, enum MHD_ValueKind kind, const char *key,
				const char *value)
{
	struct filter_args *a = arg;

	(void)kind;
	a->failed = request_filter_set(a->f, key, value ? value : "", a->err) != 0;
	return a->failed ? MHD_NO : MHD_YES;
}

struct request_filter *request_filter_new(struct MHD_Connection *conn, struct sl_err *err)
{
	struct filter_args a = {.f = request_filter_empty(), .err = err};

	if (!a.f) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	MHD_get_connection_values(conn, MHD_GET_ARGUMENT_KIND, take_arg, &a);
	if (!a.failed)
		return a.f;
	free(a.f);
	return NULL;
}

bool request_filter_matches(const struct request_filter *f, const struct sl_event *e)
{
	struct sl_code_end end = sl_event_code(e);

	if (f->status > STATUS_CLASS && sl_code_end_class(&end) != f->status - STATUS_CLASS)
		return false;
	if (f->status && f->status < STATUS_CLASS && sl_access_status(e) != f->status)
		return false;
	return (!f->slow_ns || sl_event_total_ns(e) >= f->slow_ns) &&
	       (!f->pool[0] || strcmp(f->pool, e->pool) == 0) &&
	       (!f->route[0] || strcmp(f->route, e->route) == 0) &&
	       (!f->backend[0] || strcmp(f->backend, e->backend) == 0);
}

static void put_line(struct event_listener *l, const struct sl_event *e, uint64_t unix_ns)
{
	static const struct sl_cfg_access_log all_fields = {.format = SL_ACCESS_LOG_JSON};

	event_stream_trim(l);
	if (l->text.limit - l->text.len < 2 * SL_ACCESS_LINE_MAX) {
		l->missed++;
		missed_total++;
		return;
	}
	if (l->missed)
		sl_strbuf_printf(&l->text, "{\"missed\": %" PRIu64 "}\n", l->missed);
	l->missed = 0;
	sl_access_line(&l->text, e, &all_fields, unix_ns);
}

void admin_requests_put(struct sl_admin *a, const struct sl_event *e, uint64_t unix_ns)
{
	struct sl_list *pos;

	sl_list_for_each (pos, &a->readers) {
		struct event_listener *l = sl_container_of(pos, struct event_listener, link);

		if (l->ac && request_filter_matches(l->filter, e))
			put_line(l, e, unix_ns);
	}
}

static void wake_readers(struct sl_admin *a)
{
	struct sl_list *pos, *next;

	sl_list_for_each_safe (pos, next, &a->readers) {
		struct event_listener *l = sl_container_of(pos, struct event_listener, link);

		if (l->sent < l->text.len)
			event_stream_wake(l);
	}
}

/* MHD does not watch a suspended connection: an empty line detects a client that has gone. */
void admin_requests_tick(struct sl_admin *a)
{
	struct sl_list *pos;

	sl_list_for_each (pos, &a->readers) {
		struct event_listener *l = sl_container_of(pos, struct event_listener, link);

		event_stream_trim(l);
		if (!l->text.len)
			sl_strbuf_char(&l->text, '\n');
	}
	wake_readers(a);
}

bool admin_requests_wanted(const struct sl_admin *a)
{
	return !sl_list_empty(&a->readers);
}

/* Reads at most SL_EVENT_RING records: fast workers must not block the control thread. */
static void drain_ring(struct sl_control *c, struct sl_ring *ring, uint64_t epoch)
{
	struct sl_event events[EVENTS_AT_ONCE];

	for (unsigned n, taken = 0; taken < SL_EVENT_RING; taken += n) {
		if (c->log && !sl_access_log_has_room(c->log, EVENTS_AT_ONCE))
			return;
		n = sl_events_take(ring, events, EVENTS_AT_ONCE);
		if (!n)
			return;
		for (unsigned i = 0; i < n; i++) {
			uint64_t unix_ns = epoch + events[i].end_ns;

			sl_otlp_put(c->otlp, &events[i], unix_ns);
			if (c->log)
				sl_access_log_put(c->log, &events[i], unix_ns);
			if (c->admin)
				admin_requests_put(c->admin, &events[i], unix_ns);
		}
	}
}

bool sl_request_feed_run(struct sl_control *c)
{
	bool wanted = c->log || (c->admin && admin_requests_wanted(c->admin));
	bool traced;
	struct timespec unix_now;
	struct sl_ring *ring;
	uint64_t epoch;

	sl_gateway_want_events(c->opt.gateway, wanted);
	clock_gettime(CLOCK_REALTIME, &unix_now);
	epoch = (uint64_t)unix_now.tv_sec * SL_NS_PER_SEC + (uint64_t)unix_now.tv_nsec -
		sl_now_ns();
	traced = sl_otlp_is_on(c->otlp);
	for (uint32_t w = 0; (wanted || traced) && (ring = sl_gateway_events(c->opt.gateway, w));
	     w++)
		drain_ring(c, ring, epoch);
	if (c->log)
		sl_access_log_flush(c->log);
	if (c->admin)
		wake_readers(c->admin);
	sl_otlp_run(c->otlp, sl_now_ns());
	return wanted || traced;
}
