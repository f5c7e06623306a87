/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities of the host and its interfaces. Only sl_bpffs_mount() has a lasting effect. A trial
 * on an interface with an XDP program fails with -EBUSY.
 */
#ifndef SL_XIO_PROBE_H
#define SL_XIO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "xio/port.h"

#define SL_BPFFS "/sys/fs/bpf"

struct sl_host_info {
	char kernel[64];                                        /* release */
	bool btf;                                               /* vmlinux BTF is readable */
	bool bpffs;                                             /* mounted on SL_BPFFS */
	bool cap_ipc_lock, cap_net_admin, cap_net_raw, cap_bpf; /* cap_bpf: or CAP_SYS_ADMIN */
	uint64_t memlock_bytes;                                 /* soft limit; UINT64_MAX: none */
};
/* Fills in what can be found out; the rest is zero. */
void sl_probe_host(struct sl_host_info *out);

/* Mounts SL_BPFFS if necessary. Returns 0 or -errno. */
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
	uint32_t xdp_prog_id; /* 0: none */
};
/* Returns 0, -ENODEV, or -errno. */
int sl_probe_nic(const char *ifname, struct sl_nic_info *out);

/* Returns the receive queues in use; 0: unknown. */
uint32_t sl_probe_queues(const char *ifname);

/* Returns true for a bonding master (AF_XDP receives nothing), and its members, "a, b". */
bool sl_probe_bond(const struct sl_nic_info *nic, const char *ifname, char *text, size_t len);

/*
 * Returns true if an L4 checksum may be a local sender's pseudo-header sum only (CHECKSUM_PARTIAL):
 * software devices, generic mode.
 */
bool sl_probe_partial_csum(const struct sl_nic_info *nic, bool generic);

/* Returns true if the interface strips VLAN tags (rxvlan) before XDP. */
bool sl_probe_hides_tags(const char *ifname);

/* Returns true if VLAN interfaces are above `ifname`, and their names, "a, b". */
bool sl_probe_vlans_above(const char *ifname, char *text, size_t len);

/*
 * Reads napi_defer_hard_irqs and gro_flush_timeout; if either is 0, SO_PREFER_BUSY_POLL has no
 * effect. Returns 0, or -ENOENT without sysfs or attributes.
 */
int sl_probe_busy_poll(const char *ifname, unsigned long *deferred, unsigned long *flush_ns);

/*
 * Tests whether programs can replace functions, as libxdp's dispatcher needs. Returns 0, or -errno
 * of the failed step.
 */
int sl_probe_freplace(void);

/*
 * Briefly attaches a program that passes all packets. Some drivers then reset their queues. Returns
 * 0 or -errno.
 */
int sl_probe_attach(const struct sl_nic_info *nic, bool generic);

/*
 * Briefly binds an AF_XDP socket to the queue. Returns the best mode (ZEROCOPY, COPY, or GENERIC
 * without native XDP) or -errno. *chains: as sl_port.
 */
int sl_probe_xsk(const char *ifname, uint16_t queue, bool *chains);

#endif
