/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished exchanges (core/event.h) as lines of a file or of standard output.
 *
 * While the file accepts no data, records stay in the workers' rings. A worker with a full ring
 * drops and counts records. Control thread.
 */
#ifndef SL_CONTROL_ACCESS_LOG_H
#define SL_CONTROL_ACCESS_LOG_H

#include "base/err.h"
#include "config/config.h"
#include "core/event.h"
#include "gateway/gateway.h"

struct sl_access_log;

/* Opens the file with privileges, owned by the gateway's account. Returns NULL and err. */
struct sl_access_log *sl_access_log_open(const struct sl_config *cfg, struct sl_err *err);
/* Returns true if cnt more lines fit; may write some. */
bool sl_access_log_has_room(struct sl_access_log *l, unsigned cnt);
/* Adds a request's line, for which there is room, subject to the sample rate. unix_ns: its end. */
void sl_access_log_put(struct sl_access_log *l, const struct sl_event *e, uint64_t unix_ns);
/* Writes lines without waiting. */
void sl_access_log_flush(struct sl_access_log *l);
/* Opens the path again; on failure keeps the old file and logs the error. */
void sl_access_log_reopen(struct sl_access_log *l);
/* Called once a second. Applies reloaded settings and detects a rotated file. */
void sl_access_log_tick(struct sl_access_log *l, const struct sl_cfg_access_log *cfg);
/* Writes lines without waiting, then frees l, which may be NULL. */
void sl_access_log_close(struct sl_access_log *l);

#endif
