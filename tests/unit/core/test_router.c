/* SPDX-License-Identifier: Apache-2.0 */
/* Routes by host, listener, header, path and method. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/router.h"
#include "suite.h"
#include "alloc.h"

static struct sl_config *cfg;
static struct sl_router *router;
static long allocs_before; /* it */

static void make(const char *text)
{
	struct sl_err err = SL_ERR(256);

	cfg = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	allocs_before = allocs_alive;
	router = sl_router_create(cfg);
	ck_assert_ptr_nonnull(router);
}

static void tear_down(void)
{
	sl_router_destroy(router);
	if (cfg)
		ck_assert_int_le(allocs_alive, allocs_before); /* a text may have gone meanwhile */
	sl_config_free(cfg);
	router = NULL;
	cfg = NULL;
}

FIXTURE(NULL, tear_down)

static struct sl_route_match match(const char *host, const char *path, enum sl_method m)
{
	struct sl_request rq = {
		.authority = sl_span_cstr(host), .path = sl_span_cstr(path), .method = (uint8_t)m};

	return sl_router_find(router, 0, &rq);
}

/* The status of the route that is found at a listener for a GET with fields "name: value", or 0. */
static unsigned by(uint16_t listener, const char *const *fields, const char *path)
{
	struct sl_header headers[4];
	struct sl_request rq = {.authority = sl_span_cstr("a.example"),
				.path = sl_span_cstr(path),
				.method = SL_METHOD_GET,
				.headers = headers};
	struct sl_route_match m;

	for (; fields && fields[rq.header_cnt]; rq.header_cnt++) {
		const char *f = fields[rq.header_cnt], *colon = strchr(f, ':');

		headers[rq.header_cnt] =
			(struct sl_header){.name = sl_span_of(f, (size_t)(colon - f)),
					   .value = sl_span_cstr(colon + 2)};
	}
	m = sl_router_find(router, listener, &rq);
	return m.route ? m.route->reply_status : 0;
}

/* The status of the route that is found, or 0. */
static unsigned at(const char *host, const char *path)
{
	struct sl_route_match m = match(host, path, SL_METHOD_GET);

	return m.route ? m.route->reply_status : 0;
}

static unsigned by_method(const char *path, enum sl_method method)
{
	struct sl_route_match m = match("", path, method);

	ck_assert_ptr_nonnull(m.route);
	return m.method_ok ? m.route->reply_status : 405;
}

TEST(prefixes_match_whole_segments_and_the_longest_wins)
{
	make("route / { respond { status = 200 } } route /api { respond { status = 201 } } route /api/v1 { respond { status = 202 } }\n"
	     "route /pkg.Svc/ { respond { status = 203 } }\n");
	ck_assert_uint_eq(at("", "/api/v1"), 202);
	ck_assert_uint_eq(at("", "/api/v1/x"), 202);
	ck_assert_uint_eq(at("", "/api/v1/"), 202);
	ck_assert_uint_eq(at("", "/api/v10"), 201);
	ck_assert_uint_eq(at("", "/api/"), 201);
	ck_assert_uint_eq(at("", "/apix"), 200);
	ck_assert_uint_eq(at("", "/ap"), 200);
	ck_assert_uint_eq(at("", "/pkg.Svc/Do"), 203);
	ck_assert_uint_eq(at("", "/pkg.Svc/"), 203);
	ck_assert_uint_eq(at("", "/pkg.Svc"), 200);
	ck_assert_uint_eq(at("", "//"), 200);
	ck_assert_uint_eq(at("", "*"), 0);
	ck_assert_uint_eq(at("", ""), 0);
}

TEST(a_prefix_that_ends_in_a_slash_goes_before_the_same_without)
{
	make("route /a { respond { status = 201 } } route /a/ { respond { status = 202 } }\n");
	ck_assert_uint_eq(at("", "/a"), 201);
	ck_assert_uint_eq(at("", "/a/"), 202);
	ck_assert_uint_eq(at("", "/a/b"), 202);
	ck_assert_uint_eq(at("", "/b"), 0);
}

