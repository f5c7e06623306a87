/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control of an interface: VLAN and clients (struct sl_edge and sl_prefix of sluice/abi.h).
 * A rule is in force at the return and never half written. Control thread.
 */
#ifndef SL_XIO_XDP_ACL_MAP_H
#define SL_XIO_XDP_ACL_MAP_H

#include "wire/addr.h"
#include "xio/xdp/xdp.h"

struct sl_acl_rule {
	struct sl_addr_prefix prefix;
	uint8_t action; /* enum sl_prefix_action */
	uint8_t origin; /* enum sl_prefix_origin */
};

/* Sets the VLAN: SL_VLAN_ANY, SL_VLAN_NONE or a number. All functions return 0 or -errno. */
int sl_xdp_acl_vlan(const struct sl_xdp *x, uint32_t vlan);
/* Sets the destination MAC of accepted frames; initially the interface's own. */
int sl_xdp_edge_mac(const struct sl_xdp *x, const uint8_t mac[6]);
/*
 * Sets the local TCP ports of the gateway's own connections, in host order; 0, 0: none. Their
 * addresses are in sl_listeners with the first port.
 */
int sl_xdp_edge_ports(const struct sl_xdp *x, uint16_t first, uint16_t last);
/* Says whether the program must look into sl_offenders. */
int sl_xdp_edge_offenders(const struct sl_xdp *x, bool some);
/* Adds a rule, or replaces that of its prefix. -ENOSPC: SL_MAX_PREFIXES. */
int sl_xdp_acl_set(const struct sl_xdp *x, const struct sl_acl_rule *r);
/* Removes the rule of a prefix. -ENOENT: no such prefix. */
int sl_xdp_acl_remove(const struct sl_xdp *x, const struct sl_acl_rule *r);

/* Copies at most max rules, unordered. Returns their total number, or -errno. */
int sl_xdp_acl_list(const struct sl_xdp *x, struct sl_acl_rule *rules, uint32_t max);

/*
 * Replaces the file's rules. The operator's rules stay and take precedence. Longest prefixes are
 * first: "deny all but these" never denies these.
 */
int sl_xdp_acl_apply(const struct sl_xdp *x, const struct sl_acl_rule *rules, uint32_t cnt);

#endif
