/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fronts behind a filter that changes every byte, and splits and joins what comes. A client's TCP and
 * the core of a worker, joined by a link; the client scrambles what it sends, as the filter does.
 */
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/client.h"
#include "front/proxy/proxy.h"
#include "scramble.h"
#include "suite.h"
#include "fake_link.h"

enum { FRAMES = 4096, REPLY_MAX = 1 << 20, LONG_BODY = 16000, DOOR = 5 /* its listener */ };

struct end {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
};

static struct end client_end, server_end;
static struct sl_fake_link link_;
static struct sl_tcp *client_tcp;
static struct sl_tcp_conn *conn;
static struct sl_core core;
static struct sl_config *cfg;
static struct sl_svc_hist hist[SL_STAGE_CNT];
static struct sl_svc_live live;
static uint64_t now;
static uint8_t *reply;
static size_t reply_len;
static bool eof_seen, closed_seen;
static unsigned layers = 1;

/* --- the client --- */

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	(void)app, (void)c, (void)listener, (void)local, (void)remote;
	return NULL;
}

static void on_connected(void *handle, struct sl_tcp_conn *c)
{
	(void)handle;
	conn = c;
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	(void)handle;
	ck_assert_uint_le(reply_len + chunk->len, REPLY_MAX);
	memcpy(reply + reply_len, chunk->ptr, chunk->len);
	for (unsigned i = 0; i < layers; i++)
		scramble_bytes(reply + reply_len, chunk->len);
	reply_len += chunk->len;
	return chunk->len;
}

static void on_fin(void *handle)
{
	(void)handle;
	eof_seen = true;
}

static void on_writable(void *handle)
{
	(void)handle;
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	(void)handle, (void)why;
	closed_seen = true;
	conn = NULL;
}

static const struct sl_tcp_ops client_ops = {
	.accepted = on_accepted,
	.connected = on_connected,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
};

/* --- the arena --- */

static void end_init(struct end *e, uint8_t side)
{
	struct sl_net_listener l = {
		.at.port_be = htobe16(80), .at.family = 4, .protocol = 6, .listener = DOOR};

	memset(e, 0, sizeof(*e));
	ck_assert_int_eq(sl_umem_init(&e->umem, 2048, FRAMES), 0);
	sl_fake_port_init(&e->port, &e->umem, 0);
	e->port.port.mac[1] = (uint8_t)(side + 1);
	ck_assert_int_eq(sl_net_init(&e->net, &e->umem), 0);
	ck_assert_int_eq(sl_net_add_port(&e->net, &e->port.port), 0);
	ck_assert_int_eq(sl_net_set_listeners(&e->net, &l, 1), 0);
	sl_net_set_now(&e->net, now);
}

static void start(unsigned filters)
{
	static char text[LONG_BODY + 256];
	struct sl_fake_link_config link = {.delay_ns = 50000};
	struct sl_core_maps maps = {.service_cnt = 1, .hist = hist, .live = &live};
	struct sl_tcp_config tcp;
	struct sl_err err = SL_ERR(256);
	char body[LONG_BODY + 1];

	now = sl_now_ns();
	end_init(&client_end, 0);
	end_init(&server_end, 1);
	ck_assert_int_eq(
		sl_fake_link_init(&link_, &client_end.port, &server_end.port, &link, 2048, 1), 0);
	for (size_t i = 0; i < LONG_BODY; i++)
		body[i] = (char)('a' + i % 23);
	body[LONG_BODY] = 0;
	snprintf(text, sizeof(text),
		 "limits { max_connections = 16 max_exchanges = 256 }\n"
		 "pool p { backend a { endpoint = \"shm:///p\" } }\nroute /pool { pool = p }\n"
		 "route /pkg.S/ { pool = p }\n"
		 "route / { respond { body = \"hello\\n\" } }\n"
		 "route /long { respond { body = \"%s\" } }\n",
		 body);
	cfg = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	ck_assert_int_eq(sl_core_init(&core, cfg, &server_end.net, &maps), 0);
	now = core.now_ns; /* its timers begin there */
	layers = filters;
	if (filters)
		core.filters = (struct sl_filter_maker){.open = scramble_open, .arg = &layers};
	sl_tcp_config_default(&tcp);
	tcp.max_conns = 16;
	client_tcp = sl_tcp_create(&client_end.net, &tcp, &client_ops, NULL);
	ck_assert_ptr_nonnull(client_tcp);
	reply = malloc(REPLY_MAX);
}

static void rx(struct end *e)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	sl_net_set_now(&e->net, now);
	while ((cnt = e->port.port.ops->rx_burst(&e->port.port, frames, SL_BURST, now)) > 0)
		sl_net_input(&e->net, frames, cnt, now);
}

