/* SPDX-License-Identifier: Apache-2.0 */
/* server_tls.c: TLS to servers, and the block's name, which listeners have as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "config/config.h"
#include "config/server.h"
#include "suite.h"

static char said[32 << 10];

static struct sl_config *parse(const char *pool)
{
	struct sl_err err = {said, sizeof(said)};
	char text[2048];

	said[0] = 0;
	snprintf(
		text, sizeof(text),
		"interface eth0 { }\nlistener l { port = 80 }\npool p { %s }\nroute / { pool = p }\n",
		pool);
	return sl_config_parse(text, "t.conf", &err);
}

static const struct {
	const char *pool, *mistake; /* NULL: none */
} cases[] = {
	{"backend a { endpoint = \"https://a:1\" }", NULL},
	{"backend a { endpoint = \"h2://[::1]\" } tls { server_name = \"::1\" }", NULL},
	{"backend a { endpoint = \"https://a\" } tls { certificate = \"/c\" key = \"/k\" }", NULL},
	{"backend a { endpoint = \"http://a\" } tls { }",
	 "t.conf:3: found tls in pool \"p\" without an https or h2 server"},
	{"backend a { endpoint = \"shm:///a\" } tls { verify = no }",
	 "without an https or h2 server"},
	{"backend a { endpoint = \"https://a\" } tls { key = \"/k\" }",
	 "found tls of pool \"p\" with key alone; allowed: certificate and key"},
	{"backend a { endpoint = \"https://a\" } tls { certificate = \"/c\" }",
	 "with certificate alone"},
	{"backend a { endpoint = \"https://a\" } tls { ca_file = \"ca.pem\" }",
	 "found ca_file = \"ca.pem\""},
	{"backend a { endpoint = \"https://a\" } tls { ca_file = \"/a\tb\" }",
	 "found a path with a tab"},
	{"backend a { endpoint = \"https://a\" } tls { server_name = \"a/b\" }",
	 "found server_name = \"a/b\""},
	{"backend a { endpoint = \"https://a\" } tls { server_name = \"a:1\" }",
	 "found server_name = \"a:1\""},
	{"backend a { endpoint = \"https://a\" } tls { client_ca = \"/c\" }",
	 "found unknown key \"client_ca\""},
	{"backend a { endpoint = \"https://a\" } tls { } tls { }", "found a second tls block"},
	{"backend a { endpoint = \"https://a/path\" }", "found endpoint = \"https://a/path\""},
	{"backend a { endpoint = \"https://.a\" }", "found endpoint = \"https://.a\""},
	{"backend a { endpoint = \"https://a\" } tls { server_name = \".a\" }",
	 "found server_name = \".a\""},
	{"backend a { endpoint = \"https+unix:///a\" }", "found endpoint"},
};

TEST_EACH(tls_of_a_pool_is_checked, SL_ARRAY_LEN(cases))
{
	struct sl_config *c = parse(cases[_i].pool);

	if (!cases[_i].mistake)
		ck_assert_msg(c, "%s", said);
	else
		ck_assert_msg(!c && strstr(said, cases[_i].mistake), "%s", said);
	sl_config_free(c);
}

TEST(the_pool_without_a_block_has_the_defaults)
{
	struct sl_config *c = parse("backend a { endpoint = \"https://a\" }");

	ck_assert_ptr_nonnull(c);
	ck_assert_str_eq(c->pools[0].tls.ca_file.path, SL_CFG_CA_FILE);
	ck_assert(c->pools[0].tls.verify);
	ck_assert_ptr_null(c->pools[0].tls.server_name);
	sl_config_free(c);
}

TEST(a_listener_and_a_pool_have_tls_each)
{
	struct sl_err err = {said, sizeof(said)};
	struct sl_config *c = sl_config_parse(
		"interface eth0 { }\n"
		"pool p { tls { certificate = \"/pc\" key = \"/pk\" } backend a { endpoint = \"https://a\" } }\n"
		"listener l { port = 443 tls { certificate = {\"/lc\"} key = {\"/lk\"} } }\n"
		"pool q { tls { server_name = b } backend a { endpoint = \"h2://c\" } }\nroute / { pool = p }\n",
		"t.conf", &err);

	ck_assert_msg(c, "%s", said);
	ck_assert_str_eq(c->pools[0].tls.certificate.path, "/pc");
	ck_assert_str_eq(c->pools[0].tls.key.path, "/pk");
	ck_assert_str_eq(c->listeners[0].tls->certificates[0].path, "/lc");
	ck_assert_str_eq(c->listeners[0].tls->keys[0].path, "/lk");
	ck_assert_ptr_null(c->pools[1].tls.certificate.path);
	ck_assert_str_eq(c->pools[1].tls.server_name, "b");
	sl_config_free(c);
}

/* A server whose hash has changed gets a connection of its own; the former drains. */
TEST(each_key_makes_another_server)
{
	static const char *const blocks[] = {"",
					     "tls { server_name = b }",
					     "tls { ca_file = \"/b\" }",
					     "tls { verify = no }",
					     "tls { certificate = \"/c\" key = \"/k\" }",
					     "tls { certificate = \"/k\" key = \"/c\" }"};
	char ends[SL_ARRAY_LEN(blocks)][SL_SERVER_ENDPOINT_LEN], pool[256];

	for (size_t i = 0; i < SL_ARRAY_LEN(blocks); i++) {
		struct sl_config *c;

		snprintf(pool, sizeof(pool), "backend a { endpoint = \"https://a\" } %s",
			 blocks[i]);
		c = parse(pool);
		ck_assert_msg(c, "%s", said);
		sl_server_endpoint(ends[i], 0, "p", &c->pools[0].backends[0]);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(ends[i], ends[k]);
		sl_config_free(c);
	}
}

TEST(files_are_counted_once)
{
	char *text = malloc(64 << 10);
	struct sl_err err = {said, sizeof(said)};
	size_t len = 0;
	struct sl_config *c;

	ck_assert_ptr_nonnull(text);
	for (int i = 0; i < 33; i++)
		len += (size_t)snprintf(
			text + len, 1000,
			"pool p%d { backend a { endpoint = \"https://a\" } tls { certificate = "
			"\"/c%d\" key = \"/k%d\" } }\n",
			i, i % 31, i % 31);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(c, "%s", said); /* 62, and ca_file */
	sl_config_free(c);
	snprintf(text + len, 1000,
		 "pool q { backend a { endpoint = \"https://a\" } tls { certificate = \"/x\" "
		 "key = \"/y\" } }\n");
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(!c && strstr(said, "found more than 64 files in tls blocks of pools"), "%s",
		      said);
	free(text);
}

static const struct {
	const char *url;
	uint8_t proto;
	bool tls;
	uint16_t port;
} urls[] = {
	{"https://a.example", SL_SERVER_HTTP1, true, 443},
	{"https://a:8443/", SL_SERVER_HTTP1, true, 8443},
	{"h2://[::1]", SL_SERVER_H2, true, 443},
	{"h2c://a", SL_SERVER_H2, false, 80},
	{"http://a", SL_SERVER_HTTP1, false, 80},
};

TEST_EACH(a_url_says_if_there_is_tls, SL_ARRAY_LEN(urls))
{
	struct sl_server_url url;

	ck_assert(sl_server_url_parse(urls[_i].url, &url));
	ck_assert_uint_eq(url.proto, urls[_i].proto);
	ck_assert_int_eq(url.tls, urls[_i].tls);
	ck_assert_uint_eq(url.port, urls[_i].port);
}
