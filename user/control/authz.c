/* SPDX-License-Identifier: Apache-2.0 */
#include "control/authz.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "front/grpc/grpc.h"
#include "wire/addr.h"

enum { GROUPS_MAX = 256, USER_MAX = 127 };

static int fail_token_file(const char *path, const char *why, struct sl_err *err)
{
	return sl_fail(err, -1, "admin: token_file %s: %s", path, why);
}

static int fail_token(const char *path, const char *found, struct sl_err *err)
{
	return sl_fail(err, -1,
		       "admin: token_file %s: found %s; allowed: a token of %d to %d characters "
		       "without spaces, on one line",
		       path, found, SL_CFG_TOKEN_MIN, SL_CFG_TOKEN_MAX);
}

static int take_token(struct sl_authz *g, const char *path, struct sl_span bytes, bool whole,
		      struct sl_err *err)
{
	char found[40];

	if (!whole)
		return fail_token(path, "more than 256 characters", err);
	while (bytes.len && memchr("\r\n\t ", bytes.ptr[bytes.len - 1], 4))
		bytes.len--;
	snprintf(found, sizeof(found), "%zu characters", bytes.len);
	if (bytes.len < SL_CFG_TOKEN_MIN || bytes.len > SL_CFG_TOKEN_MAX)
		return fail_token(path, found, err);
	memcpy(g->token, bytes.ptr, bytes.len);
	g->token[bytes.len] = 0;
	if (strcspn(g->token, "\r\n\t ") != bytes.len)
		return fail_token(path, "a space, a line end or a NUL byte in the token", err);
	return 0;
}

static int read_token(struct sl_authz *g, const char *path, struct sl_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc;
	char text[SL_CFG_TOKEN_MAX + sizeof("\r\n")];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fail_token_file(path, strerror(errno), err);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_mode & 077) {
		close(fd);
		return fail_token_file(
			path,
			"found no file, or one that others may use; allowed: a file that only its "
			"owner may read (chmod 600)",
			err);
	}
	n = read(fd, text, sizeof(text));
	close(fd);
	if (n < 0)
		return fail_token_file(path, strerror(errno), err);
	rc = take_token(g, path, sl_span_of(text, (size_t)n), (size_t)n < sizeof(text), err);
	explicit_bzero(text, sizeof(text));
	return rc;
}

int sl_authz_init(struct sl_authz *g, const struct sl_cfg_admin *cfg, struct sl_err *err)
{
	const struct passwd *pw = cfg->owner ? getpwnam(cfg->owner) : NULL;
	const struct group *gr = cfg->group ? getgrnam(cfg->group) : NULL;

	*g = (struct sl_authz){.cfg = cfg};
	if ((cfg->owner && !pw) || (cfg->group && !gr))
		return sl_fail(err, -1, "admin: no %s \"%s\" on this host",
			       pw || !cfg->owner ? "group" : "account",
			       pw || !cfg->owner ? cfg->group : cfg->owner);
	if (pw)
		g->owner = (struct sl_authz_id){true, pw->pw_uid};
	if (gr)
		g->group = (struct sl_authz_id){true, gr->gr_gid};
	return cfg->token_file ? read_token(g, cfg->token_file, err) : 0;
}

void sl_authz_fini(struct sl_authz *g)
{
	explicit_bzero(g->token, sizeof(g->token));
}

enum sl_admin_role sl_authz_role_of(const struct sl_authz *g, uint32_t uid, uint32_t gid,
				    const uint32_t *groups, size_t group_cnt)
{
	if (uid == 0 || uid == geteuid() || (g->owner.set && uid == g->owner.id))
		return SL_ADMIN_OPERATE;
	if (!g->group.set)
		return SL_ADMIN_NOBODY;
	if (gid == g->group.id)
		return (enum sl_admin_role)g->cfg->group_role;
	for (size_t i = 0; i < group_cnt; i++) {
		if (groups[i] == g->group.id)
			return (enum sl_admin_role)g->cfg->group_role;
	}
	return SL_ADMIN_NOBODY;
}

