/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <linux/if_bonding.h> /* behind net/if.h: shared names */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include "base/check.h"
#include "xio/probe.h"
#include "xio/xsk_port.h"

static bool is_bpffs(void)
{
	struct statfs st;

	return statfs(SL_BPFFS, &st) == 0 && (unsigned long)st.f_type == BPF_FS_MAGIC;
}

void sl_probe_host(struct sl_host_info *out)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	uint64_t caps = 0;
	struct utsname un;
	struct rlimit rl;

	memset(out, 0, sizeof(*out));
	if (uname(&un) == 0)
		snprintf(out->kernel, sizeof(out->kernel), "%.*s", (int)sizeof(out->kernel) - 1,
			 un.release);
	out->btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	out->bpffs = is_bpffs();
	if (syscall(SYS_capget, &hdr, data) == 0)
		caps = (uint64_t)data[1].effective << 32 | data[0].effective;
	out->cap_ipc_lock = caps >> CAP_IPC_LOCK & 1;
	out->cap_net_admin = caps >> CAP_NET_ADMIN & 1;
	out->cap_net_raw = caps >> CAP_NET_RAW & 1;
	out->cap_bpf = (caps >> CAP_BPF & 1) || (caps >> CAP_SYS_ADMIN & 1);
	if (getrlimit(RLIMIT_MEMLOCK, &rl) == 0)
		out->memlock_bytes = rl.rlim_cur == RLIM_INFINITY ? UINT64_MAX : rl.rlim_cur;
}

int sl_bpffs_mount(void)
{
	if (is_bpffs())
		return 0;
	if (mkdir(SL_BPFFS, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (mount("bpf", SL_BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return -errno;
	return 0;
}

static int ethtool(int fd, struct ifreq *ifr, void *cmd)
{
	ifr->ifr_data = cmd;
	return ioctl(fd, SIOCETHTOOL, ifr);
}

static void read_queues(int fd, struct ifreq *ifr, struct sl_nic_info *out)
{
	struct ethtool_channels ch = {.cmd = ETHTOOL_GCHANNELS};

	out->queue_cnt = out->queue_max = 1;
	if (ethtool(fd, ifr, &ch) < 0)
		return;
	if (ch.combined_count + ch.rx_count > 0)
		out->queue_cnt = ch.combined_count + ch.rx_count;
	out->queue_max = ch.max_combined > ch.max_rx ? ch.max_combined : ch.max_rx;
	if (out->queue_max < out->queue_cnt)
		out->queue_max = out->queue_cnt;
}

int sl_probe_nic(const char *ifname, struct sl_nic_info *out)
{
	struct ethtool_drvinfo drv = {.cmd = ETHTOOL_GDRVINFO};
	const size_t name_len = strlen(ifname);
	struct ifreq ifr = {0};
	int fd, err = 0;

	memset(out, 0, sizeof(*out));
	if (name_len >= sizeof(ifr.ifr_name))
		return -ENODEV;
	memcpy(ifr.ifr_name, ifname, name_len);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, SIOCGIFINDEX, &ifr) < 0)
		goto fail;
	out->ifindex = ifr.ifr_ifindex;
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		goto fail;
	out->up = (ifr.ifr_flags & IFF_UP) != 0;
	if (ioctl(fd, SIOCGIFMTU, &ifr) < 0)
		goto fail;
	out->mtu = (uint32_t)ifr.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &ifr) < 0)
		goto fail;
	out->ethernet = ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	memcpy(out->mac, ifr.ifr_hwaddr.sa_data, sizeof(out->mac));
	if (ethtool(fd, &ifr, &drv) == 0)
		snprintf(out->driver, sizeof(out->driver), "%.31s", drv.driver);
	read_queues(fd, &ifr, out);
	if (bpf_xdp_query_id(out->ifindex, 0, &out->xdp_prog_id) < 0)
		out->xdp_prog_id = 0;
	close(fd);
	return 0;
fail:
	err = -errno;
	close(fd);
	return err;
}

