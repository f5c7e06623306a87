/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program on an interface, and its maps.
 *
 *   sl_xdp_open -> sl_xdp_listen ... -> (worker: sl_xsk_open) -> sl_xdp_close
 *
 * Ways of attachment:
 *
 *   LINK        Single program, held by a BPF link of this process. The kernel detaches it when the
 *               process ends for any reason. Used if the kernel refuses the dispatcher.
 *   DISPATCHER  By libxdp, beside other programs. libxdp attaches by netlink and pins its links, so
 *               its programs outlive the process. A watchdog process (detach_watchdog.h) detaches ours
 *               when this one ends. If it is killed as well, the program passes all packets, since it
 *               has no sockets; the next start recognises and replaces it.
 *   ADOPTED     The operator attached our object; it is used, and left there at the end.
 *
 * Native mode is tried first, then generic; `mode` tells which, and why.
 *
 * Maps are pinned in `pin_dir`, SL_PIN_ROOT/IFNAME, until sl_xdp_close() or a sweep. If a gateway
 * in another network namespace uses the name, it is IFNAME@INODE of this namespace. Dots become
 * underscores. An interface has one gateway at a time.
 *
 * Sockets must be closed first. Attaching may change the number of queues: query it after the open.
 * A packet on a queue without a socket is dropped.
 *
 * Each map has one writer, see sluice/abi.h. Control thread.
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
	SL_MAP_CNT,
};

struct sl_xdp;
struct sluice_bpf;
struct xdp_program;

struct sl_xdp_options {
	uint32_t worker_cnt;    /* 1 .. SL_MAX_WORKERS */
	uint32_t service_cnt;   /* 0: 1; at most SL_MAX_SERVICES */
	uint32_t service_least; /* of an adopted program; 0: service_cnt */
	bool generic;           /* no native mode */
	bool no_dispatcher;
	const struct sl_xdp *share; /* use the sl_svc_* maps of this one */
	const char *pin_root;       /* NULL: SL_PIN_ROOT; "": no pins */
};

struct sl_xdp {
	char ifname[16];
	int ifindex;
	uint32_t mtu; /* as last seen, as the next one */
	uint8_t mac[6];
	enum sl_xdp_attach attach;
	bool generic;
	uint32_t prog_id;
	uint32_t attached_id; /* on the interface: this one, or the dispatcher */
	uint32_t worker_cnt;  /* may exceed the request if adopted */
	uint32_t service_cnt; /* stride of sl_hist_index() and sl_live_index() */
	char mode[128];       /* "native, single program (no dispatcher: ...)" */
	char pin_dir[128];    /* "": no pins */

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

/* Returns 0, or -errno and a line in err; *x is then closed. */
int sl_xdp_open(struct sl_xdp *x, const char *ifname, const struct sl_xdp_options *o,
		struct sl_err *err);

/*
 * Returns 0, or -ENOENT and a line in why if another process has removed the program. An error of
 * the query counts as 0.
 */
int sl_xdp_status(const struct sl_xdp *x, struct sl_err *why);

/*
 * Attaches the program again, without a gap, where the driver gives an added queue no program.
 * Needs no capabilities.
 */
void sl_xdp_renew(struct sl_xdp *x);

/* Detaches unless adopted, removes the pins, unmaps. Idempotent. */
void sl_xdp_close(struct sl_xdp *x);

/* Removes the pins of dead gateways in all network namespaces. root: as in the options. */
void sl_xdp_sweep_pins(const char *root);

/* Directs packets for `key` to the sockets; replaces its entry. */
int sl_xdp_listen(const struct sl_xdp *x, const struct sl_listener_key *key,
		  const struct sl_listener *l);
int sl_xdp_unlisten(const struct sl_xdp *x, const struct sl_listener_key *key);

struct sl_xdp_listener {
	struct sl_listener_key key;
	struct sl_listener value;
};
/*
 * Makes the entries of sl_listeners these: writes each, then removes all others. The list must be
 * sorted by sl_xdp_compare_listeners, each key once. Returns 0 or -errno; -E2BIG: the map is full.
 */
int sl_xdp_set_listeners(const struct sl_xdp *x, const struct sl_xdp_listener *list, uint32_t cnt);
/* Compares for qsort and bsearch. */
int sl_xdp_compare_listeners(const void *a, const void *b);

/* Directs packets of a queue (below SL_MAX_QUEUES) to this socket of this worker. */
int sl_xdp_set_socket(const struct sl_xdp *x, uint16_t queue, uint32_t worker, int xsk_fd);
void sl_xdp_clear_socket(const struct sl_xdp *x, uint16_t queue);

/* Writes an entry of sl_stages. Returns 0 or -errno. */
int sl_xdp_set_stage(const struct sl_xdp *x, const struct sl_stage_key *key,
		     const struct sl_stage_times *v);
void sl_xdp_clear_stages(const struct sl_xdp *x);

/* Counts packets per verdict since the load, over all CPUs. Returns 0 or -errno. */
int sl_xdp_verdicts(const struct sl_xdp *x, uint64_t out[SL_RX_VERDICT_CNT]);

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
