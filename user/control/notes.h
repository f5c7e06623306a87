/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent changes and reasons: states of backends, readiness, reloads, requests not served. Control
 * thread.
 */
#ifndef SL_CONTROL_NOTES_H
#define SL_CONTROL_NOTES_H

#include <jansson.h>

#include "gateway/gateway.h"

enum { SL_NOTES = 64 /* older ones are dropped */, SL_NOTE_LEN = 240 };

struct sl_notes;

/* Returns a JSON string; invalid UTF-8 becomes U+FFFD. NULL: no text or memory. */
json_t *sl_json_text(const char *text);

/* Returns an empty list, or NULL without memory. */
struct sl_notes *sl_notes_new(void);
/* n may be NULL. */
void sl_notes_free(struct sl_notes *n);
/* Adds changes; called once a second. unix_ms: now. */
void sl_notes_tick(struct sl_notes *n, struct sl_gateway *g, uint64_t unix_ms);
/* Returns [{"time_ms": N, "bad": BOOL, "text": TEXT}], newest first, a new reference. */
json_t *sl_notes_json(const struct sl_notes *n);

#endif
