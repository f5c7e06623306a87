/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread over a gateway made of constants: what it prints, answers, and ends for. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
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
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
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
	atomic_bool ready, faulty, drain_called, drain_done;
	struct sl_config *reloaded; /* what it was given, and takes after `busy` steps */
	int busy, refuses;
};

static struct sl_gateway gw;
static struct sl_config *cfg;
static char err[512];

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

struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t service)
{
	(void)service;
	return &g->ctl;
}

bool sl_gateway_ready(const struct sl_gateway *g, char *why, size_t why_len)
{
	if (!g->ready)
		snprintf(why, why_len, "no backend of pool score is up");
	return g->ready;
}

bool sl_gateway_fault(const struct sl_gateway *g, char *why, size_t why_len)
{
	if (g->faulty)
		snprintf(why, why_len, "interface sl0 is down");
	return g->faulty;
}

bool sl_gateway_drain(struct sl_gateway *g)
{
	g->drain_called = true;
	return g->drain_done;
}

int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, char *why, size_t why_len)
{
	if (g->busy)
		return -EBUSY;
	if (g->refuses) {
		snprintf(why, why_len, "no room");
		return -EINVAL;
	}
	sl_config_free(g->reloaded);
	g->reloaded = next;
	g->info.cfg = next;
	return 0;
}

bool sl_gateway_step(struct sl_gateway *g)
{
	return g->busy && g->busy--;
}

const char *sl_port_mode_name(enum sl_port_mode mode)
{
	return mode == SL_PORT_GENERIC ? "generic" : "other";
}

static const char config_text[] = "log_level = warn\n"
				  "pool score { backend a { endpoint = \"shm:///a\" } }\n"
				  "limits { drain_timeout = %s }\n"
				  "admin { port = 19977 }\n";

