/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "cli/cli.h"
#include "control/control.h"
#include "xio/probe.h"

static void print_listeners(const struct sl_config *c)
{
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		char addr[INET6_ADDRSTRLEN] = "*";

		if (l->family)
			inet_ntop(l->family == 4 ? AF_INET : AF_INET6, l->addr, addr, sizeof(addr));
		printf("listener %s: %s port %u%s%s\n", l->name, addr, l->port,
		       l->http ? " http" : "", l->datagram ? " datagram" : "");
	}
}

static void print_start(struct sl_gateway *g, const struct sl_config *c)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);

	for (uint32_t i = 0; i < in->interface_cnt; i++)
		printf("interface %s: %s\n", in->interfaces[i].name, in->interfaces[i].attach);
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t i = 0; i < in->workers[w].port_cnt; i++) {
			const struct sl_port_info *p = &in->workers[w].ports[i];

			printf("socket %s queue %u: %s, worker %u\n", p->ifname, p->queue,
			       sl_port_mode_name((enum sl_port_mode)p->mode), w);
		}
	}
	print_listeners(c);
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++)
			printf("backend %s/%s: %s\n", c->pools[p].name,
			       c->pools[p].backends[b].name, c->pools[p].backends[b].endpoint);
	}
	if (c->admin_port)
		printf("admin: http://%s%s%s:%u/\n", strchr(c->admin_address, ':') ? "[" : "",
		       c->admin_address, strchr(c->admin_address, ':') ? "]" : "", c->admin_port);
	else
		puts("admin: none");
	fflush(stdout);
}

static void on_ready(void *arg)
{
	(void)arg;
	puts("ready");
	fflush(stdout);
}

/*
 * Programs, sockets and maps are held by descriptors, through which the kernel (5.19 and newer)
 * lets anybody update maps: nothing is needed any more. The one exception: when a backend comes
 * back, RDMA registers the workers' memory with its device, and beyond the limit of locked memory,
 * where that could not be lifted, this takes CAP_IPC_LOCK.
 */
static uint64_t caps_to_keep(const struct sl_config *c)
{
	struct rlimit locked;
	uint64_t keep = 0;

	if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur == RLIM_INFINITY)
		return 0;

	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++) {
			const struct sl_cfg_backend *k = &c->pools[p].backends[b];

			if (strncmp(k->endpoint, "rdma", 4) == 0 ||
			    (k->fallback && strncmp(k->fallback, "rdma", 4) == 0))
				keep |= UINT64_C(1) << CAP_IPC_LOCK;
		}
	}
	return keep;
}

static void raise_limits(void)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct sl_host_info host;
	int rc = sl_bpffs_mount();

	if (setrlimit(RLIMIT_MEMLOCK, &all) != 0) {
		sl_probe_host(&host);
		if (!host.cap_ipc_lock) /* which makes the limit moot */
			sl_log_warn("cannot raise the limit of locked memory and have no "
				    "CAP_IPC_LOCK: if memory is refused, ulimit -l unlimited, or "
				    "LimitMEMLOCK=infinity");
	}
	if (rc)
		sl_log_warn("no BPF file system on %s: %s; maps are not pinned", SL_BPFFS,
			    strerror(-rc));
}

static int serve(struct sl_gateway *g, const struct sl_config *c, const char *file)
{
	struct sl_control_options opt = {
		.gateway = g, .config = c, .config_file = file, .on_ready = on_ready};
	struct sl_control *ctl;
	char err[600], why[160];
	uint32_t cut;

	ctl = sl_control_open(&opt, err, sizeof(err));
	if (!ctl)
		return cli_error("run", "%s", err);
	print_start(g, c);
	if (sl_caps_drop(caps_to_keep(c), c->user, err, sizeof(err)) != 0 ||
	    sl_gateway_start(g, err, sizeof(err)) != 0) {
		sl_control_close(ctl);
		return cli_error("run", "%s", err);
	}
	if (!sl_control_ready(ctl, why, sizeof(why)))
		sl_log_info("not ready yet: %s", why);
	cut = sl_control_run(ctl);
	sl_control_close(ctl);
	if (cut)
		return cli_error("run", "stopped with %u requests cut off", cut);
	puts("stopped");
	return CLI_OK;
}

static void warn(void *arg, const char *line)
{
	(void)arg;
	sl_log_warn("%s", line);
}

int cli_run(int argc, char **argv)
{
	struct cli_options o;
	struct sl_config *c;
	struct sl_gateway *g;
	char err[600];
	int rc;

	argc = cli_take_options(argc, argv, "c", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (argc > 1 || !o.config)
		return cli_usage("run", "found %s; allowed: -c FILE",
				 argc > 1 ? argv[1] : "no configuration");
	sl_control_block_signals();
	c = cli_config_load(o.config, err, sizeof(err));
	if (!c) {
		fprintf(stderr, "%s\n", err);
		return CLI_FAILED;
	}
	sl_log_level_set((enum sl_log_level)c->log_level);
	sl_config_each_warning(c, warn, NULL);
	raise_limits();
	g = sl_gateway_open(c, err, sizeof(err));
	if (g) {
		rc = serve(g, c, o.config);
		sl_gateway_close(g);
	} else {
		fprintf(stderr, "%s\n", err);
		rc = CLI_FAILED;
	}
	cli_config_free(c);
	return rc;
}
