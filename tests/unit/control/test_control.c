/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread over a gateway made of constants: what it prints, and what it ends for. */
#include "control_bed.h"
#include "sandbox/internal.h"
#include "sandbox/notify.h"
#include "suite.h"

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
	sl_metrics_render(&gw, false, b);
	ck_assert_int_eq(b->err, 0);
	return b->ptr;
}

FIXTURE(set_up, tear_down)

TEST(metrics_have_the_text_format)
{
	/*
	 * A comment, or name{labels} value. Each family has its HELP and TYPE before its samples.
	 */
	static const char form[] =
		"^(# (HELP|TYPE) (sluice|http|rpc)_[a-z0-9_]+ "
		".+|(sluice|http|rpc)_[a-z0-9_]+(\\{([a-z_]+=\"([^\"\\\\]|\\\\.)*\",?)"
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

TEST(metrics_have_each_counter_by_name)
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
		"sluice_udp_datagrams_in_total{worker=\"0\"} 21\n",
		"sluice_h2_streams{worker=\"1\"} 22\n",
		"sluice_worker_frames_free{worker=\"0\"} 98\n",
		"sluice_backend_up{worker=\"0\",pool=\"score\",backend=\"a\"} 1\n",
		"sluice_backend_replies_total{worker=\"0\",pool=\"score\",backend=\"a\"} 9\n",
		"sluice_service_batch_cap{worker=\"0\",pool=\"score\"} 17\n",
		"sluice_service_hold_seconds{worker=\"0\",pool=\"score\"} 0.0015\n",
		"sluice_service_arrival_per_second{worker=\"0\",pool=\"score\"} 2.5\n",
	};
	struct sl_strbuf b;

	gw.live[0].hold_ns = 1500000;
	gw.live[0].arrival_mhz = 2500;
	render(&b);
	for (size_t i = 0; i < SL_ARRAY_LEN(lines); i++)
		ck_assert_msg(strstr(b.ptr, lines[i]) != NULL, "%s", lines[i]);
	sl_strbuf_fini(&b);
}

TEST(metrics_have_statuses_summed_over_workers)
{
	static const char *const lines[] = {
		"sluice_pool_responses_total{pool=\"score\",class=\"5xx\",code=\"500\"} 5\n",
		"sluice_pool_responses_total{pool=\"score\",class=\"5xx\",code=\"other\"} 1\n",
		"sluice_pool_responses_total{pool=\"score\",class=\"5xx\",code=\"503\"} 0\n",
		"sluice_backend_responses_total{pool=\"score\",backend=\"a\",class=\"4xx\",code=\"418\"} "
		"4\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"0.001\"} 0\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"0.0025\"} 2\n",
		"sluice_route_responses_total{route=\"\",class=\"2xx\",code=\"200\"} 0\n",
	};
	struct sl_strbuf b;

	gw.pool_codes[0].http[SL_CODE_500] = 2;
	gw.pool_codes[1].http[SL_CODE_500] = 3;
	gw.pool_codes[1].http[SL_CODE_OTHER + 4] = 1;
	gw.backend_codes.codes.http[SL_CODE_418] = 2;
	sl_hist_add(gw.backend_codes.bucket, 2000000);
	render(&b);
	for (size_t i = 0; i < SL_ARRAY_LEN(lines); i++)
		ck_assert_msg(strstr(b.ptr, lines[i]) != NULL, "%s", lines[i]);
	ck_assert_ptr_null(strstr(b.ptr, "code=\"418\"} 0"));
	sl_strbuf_fini(&b);
}

TEST(metrics_sum_histograms_over_workers)
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

/* --- stats --- */

static json_int_t stat_int(json_t *o, const char *stage, const char *key)
{
	json_t *services = json_object_get(o, "pools");
	json_t *stages = json_object_get(json_array_get(services, 0), "stages");

	return json_integer_value(
		json_object_get(json_object_get(json_object_get(stages, stage), "recent"), key));
}

TEST(stats_tell_recent_quantiles)
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

