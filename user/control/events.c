/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics for /events, once a second. An event that cannot be made becomes `event: failure` and
 * its reason.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "control/admin_impl.h"
#include "control/event_stream.h"

static struct event_text *new_text(struct sl_admin *a)
{
	struct event_text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct event_text){.refs = 1, .number = a->event_cnt++, .held = &a->event_bytes};
	sl_strbuf_grow(&t->bytes, admin_limits.events);
	return t;
}

static void fill_text(struct sl_admin *a, struct sl_strbuf *b)
{
	sl_strbuf_str(b, "data: ");
	admin_stats_write(a, NULL, b);
	sl_strbuf_str(b, "\n\n");
}

/* Ends the clients that are furthest behind, until `more` bytes are left to hold. */
static void make_room(struct sl_admin *a, size_t more)
{
	while (a->event_bytes + more > admin_limits.events) {
		struct event_listener *slowest = NULL;
		struct sl_list *pos;

		sl_list_for_each (pos, &a->listeners) {
			struct event_listener *l =
				sl_container_of(pos, struct event_listener, link);

			if (l->event && (!slowest || l->event->number < slowest->event->number))
				slowest = l;
		}
		if (!slowest)
			return;
		sl_log_warn("admin: ending a client of /events that is %" PRIu64 " events behind",
			    a->event_cnt - slowest->event->number);
		admin_events_leave(slowest);
	}
}

/* Returns the next event, or NULL and why. */
static struct event_text *make_event(struct sl_admin *a, struct sl_err *why)
{
	struct event_text *t = new_text(a);
	bool failed = true;

	sl_err_set(why, "/events: out of memory");
	if (t) {
		fill_text(a, &t->bytes);
		failed = t->bytes.err != 0;
	}
	if (t && failed)
		admin_name_limit(&t->bytes, "/events", why);
	if (failed && !a->events_fail)
		sl_log_warn("admin: %s; its clients get no statistics", why->text);
	a->events_fail = failed;
	if (!failed) {
		make_room(a, t->bytes.len);
		a->event_bytes += t->bytes.len;
		return t;
	}
	if (t)
		sl_strbuf_fini(&t->bytes);
	free(t);
	return NULL;
}

static struct event_text *make_failure(struct sl_admin *a, const char *why)
{
	struct event_text *t = new_text(a);

	if (!t)
		return NULL;
	sl_strbuf_printf(&t->bytes, "event: failure\ndata: {\"failure\":\"%s\"}\n\n", why);
	a->event_bytes += t->bytes.len;
	return t;
}

static bool any_waits(const struct sl_admin *a)
{
	const struct sl_list *pos;

	sl_list_for_each (pos, &a->listeners) {
		if (sl_container_of(pos, struct event_listener, link)->suspended)
			return true;
	}
	return false;
}

enum MHD_Result admin_events_get(struct admin_request *r)
{
	struct sl_err why = SL_ERR(160);
	struct event_text *t = make_event(r->admin, &why);
	struct event_listener *l = t ? event_stream_new(r, 0) : NULL;

	if (l)
		event_stream_set(l, t);
	event_text_put(t);
	if (!l)
		return admin_reply_text(r->conn, MHD_HTTP_INTERNAL_SERVER_ERROR, why.text);
	return event_stream_begin(r, l, &r->admin->listeners, "text/event-stream");
}

void admin_events_tick(struct sl_admin *a)
{
	struct sl_err why = SL_ERR(160);
	struct event_text *t;
	struct sl_list *pos;

	if (!any_waits(a))
		return;
	t = make_event(a, &why);
	if (!t)
		t = make_failure(a, why.text);
	sl_list_for_each (pos, &a->listeners) {
		struct event_listener *l = sl_container_of(pos, struct event_listener, link);

		if (!l->suspended || !t)
			continue;
		event_stream_set(l, t);
		event_stream_wake(l);
	}
	event_text_put(t);
}
