/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets at which the admin endpoint listens. */
#ifndef SL_CONTROL_LISTEN_H
#define SL_CONTROL_LISTEN_H

#include "base/err.h"
#include "config/config.h"
#include "control/authz.h"

struct sl_admin_socket {
	char path[108]; /* "": there is none */
	int fd;
};

/*
 * Binds the Unix socket of the configuration, for owner and group only. One that nobody listens at
 * is replaced. Where a living gateway of another network namespace has the default's name, this one
 * gets NAME@INODE, as the pinned maps do. 0, or -1 and one line in err; fd is the caller's.
 */
int sl_admin_bind(const struct sl_config *cfg, const struct sl_authz *g, struct sl_admin_socket *s,
		  struct sl_err *err);
/* Takes the name away, where it still may. */
void sl_admin_unbind(struct sl_admin_socket *s);

/*
 * Removes sockets in SL_RUN_DIR that dead gateways left: default names of admin sockets at which no
 * process listens. Backends' sockets in the same folder stay.
 */
void sl_admin_sweep(void);

/* A listening TCP socket, or -1 and one line in err. */
int sl_admin_listen_tcp(const struct sl_config *cfg, struct sl_err *err);

#endif
