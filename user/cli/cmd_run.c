/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/folder.h"
#include "agent/zygote.h"
#include "base/check.h"
#include "base/log.h"
#include "base/output.h"
#include "cli/cli.h"
#include "control/control.h"
#include "control/listen.h"
#include "front/tls/server.h"
#include "gateway/tls_threads.h"
#include "gateway/ways.h"
#include "sandbox/notify.h"
#include "sandbox/sandbox.h"
#include "sandbox/supervise.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"

enum { FIXED_MAX = 8, FOLDERS_MAX = 256 };

#define say(...) sl_output_line(STDOUT_FILENO, __VA_ARGS__)

static void print_start(struct sl_gateway *g, const struct sl_config *c, const char *socket)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);

	for (uint32_t i = 0; i < in->interface_cnt; i++)
		say("interface %s: %s", in->interfaces[i].name, in->interfaces[i].attach);
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t i = 0; i < in->workers[w].port_cnt; i++) {
			const struct sl_port_info *p = &in->workers[w].ports[i];

			say("socket %s queue %u: %s, worker %u", p->ifname, p->queue,
			    sl_port_mode_name((enum sl_port_mode)p->mode), w);
		}
	}
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		char addr[SL_ADDR_TEXT];

		if (l->socket) {
			say("listener %s: unix:%s%s http", l->name, l->socket,
			    l->tls ? " tls" : "");
			continue;
		}
		say("listener %s: %s port %u%s%s%s", l->name, sl_addr_text(&l->at, addr),
		    ntohs(l->at.port_be), l->tls ? " tls" : "", l->http ? " http" : "",
		    l->datagram ? " datagram" : "");
	}
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++)
			say("backend %s/%s: %s", c->pools[p].name, c->pools[p].backends[b].name,
			    c->pools[p].backends[b].endpoint);
	}
	if (socket[0])
		say("admin: unix:%s", socket);
	if (c->admin.port)
		say("admin: http://%s%s%s:%u/", strchr(c->admin.address, ':') ? "[" : "",
		    c->admin.address, strchr(c->admin.address, ':') ? "]" : "", c->admin.port);
	if (!socket[0] && !c->admin.port)
		say("admin: none");
}

static void on_ready(void *arg)
{
	(void)arg;
	say("ready");
}

static bool any_endpoint(const struct sl_config *c, bool (*is)(const char *endpoint))
{
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++) {
			const struct sl_cfg_backend *k = &c->pools[p].backends[b];

			if (is(k->endpoint) || (k->fallback && is(k->fallback)))
				return true;
		}
	}
	return false;
}

static bool is_rdma(const char *endpoint)
{
	return strncmp(endpoint, "rdma", 4) == 0;
}

static void raise_limits(const struct sl_config *c)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit nice = {0};
	struct sl_host_info host;
	bool xdp = sl_config_has_xdp(c);
	int rc = xdp ? sl_bpffs_mount() : 0;

	(void)getrlimit(RLIMIT_NICE, &nice);
	if (nice.rlim_cur < SL_TLS_THREAD_RLIMIT) {
		nice.rlim_cur = SL_TLS_THREAD_RLIMIT;
		if (nice.rlim_max < nice.rlim_cur)
			nice.rlim_max = nice.rlim_cur;
		(void)setrlimit(RLIMIT_NICE, &nice);
	}
	if (setrlimit(RLIMIT_MEMLOCK, &all) != 0 && (xdp || any_endpoint(c, is_rdma))) {
		sl_probe_host(&host);
		if (!host.cap_ipc_lock)
			sl_log_warn("cannot raise the limit of locked memory and have no "
				    "CAP_IPC_LOCK: if memory is refused, ulimit -l unlimited, or "
				    "LimitMEMLOCK=infinity");
	}
	if (rc)
		sl_log_warn("no BPF file system on %s: %s; maps are not pinned", SL_BPFFS,
			    strerror(-rc));
}

static bool log_is_file(const struct sl_config *c)
{
	return c->access_log.file && strcmp(c->access_log.file, "-") != 0;
}

static size_t add_folder(const char *file, char (*folders)[PATH_MAX], size_t n)
{
	char folder[PATH_MAX];

	if (!file || n == FOLDERS_MAX)
		return n;
	sl_sandbox_folder(file, folder, sizeof(folder));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(folders[i], folder) == 0)
			return n;
	}
	memcpy(folders[n], folder, sizeof(folder));
	return n + 1;
}

static size_t list_tls_folders(const struct sl_config *c, char (*folders)[PATH_MAX], size_t n)
{
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_tls *t = c->listeners[i].tls;

		for (uint32_t k = 0; t && k < t->certificate_cnt; k++) {
			n = add_folder(t->certificates[k].path, folders, n);
			n = add_folder(t->keys[k].path, folders, n);
		}
		n = t ? add_folder(t->client_ca.path, folders, n) : n;
		n = t ? add_folder(t->ticket_keys.path, folders, n) : n;
	}
	return n;
}

static struct sl_agent_folder agents_folder;

