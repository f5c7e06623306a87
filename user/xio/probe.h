/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities of the host and its interfaces: facts from the kernel, and trials. Nothing here has
 * a lasting effect, except sl_bpffs_mount(). A trial on an interface with an XDP program fails with
 * -EBUSY, so a running gateway is not disturbed.
 */
#ifndef SL_XIO_PROBE_H
#define SL_XIO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "xio/port.h"

#define SL_BPFFS "/sys/fs/bpf"

struct sl_host_info {
	char kernel[64]; /* release, as uname prints it */
	bool btf;        /* /sys/kernel/btf/vmlinux is readable */
	bool bpffs;      /* mounted on SL_BPFFS */
	bool cap_ipc_lock, cap_net_admin, cap_net_raw, cap_bpf; /* cap_bpf: or CAP_SYS_ADMIN */
	uint64_t memlock_bytes; /* soft limit, UINT64_MAX: none; unused with cap_ipc_lock */
};
void sl_probe_host(struct sl_host_info *out);

/* Mounts SL_BPFFS if it is not mounted. Returns 0 or -errno. */
int sl_bpffs_mount(void);

struct sl_nic_info {
	int ifindex;
	char driver[32];
	uint8_t mac[6];
	uint32_t mtu;
	uint32_t queue_cnt; /* in use; 1 if unknown */
	uint32_t queue_max;
	bool up;
	bool ethernet;
	uint32_t xdp_prog_id; /* attached program, 0: none */
};
/* Returns 0, -ENODEV, or -errno. */
int sl_probe_nic(const char *ifname, struct sl_nic_info *out);

/* Returns 0 if unknown. */
uint32_t sl_probe_queues(const char *ifname);

/*
 * Returns true for a bonding master, and writes its members, "a, b", to text. AF_XDP sockets of a
 * master receive nothing.
 */
bool sl_probe_bond(const struct sl_nic_info *nic, const char *ifname, char *text, size_t len);

/*
 * Returns true if an L4 checksum may be only the pseudo-header sum of a local sender
 * (CHECKSUM_PARTIAL): veth, bridge, macvlan, ipvlan, tap, VLAN and generic mode.
 */
bool sl_probe_partial_csum(const struct sl_nic_info *nic, bool generic);

/*
 * Returns true if the interface strips VLAN tags off received packets (rxvlan): XDP programs see
 * these packets as untagged.
 */
bool sl_probe_hides_tags(const char *ifname);

/* Returns true if VLAN interfaces are above `ifname`, and writes their names, "a, b", to text. */
bool sl_probe_vlans_above(const char *ifname, char *text, size_t len);

/*
 * Reads what SO_PREFER_BUSY_POLL depends on: the number of interrupts that the interface defers,
 * and its timeout in nanoseconds; 0: the option has no effect. Returns 0, or -ENOENT without sysfs
 * of this network namespace or such attributes.
 */
int sl_probe_busy_poll(const char *ifname, unsigned long *deferred, unsigned long *flush_ns);

/*
 * Tests whether programs can replace functions of others, as libxdp's dispatcher does. Returns 0,
 * or -errno of the step that failed.
 */
int sl_probe_freplace(void);

/*
 * Attaches, for a moment, a program that passes all packets. Returns 0 or -errno. Some drivers
 * reset their queues at the first.
 */
int sl_probe_attach(int ifindex, bool generic);

/*
 * Binds, for a moment, an AF_XDP socket to the queue. Returns the best mode that works (ZEROCOPY,
 * COPY, or GENERIC without native XDP) or -errno. *chains: see sl_port.
 */
int sl_probe_xsk(const char *ifname, uint16_t queue, bool *chains);

#endif
