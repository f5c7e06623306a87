/* SPDX-License-Identifier: Apache-2.0 */
/* The admin endpoint: its answers, its roles, and clients that cannot keep others out. */
#include "control_bed.h"
#include "suite.h"

FIXTURE(set_up, tear_down)

TEST(answers_on_the_admin_endpoint)
{
	struct runner r = {.cut = 99};

	start(&r);
	expect("GET /livez", HOST, "200", "\r\n\r\nok\n");
	expect("GET /readyz", HOST, "200", "\r\n\r\nready\n");
	gw.ready = false;
	expect("GET /readyz", HOST, "503", "no backend of pool score is up");
	gw.ready = true;
	gw.faulty = true;
	expect("GET /readyz", HOST, "503", "interface sl0 is down");
	gw.faulty = false;
	expect("GET /metrics", HOST, "200", "text/plain; version=0.0.4");
	expect("GET /metrics", HOST, "200", "sluice_up 1\n");
	expect("GET /stats", HOST, "200", "\"ready\":true");
	expect("GET /", HOST, "200", "<title>sluice</title>");
	expect("GET /nowhere", HOST, "404", "/livez");
	expect("GET /set?pool=score&size=4", HOST, "405", "POST only");
	expect("POST /metrics", HOST, "405", "GET only");
	expect("PUT /set?pool=score&size=4", HOST, "405", "Allow: POST\r\n");
	expect("POST /stats", HOST, "405", "Allow: GET, HEAD\r\n");
	ck_assert_uint_eq(gw.ctl.batch_size, 0);
	expect_local("GET /livez", "200", "ok");
	expect_local("GET /stats", "200", "\"ready\":true");
	expect_local("POST /set?pool=score&size=4&bound=3ms", "200", "\"size\":4");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	ck_assert_uint_eq(gw.ctl.bound_ns, 3000000);
	expect_local("POST /set?pool=score&deadline=1s", "200", "\"size\":4");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	/* All or nothing. */
	expect_local("POST /set?pool=score&size=5&bound=x", "400", "found bound = \"x\"");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	expect_local("POST /set?pool=none&size=5", "404", "no such pool");
	expect_local("POST /set?size=5", "404", "no such pool");
	ck_assert(!gw.drain_called);
	expect_local("POST /drain", "200", "draining");
	finish(&r);
	ck_assert(gw.drain_called);
	ck_assert_uint_eq(r.cut, 2);
	ck_assert_int_eq(ready_calls, 1);
}

