/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a path. A path that is passed on unchanged lies below its prefix in both readings:
 * every reader stays below it, for any order of decoding and resolving.
 *
 * A normalised path is plain, stays as it is, and is no longer than before. It names the result of a
 * simple reader (decode once, split at slashes, climb).
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

/* --- passed on as it came --- */

enum { DECODES = 1, SLASHES = 2, MERGES = 4, RESOLVES = 8, READERS = 16 };

/* Decodes once, but for `%25`; encoded slashes and backslashes only where `slashes` says so. */
static size_t decode(const uint8_t *in, size_t len, bool slashes, uint8_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int high = len - i > 2 ? digit(in[i + 1]) : -1,
		    low = high < 0 ? -1 : digit(in[i + 2]);
		int c = low < 0 ? -1 : high << 4 | low;

		if (in[i] != '%' || c < 0 || c == '%' || ((c == '/' || c == '\\') && !slashes)) {
			out[n++] = in[i] == '\\' && slashes ? '/' : in[i];
			continue;
		}
		out[n++] = c == '\\' ? '/' : (uint8_t)c;
		i += 2;
	}
	return n;
}

/* Segments by slashes: empty ones and dots go, as the reader does that. False: it climbs above the root. */
static bool resolve(uint8_t *path, size_t *len, unsigned does)
{
	size_t start[SEGMENTS], depth = 0, n = 0;

	for (size_t i = 0, end; i < *len; i = end) {
		bool dots;

		for (end = i + 1; end < *len && path[end] != '/'; end++)
			;
		dots = (does & RESOLVES) && end - i <= 3 && end - i >= 2 && path[i + 1] == '.' &&
		       path[end - 1] == '.';
		if ((end - i == 1 && (does & MERGES)) || (dots && end - i == 2))
			continue;
		if (dots && !depth)
			return false;
		if (dots) {
			n = start[--depth];
			continue;
		}
		start[depth++] = n;
		memmove(path + n, path + i, end - i);
		n += end - i;
	}
	*len = n;
	return true;
}

static bool is_below(const uint8_t *path, size_t len, struct sl_span prefix)
{
	return len >= prefix.len && memcmp(path, prefix.ptr, prefix.len) == 0 &&
	       (len == prefix.len || path[prefix.len] == '/');
}

/* The prefix is the first segment, or the first two, of the literal reading. */
static void check_readers(struct sl_span path, const struct sl_path_readings *r, unsigned segments)
{
	struct sl_span prefix = sl_span_of(r->literal.ptr, 1);
	uint8_t a[PATH_MAX_LEN], b[PATH_MAX_LEN];

	for (; prefix.len < r->literal.len; prefix.len++) {
		if (r->literal.ptr[prefix.len] == '/' && !--segments)
			break;
	}
	if (memchr(prefix.ptr, '%', prefix.len) || prefix.ptr[prefix.len - 1] == '/' ||
	    !is_below(r->resolved.ptr, r->resolved.len, prefix))
		return;
	for (unsigned does = DECODES; does < READERS; does++) {
		size_t n = path.len, m;

		if (!(does & DECODES))
			continue;
		/* Those that resolve before they decode, and again. */
		memcpy(a, path.ptr, n);
		must(resolve(a, &n, does));
		m = decode(a, n, does & SLASHES, b);
		must(resolve(b, &m, does));
		must(is_below(b, m, prefix));
		m = decode(path.ptr, path.len, does & SLASHES, b);
		must(resolve(b, &m, does));
		must(is_below(b, m, prefix));
	}
}

static void check_readings(struct sl_span path, uint8_t *literal, uint8_t *resolved)
{
	struct sl_path_readings r;

	if (!sl_path_read(path, literal, resolved, &r)) {
		must(!sl_path_is_simple(path));
		return;
	}
	must(r.literal.len <= path.len && r.resolved.len <= path.len);
	must(r.literal.ptr[0] == '/' && r.resolved.ptr[0] == '/');
	must(!sl_path_is_simple(path) ||
	     (sl_span_eq(r.literal, path) && sl_span_eq(r.resolved, path)));
	for (size_t n = 0; n <= r.literal.len; n++)
		must(sl_path_behind(path, n).len <= path.len);
	must(sl_path_behind(path, r.literal.len).len == 0);
	check_readers(path, &r, 1);
	check_readers(path, &r, 2);
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
	if (!memchr(data, 0, size)) /* no target has one */
		check_readings(in, buf, again);
	free(path);
	free(buf);
	free(again);
	return 0;
}