uint32_t sl_probe_queues(const char *ifname)
{
	struct ethtool_channels ch = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t cnt = 0;

	if (fd < 0)
		return 0;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.15s", ifname);
	if (ethtool(fd, &ifr, &ch) == 0)
		cnt = ch.combined_count + ch.rx_count;
	close(fd);
	return cnt;
}

bool sl_probe_bond(const struct sl_nic_info *nic, const char *ifname, char *text, size_t len)
{
	struct ifbond bond = {0};
	struct ifslave slave = {0};
	struct ifreq ifr = {0};
	size_t used = 0;
	int fd;

	text[0] = 0;
	if (strcmp(nic->driver, "bonding") != 0)
		return false;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.15s", ifname);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ifr.ifr_data = (char *)&bond;
	if (fd >= 0 && ioctl(fd, SIOCBONDINFOQUERY, &ifr) == 0) {
		ifr.ifr_data = (char *)&slave;
		for (slave.slave_id = 0; slave.slave_id < bond.num_slaves && used < len;
		     slave.slave_id++) {
			if (ioctl(fd, SIOCBONDSLAVEINFOQUERY, &ifr) == 0)
				used += (size_t)snprintf(text + used, len - used, "%s%s",
							 used ? ", " : "", slave.slave_name);
		}
	}
	if (fd >= 0)
		close(fd);
	return true;
}

bool sl_probe_partial_csum(const struct sl_nic_info *nic, bool generic)
{
	static const char *const software[] = {
		"veth", "bridge", "macvlan", "ipvlan", "tun", "team", "802.1Q VLAN Support"};

	for (size_t i = 0; i < sizeof(software) / sizeof(software[0]) && !generic; i++)
		generic = strcmp(nic->driver, software[i]) == 0;
	return generic;
}

bool sl_probe_hides_tags(const char *ifname)
{
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool hides;

	if (fd < 0)
		return false;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.15s", ifname);
	hides = ethtool(fd, &ifr, &flags) == 0 && flags.data & ETH_FLAG_RXVLAN;
	close(fd);
	return hides;
}

bool sl_probe_vlans_above(const char *ifname, char *text, size_t len)
{
	char line[128], name[32], below[32];
	FILE *f = fopen("/proc/net/vlan/config", "re");
	size_t used = 0;

	text[0] = 0;
	/* "eth0.100  | 100  | eth0" below two lines of titles */
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s | %*d | %31s", name, below) == 2 &&
		    strcmp(below, ifname) == 0 && used < len)
			used += (size_t)snprintf(text + used, len - used, "%s%s", used ? ", " : "",
						 name);
	}
	if (f)
		fclose(f);
	return used > 0;
}

static bool read_attribute(const char *ifname, const char *name, unsigned long *out)
{
	char path[96], text[24] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/%s", ifname, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	*out = strtoul(text, &end, 10);
	return end != text;
}

int sl_probe_busy_poll(const char *ifname, unsigned long *deferred, unsigned long *flush_ns)
{
	unsigned long index;

	if (!read_attribute(ifname, "ifindex", &index) || index != if_nametoindex(ifname) ||
	    !read_attribute(ifname, "napi_defer_hard_irqs", deferred) ||
	    !read_attribute(ifname, "gro_flush_timeout", flush_ns))
		return -ENOENT;
	return 0;
}

