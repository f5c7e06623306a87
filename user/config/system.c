/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/parse.h"
#include "config/server.h"

static const char no_interface[] = "local";

struct system_check {
	const struct sl_config *c;
	struct conf_diags *mistakes;
};

static void report_error(struct system_check *k, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void report_error(struct system_check *k, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	conf_diag_add(k->mistakes, line, NULL, fmt, ap);
	va_end(ap);
}

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

static void check_interfaces(struct system_check *k)
{
	unsigned total = 0;
	bool known = k->c->interface_cnt;

	for (uint32_t i = 0; i < k->c->interface_cnt; i++) {
		const struct sl_cfg_interface *f = &k->c->interfaces[i];
		unsigned have = f->name[0] ? count_queues(f->name) : 0;

		if (f->name[0] && !if_nametoindex(f->name))
			report_error(
				k, f->line,
				"found no interface \"%s\" here; allowed: one that `ip link` lists",
				f->name);
		for (unsigned q = 0; q < f->queue_cnt && have; q++) {
			if (f->queues[q] >= have)
				report_error(
					k, f->line,
					"found queue %u for %s; allowed: 0 to %u, as it has %u",
					f->queues[q], f->name, have - 1, have);
		}
		known = known && have && f->mode != SL_ATTACH_SOCKET;
		total += f->queue_cnt && have ? f->queue_cnt : have;
	}
	if (known && k->c->worker_cnt > total)
		report_error(k, k->c->interfaces[0].line,
			     "found %u workers for %u receive queues; allowed: at most one worker "
			     "per queue",
			     k->c->worker_cnt, total);
}

static void check_file(struct system_check *k, int line, const char *what, const char *path)
{
	if (access(path, R_OK) != 0)
		report_error(k, line, "found %s \"%s\" (%s); allowed: a file that can be read",
			     what, path, strerror(errno));
}

static void check_cpus(struct system_check *k)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return;
	for (uint32_t i = 0; i < k->c->worker_cnt && k->c->cpus[i] >= 0; i++) {
		int cpu = k->c->cpus[i];

		if (cpu >= CPU_SETSIZE || !CPU_ISSET((size_t)cpu, &set))
			report_error(
				k, k->c->cpus_line,
				"found cpu %d in workers.cpus; allowed: those of `taskset -p $$`",
				cpu);
	}
}

static bool out_of_reach(const char *list)
{
	int fd = open(list, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == EACCES || errno == EPERM);
}

static bool is_account(const char *name)
{
	return getpwnam(name) || out_of_reach("/etc/passwd");
}

static void check_admin(struct system_check *k)
{
	const struct sl_cfg_admin *a = &k->c->admin;
	struct stat st;

	if (a->owner && !is_account(a->owner))
		report_error(k, a->line, "found owner = \"%s\"; allowed: an account of this host",
			     a->owner);
	if (a->group && !getgrnam(a->group) && !out_of_reach("/etc/group"))
		report_error(k, a->line, "found group = \"%s\"; allowed: a group of this host",
			     a->group);
	if (!a->token_file)
		return;
	if (stat(a->token_file, &st) != 0)
		report_error(k, a->line,
			     "found token_file \"%s\" (%s); allowed: a file that can be read",
			     a->token_file, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_mode & 077)
		report_error(
			k, a->line,
			"found token_file \"%s\" that others than its owner may use; allowed: a file "
			"with mode 600",
			a->token_file);
	else if (st.st_size < SL_CFG_TOKEN_MIN ||
		 st.st_size > SL_CFG_TOKEN_MAX + (off_t)strlen("\r\n"))
		report_error(k, a->line,
			     "found token_file \"%s\" of %lld bytes; allowed: a token of %d to %d "
			     "characters",
			     a->token_file, (long long)st.st_size, SL_CFG_TOKEN_MIN,
			     SL_CFG_TOKEN_MAX);
}