static void run(unsigned ms)
{
	for (uint64_t until = now + ms * SL_NS_PER_MS; now < until; now += SL_NS_PER_MS / 10) {
		sl_fake_link_step(&link_, now);
		rx(&client_end);
		sl_tcp_timer(client_tcp);
		sl_tcp_output(client_tcp);
		sl_net_flush(&client_end.net);
		sl_core_set_now(&core, now);
		rx(&server_end);
		sl_tcp_timer(core.tcp);
		sl_core_run(&core);
		sl_tcp_output(core.tcp);
		sl_net_flush(&server_end.net);
		sl_fake_link_step(&link_, now);
	}
}

static void dial(void)
{
	struct sl_addr local = {.addr = {10, 0, 0, 1}, .family = 4};
	struct sl_addr remote = {.addr = {10, 0, 0, 2}, .port_be = htobe16(80), .family = 4};

	ck_assert_ptr_nonnull(sl_tcp_connect(client_tcp, 0, server_end.port.port.mac, &local,
					     &remote, &client_end));
	run(2);
	ck_assert_ptr_nonnull(conn);
}

static void say(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len);

	memcpy(copy, bytes, len);
	for (unsigned i = 0; i < layers; i++)
		scramble_bytes(copy, len);
	ck_assert_uint_eq(sl_tcp_send(conn, copy, len), len);
	free(copy);
}

static void leave_nothing(struct end *e)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_net_flush(&e->net);
	sl_fake_complete(&e->port, UINT32_MAX);
	sl_umem_census(&e->umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], e->umem.frame_cnt);
	sl_net_fini(&e->net);
}

static void stop(void)
{
	sl_tcp_destroy(client_tcp);
	sl_core_fini(&core);
	ck_assert_uint_eq(scramble_live, 0);
	leave_nothing(&client_end);
	leave_nothing(&server_end);
	sl_fake_link_fini(&link_);
	sl_umem_fini(&client_end.umem);
	sl_umem_fini(&server_end.umem);
	sl_config_free(cfg);
	free(reply);
}

/* --- HTTP/1.1 --- */

static unsigned count(const char *what)
{
	unsigned n = 0;

	reply[reply_len] = 0;
	for (const char *p = (const char *)reply; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void pipelined_requests_are_answered(unsigned filters)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

	start(filters);
	dial();
	for (int i = 0; i < 8; i++)
		say(get, sizeof(get) - 1);
	run(20);
	ck_assert_uint_eq(count("HTTP/1.1 200 OK\r\n"), 8);
	ck_assert_uint_eq(count("\r\n\r\nhello\n"), 8);
	stop();
}

TEST(http1_works_on_tcp_itself)
{
	pipelined_requests_are_answered(0);
}

TEST(http1_works_behind_a_filter)
{
	pipelined_requests_are_answered(1);
}

TEST(http1_works_behind_three_filters)
{
	pipelined_requests_are_answered(3);
}

TEST(many_long_replies_wait_for_room_behind_a_filter)
{
	static const char get[] = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
	enum { REPLIES = 40 };

	start(1);
	dial();
	for (int i = 0; i < REPLIES; i++)
		say(get, sizeof(get) - 1);
	run(400);
	ck_assert_uint_eq(count("HTTP/1.1 200 OK\r\n"), REPLIES);
	ck_assert_uint_gt(reply_len, (size_t)REPLIES * LONG_BODY);
	stop();
}

TEST(a_client_that_goes_takes_its_filters_along)
{
	start(2);
	dial();
	say("GET / HT", 8);
	run(2);
	ck_assert_uint_eq(scramble_live, 2);
	sl_tcp_abort(conn);
	run(2);
	ck_assert_uint_eq(scramble_live, 0);
	stop();
}

TEST(the_end_of_input_passes_through)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

	start(1);
	dial();
	say(get, sizeof(get) - 1);
	sl_tcp_shutdown(conn);
	run(20);
	ck_assert_uint_eq(count("HTTP/1.1 200 OK\r\n"), 1);
	ck_assert(eof_seen);
	ck_assert(closed_seen);
	ck_assert_uint_eq(scramble_live, 0);
	stop();
}

/* The first timer is set before a head is known to be awaited. */
TEST(a_slow_head_is_ended_in_time_behind_a_filter_too)
{
	start(1);
	dial();
	say("GET / HTTP/1.1\r\n", 16);
	run((unsigned)(core.cfg->limits.header_timeout_ns / SL_NS_PER_MS) + 2000);

	ck_assert(eof_seen);
	ck_assert_uint_eq(count("HTTP/1.1 408 "), 1);
	stop();
}

