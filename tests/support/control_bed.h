/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread over a gateway made of constants, and how it is run and asked. */
#ifndef SL_TESTS_CONTROL_BED_H
#define SL_TESTS_CONTROL_BED_H

/* In a network of the program's own. */
#define BED_PORT       19977
#define BED_TEXT_OF(x) #x
#define BED_TEXT(x)    BED_TEXT_OF(x)
#define BED_PORT_TEXT  BED_TEXT(BED_PORT)

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_gateway.h"
#include "netns.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"
#include "control/admin.h"
#include "control/metrics.h"

/* --- the gateway --- */

static struct sl_config *cfg;
static struct sl_err err = SL_ERR(512);

static const char config_text[] = "log_level = warn user = root\n"
				  "pool score { backend a { endpoint = \"shm:///a\" } }\n"
				  "limits { drain_timeout = %s }\n"
				  "admin { port = " BED_PORT_TEXT " socket = \"%s\" %s }\n";

static char socket_path[64], token_path[64]; /* one for all tests of a run */
static const char *admin_keys = "";          /* further keys of admin { } */

/*
 * Runs before the tests, which are processes of their own: names and a network for all of them
 * only.
 */
__attribute__((constructor)) static void make_surroundings(void)
{
	if (test_netns_enter() != 0) {
		fprintf(stderr, "no network namespace: this test needs root\n");
		exit(EXIT_FAILURE);
	}
	snprintf(socket_path, sizeof(socket_path), "/tmp/sl-control-%d.sock", getpid());
	snprintf(token_path, sizeof(token_path), "/tmp/sl-control-%d.token", getpid());
}

static void set_up(void)
{
	char text[600];

	snprintf(text, sizeof(text), config_text, "10s", socket_path, admin_keys);
	cfg = sl_config_parse(text, "c.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	gw_fill(cfg);
}

static void tear_down(void)
{
	sl_config_free(gw.reloaded);
	sl_config_free(cfg);
}

/* --- the loop and the endpoint --- */

struct runner {
	struct sl_control *c;
	pthread_t thread;
	uint32_t cut;
	char file[32];
};

static atomic_int ready_calls;

static void on_ready(void *arg)
{
	(void)arg;
	ready_calls++;
}

static void *run_loop(void *arg)
{
	struct runner *r = arg;

	r->cut = sl_control_run(r->c);
	return NULL;
}

static void write_config(struct runner *r, const char *drain)
{
	FILE *f;

	if (!r->file[0]) {
		strcpy(r->file, "/tmp/sl-control-XXXXXX");
		close(mkstemp(r->file));
	}
	f = fopen(r->file, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, config_text, drain, socket_path, admin_keys);
	fprintf(f,
		"interface lo { } listener a { port = 1 } route / { respond { status = 200 } }\n");
	fclose(f);
}

__attribute__((unused)) static void start(struct runner *r)
{
	struct sl_control_options o = {
		.gateway = &gw, .config = cfg, .on_ready = on_ready, .config_file = r->file};

	sl_control_block_signals();
	if (!r->file[0])
		write_config(r, "10s");
	r->c = sl_control_open(&o, &err);
	ck_assert_msg(r->c != NULL, "%s", err.text);
	ck_assert_int_eq(pthread_create(&r->thread, NULL, run_loop, r), 0);
}

__attribute__((unused)) static void finish(struct runner *r)
{
	ck_assert_int_eq(pthread_join(r->thread, NULL), 0);
	sl_control_close(r->c);
	unlink(r->file);
}

static int dial(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(BED_PORT)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

static int dial_unix(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(sun.sun_path, socket_path);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Sends a request and returns all of the answer, or what has come until `until` stands in it. */
static const char *ask_at(int fd, const char *request, const char *until)
{
	static char answer[1 << 18];
	size_t len = 0;
	ssize_t n;

	ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	while ((n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0) {
		len += (size_t)n;
		answer[len] = 0;
		if (until && strstr(answer, until))
			break;
	}
	answer[len] = 0;
	close(fd);
	return answer;
}

static const char *ask_until(const char *request, const char *until)
{
	return ask_at(dial(), request, until);
}

static const char *ask(const char *line, const char *header)
{
	char request[1000];

	snprintf(request, sizeof(request), "%s HTTP/1.1\r\n%s\r\n", line, header);
	return ask_until(request, NULL);
}

/* The same on the Unix socket. */
__attribute__((unused)) static void expect_local(const char *line, const char *status,
						 const char *text)
{
	char request[1000];
	const char *answer;

	snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: x\r\n\r\n", line);
	answer = ask_at(dial_unix(), request, NULL);
	ck_assert_msg(strncmp(answer + 9, status, 3) == 0 && strstr(answer, text), "%s: %s", line,
		      answer);
}

__attribute__((unused)) static void expect(const char *line, const char *header, const char *status,
					   const char *text)
{
	const char *answer = ask(line, header);

	ck_assert_msg(strncmp(answer + 9, status, 3) == 0 && strstr(answer, text), "%s: %s", line,
		      answer);
}

#define HOST "Host: 127.0.0.1:" BED_PORT_TEXT "\r\n"

#endif
