/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration asks of this machine, looked at without changing anything. */
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

struct check {
	const struct sl_config *c;
	char *err;
	size_t err_len;
};

static int fail(const struct check *k, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(const struct check *k, int line, const char *fmt, ...)
{
	va_list ap;
	int at = snprintf(k->err, k->err_len, "%s:%d: ", k->c->file, line);

	if (at < 0 || (size_t)at >= k->err_len)
		return -1;
	va_start(ap, fmt);
	vsnprintf(k->err + at, k->err_len - (size_t)at, fmt, ap);
	va_end(ap);
	return -1;
}

/*
 * Receive queues of an interface as sysfs has them; 0: unknown, as in a network namespace that was
 * entered without a /sys of its own.
 */
static unsigned count_queues(const char *ifname)
{
	char path[64], text[16] = "";
	unsigned cnt = 0;
	struct dirent *e;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/net/%s/ifindex", ifname);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	if (strtoul(text, NULL, 10) != if_nametoindex(ifname))
		return 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s/queues", ifname);
	d = opendir(path);
	if (!d)
		return 0;
	while ((e = readdir(d)))
		cnt += strncmp(e->d_name, "rx-", 3) == 0;
	closedir(d);
	return cnt;
}

static int check_interfaces(const struct check *k)
{
	unsigned total = 0;
	bool known = true;

	for (uint32_t i = 0; i < k->c->interface_cnt; i++) {
		const struct sl_cfg_interface *f = &k->c->interfaces[i];
		unsigned have;

		if (!if_nametoindex(f->name))
			return fail(
				k, f->line,
				"found no interface \"%s\" here; allowed: one that `ip link` lists",
				f->name);
		have = count_queues(f->name);
		for (unsigned q = 0; q < f->queue_cnt && have; q++) {
			if (f->queues[q] >= have)
				return fail(k, f->line,
					    "found queue %u for %s; allowed: 0 to %u, as it has %u",
					    f->queues[q], f->name, have - 1, have);
		}
		known = known && have;
		total += f->queue_cnt ? f->queue_cnt : have;
	}
	if (known && k->c->interface_cnt && k->c->worker_cnt > total)
		return fail(k, k->c->interfaces[0].line,
			    "found %u workers for %u receive queues; allowed: at most one worker "
			    "per queue",
			    k->c->worker_cnt, total);
	return 0;
}

static int check_file(const struct check *k, int line, const char *what, const char *path)
{
	if (access(path, R_OK) != 0)
		return fail(k, line, "found %s \"%s\" (%s); allowed: a file that can be read", what,
			    path, strerror(errno));
	return 0;
}

static int check_pools(const struct check *k)
{
	for (uint32_t i = 0; i < k->c->pool_cnt; i++) {
		const struct sl_cfg_pool *p = &k->c->pools[i];

		for (uint32_t j = 0; j < p->backend_cnt; j++) {
			const struct sl_cfg_backend *b = &p->backends[j];

			if (b->key_file && check_file(k, b->line, "key_file", b->key_file) != 0)
				return -1;
		}
	}
	return 0;
}

static int check_cpus(const struct check *k)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (uint32_t i = 0; i < k->c->worker_cnt && k->c->cpus[i] >= 0; i++) {
		int cpu = k->c->cpus[i];

		if (cpu >= CPU_SETSIZE || !CPU_ISSET((size_t)cpu, &set))
			return fail(
				k, k->c->cpus_line,
				"found cpu %d in workers.cpus; allowed: those of `taskset -p $$`",
				cpu);
	}
	return 0;
}

int sl_config_check_system(const struct sl_config *c, char *err, size_t err_len)
{
	struct check k = {c, err, err_len};

	if (check_interfaces(&k) != 0 || check_pools(&k) != 0 || check_cpus(&k) != 0)
		return -1;
	for (uint32_t i = 0; i < c->descriptor_set_cnt; i++) {
		if (check_file(&k, c->descriptor_sets_line, "descriptor_sets",
			       c->descriptor_sets[i]) != 0)
			return -1;
	}
	if (c->user && !getpwnam(c->user))
		return fail(&k, c->user_line,
			    "found user = \"%s\"; allowed: an account of this host", c->user);
	return 0;
}

static bool has_address(const struct ifaddrs *all, const struct sl_cfg_listener *l)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const struct sockaddr *sa = i->ifa_addr;
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;

		if (sa && l->family == 4 && sa->sa_family == AF_INET &&
		    memcmp(&v4->sin_addr, l->addr, 4) == 0)
			return true;
		if (sa && l->family == 6 && sa->sa_family == AF_INET6 &&
		    memcmp(&v6->sin6_addr, l->addr, 16) == 0)
			return true;
	}
	return false;
}

static bool has_route(const struct sl_config *c, uint32_t pool)
{
	for (uint32_t i = 0; i < c->route_cnt; i++) {
		if (c->routes[i].pool == (int32_t)pool)
			return true;
	}
	return false;
}

void sl_config_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg)
{
	struct ifaddrs *all = NULL;
	bool known = getifaddrs(&all) == 0;
	char line[600];

	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];

		if (!known || !l->family || has_address(all, l))
			continue;
		snprintf(line, sizeof(line),
			 "%s:%d: listener \"%.64s\": no interface here has its address: nothing "
			 "comes in until one has",
			 c->file, l->line, l->name);
		fn(arg, line);
	}
	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		if (!c->pools[i].name || has_route(c, i))
			continue;
		snprintf(line, sizeof(line),
			 "%s:%d: pool \"%.64s\": no route leads to it, yet its backends decide on "
			 "whether the gateway is ready",
			 c->file, c->pools[i].line, c->pools[i].name);
		fn(arg, line);
	}
	if (known)
		freeifaddrs(all);
}