/* A connection may be opened just before the gateway drains, and its request is on its way. */
TEST_EACH(a_new_connection_gets_its_reply_while_the_gateway_drains, 2)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

	start((unsigned)_i);
	dial();
	sl_core_drain(&core);
	run(900);
	ck_assert(!eof_seen);
	say(get, 3);
	run(2);
	say(get + 3, sizeof(get) - 4);
	run(20);
	ck_assert_uint_eq(count("HTTP/1.1 200 OK\r\n"), 1);
	ck_assert_uint_eq(count("Connection: close\r\n"), 1);
	ck_assert(eof_seen);
	stop();
}

TEST_EACH(a_new_connection_that_is_silent_is_closed_while_the_gateway_drains, 2)
{
	start((unsigned)_i);
	dial();
	sl_core_drain(&core);
	run(2000);
	ck_assert(eof_seen);
	ck_assert_uint_eq(reply_len, 0);
	stop();
}

static struct sl_proxy_env balancers;

static bool open_proxy(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		       struct sl_filter **top)
{
	(void)arg, (void)info;
	*top = sl_proxy_open(&balancers, transport);
	return *top;
}

/* A balancer that does not come to an end, or does not begin: every byte of it is within its time. */
TEST_EACH(a_proxy_header_that_trickles_is_ended_in_time, 2)
{
	static const char header[] = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
	uint64_t headers = 0, malformed = 0;
	unsigned ms, at = 0;

	start(0);
	ck_assert_int_eq(sl_proxy_env_init(&balancers, 2, &headers, &malformed), 0);
	core.filters = (struct sl_filter_maker){.open = open_proxy};
	dial();
	ms = (unsigned)(core.cfg->limits.header_timeout_ns / SL_NS_PER_MS);
	for (unsigned i = 0; i < 10; i++) {
		if (_i)
			say(header + at++, 1);
		run((ms - 500) / 10);
		ck_assert(!eof_seen && !closed_seen);
	}
	run(3000);
	ck_assert(eof_seen || closed_seen);
	ck_assert_uint_eq(core.stats.clients_timed_out, 1);
	ck_assert_uint_eq(headers, 0);
	run((unsigned)(core.cfg->limits.send_timeout_ns / SL_NS_PER_MS) + 1000);
	ck_assert(closed_seen); /* it did not close its own half */
	ck_assert_uint_eq(sl_mempool_used(&balancers.filters) + sl_mempool_used(&balancers.heads),
			  0);
	stop();
	sl_proxy_env_fini(&balancers);
}

/* --- HTTP/2 --- */

static size_t body_len;

static int h2_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
		   void *user)
{
	(void)s, (void)flags, (void)id, (void)data, (void)user;
	body_len += len;
	return 0;
}

static void h2_exchange(nghttp2_session *s, size_t *read)
{
	const uint8_t *out;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(s, &out)) > 0)
		say(out, (size_t)n);
	ck_assert_int_eq(n, 0);
	run(5);
	n = nghttp2_session_mem_recv(s, reply + *read, reply_len - *read);
	ck_assert_int_eq(n, (ssize_t)(reply_len - *read));
	*read = reply_len;
}

TEST(h2_works_behind_a_filter)
{
	static const nghttp2_nv get[] = {
		{(uint8_t *)":method", (uint8_t *)"GET", 7, 3, 0},
		{(uint8_t *)":scheme", (uint8_t *)"http", 7, 4, 0},
		{(uint8_t *)":authority", (uint8_t *)"a", 10, 1, 0},
		{(uint8_t *)":path", (uint8_t *)"/long", 5, 5, 0},
	};
	nghttp2_session_callbacks *cb;
	nghttp2_session *s;
	size_t read = 0;

	start(1);
	dial();
	nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_data);
	nghttp2_session_client_new(&s, cb, NULL);
	nghttp2_submit_settings(s, 0, NULL, 0);
	for (int i = 0; i < 10; i++)
		ck_assert_int_gt(nghttp2_submit_request(s, NULL, get, 4, NULL, NULL), 0);
	for (int i = 0; i < 40; i++)
		h2_exchange(s, &read);
	ck_assert_uint_eq(body_len, 10 * LONG_BODY);
	nghttp2_session_del(s);
	nghttp2_session_callbacks_del(cb);
	stop();
}

