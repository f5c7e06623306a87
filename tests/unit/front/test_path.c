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
