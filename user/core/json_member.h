/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds one string member of the top-level object of a JSON text (RFC 8259), in any segmentation.
 *
 * Strict: BAD at the first byte that breaks the grammar, at invalid UTF-8 (RFC 3629), at a lone
 * surrogate, or if no object. Escapes are decoded. The first member of that name counts.
 */
#ifndef SL_CORE_JSON_MEMBER_H
#define SL_CORE_JSON_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"

enum {
	SL_JSON_VALUE_MAX = 256,
	SL_JSON_DEPTH_MAX = 128, /* nested objects and arrays */
};

enum sl_json_verdict {
	SL_JSON_MORE,
	SL_JSON_FOUND,
	SL_JSON_OTHER,  /* the member is no string */
	SL_JSON_ABSENT, /* no such member */
	SL_JSON_BAD,    /* not JSON, or no object */
	SL_JSON_DEEP,
};

struct sl_json_member {
	struct sl_span name;
	uint64_t objects[SL_JSON_DEPTH_MAX / 64]; /* bit per level: object, not array */
	const char *literal;                      /* rest of true, false or null */
	uint32_t depth;
	uint32_t code_point;         /* of a \u escape */
	uint32_t text_len;           /* decoded bytes of the key or value */
	uint16_t high;               /* surrogate that awaits its low one; 0: none */
	uint8_t verdict;             /* enum sl_json_verdict */
	uint8_t state;               /* enum json_state */
	uint8_t role;                /* enum json_role of the current string */
	uint8_t utf8_left;           /* continuation bytes awaited */
	uint8_t utf8_low, utf8_high; /* range of the next one */
	bool is_key;                 /* a colon follows the string */
	bool differs;                /* the key is not the name */
	bool wanted;                 /* the next value is the member's */
	uint8_t value[SL_JSON_VALUE_MAX];
};

/* Begins a text. `name` must stay valid; 1 to SL_JSON_VALUE_MAX bytes. */
void sl_json_member_begin(struct sl_json_member *m, struct sl_span name);
/* Reads the next bytes. Returns how many were used: fewer than all only with a verdict. */
size_t sl_json_member_read(struct sl_json_member *m, struct sl_span bytes);
/* Returns MORE until decided. At the end of a text, MORE means that it is incomplete. */
static inline enum sl_json_verdict sl_json_member_verdict(const struct sl_json_member *m)
{
	return (enum sl_json_verdict)m->verdict;
}
/* Returns the value of a FOUND member, in m; NULL: longer than SL_JSON_VALUE_MAX. */
static inline struct sl_span sl_json_member_value(const struct sl_json_member *m)
{
	return m->text_len <= SL_JSON_VALUE_MAX ? sl_span_of(m->value, m->text_len)
						: sl_span_of(NULL, 0);
}

#endif
