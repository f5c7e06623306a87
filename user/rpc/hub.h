/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poll group: transports of one owner (a session or a backend) that share one end at the device,
 * one fd and one poll. Transports without attach(), or that attach() leaves without a group, have
 * an fd each.
 *
 *   sl_hubs_take -> the group polls, and lists transports with input in `stirred`
 *                -> sl_hubs_stirred: the watcher of each, one by one
 *
 * Polling a group with `kernel` set takes a system call, so sl_hubs_glance() skips it unless its fd
 * had an event. Owner's thread only.
 */
#ifndef SL_RPC_HUB_H
#define SL_RPC_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/transport.h"

enum { SL_HUBS_MAX = 32 };

struct sl_hub_ops {
	/* Takes what has arrived, and does what is due by time. */
	void (*take)(struct sl_hub *hub);
	/* Event mode. Returns false if something has arrived, or is due, already. */
	bool (*arm)(struct sl_hub *hub);
	/* The fd has an event. */
	void (*check)(struct sl_hub *hub);
};

struct sl_hub {
	const struct sl_hub_ops *ops;
	int fd;
	bool kernel, rang; /* rang: an event since the last take */
	unsigned watched;  /* transports of the owner */
	uint64_t strays;   /* arrivals for no transport, since last asked */
	struct sl_list stirred;
};

/* The groups of one owner; zeroed at first. */
struct sl_hubs {
	struct sl_hub *of[SL_HUBS_MAX];
	unsigned cnt;
	uint64_t strays; /* total of all groups */
};

/* Watches a transport, or its group. Event data is `watcher`, or the group. Returns 0 or -errno. */
int sl_hubs_watch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t, void *watcher);
/* Stops watching the transport. */
void sl_hubs_unwatch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t);
/* Handles an event whose data is a group; returns false for other data. */
bool sl_hubs_check(struct sl_hubs *hubs, void *data);
/* Polls all groups. */
void sl_hubs_take(struct sl_hubs *hubs);
/* Polls the groups that need no system call or had an event. */
void sl_hubs_glance(struct sl_hubs *hubs);
/* Returns the watcher of the next transport with input; NULL: no more. */
void *sl_hubs_stirred(struct sl_hubs *hubs);
/* Arms all groups. Returns false if one has input. */
bool sl_hubs_arm(struct sl_hubs *hubs);

#endif
