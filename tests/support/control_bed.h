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

#include "netns.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"
#include "control/admin.h"
#include "control/metrics.h"

/* --- the gateway --- */

struct sl_gateway {
	struct sl_gateway_info info;
	struct sl_svc_hist hist[2][1][SL_STAGE_CNT];
	struct sl_svc_live live[2];
	struct sl_svc_ctl ctl;
	struct sl_ring *events[2];
	atomic_bool ready, closed, faulty, drain_called, drain_done;
	struct sl_config *reloaded; /* what it was given, and takes after `busy` steps */
	int busy, refuses;
};

static struct sl_gateway gw;
static struct sl_config *cfg;
static struct sl_err err = SL_ERR(512);

const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g)
{
	return &g->info;
}

const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t service, enum sl_stage stage)
{
	return &g->hist[worker][service][stage];
}

void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t service,
		     struct sl_svc_live *out)
{
	(void)service;
	*out = g->live[worker];
}

uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool)
{
	(void)g;
	return pool;
}

struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t service)
{
	(void)service;
	return &g->ctl;
}

struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker)
{
	return worker < 2 ? g->events[worker] : NULL;
}

bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why)
{
	if (!g->ready)
		sl_err_set(why, "no backend of pool score is up");
	return g->ready;
}

bool sl_gateway_is_open(const struct sl_gateway *g)
{
	return !g->closed;
}

void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len)
{
	snprintf(text, len, "%s",
		 g->closed  ? "connecting"
		 : g->ready ? "serving"
			    : "no backend: a");
}

bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why)
{
	if (g->faulty)
		sl_err_set(why, "interface sl0 is down");
	return g->faulty;
}

bool sl_gateway_drain(struct sl_gateway *g)
{
	g->drain_called = true;
	return g->drain_done;
}

int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *why)
{
	if (g->busy)
		return -EBUSY;
	if (g->refuses)
		return sl_fail(why, -EINVAL, "no room");
	sl_config_free(g->reloaded);
	g->reloaded = next;
	g->info.cfg = next;
	return 0;
}

bool sl_gateway_step(struct sl_gateway *g)
{
	return g->busy && g->busy--;
}

static struct sl_edge_rule edge_rules[8];
static uint32_t edge_cnt;

int sl_gateway_edge_change(struct sl_gateway *g, const char *ifname,
			   const struct sl_edge_rule *rules, uint32_t cnt, struct sl_err *why)
{
	(void)g;
	if (strcmp(ifname, "sl0") != 0)
		return sl_fail(why, -ENODEV, "found interface \"%s\"", ifname);
	memcpy(edge_rules, rules, cnt * sizeof(*rules));
	edge_cnt = cnt;
	return 0;
}

int sl_gateway_edge_list(struct sl_gateway *g, const char *ifname, struct sl_edge_rule *rules,
			 uint32_t max)
{
	(void)g, (void)ifname, (void)max;
	memcpy(rules, edge_rules, edge_cnt * sizeof(*rules));
	return (int)edge_cnt;
}

const char *sl_port_mode_name(enum sl_port_mode mode)
{
	return mode == SL_PORT_GENERIC ? "generic" : "other";
}

static const char config_text[] = "log_level = warn user = root\n"
				  "pool score { backend a { endpoint = \"shm:///a\" } }\n"
				  "limits { drain_timeout = %s }\n"
				  "admin { port = " BED_PORT_TEXT " socket = \"%s\" %s }\n";

static char socket_path[64], token_path[64]; /* one for all tests of a run */
static const char *admin_keys = "";          /* further keys of admin { } */

/* Before the tests, which are processes of their own: names and a network for all, and for nobody else. */
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
	static struct sl_worker_info workers[2];
	static struct sl_interface_info iface = {"sl0", "native, \"single\" program", {0}};
	static struct sl_backend_info backends[1];
	char text[600];

	snprintf(text, sizeof(text), config_text, "10s", socket_path, admin_keys);
	cfg = sl_config_parse(text, "c.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	memset(&gw, 0, sizeof(gw));
	iface.verdicts[SL_RX_PASS_FRAGMENT] = 5;
	backends[0] = (struct sl_backend_info){
		.pool = "score", .name = "a", .info = "shm /a", .state = SL_RPC_UP};
	backends[0].stats.replies = 9;
	for (int w = 0; w < 2; w++) {
		workers[w] = (struct sl_worker_info){.cpu = w, .frames = 100, .frames_free = 98};
		workers[w].backends = backends;
		workers[w].backend_cnt = 1;
		workers[w].port_cnt = 1;
		workers[w].ports[0] =
			(struct sl_port_info){"sl0", (uint16_t)w, SL_PORT_GENERIC, {0}};
		workers[w].drops[SL_DROP_TCP_PAWS] = 3;
		workers[w].core.outcomes[SL_OUTCOME_EXPIRED] = 4;
		workers[w].core.front_errors[SL_FRONT_ERR_SMUGGLING] = 2;
		workers[w].core.requests = 70;
		workers[w].udp.datagrams_in = 21;
		workers[w].h2.streams = 22;
		workers[w].exchanges_used = 1;
	}
	gw.info = (struct sl_gateway_info){.cfg = cfg,
					   .service_max = 1,
					   .start_ns = 1,
					   .workers = workers,
					   .worker_cnt = 2,
					   .interfaces = &iface,
					   .interface_cnt = 1};
	gw.live[0].batch_cap = 17;
	gw.ready = true;
	gw.drain_done = true;
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
	fprintf(f, "interface lo { } listener a { port = 1 } route / { reply = 200 }\n");
	fclose(f);
}

static void start(struct runner *r)
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

static void finish(struct runner *r)
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

static void expect(const char *line, const char *header, const char *status, const char *text)
{
	const char *answer = ask(line, header);

	ck_assert_msg(strncmp(answer + 9, status, 3) == 0 && strstr(answer, text), "%s: %s", line,
		      answer);
}

#define HOST "Host: 127.0.0.1:" BED_PORT_TEXT "\r\n"

#endif
