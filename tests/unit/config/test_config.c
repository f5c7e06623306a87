/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: values into the struct, and each error with its text and line. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "config/config.h"
#include "sluice/rpc_wire.h"

static const char full[] =
	"user = nobody\n"
	"log_level = debug\n"
	"descriptor_sets = {\"/a.pb\", \"/b.pb\"}\n"
	"interface eth0 { queues = {0, 3} mode = generic zero_copy = no ring_size = 512 }\n"
	"interface eth1 { }\n"
	"workers { count = 2 cpus = {1, 0} spin = 20us }\n"
	"listener web { address = \"10.99.0.1\" port = 8080 protocols = {http, datagram} }\n"
	"listener six { address = \"fd99::1\" port = 8080 }\n"
	"listener any { port = 81 }\n"
	"route /score { pool = score methods = {GET, POST} deadline = 1s priority = bulk\n"
	"  idempotent = yes strip_prefix = no forward_headers = {X-A, x-b} policy = aimd\n"
	"  deadline_header = X-Deadline max_body = 1k datagram_service = 7 }\n"
	"route / { reply = 200 body = \"hello\\n\" type = text/html }\n"
	"pool score {\n"
	"  backend a { endpoint = \"shm:///run/a.sock\" }\n"
	"  backend b { endpoint = \"rdma://[fd99::7]:4420\" fallback = \"rdma://10.0.0.1:1\"\n"
	"              key_file = /etc/key }\n"
	"  batch { policy = fixed size = 16 delay = 2ms bound = 5ms max_size = 32 eta = 0.25 }\n"
	"  max_queue = 77 max_body = 2m fair = header fair_header = X-Client\n"
	"}\n"
	"pool plain { backend a { endpoint = \"shm:///run/p.sock\" } }\n"
	"limits { max_connections = 1000 frame_memory = 64m max_body = 8m newreno = yes\n"
	"  drain_timeout = 3s }\n"
	"admin { address = \"::1\" port = 99 }\n";

static char err[512];

static struct sl_config *parse_ok(const char *text)
{
	struct sl_config *c = sl_config_parse(text, "t.conf", err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	return c;
}

START_TEST(fills_the_struct)
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
	ck_assert_uint_eq(c->worker_cnt, 2);
	ck_assert_int_eq(c->cpus[0], 1);
	ck_assert_int_eq(c->cpus[1], 0);
	ck_assert_int_eq(c->cpus[2], -1);
	ck_assert_uint_eq(c->spin_ns, 20000);
	ck_assert_uint_eq(c->listener_cnt, 3);
	ck_assert_str_eq(c->listeners[0].name, "web");
	ck_assert_mem_eq(c->listeners[0].addr, v4, 16);
	ck_assert_uint_eq(c->listeners[0].family, 4);
	ck_assert_uint_eq(c->listeners[0].port, 8080);
	ck_assert(c->listeners[0].http && c->listeners[0].datagram);
	ck_assert_mem_eq(c->listeners[1].addr, v6, 16);
	ck_assert_uint_eq(c->listeners[1].family, 6);
	ck_assert(c->listeners[1].http && !c->listeners[1].datagram);
	ck_assert_uint_eq(c->listeners[2].family, 0);
	ck_assert_str_eq(c->admin_address, "::1");
	ck_assert_uint_eq(c->admin_port, 99);
	ck_assert_uint_eq(c->limits.max_connections, 1000);
	ck_assert_uint_eq(c->limits.max_body, 8 << 20);
	ck_assert_uint_eq(c->limits.drain_timeout_ns, 3000000000u);
	ck_assert(c->limits.newreno);
	sl_config_free(c);
}
END_TEST

