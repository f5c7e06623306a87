/* SPDX-License-Identifier: Apache-2.0 */
/* sd_notify(3). A supervised gateway sends to its supervisor. */
#ifndef SL_SANDBOX_NOTIFY_H
#define SL_SANDBOX_NOTIFY_H

/* to the supervisor: an exit after it counts as a crash */
#define SL_NOTIFY_STARTED  "STARTED"
#define SL_NOTIFY_READY    "READY=1"
#define SL_NOTIFY_STOPPING "STOPPING=1"
#define SL_NOTIFY_STATUS   "STATUS="

enum { SL_NOTIFY_MAX = 512 };

/* Connects to $NOTIFY_SOCKET. Must precede the drop of rights; must not follow sl_notify_use(). */
void sl_notify_open(void);

/* Takes ownership of a connected socket, and closes the last; -1: none. */
void sl_notify_use(int fd);

/* Sends `state`, if connected; logs errors. Never blocks. */
void sl_notify(const char *state);

/* Sends the first line of `text` as the unit's status. */
void sl_notify_status(const char *text);

#endif
