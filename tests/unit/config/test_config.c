/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: values into the struct, and each error with its text and line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "config/config.h"
#include "sluice/types.h"
#include "suite.h"

static const char full[] =
	"user = nobody\n"
	"log_level = debug\n"
	"descriptor_sets = {\"/a.pb\", \"/b.pb\"}\n"
	"interface eth0 { queues = {0, 3} mode = generic zero_copy = no ring_size = 512 }\n"
	"interface eth1 { vlan = 7 allow = {10.0.0.0/8, fd00::/8} deny = {10.1.2.3} }\n"
	"workers { count = 2 cpus = {1, 0} busy_poll = 20us }\n"
	"listener web { address = \"10.99.0.1\" port = 8080 protocols = {http, datagram} }\n"
	"listener six { address = \"fd99::1\" port = 8080 }\n"
	"listener any { port = 81 }\n"
	"route /score { pool = score methods = {GET, POST} deadline = 1s priority = bulk\n"
	"  idempotent = yes strip_prefix = no forward_headers = {X-A, x-b} policy = aimd\n"
	"  deadline_header = X-Deadline max_body = 1k max_reply_fields = 9 datagram_service = 7\n"
	"  stream = yes upgrade = {WebSocket, raw} max_rate = 64k upgrade_timeout = 3s\n"
	"  continue = backend }\n"
	"route / { respond { status = 200 body = \"hello\\n\" content_type = text/html } }\n"
	"pool score {\n"
	"  backend a { endpoint = \"shm:///run/a.sock\" }\n"
	"  backend b { endpoint = \"rdma://[fd99::7]:4420\" fallback = \"tcp://node-7.example:4420\"\n"
	"              bootstrap = \"rdma+ud://[fd99::7]:4420\" key_file = /etc/key owner = nobody }\n"
	"  batch { policy = fixed size = 16 delay = 2ms max_latency = 5ms on_overload = hard max_size = "
	"32 slack_use = 0.25 }\n"
	"  max_queue = 77 max_body = 2m max_reply_head = 8k fair_by = header fair_header = X-Client\n"
	"}\n"
	"pool plain { backend a { endpoint = \"shm:///run/p.sock\" } }\n"
	"pool sites { backend a { endpoint = \"http://[::1]:8000\" host = \"site.example:8\" } }\n"
	"limits { max_connections = 1000 frame_memory = 64m max_body = 8m\n"
	"  drain_timeout = 3s }\n"
	"admin { address = \"::1\" port = 99 owner = nobody group = daemon group_role = operate\n"
	"  token_file = /etc/token hosts = {gate.example, \"gate:80\"} }\n";

static struct sl_err err = SL_ERR(4096);

static struct sl_config *parse_ok(const char *text)
{
	struct sl_config *c = sl_config_parse(text, "t.conf", &err);

	ck_assert_msg(c != NULL, "%s", err.text);
	return c;
}

TEST(fills_the_struct)
{
	struct sl_config *c = parse_ok(full);
	uint8_t v4[16] = {10, 99, 0, 1};
	uint8_t v6[16] = {0xfd, 0x99, [15] = 1};

	ck_assert_str_eq(c->file, "t.conf");
	ck_assert_str_eq(c->user, "nobody");
	ck_assert_uint_eq(c->log_level, SL_LOG_DEBUG);
	ck_assert_uint_eq(c->descriptor_set_cnt, 2);
	ck_assert_str_eq(c->descriptor_sets[1], "/b.pb");
	ck_assert_uint_eq(c->interface_cnt, 2);
	ck_assert_str_eq(c->interfaces[0].name, "eth0");
	ck_assert_uint_eq(c->interfaces[0].queue_cnt, 2);
	ck_assert_uint_eq(c->interfaces[0].queues[1], 3);
	ck_assert_uint_eq(c->interfaces[0].mode, SL_ATTACH_GENERIC);
	ck_assert(!c->interfaces[0].zero_copy);
	ck_assert_uint_eq(c->interfaces[0].ring_size, 512);
	ck_assert_uint_eq(c->interfaces[1].mode, SL_ATTACH_AUTO);
	ck_assert(c->interfaces[1].zero_copy);
	ck_assert_uint_eq(c->interfaces[1].queue_cnt, 0);
	ck_assert_int_eq(c->interfaces[1].line, 5);
	ck_assert_uint_eq(c->interfaces[0].vlan, SL_VLAN_NONE);
	ck_assert_uint_eq(c->interfaces[0].prefixes.cnt, 0);
	ck_assert_uint_eq(c->interfaces[1].vlan, 7);
	ck_assert_uint_eq(c->interfaces[1].prefixes.cnt, 3);
	ck_assert_uint_eq(c->interfaces[1].allow_cnt, 2);
	ck_assert_uint_eq(c->interfaces[1].prefixes.list[0].of.len, 8);
	ck_assert(!c->interfaces[1].prefixes.list[0].deny);
	ck_assert_uint_eq(c->interfaces[1].prefixes.list[1].of.family, 6);
	ck_assert_uint_eq(c->interfaces[1].prefixes.list[2].of.len, 32);
	ck_assert(c->interfaces[1].prefixes.list[2].deny);
	ck_assert_uint_eq(c->interfaces[1].prefixes.list[2].of.addr[3], 3);
	ck_assert_uint_eq(c->worker_cnt, 2);
	ck_assert_int_eq(c->cpus[0], 1);
	ck_assert_int_eq(c->cpus[1], 0);
	ck_assert_int_eq(c->cpus[2], -1);
	ck_assert_uint_eq(c->spin_ns, 20000);
	ck_assert_uint_eq(c->listener_cnt, 3);
	ck_assert_str_eq(c->listeners[0].name, "web");
	ck_assert_mem_eq(c->listeners[0].at.addr, v4, 16);
	ck_assert_uint_eq(c->listeners[0].at.family, 4);
	ck_assert_uint_eq(be16toh(c->listeners[0].at.port_be), 8080);
	ck_assert(c->listeners[0].http && c->listeners[0].datagram);
	ck_assert_mem_eq(c->listeners[1].at.addr, v6, 16);
	ck_assert_uint_eq(c->listeners[1].at.family, 6);
	ck_assert(c->listeners[1].http && !c->listeners[1].datagram);
	ck_assert_uint_eq(c->listeners[2].at.family, 0);
	ck_assert_str_eq(c->admin.address, "::1");
	ck_assert_uint_eq(c->admin.port, 99);
	ck_assert_str_eq(c->admin.socket, "auto");
	ck_assert_str_eq(c->admin.owner, "nobody");
	ck_assert_str_eq(c->admin.group, "daemon");
	ck_assert_uint_eq(c->admin.group_role, SL_ADMIN_OPERATE);
	ck_assert_str_eq(c->admin.token_file, "/etc/token");
	ck_assert_uint_eq(c->admin.host_cnt, 2);
	ck_assert_str_eq(c->admin.hosts[1], "gate:80");
	ck_assert_uint_eq(c->limits.max_connections, 1000);
	ck_assert_uint_eq(c->limits.max_body, 8 << 20);
	ck_assert_uint_eq(c->limits.drain_timeout_ns, 3000000000u);
	sl_config_free(c);
}

