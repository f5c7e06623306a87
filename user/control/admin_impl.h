/* SPDX-License-Identifier: Apache-2.0 */
/* What admin.c and pages.c share: the former decides on who comes in, the latter answers. */
#ifndef SL_CONTROL_ADMIN_IMPL_H
#define SL_CONTROL_ADMIN_IMPL_H

#include <microhttpd.h>

#include "base/list.h"
#include "control/admin.h"
#include "control/door.h"
#include "control/guard.h"
#include "control/guests.h"
#include "control/listen.h"

/*
 * Each kind of visitor has places of its own, so that those who read slowly keep neither probes nor
 * operators out.
 */
enum visitor { PROBE, READER, OPERATOR, VISITORS };

struct house {
	struct sl_admin *admin;
	enum visitor kind;
	struct MHD_Daemon *daemon;
	struct sl_guests guests;
};

struct sl_admin {
	struct sl_control *control;
	struct sl_gateway *g;
	struct sl_window *window;
	struct sl_guard guard;
	struct sl_door *door;
	struct sl_admin_socket socket;
	struct house houses[VISITORS];
	struct sl_list listeners; /* of /events */
	bool open;
};

struct request {
	struct sl_admin *admin;
	struct sl_guests *guests; /* of its house */
	struct MHD_Connection *conn;
	enum sl_admin_role role;
	bool known; /* by a token, or as a role of the socket */
	uint32_t uid;
};

struct sl_page {
	const char *path;
	bool post;
	enum MHD_Result (*handle)(struct request *r);
};
extern const struct sl_page sl_pages[];
extern const size_t sl_page_cnt;

enum MHD_Result sl_page_text(struct MHD_Connection *conn, unsigned status, const char *text);

/* /events: an event to each listener; the end of one, and of all. */
void sl_pages_tick(struct sl_admin *a);
void sl_page_leave(struct listener *l);
void sl_pages_end(struct sl_admin *a);

#endif
