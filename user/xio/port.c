/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/port.h"

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
