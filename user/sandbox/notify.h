/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sd_notify(3): what the gateway tells the service manager. A supervised gateway tells its
 * supervisor, which passes on what stands in its table: managers listen to the process that they
 * started, and to nobody else.
 */
#ifndef SL_SANDBOX_NOTIFY_H
#define SL_SANDBOX_NOTIFY_H

#define SL_NOTIFY_STARTED  "STARTED" /* to the supervisor only: from now on a death is a crash */
#define SL_NOTIFY_READY    "READY=1"
#define SL_NOTIFY_STOPPING "STOPPING=1"
#define SL_NOTIFY_STATUS   "STATUS=" /* and one line of text */

enum { SL_NOTIFY_MAX = 512 };

/*
 * Connects to $NOTIFY_SOCKET, if there is one: before rights are dropped, which may be needed for
 * it. Not after sl_notify_use().
 */
void sl_notify_open(void);

/* A connected socket to tell from now on; ours from now on. */
void sl_notify_use(int fd);

/* Says it, if anybody wants to know. Never blocks. */
void sl_notify(const char *state);

/* Tells the first line of `text` as the status that the service manager shows of the unit. */
void sl_notify_status(const char *text);

#endif
