/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the dashboard and of uPlot, included at build time. */
#ifndef SL_CONTROL_DASHBOARD_H
#define SL_CONTROL_DASHBOARD_H

#include <stdbool.h>
#include <stddef.h>

struct sl_dashboard_file {
	const char *type; /* Content-Type */
	const void *body;
	size_t len;
};

/* Finds the file of a path. */
bool sl_dashboard_find(const char *path, struct sl_dashboard_file *out);

#endif