static void set_up(void)
{
	static struct sl_worker_info workers[2];
	static struct sl_interface_info iface = {"sl0", "native, \"single\" program", {0}};
	static struct sl_backend_info backends[1];
	char text[400];

	snprintf(text, sizeof(text), config_text, "10s");
	cfg = sl_config_parse(text, "c.conf", err, sizeof(err));
	ck_assert_msg(cfg != NULL, "%s", err);
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

static void add_sample(unsigned worker, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h = &gw.hist[worker][0][stage];

	h->count++;
	h->sum_ns += ns;
	h->bucket[sl_hist_bucket(ns)]++;
}

/* --- metrics --- */

static char *render(struct sl_strbuf *b)
{
	sl_strbuf_grow(b, 1 << 20);
	sl_metrics_render(&gw, b);
	ck_assert_int_eq(b->err, 0);
	return b->ptr;
}

START_TEST(metrics_have_the_text_format)
{
	/* A comment, or name{labels} value. Each family has its HELP and TYPE before its samples.
	 */
	static const char form[] = "^(# (HELP|TYPE) sluice_[a-z0-9_]+ "
				   ".+|sluice_[a-z0-9_]+(\\{([a-z_]+=\"([^\"\\\\]|\\\\.)*\",?)"
				   "+\\})? -?[0-9.e+-]+)$";
	struct sl_strbuf b;
	char *save, family[100] = "";
	regex_t re;

	ck_assert_int_eq(regcomp(&re, form, REG_EXTENDED | REG_NOSUB), 0);
	render(&b);
	for (char *line = strtok_r(b.ptr, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		ck_assert_msg(regexec(&re, line, 0, NULL, 0) == 0, "%s", line);
		if (sscanf(line, "# TYPE %99s", family) != 1 && line[0] != '#')
			ck_assert_msg(strncmp(line, family, strlen(family)) == 0, "%s after %s",
				      line, family);
	}
	regfree(&re);
	sl_strbuf_fini(&b);
}
END_TEST

START_TEST(metrics_have_each_counter_by_name)
{
	static const char *const lines[] = {
		"sluice_up 1\n",
		"sluice_rx_packets_total{interface=\"sl0\",verdict=\"pass_fragment\"} 5\n",
		"sluice_interface_info{interface=\"sl0\",attach=\"native, \\\"single\\\" "
		"program\"} 1\n",
		"sluice_port_info{worker=\"1\",interface=\"sl0\",queue=\"1\",mode=\"generic\"} 1\n",
		"sluice_drops_total{worker=\"1\",reason=\"tcp_paws\"} 3\n",
		"sluice_exchanges_total{worker=\"0\",outcome=\"expired\"} 4\n",
		"sluice_front_errors_total{worker=\"0\",error=\"smuggling\"} 2\n",
		"sluice_requests_total{worker=\"0\"} 70\n",
		"sluice_worker_frames_free{worker=\"0\"} 98\n",
		"sluice_backend_up{worker=\"0\",pool=\"score\",backend=\"a\"} 1\n",
		"sluice_backend_replies_total{worker=\"0\",pool=\"score\",backend=\"a\"} 9\n",
		"sluice_service_batch_cap{worker=\"0\",pool=\"score\"} 17\n",
	};
	struct sl_strbuf b;

	render(&b);
	for (size_t i = 0; i < SL_ARRAY_LEN(lines); i++)
		ck_assert_msg(strstr(b.ptr, lines[i]) != NULL, "%s", lines[i]);
	sl_strbuf_fini(&b);
}
END_TEST

START_TEST(metrics_sum_histograms_over_workers)
{
	struct sl_strbuf b;

	add_sample(0, SL_STAGE_RPC, 1000);
	add_sample(1, SL_STAGE_RPC, 1025);
	add_sample(1, SL_STAGE_RPC, UINT64_C(60000000000));
	render(&b);
	ck_assert_ptr_nonnull(strstr(b.ptr, "{pool=\"score\",stage=\"rpc\",le=\"1.024e-06\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "{pool=\"score\",stage=\"rpc\",le=\"2.048e-06\"} 2\n"));
	ck_assert_ptr_nonnull(
		strstr(b.ptr, "{pool=\"score\",stage=\"rpc\",le=\"17.17986918\"} 2\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "{pool=\"score\",stage=\"rpc\",le=\"+Inf\"} 3\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "sum{pool=\"score\",stage=\"rpc\"} 60.000002025\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "count{pool=\"score\",stage=\"rpc\"} 3\n"));
	sl_strbuf_fini(&b);
}
END_TEST

/* --- stats --- */

static json_int_t stat_int(json_t *o, const char *stage, const char *key)
{
	json_t *services = json_object_get(o, "services");
	json_t *stages = json_object_get(json_array_get(services, 0), "stages");

	return json_integer_value(
		json_object_get(json_object_get(json_object_get(stages, stage), "recent"), key));
}

START_TEST(stats_tell_recent_quantiles)
{
	struct sl_window w;
	json_t *o;

	ck_assert_int_eq(sl_window_init(&w, 1), 0);
	for (int i = 0; i < 100; i++)
		add_sample(0, SL_STAGE_TOTAL, 1000000);
	/* Two ticks later those hundred are no longer recent. */
	sl_window_tick(&w, &gw, UINT64_C(10000000000));
	o = sl_stats_json(&gw, &w);
	ck_assert_int_eq(stat_int(o, "total", "count"), 100);
	json_decref(o);
	sl_window_tick(&w, &gw, UINT64_C(10000000001)); /* too early: nothing happens */
	o = sl_stats_json(&gw, &w);
	ck_assert_int_eq(stat_int(o, "total", "count"), 100);
	json_decref(o);
	sl_window_tick(&w, &gw, UINT64_C(12000000001));
	add_sample(1, SL_STAGE_TOTAL, 5000000);
	o = sl_stats_json(&gw, &w);
	ck_assert_int_eq(stat_int(o, "total", "count"), 1);
	ck_assert_int_gt(stat_int(o, "total", "p50_ns"), 4000000);
	ck_assert_int_eq(
		json_integer_value(json_object_get(
			json_object_get(json_array_get(json_object_get(o, "workers"), 0), "drops"),
			"tcp_paws")),
		3);
	json_decref(o);
	sl_window_fini(&w);
}
END_TEST

START_TEST(overrides_are_parsed_and_given_back)
{
	struct sl_svc_ctl c = {0};

	ck_assert_int_eq(sl_override_set(&c, "size", "8", err, sizeof(err)), 0);
	ck_assert_int_eq(sl_override_set(&c, "hold", "0", err, sizeof(err)), 0);
	ck_assert_int_eq(sl_override_set(&c, "bound", "20ms", err, sizeof(err)), 0);
	ck_assert_int_eq(sl_override_set(&c, "deadline", "1s", err, sizeof(err)), 0);
	ck_assert_int_eq(sl_override_set(&c, "shed", "0.5", err, sizeof(err)), 0);
	ck_assert_uint_eq(c.batch_size, 8);
	ck_assert_uint_eq(c.hold_ns, 1);
	ck_assert_uint_eq(c.bound_ns, 20000000);
	ck_assert_uint_eq(c.deadline_ns, 1000000000);
	ck_assert_uint_eq(c.shed_level, 32769);
	ck_assert_int_eq(sl_override_set(&c, "shed", "0", err, sizeof(err)), 0);
	ck_assert_uint_eq(c.shed_level, 1);
	ck_assert_int_eq(sl_override_set(&c, "size", "auto", err, sizeof(err)), 0);
	ck_assert_int_eq(sl_override_set(&c, "hold", "auto", err, sizeof(err)), 0);
	ck_assert_uint_eq(c.batch_size, 0);
	ck_assert_uint_eq(c.hold_ns, 0);
	ck_assert_uint_eq(c.bound_ns, 20000000);
	ck_assert_int_ne(sl_override_set(&c, "size", "0", err, sizeof(err)), 0);
	ck_assert_str_eq(err, "found size = \"0\"; allowed: 1 to 1024, or auto");
	ck_assert_int_ne(sl_override_set(&c, "size", "1025", err, sizeof(err)), 0);
	ck_assert_int_ne(sl_override_set(&c, "bound", "0", err, sizeof(err)), 0);
	ck_assert_int_ne(sl_override_set(&c, "bound", "5", err, sizeof(err)), 0);
	ck_assert_int_ne(sl_override_set(&c, "shed", "1.5", err, sizeof(err)), 0);
	ck_assert_int_ne(sl_override_set(&c, "shed", "", err, sizeof(err)), 0);
	ck_assert_int_ne(sl_override_set(&c, "sizes", "1", err, sizeof(err)), 0);
	ck_assert_uint_eq(c.batch_size, 0);
}
END_TEST

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
	fprintf(f, config_text, drain);
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
	r->c = sl_control_open(&o, err, sizeof(err));
	ck_assert_msg(r->c != NULL, "%s", err);
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
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(19977)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

/* Sends a request and returns all of the answer, or what has come until `until` stands in it. */
static const char *ask_until(const char *request, const char *until)
{
	static char answer[1 << 18];
	size_t len = 0;
	ssize_t n;
	int fd = dial();

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

static const char *ask(const char *line, const char *header)
{
	char request[400];

	snprintf(request, sizeof(request), "%s HTTP/1.0\r\nHost: x\r\n%s\r\n", line, header);
	return ask_until(request, NULL);
}

static void expect(const char *line, const char *header, const char *status, const char *text)
{
	const char *answer = ask(line, header);

	ck_assert_msg(strncmp(answer + 9, status, 3) == 0 && strstr(answer, text), "%s: %s", line,
		      answer);
}

#define PROOF "Sluice-Admin: 1\r\n"

START_TEST(answers_on_the_admin_endpoint)
{
	struct runner r = {.cut = 99};

	start(&r);
	expect("GET /livez", "", "200", "\r\n\r\nok\n");
	expect("GET /readyz", "", "200", "\r\n\r\nready\n");
	gw.ready = false;
	expect("GET /readyz", "", "503", "no backend of pool score is up");
	gw.ready = true;
	gw.faulty = true;
	expect("GET /readyz", "", "503", "interface sl0 is down");
	gw.faulty = false;
	expect("GET /metrics", "", "200", "text/plain; version=0.0.4");
	expect("GET /metrics", "", "200", "sluice_up 1\n");
	expect("GET /stats", "", "200", "\"ready\":true");
	expect("GET /", "", "200", "<title>sluice</title>");
	expect("GET /nowhere", "", "404", "/livez");
	expect("GET /set?pool=score&size=4", "", "405", "POST only");
	expect("POST /metrics", PROOF, "405", "GET only");
	expect("POST /set?pool=score&size=4", "", "403", "Sluice-Admin");
	expect("POST /drain", "", "403", "Sluice-Admin");
	ck_assert_uint_eq(gw.ctl.batch_size, 0);
	expect("POST /set?pool=score&size=4&bound=3ms", PROOF, "200", "\"size\":4");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	ck_assert_uint_eq(gw.ctl.bound_ns, 3000000);
	expect("POST /set?pool=score&deadline=1s", PROOF, "200", "\"size\":4");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	/* All or nothing. */
	expect("POST /set?pool=score&size=5&bound=x", PROOF, "400", "found bound = \"x\"");
	ck_assert_uint_eq(gw.ctl.batch_size, 4);
	expect("POST /set?pool=none&size=5", PROOF, "404", "no such pool");
	expect("POST /set?size=5", PROOF, "404", "no such pool");
	ck_assert(!gw.drain_called);
	expect("POST /drain", PROOF, "200", "draining");
	finish(&r);
	ck_assert(gw.drain_called);
	ck_assert_uint_eq(r.cut, 2);
	ck_assert_int_eq(ready_calls, 1);
}
END_TEST

START_TEST(streams_events)
{
	struct runner r = {0};
	const char *answer, *first, *second;

	start(&r);
	answer = ask_until("GET /events HTTP/1.1\r\nHost: x\r\n\r\n", "}\n\n");
	ck_assert_ptr_nonnull(strstr(answer, "text/event-stream"));
	ck_assert_ptr_nonnull(strstr(answer, "data: {\"time_ns\":"));
	/* The second event comes by itself. */
	int fd = dial();
	static char text[1 << 18];
	size_t len = 0;
	ssize_t n;

	ck_assert_int_gt(write(fd, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n", 34), 0);
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
END_TEST

START_TEST(a_second_signal_ends_at_once)
{
	struct runner r = {0};

	gw.drain_done = false;
	cfg->limits.drain_timeout_ns = UINT64_C(100000000000); /* beyond the test's */
	start(&r);
	kill(getpid(), SIGTERM);
	while (!gw.drain_called)
		usleep(1000);
	expect("GET /readyz", "", "503", "draining");
	kill(getpid(), SIGINT);
	finish(&r);
	ck_assert_uint_eq(r.cut, 2);
}
END_TEST

START_TEST(draining_is_bounded)
{
	struct runner r = {0};

	gw.drain_done = false;
	cfg->limits.drain_timeout_ns = 1000000;
	start(&r);
	kill(getpid(), SIGTERM);
	finish(&r);
	ck_assert(gw.drain_called);
}
END_TEST

static void wait_for_log(int fd, const char *text, char *log, size_t max)
{
	size_t len = strlen(log);

	while (!strstr(log, text)) {
		ssize_t n = read(fd, log + len, max - 1 - len);

		ck_assert_int_gt(n, 0);
		len += (size_t)n;
		log[len] = 0;
	}
}

START_TEST(reloads_what_can_be)
{
	struct runner r = {0};
	char log[4096] = "";
	int fds[2];
	FILE *f;

	ck_assert_int_eq(pipe(fds), 0);
	sl_log_fd_set(fds[1]);
	gw.drain_done = false;
	cfg->limits.drain_timeout_ns = UINT64_C(100000000000);
	start(&r);
	write_config(&r, "1ms");
	f = fopen(r.file, "a");
	ck_assert_ptr_nonnull(f);
	fputs("workers { count = 1 }\n", f);
	fclose(f);
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0],
		     "in force: limits.drain_timeout, listener a.port, route /.reply; "
		     "needs a restart: interface lo, workers.count",
		     log, sizeof(log));
	f = fopen(r.file, "a");
	ck_assert_ptr_nonnull(f);
	fputs("nonsense = 1\n", f);
	fclose(f);
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0], "reload: nothing changed: ", log, sizeof(log));
	ck_assert_ptr_nonnull(strstr(log, "found unknown key \"nonsense\""));
	/* What the gateway cannot take is told the same way, and one that is busy is asked again.
	 */
	write_config(&r, "1ms");
	gw.refuses = 1;
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0], "reload: nothing changed: no room", log, sizeof(log));
	gw.refuses = 0;
	gw.busy = 3;
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0], "in force: nothing new; needs a restart: interface lo\n", log,
		     sizeof(log));
	/* The new bound is in force: the gateway never finishes, yet this ends. */
	kill(getpid(), SIGTERM);
	finish(&r);
	sl_log_fd_set(-1);
}
END_TEST

START_TEST(tells_the_service_manager)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char text[32] = "", path[64];

	snprintf(path, sizeof(path), "@sl-notify-%d", getpid());
	memcpy(sun.sun_path + 1, path + 1, strlen(path) - 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))),
			 0);
	unsetenv("NOTIFY_SOCKET");
	sl_notify_manager("READY=1"); /* nobody asked: nothing happens */
	setenv("NOTIFY_SOCKET", path, 1);
	sl_notify_manager("READY=1");
	ck_assert_int_eq(recv(fd, text, sizeof(text) - 1, 0), 7);
	ck_assert_str_eq(text, "READY=1");
	close(fd);
}
END_TEST

