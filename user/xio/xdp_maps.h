/* SPDX-License-Identifier: Apache-2.0 */
/* Inside xdp_load: the maps as sluice/abi.h has them, found, checked, mapped and pinned. */
#ifndef SL_XIO_XDP_MAPS_H
#define SL_XIO_XDP_MAPS_H

#include "xio/xdp_load.h"

/* The constants of a loaded program, from the .rodata map among its maps; 0 or -errno. */
int sl_xdp_read_config(int prog_fd, struct sl_prog_config *out);

/* Finds the maps of a loaded program by name and checks their layout; fills map_fd and counts. */
int sl_xdp_find_maps(struct sl_xdp *x, int prog_fd, char *err, size_t err_len);

/* Maps sl_queues and sl_svc_* into memory; the latter are those of `share`, if given. */
int sl_xdp_map_memory(struct sl_xdp *x, const struct sl_xdp *share, char *err, size_t err_len);
void sl_xdp_unmap_memory(struct sl_xdp *x);

/* What an earlier gateway left in the maps of an adopted program. */
void sl_xdp_reset_maps(const struct sl_xdp *x);
void sl_xdp_clear_listeners(const struct sl_xdp *x);

int sl_xdp_pin(struct sl_xdp *x, const char *root, char *err, size_t err_len);
void sl_xdp_unpin(struct sl_xdp *x);

const char *sl_xdp_map_name(enum sl_xdp_map map);

#endif