/* RFC 9110 9.3.2: the fields of GET, without its content. */
TEST(head_has_no_content)
{
	static const char *const paths[] = {"/",        "/dashboard.js", "/livez",   "/readyz",
					    "/metrics", "/stats",        "/history", "/nowhere"};
	struct runner r = {0};
	char line[64], request[200];

	start(&r);
	for (size_t i = 0; i < SL_ARRAY_LEN(paths); i++) {
		const char *answer, *end;

		snprintf(line, sizeof(line), "HEAD %s", paths[i]);
		answer = ask(line, HOST "Accept-Encoding: gzip, br\r\n");
		end = strstr(answer, "\r\n\r\n");
		ck_assert_msg(end && !end[4], "%s: %s", line, answer);
		ck_assert_msg(strstr(answer, "Content-Length: ") &&
				      !strstr(answer, "Content-Length: 0\r\n") &&
				      !strstr(answer, "Content-Encoding"),
			      "%s: %s", line, answer);
	}
	snprintf(request, sizeof(request), "HEAD /events HTTP/1.1\r\n" HOST "\r\n");
	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(strncmp(ask_until(request, NULL), "HTTP/1.1 200", 12), 0);
	ck_assert_ptr_nonnull(
		strstr(ask_until("GET /events HTTP/1.1\r\n" HOST "\r\n", "}\n\n"), "data: {"));
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(takes_prefixes_of_clients)
{
	static const uint8_t net[16] = {192, 0, 2};
	struct runner r = {0};

	start(&r);
	expect_local("POST /edge?interface=sl0&deny=192.0.2.0/24&allow=fd00::/8", "200",
		     "\"prefixes\":[{\"prefix\":\"192.0.2.0/24\",\"action\":\"deny\",\"by\":"
		     "\"operator\"},{\"prefix\":\"fd00::/8\",\"action\":\"allow\"");
	ck_assert_uint_eq(edge_cnt, 2);
	ck_assert_uint_eq(edge_rules[0].prefix.family, 4);
	ck_assert_uint_eq(edge_rules[0].prefix.len, 24);
	ck_assert_uint_eq(edge_rules[0].action, SL_PREFIX_DENY);
	ck_assert_uint_eq(edge_rules[0].origin, SL_PREFIX_OF_OPERATOR);
	ck_assert_mem_eq(edge_rules[0].prefix.addr, net, sizeof(net));
	expect_local("POST /edge?interface=sl0&deny=10.0.0.0/8&deny=192.0.2.1/24", "400",
		     "found deny = \"192.0.2.1/24\"; allowed: a prefix");
	expect_local("POST /edge?interface=sl0&size=4", "400", "allowed: interface, allow, deny");
	expect_local("POST /edge?interface=no0&deny=10.0.0.0/8", "404", "found interface \"no0\"");
	expect_local("POST /edge?deny=10.0.0.0/8", "404", "found interface");
	expect("POST /edge?interface=sl0&deny=0.0.0.0/0", HOST, "403", "a POST over TCP");
	ck_assert_uint_eq(edge_cnt, 2);
	expect_local("POST /edge?interface=sl0&forget=192.0.2.1", "200", "interface");
	ck_assert_uint_eq(edge_rules[0].action, 0);
	ck_assert_uint_eq(edge_rules[0].prefix.len, 32);
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* Any process on this host can connect to a port: it may only look. */
TEST(nothing_is_changed_over_tcp)
{
	static const char *const changes[] = {"POST /drain", "POST /reload",
					      "POST /set?pool=score&size=4"};
	struct runner r = {0};

	start(&r);
	for (size_t i = 0; i < SL_ARRAY_LEN(changes); i++) {
		expect(changes[i], HOST, "403", "found a POST over TCP; allowed: GET");
		expect(changes[i], HOST "Sluice-Admin: 1\r\n", "403", socket_path);
	}
	ck_assert_uint_eq(gw.ctl.batch_size, 0);
	ck_assert(!gw.drain_called);
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(pages_from_elsewhere_are_refused)
{
	struct runner r = {0};

	start(&r);
	expect("GET /stats", "Host: attacker.example:" BED_PORT_TEXT "\r\n", "421",
	       "a foreign Host");
	expect("GET /livez", "Host: attacker.example\r\n", "421", "a foreign Host");
	expect("GET /stats", HOST "Origin: http://attacker.example\r\n", "403", "a foreign page");
	expect("GET /events", HOST "Sec-Fetch-Site: cross-site\r\n", "403", "a foreign page");
	expect("GET /stats", HOST "Sec-Fetch-Site: same-site\r\n", "403", "a foreign page");
	expect("GET /stats",
	       HOST "Origin: http://127.0.0.1:" BED_PORT_TEXT "\r\nSec-Fetch-Site: same-origin\r\n",
	       "200", "ready");
	expect("GET /stats", "Host: LOCALHOST:" BED_PORT_TEXT "\r\n", "200", "ready");
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* More than there are places of any kind: the oldest of them go, probes and operators come in. */
TEST(silent_connections_do_not_keep_others_out)
{
	enum { SILENT = 200 };
	static const char half[] = "GET /metrics HTTP/1.1\r\nHost:";
	struct runner r = {0};
	int fds[SILENT], local[SILENT];

	start(&r);
	for (int i = 0; i < SILENT; i++) {
		fds[i] = dial();
		if (i % 2)
			ck_assert_int_eq(write(fds[i], half, strlen(half)), (ssize_t)strlen(half));
		local[i] = dial_unix();
		ck_assert_int_ge(local[i], 0);
		if (i % 16 == 0)
			expect("GET /livez", HOST, "200", "ok");
	}
	expect("GET /livez", HOST, "200", "ok");
	expect("GET /readyz", HOST, "200", "ready");
	expect("GET /metrics", HOST, "200", "sluice_up");
	expect_local("POST /set?pool=score&size=4", "200", "\"size\":4");
	for (int i = 0; i < SILENT; i++) {
		close(fds[i]);
		close(local[i]);
	}
	kill(getpid(), SIGTERM);
	finish(&r);
}

/*
 * More than there are places of its kind: what is ready to be sent and never read, a page of events,
 * a probe whose body does not come.
 */
TEST_EACH(open_connections_do_not_keep_others_out, 4)
{
	enum { STAYS = 100 };
	static const char *const requests[] = {
		"GET /events HTTP/1.1\r\n" HOST "\r\n",
		"GET /metrics HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n",
		"GET /livez HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n",
		"GET /events HTTP/1.1\r\n\r\n",
	};
	struct runner r = {0};
	int fds[STAYS];

	start(&r);
	for (int i = 0; i < STAYS; i++) {
		fds[i] = _i == 3 ? dial_unix() : dial();
		ck_assert_int_gt(write(fds[i], requests[_i], strlen(requests[_i])), 0);
	}
	for (int i = 0; i < 10; i++)
		expect("GET /livez", HOST, "200", "ok");
	expect("GET /metrics", HOST, "200", "sluice_up");
	ck_assert_ptr_nonnull(
		strstr(ask_until("GET /events HTTP/1.1\r\n" HOST "\r\n", "}\n\n"), "data: {"));
	expect_local("POST /set?pool=score&size=4", "200", "\"size\":4");
	for (int i = 0; i < STAYS; i++)
		close(fds[i]);
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(a_head_has_an_end)
{
	static char request[20000] = "GET /livez HTTP/1.1\r\nX: ";
	struct runner r = {0};
	const char *answer;

	start(&r);
	memset(request + strlen(request), 'x', sizeof(request) - 100);
	answer = ask_until(request, "\r\n\r\n");
	ck_assert_msg(strncmp(answer, "HTTP/1.1 431 ", 13) == 0, "%s", answer);
	expect("GET /livez", HOST, "200", "ok");
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* --- roles: asked by a process of another account --- */

enum { STRANGER = 65534 };

static const char *not_told; /* the text that another user must not see */

/* The status that this account gets; 0: it may not even connect. */
static int status_for(uid_t uid, gid_t gid, gid_t further, const char *line)
{
	char request[200], answer[4096] = "";
	pid_t pid = fork();
	int status, fd;

	if (!pid) {
		ssize_t n = 0;

		if (setgroups(further ? 1 : 0, &further) != 0 || setgid(gid) != 0 ||
		    setuid(uid) != 0)
			_exit(255);
		fd = dial_unix();
		snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: x\r\n\r\n", line);
		if (fd >= 0 && write(fd, request, strlen(request)) > 0)
			n = read(fd, answer, sizeof(answer) - 1);
		if (not_told && strstr(answer, not_told))
			_exit(254);
		_exit(n > 12 ? atoi(answer + 9) / 2 : 0); /* an exit status has 8 bits */
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 254);
	return WEXITSTATUS(status) * 2;
}

TEST(strangers_change_nothing_on_the_socket)
{
	struct runner r = {0};

	start(&r);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "POST /drain"), 0);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "GET /stats"), 0);
	/* Even if the file's mode let them in. */
	ck_assert_int_eq(chmod(socket_path, 0666), 0);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "POST /drain"), 402);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "POST /reload"), 402);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "POST /set?pool=score&size=4"), 402);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "GET /stats"), 402);
	ck_assert_int_eq(status_for(0, 0, 0, "POST /set?pool=score&size=4"), 200);
	ck_assert(!gw.drain_called);
	kill(getpid(), SIGTERM);
	finish(&r);
}