static char *many_backends(unsigned cnt, unsigned workers, const char *inside)
{
	char *text = malloc(100 + cnt * 60UL);
	int len = sprintf(text, "pool p { %s\n", inside);

	for (unsigned i = 0; i < cnt; i++)
		len += sprintf(text + len, "backend b%u { endpoint = \"shm:///b\" }\n", i);
	sprintf(text + len, "}\nworkers { count = %u }\n", workers);
	return text;
}

TEST(each_worker_uses_so_many_backends)
{
	static const struct {
		unsigned backends, workers;
		const char *inside;
		unsigned subset;
	} pools[] = {
		{3, 1, "", 3},
		{3, 2, "subset = 2", 2},
		{3, 2, "subset = 1000", 3},
		{256, 16, "", 256},
		{257, 16, "", 256},
		{1024, 16, "", 256},
		{1024, 16, "subset = auto", 256},
		{1024, 16, "subset = 64", 64},
		{1000, 3, "", 334},
		{1024, 1, "", 1024},
	};

	for (unsigned i = 0; i < SL_ARRAY_LEN(pools); i++) {
		char *text = many_backends(pools[i].backends, pools[i].workers, pools[i].inside);
		struct sl_config *c = parse_ok(text);

		ck_assert_uint_eq(c->pools[0].subset, pools[i].subset);
		sl_config_free(c);
		free(text);
	}
}

TEST(fills_pools_and_routes)
{
	struct sl_config *c = parse_ok(full);
	const struct sl_cfg_pool *p = &c->pools[0];
	const struct sl_cfg_route *r = &c->routes[0];

	ck_assert_uint_eq(c->pool_cnt, 3);
	ck_assert_ptr_null(p->backends[0].host);
	ck_assert_str_eq(c->pools[2].backends[0].host, "site.example:8");
	ck_assert_str_eq(p->name, "score");
	ck_assert_uint_eq(p->backend_cnt, 2);
	ck_assert_str_eq(p->backends[0].endpoint, "shm:///run/a.sock");
	ck_assert_ptr_null(p->backends[0].fallback);
	ck_assert_ptr_null(p->backends[0].first);
	ck_assert_str_eq(p->backends[1].first, "rdma+ud://[fd99::7]:4420");
	ck_assert_str_eq(p->backends[1].endpoint, "rdma://[fd99::7]:4420");
	ck_assert_str_eq(p->backends[1].fallback, "tcp://node-7.example:4420");
	ck_assert_str_eq(p->backends[1].key_file, "/etc/key");
	ck_assert_uint_eq(p->backends[0].owner, 0);
	ck_assert_uint_eq(p->backends[1].owner, 65534);
	ck_assert_uint_eq(p->batch.policy, SL_POLICY_FIXED);
	ck_assert_uint_eq(p->batch.size, 16);
	ck_assert_uint_eq(p->batch.delay_ns, 2000000);
	ck_assert_uint_eq(p->batch.bound_ns, 5000000);
	ck_assert_uint_eq(p->batch.bound_mode, SL_BOUND_HARD);
	ck_assert_uint_eq(p->batch.max_size, 32);
	ck_assert_double_eq(p->batch.eta, 0.25);
	ck_assert_uint_eq(p->max_queue, 77);
	ck_assert_uint_eq(p->max_body, 2 << 20);
	ck_assert_uint_eq(p->max_reply_head, 8 << 10);
	ck_assert_uint_eq(p->max_reply_fields, 256);
	ck_assert_uint_eq(p->fair, SL_FAIR_HEADER);
	ck_assert_str_eq(p->fair_header, "x-client");
	/* The second pool has a batch block though none is written. */
	ck_assert_uint_eq(c->pools[1].batch.policy, SL_POLICY_ADAPTIVE);
	ck_assert_uint_eq(c->pools[1].batch.max_size, 256);
	ck_assert_uint_eq(c->pools[1].batch.bound_mode, SL_BOUND_SOFT);
	ck_assert_uint_eq(c->pools[1].max_queue, 4096);
	/* Longest prefix first. */
	ck_assert_uint_eq(c->route_cnt, 2);
	ck_assert_str_eq(r->prefix, "/score");
	ck_assert_uint_eq(r->prefix_len, 6);
	ck_assert_int_eq(r->pool, 0);
	ck_assert_uint_eq(r->methods, 1u << 1 | 1u << 3);
	ck_assert_uint_eq(r->deadline_ns, 1000000000);
	ck_assert_str_eq(r->deadline_header, "x-deadline");
	ck_assert_uint_eq(r->max_body, 1024);
	ck_assert_uint_eq(r->max_reply_head, 0);
	ck_assert_uint_eq(r->max_reply_fields, 9);
	ck_assert_int_eq(r->priority, SL_CLASS_BULK);
	ck_assert_int_eq(r->idempotent, 1);
	ck_assert(!r->strip_prefix);
	ck_assert_uint_eq(r->forward_header_cnt, 2);
	ck_assert_str_eq(r->forward_headers[0], "x-a");
	ck_assert_str_eq(r->forward_headers[1], "x-b");
	ck_assert_uint_eq(r->max_rate, 64 << 10);
	ck_assert(r->backend_continues);
	ck_assert_uint_eq(r->upgrade_timeout_ns, 3000000000);
	ck_assert_uint_eq(r->upgrade_cnt, 2);
	ck_assert_str_eq(r->upgrades[0], "websocket");
	ck_assert_str_eq(r->upgrades[1], "raw");
	ck_assert_int_eq(r->policy, SL_POLICY_AIMD);
	ck_assert_uint_eq(r->datagram_service, 7);
	ck_assert_int_eq(r->line, 10);
	r = &c->routes[1];
	ck_assert_int_eq(r->pool, -1);
	ck_assert_uint_eq(r->reply_status, 200);
	ck_assert_str_eq(r->reply_body, "hello\n");
	ck_assert_uint_eq(r->reply_body_len, 6);
	ck_assert_str_eq(r->reply_type, "text/html");
	ck_assert_int_eq(r->priority, SL_CLASS_NORMAL);
	ck_assert_int_eq(r->idempotent, -1);
	ck_assert_int_eq(r->policy, -1);
	ck_assert(r->strip_prefix);
	sl_config_free(c);
}

TEST(routes_name_hosts)
{
	struct sl_config *c = parse_ok(
		"route / { respond { status = 200 } host = {\"Api.Example.com\", \"*.x.org\", "
		"\"[::1]\"} }\n"
		"route / { respond { status = 201 } host = \"b.example.com\" }\n"
		"route / { respond { status = 202 } }\n");

	for (uint32_t i = 0; i < c->route_cnt; i++) {
		const struct sl_cfg_route *r = &c->routes[i];

		ck_assert_uint_eq(r->host_cnt, r->reply_status == 200 ? 3 : r->reply_status == 201);
		if (r->reply_status != 200)
			continue;
		ck_assert_str_eq(r->hosts[0], "api.example.com");
		ck_assert_str_eq(r->hosts[1], "*.x.org");
		ck_assert_str_eq(r->hosts[2], "[::1]");
	}
	sl_config_free(c);
}