TEST(stats_list_refused_addresses)
{
	struct sl_addr a = {.addr = {10, 0, 0, 9}, .family = 4},
		       b = {.addr = {10, 0, 0, 8}, .family = 4};
	struct sl_top_refused *r = &gw.info.workers[0].core.refused;
	struct sl_window w;
	json_t *o, *core, *list;
	char *text;

	ck_assert_int_eq(sl_window_init(&w, 1), 0);
	sl_top_refused_add(r, &a, SL_QUOTA_FRAMES, 1);
	sl_top_refused_add(r, &b, SL_QUOTA_FRAMES, 1);
	sl_top_refused_add(r, &b, SL_QUOTA_CONNECTIONS, 1);
	ck_assert(sl_top_refused_read(r, r));
	o = sl_stats_json(&gw, &w);
	core = json_object_get(json_array_get(json_object_get(o, "workers"), 0), "core");
	list = json_object_get(core, "refused_addresses");
	text = json_dumps(list, JSON_COMPACT);
	ck_assert_str_eq(text, "[{\"address\":\"10.0.0.8\",\"connections\":1,\"frames\":1},"
			       "{\"address\":\"10.0.0.9\",\"frames\":1}]");
	free(text);
	json_decref(o);
	sl_window_fini(&w);
}

TEST(overrides_are_parsed_and_given_back)
{
	struct sl_svc_ctl c = {0};

	ck_assert_int_eq(sl_override_set(&c, "size", "8", &err), 0);
	ck_assert_int_eq(sl_override_set(&c, "delay", "0", &err), 0);
	ck_assert_int_eq(sl_override_set(&c, "bound", "20ms", &err), 0);
	ck_assert_int_eq(sl_override_set(&c, "deadline", "1s", &err), 0);
	ck_assert_int_eq(sl_override_set(&c, "shed", "0.5", &err), 0);
	ck_assert_uint_eq(c.batch_size, 8);
	ck_assert_uint_eq(c.hold_ns, 1);
	ck_assert_uint_eq(c.bound_ns, 20000000);
	ck_assert_uint_eq(c.deadline_ns, 1000000000);
	ck_assert_uint_eq(c.shed_level, 32769);
	ck_assert_int_eq(sl_override_set(&c, "shed", "0", &err), 0);
	ck_assert_uint_eq(c.shed_level, 1);
	ck_assert_int_eq(sl_override_set(&c, "size", "auto", &err), 0);
	ck_assert_int_eq(sl_override_set(&c, "hold", "auto", &err), 0);
	ck_assert_uint_eq(c.batch_size, 0);
	ck_assert_uint_eq(c.hold_ns, 0);
	ck_assert_uint_eq(c.bound_ns, 20000000);
	ck_assert_int_ne(sl_override_set(&c, "size", "0", &err), 0);
	ck_assert_str_eq(err.text, "found size = \"0\"; allowed: 1 to 1024, or auto");
	ck_assert_int_ne(sl_override_set(&c, "size", "1025", &err), 0);
	ck_assert_int_ne(sl_override_set(&c, "bound", "0", &err), 0);
	ck_assert_int_ne(sl_override_set(&c, "bound", "5", &err), 0);
	ck_assert_int_ne(sl_override_set(&c, "shed", "1.5", &err), 0);
	ck_assert_int_ne(sl_override_set(&c, "shed", "", &err), 0);
	ck_assert_int_ne(sl_override_set(&c, "sizes", "1", &err), 0);
	ck_assert_uint_eq(c.batch_size, 0);
}

TEST(a_second_signal_ends_at_once)
{
	struct runner r = {0};

	gw.drain_done = false;
	cfg->limits.drain_timeout_ns = UINT64_C(100000000000); /* beyond the test's */
	start(&r);
	kill(getpid(), SIGTERM);
	while (!gw.drain_called)
		usleep(1000);
	expect("GET /readyz", HOST, "503", "draining");
	kill(getpid(), SIGINT);
	finish(&r);
	ck_assert_uint_eq(r.cut, 2);
}

TEST(draining_is_bounded)
{
	struct runner r = {0};

	gw.drain_done = false;
	cfg->limits.drain_timeout_ns = 1000000;
	start(&r);
	kill(getpid(), SIGTERM);
	finish(&r);
	ck_assert(gw.drain_called);
}

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