START_TEST(fills_pools_and_routes)
{
	struct sl_config *c = parse_ok(full);
	const struct sl_cfg_pool *p = &c->pools[0];
	const struct sl_cfg_route *r = &c->routes[0];

	ck_assert_uint_eq(c->pool_cnt, 2);
	ck_assert_str_eq(p->name, "score");
	ck_assert_uint_eq(p->backend_cnt, 2);
	ck_assert_str_eq(p->backends[0].endpoint, "shm:///run/a.sock");
	ck_assert_ptr_null(p->backends[0].fallback);
	ck_assert_str_eq(p->backends[1].endpoint, "rdma://[fd99::7]:4420");
	ck_assert_str_eq(p->backends[1].fallback, "rdma://10.0.0.1:1");
	ck_assert_str_eq(p->backends[1].key_file, "/etc/key");
	ck_assert_uint_eq(p->batch.policy, SL_POLICY_FIXED);
	ck_assert_uint_eq(p->batch.size, 16);
	ck_assert_uint_eq(p->batch.delay_ns, 2000000);
	ck_assert_uint_eq(p->batch.bound_ns, 5000000);
	ck_assert_uint_eq(p->batch.max_size, 32);
	ck_assert_double_eq(p->batch.eta, 0.25);
	ck_assert_uint_eq(p->max_queue, 77);
	ck_assert_uint_eq(p->max_body, 2 << 20);
	ck_assert_uint_eq(p->fair, SL_FAIR_HEADER);
	ck_assert_str_eq(p->fair_header, "x-client");
	/* The second pool has a batch block though none is written. */
	ck_assert_uint_eq(c->pools[1].batch.policy, SL_POLICY_ADAPTIVE);
	ck_assert_uint_eq(c->pools[1].batch.max_size, 256);
	ck_assert_uint_eq(c->pools[1].max_queue, 4096);
	/* Longest prefix first. */
	ck_assert_uint_eq(c->route_cnt, 2);
	ck_assert_str_eq(r->prefix, "/score");
	ck_assert_uint_eq(r->prefix_len, 6);
	ck_assert_int_eq(r->pool, 0);
	ck_assert_uint_eq(r->methods, 1u << 1 | 1u << 2 | 1u << 3); /* HEAD with GET */
	ck_assert_uint_eq(r->deadline_ns, 1000000000);
	ck_assert_str_eq(r->deadline_header, "x-deadline");
	ck_assert_uint_eq(r->max_body, 1024);
	ck_assert_int_eq(r->priority, SL_CLASS_BULK);
	ck_assert_int_eq(r->idempotent, 1);
	ck_assert(!r->strip_prefix);
	ck_assert_uint_eq(r->forward_header_cnt, 2);
	ck_assert_str_eq(r->forward_headers[0], "x-a");
	ck_assert_str_eq(r->forward_headers[1], "x-b");
	ck_assert_int_eq(r->policy, SL_POLICY_AIMD);
	ck_assert_uint_eq(r->datagram_service, 7);
	ck_assert_int_eq(r->line, 10);
	r = &c->routes[1];
	ck_assert_int_eq(r->pool, -1);
	ck_assert_uint_eq(r->reply_status, 200);
	ck_assert_str_eq(r->reply_body, "hello\n");
	ck_assert_uint_eq(r->reply_body_len, 6);
	ck_assert_str_eq(r->reply_type, "text/html");
	ck_assert_int_eq(r->priority, -1);
	ck_assert_int_eq(r->idempotent, -1);
	ck_assert_int_eq(r->policy, -1);
	ck_assert(r->strip_prefix);
	sl_config_free(c);
}
END_TEST

static uint32_t bit(unsigned method)
{
	return 1u << method;
}

START_TEST(routes_of_one_prefix_share_its_methods)
{
	enum { GET = 1, HEAD = 2, POST = 3, PUT = 4 };
	struct sl_config *c = parse_ok("route /a { reply = 201 methods = {POST} }\n"
				       "route /a/b { reply = 200 }\n"
				       "route /a { reply = 202 methods = {GET, PUT} }\n"
				       "route /b { reply = 204 methods = {HEAD} }\n"
				       "route /b { reply = 203 methods = {GET} }\n"
				       "route /c { reply = 206 }\n"
				       "route /c { reply = 205 methods = {GET} }\n");

	ck_assert_uint_eq(c->route_cnt, 7);
	ck_assert_str_eq(c->routes[0].prefix, "/a/b");
	ck_assert_uint_eq(c->routes[0].prefix_methods, 0);
	for (unsigned i = 1; i < 3; i++) {
		const struct sl_cfg_route *r = &c->routes[i];

		ck_assert_str_eq(r->prefix, "/a");
		/* GET answers HEAD as well. */
		ck_assert_uint_eq(r->methods, r->reply_status == 201
						      ? bit(POST)
						      : bit(GET) | bit(HEAD) | bit(PUT));
		ck_assert_uint_eq(r->prefix_methods, bit(GET) | bit(HEAD) | bit(POST) | bit(PUT));
	}
	/* Unless another route does, or one answers all the rest. */
	for (unsigned i = 3; i < 5; i++)
		ck_assert_uint_eq(c->routes[i].methods,
				  c->routes[i].reply_status == 203 ? bit(GET) : bit(HEAD));
	ck_assert_uint_eq(c->routes[5].methods, bit(GET));
	ck_assert_uint_eq(c->routes[6].methods, 0);
	ck_assert_uint_eq(c->routes[6].reply_status, 206);
	ck_assert_uint_eq(c->routes[5].prefix_methods, 0);
	sl_config_free(c);
}
END_TEST