TEST(routes_of_a_prefix_are_told_apart_by_method)
{
	make("route /a { respond { status = 201 } methods = {GET} }\n"
	     "route /a { respond { status = 202 } methods = {POST, PUT} }\n"
	     "route /a/b { respond { status = 203 } methods = {GET} }\n"
	     "route / { respond { status = 200 } }\n");
	ck_assert_uint_eq(by_method("/a/c", SL_METHOD_GET), 201);
	ck_assert_uint_eq(by_method("/a/c", SL_METHOD_HEAD), 201);
	ck_assert_uint_eq(by_method("/a/c", SL_METHOD_PUT), 202);
	/* None has it: 405 by the most specific prefix, not the route of a shorter one. */
	ck_assert_uint_eq(by_method("/a/c", SL_METHOD_DELETE), 405);
	ck_assert_uint_eq(by_method("/a/b", SL_METHOD_POST), 405);
	ck_assert_uint_eq(match("", "/a", SL_METHOD_DELETE).methods,
			  1u << SL_METHOD_GET | 1u << SL_METHOD_HEAD | 1u << SL_METHOD_POST |
				  1u << SL_METHOD_PUT);
	ck_assert_uint_eq(match("", "/", SL_METHOD_DELETE).methods, 0);
}

TEST(a_route_without_methods_has_all_the_rest)
{
	make("route /a { respond { status = 201 } methods = {GET} } route /a { respond { status = 202 } }\n"
	     "route /b { respond { status = 203 } methods = {HEAD} } route /b { respond { status = 204 } methods = {GET} }\n");
	ck_assert_uint_eq(by_method("/a", SL_METHOD_GET), 201);
	ck_assert_uint_eq(by_method("/a", SL_METHOD_HEAD), 202);
	ck_assert_uint_eq(by_method("/a", SL_METHOD_OTHER), 202);
	ck_assert_uint_eq(by_method("/b", SL_METHOD_HEAD), 203);
	ck_assert_uint_eq(by_method("/b", SL_METHOD_GET), 204);
}

TEST(hosts_go_from_exact_to_wildcard_to_any)
{
	make("route / { respond { status = 200 } }\n"
	     "route / { respond { status = 201 } host = api.example.com }\n"
	     "route / { respond { status = 202 } host = \"*.example.com\" }\n"
	     "route / { respond { status = 203 } host = {\"*.eu.example.com\", \"[::1]\"} }\n");
	ck_assert_uint_eq(at("api.example.com", "/"), 201);
	ck_assert_uint_eq(at("www.example.com", "/"), 202);
	ck_assert_uint_eq(at("a.b.example.com", "/"), 202);
	ck_assert_uint_eq(at("a.eu.example.com", "/"), 203);
	ck_assert_uint_eq(at("eu.example.com", "/"), 202);
	ck_assert_uint_eq(at("example.com", "/"), 200);
	ck_assert_uint_eq(at("notexample.com", "/"), 200);
	ck_assert_uint_eq(at(".example.com", "/"), 200); /* no label stands for the star */
	ck_assert_uint_eq(at("*.example.com", "/"), 202);
	ck_assert_uint_eq(at("[::1]", "/"), 203);
	ck_assert_uint_eq(at("", "/"), 200);
}

TEST(hosts_are_compared_without_case_port_and_trailing_dot)
{
	make("route / { respond { status = 201 } host = api.example.com }\n"
	     "route / { respond { status = 202 } host = \"*.example.com\" }\n"
	     "route / { respond { status = 203 } host = \"[fd99::1]\" }\n");
	ck_assert_uint_eq(at("API.Example.com:8080", "/"), 201);
	ck_assert_uint_eq(at("api.example.com.", "/"), 201);
	ck_assert_uint_eq(at("api.example.com.:443", "/"), 201);
	ck_assert_uint_eq(at("X.Example.COM.:443", "/"), 202);
	ck_assert_uint_eq(at("[FD99::1]:443", "/"), 203);
	ck_assert_uint_eq(at("api.example.org", "/"), 0);
	ck_assert_uint_eq(at("api.example.com..", "/"), 0);
}

/* Each label of what a client says costs a look at all that is behind it. */
TEST(overlong_host_name_matches_no_route)
{
	char host[255];
	size_t len;

	make("route / { respond { status = 200 } }\nroute / { respond { status = 202 } host = \"*.example.com\" }\n");
	for (len = 253; len <= 254; len++) {
		memset(host, 'a', sizeof(host));
		memcpy(host + len - 12, ".example.com", 13);
		ck_assert_uint_eq(at(host, "/"), len == 253 ? 202 : 200);
	}
	ck_assert_uint_eq(at("a.example.com", "/"), 202);
}

TEST(a_host_without_the_path_leaves_it_to_the_next)
{
	make("route /x { respond { status = 201 } host = a.example.com }\n"
	     "route /y { respond { status = 202 } host = \"*.example.com\" }\n"
	     "route /z { respond { status = 203 } }\n");
	ck_assert_uint_eq(at("a.example.com", "/x"), 201);
	ck_assert_uint_eq(at("a.example.com", "/y"), 202);
	ck_assert_uint_eq(at("a.example.com", "/z"), 203);
	ck_assert_uint_eq(at("b.example.com", "/x"), 0);
}

