/* SPDX-License-Identifier: Apache-2.0 */
/* Files that include others: their order, their lines in mistakes, and what is refused. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "config/config.h"
#include "suite.h"

static char folder[64], path[200];
static char text[SL_CFG_ERR_LEN];
static struct sl_err err = {text, sizeof(text)};

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *content)
{
	FILE *f = fopen(at(name), "we");

	ck_assert_ptr_nonnull(f);
	fputs(content, f);
	fclose(f);
	chmod(path, 0644);
}

static void set_up(void)
{
	strcpy(folder, "/tmp/sl-include-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	mkdir(at("conf.d"), 0755);
}

static void tear_down(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static void refused(const char *expected, ...) __attribute__((format(printf, 1, 2)));
static void refused(const char *expected, ...)
{
	struct sl_config *c = sl_config_load(at("main.conf"), &err);
	char line[1000];
	va_list ap;

	va_start(ap, expected);
	vsnprintf(line, sizeof(line), expected, ap);
	va_end(ap);
	ck_assert_msg(!c, "accepted, not %s", line);
	ck_assert_msg(strncmp(text, line, strlen(line)) == 0, "\nexpected: %s\nfound:    %s", line,
		      text);
	ck_assert_msg(!strchr(text, '\n'), "one mistake, several lines:\n%s", text);
}

static struct sl_config *accepted(void)
{
	struct sl_config *c = sl_config_load(at("main.conf"), &err);

	ck_assert_msg(c != NULL, "%s", text);
	return c;
}

#define MAIN "user = root\ninterface lo { }\nlistener a { port = 1 }\n"

TEST(files_are_read_in_place_and_in_order)
{
	static const uint16_t in_order[] = {201, 202, 203, 204, 205};
	struct sl_config *c;
	int routes = 0;

	set_up();
	put("main.conf", MAIN
	    "route /1 { respond { status = 201 } header = \"a: 1\" } include = \"conf.d/*.conf\" "
	    "route /5 { respond { status = 205 } } include = {conf.d/none*.x, \"one.inc\"}");
	put("conf.d/b.conf", "route /4 { respond { status = 204 } }");
	put("conf.d/a.conf", "route /2 { respond { status = 202 } }\ninclude = '../other'");
	put("conf.d/a.conf~", "nonsense");
	put("other", "route /3 { respond { status = 203 } }\n# no newline at the end");
	put("one.inc", "log_level = warn");
	c = accepted();
	ck_assert_uint_eq(c->route_cnt, 5);
	for (uint32_t i = 0; i < c->route_cnt; i++) {
		const struct sl_cfg_route *r = &c->routes[i];

		ck_assert_uint_eq(r->reply_status, in_order[r->prefix[1] - '1']);
		for (uint32_t k = 0; k < c->route_cnt; k++)
			ck_assert_int_eq(r->line < c->routes[k].line,
					 r->prefix[1] < c->routes[k].prefix[1]);
		routes++;
	}
	ck_assert_int_eq(routes, 5);
	ck_assert_int_eq(c->log_level, 1);
	sl_config_free(c);
	tear_down();
}

TEST(a_mistake_names_its_file_and_line)
{
	static const struct {
		const char *main, *a, *line;
	} wrong[] = {
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }",
		 "\n\nlog_level = loud", "conf.d/a.conf:3: found log_level = \"loud\""},
		{MAIN "include = conf.d/a.conf\n\nroute / { respond { status = 99 } }",
		 "log_level = info\n\n\n", "main.conf:6: found status = \"99\""},
		{"include = conf.d/a.conf " MAIN "route / { respond { status = 99 } }", "\n\n\n",
		 "main.conf:4: found status = \"99\""},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }",
		 "\nrout / { }",
		 "conf.d/a.conf:2: found unknown key \"rout\" (did you mean route?)"},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }",
		 "\nlistener b {\nport = 2", "conf.d/a.conf:2: found { without its }"},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }", "}",
		 "conf.d/a.conf:1: found } without its {"},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 body = \"x\" } }",
		 "\nuser = \"a", "conf.d/a.conf:2: found a text without its closing quote"},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }",
		 "\nroute /x {\nreply 5 }", "conf.d/a.conf:3: found reply without a value"},
		{MAIN
		 "route / { respond { status = 200 } methods = {GET} } include = conf.d/a.conf",
		 "\nroute / { respond { status = 200 } methods = {GET} }",
		 "conf.d/a.conf:2: found a second route \"/\" with a method of that on "},
		{MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } pool = x }",
		 "pool x { backend b { endpoint = \"shm:///b\" } }",
		 "main.conf:5: found route \"/\" with pool and respond"},
		{MAIN "\ninclude = none.conf", "", "main.conf:5: found include of \""},
		{MAIN "\ninclude = conf.d", "", "main.conf:5: found include of \""},
		{MAIN "include = \"\"", "", "main.conf:4: found include = \"\"; allowed: "},
		{MAIN "include = ${SL_TEST_UNSET}", "",
		 "main.conf:4: found ${SL_TEST_UNSET}, which"},
		{MAIN "include conf.d/a.conf;", "", "main.conf:4: found include without a value"},
	};

	set_up();
	for (size_t i = 0; i < SL_ARRAY_LEN(wrong); i++) {
		put("main.conf", wrong[i].main);
		put("conf.d/a.conf", wrong[i].a);
		refused("%s/%s", folder, wrong[i].line);
		ck_assert_ptr_nonnull(strstr(text, "; allowed: "));
	}
	tear_down();
}

TEST(a_mistake_of_the_host_names_the_included_file)
{
	struct sl_config *c;
	char line[200];

	set_up();
	put("main.conf", MAIN "include = conf.d/a.conf\nroute / { respond { status = 200 } }");
	put("conf.d/a.conf", "\ninterface nosuch0 { }");
	c = accepted();
	ck_assert_int_eq(sl_config_check_system(c, &err), -1);
	snprintf(line, sizeof(line), "%s/conf.d/a.conf:2: found no interface \"nosuch0\"", folder);
	ck_assert_msg(strncmp(text, line, strlen(line)) == 0, "%s", text);
	sl_config_free(c);
	tear_down();
}

TEST(files_that_include_each_other_are_refused)
{
	char name[32], content[200];

	set_up();
	put("main.conf", MAIN "include = conf.d/a.conf");
	put("conf.d/a.conf", "\ninclude = ../main.conf");
	refused("%s/conf.d/a.conf:2: found include of \"%s/conf.d/../main.conf\" in itself", folder,
		folder);
	put("conf.d/a.conf", "include = a.conf");
	refused("%s/conf.d/a.conf:1: found include of \"%s/conf.d/a.conf\" in itself", folder,
		folder);
	put("main.conf", MAIN "route / { respond { status = 200 } }\ninclude = 1");
	for (int i = 1; i <= 9; i++) {
		snprintf(name, sizeof(name), "%d", i);
		snprintf(content, sizeof(content), "include = %d", i + 1);
		put(name, content);
	}
	put("8", "");
	sl_config_free(accepted());
	put("8", "include = 9");
	put("9", "");
	refused("%s/8:1: found include of \"%s/9\" beyond 8 levels; allowed: fewer", folder,
		folder);
	put("main.conf", MAIN "route / { respond { status = 200 } }\ninclude = 1");
	put("1", "");
	put("1", "include = {2, 2, 2, 2, 2, 2, 2, 2}");
	put("2", "include = {3, 3, 3, 3, 3, 3, 3, 3}");
	put("3", "include = {4, 4, 4, 4, 4, 4, 4, 4}");
	put("4", "");
	refused("%s/1:1: found include of \"%s/2\" beyond 512 files; allowed: fewer", folder,
		folder);
	tear_down();
}

/* An account that can write a file can name backends that get all requests. */
TEST(a_file_of_others_is_refused)
{
	set_up();
	put("main.conf", MAIN "route / { respond { status = 200 } }\ninclude = \"conf.d/*.conf\"");
	put("conf.d/a.conf", "log_level = warn");
	sl_config_free(accepted());
	chmod(at("conf.d/a.conf"), 0664);
	refused("%s/main.conf:5: found include of \"%s/conf.d/a.conf\": a file that its group may "
		"write (mode 664); allowed: one that only its owner may write",
		folder, folder);
	chmod(at("conf.d/a.conf"), 0644);
	unsetenv("SUDO_UID");
	if (chown(at("conf.d/a.conf"), 12345, 0) == 0) {
		refused("%s/main.conf:5: found include of \"%s/conf.d/a.conf\": a file of account "
			"12345; allowed: one of root's",
			folder, folder);
		sl_config_free(sl_config_load_offline(at("main.conf"), &err));
		setenv("SUDO_UID", "12345", 1);
		sl_config_free(accepted());
		setenv("SUDO_UID", "12346", 1);
		ck_assert_ptr_null(sl_config_load(at("main.conf"), &err));
		unsetenv("SUDO_UID");
	}
	unlink(at("conf.d/a.conf"));
	mkfifo(at("conf.d/a.conf"), 0600);
	refused("%s/main.conf:5: found include of \"%s/conf.d/a.conf\": a FIFO; allowed: a regular",
		folder, folder);
	chmod(at("main.conf"), 0646);
	refused("%s/main.conf:0: found a file that others may write (mode 646); allowed: one that",
		folder);
	unlink(at("main.conf"));
	mkfifo(at("main.conf"), 0600);
	refused("%s/main.conf:0: found a FIFO; allowed: a regular file", folder);
	tear_down();
	ck_assert_ptr_null(sl_config_load("/dev/zero", &err));
	ck_assert_str_eq(text, "/dev/zero:0: found a device; allowed: a regular file");
	ck_assert_ptr_null(sl_config_load("/tmp", &err));
	ck_assert_str_eq(text, "/tmp:0: found a folder; allowed: a regular file");
}

/* In a pipeline there is neither the interface nor the account. */
TEST(a_file_is_checked_without_its_host)
{
	struct sl_config *c;

	set_up();
	put("main.conf", "user = nosuchuser\ninterface nosuch0 { }\nlistener a { port = 1\n"
			 "tls { certificate = /none key = /none } }\nroute / { pool = p }\n"
			 "pool p { backend b { endpoint = \"shm:///b\" owner = nosuchuser } }\n"
			 "admin { group = nosuchgroup token_file = /none }");
	chmod(path, 0666);
	c = sl_config_load_offline(at("main.conf"), &err);
	ck_assert_msg(c != NULL, "%s", text);
	sl_config_free(c);
	put("main.conf", "interface nosuch0 { }\nlistener a { port = 0 }\nroute / { }");
	ck_assert_ptr_null(sl_config_load_offline(at("main.conf"), &err));
	ck_assert_ptr_null(strstr(text, "nosuch0"));
	ck_assert_ptr_nonnull(strstr(text, "main.conf:2: found port = \"0\""));
	ck_assert_ptr_nonnull(strstr(text, "main.conf:3: found route"));
	tear_down();
}
