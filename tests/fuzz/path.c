/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a path. Of what is made plain: it is plain, stays as it is, is no longer than it
 * was, and names what a simple reader (decode once, split at slashes, climb) comes to.
 */
/* fuzz: max_len=256 */
#include <stdlib.h>
#include <string.h>
#include "front/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_MAX_LEN = 256, SEGMENTS = 260 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

static int digit(int c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

	return at && (c < '0' || c > '9' ? c >= 'A' : true) ? (int)(at - digits) : -1;
}

/* Decodes all of it, then keeps a stack of segments: as backends do that mean well. */
static size_t simple_reader(struct sl_span path, uint8_t *out)
{
	uint8_t plain[PATH_MAX_LEN];
	size_t len = 0, start[SEGMENTS], depth = 0, n = 0;

	for (size_t i = 0; i < path.len; i++) {
		int high = path.len - i > 2 ? digit(path.ptr[i + 1]) : -1;
		int low = path.len - i > 2 ? digit(path.ptr[i + 2]) : -1;

		if (path.ptr[i] == '%' && high >= 0 && low >= 0) {
			plain[len++] = (uint8_t)(high << 4 | low);
			i += 2;
		} else {
			plain[len++] = path.ptr[i];
		}
	}
	for (size_t i = 0, end; i < len; i = end) {
		for (end = i + 1; end < len && plain[end] != '/'; end++)
			;
		if (end - i == 1 || (end - i == 2 && plain[i + 1] == '.'))
			continue;
		if (end - i == 3 && plain[i + 1] == '.' && plain[i + 2] == '.') {
			n = depth ? start[--depth] : 0;
			continue;
		}
		start[depth++] = n;
		memcpy(out + n, plain + i, end - i);
		n += end - i;
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *path, *buf, *again, a[PATH_MAX_LEN], b[PATH_MAX_LEN];
	struct sl_span in, out, twice;
	bool plain;

	if (size > PATH_MAX_LEN - 1)
		return 0;
	path = malloc(size + 1); /* exact, so that a byte beyond is noticed */
	buf = malloc(size + 1);
	again = malloc(size + 1);
	path[0] = '/';
	memcpy(path + 1, data, size);
	in = sl_span_of(path, size + 1);
	plain = sl_path_is_plain(in);
	if (sl_path_normalise(in, buf, &out)) {
		size_t n = simple_reader(in, a);

		must(out.len <= in.len && out.len && out.ptr[0] == '/');
		must(sl_path_is_plain(out));
		must(sl_path_normalise(out, again, &twice) && sl_span_eq(out, twice));
		must(simple_reader(out, b) == n && memcmp(a, b, n) == 0);
	} else {
		must(!plain);
	}
	free(path);
	free(buf);
	free(again);
	return 0;
}
