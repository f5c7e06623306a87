/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of an interface that cost speed or packets, with the remedy, at the start. */
#include "base/log.h"
#include "gateway/internal.h"
#include "xio/probe.h"

static void warn_of_generic_mode(const struct sl_cfg_interface *ci, const struct sl_xdp *x,
				 const struct sl_port *p)
{
	if (x->generic && ci->mode == SL_ATTACH_AUTO)
		sl_log_warn("interface %s: mode = auto fell back to %s", ci->name, x->mode);
	if (x->generic && !p->chains)
		sl_log_warn("interface %s: generic mode of this kernel drops packets longer than a "
			    "frame, which senders on this host with TSO send; run `ethtool -K IF "
			    "tso off gso off` on their interfaces",
			    ci->name);
}

static void warn_of_hidden_tags(const struct sl_cfg_interface *ci)
{
	char above[128];

	if (ci->vlan == SL_VLAN_ANY || !sl_probe_hides_tags(ci->name))
		return;
	if (ci->vlan != SL_VLAN_NONE)
		sl_log_warn("interface %s: vlan = %u, but the interface strips VLAN tags, so no "
			    "packet matches; run `ethtool -K %s rxvlan off`",
			    ci->name, ci->vlan, ci->name);
	else if (sl_probe_vlans_above(ci->name, above, sizeof(above)))
		sl_log_warn("interface %s strips VLAN tags, so packets for %s reach its listeners "
			    "despite vlan = none; run `ethtool -K %s rxvlan off`",
			    ci->name, above, ci->name);
}

void sl_warn_of_link(const struct sl_cfg_interface *ci, const struct sl_xdp *x,
		     const struct sl_port *p)
{
	warn_of_generic_mode(ci, x, p);
	warn_of_hidden_tags(ci);
}