static const struct bpf_insn pass_insns[] = {
	{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
	{.code = BPF_JMP | BPF_EXIT},
};

/*
 * The types of `int NAME(struct xdp_md *ctx)`: only a function of the same type can replace
 * another.
 */
static struct btf *describe_prog(const char *name, int *func_id)
{
	struct btf *btf = btf__new_empty();
	int u32_id, ctx_id, ptr_id, int_id, proto_id;

	if (libbpf_get_error(btf))
		return NULL;
	u32_id = btf__add_int(btf, "unsigned int", 4, 0);
	int_id = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	ctx_id = btf__add_struct(btf, "xdp_md", 4);
	if (u32_id < 0 || int_id < 0 || ctx_id < 0 || btf__add_field(btf, "data", u32_id, 0, 0) < 0)
		goto fail;
	ptr_id = btf__add_ptr(btf, ctx_id);
	proto_id = btf__add_func_proto(btf, int_id);
	if (ptr_id < 0 || proto_id < 0 || btf__add_func_param(btf, "ctx", ptr_id) < 0)
		goto fail;
	*func_id = btf__add_func(btf, name, BTF_FUNC_GLOBAL, proto_id);
	if (*func_id < 0 || btf__load_into_kernel(btf) < 0)
		goto fail;
	return btf;
fail:
	btf__free(btf);
	return NULL;
}

static int load_pass(enum bpf_prog_type type, const struct btf *btf, int func_id, int target_fd,
		     uint32_t flags)
{
	const struct bpf_func_info func = {.type_id = (__u32)func_id};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = flags);

	if (btf) {
		opts.prog_btf_fd = (__u32)btf__fd(btf);
		opts.func_info = &func;
		opts.func_info_cnt = 1;
		opts.func_info_rec_size = sizeof(func);
	}
	if (target_fd >= 0) {
		opts.attach_prog_fd = (__u32)target_fd;
		opts.attach_btf_id = (__u32)func_id;
	}
	return bpf_prog_load(type, "sl_probe", "GPL", pass_insns, SL_ARRAY_LEN(pass_insns), &opts);
}

int sl_probe_freplace(void)
{
	int func_id = 0, target_fd, ext_fd = -1, link_fd = -1, err = 0;
	struct btf *btf = describe_prog("sl_probe", &func_id);

	if (!btf)
		return -ENOTSUP;
	target_fd = load_pass(BPF_PROG_TYPE_XDP, btf, func_id, -1, 0);
	if (target_fd >= 0)
		ext_fd = load_pass(BPF_PROG_TYPE_EXT, btf, func_id, target_fd, 0);
	if (ext_fd >= 0)
		link_fd = bpf_link_create(ext_fd, 0, 0, NULL);
	if (link_fd < 0)
		err = -errno;
	if (link_fd >= 0)
		close(link_fd);
	if (ext_fd >= 0)
		close(ext_fd);
	if (target_fd >= 0)
		close(target_fd);
	btf__free(btf);
	return err;
}

/* Fragments need Linux 5.18. */
static int attach_pass(int ifindex, bool generic, uint32_t mtu)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	int prog_fd, link_fd;

	prog_fd = load_pass(BPF_PROG_TYPE_XDP, NULL, 0, -1,
			    sl_port_wants_chains(generic, mtu) ? BPF_F_XDP_HAS_FRAGS : 0);
	if (prog_fd < 0)
		prog_fd = load_pass(BPF_PROG_TYPE_XDP, NULL, 0, -1, 0);
	if (prog_fd < 0)
		return -errno;
	link_fd = bpf_link_create(prog_fd, ifindex, BPF_XDP, &opts);
	if (link_fd < 0)
		link_fd = -errno;
	close(prog_fd);
	return link_fd;
}

int sl_probe_attach(const struct sl_nic_info *nic, bool generic)
{
	int link_fd = attach_pass(nic->ifindex, generic, nic->mtu);

	if (link_fd < 0)
		return link_fd;
	close(link_fd);
	return 0;
}

int sl_probe_xsk(const char *ifname, uint16_t queue, bool *chains)
{
	enum { FRAME_CNT = 64 };
	struct sl_nic_info nic;
	struct sl_umem umem;
	bool generic = false;
	int link_fd, mode, err = sl_probe_nic(ifname, &nic);

	if (err)
		return err;
	if (nic.xdp_prog_id)
		return -EBUSY;
	link_fd = attach_pass(nic.ifindex, false, nic.mtu);
	if (link_fd < 0) {
		generic = true;
		link_fd = attach_pass(nic.ifindex, true, nic.mtu);
	}
	if (link_fd < 0)
		return link_fd;
	err = sl_umem_init(&umem, nic.mtu > 1500 ? SL_FRAME_SIZE_MAX : 2048, FRAME_CNT);
	if (err) {
		close(link_fd);
		return err;
	}
	mode = sl_xsk_trial(ifname, queue, generic, nic.mtu, &umem, chains);
	sl_umem_fini(&umem);
	close(link_fd);
	return mode;
}
