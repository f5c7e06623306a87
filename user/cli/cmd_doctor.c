/* SPDX-License-Identifier: Apache-2.0 */
/* A named or configured interface gets XDP and an AF_XDP socket for a moment. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "config/server.h"
#include "config/config.h"
#include "front/tls/aead.h"
#include "gateway/ways.h"
#include "rpc/rpc.h"
#include "xio/netdev.h"
#include "xio/probe.h"
#include "xio/xsk_port.h"

enum finding { FINE, NOTE, BAD };

struct doctor {
	json_t *list;
	unsigned bad;
};

static void print_finding(struct doctor *d, enum finding f, const char *what, const char *found_fmt,
			  ...) __attribute__((format(printf, 4, 5)));
static void print_finding(struct doctor *d, enum finding f, const char *what, const char *found_fmt,
			  ...)
{
	static const char *const words[] = {"ok", "note", "BAD"};
	char found[400];
	va_list ap;

	va_start(ap, found_fmt);
	vsnprintf(found, sizeof(found), found_fmt, ap);
	va_end(ap);
	d->bad += f == BAD;
	if (d->list)
		json_array_append_new(d->list,
				      json_pack("{s:s,s:s,s:s}", "check", what, "state",
						f == BAD ? "bad" : words[f], "found", found));
	else
		printf("%-5s %-18s %s\n", words[f], what, found);
}

static void look_at_host(struct doctor *d)
{
	struct sl_host_info h;
	char size[SL_UNIT_TEXT];
	unsigned long major, minor;
	char *end;
	bool old;

	sl_probe_host(&h);
	major = strtoul(h.kernel, &end, 10);
	minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	old = major < 6 || (major == 6 && minor < 1);
	print_finding(d, old ? NOTE : FINE, "kernel", "%s%s", h.kernel,
		      old ? "; sluice is made for 6.1 and later" : "");
	print_finding(
		d, h.btf ? FINE : NOTE, "BTF",
		h.btf ? "/sys/kernel/btf/vmlinux"
		      : "none: use a kernel with CONFIG_DEBUG_INFO_BTF to share the NIC with other "
			"programs");
	print_finding(
		d, h.bpffs ? FINE : NOTE, "BPF file system",
		h.bpffs ? SL_BPFFS
			: "not mounted; `sluice run` mounts it, or: mount -t bpf bpf " SL_BPFFS);
	if (h.cap_net_admin && h.cap_net_raw && h.cap_bpf)
		print_finding(d, FINE, "privileges", "CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF");
	else
		print_finding(d, BAD, "privileges",
			      "%s%s%smissing: start as root; they are dropped after the start",
			      h.cap_net_admin ? "" : "CAP_NET_ADMIN ",
			      h.cap_net_raw ? "" : "CAP_NET_RAW ", h.cap_bpf ? "" : "CAP_BPF ");
	if (h.memlock_bytes == UINT64_MAX || h.cap_ipc_lock)
		print_finding(d, FINE, "locked memory", "%s",
			      h.cap_ipc_lock ? "no limit (CAP_IPC_LOCK)" : "no limit");
	else
		print_finding(d, NOTE, "locked memory",
			      "at most %s: ulimit -l unlimited, or LimitMEMLOCK=infinity",
			      sl_format_size(size, h.memlock_bytes));
}

static void look_at_tls(struct doctor *d)
{
	if (sl_aead_supported())
		print_finding(d, FINE, "TLS", "records are protected by %s", sl_aead_library());
	else
		print_finding(
			d, NOTE, "TLS",
			"no listener can have it: %s needs AES-NI and PCLMULQDQ; a build with "
			"AEAD=openssl needs neither",
			sl_aead_library());
}

static void look_at_mtu(struct doctor *d, const char *name, uint32_t mtu, bool chains)
{
	const uint32_t most = sl_port_frame_mtu(SL_FRAME_SIZE_MAX);
	char what[40];

	if (mtu <= most)
		return;
	snprintf(what, sizeof(what), "%s MTU", name);
	if (chains)
		print_finding(d, FINE, what,
			      "%u: TCP segments up to %u arrive in several frames; those sent, and "
			      "datagrams, have at most %u",
			      mtu, mtu < SL_MTU_MAX ? mtu : SL_MTU_MAX, most);
	else
		print_finding(d, NOTE, what,
			      "%u, but kernel (Linux 6.6 has it) or driver lacks multi-buffer "
			      "AF_XDP: packets have at most %u",
			      mtu, most);
}

static void try_socket(struct doctor *d, const char *name, uint32_t mtu)
{
	char what[40];
	bool chains = false;
	int mode = sl_probe_xsk(name, 0, &chains);

	if (mode >= 0)
		look_at_mtu(d, name, mtu, chains);
	snprintf(what, sizeof(what), "%s AF_XDP", name);
	if (mode < 0)
		print_finding(d, BAD, what, "refused: %s", strerror(-mode));
	else if (mode == SL_PORT_GENERIC && !chains)
		print_finding(d, NOTE, what,
			      "%s: warning: this kernel (Linux 6.6 has it) drops packets longer "
			      "than a frame, which senders on this host with TSO send: ethtool -K "
			      "IF tso off gso off on their interfaces",
			      sl_port_mode_name(SL_PORT_GENERIC));
	else if (mode == SL_PORT_ZEROCOPY)
		print_finding(d, FINE, what, "%s", sl_port_mode_name(SL_PORT_ZEROCOPY));
	else
		print_finding(d, NOTE, what, "%s: works; a driver with zero-copy is faster",
			      sl_port_mode_name((enum sl_port_mode)mode));
}

static void try_interface(struct doctor *d, const char *name, const struct sl_nic_info *nic)
{
	char what[40];
	int rc = nic->xdp_prog_id ? -EBUSY : sl_probe_attach(nic, false);

	snprintf(what, sizeof(what), "%s XDP", name);
	if (nic->xdp_prog_id)
		print_finding(d, NOTE, what,
			      "program %u is attached; not tried, so as not to disturb it",
			      nic->xdp_prog_id);
	else if (!rc)
		print_finding(d, FINE, what, "native");
	else if (!sl_probe_attach(nic, true))
		print_finding(d, NOTE, what, "warning: generic only, native: %s; slower",
			      strerror(-rc));
	else
		print_finding(d, BAD, what,
			      "refused: %s; mode = socket serves it by kernel sockets (HTTP)",
			      strerror(-rc));
	if (rc != -EBUSY)
		try_socket(d, name, nic->mtu);
}

static void look_at_tags(struct doctor *d, const char *name, int ifindex)
{
	char above[128], what[40];

	if (!sl_probe_hides_tags(name))
		return;
	sl_probe_vlans_above(name, above, sizeof(above));
	snprintf(what, sizeof(what), "%s VLAN", name);
	if (sl_netdev_has_tags(ifindex)) {
		print_finding(
			d, FINE, what,
			"rxvlan is on; in native mode the XDP program reads stripped tags%s%s",
			above[0] ? " for " : " if `vlan` is set", above);
		return;
	}
	print_finding(
		d, NOTE, what,
		"rxvlan is on: tags are stripped, so `vlan = none` cannot refuse tagged packets%s%s; "
		"if tagged packets arrive: ethtool -K %s rxvlan off",
		above[0] ? " for " : "", above, name);
}

static void look_at_interface(struct doctor *d, const char *name, bool try)
{
	struct sl_nic_info nic;
	char members[128];
	int rc = sl_probe_nic(name, &nic);

	if (rc) {
		print_finding(d, BAD, name, "%s", strerror(-rc));
		return;
	}
	if (!nic.ethernet) {
		print_finding(d, NOTE, name,
			      "%s: no Ethernet: mode = auto serves it by kernel sockets (HTTP)",
			      nic.driver);
		return;
	}
	if (sl_probe_bond(&nic, name, members, sizeof(members))) {
		print_finding(d, try ? BAD : NOTE, name,
			      "a bond, on whose queues no packet arrives; serve its members: %s",
			      members[0] ? members : "none yet");
		return;
	}
	print_finding(d, nic.up ? FINE : NOTE, name, "driver %s, %u of %u queues, MTU %u%s%s",
		      nic.driver[0] ? nic.driver : "unknown", nic.queue_cnt, nic.queue_max, nic.mtu,
		      nic.up ? "" : "; down: ip link set up dev it",
		      try ? "" : "; `sluice doctor IFACE` tries XDP");
	look_at_tags(d, name, nic.ifindex);
	if (try)
		try_interface(d, name, &nic);
}

static void look_at_busy_poll(struct doctor *d, const char *name)
{
	unsigned long deferred, flush_ns;
	char what[40];

	snprintf(what, sizeof(what), "%s busy poll", name);
	if (sl_probe_busy_poll(name, &deferred, &flush_ns))
		print_finding(d, NOTE, what, "sysfs does not tell whether interrupts are deferred");
	else if (deferred && flush_ns)
		print_finding(d, FINE, what, "napi_defer_hard_irqs %lu, gro_flush_timeout %lu ns",
			      deferred, flush_ns);
	else
		print_finding(
			d, NOTE, what,
			"without effect while napi_defer_hard_irqs (%lu) or gro_flush_timeout (%lu) "
			"is 0: echo 2 >/sys/class/net/%s/napi_defer_hard_irqs; "
			"echo 200000 >/sys/class/net/%s/gro_flush_timeout",
			deferred, flush_ns, name, name);
}

static void look_at_rdma_port(struct doctor *d, struct ibv_context *device, uint8_t port_num,
			      bool shares)
{
	static const char *const types[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
	static const union ibv_gid none;
	struct ibv_port_attr p;
	struct ibv_gid_entry e;
	char what[48], text[INET6_ADDRSTRLEN];
	const char *broken;
	bool active;

	snprintf(what, sizeof(what), "RDMA %.32s/%u", ibv_get_device_name(device->device),
		 port_num);
	if (ibv_query_port(device, port_num, &p)) {
		print_finding(d, BAD, what, "cannot be asked: %s", strerror(errno));
		return;
	}
	active = p.state == IBV_PORT_ACTIVE;
	print_finding(d, active ? FINE : NOTE, what, "%s, %s, mtu %u of %u%s",
		      ibv_port_state_str(p.state),
		      p.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
		      128u << p.active_mtu, 128u << p.max_mtu, active ? "" : "; bring its link up");
	for (int i = 0; active && i < p.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(device, port_num, (uint32_t)i, &e, 0) ||
		    memcmp(&e.gid, &none, sizeof(none)) == 0 || e.gid_type > 2)
			continue;
		(void)inet_ntop(AF_INET6, e.gid.raw, text, sizeof(text));
		print_finding(d, FINE, what, "gid[%d] %s, %s", i, text, types[e.gid_type]);
	}
	if (!active || !shares)
		return;
	broken = sl_rpc_rdma_selftest(device, port_num);
	print_finding(d, broken ? BAD : FINE, what,
		      broken ? "%s, though the driver says so: renew it, or the "
			       "firmware; backends cannot be reached by this device"
			     : "memory windows and shared receive queues, tried: %s",
		      broken ? broken : "they work");
}

static void look_at_rdma(struct doctor *d)
{
	int cnt = 0;
	struct ibv_device **all = ibv_get_device_list(&cnt);

	for (int i = 0; all && i < cnt; i++) {
		struct ibv_context *device = ibv_open_device(all[i]);
		struct ibv_device_attr a;
		char what[48];
		bool shares;

		snprintf(what, sizeof(what), "RDMA %.32s", ibv_get_device_name(all[i]));
		if (!device || ibv_query_device(device, &a)) {
			print_finding(d, BAD, what, "cannot be opened: %s", strerror(errno));
			if (device)
				ibv_close_device(device);
			continue;
		}
		shares = a.max_srq > 0 && a.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
								IBV_DEVICE_MEM_WINDOW_TYPE_2B);
		print_finding(d, shares ? FINE : NOTE, what, "%s, %s",
			      ibv_node_type_str(all[i]->node_type),
			      shares ? "connections share receive slots"
				     : "no shared receive queues or memory windows: use rdma+ud:// "
				       "instead of rdma://");
		for (uint8_t port = 1; port <= a.phys_port_cnt; port++)
			look_at_rdma_port(d, device, port, shares);
		ibv_close_device(device);
	}
	if (all)
		ibv_free_device_list(all);
	if (cnt <= 0)
		print_finding(
			d, NOTE, "RDMA",
			"no device: backends of this host are reached over shm://; for soft-RoCE: "
			"modprobe rdma_rxe; rdma link add rxe0 type rxe netdev IFACE");
}

static const char *why_not(const char *endpoint, int rc)
{
	if (strncmp(endpoint, "tcp", 3) == 0)
		return rc == -ENOENT ? "no such host: see `getent ahosts`"
				     : "no way there: see `ip route get`";
	return rc == -ENODEV ? "this host has no RDMA"
			     : "no RDMA device has a route there: see `rdma link` and `ip route "
			       "get`, and device, device_port and source of the backend";
}

static void look_at_backend(struct doctor *d, const char *pool, const struct sl_cfg_backend *b)
{
	char what[160], way[160], other[160];
	const struct sl_rpc_rdma rdma = {
		.source = b->source, .device = b->device, .port = b->device_port, .tos = b->tos};
	int rc = sl_server_is(b) ? 0 : sl_rpc_route_info(b->endpoint, &rdma, way, sizeof(way));

	if (sl_server_is(b))
		snprintf(way, sizeof(way), "a server, %s%s%s",
			 b->way == SL_VIA_STACK ? "by the workers' own TCP"
						: "through an agent of the gateway's own",
			 b->way_why[0] ? ": " : "", b->way_why);
	snprintf(what, sizeof(what), "backend %.64s/%.64s", pool, b->name);
	if (!rc) {
		print_finding(d, FINE, what, "%s: %s%s%s%s%s", b->endpoint, way,
			      b->first ? "; first " : "", b->first ? b->first : "",
			      b->fallback ? "; fallback " : "", b->fallback ? b->fallback : "");
	} else if (b->fallback && !sl_rpc_route_info(b->fallback, &rdma, other, sizeof(other))) {
		print_finding(d, NOTE, what, "%s: %s; its fallback %s: %s", b->endpoint,
			      why_not(b->endpoint, rc), b->fallback, other);
	} else {
		print_finding(d, BAD, what, "%s: %s%s", b->endpoint, why_not(b->endpoint, rc),
			      b->fallback ? "; nor to its fallback" : "; and it has no fallback");
	}
}

int cli_doctor(int argc, char **argv)
{
	struct cli_options o;
	struct sl_config *c = NULL;
	struct if_nameindex *all;
	struct doctor d = {0};
	struct sl_err err = SL_ERR(600);
	int rc;

	argc = cli_take_options(argc, argv, "cj", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (o.config) {
		c = sl_config_load_offline(o.config, &err);
		if (!c)
			return cli_error("doctor", "%s", err.text);
	}
	d.list = o.json ? json_array() : NULL;
	look_at_host(&d);
	look_at_tls(&d);
	rc = sl_probe_freplace();
	if (!rc)
		print_finding(&d, FINE, "XDP dispatcher",
			      "other XDP programs can share an interface");
	else
		print_finding(&d, NOTE, "XDP dispatcher",
			      "refused (%s): sluice attaches as the single program", strerror(-rc));
	for (uint32_t i = 0; c && i < c->interface_cnt; i++) {
		if (c->interfaces[i].mode == SL_ATTACH_SOCKET) {
			print_finding(&d, FINE, c->interfaces[i].name, "kernel sockets (HTTP)");
			continue;
		}
		look_at_interface(&d, c->interfaces[i].name, true);
		if (c->interfaces[i].busy_poll)
			look_at_busy_poll(&d, c->interfaces[i].name);
	}
	for (int i = 1; i < argc; i++)
		look_at_interface(&d, argv[i], true);
	all = !c && argc == 1 ? if_nameindex() : NULL;
	for (const struct if_nameindex *i = all; i && i->if_index; i++) {
		if (strcmp(i->if_name, "lo") != 0)
			look_at_interface(&d, i->if_name, false);
	}
	if (all)
		if_freenameindex(all);
	look_at_rdma(&d);
	if (c)
		sl_ways_choose(NULL, c);
	for (uint32_t p = 0; c && p < c->pool_cnt; p++) {
		for (uint32_t b = 0; b < c->pools[p].backend_cnt; b++)
			look_at_backend(&d, c->pools[p].name, &c->pools[p].backends[b]);
	}
	if (d.list) {
		json_dumpf(d.list, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(d.list);
	}
	sl_config_free(c);
	return d.bad ? CLI_FAILED : CLI_OK;
}