#define LISTENERS                                                                                  \
	"listener one { port = 1 } listener two { port = 2 } listener three { port = 3 }\n"

TEST(routes_of_a_listener_go_before_general_ones)
{
	make("route / { respond { status = 200 } } route /a { respond { status = 201 } }\n"
	     "route / { respond { status = 202 } listener = two }\n"
	     "route /a { respond { status = 203 } listener = {one, three} }\n"
	     "route /c { respond { status = 204 } listener = three }\n"
	     "route / { respond { status = 205 } host = b.example }\n" LISTENERS);
	ck_assert_uint_eq(by(0, NULL, "/"), 200);
	ck_assert_uint_eq(by(0, NULL, "/a"), 203);
	ck_assert_uint_eq(by(2, NULL, "/a"), 203);
	/* Before the longer prefix, which is everybody's. */
	ck_assert_uint_eq(by(1, NULL, "/a"), 202);
	ck_assert_uint_eq(by(0, NULL, "/c"), 200);
	ck_assert_uint_eq(by(2, NULL, "/c"), 204);
	/* One that has gone has what all have. */
	ck_assert_uint_eq(by(UINT16_MAX, NULL, "/a"), 201);
	ck_assert_uint_eq(by(SL_MAX_LISTENERS, NULL, "/a"), 201);
}

TEST(a_host_goes_before_a_listener)
{
	make("route / { respond { status = 200 } } route / { respond { status = 201 } listener = two }\n"
	     "route /x { respond { status = 202 } host = a.example }\n"
	     "route /x { respond { status = 203 } host = \"*.example\" listener = two }\n"
	     "route /y { respond { status = 204 } host = \"*.example\" listener = two }\n" LISTENERS);
	ck_assert_uint_eq(by(1, NULL, "/x"), 202);
	ck_assert_uint_eq(by(1, NULL, "/y"), 204);
	ck_assert_uint_eq(by(1, NULL, "/z"), 201);
	ck_assert_uint_eq(by(0, NULL, "/y"), 200);
}

TEST(a_header_picks_a_route)
{
	static const char *const yes[] = {"accept: */*", "X-Canary: yes", NULL},
				 *const no[] = {"x-canary: no", NULL},
				 *const upper[] = {"x-canary: YES", NULL},
				 *const longer[] = {"x-canary: yes2", NULL},
				 *const twice[] = {"x-canary: no", "x-canary: yes", NULL},
				 *const other[] = {"x-canary2: yes", NULL};

	make("route / { respond { status = 200 } } route /a { respond { status = 201 } }\n"
	     "route / { respond { status = 202 } header = \"x-Canary: yes\" }\n"
	     "route /b { respond { status = 203 } header = \"x-canary:yes\" }\n"
	     "route /c { respond { status = 204 } header = \"x-canary: no\" }\n");
	/* Before the longer prefix without one. */
	ck_assert_uint_eq(by(0, yes, "/a"), 202);
	ck_assert_uint_eq(by(0, yes, "/b/x"), 203);
	ck_assert_uint_eq(by(0, twice, "/a"), 202);
	ck_assert_uint_eq(by(0, NULL, "/a"), 201);
	ck_assert_uint_eq(by(0, no, "/a"), 201);
	ck_assert_uint_eq(by(0, no, "/c"), 204);
	ck_assert_uint_eq(by(0, upper, "/b"), 200);
	ck_assert_uint_eq(by(0, longer, "/b"), 200);
	ck_assert_uint_eq(by(0, other, "/b"), 200);
}

TEST(of_two_headers_the_longer_prefix_wins_then_the_first_in_the_file)
{
	static const char *const both[] = {"z: 1", "b: 1", NULL};

	make("route / { respond { status = 201 } header = \"z: 1\" }\nroute / { respond { status = 202 } header = \"b: 1\" }\n"
	     "route /x { respond { status = 203 } header = \"b: 1\" }\nroute /x/y { respond { status = 204 } header = \"z: 1\" }\n");
	ck_assert_uint_eq(by(0, both, "/"), 201);
	ck_assert_uint_eq(by(0, both, "/x"), 203);
	ck_assert_uint_eq(by(0, both, "/x/y"), 204);
	ck_assert_uint_eq(by(0, both + 1, "/x/y"), 203);
	ck_assert_uint_eq(by(0, NULL, "/x"), 0);
}