START_TEST(an_address_in_use_is_one_line)
{
	struct runner r = {0};
	struct sl_control_options o = {.gateway = &gw, .config = cfg};

	start(&r);
	ck_assert_ptr_null(sl_control_open(&o, err, sizeof(err)));
	ck_assert_msg(strstr(err, "admin endpoint at 127.0.0.1 port 19977") != NULL, "%s", err);
	kill(getpid(), SIGTERM);
	finish(&r);
}
END_TEST

/* --- capabilities --- */

static unsigned long long caps_of(const char *task, const char *which)
{
	char path[64], line[200];
	unsigned long long v = ~0ull;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/status", task);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, which, strlen(which)) == 0)
			v = strtoull(line + strlen(which), NULL, 16);
	}
	fclose(f);
	return v;
}

static void *look_at_caps(void *arg)
{
	static const char *const sets[] = {"CapEff:", "CapPrm:", "CapBnd:"};
	unsigned long long *found = arg;

	for (unsigned i = 0; i < 3; i++)
		found[i] = caps_of("thread-self", sets[i]);
	return NULL;
}

START_TEST(threads_begin_without_capabilities)
{
	uint64_t keep = _i ? 1u << 13 : 0; /* CAP_NET_RAW */
	unsigned long long found[2][3];
	pthread_t t;

	look_at_caps(found[0]);
	ck_assert_uint_ne(found[0][0], 0); /* these tests run as root */
	ck_assert_msg(sl_caps_drop(keep, _i == 2 ? "nobody" : NULL, err, sizeof(err)) == 0, "%s",
		      err);
	look_at_caps(found[0]);
	ck_assert_int_eq(pthread_create(&t, NULL, look_at_caps, found[1]), 0);
	pthread_join(t, NULL);
	for (unsigned i = 0; i < 6; i++)
		ck_assert_uint_eq(found[i / 3][i % 3], keep);
	ck_assert_int_eq(geteuid() == 0, _i != 2);
	ck_assert_int_eq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control");
	TCase *text = tcase_create("text"), *loop = tcase_create("loop");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(text, set_up, tear_down);
	tcase_add_test(text, metrics_have_the_text_format);
	tcase_add_test(text, metrics_have_each_counter_by_name);
	tcase_add_test(text, metrics_sum_histograms_over_workers);
	tcase_add_test(text, stats_tell_recent_quantiles);
	tcase_add_test(text, overrides_are_parsed_and_given_back);
	suite_add_tcase(s, text);
	tcase_add_checked_fixture(loop, set_up, tear_down);
	tcase_set_timeout(loop, 30);
	tcase_add_test(loop, answers_on_the_admin_endpoint);
	tcase_add_test(loop, streams_events);
	tcase_add_test(loop, a_second_signal_ends_at_once);
	tcase_add_test(loop, draining_is_bounded);
	tcase_add_test(loop, reloads_what_can_be);
	tcase_add_test(loop, tells_the_service_manager);
	tcase_add_test(loop, an_address_in_use_is_one_line);
	tcase_add_loop_test(loop, threads_begin_without_capabilities, 0, 3);
	suite_add_tcase(s, loop);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