static void check_socket_groups(struct system_check *k)
{
	for (uint32_t i = 0; i < k->c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &k->c->listeners[i];

		if (l->group && !getgrnam(l->group) && !out_of_reach("/etc/group"))
			report_error(k, l->line,
				     "found group = \"%s\"; allowed: a group of this host",
				     l->group);
	}
}

static void check_account(struct system_check *k)
{
	if (!k->c->user[0] || is_account(k->c->user))
		return;
	if (k->c->user_line)
		report_error(k, k->c->user_line,
			     "found user = \"%s\"; allowed: an account of this host", k->c->user);
	else
		report_error(
			k, 0,
			"found no account \"%s\" here, as which the gateway runs unless `user` names "
			"another; allowed: make it (useradd --system --no-create-home --shell "
			"/usr/sbin/nologin %s), or set user, to \"root\" if it has to be",
			k->c->user, k->c->user);
}

static void check_server_key(struct system_check *k, const struct sl_cfg_file *key)
{
	struct stat st;

	if (stat(key->path, &st) != 0)
		check_file(k, key->line, "key", key->path);
	else if (!S_ISREG(st.st_mode) || st.st_mode & (S_IRWXO | S_IWGRP))
		report_error(k, key->line,
			     "found key \"%s\" that others may use; allowed: a file with mode "
			     "600, or 640 with the gateway's group",
			     key->path);
}

static void check_server_tls(struct system_check *k, const struct sl_cfg_pool *pool)
{
	const struct sl_cfg_server_tls *t = &pool->tls;
	uint32_t b = 0;

	while (b < pool->backend_cnt && !sl_server_has_tls(&pool->backends[b]))
		b++;
	if (b == pool->backend_cnt)
		return;
	if (t->verify && t->ca_file.path)
		check_file(k, t->line ? t->ca_file.line : pool->line, "ca_file", t->ca_file.path);
	if (t->certificate.path)
		check_file(k, t->certificate.line, "certificate", t->certificate.path);
	if (t->key.path)
		check_server_key(k, &t->key);
}

void conf_check_system(const struct sl_config *c, struct conf_diags *m)
{
	struct system_check k = {c, m};

	check_interfaces(&k);
	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		for (uint32_t b = 0; b < c->pools[i].backend_cnt; b++) {
			const struct sl_cfg_backend *backend = &c->pools[i].backends[b];

			if (backend->key_file)
				check_file(&k, backend->line, "key_file", backend->key_file);
		}
		check_server_tls(&k, &c->pools[i]);
	}
	check_cpus(&k);
	check_admin(&k);
	for (uint32_t i = 0; i < c->descriptor_set_cnt; i++)
		check_file(&k, c->descriptor_sets_line, "descriptor_sets", c->descriptor_sets[i]);
	check_account(&k);
	check_socket_groups(&k);
}

int sl_config_check_system(const struct sl_config *c, struct sl_err *err)
{
	struct conf_diags mistakes = {.file = c->file, .cfg = c};
	bool ok;

	conf_check_system(c, &mistakes);
	ok = !mistakes.cnt;
	if (!ok)
		conf_diags_print(&mistakes, err);
	conf_diags_free(&mistakes);
	return ok ? 0 : -1;
}

static bool has_address(const struct ifaddrs *all, const struct sl_cfg_listener *l)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct sl_addr a;

		if (!i->ifa_addr || !sl_addr_from_sockaddr(&a, i->ifa_addr))
			continue;
		a.port_be = l->at.port_be;
		if (sl_addr_equal(&a, &l->at))
			return true;
	}
	return false;
}

void sl_config_each_former_key(const struct sl_config *c, sl_config_warn_fn *fn, void *arg)
{
	char line[600];

	for (uint32_t i = 0; i < c->former_key_cnt; i++) {
		const struct sl_cfg_former_key *k = &c->former_keys[i];
		const struct sl_cfg_location at = sl_config_location(c, k->line);

		snprintf(line, sizeof(line),
			 "%.400s:%d: key \"%s\" %s%s%s; `sluice check --fix` %s it", at.file,
			 at.line, k->name, k->now ? "is now \"" : "has no effect any more",
			 k->now ? k->now : "", k->now ? "\"" : "", k->now ? "rewrites" : "removes");
		fn(arg, line);
	}
}

