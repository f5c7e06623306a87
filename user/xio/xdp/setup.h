/* SPDX-License-Identifier: Apache-2.0 */
/* What open.c, attach.c and adopt.c share while an interface is set up. */
#ifndef SL_XIO_XDP_SETUP_H
#define SL_XIO_XDP_SETUP_H

#include <linux/bpf.h>
#include "base/err.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"

#define SL_XDP_PROG "sluice_xdp"

/* Where set-up stands; a failed step has put its line into err. */
struct sl_xdp_setup {
	struct sl_xdp *x;
	const struct sl_xdp_options *o;
	struct sl_nic_info nic;
	int prog_fd; /* of the loaded or adopted program */
	struct sl_err *err;
};

/*
 * attach.c: loads our program and attaches it, native before generic, in libxdp's dispatcher before
 * alone; `mode` says which, and why not the other. 0 or -errno.
 */
int sl_xdp_put_on(struct sl_xdp_setup *s);
void sl_xdp_take_off(struct sl_xdp *x);

/*
 * adopt.c: what is on the interface already. 0: a program that the operator attached, which is
 * taken; -ENOENT: none of ours, and nothing that is in the way; otherwise -errno.
 */
int sl_xdp_look_for_ours(struct sl_xdp_setup *s);

/* 0 or -errno. */
int sl_xdp_prog_info(int fd, struct bpf_prog_info *info);

#endif
