/* SPDX-License-Identifier: Apache-2.0 */
#include "control/dashboard.h"

__asm__(".section .rodata\n"
	".global sl_dashboard\n"
	".global sl_dashboard_end\n"
	"sl_dashboard: .incbin \"user/control/dashboard.html\"\n"
	"sl_dashboard_end: .byte 0\n"
	".previous\n");
