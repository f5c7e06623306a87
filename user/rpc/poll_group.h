/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports of one owner (a session or a backend) with one fd and one poll.
 *
 * Owner's thread only.
 */
#ifndef SL_RPC_POLL_GROUP_H
#define SL_RPC_POLL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/transport.h"

enum { SL_POLL_GROUPS_MAX = 32 };

struct sl_poll_group_ops {
	void (*poll)(struct sl_poll_group *group);
	/* Event mode. False: something is due. */
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

/* Zeroed at first. */
struct sl_poll_groups {
	struct sl_poll_group *list[SL_POLL_GROUPS_MAX];
	unsigned cnt;
	uint64_t unmatched;
};

/* Watches a transport or its group. Event data: `watcher` or the group. Returns 0, -EUSERS (too
 * many sleepers) or -errno. */
int sl_poll_groups_watch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t,
			 void *watcher);
/* Ends the watch of a transport, before it is closed. */
void sl_poll_groups_unwatch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t);
/* Handles an event's data. False: it is no group. */
bool sl_poll_groups_handle_event(struct sl_poll_groups *groups, void *data);
/* Polls all groups, which lists transports with input. */
void sl_poll_groups_poll(struct sl_poll_groups *groups);
/* Polls the groups that need no system call or had an event. */
void sl_poll_groups_poll_nonblock(struct sl_poll_groups *groups);
/* Returns the watcher of the next transport with input, or NULL. */
void *sl_poll_groups_next_ready(struct sl_poll_groups *groups);
/* Event mode. Returns false if a group has input: do not sleep. */
bool sl_poll_groups_arm(struct sl_poll_groups *groups);

#endif
