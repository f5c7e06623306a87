/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has come into a house of the admin endpoint and is still there: an answer that is not read, a
 * request whose body does not come, a listener of /events.
 *
 *   guests: oldest ---> ... ---> newest      at most `places`, or the next one finds none
 *
 * When all places are taken, or all of those who may listen, the oldest guest of whoever has most
 * of them (an address, or an account) has to go. Most are answered in the turn of the loop in which
 * they come, so that those who stay stand in nobody's way.
 *
 * Called by the control thread.
 */
#ifndef SL_CONTROL_GUESTS_H
#define SL_CONTROL_GUESTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct listener;

struct sl_guest {
	struct sl_list link;
	struct MHD_Connection *conn;
	int fd;
	uint64_t who;              /* the same for those of one address or account */
	struct listener *listener; /* of /events, and not asked to go (pages.c) */
};

struct sl_guests {
	struct sl_list all;
	unsigned cnt, listener_cnt;
};

void sl_guests_init(struct sl_guests *g);
/* As MHD_NotifyConnectionCallback, with the guests as its argument. */
void sl_guests_notify(void *guests, struct MHD_Connection *conn, void **context,
		      enum MHD_ConnectionNotificationCode what);
/* NULL: there was no memory for it. */
struct sl_guest *sl_guest_of(struct MHD_Connection *conn);
/* Who has to go, of all or of those who listen; NULL: there is none. */
struct sl_guest *sl_guests_find(const struct sl_guests *g, bool listening);

#endif
