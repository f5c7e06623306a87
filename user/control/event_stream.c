/* SPDX-License-Identifier: Apache-2.0 */
#include "control/event_stream.h"

#include <stdlib.h>
#include <string.h>

enum { LISTENERS = 16, BLOCK = 64 << 10 };

void event_text_put(struct event_text *t)
{
	if (!t || --t->refs)
		return;
	*t->held -= t->bytes.len;
	sl_strbuf_fini(&t->bytes);
	free(t);
}

static void drop_event(struct event_listener *l)
{
	event_text_put(l->event);
	l->event = NULL;
}

void event_stream_set(struct event_listener *l, struct event_text *t)
{
	t->refs++;
	l->event = t;
	l->sent = 0;
}

static ssize_t read_event(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct event_listener *l = arg;
	const struct sl_strbuf *from = l->event ? &l->event->bytes : &l->text;
	size_t n;

	(void)pos;
	if (!l->ac)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	n = from->len - l->sent;
	if (!n) {
		drop_event(l);
		l->sent = l->text.len;
		l->suspended = true;
		MHD_suspend_connection(l->conn);
		return 0;
	}
	if (n > max)
		n = max;
	memcpy(buf, from->ptr + l->sent, n);
	l->sent += n;
	return (ssize_t)n;
}

void event_stream_wake(struct event_listener *l)
{
	if (!l->suspended)
		return;
	l->suspended = false;
	MHD_resume_connection(l->conn);
}

void event_stream_trim(struct event_listener *l)
{
	if (l->sent < l->text.len)
		return;
	sl_strbuf_reset(&l->text);
	l->sent = 0;
}

void admin_events_leave(struct event_listener *l)
{
	if (!l->ac)
		return;
	l->ac->listener = NULL;
	l->ac = NULL;
	l->conns->listener_cnt--;
	drop_event(l);
	event_stream_wake(l);
}

static void free_listener(void *arg)
{
	struct event_listener *l = arg;

	if (l->ac) {
		l->ac->listener = NULL;
		l->conns->listener_cnt--;
	}
	sl_list_del(&l->link);
	drop_event(l);
	sl_strbuf_fini(&l->text);
	free(l->filter);
	free(l);
}

struct event_listener *event_stream_new(struct admin_request *r, size_t limit)
{
	struct admin_conn *ac = admin_conn_of(r->conn);
	struct event_listener *l = ac ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	if (r->conns->listener_cnt >= LISTENERS)
		admin_events_leave(admin_conns_find_victim(r->conns, true)->listener);
	l->conns = r->conns;
	l->conn = r->conn;
	sl_strbuf_grow(&l->text, limit);
	sl_list_init(&l->link);
	l->ac = ac;
	ac->listener = l;
	r->conns->listener_cnt++;
	return l;
}

enum MHD_Result event_stream_begin(struct admin_request *r, struct event_listener *l,
				   struct sl_list *list, const char *type)
{
	struct MHD_Response *resp = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK,
								      read_event, l, free_listener);
	enum MHD_Result res;

	if (!resp) {
		free_listener(l);
		return MHD_NO;
	}
	sl_list_add_tail(list, &l->link);
	MHD_add_response_header(resp, "Content-Type", type);
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	MHD_add_response_header(resp, "Connection", "close");
	res = MHD_queue_response(r->conn, MHD_HTTP_OK, resp);
	MHD_destroy_response(resp);
	return res;
}

void admin_events_end(struct sl_admin *a)
{
	struct sl_list *lists[] = {&a->listeners, &a->readers};
	struct sl_list *pos, *tmp;

	for (size_t i = 0; i < 2; i++) {
		sl_list_for_each_safe (pos, tmp, lists[i])
			event_stream_wake(sl_container_of(pos, struct event_listener, link));
	}
}
