/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervisor, which forks the gateway.
 *
 *   service manager, terminal
 *      |  TERM INT HUP                ^ READY=1, STOPPING=1
 *      v                              |
 *   supervisor  (root, all rights; reads signals, known messages and the child's status)
 *      |  TERM INT HUP                ^ socket pair (notify.h)
 *      v                              |
 *   gateway     (its account, no rights, sandbox.h)
 *
 * If the gateway exits, the supervisor exits with the same status. It restarts a gateway that dies
 * of a signal or exits with SL_SUPERVISE_AGAIN, which is status 0 if the supervisor must stop. The delay doubles from 1 s to 30 s; a life of one
 * minute resets it. After TRIES consecutive starts without serving, the supervisor exits with the
 * gateway's status, or 128 + signal. The gateway dies with its supervisor.
 */
#ifndef SL_SANDBOX_SUPERVISE_H
#define SL_SANDBOX_SUPERVISE_H

struct sl_supervised {
	int (*run)(void *arg);    /* in the child; returns its exit status */
	void (*clean)(void *arg); /* in the parent, after each exit */
	void (*look)(void *arg);  /* parent: about once a second while the child serves */
	void *arg;
};

enum { SL_SUPERVISE_AGAIN = 75 };

/* Forks and supervises. Returns the exit status. The child exits with the result of run(). */
int sl_supervise(const struct sl_supervised *s);

/* Rebinds the child to its parent's death, after each change of credentials. May exit. */
void sl_supervise_bind(void);
/* Same for a parent other than the supervisor. */
void sl_supervise_under(int pid);

#endif
