/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of a program (sluice/abi.h). */
#ifndef SL_XIO_XDP_MAPS_H
#define SL_XIO_XDP_MAPS_H

#include "base/err.h"
#include "xio/xdp/xdp.h"

/* Returns the map's name. */
const char *sl_xdp_map_name(enum sl_xdp_map map);

/* Reads the program's constants. */
int sl_xdp_read_config(int prog_fd, struct sl_prog_config *out);

/* Checks the maps' layout; sets map_fd and the counts. */
int sl_xdp_find_maps(struct sl_xdp *x, int prog_fd, struct sl_err *err);

/* Maps sl_queues and sl_svc_* into memory; share: owner of sl_svc_*, or NULL. */
int sl_xdp_map_memory(struct sl_xdp *x, const struct sl_xdp *share, struct sl_err *err);
/* Unmaps them, without shared ones. */
void sl_xdp_unmap_memory(struct sl_xdp *x);

/* Clears adopted maps. */
void sl_xdp_reset_maps(const struct sl_xdp *x);
/* Removes all listeners. */
void sl_xdp_clear_listeners(const struct sl_xdp *x);

/* Pins the maps under `root` (NULL: SL_PIN_ROOT; "": none). */
int sl_xdp_pin(struct sl_xdp *x, const char *root, struct sl_err *err);
/* Removes pins and directory. */
void sl_xdp_unpin(struct sl_xdp *x);

#endif
