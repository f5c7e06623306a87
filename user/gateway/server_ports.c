/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/server_ports.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "config/config.h"

enum { TIME_WAIT = 6 };

static bool read_setting(const char *name, char *to, size_t size)
{
	char path[128];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	f = fopen(path, "re");
	ok = f && fgets(to, (int)size, f);
	if (f)
		fclose(f);
	return ok;
}

bool sl_server_ports_listed(const char *list, unsigned port)
{
	unsigned first, last;
	int n;

	for (; *list; list += strcspn(list, ",") + (strchr(list, ',') != NULL)) {
		if (sscanf(list, "%u%n", &first, &n) != 1)
			continue;
		last = first;
		if (list[n] == '-')
			(void)sscanf(list + n + 1, "%u", &last);
		if (port >= first && port <= last)
			return true;
	}
	return false;
}

unsigned sl_server_ports_used(FILE *table, unsigned first, unsigned last)
{
	unsigned port, state;
	char line[256];

	while (fgets(line, sizeof(line), table)) {
		if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &port, &state) == 2 &&
		    state != TIME_WAIT && port >= first && port <= last)
			return port;
	}
	return 0;
}

static int check_sockets(const struct sl_config *cfg, struct sl_err *err)
{
	static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
	const struct sl_cfg_limits *l = &cfg->limits;

	for (size_t i = 0; i < SL_ARRAY_LEN(tables); i++) {
		FILE *f = fopen(tables[i], "re");
		unsigned port = f ? sl_server_ports_used(f, l->port_first, l->port_last) : 0;

		if (f)
			fclose(f);
		if (port)
			return sl_fail(err, -EADDRINUSE,
				       "%s:0: found a socket of another program at port %u of "
				       "tcp.server_ports; allowed: ports without sockets",
				       cfg->file, port);
	}
	return 0;
}

int sl_server_ports_check(const struct sl_config *cfg, struct sl_err *err)
{
	const struct sl_cfg_limits *l = &cfg->limits;
	static char reserved[1 << 16];
	unsigned first = 0, last = 0;
	char range[64];

	if (!l->port_first)
		return 0;
	if (!read_setting("ip_local_port_range", range, sizeof(range)) ||
	    sscanf(range, "%u %u", &first, &last) != 2)
		return check_sockets(cfg, err);
	if (!read_setting("ip_local_reserved_ports", reserved, sizeof(reserved)))
		reserved[0] = 0;
	for (unsigned p = l->port_first; p <= l->port_last; p++) {
		if (p < first || p > last || sl_server_ports_listed(reserved, p))
			continue;
		return sl_fail(
			err, -EADDRINUSE,
			"%s:0: found port %u of tcp.server_ports in net.ipv4.ip_local_port_range "
			"(%u to %u); allowed: ports outside of it, or listed in "
			"net.ipv4.ip_local_reserved_ports",
			cfg->file, p, first, last);
	}
	return check_sockets(cfg, err);
}
