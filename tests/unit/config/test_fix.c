/* SPDX-License-Identifier: Apache-2.0 */
/* Former names of keys: they mean what the new ones mean, give a warning each, and can be replaced. */
#include "config/fix.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/aliases.h"
#include "config/config.h"
#include "suite.h"

#define MAIN "interface lo { }\nlistener a { port = 1 }\n"

static char text[4000];
static struct sl_err err = {text, sizeof(text)};

static const struct {
	const char *old, *now;
	unsigned warnings;
} cases[] = {
	{"workers { spin = 20us }", "workers { busy_poll = 20us }", 1},
	{"pool p { fair = none backend a { endpoint = \"shm:///a\" } } route / { pool = p }",
	 "pool p { fair_by = none backend a { endpoint = \"shm:///a\" } } route / { pool = p }", 1},
	{"pool p { batch { bound = 5ms bound_mode = hard eta = 0.5 }\n"
	 "backend a { endpoint = \"rdma://10.0.0.1:7\" first = \"rdma+ud://10.0.0.1:7\" } }\n"
	 "route / { pool = p idle = 1s max_duration = 2s path = raw }",
	 "pool p { batch { max_latency = 5ms on_overload = hard slack_use = 0.5 }\n"
	 "backend a { endpoint = \"rdma://10.0.0.1:7\" bootstrap = \"rdma+ud://10.0.0.1:7\" } }\n"
	 "route / { pool = p stream_idle_timeout = 1s stream_timeout = 2s request_path = raw }",
	 7},
	{"route / { reply = 403 body = \"no {\" type = text/html }",
	 "route / { respond { status = 403 body = \"no {\" content_type = text/html } }", 3},
	{"route / {\n\tmethods = {GET} # these\n\treply = 403\n\tbody = 'no'\n}",
	 "route / {\n\tmethods = {GET} # these\n\trespond { status = 403 body = 'no' }\n}", 2},
	{"route / { redirect = \"https://a/\" reply = 302 }",
	 "route / { redirect = \"https://a/\" respond { status = 302 } }", 1},
	{"route / { reply = 200 respond { body = x } }",
	 "route / { respond { body = x status = 200 } }", 1},
	{"limits { keepalive = 5s }", "tcp { keepalive = 5s }", 1},
	{"limits { newreno = yes keepalive = 5s rst_closed_ports = yes } # end",
	 "tcp { keepalive = 5s rst_closed_ports = yes } # end", 3},
	{"limits {\n\t# all\n\tmax_head = 16k\n\tframe_memory = 64m /* big */\n\treorder_memory = 1m\n}",
	 "limits {\n\t# all\n\tmax_head = 16k\n\t/* big */\n}\nmemory { frames = 64m reorder = 1m }",
	 2},
	{"  limits { path = refuse max_promoted = 3 frame_memory = 64m }",
	 "  limits { max_rc_qps = 3 }\n  memory { frames = 64m }\n  request_path = refuse", 3},
	{"tcp { server_ports = 20000-29999 }\nlimits { keepalive = 5s }\nroute / { respond { } }",
	 "tcp { server_ports = 20000-29999 keepalive = 5s }\nroute / { respond { } }", 1},
	{"tcp { congestion = newreno keepalive = 5s }", "tcp { keepalive = 5s }", 1},
	{"limits { max_per_address = 17 }", "limits { address_connections = 17 }", 1},
	{"limits { max_per_address = 0 address_connections = 0.25 }",
	 "limits { address_connections = 0.25 }", 1},
};

static const char *fix(const char *from, char *to, size_t len)
{
	struct sl_strbuf out;

	sl_strbuf_fixed(&out, to, len);
	ck_assert_msg(sl_config_fix(from, "t.conf", &out, &err) == 0, "%s", err.text);
	return to;
}

static void count_line(void *arg, const char *line)
{
	ck_assert_msg(strncmp(line, "t.conf:", 7) == 0, "%s", line);
	ck_assert_msg(strstr(line, "\" is now \"") || strstr(line, " no effect "), "%s", line);
	++*(unsigned *)arg;
}

static struct sl_config *parse(const char *from, unsigned warnings)
{
	struct sl_config *c = sl_config_parse(from, "t.conf", &err);
	unsigned cnt = 0;

	ck_assert_msg(c != NULL, "%s\n%s", from, err.text);
	sl_config_each_former_key(c, count_line, &cnt);
	ck_assert_uint_eq(cnt, warnings);
	return c;
}

static void differs(void *arg, const char *key)
{
	ck_assert_msg(false, "%s: %s", (const char *)arg, key);
}

TEST_EACH(a_former_name_is_replaced_where_it_stands, SL_ARRAY_LEN(cases))
{
	char once[2000], twice[2000];

	ck_assert_str_eq(fix(cases[_i].old, once, sizeof(once)), cases[_i].now);
	ck_assert_str_eq(fix(once, twice, sizeof(twice)), once);
}