/* They may come behind the route. */
TEST(routes_name_listeners_and_a_header)
{
	struct sl_config *c = parse_ok(
		"listener a { port = 1 }\n"
		"route / { respond { status = 200 } listener = {c, a} header = \"X-Canary:  Yes, \tplease\" }\n"
		"route / { respond { status = 201 } listener = b }\nroute / { respond { status = 202 } }\n"
		"route / { respond { status = 203 } header = \"x-canary: no\" }\n"
		"listener b { port = 2 } listener c { port = 3 }\n");

	ck_assert_uint_eq(c->route_cnt, 4);
	for (uint32_t i = 0; i < c->route_cnt; i++) {
		const struct sl_cfg_route *r = &c->routes[i];

		ck_assert_uint_eq(r->listener_cnt,
				  r->reply_status == 200 ? 2 : r->reply_status == 201);
		if (r->reply_status == 200) {
			ck_assert_uint_eq(r->listeners[0], 2);
			ck_assert_uint_eq(r->listeners[1], 0);
			ck_assert_str_eq(r->header, "x-canary");
			ck_assert_str_eq(r->header_value, "Yes, \tplease");
		} else if (r->reply_status != 203) {
			ck_assert_ptr_null(r->header);
		}
	}
	sl_config_free(c);
}

TEST(names_the_admin_socket)
{
	static const struct {
		const char *text, *path, *in_netns;
	} tests[] = {
		{"", "/run/sluice/local.sock", "/run/sluice/local@"},
		{"interface eth0 { } interface eth1 { }", "/run/sluice/eth0.sock",
		 "/run/sluice/eth0@"},
		{"interface eth0 { } admin { socket = none }", "", ""},
		{"interface eth0 { } admin { socket = \"/x/y\" }", "/x/y", NULL},
	};
	char path[108];

	for (size_t i = 0; i < SL_ARRAY_LEN(tests); i++) {
		struct sl_config *c = parse_ok(tests[i].text);
		const char *want = tests[i].in_netns;

		ck_assert_int_eq(sl_config_admin_socket(c, false, path), tests[i].path[0] != 0);
		ck_assert_str_eq(path, tests[i].path);
		ck_assert_int_eq(sl_config_admin_socket(c, true, path), want && want[0]);
		ck_assert_msg(!want || strncmp(path, want, strlen(want)) == 0, "%s", path);
		sl_config_free(c);
	}
}

TEST(omitted_keys_have_their_defaults)
{
	struct sl_config *c = parse_ok("");

	ck_assert_uint_eq(c->worker_cnt, 1);
	ck_assert_int_eq(c->cpus[0], -1);
	ck_assert_uint_eq(c->log_level, SL_LOG_INFO);
	ck_assert_str_eq(c->admin.address, "127.0.0.1");
	ck_assert_uint_eq(c->admin.port, 9900);
	ck_assert_uint_eq(c->limits.max_exchanges, 16384);
	ck_assert_uint_eq(c->limits.max_promoted, 32);
	ck_assert_uint_eq(c->limits.idle_timeout_ns, 60000000000u);
	ck_assert_str_eq(c->user, "sluice");
	sl_config_free(c);
}

TEST(braces_in_text_and_comments_are_none)
{
	struct sl_config *c =
		parse_ok("# {\nuser = \"a{\\\"{\" // {\n/* { */ log_level = 'warn' # {");

	ck_assert_str_eq(c->user, "a{\"{");
	sl_config_free(c);
}

static const struct {
	const char *text, *user;
} variables[] = {
	{"user = ${SL_TEST_SET}", "value"},
	{"user = \"a ${SL_TEST_SET}.${SL_TEST_SET}\"", "a value.value"},
	{"user = ${SL_TEST_UNSET:-other}", "other"},
	{"user = \"${SL_TEST_UNSET:-}x\"", "x"},
	{"user = \"${SL_TEST_SET:-x}\"", "value"},
	{"user = \"${SL_TEST_UNSET:-a\"b}\"", "a\"b"},
	{"user = '${SL_TEST_UNSET} ${'", "${SL_TEST_UNSET} ${"},
	{"user = \"\\${SL_TEST_UNSET} $ {\"", "${SL_TEST_UNSET} $ {"},
	{"# ${SL_TEST_UNSET}\nuser = a /* ${ */", "a"},
};

TEST_EACH(a_value_may_be_of_the_environment, SL_ARRAY_LEN(variables))
{
	struct sl_config *c;

	setenv("SL_TEST_SET", "value", 1);
	c = parse_ok(variables[_i].text);
	ck_assert_str_eq(c->user, variables[_i].user);
	sl_config_free(c);
}

TEST(cpus_set_the_number_of_workers)
{
	struct sl_config *c = parse_ok("workers { cpus = {0, 1, 2} }");

	ck_assert_uint_eq(c->worker_cnt, 3);
	sl_config_free(c);
}

