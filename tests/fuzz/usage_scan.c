/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the body of a reply whose usage.total_tokens is wanted. The first byte selects the pieces
 * and the type. The number does not depend on pieces, and is that of jansson where it accepts the text.
 */
/* fuzz: max_len=512 */
/* fuzz: dict=json_member.dict */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "core/usage_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static int64_t scan(const uint8_t *p, size_t len, bool events, size_t step)
{
	struct sl_usage_scan s;
	uint64_t value;

	sl_usage_scan_begin(&s, "usage.total_tokens", events);
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		uint8_t *copy = malloc(n); /* so that reads beyond a piece are found */

		must(copy);
		memcpy(copy, p + at, n);
		sl_usage_scan_read(&s, sl_span_of(copy, n));
		free(copy);
	}
	return sl_usage_scan_value(&s, &value) ? (int64_t)value : -1;
}

/* The scanner refuses what is nested more deeply than SL_JSON_DEPTH_MAX. */
static bool is_deep(const uint8_t *p, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += p[i] == '[' || p[i] == '{';
	return n >= SL_JSON_DEPTH_MAX;
}

/*
 * jansson refuses duplicate keys here: then it does not matter which one counts. It ignores a NUL
 * behind a number, where the scanner refuses the text.
 */
static void compare(const uint8_t *p, size_t len, int64_t found)
{
	json_t *all, *number;
	json_int_t want;

	if (memchr(p, 0, len))
		return;
	all = json_loadb((const char *)p, len, JSON_REJECT_DUPLICATES, NULL);
	number = json_object_get(json_object_get(all, "usage"), "total_tokens");
	want = json_is_integer(number) ? json_integer_value(number) : -1;
	/* jansson reads -0 as 0. */
	if (json_is_object(all) && !is_deep(p, len) && (want || found >= 0))
		must(found == (want >= 0 && want <= UINT32_MAX ? want : -1));
	json_decref(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool events;
	int64_t found;

	if (!size)
		return 0;
	events = data[0] & 0x80;
	found = scan(data + 1, size - 1, events, 1 + (data[0] & 0x7f));
	must(found == scan(data + 1, size - 1, events, size));
	if (!events)
		compare(data + 1, size - 1, found);
	return 0;
}
