/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authorisation of requests to the admin endpoint.
 *
 *   Unix socket   by the account of the peer (SO_PEERCRED): root, the gateway's account and `owner`
 *                 operate; members of `group` read or operate; others are refused
 *   TCP           reads. Host must name this endpoint (against DNS rebinding), Origin and
 *                 Sec-Fetch-Site must not be foreign. A configured token must be in each request.
 *
 * sl_authz_init() keeps cfg, which must outlive g.
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
	char token[SL_CFG_TOKEN_MAX + 1]; /* "": none */
};

/* Looks up accounts and reads the token; needs privileges. Returns 0, or -1 and err. */
int sl_authz_init(struct sl_authz *g, const struct sl_cfg_admin *cfg, struct sl_err *err);
/* Erases the token. */
void sl_authz_fini(struct sl_authz *g);

/* Returns the role of a Unix socket's peer, and *uid; SL_ADMIN_NOBODY on error. */
enum sl_admin_role sl_authz_role(const struct sl_authz *g, int fd, uint32_t *uid);
/* Returns the role of an account. */
enum sl_admin_role sl_authz_role_of(const struct sl_authz *g, uint32_t uid, uint32_t gid,
				    const uint32_t *groups, size_t group_cnt);

/*
 * Return true if the field is allowed. local: the connection's local address, which DNS rebinding
 * cannot put into Host.
 */
bool sl_authz_host(const struct sl_authz *g, const char *host, const struct sockaddr *local);
bool sl_authz_origin(const struct sl_authz *g, const char *origin, const struct sockaddr *local);
bool sl_authz_fetch_site(const char *site);
/*
 * Returns true if no token is configured, or the field has it: as Bearer TOKEN, or as the password
 * of Basic credentials. Constant time. authorization may be NULL.
 */
bool sl_authz_token(const struct sl_authz *g, const char *authorization);

#endif