/* Each way to be wrong: what stands in the file, and the one line that comes of it. */
static const struct {
	const char *text, *line;
} wrong[] = {
	{"\nlisener web { port = 1 }",
	 "t.conf:2: found unknown key \"lisener\" (did you mean listener?); allowed: user, "},
	{"listener web {\n\nprot = 1\n}",
	 "t.conf:3: found unknown key \"prot\" (did you mean port?); allowed: address, port, socket"},
	{"listener web {\nport = http\n}",
	 "t.conf:2: found port = \"http\"; allowed: a whole number from 1 to 65535"},
	{"listener web {\n\n\nport = 65536 }",
	 "t.conf:4: found port = \"65536\"; allowed: a whole number from 1 to 65535"},
	{"listener web { port = -1 }", "t.conf:1: found port = \"-1\"; allowed: a whole"},
	{"listener web { port = 8x }", "t.conf:1: found port = \"8x\"; allowed: a whole"},
	{"listener web { port = 1\naddress = 10.0.0.256 }",
	 "t.conf:2: found address = \"10.0.0.256\"; allowed: an IPv4 or IPv6 address, or *"},
	{"listener web { port = 1 protocols = {http,\n quic} }",
	 "t.conf:2: found protocols = \"quic\"; allowed: http, datagram"},
	{"listener web { port = 1\nport = 2 }", "t.conf:2: found a second port; allowed: one"},
	{"\n\nlistener web { address = \"*\"\n}",
	 "t.conf:3: found listener \"web\" without port; allowed: listener web { port = ... }"},
	{"listener a { port = 1 socket = \"/x\" }",
	 "t.conf:1: found port and socket in listener \"a\"; allowed: one of them"},
	{"listener a { socket = \"/x\" protocols = datagram }",
	 "t.conf:1: found datagram or an address beside socket in listener \"a\"; allowed: "},
	{"listener a { socket = \"/x\" } listener b { socket = \"/x\" }",
	 "t.conf:1: found listener \"b\" at the address, port and protocol of \"a\"; allowed: one"},
	{"listener a { socket = x }", "t.conf:1: found socket = \"x\"; allowed: an absolute path"},
	{"listener a { socket = \"/x\" mode = 888 }",
	 "t.conf:1: found mode = \"888\"; allowed: an octal number up to 0777"},
	{"listener web { port = 1 }\nlistener web { port = 2 }",
	 "t.conf:2: found the name \"web\" twice; allowed: each once"},
	{"listener web { port = 1 }\nlistener two { port = 1 }",
	 "t.conf:2: found listener \"two\" at the address, port and protocol of \"web\"; allowed: "
	 "one"},
	{"listener { port = 1 }",
	 "t.conf:1: found listener without a name; allowed: NAME before its {"},
	{"listener \"\" { port = 1 }", "t.conf:1: found listener \"\"; allowed: a name"},
	{"interface averyveryverylongname { }",
	 "t.conf:1: found interface \"averyveryverylongname\"; allowed: a name of 1 to 15"},
	{"interface e {\n mode = fast }",
	 "t.conf:2: found mode = \"fast\"; allowed: one of auto, native, generic, adopt"},
	{"interface e { zero_copy = maybe }",
	 "t.conf:1: found zero_copy = \"maybe\"; allowed: yes or no"},
	{"interface e { ring_size = 100 }",
	 "t.conf:1: found ring_size = \"100\"; allowed: a power of two from 64 to 16384"},
	{"interface e { queues = {1, 1} }",
	 "t.conf:1: found queues = \"1\"; allowed: receive queues"},
	{"interface e { queues = {64} }",
	 "t.conf:1: found queues = \"64\"; allowed: receive queues"},
	{"interface e { vlan = 4095 }",
	 "t.conf:1: found vlan = \"4095\"; allowed: none, any, or a number from 1 to 4094"},
	{"interface e { deny = {10.0.0.1/8} }",
	 "t.conf:1: found deny = \"10.0.0.1/8\"; allowed: prefixes like"},
	{"interface e { allow = {10.0.0.0/33} }", "t.conf:1: found allow = \"10.0.0.0/33\"; all"},
	{"interface e { allow = {\"*\"} }", "t.conf:1: found allow = \"*\"; allowed: prefixes"},
	{"interface e { allow = {10.0.0.0/8,\n fd00::/8}\n deny = {fd00::/8} }",
	 "t.conf:3: found a prefix of interface \"e\" that line 2 has; allowed: each once"},
	{"interface e { queues = {1}\n queues = {2} }",
	 "t.conf:2: found a second queues; allowed: one, or +="},
	{"workers { count = 17 }",
	 "t.conf:1: found count = \"17\"; allowed: a whole number from 1 to 16"},
	{"workers { spin = 5 }", "t.conf:1: found spin = \"5\"; allowed: auto, or a duration"},
	{"workers { spin = 5parsec }",
	 "t.conf:1: found spin = \"5parsec\"; allowed: auto, or a duration"},
	{"\nworkers { count = 3 cpus = {0, 1} }",
	 "t.conf:2: found 2 cpus for count = \"3\"; allowed: as many"},
	{"workers { }\nworkers { }", "t.conf:2: found a second workers block; allowed: one"},
	{"limits { max_headers = 125 }",
	 "t.conf:1: found max_headers = \"125\"; allowed: a whole number from 8 to 124"},
	{"limits { max_body = 12q }", "t.conf:1: found max_body = \"12q\"; allowed: "},
	{"limits { max_body = 65m }", "t.conf:1: found max_body = \"65m\"; allowed: "},
	{"limits { frame_memory = 4m\n max_body = 3m }",
	 "t.conf:1: found max_body above half of memory.frames"},
	{"limits { max_head = 1k }", "t.conf:1: found max_target above max_head"},
	{"limits { idle_timeout = 1ns }",
	 "t.conf:1: found idle_timeout = \"1ns\"; allowed: a duration"},
	{"route x { respond { status = 200 } }",
	 "t.conf:1: found route \"x\"; allowed: a path that begins with /"},
	{"route /a?b { respond { status = 200 } }",
	 "t.conf:1: found route \"/a?b\"; allowed: a path"},
	{"route /a%2Fb { respond { status = 200 } }",
	 "t.conf:1: found route \"/a%2Fb\"; allowed: a path"},
	{"route /a%5c { respond { status = 200 } }",
	 "t.conf:1: found route \"/a%5c\"; allowed: a path"},
	{"route /a%00 { respond { status = 200 } }",
	 "t.conf:1: found route \"/a%00\"; allowed: a path"},
	{"route /a% { respond { status = 200 } }",
	 "t.conf:1: found route \"/a%\"; allowed: a path"},
	{"route /a%4g { respond { status = 200 } }",
	 "t.conf:1: found route \"/a%4g\"; allowed: a path"},
	{"route \"**\" { respond { status = 200 } }",
	 "t.conf:1: found route \"**\"; allowed: a path"},
	{"route /%7Ea { respond { status = 200 } }\nroute /~a { respond { status = 201 } }",
	 "t.conf:2: found a second route \"/~a\" without methods; allowed: one, and others with"},
	{"route / { respond { status = 200 } path = plain }",
	 "t.conf:1: found path = \"plain\"; allowed: one of"},
	{"route /a { respond { status = 200 } }\nroute /a { respond { status = 201 } }",
	 "t.conf:2: found a second route \"/a\" without methods; allowed: one, and others with"},
	{"route /a { respond { status = 200 } methods = {GET, PUT} }\nroute /b { respond { status = 200 } }\n"
	 "route /a { respond { status = 201 } methods = {POST, PUT} }",
	 "t.conf:3: found a second route \"/a\" with a method of that on line 1; allowed: each"},
	{"route / { respond { status = 200 } host = \"*\" }",
	 "t.conf:1: found host = \"*\"; allowed: up to 64"},
	{"route / { respond { status = 200 } host = \"a..b\" }",
	 "t.conf:1: found host = \"a..b\"; allowed: up"},
	{"route / { respond { status = 200 } host = \"a.b:80\" }",
	 "t.conf:1: found host = \"a.b:80\"; allowed"},
	{"route / { respond { status = 200 } host = \"*.*.b\" }",
	 "t.conf:1: found host = \"*.*.b\"; allowed: "},
	{"route / { respond { status = 200 } host = \"a.b.\" }",
	 "t.conf:1: found host = \"a.b.\"; allowed: up"},
	{"route / { respond { status = 200 } host = {\"a.b\", \"c.d\"} }\n"
	 "route / { respond { status = 201 } host = {\"e.f\", \"C.D\"} }",
	 "t.conf:2: found a second route \"/\" without methods; allowed: one, and others with"},
	{"listener a { port = 1 }\nroute / { respond { status = 200 } listener = {a}\nlistener += {b} }",
	 "t.conf:3: found listener = \"b\"; allowed: a"},
	{"listener a { port = 1 } listener b { port = 2 } route / { respond { status = 200 } listener = c }",
	 "t.conf:1: found listener = \"c\"; allowed: a, b"},
	{"route / { respond { status = 200 } listener = c }",
	 "t.conf:1: found listener = \"c\"; allowed: none, there is no listener block"},
	{"listener a { port = 1 }\nroute / { respond { status = 200 } listener = a }\n"
	 "route / { respond { status = 201 } } route / { respond { status = 202 } listener = a }",
	 "t.conf:3: found a second route \"/\" without methods; allowed: one, and others with "
	 "methods, or another host, listener or header"},
	{"route / { respond { status = 200 } header = \"a: b\" }\nroute / { respond { status = 201 } header = \"A:b\" }",
	 "t.conf:2: found a second route \"/\" without methods; allowed: one, and others with"},
	{"route / { respond { status = 200 } header = \"a\" }",
	 "t.conf:1: found header = \"a\"; allowed: a t"},
	{"route / { respond { status = 200 } header = \"a:\" }",
	 "t.conf:1: found header = \"a:\"; allowed: "},
	{"route / { respond { status = 200 } header = \": b\" }",
	 "t.conf:1: found header = \": b\"; allowed"},
	{"route / { respond { status = 200 } header = \"a: b \" }",
	 "t.conf:1: found header = \"a: b \"; all"},
	{"route / { respond { status = 200 } header = \"Host: b\" }",
	 "t.conf:1: found header = \"Host: b\"; "},
	{"route / { respond { status = 200 } header = \"Te: b\" }",
	 "t.conf:1: found header = \"Te: b\"; all"},
	{"route /a {\n}",
	 "t.conf:1: found route \"/a\" with neither pool nor respond; allowed: one of"},
	{"route /a { respond { status = 99 } }",
	 "t.conf:1: found status = \"99\"; allowed: a whole number from 200"},
	{"route /a { respond { status = 204 body = x } }",
	 "t.conf:1: found a body for status = \"204\"; allowed: none"},
	{"route /a { methods = {GET, BREW} respond { status = 200 } }",
	 "t.conf:1: found methods = \"BREW\"; allowed: GET, HEAD"},
	{"route /a { methods = {GET, TRACE} respond { status = 200 } }",
	 "t.conf:1: found methods = \"TRACE\"; allowed: GET, HEAD"},
	{"route /a { methods = {\"\"} respond { status = 200 } }",
	 "t.conf:1: found methods = \"\"; allowed: "},
	{"route /a {\n\npool = nowhere }\npool here { backend a { endpoint = \"shm:///a\" } }",
	 "t.conf:3: found pool = \"nowhere\"; allowed: here"},
	{"route /a { pool = nowhere }",
	 "t.conf:1: found pool = \"nowhere\"; allowed: none, there is no"},
	{"route /a { respond { status = 200 } pool = p }",
	 "t.conf:1: found route \"/a\" with pool and respond"},
	{"route /a { respond { status = 200 } forward_headers = {Connection} }",
	 "t.conf:1: found forward_headers = \"Connection\"; allowed: names of headers, none of "
	 "them hop"},
	{"route /a { respond { status = 200 } upgrade = {h2c} }",
	 "t.conf:1: found upgrade = \"h2c\"; allowed: auto, none, or names of protocols such as websocket, but none"},
	{"route /a { respond { status = 200 } upgrade = {TLS} }",
	 "t.conf:1: found upgrade = \"TLS\""},
	{"route /a { respond { status = 200 } upgrade = {\"a b\"} }",
	 "t.conf:1: found upgrade = \"a b\""},
	{"route /a { pool = p upgrade = {x} }\npool p { backend b { endpoint = \"shm:///b\" } }",
	 "t.conf:1: found upgrade on route \"/a\" without stream; allowed: with a pool and stream"},
	{"route /a { respond { status = 200 } continue = client }",
	 "t.conf:1: found continue = \"client\"; allowed: one of gateway, backend"},
	{"route /a { pool = p continue = backend }\npool p { backend b { endpoint = \"shm:///b\" } }",
	 "t.conf:1: found continue = backend on route \"/a\" without stream; allowed: with a pool"},
	{"route /a { respond { status = 200 } deadline_header = \"a b\" }",
	 "t.conf:1: found deadline_header = \"a b\""},
	{"route /a { respond { status = 200 } datagram_service = 1 }\nroute /b { respond { status = 200 } datagram_service = "
	 "1 }",
	 "t.conf:2: found datagram_service = \"1\" in two routes; allowed: each number once"},
	{"\npool p { subset = 0 backend a { endpoint = \"shm:///a\" } }",
	 "t.conf:2: found subset = \"0\"; allowed: auto, or a whole number from 1 to 1024"},
	{"\npool p { subset = 1 backend a { endpoint = \"shm:///a\" }\n"
	 "backend b { endpoint = \"shm:///b\" } backend c { endpoint = \"shm:///c\" } }\n"
	 "workers { count = 2 }",
	 "t.conf:2: found pool \"p\" with subset = \"1\", too few for its 3 backends and 2 workers; "
	 "allowed: auto, or from 2 on"},
	{"\npool p { }", "t.conf:2: found pool \"p\" without a backend; allowed: backend NAME {"},
	{"pool p { backend b { endpoint = \"http://a\"\nhost = \"a/b\" } }",
	 "t.conf:2: found host = \"a/b\"; allowed: NAME, NAME:PORT or [IPV6]:PORT"},
	{"pool p { backend b { endpoint = \"http://a\"\nhost = \"a:0\" } }",
	 "t.conf:2: found host = \"a:0\"; allowed: NAME, NAME:PORT or [IPV6]:PORT"},
	{"pool p {\nbackend b { endpoint = \"shm:///run/b\" host = a } }",
	 "t.conf:2: found host = \"a\" with endpoint = \"shm:///run/b\"; allowed: with http, h2c"},
	{"pool p {\nbackend b { endpoint = \"udp://1.2.3.4:5\" } }",
	 "t.conf:2: found endpoint = \"udp://1.2.3.4:5\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"tcp://1.2.3.4\" } }",
	 "t.conf:2: found endpoint = \"tcp://1.2.3.4\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"tcp://1.2.3:4\" } }",
	 "t.conf:2: found endpoint = \"tcp://1.2.3:4\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"tcp://fd00::1:7\" } }",
	 "t.conf:2: found endpoint = \"tcp://fd00::1:7\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"tcp://a b:7\" } }",
	 "t.conf:2: found endpoint = \"tcp://a b:7\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"tcp://host:65536\" } }",
	 "t.conf:2: found endpoint = \"tcp://host:65536\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"rdma://1.2.3.4\" } }",
	 "t.conf:2: found endpoint = \"rdma://1.2.3.4\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"rdma+ud://1.2.3.4\" } }",
	 "t.conf:2: found endpoint = \"rdma+ud://1.2.3.4\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"rdma://fd00::1:7\" } }",
	 "t.conf:2: found endpoint = \"rdma://fd00::1:7\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"shm://x\" } }",
	 "t.conf:2: found endpoint = \"shm://x\"; all"},
	{"pool p { backend b { endpoint = \"shm:///x\"\nowner = nosuchuser } }",
	 "t.conf:2: found owner = \"nosuchuser\"; allowed: an account of this host, or its"},
	{"pool p {\nbackend b { } }",
	 "t.conf:2: found backend \"b\" without endpoint; allowed: backend b"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbackend b { endpoint = \"shm:///y\" } }",
	 "t.conf:2: found the name \"b\" twice"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbatch { eta = 1.5 } }",
	 "t.conf:2: found eta = \"1.5\"; allowed: a number from 0 to 1"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbatch { }\nbatch { } }",
	 "t.conf:3: found a second batch block; allowed: one"},
	{"pool p { backend b { endpoint = \"shm:///x\" } fair = header }",
	 "t.conf:1: found pool \"p\" with fair_by = header but no fair_header; allowed: both or none"},
	{"admin { address = \"*\" }",
	 "t.conf:1: found address = \"*\"; allowed: an IPv4 or IPv6 address"},
	{"\nadmin { address = \"0.0.0.0\" }", "t.conf:2: found address = \"0.0.0.0\" without "
					      "token_file; allowed: a loopback address, or "
					      "any with"},
	{"admin { address = \"fd00::1\" }", "t.conf:1: found address = \"fd00::1\" without token"},
	{"admin { group_role = operate }",
	 "t.conf:1: found group_role = \"operate\" without group"},
	{"admin { socket = here }",
	 "t.conf:1: found socket = \"here\"; allowed: auto, none, or an"},
	{"admin { hosts = {\"a/b\"} }", "t.conf:1: found hosts = \"a/b\"; allowed: names"},
	{"log_level = loud",
	 "t.conf:1: found log_level = \"loud\"; allowed: one of err, warn, info, debug"},
	{"user = {a, b}", "t.conf:1: found \"{\" where it has no meaning"},
	{"listener web {\nport 80 }",
	 "t.conf:2: found port without a value; allowed: NAME = VALUE"},
	{"listener web {\nport = 80\n", "t.conf:1: found { without its }; allowed: as many } as {"},
	{"# {\nlistener web { /* } */ port = 80 // }\n # }\nprotocols = \"http\"\n",
	 "t.conf:2: found { without its }"},
	{"listener web { max_body = 1 }",
	 "t.conf:1: found unknown key \"max_body\" (it belongs into pool); allowed: address, "},
	{"listener web { port = 1\npool p { } }",
	 "t.conf:2: found unknown key \"pool\" (it belongs outside of all blocks); allowed: add"},
	{"route / { respond { status = 200 }\ninclude = x }",
	 "t.conf:2: found unknown key \"include\" (it belongs outside of all blocks); allowed: "},
	{"worker_processes 4;\nuser = www;",
	 "t.conf:1: found unknown key \"worker_processes\"; allowed: user, zone, log_level, request_path, "},
	{"user = \"abc", "t.conf:1: found a text without its closing quote; allowed: a quote at"},
	{"interface \"eth0 { }\nlistener \"web\" { port = 1 }\nuser = \"www\"",
	 "t.conf:1: found a text without its closing quote; allowed: a quote at"},
	{"user = a\nlistener web { port = 1\n address = \"10.0.0.1 }\n"
	 "listener b { port = 2 address = \"10.0.0.2\" }\nroute / { respond { status = 200 body = \"x\" } }",
	 "t.conf:3: found a text without its closing quote; allowed: a quote at"},
	{"user = a\nadmin { hosts = {\"a\", \"b, \"c\"}\n address = \"::1\" }\nlog_level = 'info'",
	 "t.conf:2: found a text without its closing quote; allowed: a quote at"},
	{"route /a { respond { status = 200 body = \"two\nlines\" } }\nroute /b { respond { status = 200 } body = 'x }\n",
	 "t.conf:3: found a text without its closing quote; allowed: a quote at"},
	{"route /a { respond { status = 200 body = \"two\nlines\" } }\n\nroute /b {",
	 "t.conf:4: found { without its }; allowed: as many } as {"},
	{"\nuser = ${SL_TEST_UNSET}",
	 "t.conf:2: found ${SL_TEST_UNSET}, which is not set in the environment; allowed: a var"},
	{"listener a { port = 1 }\nroute / { respond { status = 200 }\nbody = \"a ${SL_TEST_UNSET} b\" }",
	 "t.conf:3: found ${SL_TEST_UNSET}, which is not set in the environment; allowed: a var"},
	{"listener ${SL_TEST_UNSET} {\nport = 1 }",
	 "t.conf:1: found ${SL_TEST_UNSET}, which is not set in the environment; allowed: a var"},
	{"admin { hosts = {a,\n${SL_TEST_UNSET}} }",
	 "t.conf:2: found ${SL_TEST_UNSET}, which is not set in the environment; allowed: a var"},
	{"user = \"${\"", "t.conf:1: found \"${\" with an incomplete variable; allowed: ${NAME}, "},
	{"user = \"${A-b}\"", "t.conf:1: found \"${A-b}\" with an incomplete variable; allowed: "},
	{"user = \"${A:b}\"", "t.conf:1: found \"${A:b}\" with an incomplete variable; allowed: "},
	{"user = x${SL_TEST_SET}y",
	 "t.conf:1: found x${SL_TEST_SET}y without quotes; allowed: quotes around a text with"},
	{"}", "t.conf:1: found } without its {"},
	{"user += a", "t.conf:1: found user += ...; allowed: ="},
};

