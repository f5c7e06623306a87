/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/port.h"

enum {
	XDP_HEADROOM = 256, /* the kernel's, in received frames */
	LINK_HEADER = 14 + 2 * 4,
};

uint32_t sl_port_frame_mtu(uint32_t frame_size)
{
	return frame_size - XDP_HEADROOM - LINK_HEADER;
}

bool sl_port_wants_chains(bool generic, uint32_t mtu)
{
	return generic || mtu > sl_port_frame_mtu(SL_FRAME_SIZE_MAX);
}

void sl_port_set_mtu(struct sl_port *p, uint32_t mtu)
{
	const uint32_t room = sl_port_frame_mtu(p->umem->frame_size);

	p->mtu = (uint16_t)(mtu < room ? mtu : room);
	p->rx_mtu = p->mtu;
	if (p->chains && mtu > room)
		p->rx_mtu = (uint16_t)(mtu < SL_MTU_MAX ? mtu : SL_MTU_MAX);
}

const char *sl_port_mode_name(enum sl_port_mode mode)
{
	static const char *const names[] = {
		[SL_PORT_ZEROCOPY] = "zero-copy",
		[SL_PORT_COPY] = "copy",
		[SL_PORT_GENERIC] = "generic",
		[SL_PORT_FAKE] = "fake",
	};

	return names[mode];
}
