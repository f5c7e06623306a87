/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: the process that was started, which forks the gateway and does little else.
 *
 *   service manager, terminal
 *      |  TERM INT HUP                ^ READY=1, STOPPING=1
 *      v                              |
 *   supervisor  (root, all rights; reads signals, the table's words and the child's status)
 *      |  TERM INT HUP                ^ socket pair (notify.h)
 *      v                              |
 *   gateway     (its account, no rights, sandbox.h)
 *
 * The gateway ends by itself: so does the supervisor, with its status. It dies of a signal, or ends
 * with SL_SUPERVISE_AGAIN: what it left is cleaned up, so that packets are the kernel's meanwhile, and it is started again, after 1
 * s and then twice as long each time up to 30 s. A gateway that has lived for a minute counts as
 * well again. One that has not come to serve anybody TRIES times in a row is not started again: its
 * status, or 128 + its signal, is the supervisor's. When the supervisor dies, so does the gateway.
 */
#ifndef SL_SANDBOX_SUPERVISE_H
#define SL_SANDBOX_SUPERVISE_H

struct sl_supervised {
	int (*run)(void *arg);    /* in the child; its status */
	void (*clean)(void *arg); /* in the parent, after each death of the child */
	void (*look)(void *arg);  /* in the parent, about once a second while the child serves */
	void *arg;
};

/*
 * A child that ends with this status, having served, is started again: a part of it that it cannot
 * start itself has died.
 */
enum { SL_SUPERVISE_AGAIN = 75 };

/* Returns the status to exit with; only in the parent: the child exits with what run() returns. */
int sl_supervise(const struct sl_supervised *s);

/* In the child, after each change of its rights: the kernel forgets whose death is ours. */
void sl_supervise_bind(void);
/* A process that was forked by another one than the supervisor: it ends with that one. */
void sl_supervise_under(int pid);

#endif
