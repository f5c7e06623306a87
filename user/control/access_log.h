/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: records of finished exchanges (core/event.h) as lines of a file or of standard
 * output.
 *
 *   rings of workers -> lines in a buffer -> file
 *
 * While the file does not accept data, records stay in the rings. A worker whose ring is full drops
 * the record and counts it (sluice_access_log_dropped_total). No worker ever waits.
 */
#ifndef SL_CONTROL_ACCESS_LOG_H
#define SL_CONTROL_ACCESS_LOG_H

#include "base/err.h"
#include "config/config.h"
#include "core/event.h"
#include "gateway/gateway.h"

struct sl_access_log;

/*
 * Opens the file with privileges, owned by the gateway's account. Returns NULL and one line in err.
 */
struct sl_access_log *sl_access_log_open(const struct sl_config *cfg, struct sl_err *err);
/* Returns true if cnt more lines fit, without waiting. */
bool sl_access_log_has_room(struct sl_access_log *l, unsigned cnt);
/* Adds the line of a request, or none by the sample rate. unix_ns: its end. */
void sl_access_log_put(struct sl_access_log *l, const struct sl_event *e, uint64_t unix_ns);
/* Writes what the file accepts, without waiting. */
void sl_access_log_flush(struct sl_access_log *l);
/* Opens the file again. Keeps the old file and logs the error on failure. */
void sl_access_log_reopen(struct sl_access_log *l);
/* Applies reloaded settings and detects a rotated file. Called once a second. */
void sl_access_log_tick(struct sl_access_log *l, const struct sl_cfg_access_log *cfg);
/* Writes the buffer and frees the log. l may be NULL. */
void sl_access_log_close(struct sl_access_log *l);

#endif