TEST_EACH(mistakes_are_reported_with_file_and_line, SL_ARRAY_LEN(wrong))
{
	struct sl_config *c;

	setenv("SL_TEST_SET", "value", 1);
	c = sl_config_parse(wrong[_i].text, "t.conf", &err);
	ck_assert_msg(!c, "accepted: %s", wrong[_i].text);
	ck_assert_msg(strncmp(err.text, wrong[_i].line, strlen(wrong[_i].line)) == 0,
		      "\nexpected: %s\nfound:    %s", wrong[_i].line, err.text);
	ck_assert_msg(!strchr(err.text, '\n'), "one mistake, several lines:\n%s", err.text);
	ck_assert_msg(strstr(err.text, "; allowed: ") != NULL, "%s", err.text);
	/* And an error leaves nothing behind for the next. */
	sl_config_free(parse_ok(full));
}

TEST(cuts_a_long_error_at_the_buffer)
{
	struct sl_err small = SL_ERR(24);

	ck_assert_ptr_null(sl_config_parse("x = 1", "t.conf", &small));
	ck_assert_str_eq(small.text, "t.conf:1: found unknown");
}

/* All of a file's mistakes, in its order, and nothing that only follows from another one. */
TEST(tells_every_mistake)
{
	static const char text[] =
		"lisener web { port = 1\n} log_lvl = debug\n"             /* 1, 2 */
		"log_level = loud\n"                                      /* 3 */
		"interface e { mode = fast\n queues = {0, 64,\n 65} }\n"  /* 4, 5, 6 */
		"listener a { port = 70000 }\n"                           /* 7 */
		"listener b { port = 99999 }\n"                           /* 8 */
		"listener c { prot = 7 /* { */ prots = {x, \"}\", y} }\n" /* 9, 9 */
		"listener c { port = 1 }\n"                               /* 10 */
		"workers { count = 99 cpus = {1, 2} }\n"                  /* 11 */
		"workers { count = 98 }\n"                                /* 12 */
		"pool p { backend x { endpoint = \"tcp://a\" }\n"         /* 13 */
		/* 14 x 3 */
		"  backend x { endpoint = \"shm:///x\" } batch { eta = 2 bond = 3 } }\n"
		"route /a { respond { status = 99 } }\n"                           /* 15 */
		"route /b { pool = q }\n"                                          /* 16 */
		"route /c { respond { status = 200 } respond { status = 201 } }\n" /* 17 */
		"limits { max_body = 65m max_head = 1k }\n";                       /* 18 x 2 */
	static const int lines[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  9,  10,
				    11, 12, 13, 14, 14, 14, 15, 16, 17, 18, 18};
	static char all[16384];
	char *save, *line;
	size_t n = 0;

	ck_assert_ptr_null(sl_config_parse(text, "t.conf", &(struct sl_err){all, sizeof(all)}));
	for (line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
		char want[32];

		ck_assert_msg(n < SL_ARRAY_LEN(lines), "and also %s", line);
		snprintf(want, sizeof(want), "t.conf:%d: found ", lines[n]);
		ck_assert_msg(strncmp(line, want, strlen(want)) == 0, "%s, not %s", line, want);
		ck_assert_msg(strstr(line, "; allowed: ") != NULL, "%s", line);
	}
	ck_assert_uint_eq(n, SL_ARRAY_LEN(lines));
}

