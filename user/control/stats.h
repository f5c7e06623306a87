/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of /stats and /events. Control thread. */
#ifndef SL_CONTROL_STATS_H
#define SL_CONTROL_STATS_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "control/history.h"
#include "control/notes.h"
#include "gateway/gateway.h"

/*
 * Earlier histograms, so that "recent" quantiles cover the last 2 to 4 seconds:
 *
 *   older ---- newer ---- now      recent = now - older; every 2 s newer becomes older
 */
struct sl_window {
	struct sl_svc_hist *older, *newer; /* [slot][SL_STAGE_CNT], summed over workers */
	uint32_t cnt;
	uint64_t next_ns;
	struct sl_history *history; /* NULL before sl_window_init(), as `notes` */
	struct sl_notes *notes;
};

/* Makes an empty window. Returns 0 or -ENOMEM. */
int sl_window_init(struct sl_window *w, uint32_t service_max);
/* Frees its contents; allowed after zeroing, and again. */
void sl_window_fini(struct sl_window *w);
/* Stores the histograms and returns true, if 2 s have passed. */
bool sl_window_tick(struct sl_window *w, struct sl_gateway *g, uint64_t now_ns);

/* Returns the reply to GET /stats, a new reference. NULL: no memory. */
json_t *sl_stats_json(struct sl_gateway *g, const struct sl_window *w);

/* Returns the overrides in force, a new reference. NULL: no memory. */
json_t *sl_override_json(const struct sl_svc_ctl *ctl);
/*
 * Sets an override: size, shed, delay, bound or deadline. "auto" removes it. Returns 0, or -EINVAL
 * and err.
 */
int sl_override_set(struct sl_svc_ctl *ctl, const char *name, const char *value,
		    struct sl_err *err);

#endif