TEST(a_listener_goes_before_a_header)
{
	static const char *const canary[] = {"c: 1", NULL};

	make("route / { respond { status = 200 } } route / { respond { status = 201 } header = \"c: 1\" }\n"
	     "route /a { respond { status = 202 } listener = {one, two} }\n"
	     "route /b { respond { status = 203 } listener = two header = \"c: 1\" }\n"
	     "route /b { respond { status = 204 } listener = two }\n"
	     "route /b { respond { status = 205 } listener = three header = \"c: 1\" methods = {GET} }\n" LISTENERS);
	ck_assert_uint_eq(by(0, canary, "/a"), 202);
	ck_assert_uint_eq(by(2, canary, "/a"), 201);
	ck_assert_uint_eq(by(1, canary, "/b"), 203);
	ck_assert_uint_eq(by(1, NULL, "/b"), 204);
	ck_assert_uint_eq(by(2, canary, "/b"), 205);
	ck_assert_uint_eq(by(2, NULL, "/b"), 200);
}

/* As many scopes as there are routes: each is found by its own. */
TEST(all_of_many_headers_and_listeners_are_found)
{
	enum { ROUTES = 1000 };
	char *text = malloc(ROUTES * 96 + sizeof(LISTENERS));
	char field[32];
	const char *const fields[] = {field, NULL};
	size_t len = (size_t)sprintf(text, LISTENERS);

	for (unsigned i = 0; i < ROUTES; i++)
		len += (size_t)snprintf(text + len, 96,
					"route / { reply = %u header = \"h: %u\" listener = %s }\n",
					200 + i % 300, i / 2, i % 2 ? "two" : "three");
	make(text);
	free(text);
	for (unsigned i = 0; i < ROUTES; i++) {
		snprintf(field, sizeof(field), "h: %u", i / 2);
		ck_assert_uint_eq(by(i % 2 ? 1 : 2, fields, "/x"), 200 + i % 300);
		ck_assert_uint_eq(by(0, fields, "/x"), 0);
	}
}

TEST(datagrams_find_their_route_at_its_listeners_only)
{
	make("pool p { backend a { endpoint = \"shm:///run/a.sock\" } }\n"
	     "route /a { pool = p datagram_service = 7 listener = {three, two} }\n"
	     "route /b { pool = p datagram_service = 8 header = \"c: 1\" }\n" LISTENERS);
	ck_assert_ptr_null(sl_router_find_service(router, 0, 7));
	ck_assert_ptr_nonnull(sl_router_find_service(router, 1, 7));
	ck_assert_ptr_nonnull(sl_router_find_service(router, 2, 7));
	ck_assert_ptr_null(sl_router_find_service(router, UINT16_MAX, 7));
	ck_assert_ptr_nonnull(sl_router_find_service(router, 0, 8));
}

TEST(datagrams_name_a_route_by_number)
{
	make("pool p { backend a { endpoint = \"shm:///run/a.sock\" } }\n"
	     "route /a { pool = p datagram_service = 7 }\n"
	     "route /b { pool = p datagram_service = 65534 }\n"
	     "route /c { pool = p }\n");
	ck_assert_str_eq(sl_router_find_service(router, 0, 7)->prefix, "/a");
	ck_assert_str_eq(sl_router_find_service(router, 0, 65534)->prefix, "/b");
	ck_assert_ptr_null(sl_router_find_service(router, 0, 0));
	ck_assert_ptr_null(sl_router_find_service(router, 0, 8));
}

TEST(all_of_many_routes_are_found)
{
	enum { ROUTES = 1024 };
	char *text = malloc(ROUTES * 64);
	char path[64];
	size_t len = 0;

	for (unsigned i = 0; i < ROUTES; i++)
		len += (size_t)snprintf(text + len, 64, "route /r%u%s { reply = %u }\n", i,
					i % 3 ? "/deep/er" : "", 200 + i % 300);
	make(text);
	free(text);
	for (unsigned i = 0; i < ROUTES; i++) {
		snprintf(path, sizeof(path), "/r%u/deep/er/x", i);
		ck_assert_uint_eq(at("any", path), 200 + i % 300);
	}
	ck_assert_uint_eq(at("any", "/r1024"), 0);
}

TEST(a_path_of_slashes_ends)
{
	char path[4097];

	make("route / { respond { status = 200 } } route \"///\" { respond { status = 201 } }\n");
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	ck_assert_uint_eq(at("", path), 201);
}