START_TEST(has_defaults)
{
	struct sl_config *c = parse_ok("");

	ck_assert_uint_eq(c->worker_cnt, 1);
	ck_assert_int_eq(c->cpus[0], -1);
	ck_assert_uint_eq(c->log_level, SL_LOG_INFO);
	ck_assert_str_eq(c->admin_address, "127.0.0.1");
	ck_assert_uint_eq(c->admin_port, 9900);
	ck_assert_uint_eq(c->limits.max_exchanges, 16384);
	ck_assert_uint_eq(c->limits.idle_timeout_ns, 60000000000u);
	ck_assert_ptr_null(c->user);
	sl_config_free(c);
}
END_TEST

START_TEST(braces_in_text_and_comments_are_none)
{
	struct sl_config *c =
		parse_ok("# {\nuser = \"a{\\\"{\" // {\n/* { */ log_level = 'warn' # {");

	ck_assert_str_eq(c->user, "a{\"{");
	sl_config_free(c);
}
END_TEST

START_TEST(cpus_tell_the_number_of_workers)
{
	struct sl_config *c = parse_ok("workers { cpus = {0, 1, 2} }");

	ck_assert_uint_eq(c->worker_cnt, 3);
	sl_config_free(c);
}
END_TEST

/* Each way to be wrong: what stands in the file, and the one line that comes of it. */
static const struct {
	const char *text, *line;
} wrong[] = {
	{"\nlisener web { port = 1 }", "t.conf:2: found unknown key \"lisener\"; allowed: user, "},
	{"listener web {\n\nprot = 1\n}",
	 "t.conf:3: found unknown key \"prot\"; allowed: address, port, protocols"},
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
	{"limits { max_body = 12q }", "t.conf:1: found max_body = \"12q\"; allowed: "},
	{"limits { max_body = 65m }", "t.conf:1: found max_body = \"65m\"; allowed: "},
	{"limits { frame_memory = 4m\n max_body = 3m }",
	 "t.conf:1: found max_body above half of frame_memory"},
	{"limits { max_head = 1k }", "t.conf:1: found max_target above max_head"},
	{"limits { idle_timeout = 1ns }",
	 "t.conf:1: found idle_timeout = \"1ns\"; allowed: a duration"},
	{"route x { reply = 200 }",
	 "t.conf:1: found route \"x\"; allowed: a path that begins with /"},
	{"route /a?b { reply = 200 }", "t.conf:1: found route \"/a?b\"; allowed: a path"},
	{"route /a { reply = 200 }\nroute /a { reply = 201 }",
	 "t.conf:2: found a second route \"/a\" without methods; allowed: one, and others with"},
	{"route /a { reply = 200 methods = {GET, PUT} }\nroute /b { reply = 200 }\n"
	 "route /a { reply = 201 methods = {POST, PUT} }",
	 "t.conf:3: found a second route \"/a\" with a method of that on line 1; allowed: each"},
	{"route /a {\n}",
	 "t.conf:1: found route \"/a\" with neither pool nor reply; allowed: one of"},
	{"route /a { reply = 99 }",
	 "t.conf:1: found reply = \"99\"; allowed: a whole number from 200"},
	{"route /a { reply = 204 body = x }",
	 "t.conf:1: found a body for reply = \"204\"; allowed: none"},
	{"route /a { methods = {GET, BREW} reply = 200 }",
	 "t.conf:1: found methods = \"BREW\"; allowed: GET, HEAD"},
	{"route /a {\n\npool = nowhere }\npool here { backend a { endpoint = \"shm:///a\" } }",
	 "t.conf:3: found pool = \"nowhere\"; allowed: here"},
	{"route /a { pool = nowhere }",
	 "t.conf:1: found pool = \"nowhere\"; allowed: none, there is no"},
	{"route /a { reply = 200 pool = p }", "t.conf:1: found route \"/a\" with pool and reply"},
	{"route /a { reply = 200 forward_headers = {Connection} }",
	 "t.conf:1: found forward_headers = \"Connection\"; allowed: names of headers, none of "
	 "them hop"},
	{"route /a { reply = 200 deadline_header = \"a b\" }",
	 "t.conf:1: found deadline_header = \"a b\""},
	{"route /a { reply = 200 datagram_service = 1 }\nroute /b { reply = 200 datagram_service = "
	 "1 }",
	 "t.conf:2: found datagram_service = \"1\" in two routes; allowed: each number once"},
	{"\npool p { }", "t.conf:2: found pool \"p\" without a backend; allowed: backend NAME {"},
	{"pool p {\nbackend b { endpoint = \"tcp://1.2.3.4:5\" } }",
	 "t.conf:2: found endpoint = \"tcp://1.2.3.4:5\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"rdma://1.2.3.4\" } }",
	 "t.conf:2: found endpoint = \"rdma://1.2.3.4\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"rdma://fd00::1:7\" } }",
	 "t.conf:2: found endpoint = \"rdma://fd00::1:7\"; allowed: shm:///PATH"},
	{"pool p {\nbackend b { endpoint = \"shm://x\" } }",
	 "t.conf:2: found endpoint = \"shm://x\"; all"},
	{"pool p {\nbackend b { } }",
	 "t.conf:2: found backend \"b\" without endpoint; allowed: backend b"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbackend b { endpoint = \"shm:///y\" } }",
	 "t.conf:2: found the name \"b\" twice"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbatch { eta = 1.5 } }",
	 "t.conf:2: found eta = \"1.5\"; allowed: a number from 0 to 1"},
	{"pool p { backend b { endpoint = \"shm:///x\" }\nbatch { }\nbatch { } }",
	 "t.conf:3: found a second batch block; allowed: one"},
	{"pool p { backend b { endpoint = \"shm:///x\" } fair = header }",
	 "t.conf:1: found pool \"p\" with fair = header but no fair_header; allowed: both or none"},
	{"admin { address = \"*\" }",
	 "t.conf:1: found address = \"*\"; allowed: an IPv4 or IPv6 address"},
	{"log_level = loud",
	 "t.conf:1: found log_level = \"loud\"; allowed: one of err, warn, info, debug"},
	{"user = {a, b}", "t.conf:1: found \"{\" where it has no meaning"},
	{"listener web {\nport 80 }",
	 "t.conf:2: found port without a value; allowed: NAME = VALUE"},
	{"listener web {\nport = 80\n", "t.conf:1: found { without its }; allowed: as many } as {"},
	{"# {\nlistener web { /* } */ port = 80 // }\n # }\nprotocols = \"http\"\n",
	 "t.conf:2: found { without its }"},
	{"user = \"abc", "t.conf:1: found the end of the file inside a block"},
	{"}", "t.conf:1: found } without its {"},
	{"user += a", "t.conf:1: found user += ...; allowed: ="},
};