TEST(reload_applies_what_needs_no_restart)
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
		     "in force: limits.drain_timeout, listener a.port, route /.respond.status; "
		     "needs a restart: interface lo, workers.count",
		     log, sizeof(log));
	f = fopen(r.file, "a");
	ck_assert_ptr_nonnull(f);
	fputs("nonsense = 1\n", f);
	fclose(f);
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0], "reload: nothing changed: ", log, sizeof(log));
	ck_assert_ptr_nonnull(strstr(log, "found unknown key \"nonsense\""));
	/*
	 * A file that the gateway cannot take is reported the same way; a busy gateway is asked
	 * again.
	 */
	write_config(&r, "1ms");
	gw.refuses = 1;
	kill(getpid(), SIGHUP);
	wait_for_log(fds[0], "reload: nothing changed: no room", log, sizeof(log));
	/* Also if that is only known later. */
	gw.busy = 3;
	kill(getpid(), SIGHUP);
	for (int i = 0; i < 5000 && !strstr(ask("GET /stats", HOST), "\"refused\":\"no room\"");
	     i++)
		usleep(1000);
	expect("GET /stats", HOST, "200", "\"refused\":\"no room\"");
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

static int notify_socket(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char path[64];

	snprintf(path, sizeof(path), "@sl-notify-%d", getpid());
	memcpy(sun.sun_path + 1, path + 1, strlen(path) - 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))),
			 0);
	setenv("NOTIFY_SOCKET", path, 1);
	sl_notify_open();
	return fd;
}

static void ck_told(int fd, const char *want)
{
	char text[SL_NOTIFY_MAX] = "";

	ck_assert_int_ge(recv(fd, text, sizeof(text) - 1, 0), 1);
	ck_assert_str_eq(text, want);
}

TEST(tells_the_service_manager)
{
	int fd;

	unsetenv("NOTIFY_SOCKET");
	sl_notify_open();
	sl_notify(SL_NOTIFY_READY); /* without NOTIFY_SOCKET nothing happens */
	fd = notify_socket();
	sl_notify(SL_NOTIFY_READY);
	ck_told(fd, "READY=1");
	close(fd);
}

/* A pool without a backend keeps no other pool from its clients. */
TEST(it_is_ready_when_the_listeners_are_open_whatever_the_pools_have)
{
	int fd = notify_socket();
	struct runner r = {0};

	gw.ready = false;
	gw.closed = true;
	start(&r);
	ck_told(fd, "STATUS=connecting");
	gw.closed = false;
	ck_told(fd, "READY=1");
	ck_told(fd, "STATUS=no backend: a");
	gw.ready = true;
	ck_told(fd, "STATUS=serving");
	gw.ready = false;
	ck_told(fd, "STATUS=no backend: a");
	gw.drain_done = true;
	kill(getpid(), SIGTERM);
	ck_told(fd, "STOPPING=1");
	finish(&r);
	close(fd);
}

TEST(an_address_in_use_is_one_line)
{
	struct runner r = {0};
	struct sl_control_options o = {.gateway = &gw, .config = cfg};

	start(&r);
	cfg->admin.socket = "none";
	ck_assert_ptr_null(sl_control_open(&o, &err));
	ck_assert_msg(strstr(err.text, "admin endpoint at 127.0.0.1 port " BED_PORT_TEXT) != NULL,
		      "%s", err.text);
	kill(getpid(), SIGTERM);
	finish(&r);
}

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

TEST_EACH(threads_begin_without_capabilities, 3)
{
	uint64_t keep = _i ? 1u << 13 : 0; /* CAP_NET_RAW */
	unsigned long long found[2][3];
	pthread_t t;

	look_at_caps(found[0]);
	ck_assert_uint_ne(found[0][0], 0); /* these tests run as root */
	ck_assert_msg(sl_account_drop(keep, _i == 2 ? "nobody" : "root", &err) == 0, "%s",
		      err.text);
	look_at_caps(found[0]);
	ck_assert_int_eq(pthread_create(&t, NULL, look_at_caps, found[1]), 0);
	pthread_join(t, NULL);
	for (unsigned i = 0; i < 6; i++)
		ck_assert_uint_eq(found[i / 3][i % 3], keep);
	ck_assert_int_eq(geteuid() == 0, _i != 2);
	ck_assert_int_eq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
}