TEST(counts_the_mistakes_that_have_no_room)
{
	struct sl_err small = SL_ERR(300);
	char text[16 * 300] = "";
	static char all[1 << 16];

	for (int i = 0; i < 300; i++)
		strcat(text, "nonsense = 1\n");
	ck_assert_ptr_null(sl_config_parse(text, "t.conf", &small));
	ck_assert_msg(strstr(small.text, "\nt.conf:2: and 99 more mistakes") != NULL, "%s",
		      small.text);
	ck_assert_ptr_null(sl_config_parse(text, "t.conf", &(struct sl_err){all, sizeof(all)}));
	ck_assert_ptr_nonnull(strstr(all, "\nt.conf:100: found unknown key"));
	ck_assert_ptr_nonnull(strstr(all, "\nt.conf:100: the rest was not looked at"));
	ck_assert_ptr_null(strstr(all, "t.conf:101:"));
}

/* An error is one line even when the value has several. */
TEST(keeps_an_error_on_one_line)
{
	ck_assert_ptr_null(sl_config_parse("log_level = \"a\\nb\"", "t.conf", &err));
	ck_assert_msg(strstr(err.text, "\"a?b\"") != NULL, "%s", err.text);
}

static void write_file(char path[32], const char *text, size_t len)
{
	int fd;

	strcpy(path, "/tmp/sl-config-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

TEST(loads_complete_files_only)
{
	static const struct {
		const char *text, *err;
	} files[] = {
		{"user = root listener a { port = 1 local = no } route / { respond { status = 200 } }",
		 ":1: found local = no in listener \"a\" without an interface that XDP serves; allowed:"},
		{"user = root interface lo { mode = socket } listener a { port = 1 protocols = "
		 "datagram } route / { respond { status = 200 } }",
		 ":1: found datagram in listener \"a\" without an interface that XDP serves; allowed:"},
		{"user = root listener a { port = 1 }",
		 ":1: found no route; allowed: at least one"},
		{"user = root interface lo { } route / { respond { status = 200 } }",
		 ":1: found no listener; allowed:"},
		{"user = root interface lo { } listener a { port = 1 }",
		 ":1: found no route; allowed:"},
		/* Requirements on this host, reported in the same run. */
		{"user = root interface nosuch0 { }\nlistener a { port = 0 } route / { respond { status = 200 } }",
		 ":1: found no interface \"nosuch0\" here; allowed: one that `ip link` lists\n"},
	};
	char path[32];
	struct sl_config *c;

	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		write_file(path, files[i].text, strlen(files[i].text));
		c = sl_config_load(path, &err);
		ck_assert_ptr_null(c);
		ck_assert_msg(
			strncmp(err.text + strlen(path), files[i].err, strlen(files[i].err)) == 0,
			"%s", err.text);
		unlink(path);
	}
	write_file(path, "a\0b", 3);
	ck_assert_ptr_null(sl_config_load(path, &err));
	ck_assert_msg(strstr(err.text, "found a NUL byte; allowed: a text") != NULL, "%s",
		      err.text);
	unlink(path);
	ck_assert_ptr_null(sl_config_load(path, &err));
	ck_assert_msg(strstr(err.text, "found no readable file (No such file") != NULL, "%s",
		      err.text);
	write_file(path, full, strlen(full));
	c = sl_config_load(path, &err);
	ck_assert_msg(c != NULL, "%s", err.text);
	sl_config_free(c);
	unlink(path);
}

TEST(checks_the_system)
{
	static const struct {
		const char *text, *err;
	} tests[] = {
		{"\ninterface nosuch0 { }",
		 "t.conf:2: found no interface \"nosuch0\" here; allowed:"},
		{"interface lo { queues = {5} }",
		 "t.conf:1: found queue 5 for lo; allowed: 0 to 0"},
		{"interface lo { } workers { count = 2 }",
		 "t.conf:1: found 2 workers for 1 receive queues"},
		{"interface lo { } workers { cpus = {4000} }",
		 "t.conf:1: found cpu 4000 in workers.cpus"},
		{"user = nosuchuser", "t.conf:1: found user = \"nosuchuser\"; allowed:"},
		{"\nadmin { owner = nosuchuser }", "t.conf:2: found owner = \"nosuchuser\"; allow"},
		{"admin { group = nosuchgroup }", "t.conf:1: found group = \"nosuchgroup\"; allow"},
		{"admin { token_file = /nowhere }", "t.conf:1: found token_file \"/nowhere\" (No"},
		{"admin { token_file = /etc/passwd }",
		 "t.conf:1: found token_file \"/etc/passwd\" that others than its owner may use"},
		{"descriptor_sets = /nowhere.pb",
		 "t.conf:1: found descriptor_sets \"/nowhere.pb\" (No such"},
		{"\n\ndescriptor_sets = /nowhere.pb",
		 "t.conf:3: found descriptor_sets \"/nowhere.pb\" (No such"},
		{"pool p {\nbackend b { endpoint = \"rdma://10.0.0.1:7\" key_file = /nowhere.key } "
		 "}",
		 "t.conf:2: found key_file \"/nowhere.key\" (No such file"},
	};
	struct sl_config *c;

	for (size_t i = 0; i < SL_ARRAY_LEN(tests); i++) {
		char text[512];

		snprintf(text, sizeof(text), "%s%s", tests[i].text,
			 strstr(tests[i].text, "user =") ? "" : "\nuser = root\n");
		c = parse_ok(text);
		ck_assert_int_eq(sl_config_check_system(c, &err), -1);
		ck_assert_msg(strncmp(err.text, tests[i].err, strlen(tests[i].err)) == 0, "%s",
			      err.text);
		sl_config_free(c);
	}
	c = parse_ok("user = nosuchuser\ninterface nosuch0 { }\ninterface lo { queues = {5, 6} }");
	ck_assert_int_eq(sl_config_check_system(c, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "t.conf:1: found user = \"nosuchuser\""));
	ck_assert_ptr_nonnull(strstr(err.text, "\nt.conf:2: found no interface \"nosuch0\""));
	ck_assert_ptr_nonnull(strstr(err.text, "\nt.conf:3: found queue 5 for lo"));
	ck_assert_ptr_nonnull(strstr(err.text, "\nt.conf:3: found queue 6 for lo"));
	sl_config_free(c);
	c = parse_ok("user = root interface lo { queues = {0} }");
	ck_assert_msg(sl_config_check_system(c, &err) == 0, "%s", err.text);
	sl_config_free(c);
}

TEST(token_file_of_another_length_is_a_mistake)
{
	static const struct {
		off_t len;
		bool ok;
	} files[] = {{15, false}, {16, true}, {258, true}, {259, false}};
	char path[] = "/tmp/sluice-token-XXXXXX", text[100];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	snprintf(text, sizeof(text), "user = root\nadmin { token_file = %s }", path);
	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		struct sl_config *c = parse_ok(text);

		ck_assert_int_eq(ftruncate(fd, files[i].len), 0);
		ck_assert_int_eq(sl_config_check_system(c, &err), files[i].ok ? 0 : -1);
		if (!files[i].ok)
			ck_assert_ptr_nonnull(
				strstr(err.text, "allowed: a token of 16 to 256 characters"));
		sl_config_free(c);
	}
	close(fd);
	unlink(path);
}