/* Paths used after the start: by a reload, connects, libraries and logrotate. */
static size_t list_places(const struct sl_config *c, const char *file,
			  struct sl_sandbox_place *places, char (*folders)[PATH_MAX])
{
	static const struct sl_sandbox_place fixed[] = {
		{"/sys", SL_SANDBOX_READ},
		{"/proc/sys", SL_SANDBOX_READ},
		{"/etc/libibverbs.d", SL_SANDBOX_READ},
		{"/dev/infiniband", SL_SANDBOX_DEVICE},
		{SL_PIN_ROOT, SL_SANDBOX_REMOVE},
	};
	/* Whole directories, because tools replace resolv.conf by a new file. */
	static const struct sl_sandbox_place resolver[] = {
		{"/etc", SL_SANDBOX_READ},
		{"/run/systemd/resolve", SL_SANDBOX_READ},
	};
	size_t cnt = 0, n = 0;

	for (; cnt < SL_ARRAY_LEN(fixed); cnt++)
		places[cnt] = fixed[cnt];
	/* Backends with host names need the resolver inside the sandbox. */
	for (size_t i = 0; i < SL_ARRAY_LEN(resolver) && any_endpoint(c, sl_rpc_has_name); i++)
		places[cnt++] = resolver[i];
	n = add_folder(file, folders, n);
	for (uint32_t i = 0; i < c->source_cnt; i++)
		n = add_folder(c->sources[i], folders, n);
	for (uint32_t i = 0; i < c->descriptor_set_cnt; i++)
		n = add_folder(c->descriptor_sets[i], folders, n);
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++)
			n = add_folder(c->pools[p].backends[b].key_file, folders, n);
	}
	n = list_tls_folders(c, folders, n);
	for (uint32_t i = 0; i < c->key_cnt; i++)
		n = add_folder(c->keys[i].file, folders, n);
	if (c->limits.port_first)
		places[cnt++] = (struct sl_sandbox_place){agents_folder.path, SL_SANDBOX_SOCKETS};
	for (size_t i = 0; i < n; i++)
		places[cnt++] = (struct sl_sandbox_place){folders[i], SL_SANDBOX_READ};
	if (log_is_file(c) && n < FOLDERS_MAX) {
		sl_sandbox_folder(c->access_log.file, folders[n], PATH_MAX);
		places[cnt++] = (struct sl_sandbox_place){folders[n++], SL_SANDBOX_WRITE};
	}
	for (uint32_t i = 0; i < c->listener_cnt && n < FOLDERS_MAX; i++) {
		if (!c->listeners[i].socket)
			continue;
		sl_sandbox_folder(c->listeners[i].socket, folders[n], PATH_MAX);
		places[cnt++] = (struct sl_sandbox_place){folders[n++], SL_SANDBOX_SOCKETS};
	}
	return cnt;
}

static int enter_sandbox(const struct sl_config *c, const char *file, struct sl_err *err)
{
	struct sl_sandbox_place places[FIXED_MAX + FOLDERS_MAX];
	char(*folders)[PATH_MAX] = calloc(FOLDERS_MAX, PATH_MAX);
	struct sl_sandbox_options opt = {.user = c->user,
					 .places = places,
					 .keep_caps = UINT64_C(1) << CAP_NET_BIND_SERVICE,
					 .writes_files = log_is_file(c),
					 .binds_ports = true};
	struct rlimit locked;
	int rc;

	if (!folders)
		return sl_fail(err, -ENOMEM, "sandbox: out of memory");
	/*
	 * Updating a map needs no capability (Linux 5.19 and newer). RDMA registers memory for each
	 * connection, which beyond RLIMIT_MEMLOCK needs CAP_IPC_LOCK. CAP_NET_BIND_SERVICE is for
	 * ports that a reload adds.
	 */
	if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur != RLIM_INFINITY)
		opt.keep_caps |= any_endpoint(c, is_rdma) ? UINT64_C(1) << CAP_IPC_LOCK : 0;
	opt.place_cnt = list_places(c, file, places, folders);
	sl_rpc_preload();
	rc = sl_sandbox_enter(&opt, err);
	free(folders);
	if (!rc && access(file, R_OK) != 0)
		sl_log_warn("user %s cannot read %s (%s): a reload will be refused until it can",
			    c->user, file, strerror(errno));
	return rc;
}

static void on_config(void *arg, const struct sl_config *next)
{
	if (!sl_zygote_update(arg, next))
		sl_log_err("agents: cannot be told of the new configuration");
}

static bool is_whole(void *arg)
{
	return sl_zygote_alive(arg);
}

static int serve_gateway(struct sl_gateway *g, const struct sl_config *c, const char *file,
			 struct sl_zygote *zygote)
{
	struct sl_control_options opt = {.gateway = g,
					 .config = c,
					 .config_file = file,
					 .on_ready = on_ready,
					 .on_config = on_config,
					 .is_whole = is_whole,
					 .arg = zygote};
	struct sl_control *ctl;
	struct sl_err err = SL_ERR(600);
	struct sl_err why = SL_ERR(160);
	uint32_t cut;
	bool restart;

