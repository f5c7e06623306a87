/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that are read in one way only, and what becomes of the others. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "front/path.h"
#include "suite.h"

/* normal: what is made of it; NULL: nothing can be. A path that is plain stays, but for its %XX. */
static const struct {
	const char *path;
	bool plain;
	const char *normal;
} paths[] = {
	{"/", true, "/"},
	{"*", true, "*"},
	{"", true, ""},
	{"/a", true, "/a"},
	{"/a/", true, "/a/"},
	{"/a/b.c/d..e/...", true, "/a/b.c/d..e/..."},
	{"/.well-known/x", true, "/.well-known/x"},
	{"/..a/.b/c.", true, "/..a/.b/c."},
	{"/pkg.Service/Method", true, "/pkg.Service/Method"},
	{"/a;x=1/b;..;", true, "/a;x=1/b;..;"},
	{"/%C3%A4%20%25", true, "/%C3%A4%20%25"},
	{"/%c3%a4", true, "/%C3%A4"},
	{"/%61dmin", false, "/admin"},
	{"/%41%7e%2d%c3%a4%20", false, "/A~-%C3%A4%20"},
	{"/%252e%252e/a", true, "/%252e%252e/a"},
	{"/.", false, "/"},
	{"/a/.", false, "/a/"},
	{"/a/./b", false, "/a/b"},
	{"/a/..", false, "/"},
	{"/a/../b", false, "/b"},
	{"/public/../admin", false, "/admin"},
	{"/public/%2e%2e/admin", false, "/admin"},
	{"/public/%2E./admin", false, "/admin"},
	{"/public/.%2e/admin/%2e", false, "/admin/"},
	{"/a/b/c/../../d", false, "/a/d"},
	{"/a/b/../..", false, "/"},
	{"/..", false, NULL},
	{"/a/../../b", false, NULL},
	{"//admin", false, "/admin"},
	{"/a//b", false, "/a/b"},
	{"/a//", false, "/a/"},
	{"//", false, "/"},
	{"/a//..//b", false, "/b"},
	{"/public/..;/admin", false, NULL},
	{"/public/..;a=1/admin", false, NULL},
	{"/public/%2e%2e%3bx/admin", false, NULL},
	{"/.;", false, NULL},
	{"/public%2fadmin", false, NULL},
	{"/public/..%2Fadmin", false, NULL},
	{"/public%5c..%5cadmin", false, NULL},
	{"/public\\..\\admin", false, NULL},
	{"/a%00b", false, NULL},
	{"/a%", false, NULL},
	{"/a%4", false, NULL},
	{"/a%4g", false, NULL},
	{"/a%g4/b", false, NULL},
};

/* At the very end of what may be read, and written. */
static struct sl_span at_end(uint8_t *mem, const char *text)
{
	size_t len = strlen(text);

	memcpy(mem, text, len);
	return sl_span_of(mem, len);
}

TEST_EACH(each_path_is_plain_or_has_one_normal_form, SL_ARRAY_LEN(paths))
{
	const size_t len = strlen(paths[_i].path);
	uint8_t *mem = malloc(len + 1), *buf = malloc(len + 1), *again = malloc(len + 1);
	struct sl_span path, out, twice;
	bool ok;

	path = at_end(mem + (len == 0), paths[_i].path);
	ck_assert_msg(sl_path_is_plain(path) == paths[_i].plain, "%s", paths[_i].path);
	ok = sl_path_normalise(path, buf, &out);
	ck_assert_msg(ok == (paths[_i].normal != NULL), "%s", paths[_i].path);
	if (ok) {
		ck_assert_msg(out.len == strlen(paths[_i].normal) &&
				      memcmp(out.ptr, paths[_i].normal, out.len) == 0,
			      "%s: %.*s", paths[_i].path, (int)out.len, out.ptr);
		ck_assert(sl_path_is_plain(out));
		ck_assert(sl_path_normalise(out, again, &twice));
		ck_assert(sl_span_eq(out, twice));
	}
	free(mem);
	free(buf);
	free(again);
}