static void set_up_group_that_reads(void)
{
	admin_keys = "group = daemon";
	set_up();
}

static void set_up_group_that_operates(void)
{
	admin_keys = "group = daemon group_role = operate owner = bin";
	set_up();
}

FIXTURE(set_up_group_that_reads, tear_down)

TEST(a_group_that_reads)
{
	enum { DAEMON = 1 };
	struct runner r = {0};

	start(&r);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "GET /stats"), 0);
	ck_assert_int_eq(status_for(STRANGER, DAEMON, 0, "GET /stats"), 200);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, DAEMON, "GET /stats"), 200);
	ck_assert_int_eq(status_for(STRANGER, DAEMON, 0, "POST /drain"), 402);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, DAEMON, "POST /reload"), 402);
	ck_assert(!gw.drain_called);
	kill(getpid(), SIGTERM);
	finish(&r);
}

FIXTURE(set_up_group_that_operates, tear_down)

TEST(a_group_and_an_owner_that_operate)
{
	enum { DAEMON = 1, BIN = 2 };
	struct runner r = {0};

	start(&r);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, 0, "GET /stats"), 0);
	ck_assert_int_eq(status_for(STRANGER, STRANGER, DAEMON, "POST /set?pool=score&size=4"),
			 200);
	ck_assert_int_eq(status_for(BIN, STRANGER, 0, "POST /set?pool=score&size=5"), 200);
	ck_assert_uint_eq(gw.ctl.batch_size, 5);
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* Only users that may read all that the gateway can see the contents of the file. */
TEST(a_config_mistake_is_shown_to_privileged_users_only)
{
	enum { BIN = 2 };
	struct runner r = {0};
	FILE *f;

	start(&r);
	f = fopen(r.file, "a");
	ck_assert_ptr_nonnull(f);
	fputs("secret = 1\n", f);
	fclose(f);
	expect_local("POST /reload", "400", "unknown key \"secret\"");
	not_told = "secret";
	ck_assert_int_eq(status_for(BIN, BIN, 0, "POST /reload"), 400);
	kill(getpid(), SIGTERM);
	finish(&r);
}

