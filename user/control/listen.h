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
 * Binds the Unix socket, accessible for owner and group. Replaces a socket at which no process
 * listens. The default name becomes NAME@INODE if a gateway of another network namespace uses it.
 * Returns 0, or -1 and one line in err. The caller owns s->fd.
 */
int sl_admin_bind(const struct sl_config *cfg, const struct sl_authz *g, struct sl_admin_socket *s,
		  struct sl_err *err);
/* Removes the name, if the account is still allowed to. */
void sl_admin_unbind(struct sl_admin_socket *s);

/* Removes default names of admin sockets in SL_RUN_DIR at which no process listens. */
void sl_admin_sweep(void);

/* Returns a listening TCP socket, or -1 and one line in err. */
int sl_admin_listen_tcp(const struct sl_config *cfg, struct sl_err *err);

#endif