static void collect(void *arg, const char *key)
{
	strcat(strcat(arg, key), ";");
}

TEST(changed_keys_are_reported)
{
	static const char before[] =
		"log_level = info workers { count = 2 } "
		"pool p { backend a { endpoint = \"shm:///x\" } batch { size = 4 } }";
	static const char after[] =
		"log_level = warn workers { count = 2 } "
		"pool p { backend a { endpoint = \"shm:///y\" } max_queue = 3 }";
	struct sl_config *a = parse_ok(before), *b = parse_ok(after), *again = parse_ok(before);
	char keys[400] = "";

	sl_config_diff(a, again, false, collect, keys);
	sl_config_diff(a, again, true, collect, keys);
	ck_assert_str_eq(keys, "");
	sl_config_diff(a, b, false, collect, keys);
	ck_assert_str_eq(keys,
			 "log_level;pool p.backend a.endpoint;pool p.batch.size;pool p.max_queue;");
	sl_config_free(a);
	sl_config_free(b);
	sl_config_free(again);
}

TEST(changes_that_need_a_restart_are_reported)
{
	struct sl_config *a = parse_ok("workers { count = 2 } interface e { } log_level = warn");
	struct sl_config *b =
		parse_ok("workers { count = 1 } interface f { deny = {::/0} } log_level = info\n"
			 "limits { max_head = 16k max_body = 1m frame_memory = 64m }");
	char keys[400] = "";

	sl_config_diff(a, b, true, collect, keys);
	ck_assert_str_eq(keys, "workers.count;interface e;interface f;limits.max_head;"
			       "memory.frames;");
	keys[0] = 0;
	sl_config_diff(a, b, false, collect, keys);
	ck_assert_str_eq(keys, "log_level;interface f.deny;limits.max_body;");
	sl_config_free(a);
	sl_config_free(b);
}

