/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the gateway as JSON, for /stats and /events. */
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

/* Allocates empty histograms for service_max services. Returns 0 or -ENOMEM. */
int sl_window_init(struct sl_window *w, uint32_t service_max);
void sl_window_fini(struct sl_window *w);
/* Stores the histograms, if 2 s have passed. Returns true then. */
bool sl_window_tick(struct sl_window *w, struct sl_gateway *g, uint64_t now_ns);

/* Returns the state, for the caller to decref. NULL: out of memory. */
json_t *sl_stats_json(struct sl_gateway *g, const struct sl_window *w);

/* Returns the overrides that are set. NULL: out of memory. */
json_t *sl_override_json(const struct sl_svc_ctl *ctl);
/*
 * Sets one override: size, shed, hold, bound or deadline. value as in a configuration, or "auto" to
 * remove it. Returns 0, or -EINVAL and a line in err.
 */
int sl_override_set(struct sl_svc_ctl *ctl, const char *name, const char *value,
		    struct sl_err *err);

#endif
