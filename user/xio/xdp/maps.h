/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of a program (sluice/abi.h). */
#ifndef SL_XIO_XDP_MAPS_H
#define SL_XIO_XDP_MAPS_H

#include "base/err.h"
#include "xio/xdp/xdp.h"

/* Returns the map's name in programs and pins. */
const char *sl_xdp_map_name(enum sl_xdp_map map);

/* Reads the constants of a loaded program. Returns 0 or -errno. */
int sl_xdp_read_config(int prog_fd, struct sl_prog_config *out);

/* Finds the maps of a loaded program and checks their layout; fills map_fd and the counts. */
int sl_xdp_find_maps(struct sl_xdp *x, int prog_fd, struct sl_err *err);

/* Maps sl_queues and sl_svc_* into memory, the latter of `share`, if given. */
int sl_xdp_map_memory(struct sl_xdp *x, const struct sl_xdp *share, struct sl_err *err);
void sl_xdp_unmap_memory(struct sl_xdp *x);

/* Clears what an earlier gateway left in adopted maps. */
void sl_xdp_reset_maps(const struct sl_xdp *x);
void sl_xdp_clear_listeners(const struct sl_xdp *x);

/* Pins the maps under `root` (NULL: SL_PIN_ROOT; "": not at all). Returns 0 or -errno. */
int sl_xdp_pin(struct sl_xdp *x, const char *root, struct sl_err *err);
void sl_xdp_unpin(struct sl_xdp *x);

#endif