enum sl_admin_role sl_authz_role(const struct sl_authz *g, int fd, uint32_t *uid)
{
	gid_t groups[GROUPS_MAX];
	struct ucred peer;
	socklen_t len = sizeof(peer), groups_len = sizeof(groups);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return SL_ADMIN_NOBODY;
	/* Beyond GROUPS_MAX groups only the primary one counts. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_len) != 0)
		groups_len = 0;
	*uid = peer.uid;
	return sl_authz_role_of(g, peer.uid, peer.gid, groups, groups_len / sizeof(groups[0]));
}

static bool host_matches(const char *host, size_t len, const char *name, uint16_t port)
{
	const size_t name_len = strlen(name);
	uint64_t n;

	if (len < name_len || strncasecmp(host, name, name_len) != 0)
		return false;
	if (len == name_len)
		return true;
	return host[name_len] == ':' &&
	       sl_parse_u64(sl_span_of(host + name_len + 1, len - name_len - 1), &n) == 0 &&
	       n == port;
}

static bool is_ours(const struct sl_authz *g, const char *host, size_t len,
		    const struct sockaddr *local)
{
	static const char *const always[] = {"127.0.0.1", "[::1]", "localhost"};
	const uint16_t port = g->cfg->port;
	char text[SL_ADDR_TEXT], name[SL_ADDR_TEXT + 2];
	struct sl_addr a;

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		if (host_matches(host, len, always[i], port))
			return true;
	}
	for (uint32_t i = 0; i < g->cfg->host_cnt; i++) {
		if (host_matches(host, len, g->cfg->hosts[i], port))
			return true;
	}
	if (!local || !sl_addr_from_sockaddr(&a, local))
		return false;
	snprintf(name, sizeof(name), a.family == 6 ? "[%s]" : "%s", sl_addr_text(&a, text));
	return host_matches(host, len, name, port);
}

bool sl_authz_host(const struct sl_authz *g, const char *host, const struct sockaddr *local)
{
	return is_ours(g, host, strlen(host), local);
}

bool sl_authz_origin(const struct sl_authz *g, const char *origin, const struct sockaddr *local)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const size_t len = strlen(schemes[i]);

		if (strncasecmp(origin, schemes[i], len) == 0)
			return is_ours(g, origin + len, strlen(origin + len), local);
	}
	return false;
}

bool sl_authz_fetch_site(const char *site)
{
	return strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

static bool is_token(const struct sl_authz *g, const char *shown, size_t len)
{
	const size_t want = strlen(g->token);
	unsigned diff = len != want;

	for (size_t i = 0; i < want; i++)
		diff |= (unsigned char)(g->token[i] ^ (i < len ? shown[i] : 0));
	return !diff;
}

/* RFC 7617: base64 of USER:PASSWORD. The user name is ignored. */
static bool is_password(const struct sl_authz *g, const char *credentials)
{
	char text[SL_CFG_TOKEN_MAX + USER_MAX + 1];
	const struct sl_span coded = sl_span_cstr(credentials);
	const char *colon;
	size_t len;
	bool ok;

	if (coded.len > sizeof(text) / 3 * 4)
		return false;
	len = sl_base64_decode((uint8_t *)text, coded);
	colon = len == SIZE_MAX ? NULL : memchr(text, ':', len);
	ok = colon && is_token(g, colon + 1, len - (size_t)(colon + 1 - text));
	explicit_bzero(text, sizeof(text));
	return ok;
}

static const char *after_scheme(const char *authorization, const char *scheme)
{
	const size_t len = strlen(scheme);

	return strncasecmp(authorization, scheme, len) == 0 ? authorization + len : NULL;
}

bool sl_authz_token(const struct sl_authz *g, const char *authorization)
{
	const char *token, *credentials;

	if (!g->token[0])
		return true;
	if (!authorization)
		return false;
	token = after_scheme(authorization, "Bearer ");
	credentials = after_scheme(authorization, "Basic ");
	if (token)
		return is_token(g, token, strlen(token));
	return credentials && is_password(g, credentials);
}
