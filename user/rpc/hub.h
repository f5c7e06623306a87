/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What some transports of one owner, a session or a backend, share: one end at the device, and so
 * one descriptor and one poll for all of them. Others have an fd each, and no hub: those that have no
 * attach(), or that it leaves without one though it returns 0. Of those with a hub only its fd is
 * watched, and theirs may be -1.
 *
 *   sl_hubs_take -> hub polls, and puts those for whom something has come among its `stirred`
 *                -> sl_hubs_stirred: one by one, the watcher of each
 *
 * To poll one of the `kernel` takes a call of it, so sl_hubs_glance() leaves out those whose descriptor
 * has had no event.
 *
 * The owner's thread alone.
 */
#ifndef SL_RPC_HUB_H
#define SL_RPC_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/transport.h"

enum { SL_HUBS_MAX = 32 };

struct sl_hub_ops {
	/* Takes what has come, and does what is due by time. */
	void (*take)(struct sl_hub *hub);
	/* Event mode, as of a transport: false: something has come, or is due, already. */
	bool (*arm)(struct sl_hub *hub);
	/* Its descriptor has an event. */
	void (*check)(struct sl_hub *hub);
};

struct sl_hub {
	const struct sl_hub_ops *ops;
	int fd;
	bool kernel, rang; /* rang: since it was last taken from */
	unsigned watched;  /* transports of the owner */
	uint64_t strays;   /* what has come, since it was last asked, for none of them */
	struct sl_list stirred;
};

/* Of one owner; zeroed at first. */
struct sl_hubs {
	struct sl_hub *of[SL_HUBS_MAX];
	unsigned cnt;
	uint64_t strays; /* of all, ever */
};

/* Events of the transport, or of its hub, have `watcher`, or the hub, as data. 0 or -errno. */
int sl_hubs_watch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t, void *watcher);
void sl_hubs_unwatch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t);
/* An event's data was a hub's: it was looked at. */
bool sl_hubs_check(struct sl_hubs *hubs, void *data);
void sl_hubs_take(struct sl_hubs *hubs);
void sl_hubs_glance(struct sl_hubs *hubs);
/* A watcher whose transport has something; NULL: no more. */
void *sl_hubs_stirred(struct sl_hubs *hubs);
bool sl_hubs_arm(struct sl_hubs *hubs);

#endif
