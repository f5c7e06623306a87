/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control of an interface: the VLAN and the clients that reach its listeners (struct sl_edge
 * and struct sl_prefix of sluice/abi.h). The control thread calls this while packets arrive. Each
 * rule is in force at the return, and none is ever half written.
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

/* Sets SL_VLAN_ANY, SL_VLAN_NONE or a number. All of these return 0 or -errno. */
int sl_xdp_acl_vlan(const struct sl_xdp *x, uint32_t vlan);
/* Sets the only MAC whose frames reach listeners; initially the interface's own. */
int sl_xdp_edge_mac(const struct sl_xdp *x, const uint8_t mac[6]);
/*
 * Sets the range of local TCP ports of own connections, both in host order; 0, 0: none. Addresses
 * have an entry of sl_listeners with the first port.
 */
int sl_xdp_edge_ports(const struct sl_xdp *x, uint16_t first, uint16_t last);
/* Adds a rule, or replaces that of the same prefix. -ENOSPC: SL_MAX_PREFIXES. */
int sl_xdp_acl_set(const struct sl_xdp *x, const struct sl_acl_rule *r);
/* Removes a rule of any action and origin. -ENOENT: no such prefix. */
int sl_xdp_acl_remove(const struct sl_xdp *x, const struct sl_acl_rule *r);

/* Copies at most max rules, unordered. Returns how many there are, or -errno. */
int sl_xdp_acl_list(const struct sl_xdp *x, struct sl_acl_rule *rules, uint32_t max);

/*
 * Replaces the rules of the file. Rules of the operator stay, and win over equal prefixes. New
 * rules are added longest prefix first, so that "deny all but these" never denies these.
 */
int sl_xdp_acl_apply(const struct sl_xdp *x, const struct sl_acl_rule *rules, uint32_t cnt);

#endif