/* A file of so many pools, each with so many backends. */
static char *many(unsigned pools, unsigned backends)
{
	char *text = malloc((size_t)pools * (backends + 1) * 64 + 1), *at = text;

	*at = 0;
	for (unsigned p = 0; p < pools; p++) {
		at += sprintf(at, "pool p%u {\n", p);
		for (unsigned b = 0; b < backends; b++)
			at += sprintf(at, "backend b%u { endpoint = \"shm:///b%u\" }\n", b, b);
		at += sprintf(at, "}\n");
	}
	return text;
}

static void assert_backends(const struct sl_cfg_pool *pool, uint32_t cnt)
{
	char name[16];

	ck_assert_uint_eq(pool->backend_cnt, cnt);
	for (uint32_t b = 0; b < cnt; b++) {
		sprintf(name, "b%u", b);
		ck_assert_str_eq(pool->backends[b].name, name);
		ck_assert_str_eq(strrchr(pool->backends[b].endpoint, '/') + 1, name);
	}
}

TEST(a_pool_has_up_to_1024_backends)
{
	char *text = many(2, 1024);
	struct sl_config *c = parse_ok(text);

	assert_backends(&c->pools[0], 1024);
	assert_backends(&c->pools[1], 1024);
	sl_config_free(c);
	free(text);
	text = many(1, 1025);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(err.text, "t.conf:1026: found one backend too many; allowed: 1024");
	free(text);
}

TEST(there_are_up_to_256_pools)
{
	char *text = many(256, 1);
	struct sl_config *c = parse_ok(text);

	ck_assert_uint_eq(c->pool_cnt, 256);
	assert_backends(&c->pools[255], 1);
	sl_config_free(c);
	free(text);
	text = many(257, 1);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(err.text, "t.conf:769: found one pool too many; allowed: 256");
	free(text);
}

TEST(listeners_at_any_address_count_twice)
{
	char *text = malloc(129 * 60), *at = text;

	for (int i = 0; i < 128; i++)
		at += sprintf(at, "listener l%d { port = %d }\n", i, i + 1);
	sl_config_free(parse_ok(text));
	sprintf(at, "listener last { port = 5000 }\n");
	ck_assert_ptr_null(sl_config_parse(text, "t.conf", &err));
	ck_assert_msg(strstr(err.text, "t.conf:129: found listener \"last\" beyond 256 addr") ==
			      err.text,
		      "%s", err.text);
	free(text);
}

TEST(values_that_need_a_restart_stay)
{
	struct sl_config *a =
		parse_ok("limits { max_connections = 100 max_exchanges = 50 max_head = 4k "
			 "max_target = 2k frame_memory = 8m max_body = 1m keepalive = 5s "
			 "reorder_memory = 1m }");
	struct sl_config *b =
		parse_ok("limits { max_body = 7m idle_timeout = 3s rst_closed_ports = yes }");

	sl_config_keep(b, a);
	ck_assert_uint_eq(b->limits.max_connections, 100);
	ck_assert_uint_eq(b->limits.max_exchanges, 50);
	ck_assert_uint_eq(b->limits.max_head, 4096);
	ck_assert_uint_eq(b->limits.keepalive_ns, 5000000000u);
	ck_assert_uint_eq(b->limits.reorder_memory, 1 << 20);
	ck_assert(!b->limits.rst_closed_ports);
	ck_assert_uint_eq(b->limits.idle_timeout_ns, 3000000000u);
	/* Values that were checked against others are cut to those. */
	ck_assert_uint_eq(b->limits.max_target, 4096);
	ck_assert_uint_eq(b->limits.max_body, 4 << 20);
	sl_config_free(a);
	sl_config_free(b);
}

static void check_key(void *arg, const struct sl_config_key *k)
{
	ck_assert_msg(k->allowed[0] && k->help && k->help[0], "%s.%s", k->block, k->name);
	ck_assert_msg(strlen(k->allowed) < sizeof(k->allowed) - 1, "%s.%s is cut: %s", k->block,
		      k->name, k->allowed);
	++*(unsigned *)arg;
}

TEST(documents_each_key)
{
	unsigned cnt = 0;

	sl_config_each_key(check_key, &cnt);
	ck_assert_uint_gt(cnt, 60);
}
