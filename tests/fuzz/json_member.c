/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a JSON text whose member "m" is wanted, in pieces, compared with jansson. The first
 * byte of the input selects the pieces. A verdict does not depend on them.
 */
/* fuzz: max_len=512 */
/* fuzz: dict=json_member.dict */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "core/json_member.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static size_t read_pieces(struct sl_json_member *m, const uint8_t *p, size_t len, size_t step)
{
	size_t used = 0;

	sl_json_member_begin(m, sl_span_str("m"));
	while (used < len && sl_json_member_verdict(m) == SL_JSON_MORE) {
		size_t n = len - used < step ? len - used : step;
		uint8_t *copy = malloc(n); /* so that reads beyond a piece are found */

		must(copy);
		memcpy(copy, p + used, n);
		n = sl_json_member_read(m, sl_span_of(copy, n));
		must(n > 0);
		free(copy);
		used += n;
	}
	return used;
}

/* Limits of jansson that the scanner does not have. */
static bool is_own_limit(const json_error_t *e)
{
	switch (json_error_code(e)) {
	case json_error_numeric_overflow:
	case json_error_null_byte_in_key:
	case json_error_duplicate_key:
	case json_error_stack_overflow:
	case json_error_out_of_memory: return true;
	default: return false;
	}
}

static void compare_object(const struct sl_json_member *m, const json_t *all)
{
	const json_t *want = json_object_get(all, "m");
	struct sl_span value = sl_json_member_value(m);

	if (!want) {
		must(sl_json_member_verdict(m) == SL_JSON_ABSENT);
	} else if (!json_is_string(want)) {
		must(sl_json_member_verdict(m) == SL_JSON_OTHER);
	} else {
		size_t len = json_string_length(want);

		must(sl_json_member_verdict(m) == SL_JSON_FOUND);
		must(len > SL_JSON_VALUE_MAX
			     ? !value.ptr
			     : value.len == len &&
				       memcmp(value.ptr, json_string_value(want), len) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_json_member whole, pieces;
	json_error_t e;
	json_t *all;
	size_t used;

	if (!size)
		return 0;
	used = read_pieces(&whole, data + 1, size - 1, size);
	must(read_pieces(&pieces, data + 1, size - 1, data[0] % 16 + 1) == used);
	must(whole.verdict == pieces.verdict && whole.text_len == pieces.text_len);
	/* jansson loses a NUL behind a number. */
	if (memchr(data + 1, 0, size - 1))
		return 0;
	all = json_loadb((const char *)data + 1, size - 1,
			 JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY |
				 JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL,
			 &e);
	if (sl_json_member_verdict(&whole) == SL_JSON_DEEP)
		;
	else if (all && json_is_object(all))
		compare_object(&whole, all);
	else if (all)
		must(sl_json_member_verdict(&whole) == SL_JSON_BAD);
	else if (sl_json_member_verdict(&whole) == SL_JSON_ABSENT)
		must(is_own_limit(&e));
	else if (sl_json_member_verdict(&whole) == SL_JSON_FOUND && !is_own_limit(&e))
		must((size_t)e.position >= used);
	json_decref(all);
	return 0;
}