TEST_EACH(a_former_name_means_the_same_and_gives_a_warning, SL_ARRAY_LEN(cases))
{
	char old[2000], now[2000];
	struct sl_config *a, *b;

	snprintf(old, sizeof(old), MAIN "%s", cases[_i].old);
	snprintf(now, sizeof(now), MAIN "%s", cases[_i].now);
	a = parse(old, cases[_i].warnings);
	b = parse(now, 0);
	sl_config_diff(a, b, true, differs, now);
	sl_config_diff(a, b, false, differs, now);
	ck_assert_uint_eq(a->setting_cnt, b->setting_cnt);
	sl_config_free(a);
	sl_config_free(b);
}

TEST(a_warning_names_line_and_both_names)
{
	struct sl_config *c = parse(MAIN "# a comment\nlimits { keepalive = 5s }", 1);

	ck_assert_int_eq(c->former_keys[0].line, 4);
	ck_assert_str_eq(c->former_keys[0].name, "limits.keepalive");
	ck_assert_str_eq(c->former_keys[0].now, "tcp.keepalive");
	sl_config_free(c);
}

static const struct {
	const char *text, *line;
} wrong[] = {
	{"limits { keepalive = 5s }\ntcp { keepalive = 6s }",
	 "t.conf:2: found both keepalive and its former name; allowed: keepalive alone"},
	{"route / { respond { status = 200 } reply = 201 }",
	 "t.conf:1: found both status and its former name; allowed: status alone"},
	{"limits { max_per_address = 5\naddress_connections = 0.5 }",
	 "t.conf:2: found both address_connections and its former name; allowed: "},
	{"workers { spin = 5us spin = 6us }", "t.conf:1: found a second spin; allowed: one"},
	{"limits { max_per_address = 1 }",
	 "t.conf:1: found max_per_address = \"1\"; allowed: 0, or"},
	{"limits { address_connections = 4000001 }",
	 "t.conf:1: found address_connections = \"4000001\"; allowed: a share from 0 to 1, or"},
	{"limits { address_connections = 1.5 }",
	 "t.conf:1: found address_connections = \"1.5\"; allowed: a share from 0 to 1, or"},
	{"workers { spin = 5parsec }", "t.conf:1: found spin = \"5parsec\"; allowed: auto, or"},
};

TEST_EACH(a_key_by_two_names_or_with_a_wrong_value_is_an_error, SL_ARRAY_LEN(wrong))
{
	ck_assert_ptr_null(sl_config_parse(wrong[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, wrong[_i].line, strlen(wrong[_i].line)) == 0, "%s",
		      err.text);
}

TEST(each_alias_leads_to_a_key_of_another_name)
{
	const struct conf_alias *a;

	for (size_t i = 0; (a = conf_alias_at(i)); i++) {
		if (a->new_name)
			ck_assert_msg(conf_key_find(a->new_block, a->new_name) >= 0, "%s",
				      a->new_name);
		ck_assert_msg(conf_key_find(a->block, a->name) < 0, "%s", a->name);
	}
}

/* No statement is lost where text cannot be taken apart, or a value has no equivalent. */
TEST(text_that_cannot_be_fixed_gives_an_error)
{
	static const char *const bad[] = {"limits {",
					  "limits { keepalive = }",
					  "}",
					  "a = \"b",
					  "limits { max_per_address = 1 }",
					  "limits { max_per_address = ${A:-17} }"};

	for (size_t i = 0; i < SL_ARRAY_LEN(bad); i++) {
		struct sl_strbuf out;
		char buf[200];

		sl_strbuf_fixed(&out, buf, sizeof(buf));
		ck_assert_int_eq(sl_config_fix(bad[i], "t.conf", &out, &err), -1);
		ck_assert_msg(strncmp(err.text, "t.conf:1: found ", 16) == 0, "%s", err.text);
	}
}

TEST(text_without_former_names_is_unchanged)
{
	static const char same[] =
		"# c\ninclude = {a, \"b\"}\npool p { /* } */ batch { max_latency = 1s } }\n"
		"unknown { keepalive = 1 }\r\n\troute \"/\" { pool = p }";
	char to[500];

	ck_assert_str_eq(fix(same, to, sizeof(to)), same);
}

/* libconfuse counts comments as lines of their own. */
TEST(comments_do_not_move_lines)
{
	ck_assert_ptr_null(
		sl_config_parse("# a\n// b\n/* c\n */ # d\nlog_level = loud", "t.conf", &err));
	ck_assert_msg(strncmp(err.text, "t.conf:5: found log_level", 25) == 0, "%s", err.text);
}