	ctl = sl_control_open(&opt, &err);
	if (!ctl) {
		sl_notify_status(err.text);
		return cli_error("run", "%s", err.text);
	}
	print_start(g, c, sl_control_socket(ctl));
	if (enter_sandbox(c, file, &err) != 0 || sl_gateway_start(g, &err) != 0) {
		sl_control_close(ctl);
		sl_notify_status(err.text);
		return cli_error("run", "%s", err.text);
	}
	sl_sandbox_thread(SL_THREAD_CONTROL);
	sl_notify(SL_NOTIFY_STARTED);
	if (!sl_control_ready(ctl, &why))
		sl_log_info("not ready yet: %s", why.text);
	cut = sl_control_run(ctl);
	restart = sl_control_wants_restart(ctl);
	sl_control_close(ctl);
	if (restart)
		return SL_SUPERVISE_AGAIN;
	if (!sl_zygote_alive(zygote)) {
		sl_log_err("the guard of the agents' zygote has died, and with it all agents: the "
			   "gateway ends, and its supervisor starts all again");
		return SL_SUPERVISE_AGAIN;
	}
	if (cut)
		return cli_error("run", "stopped with %u requests cut off", cut);
	say("stopped");
	return CLI_OK;
}

static void log_warning(void *arg, const char *line)
{
	(void)arg;
	sl_log_warn("%s", line);
}

static void log_error(const struct sl_err *err)
{
	sl_output_text(STDERR_FILENO, err->text);
	sl_notify_open();
	sl_notify_status(err->text);
}

static struct sl_gateway *open_gateway(struct sl_config *c, struct sl_zygote *zygote,
				       struct sl_err *err)
{
	struct sl_gateway *g;

	if (!cli_config_complete(c, err))
		return NULL;
	sl_config_each_warning(c, log_warning, NULL);
	sl_tls_each_warning(c, log_warning, NULL);
	sl_tls_log_ends(c);
	raise_limits(c);
	sl_notify_open();
	g = sl_gateway_open(c, err);
	if (!g)
		return NULL;
	sl_ways_choose(g, c);
	if (sl_zygote_start(zygote, c, err) == 0)
		return g;
	sl_gateway_close(g);
	return NULL;
}

/*
 * Writes the configuration before each start: the folder may have been removed.
 */
static const char *write_config(const char *text, struct sl_err *err)
{
	static char path[sizeof(agents_folder.path) + 32];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/gateway.conf", agents_folder.path);
	(void)unlink(path);
	f = fopen(path, "wxe");
	ok = f && fputs(text, f) >= 0;
	ok = f && fclose(f) == 0 && ok && chmod(path, 0644) == 0;
	if (!ok)
		sl_err_set(err, "%s: %s", path, strerror(errno));
	return ok ? path : NULL;
}

static int run_gateway(void *arg)
{
	const struct cli_gateway *how = arg;
	struct sl_config *c;
	struct sl_zygote *zygote = NULL;
	struct sl_gateway *g = NULL;
	static char text[SL_CFG_ERR_LEN];
	struct sl_err err = {text, sizeof(text)};
	const char *file = how->text ? write_config(how->text, &err) : how->file;
	int rc = CLI_FAILED;

	sl_control_block_signals();
	c = file ? sl_config_load(file, &err) : NULL;
	if (c) {
		sl_log_level_set((enum sl_log_level)c->log_level);
		/* Before anything secret is read, which agents would inherit. */
		zygote = sl_zygote_fork(c, agents_folder.path, &err);
	}
	if (zygote)
		g = open_gateway(c, zygote, &err);
	if (g) {
		rc = serve_gateway(g, c, file, zygote);
		sl_gateway_close(g);
	} else {
		log_error(&err);
	}
	sl_zygote_close(zygote);
	cli_config_free(c);
	return rc;
}

static void clean_up(void *arg)
{
	(void)arg;
	sl_xdp_sweep_pins(NULL);
	sl_admin_sweep();
	sl_agent_folder_sweep();
}

static void check_folder(void *arg)
{
	(void)arg;
	sl_agent_folder_restore(&agents_folder);
}

int cli_run_gateway(const struct cli_gateway *how)
{
	struct sl_supervised gateway = {.run = run_gateway,
					.clean = clean_up,
					.look = check_folder,
					.arg = (void *)(uintptr_t)how};
	struct sl_err err = SL_ERR(200);
	int rc;

	sl_log_open();
	clean_up(NULL);
	if (sl_agent_folder_make(&agents_folder, &err) != 0)
		return cli_error(how->command, "%s", err.text);
	rc = how->no_supervise ? run_gateway(gateway.arg) : sl_supervise(&gateway);
	sl_agent_folder_remove(&agents_folder);
	return rc;
}

int cli_run(int argc, char **argv)
{
	struct cli_options o;

	argc = cli_take_options(argc, argv, "cu", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (argc > 1 || !o.config)
		return cli_usage("run", "found %s; allowed: -c FILE, --no-supervise",
				 argc > 1 ? argv[1] : "no configuration");
	return cli_run_gateway(&(struct cli_gateway){
		.command = "run", .file = o.config, .no_supervise = o.no_supervise});
}
