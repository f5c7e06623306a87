/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program on an interface, and its maps.
 *
 *   sl_xdp_open -> sl_xdp_listen ... -> (worker: sl_xsk_open) -> sl_xdp_close
 *
 *   LINK        Single program, held by a BPF link. The kernel detaches it when the
 *               process ends for any reason. Used if the kernel refuses the dispatcher, or
 *               to read VLAN tags that the NIC strips off (rxvlan, Linux 6.8).
 *   DISPATCHER  By libxdp, beside other programs. libxdp attaches by netlink and pins its links, so
 *               its programs outlive the process. A watchdog process (detach_watchdog.h)
 *               detaches ours when this one ends. If killed as well, the program without
 *               sockets passes all packets until the next start replaces it.
 *   ADOPTED     The operator attached our object; it is used, and left there at the end.
 *
 * Maps are pinned in `pin_dir`, SL_PIN_ROOT/IFNAME, until sl_xdp_close() or a sweep. If a gateway
 * in another network namespace uses the name, it is IFNAME@INODE of this namespace; dots become
 * underscores. An interface has one gateway at a time.
 *
 * Sockets must be closed first. A packet on a queue without a socket is dropped.
 *
 * Control thread.
 */
#ifndef SL_XIO_XDP_XDP_H
#define SL_XIO_XDP_XDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "sluice/abi.h"
#include "sluice/drop.h"
#include "xio/xdp/detach_watchdog.h"

enum sl_xdp_attach { SL_XDP_LINK, SL_XDP_DISPATCHER, SL_XDP_ADOPTED };

enum sl_xdp_map {
	SL_MAP_LISTENERS,
	SL_MAP_XSKS,
	SL_MAP_QUEUES,
	SL_MAP_RX_DROPS,
	SL_MAP_SVC_HIST,
	SL_MAP_SVC_LIVE,
	SL_MAP_STAGES,
	SL_MAP_SVC_CTL,
	SL_MAP_EDGE,
	SL_MAP_PREFIX4,
	SL_MAP_PREFIX6,
	SL_MAP_OFFENDERS,
	SL_MAP_CNT,
};

struct sl_xdp;
struct sluice_bpf;
struct xdp_program;

struct sl_xdp_options {
	uint32_t worker_cnt;    /* 1 .. SL_MAX_WORKERS */
	uint32_t service_cnt;   /* 0: 1; at most SL_MAX_SERVICES */
	uint32_t service_least; /* minimum of an adopted program; 0: service_cnt */
	bool generic;           /* no native mode */
	bool no_dispatcher;
	bool vlans; /* tags matter: instead of the dispatcher, read those that the NIC strips */
	const struct sl_xdp *share; /* use its sl_svc_* maps */
	const char *pin_root;       /* NULL: SL_PIN_ROOT; "": no pins */
};

struct sl_xdp {
	char ifname[16];
	int ifindex;
	uint32_t mtu; /* as last seen, like `mac` */
	uint8_t mac[6];
	enum sl_xdp_attach attach;
	bool generic;
	bool reads_tags; /* that the NIC strips off */
	uint32_t prog_id;
	uint32_t attached_id; /* prog_id, or the dispatcher's */
	uint32_t worker_cnt;  /* an adopted program may have more than requested */
	uint32_t service_cnt; /* stride of sl_hist_index() and sl_live_index() */
	char mode[128];       /* "native, single program (no dispatcher: ...)" */
	char pin_dir[128];

	int map_fd[SL_MAP_CNT];
	struct sl_queue *queues; /* SL_MAX_QUEUES of them */
	struct sl_svc_hist *hist;
	struct sl_svc_live *live;
	struct sl_svc_ctl *ctl;

	/* private */
	int link_fd, if_lock_fd, pin_lock_fd;
	struct sl_detach_watchdog watchdog;
	bool shared_svc;
	bool renewed; /* sluice_xdp2 is attached */
	struct sluice_bpf *skel;
	struct xdp_program *dispatched;
};

/* Loads or adopts, attaches and pins. Returns 0, or -errno: *x is closed. */
int sl_xdp_open(struct sl_xdp *x, const char *ifname, const struct sl_xdp_options *o,
		struct sl_err *err);

/*
 * Returns -ENOENT and a line in why if the program was removed or replaced, else 0, also if the
 * query fails.
 */
int sl_xdp_status(const struct sl_xdp *x, struct sl_err *why);

/*
 * Attaches again, without a gap, if the driver gives added queues no program. Needs no
 * capabilities.
 */
void sl_xdp_renew(struct sl_xdp *x);

/* Detaches unless adopted. Idempotent. */
void sl_xdp_close(struct sl_xdp *x);

/* Removes the pins of dead gateways in all network namespaces. root: as pin_root. */
void sl_xdp_sweep_pins(const char *root);

/* Directs packets for `key` to the sockets; replaces its entry. Returns 0 or -errno. */
int sl_xdp_listen(const struct sl_xdp *x, const struct sl_listener_key *key,
		  const struct sl_listener *l);
/* Removes the entry. Returns 0 or -errno. */
int sl_xdp_unlisten(const struct sl_xdp *x, const struct sl_listener_key *key);

struct sl_xdp_listener {
	struct sl_listener_key key;
	struct sl_listener value;
};
/*
 * Replaces the entries of sl_listeners: writes each, then removes all others. The list must be
 * sorted by sl_xdp_compare_listeners, each key once. Returns 0 or -errno; -E2BIG: the map is full.
 */
int sl_xdp_set_listeners(const struct sl_xdp *x, const struct sl_xdp_listener *list, uint32_t cnt);
/* Order for qsort(), by key. */
int sl_xdp_compare_listeners(const void *a, const void *b);

/* Directs packets of a queue to a worker's socket. Returns 0 or -errno. */
int sl_xdp_set_socket(const struct sl_xdp *x, uint16_t queue, uint32_t worker, int xsk_fd);
/* Ends that. */
void sl_xdp_clear_socket(const struct sl_xdp *x, uint16_t queue);

/* Set one entry of sl_stages, and remove all. Return 0 or -errno. */
int sl_xdp_set_stage(const struct sl_xdp *x, const struct sl_stage_key *key,
		     const struct sl_stage_times *v);
void sl_xdp_clear_stages(const struct sl_xdp *x);

/* Sums packets per verdict since the load. Returns 0 or -errno. */
int sl_xdp_verdicts(const struct sl_xdp *x, uint64_t out[SL_RX_VERDICT_CNT]);

/* Return the entries of a worker and service. */
static inline struct sl_svc_hist *sl_xdp_hist(const struct sl_xdp *x, uint32_t worker,
					      uint32_t service, enum sl_stage stage)
{
	return &x->hist[sl_hist_index(x->service_cnt, worker, service, stage)];
}
static inline struct sl_svc_live *sl_xdp_live(const struct sl_xdp *x, uint32_t worker,
					      uint32_t service)
{
	return &x->live[sl_live_index(x->service_cnt, worker, service)];
}

#endif