FIXTURE(set_up, tear_down)

TEST(a_socket_left_behind_is_replaced)
{
	struct sl_control_options o = {.gateway = &gw, .config = cfg};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct runner r = {0};

	strcpy(sun.sun_path, socket_path);
	unlink(socket_path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	close(fd); /* the name stays, as of a gateway that was killed */
	start(&r);
	expect_local("GET /livez", "200", "ok");
	/* A socket with a listener is not replaced. */
	ck_assert_ptr_null(sl_control_open(&o, &err));
	ck_assert_msg(strstr(err.text, "admin socket /tmp/") &&
			      strstr(err.text, "Address already in use"),
		      "%s", err.text);
	expect_local("GET /livez", "200", "ok");
	kill(getpid(), SIGTERM);
	finish(&r);
	ck_assert_int_eq(access(socket_path, F_OK), -1);
}

/* --- a token --- */

static void write_token(const char *text, mode_t mode)
{
	FILE *f = fopen(token_path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(token_path, mode), 0);
}

static void set_up_token(void)
{
	static char keys[160];

	snprintf(keys, sizeof(keys), "token_file = \"%s\" hosts = {gate.example, \"a:80\"}",
		 token_path);
	admin_keys = keys;
	write_token("0123456789abcdef\n", 0600);
	set_up();
}

FIXTURE(set_up_token, tear_down)

#define A50        "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
#define LONG_BASIC HOST "Authorization: Basic " A50 A50 A50 A50 A50 A50 A50 A50 A50 A50 A50 "\r\n"

TEST(requests_without_the_token_are_refused)
{
	struct runner r = {0};

	start(&r);
	expect("GET /stats", HOST, "401", "WWW-Authenticate: Bearer");
	expect("GET /stats", HOST "Authorization: Bearer 0123456789abcdeF\r\n", "401", "no token");
	expect("GET /stats", HOST "Authorization: Bearer 0123456789abcde\r\n", "401", "no token");
	expect("GET /stats", HOST "Authorization: Bearer 0123456789abcdef0\r\n", "401", "no");
	expect("GET /stats", HOST "Authorization: Basic 0123456789abcdef\r\n", "401", "no token");
	/* The browser's request and its answer: the token is the password, of any user. */
	expect("GET /stats", HOST, "401", "WWW-Authenticate: Basic realm=\"sluice\"");
	expect("GET /stats", HOST "Authorization: Basic YWRtaW46MDEyMzQ1Njc4OWFiY2RlZg==\r\n",
	       "200", "ready"); /* admin:0123456789abcdef */
	expect("GET /stats", HOST "Authorization: basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n", "200",
	       "ready"); /* :0123456789abcdef */
	expect("GET /stats", HOST "Authorization: Basic YWRtaW46MDEyMzQ1Njc4OWFiY2RlRg==\r\n",
	       "401", "no token"); /* ...deF */
	expect("GET /stats", HOST "Authorization: Basic MDEyMzQ1Njc4OWFiY2RlZg==\r\n", "401",
	       "no token"); /* no user */
	expect("GET /stats", HOST "Authorization: Basic YWRtaW46\r\n", "401", "no token");
	expect("GET /stats", HOST "Authorization: Basic \r\n", "401", "no token");
	expect("GET /stats", HOST "Authorization: Basic YWRt!W46\r\n", "401", "no token");
	expect("GET /stats", LONG_BASIC, "401", "no token");
	expect("GET /stats", HOST "Authorization: Bearer 0123456789abcdef\r\n", "200", "ready");
	expect("GET /stats", "Host: gate.example\r\nAuthorization: bearer 0123456789abcdef\r\n",
	       "200", "ready");
	expect("GET /livez", HOST, "200", "ok");
	gw.ready = false;
	expect("GET /readyz", HOST, "503", "\r\n\r\nnot ready\n");
	expect("GET /readyz", HOST "Authorization: Bearer 0123456789abcdef\r\n", "503",
	       "no backend of pool score is up");
	expect_local("GET /stats", "200", "ready");
	kill(getpid(), SIGTERM);
	finish(&r);
	unlink(token_path);
}

#define T64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(token_file_of_the_longest_token_is_read)
{
	struct sl_control_options o = {.gateway = &gw, .config = cfg};
	struct sl_control *ctl;

	write_token(T64 T64 T64 T64 "\r\n", 0600);
	ctl = sl_control_open(&o, &err);
	ck_assert_msg(ctl != NULL, "%s", err.text);
	sl_control_close(ctl);
	unlink(token_path);
}

TEST(unusable_token_file_is_refused)
{
	static const struct {
		const char *text, *why;
		mode_t mode;
	} tests[] = {
		{"0123456789abcdef", "only its owner may read", 0640},
		{"0123456789abcdef", "only its owner may read", 0602},
		{"0123456789abcde\n", "found 15 characters", 0600},
		{T64 T64 T64 T64 "x", "found 257 characters", 0600},
		{T64 T64 T64 T64 "x\n", "found 257 characters", 0600},
		{T64 T64 T64 T64 T64 T64 T64 T64, "found more", 0600},
		{"0123456789abcdef\n0123456789abcdef\n", "found a space", 0600},
	};
	struct sl_control_options o = {.gateway = &gw, .config = cfg};

	for (size_t i = 0; i < SL_ARRAY_LEN(tests); i++) {
		write_token(tests[i].text, tests[i].mode);
		ck_assert_ptr_null(sl_control_open(&o, &err));
		ck_assert_msg(strstr(err.text, tests[i].why) != NULL, "%s", err.text);
		ck_assert_ptr_nonnull(strstr(err.text, "; allowed: "));
	}
	unlink(token_path);
	ck_assert_ptr_null(sl_control_open(&o, &err));
	ck_assert_msg(strstr(err.text, "No such file") != NULL, "%s", err.text);
}

FIXTURE(set_up, tear_down)

TEST(events_come_by_themselves)
{
	static const char request[] = "GET /events HTTP/1.1\r\n" HOST "\r\n";
	struct runner r = {0};
	const char *answer, *first, *second;

	start(&r);
	answer = ask_until("GET /events HTTP/1.1\r\n" HOST "\r\n", "}\n\n");
	ck_assert_ptr_nonnull(strstr(answer, "text/event-stream"));
	ck_assert_ptr_nonnull(strstr(answer, "data: {\"time_ns\":"));
	/* The second event comes by itself. */
	int fd = dial();
	static char text[1 << 18];
	size_t len = 0;
	ssize_t n;

	ck_assert_int_gt(write(fd, request, strlen(request)), 0);
	do {
		n = read(fd, text + len, sizeof(text) - 1 - len);
		ck_assert_int_gt(n, 0);
		len += (size_t)n;
		text[len] = 0;
		first = strstr(text, "data: {");
		second = first ? strstr(first + 1, "data: {") : NULL;
	} while (!second);
	/* An open stream does not hold up the end. */
	kill(getpid(), SIGTERM);
	finish(&r);
	close(fd);
}