START_TEST(tells_what_is_wrong)
{
	struct sl_config *c = sl_config_parse(wrong[_i].text, "t.conf", err, sizeof(err));

	ck_assert_msg(!c, "accepted: %s", wrong[_i].text);
	ck_assert_msg(strncmp(err, wrong[_i].line, strlen(wrong[_i].line)) == 0,
		      "\nexpected: %s\nfound:    %s", wrong[_i].line, err);
	ck_assert_ptr_null(strchr(err, '\n'));
	ck_assert_msg(strstr(err, "; allowed: ") != NULL, "%s", err);
	/* And an error leaves nothing behind for the next. */
	sl_config_free(parse_ok(full));
}
END_TEST

START_TEST(cuts_a_long_error_at_the_buffer)
{
	char small[24];

	ck_assert_ptr_null(sl_config_parse("x = 1", "t.conf", small, sizeof(small)));
	ck_assert_str_eq(small, "t.conf:1: found unknown");
}
END_TEST

/* An error is one line even when the value has several. */
START_TEST(keeps_an_error_on_one_line)
{
	ck_assert_ptr_null(sl_config_parse("log_level = \"a\\nb\"", "t.conf", err, sizeof(err)));
	ck_assert_msg(strstr(err, "\"a?b\"") != NULL, "%s", err);
}
END_TEST

