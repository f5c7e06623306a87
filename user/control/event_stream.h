/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the admin endpoint without an end: /events and /requests.
 *
 *   control thread --put--> text (bounded) --> MHD reads it, or suspends the connection
 *
 * A reader that does not take its text gets no more of it; what it misses is the caller's to count.
 */
#ifndef SL_CONTROL_EVENT_STREAM_H
#define SL_CONTROL_EVENT_STREAM_H

#include "base/strbuf.h"
#include "control/admin_impl.h"

struct request_filter;

/* Its connection is suspended while there is no text. */
struct event_listener {
	struct sl_list link;
	struct admin_conns *conns;
	struct admin_conn *ac; /* NULL: being ended */
	struct MHD_Connection *conn;
	struct sl_strbuf text;
	size_t sent;
	bool suspended;
	struct request_filter *filter; /* of /requests; freed with the listener */
	uint64_t missed;               /* requests since the last line */
};

/* Returns a listener whose text has at most `limit` bytes, or NULL. */
struct event_listener *event_stream_new(struct admin_request *r, size_t limit);
/* Begins the reply and links the listener. It frees itself with its connection. */
enum MHD_Result event_stream_begin(struct admin_request *r, struct event_listener *l,
				   struct sl_list *list, const char *type);
/* Continues a reply after text was added. */
void event_stream_wake(struct event_listener *l);
/* Removes text that was read. */
void event_stream_trim(struct event_listener *l);

#endif
