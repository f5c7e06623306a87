/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge of an interface: which VLAN, and which clients, reach its listeners (struct sl_edge and
 * struct sl_prefix of sluice/abi.h). Called by the control thread, while packets come in: each rule
 * is in force when the call returns, and no rule is ever half there.
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

/* SL_VLAN_ANY, SL_VLAN_NONE or a number. 0 or -errno, as all of these. */
int sl_xdp_acl_vlan(const struct sl_xdp *x, uint32_t vlan);
/* Only frames for this MAC reach listeners. sl_xdp_open() sets the interface's own. 0 or -errno. */
int sl_xdp_edge_mac(const struct sl_xdp *x, const uint8_t mac[6]);
/* Takes the place of a rule with the same prefix. -ENOSPC: there are SL_MAX_PREFIXES. */
int sl_xdp_acl_set(const struct sl_xdp *x, const struct sl_acl_rule *r);
/* Of any action and origin. -ENOENT: there is no such prefix. */
int sl_xdp_acl_remove(const struct sl_xdp *x, const struct sl_acl_rule *r);

/* The rules in no order, at most max of them; returns how many there are, or -errno. */
int sl_xdp_acl_list(const struct sl_xdp *x, struct sl_acl_rule *rules, uint32_t max);

/*
 * Makes the file's rules these: those that it had before and has no more go, those of the operator
 * stay, and win against one of the file with the same prefix. New ones come first, the longest
 * before the others, so that "deny all but these" never denies these.
 */
int sl_xdp_acl_apply(const struct sl_xdp *x, const struct sl_acl_rule *rules, uint32_t cnt);

#endif
