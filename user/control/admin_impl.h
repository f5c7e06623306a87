/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_ADMIN_IMPL_H
#define SL_CONTROL_ADMIN_IMPL_H

#include <microhttpd.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "control/admin.h"
#include "control/admin_accept.h"
#include "control/authz.h"
#include "control/admin_conns.h"
#include "control/listen.h"

enum admin_class { ADMIN_PROBE, ADMIN_READER, ADMIN_OPERATOR, ADMIN_CLASSES };

struct admin_server {
	struct sl_admin *admin;
	enum admin_class kind;
	struct MHD_Daemon *daemon;
	struct admin_conns conns;
};

/* Most bytes of an event and of all together, and of replies; tests lower them. */
struct admin_limits {
	size_t events, replies;
};

extern struct admin_limits admin_limits;

struct sl_admin {
	struct sl_control *control;
	struct sl_gateway *g;
	struct sl_window *window;
	struct sl_authz authz;
	struct admin_acceptor *acceptor;
	struct sl_admin_socket socket;
	struct admin_server servers[ADMIN_CLASSES];
	struct sl_list listeners, readers; /* of /events; of /requests */
	size_t event_bytes;                /* all events that clients have not taken */
	uint64_t event_cnt;
	bool events_fail;
	size_t reply_bytes; /* long ones that clients have not taken */
	bool open;
};

struct admin_request {
	struct sl_admin *admin;
	struct admin_conns *conns;
	struct MHD_Connection *conn;
	const char *url;
	enum sl_admin_role role;
	bool known; /* authenticated by token or socket */
	uint32_t uid;
};

struct admin_handler {
	const char *path;
	bool post;
	enum MHD_Result (*handle)(struct admin_request *r);
};
extern const struct admin_handler admin_handlers[];
extern const size_t admin_handler_cnt;

/* Replies with a line of text, which is copied. Control thread, as all here. */
enum MHD_Result admin_reply_text(struct MHD_Connection *conn, unsigned status, const char *text);
/* Replies with status 405. `post`: the path takes POST only. */
enum MHD_Result admin_refuse_method(struct MHD_Connection *conn, bool post);

/* Sets why: b's text was too long, or there was no memory. */
void admin_name_limit(const struct sl_strbuf *b, const char *url, struct sl_err *why);
/* Appends all statistics, with the role of r unless NULL, or sets b->err. */
void admin_stats_write(struct sl_admin *a, const struct admin_request *r, struct sl_strbuf *b);

/* Handles GET /events. */
enum MHD_Result admin_events_get(struct admin_request *r);
/* Sends an event to each client of /events that has taken the one before. */
void admin_events_tick(struct sl_admin *a);
/* Ends a client of /events or /requests; MHD frees it. */
void admin_events_leave(struct event_listener *l);
/* Resumes all, so that MHD can stop. */
void admin_events_end(struct sl_admin *a);

#endif
