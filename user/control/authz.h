/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask the admin endpoint for what.
 *
 *   Unix socket   by the account of who connected (SO_PEERCRED): root, the gateway's own account
 *                 and `owner` operate, the members of `group` read or operate, nobody else enters
 *   TCP           reads. A page that a browser has from elsewhere is refused: Host must name this
 *                 endpoint (or DNS could be made to, RFC 6454's weak spot), Origin and
 *                 Sec-Fetch-Site must not be foreign. With a token, only who shows it.
 *
 * No I/O but reading the token; nothing here keeps what it is given.
 */
#ifndef SL_CONTROL_AUTHZ_H
#define SL_CONTROL_AUTHZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "config/config.h"

struct sl_authz_id {
	bool set;
	uint32_t id;
};

struct sl_authz {
	const struct sl_cfg_admin *cfg;
	struct sl_authz_id owner, group;
	char token[SL_CFG_TOKEN_MAX + 1]; /* "": none is asked for */
};

/* Looks up accounts and reads the token: while the gateway may. 0, or -1 and one line in err. */
int sl_authz_init(struct sl_authz *g, const struct sl_cfg_admin *cfg, struct sl_err *err);
void sl_authz_fini(struct sl_authz *g);

/* Of the process at the other end of a connected Unix socket, whose account goes to *uid. */
enum sl_admin_role sl_authz_role(const struct sl_authz *g, int fd, uint32_t *uid);
/* By account, primary group and further groups. */
enum sl_admin_role sl_authz_role_of(const struct sl_authz *g, uint32_t uid, uint32_t gid,
				    const uint32_t *groups, size_t group_cnt);

/*
 * local: the address at which the connection arrived; whoever knows it by number has not been
 * sent here by a name.
 */
bool sl_authz_host(const struct sl_authz *g, const char *host, const struct sockaddr *local);
bool sl_authz_origin(const struct sl_authz *g, const char *origin, const struct sockaddr *local);
bool sl_authz_fetch_site(const char *site);
/*
 * authorization: the header, or NULL. The token is shown as Bearer TOKEN, or as the password of
 * Basic credentials, which a browser asks for. Takes as long for a wrong token as for the right one.
 */
bool sl_authz_token(const struct sl_authz *g, const char *authorization);

#endif
