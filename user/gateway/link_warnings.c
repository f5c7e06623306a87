/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>

#include "base/log.h"
#include "gateway/gateway.h"
#include "gateway/internal.h"
#include "xio/netdev.h"
#include "xio/probe.h"

void sl_warn_of_generic_mode(const struct sl_cfg_interface *ci, const struct sl_xdp *x,
			     const struct sl_port *p)
{
	if (x->generic && ci->mode == SL_ATTACH_AUTO)
		sl_log_warn("interface %s: mode = auto fell back to %s", ci->name, x->mode);
	if (x->mtu > p->rx_mtu && !p->chains)
		sl_log_warn("interface %s: MTU %u, but kernel or driver lacks multi-buffer AF_XDP: "
			    "longer packets than %u are dropped",
			    ci->name, x->mtu, p->rx_mtu);
	if (x->generic && !p->chains)
		sl_log_warn("interface %s: generic mode of this kernel drops packets longer than a "
			    "frame, which senders on this host with TSO send; run `ethtool -K IF "
			    "tso off gso off` on their interfaces",
			    ci->name);
}

static bool describe_hidden_tags(const struct sl_cfg_interface *ci, char *text, size_t len)
{
	char above[128];

	if (!sl_probe_hides_tags(ci->name))
		return false;
	if (ci->vlan == SL_VLAN_ANY)
		snprintf(text, len,
			 "interface %s strips VLAN tags, so replies to tagged packets leave "
			 "without a tag; run `ethtool -K %s rxvlan off`",
			 ci->name, ci->name);
	else if (ci->vlan != SL_VLAN_NONE)
		snprintf(text, len,
			 "interface %s: vlan = %u, but the interface strips VLAN tags, so no "
			 "packet matches; run `ethtool -K %s rxvlan off`",
			 ci->name, ci->vlan, ci->name);
	else if (sl_probe_vlans_above(ci->name, above, sizeof(above)))
		snprintf(text, len,
			 "interface %s strips VLAN tags, so packets for %s reach its listeners "
			 "despite vlan = none; run `ethtool -K %s rxvlan off`",
			 ci->name, above, ci->name);
	else
		return false;
	return true;
}

void sl_warn_of_hidden_tags(const struct sl_cfg_interface *ci, const struct sl_xdp *x)
{
	char text[400];

	if (!x->reads_tags && describe_hidden_tags(ci, text, sizeof(text)))
		sl_log_warn("%s", text);
}

void sl_gateway_each_link_warning(const struct sl_config *cfg, sl_config_warn_fn *emit, void *arg)
{
	char text[400], line[500];

	for (uint32_t i = 0; i < cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &cfg->interfaces[i];
		const struct sl_cfg_location at = sl_config_location(cfg, ci->line);
		bool xdp = ci->mode != SL_ATTACH_SOCKET;
		bool bound = ci->mode == SL_ATTACH_AUTO || ci->mode == SL_ATTACH_NATIVE;

		if (!xdp || (bound && sl_netdev_has_tags((int)if_nametoindex(ci->name))) ||
		    !describe_hidden_tags(ci, text, sizeof(text)))
			continue;
		snprintf(line, sizeof(line), "%s:%d: %s", at.file, at.line, text);
		emit(arg, line);
	}
}