/* Both readings; NULL: there are none. `rest`: what stands behind the first four bytes of the literal one. */
static const struct {
	const char *path, *literal, *resolved;
	bool climbs;
} readings[] = {
	{"/", "/", "/", false},
	{"/a/b", "/a/b", "/a/b", false},
	{"/a/", "/a/", "/a/", false},
	{"/@sc%2fpkg", "/@sc%2Fpkg", "/@sc/pkg", false},
	{"/%7Euser/%41", "/~user/A", "/~user/A", false},
	{"/a%20b%3F%23", "/a b?#", "/a b?#", false},
	{"/%61dmin", "/admin", "/admin", false},
	{"/%C3%A4\xc3\xa4", "/\xc3\xa4\xc3\xa4", "/\xc3\xa4\xc3\xa4", false},
	{"/./Packages", "/./Packages", "/Packages", false},
	{"/a/.", "/a/.", "/a/", false},
	{"/a/%2e", "/a/.", "/a/", false},
	{"//admin", "//admin", "/admin", false},
	{"/a//b", "/a//b", "/a/b", false},
	{"/a//", "/a//", "/a/", false},
	{"/p/x%5Cy", "/p/x%5Cy", "/p/x/y", false},
	{"/p\\x", "/p\\x", "/p/x", false},
	{"/a%2F", "/a%2F", "/a/", false},
	{"/a%2f/b", "/a%2F/b", "/a/b", false},
	{"/a%2f.%2fb", "/a%2F.%2Fb", "/a/b", false},
	{"/%252fa", "/%252fa", "/%252fa", false},
	{"/a/%252e%252e", "/a/%252e%252e", "/a/%252e%252e", false},
	{"/public/../admin", "/public/../admin", "/admin", true},
	{"/public/%2e%2E/admin", "/public/../admin", "/admin", true},
	{"/a/b/../../c/..", "/a/b/../../c/..", "/", true},
	{"/a/./../b", "/a/./../b", "/b", true},
	{"/..a/...", "/..a/...", "/..a/...", false},
	{"/a;x=1/b;..;", "/a;x=1/b;..;", "/a;x=1/b;..;", false},
	{"/..", NULL, NULL, false},
	{"/a/../..", NULL, NULL, false},
	{"/a//../b", NULL, NULL, false},
	{"/a%2fb/../c", NULL, NULL, false},
	{"/public%2f..%2fadmin", NULL, NULL, false},
	{"/public/..%5cadmin", NULL, NULL, false},
	{"/public\\..\\admin", NULL, NULL, false},
	{"/public/..;/admin", NULL, NULL, false},
	{"/public/%2e%2e%3bx/admin", NULL, NULL, false},
	{"/a%2f.;x", NULL, NULL, false},
	{"/a%00", NULL, NULL, false},
	{"/a%", NULL, NULL, false},
	{"/a%4", NULL, NULL, false},
	{"/a%g4", NULL, NULL, false},
	{"/\xc0\xaf", NULL, NULL, false},
	{"/\xe0\x80\xaf", NULL, NULL, false},
	{"/\xed\xa0\x80", NULL, NULL, false},
	{"/\xf5\x80\x80\x80", NULL, NULL, false},
	{"/\xe4", NULL, NULL, false},
	{"/\xc3x", NULL, NULL, false},
};

static void ck_reads(struct sl_span got, const char *want, const char *path)
{
	ck_assert_msg(sl_span_eq(got, sl_span_cstr(want)), "%s: %.*s", path, (int)got.len, got.ptr);
}

TEST_EACH(each_path_has_two_readings_or_none, SL_ARRAY_LEN(readings))
{
	const char *text = readings[_i].path;
	const size_t len = strlen(text);
	uint8_t *mem = malloc(len), *literal = malloc(len), *resolved = malloc(len);
	struct sl_span path = at_end(mem, text);
	struct sl_path_readings r;

	ck_assert_msg(sl_path_read(path, literal, resolved, &r) == (readings[_i].literal != NULL),
		      "%s", text);
	if (readings[_i].literal) {
		ck_reads(r.literal, readings[_i].literal, text);
		ck_reads(r.resolved, readings[_i].resolved, text);
		ck_assert_int_eq(r.climbs, readings[_i].climbs);
	}
	if (sl_path_is_simple(path)) {
		ck_assert_str_eq(readings[_i].literal, text);
		ck_assert_str_eq(readings[_i].resolved, text);
	}
	free(mem);
	free(literal);
	free(resolved);
}

/* A prefix of the literal reading, and what of the path stands behind it. */
static const struct {
	const char *path, *prefix, *rest;
} stripped[] = {
	{"/api/x", "/api", "/x"},
	{"/api", "/api", ""},
	{"/%61pi/%78", "/api", "/%78"},
	{"/a%70i//x", "/api", "//x"},
	{"/a%20b/c%2Fd", "/a b", "/c%2Fd"},
	{"/%C3%A4/x", "/\xc3\xa4", "/x"},
	{"/a%2fb/x", "/a%2Fb", "/x"},
	{"/%25x/y", "/%25x", "/y"},
	{"/a", "/abc", ""},
};

TEST_EACH(the_path_behind_a_prefix_is_passed_on_unchanged, SL_ARRAY_LEN(stripped))
{
	ck_reads(sl_path_behind(sl_span_cstr(stripped[_i].path), strlen(stripped[_i].prefix)),
		 stripped[_i].rest, stripped[_i].path);
}
