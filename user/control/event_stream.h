/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endless replies of the admin endpoint: /events and /requests.
 *
 * A reader that does not take its text gets no more. Control thread.
 */
#ifndef SL_CONTROL_EVENT_STREAM_H
#define SL_CONTROL_EVENT_STREAM_H

#include "base/strbuf.h"
#include "control/admin_impl.h"

struct request_filter;

/* An event, shared by the clients that take it. */
struct event_text {
	unsigned refs;
	uint64_t number;
	size_t *held; /* bytes of all events */
	struct sl_strbuf bytes;
};

struct event_listener {
	struct sl_list link;
	struct admin_conns *conns;
	struct admin_conn *ac; /* NULL: ending */
	struct MHD_Connection *conn;
	struct sl_strbuf text;    /* used by /requests */
	struct event_text *event; /* used by /events; NULL: taken */
	size_t sent;              /* bytes read from either */
	bool suspended;
	struct request_filter *filter; /* of /requests; freed with the listener */
	uint64_t missed;               /* requests since the last line */
};

/*
 * Returns a listener whose text has at most `limit` bytes, or NULL; event_stream_begin() follows.
 * At the limit, another client is ended.
 */
struct event_listener *event_stream_new(struct admin_request *r, size_t limit);
/* Begins the reply and links the listener, which is freed with its connection, or on MHD_NO. */
enum MHD_Result event_stream_begin(struct admin_request *r, struct event_listener *l,
				   struct sl_list *list, const char *type);
/* Sets the next event of a listener that has none, and adds a reference. */
void event_stream_set(struct event_listener *l, struct event_text *t);
/* Drops a reference; the last one frees. t may be NULL. */
void event_text_put(struct event_text *t);
/* Continues a reply after text was added. */
void event_stream_wake(struct event_listener *l);
/* Empties the text, if all of it was sent. */
void event_stream_trim(struct event_listener *l);

#endif
