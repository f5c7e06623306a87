/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.html, included at build time. */
#ifndef SL_CONTROL_DASHBOARD_H
#define SL_CONTROL_DASHBOARD_H

#include <stddef.h>

extern const char sl_dashboard[], sl_dashboard_end[];

static inline size_t sl_dashboard_len(void)
{
	return (size_t)(sl_dashboard_end - sl_dashboard);
}

#endif
