/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources whose packets the XDP program drops for a time (sl_offenders of sluice/abi.h). A full map
 * replaces the least recently seen. Control thread.
 */
#ifndef SL_XIO_XDP_OFFENDER_MAP_H
#define SL_XIO_XDP_OFFENDER_MAP_H

#include "wire/addr.h"
#include "xio/xdp/xdp.h"

struct sl_xdp_offender {
	struct sl_offender_key key;
	uint64_t until_ns;
};

/* Convert an address, IPv6 to its /64, and back. */
struct sl_offender_key sl_offender_key_of(const struct sl_addr *a);
struct sl_addr sl_offender_addr(const struct sl_offender_key *key);

/* Adds a source, or sets its end. Returns 0 or -errno, like the next one. */
int sl_xdp_offender_add(const struct sl_xdp *x, const struct sl_xdp_offender *o);
/* Returns -ENOENT if the source is not listed. */
int sl_xdp_offender_remove(const struct sl_xdp *x, const struct sl_offender_key *key);

/*
 * Removes all entries for which `keep` (NULL: none) returns false. Returns the number of others.
 */
uint32_t sl_xdp_offenders_tidy(const struct sl_xdp *x,
			       bool (*keep)(const void *arg, const struct sl_xdp_offender *o),
			       const void *arg);
/* Copies at most max entries, unordered. Returns their number. */
uint32_t sl_xdp_offenders_list(const struct sl_xdp *x, struct sl_xdp_offender *list, uint32_t max);

#endif
