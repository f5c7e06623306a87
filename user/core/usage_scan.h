/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a number in the body of a reply: the member INNER of the top-level member OUTER, in bytes as
 * they arrive. OpenAI's usage.total_tokens is one.
 *
 *   {"choices": [...], "usage": {"prompt_tokens": 9, "total_tokens": 21}}
 *                                                                    ^ the rest is not read
 *   data: {"choices": [...], "usage": null}        server-sent events: each data line is a text of its
 *   data: {"choices": [], "usage": {...}}          own, and the last number counts
 *   data: [DONE]
 *
 * Each text is read by json_member.h and is as strict. A number is 0 to 2^32 - 1 without fraction and
 * exponent. Memory does not depend on the reply; no byte is read twice.
 *
 * Tests: tests/unit/core/test_usage_scan.c, tests/fuzz/usage_scan.c
 */
#ifndef SL_CORE_USAGE_SCAN_H
#define SL_CORE_USAGE_SCAN_H

#include "core/json_member.h"

struct sl_usage_scan {
	struct sl_json_member member;
	struct sl_span outer, inner; /* names */
	uint64_t number;             /* under way */
	uint64_t value;              /* the last one */
	uint8_t state;               /* enum usage_state */
	uint8_t matched;             /* bytes of "data:" */
	bool events, has_value;
};

/* Begins a body. `path` is "OUTER.INNER" and must stay valid. events: text/event-stream. */
void sl_usage_scan_begin(struct sl_usage_scan *s, const char *path, bool events);
void sl_usage_scan_read(struct sl_usage_scan *s, struct sl_span bytes);
/* Returns false if no number was found. */
bool sl_usage_scan_value(const struct sl_usage_scan *s, uint64_t *value);

#endif
