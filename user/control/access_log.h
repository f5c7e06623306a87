/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: records of finished exchanges (core/event.h) from the workers' rings, as lines to
 * a file or to standard output.
 *
 *   rings of workers -> lines in a buffer -> file
 *
 * What the file does not take stays in the buffer, and what has no room there in the rings, whose
 * workers count what they could not put (sluice_events_dropped_total): the log never holds up
 * anybody, and nothing is lost without being counted.
 */
#ifndef SL_CONTROL_ACCESS_LOG_H
#define SL_CONTROL_ACCESS_LOG_H

#include "base/err.h"
#include "config/config.h"
#include "gateway/gateway.h"

struct sl_access_log;

/* While files may still be made anywhere; they become the account's. NULL and one line in err. */
struct sl_access_log *sl_access_log_open(const struct sl_config *cfg, struct sl_err *err);
/* Writes what has come. */
void sl_access_log_run(struct sl_access_log *l, struct sl_gateway *g);
/* Goes on in a new file of that name; in the old one if there can be none, which the log says. */
void sl_access_log_reopen(struct sl_access_log *l);
/* Each second: what a reload has changed, and whether the file has been renamed or removed. */
void sl_access_log_tick(struct sl_access_log *l, const struct sl_cfg_access_log *cfg);
void sl_access_log_close(struct sl_access_log *l);

#endif
