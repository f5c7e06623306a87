/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_LISTEN_H
#define SL_CONTROL_LISTEN_H

#include "base/err.h"
#include "config/config.h"
#include "control/authz.h"

struct sl_admin_socket {
	char path[108]; /* "": no socket */
	int fd;
};

/*
 * Binds the Unix socket, for owner and group. Replaces a stale socket. The default name becomes
 * NAME@INODE if a gateway of another network namespace uses it. Needs privileges. Returns 0, or -1
 * and err. The caller owns s->fd: -1 without a socket.
 */
int sl_admin_bind(const struct sl_config *cfg, const struct sl_authz *g, struct sl_admin_socket *s,
		  struct sl_err *err);
/* Removes the name, if the account may; s->fd stays open. */
void sl_admin_unbind(struct sl_admin_socket *s);

/* Removes stale admin sockets with default names from SL_RUN_DIR. */
void sl_admin_sweep(void);

/* Returns a listening TCP socket, the caller's, or -1 and err. */
int sl_admin_listen_tcp(const struct sl_config *cfg, struct sl_err *err);

#endif
