/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_XIO_XDP_SETUP_H
#define SL_XIO_XDP_SETUP_H

#include <linux/bpf.h>
#include "base/err.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"

#define SL_XDP_PROG "sluice_xdp"

struct sl_xdp_setup {
	struct sl_xdp *x;
	const struct sl_xdp_options *o;
	struct sl_nic_info nic;
	bool tags;   /* read VLAN tags that the NIC strips */
	int prog_fd; /* loaded or adopted */
	struct sl_err *err;
};

/* Attaches, by dispatcher or link. Returns 0 or -errno. */
int sl_xdp_put_on(struct sl_xdp_setup *s);
/* Detaches. */
void sl_xdp_take_off(struct sl_xdp *x);

/* The object that reads stripped VLAN tags, for this device. NULL: errno. */
struct sluice_bpf *sl_xdp_open_bound(int ifindex);

/* Adopts or removes an existing program. Returns 0 (adopted), -ENOENT (none left), or -errno. */
int sl_xdp_look_for_ours(struct sl_xdp_setup *s);

/* Reads a program's data. Returns 0 or -errno. */
int sl_xdp_prog_info(int fd, struct bpf_prog_info *info);

#endif