static void write_file(char path[32], const char *text, size_t len)
{
	int fd;

	strcpy(path, "/tmp/sl-config-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

START_TEST(loads_complete_files_only)
{
	static const struct {
		const char *text, *err;
	} files[] = {
		{"listener a { port = 1 } route / { reply = 200 }",
		 ":1: found no interface; allowed:"},
		{"interface a { } route / { reply = 200 }", ":1: found no listener; allowed:"},
		{"interface a { } listener a { port = 1 }", ":1: found no route; allowed:"},
	};
	char path[32];
	struct sl_config *c;

	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		write_file(path, files[i].text, strlen(files[i].text));
		c = sl_config_load(path, err, sizeof(err));
		ck_assert_ptr_null(c);
		ck_assert_msg(strncmp(err + strlen(path), files[i].err, strlen(files[i].err)) == 0,
			      "%s", err);
		unlink(path);
	}
	write_file(path, "a\0b", 3);
	ck_assert_ptr_null(sl_config_load(path, err, sizeof(err)));
	ck_assert_msg(strstr(err, "found a NUL byte; allowed: a text") != NULL, "%s", err);
	unlink(path);
	ck_assert_ptr_null(sl_config_load(path, err, sizeof(err)));
	ck_assert_msg(strstr(err, "found no readable file (No such file") != NULL, "%s", err);
	write_file(path, full, strlen(full));
	c = sl_config_load(path, err, sizeof(err));
	ck_assert_msg(c != NULL, "%s", err);
	sl_config_free(c);
	unlink(path);
}
END_TEST

START_TEST(checks_the_system)
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
		c = parse_ok(tests[i].text);
		ck_assert_int_eq(sl_config_check_system(c, err, sizeof(err)), -1);
		ck_assert_msg(strncmp(err, tests[i].err, strlen(tests[i].err)) == 0, "%s", err);
		sl_config_free(c);
	}
	c = parse_ok("interface lo { queues = {0} }");
	ck_assert_msg(sl_config_check_system(c, err, sizeof(err)) == 0, "%s", err);
	sl_config_free(c);
}
END_TEST

static void collect(void *arg, const char *key)
{
	strcat(strcat(arg, key), ";");
}

START_TEST(tells_what_has_changed)
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
END_TEST

START_TEST(tells_what_needs_a_restart)
{
	struct sl_config *a = parse_ok("workers { count = 2 } interface e { } log_level = warn");
	struct sl_config *b =
		parse_ok("workers { count = 1 } interface f { } log_level = info\n"
			 "limits { max_head = 16k max_body = 1m frame_memory = 64m }");
	char keys[400] = "";

	sl_config_diff(a, b, true, collect, keys);
	ck_assert_str_eq(keys, "workers.count;interface e;interface f;limits.max_head;"
			       "limits.frame_memory;");
	keys[0] = 0;
	sl_config_diff(a, b, false, collect, keys);
	ck_assert_str_eq(keys, "log_level;limits.max_body;");
	sl_config_free(a);
	sl_config_free(b);
}
END_TEST

/* "echo(a,b) - other(c)": pools and backends in the order of their index. */
static const char *places(const struct sl_config *c)
{
	static char text[400];
	size_t at = 0;

	text[0] = 0;
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &c->pools[p];

		at += (size_t)sprintf(text + at, "%s%s", p ? " " : "",
				      pool->name ? pool->name : "-");
		for (uint32_t b = 0; pool->name && b < pool->backend_cnt; b++)
			at += (size_t)sprintf(text + at, "%s%s", b ? "," : "(",
					      pool->backends[b].name ? pool->backends[b].name
								     : "-");
		if (pool->name)
			at += (size_t)sprintf(text + at, ")");
	}
	return text;
}

#define POOL(name, backends)    "pool " name " { " backends " }\n"
#define BACKEND(name, endpoint) "backend " name " { endpoint = \"shm:///" endpoint "\" } "

START_TEST(pools_and_backends_keep_their_places)
{
	struct sl_config *a = parse_ok(POOL("one", BACKEND("a", "a") BACKEND("b", "b"))
					       POOL("two", BACKEND("a", "a")));
	struct sl_config *b = parse_ok(POOL("new", BACKEND("x", "x")) POOL(
		"two", BACKEND("b", "b") BACKEND(
			       "a", "a")) "route /n { pool = new } route /t { pool = two }");
	struct sl_config *c = parse_ok(POOL("two", BACKEND("b", "other")) POOL(
		"one", BACKEND("b", "b")) POOL("last", BACKEND("l", "l")));
	const struct sl_config *living[] = {b, a};

	ck_assert_int_eq(sl_config_align(b, living + 1, 1, 4, err, sizeof(err)), 0);
	ck_assert_str_eq(places(b), "- two(a,b) new(x)");
	ck_assert_str_eq(b->pools[b->routes[0].pool].name,
			 b->routes[0].prefix[1] == 'n' ? "new" : "two");
	ck_assert_str_eq(b->pools[b->routes[1].pool].name,
			 b->routes[1].prefix[1] == 'n' ? "new" : "two");
	/* Requests of a are not over: `one` comes back to its place, and b of `one` too. */
	ck_assert_int_eq(sl_config_align(c, living, 2, 4, err, sizeof(err)), 0);
	ck_assert_str_eq(places(c), "one(-,b) two(-,-,b) - last(l)");
	sl_config_free(a);
	sl_config_free(b);
	sl_config_free(c);
}
END_TEST

