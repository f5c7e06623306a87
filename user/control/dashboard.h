/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the dashboard and of uPlot. */
#ifndef SL_CONTROL_DASHBOARD_H
#define SL_CONTROL_DASHBOARD_H

#include <stdbool.h>
#include <stddef.h>

struct sl_dashboard_file {
	const char *type;
	const void *body;
	size_t len;
};

/* Finds a file by its path; its bytes are static. Returns false without one. */
bool sl_dashboard_find(const char *path, struct sl_dashboard_file *out);

#endif
