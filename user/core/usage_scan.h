/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a number in a reply's body: member INNER of top-level member OUTER, such as OpenAI's
 * usage.total_tokens.
 *
 *   {"choices": [...], "usage": {"prompt_tokens": 9, "total_tokens": 21}}
 *
 * Each data line of server-sent events is a text of its own, and the last number counts.
 */
#ifndef SL_CORE_USAGE_SCAN_H
#define SL_CORE_USAGE_SCAN_H

#include "core/json_member.h"

struct sl_usage_scan {
	struct sl_json_member member;
	struct sl_span outer, inner;
	uint64_t number; /* being read */
	uint64_t value;  /* last complete one */
	uint8_t state;   /* enum usage_state */
	uint8_t matched; /* bytes of "data:" */
	bool events, has_value;
};

/*
 * Begins to search for the number at `path`, "OUTER.INNER", which must stay valid. events:
 * text/event-stream.
 */
void sl_usage_scan_begin(struct sl_usage_scan *s, const char *path, bool events);
/* Scans the next bytes. */
void sl_usage_scan_read(struct sl_usage_scan *s, struct sl_span bytes);
/* Returns true and the last number found, or false. */
bool sl_usage_scan_value(const struct sl_usage_scan *s, uint64_t *value);

#endif