START_TEST(places_are_bounded)
{
	struct sl_config *a = parse_ok(POOL("one", BACKEND("a", "a")));
	struct sl_config *b =
		parse_ok("\n" POOL("two", BACKEND("a", "a")) POOL("three", BACKEND("a", "a")));
	const struct sl_config *living[] = {a};

	ck_assert_int_eq(sl_config_align(b, living, 1, 2, err, sizeof(err)), -1);
	ck_assert_ptr_nonnull(strstr(err, "t.conf:3: found pool \"three\" beyond the 2 that"));
	sl_config_free(b);
	b = parse_ok(POOL("two", BACKEND("a", "a")) POOL("three", BACKEND("a", "a")));
	ck_assert_int_eq(sl_config_align(b, living, 1, 3, err, sizeof(err)), 0);
	sl_config_free(a);
	sl_config_free(b);
}
END_TEST

START_TEST(what_needs_a_restart_stays)
{
	struct sl_config *a =
		parse_ok("limits { max_connections = 100 max_exchanges = 50 max_head = 4k "
			 "max_target = 2k frame_memory = 8m max_body = 1m keepalive = 5s }");
	struct sl_config *b = parse_ok("limits { max_body = 7m idle_timeout = 3s newreno = yes }");
	const struct sl_config *living[] = {a};

	ck_assert_int_eq(sl_config_align(b, living, 1, 1, err, sizeof(err)), 0);
	ck_assert_uint_eq(b->limits.max_connections, 100);
	ck_assert_uint_eq(b->limits.max_exchanges, 50);
	ck_assert_uint_eq(b->limits.max_head, 4096);
	ck_assert_uint_eq(b->limits.keepalive_ns, 5000000000u);
	ck_assert(!b->limits.newreno);
	ck_assert_uint_eq(b->limits.idle_timeout_ns, 3000000000u);
	/* What was checked against other values is cut to those. */
	ck_assert_uint_eq(b->limits.max_target, 4096);
	ck_assert_uint_eq(b->limits.max_body, 4 << 20);
	sl_config_free(a);
	sl_config_free(b);
}
END_TEST

static void check_key(void *arg, const struct sl_config_key *k)
{
	ck_assert_msg(k->allowed[0] && k->help && k->help[0], "%s.%s", k->block, k->name);
	++*(unsigned *)arg;
}

START_TEST(documents_each_key)
{
	unsigned cnt = 0;

	sl_config_each_key(check_key, &cnt);
	ck_assert_uint_gt(cnt, 60);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config");
	TCase *values = tcase_create("values"), *errors = tcase_create("errors");
	SRunner *r;
	int failed;

	tcase_add_test(values, fills_the_struct);
	tcase_add_test(values, fills_pools_and_routes);
	tcase_add_test(values, routes_of_one_prefix_share_its_methods);
	tcase_add_test(values, has_defaults);
	tcase_add_test(values, braces_in_text_and_comments_are_none);
	tcase_add_test(values, cpus_tell_the_number_of_workers);
	tcase_add_test(values, tells_what_has_changed);
	tcase_add_test(values, tells_what_needs_a_restart);
	tcase_add_test(values, pools_and_backends_keep_their_places);
	tcase_add_test(values, places_are_bounded);
	tcase_add_test(values, what_needs_a_restart_stays);
	tcase_add_test(values, documents_each_key);
	suite_add_tcase(s, values);
	tcase_add_loop_test(errors, tells_what_is_wrong, 0, (int)SL_ARRAY_LEN(wrong));
	tcase_add_test(errors, cuts_a_long_error_at_the_buffer);
	tcase_add_test(errors, keeps_an_error_on_one_line);
	tcase_add_test(errors, loads_complete_files_only);
	tcase_add_test(errors, checks_the_system);
	suite_add_tcase(s, errors);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
