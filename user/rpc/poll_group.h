/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poll group: transports of one owner (a session or a backend) with one fd and one poll. Other
 * transports have an fd each.
 *
 *   sl_poll_groups_poll -> the group polls, and lists transports with input in `ready`
 *                -> sl_poll_groups_next_ready: the watcher of each, one by one
 *
 * Polling a group with `kernel` set takes a system call. Owner's thread only.
 */
#ifndef SL_RPC_POLL_GROUP_H
#define SL_RPC_POLL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/transport.h"

enum { SL_POLL_GROUPS_MAX = 32 };

struct sl_poll_group_ops {
	/* Takes input, and does what is due. */
	void (*poll)(struct sl_poll_group *group);
	/* Event mode. Returns false if something is due already. */
	bool (*arm)(struct sl_poll_group *group);
	void (*handle_event)(struct sl_poll_group *group);
};

struct sl_poll_group {
	const struct sl_poll_group_ops *ops;
	int fd;
	bool kernel, had_event;
	unsigned watched;
	uint64_t unmatched; /* since last asked */
	struct sl_list ready;
};

/* An owner's groups; zeroed at first. */
struct sl_poll_groups {
	struct sl_poll_group *list[SL_POLL_GROUPS_MAX];
	unsigned cnt;
	uint64_t unmatched;
};

/* Watches a transport, or its group. Event data is `watcher`, or the group. Returns 0 or -errno. */
int sl_poll_groups_watch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t,
			 void *watcher);
void sl_poll_groups_unwatch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t);
/* Handles an event whose data is a group; returns false for other data. */
bool sl_poll_groups_handle_event(struct sl_poll_groups *groups, void *data);
void sl_poll_groups_poll(struct sl_poll_groups *groups);
/* Polls the groups that need no system call or had an event. */
void sl_poll_groups_poll_nonblock(struct sl_poll_groups *groups);
/* Returns the watcher of the next transport with input; NULL: no more. */
void *sl_poll_groups_next_ready(struct sl_poll_groups *groups);
/* Returns false if a group has input. */
bool sl_poll_groups_arm(struct sl_poll_groups *groups);

#endif