/* A stream that waits for its window has no time-out, but the head beside it has. */
TEST(a_slow_head_beside_an_open_stream_is_ended_in_time)
{
	static const char bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				    "\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0" /* INITIAL_WINDOW_SIZE 0 */
				    "\0\0\6\1\5\0\0\0\1\x82\x86\x84\x41\1a"  /* GET / */
				    "\0\0\6\1\1\0\0\0\3\x82\x86\x84\x41\1a"; /* no END_HEADERS */
	unsigned ms;

	start(0);
	dial();
	ms = (unsigned)(core.cfg->limits.header_timeout_ns / SL_NS_PER_MS);
	say(bytes, sizeof(bytes) - 1);
	run(ms - 500);
	ck_assert(!eof_seen && !closed_seen);
	run(2000);
	ck_assert(eof_seen || closed_seen);
	ck_assert_uint_eq(core.stats.front_errors[SL_FRONT_ERR_TIMEOUT], 1);
	stop();
}

TEST(a_whole_head_beside_an_open_stream_is_left_alone)
{
	static const char bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				    "\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0"
				    "\0\0\6\1\1\0\0\0\1\x82\x86\x84\x41\1a"
				    "\0\0\0\x9\4\0\0\0\1"; /* CONTINUATION */

	start(0);
	dial();
	say(bytes, sizeof(bytes) - 1);
	run((unsigned)(core.cfg->limits.header_timeout_ns / SL_NS_PER_MS) + 2000);
	ck_assert(!eof_seen && !closed_seen);
	stop();
}

/* grpc-timeout and a route's deadline do not wait for the end of a request. */
TEST(a_request_that_never_ends_is_ended_by_its_deadline)
{
	static const char bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				    "\0\0\0\4\0\0\0\0\0"
				    "\0\0\x3e\1\4\0\0\0\1\x83\x86\x04\5/pool\x41\1a"
				    "\0\x0c"
				    "content-type\x10"
				    "application/grpc"
				    "\0\x0c"
				    "grpc-timeout\4"
				    "300m"
				    "\0\0\6\0\0\0\0\0\1\0\0\0\0\5x";

	start(0);
	dial();
	say(bytes, sizeof(bytes) - 1);
	run(250);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_EXPIRED], 0);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 1);
	run(100);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_EXPIRED], 1);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 0);
	ck_assert(!eof_seen && !closed_seen);
	stop();
}

/* --- identity of a client --- */

TEST(a_client_knows_its_listener_and_its_peer)
{
	struct sl_conn_info info;
	struct sl_client *cl;

	start(1);
	dial();
	cl = sl_client_next(&core, NULL);
	ck_assert_ptr_nonnull(cl);
	sl_client_addrs(cl, &info);
	ck_assert_uint_eq(info.listener, DOOR);
	ck_assert_uint_eq(info.local.port_be, htobe16(80));
	ck_assert_uint_eq(info.local.family, 4);
	ck_assert_mem_eq(info.local.addr, ((uint8_t[4]){10, 0, 0, 2}), 4);
	ck_assert_mem_eq(info.peer.addr, ((uint8_t[4]){10, 0, 0, 1}), 4);
	ck_assert_uint_ne(info.peer.port_be, 0);
	stop();
}

TEST(a_client_knows_its_listener_after_a_tail_loss_probe)
{
	static const char get[] = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
	struct sl_tcp_stats stats;
	struct sl_conn_info info;

	start(0);
	dial();
	link_.wire[1].cfg.loss = 1;
	say(get, sizeof(get) - 1);
	run(20);
	sl_tcp_stats(core.tcp, &stats);
	ck_assert_uint_gt(stats.tlp_probes, 0);
	link_.wire[1].cfg.loss = 0;
	run(2000);
	ck_assert_uint_eq(count("200 OK"), 1);
	sl_client_addrs(sl_client_next(&core, NULL), &info);
	ck_assert_uint_eq(info.listener, DOOR);
	stop();
}

/* --- health --- */

static enum sl_serving serves(enum sl_asked what, const char *name)
{
	return core.env.serving(core.env.serving_arg, what, sl_span_cstr(name));
}

/* Nothing is up here: what is known is not serving. */
TEST(health_is_reported_by_pool_or_by_route)
{
	start(0);
	ck_assert_int_eq(serves(SL_ASKED_POOL, "p"), SL_SERVING_NO);
	ck_assert_int_eq(serves(SL_ASKED_POOL, "pkg.S"), SL_SERVING_UNKNOWN);
	ck_assert_int_eq(serves(SL_ASKED_ROUTE, "/pkg.S/"), SL_SERVING_NO);
	ck_assert_int_eq(serves(SL_ASKED_ROUTE, "/pkg.S"), SL_SERVING_UNKNOWN);
	ck_assert_int_eq(serves(SL_ASKED_ALL, ""), SL_SERVING_NO);
	stop();
}
