/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authorisation of requests to the admin endpoint.
 *
 *   Unix socket   by the account of the peer (SO_PEERCRED): root, the gateway's account and `owner`
 *                 operate; members of `group` read or operate; others are refused
 *   TCP           reads. Pages of other origins are refused: Host must name this endpoint (against
 *                 DNS rebinding), Origin and Sec-Fetch-Site must not be foreign. If a token is
 *                 configured, each request must have it.
 *
 * No I/O except reading the token. No function keeps its arguments.
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
	char token[SL_CFG_TOKEN_MAX + 1]; /* "": none is required */
};

/* Looks up accounts and reads the token, with privileges. Returns 0, or -1 and one line in err. */
int sl_authz_init(struct sl_authz *g, const struct sl_cfg_admin *cfg, struct sl_err *err);
/* Erases the token. */
void sl_authz_fini(struct sl_authz *g);

/* Returns the role of the peer of a Unix socket, and its account in *uid. */
enum sl_admin_role sl_authz_role(const struct sl_authz *g, int fd, uint32_t *uid);
enum sl_admin_role sl_authz_role_of(const struct sl_authz *g, uint32_t uid, uint32_t gid,
				    const uint32_t *groups, size_t group_cnt);

/*
 * Return true if the header field is allowed. local is the local address of the connection: a Host
 * that is this address cannot come from DNS rebinding.
 */
bool sl_authz_host(const struct sl_authz *g, const char *host, const struct sockaddr *local);
bool sl_authz_origin(const struct sl_authz *g, const char *origin, const struct sockaddr *local);
bool sl_authz_fetch_site(const char *site);
/*
 * Returns true if authorization, the field or NULL, has the token: as Bearer TOKEN, or as the
 * password of Basic credentials. Runs in constant time.
 */
bool sl_authz_token(const struct sl_authz *g, const char *authorization);

#endif