void sl_config_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg)
{
	struct ifaddrs *all = NULL;
	bool known = getifaddrs(&all) == 0;
	char line[600];

	sl_config_each_former_key(c, fn, arg);
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		const struct sl_cfg_location at = sl_config_location(c, l->line);

		if (!known || !l->at.family || has_address(all, l))
			continue;
		snprintf(
			line, sizeof(line),
			"%.400s:%d: listener \"%.64s\": no interface here has its address: nothing "
			"comes in until one has",
			at.file, at.line, l->name);
		fn(arg, line);
	}
	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		const struct sl_cfg_location at = sl_config_location(c, c->pools[i].line);
		uint32_t route = 0;

		while (route < c->route_cnt &&
		       !sl_cfg_route_has_pool(&c->routes[route], (int32_t)i) &&
		       !sl_cfg_route_mirrors_to(&c->routes[route], (int32_t)i))
			route++;
		if (route < c->route_cnt)
			continue;
		snprintf(
			line, sizeof(line),
			"%.400s:%d: pool \"%.64s\": no route leads to it, yet its backends decide on "
			"whether the gateway is ready",
			at.file, at.line, c->pools[i].name);
		fn(arg, line);
	}
	if (known)
		freeifaddrs(all);
}

bool sl_config_has_xdp(const struct sl_config *c)
{
	for (uint32_t i = 0; i < c->interface_cnt; i++) {
		if (c->interfaces[i].mode != SL_ATTACH_SOCKET)
			return true;
	}
	return false;
}

const char *sl_run_dir(void)
{
	static char dir[80]; /* leaves room for names in 108 bytes */
	const char *own = getenv("XDG_RUNTIME_DIR");

	if (dir[0])
		return dir;
	if (geteuid() == 0 || access(SL_RUN_DIR, W_OK) == 0)
		snprintf(dir, sizeof(dir), SL_RUN_DIR);
	else if (own && own[0] == '/' && strlen(own) + sizeof("/sluice") < sizeof(dir))
		snprintf(dir, sizeof(dir), "%s/sluice", own);
	else
		snprintf(dir, sizeof(dir), "/tmp/sluice-%u", (unsigned)geteuid());
	return dir;
}

int sl_run_dir_make(void)
{
	bool shared = strcmp(sl_run_dir(), SL_RUN_DIR) == 0;
	struct stat st;

	if (mkdir(sl_run_dir(), shared ? 0755 : 0700) != 0 && errno != EEXIST)
		return -errno;
	if (shared)
		return 0;
	if (lstat(sl_run_dir(), &st) != 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : -EPERM;
}

bool sl_config_admin_socket(const struct sl_config *c, bool in_netns, char path[108])
{
	const char *said = c->admin.socket, *name;
	struct stat ns;

	path[0] = 0;
	if (strcmp(said, "none") == 0)
		return false;
	if (strcmp(said, "auto") != 0) {
		snprintf(path, 108, "%s", said);
		return !in_netns;
	}
	name = c->interface_cnt ? c->interfaces[0].name : no_interface;
	if (!in_netns)
		snprintf(path, 108, "%s/%s.sock", sl_run_dir(), name);
	else if (stat("/proc/thread-self/ns/net", &ns) == 0)
		snprintf(path, 108, "%s/%s@%lu.sock", sl_run_dir(), name, (unsigned long)ns.st_ino);
	return path[0];
}

bool sl_config_is_admin_socket(const char *file)
{
	char name[IF_NAMESIZE];
	size_t len = strcspn(file, "@");
	const char *end = strrchr(file, '.');

	if (!end || strcmp(end, ".sock") != 0)
		return false;
	if (!file[len])
		len = (size_t)(end - file);
	if (!len || len >= sizeof(name))
		return false;
	memcpy(name, file, len);
	name[len] = 0;
	return strcmp(name, no_interface) == 0 || if_nametoindex(name) != 0;
}
