/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: clients of several addresses before the core of a worker, joined by a link. There is one
 * pool, without a backend unless a test adopts one, and replies of the gateway's own. start() begins,
 * stop() counts frames.
 */
#ifndef SL_TESTS_CORE_ARENA_H
#define SL_TESTS_CORE_ARENA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/client.h"
#include "suite.h"
#include "fake_link.h"

enum { FRAMES = 4096, PEERS = 64, HEARD_MAX = 1 << 16, BAD = 1, GOOD = 2 };

struct end {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
};

/* A connection of a client. */
struct peer {
	struct sl_tcp_conn *conn; /* NULL: not connected, or closed */
	uint8_t heard[HEARD_MAX]; /* the first bytes */
	size_t heard_len;
	bool was_open;
	bool deaf; /* does not read */
};

static struct end client_end, server_end;
static struct sl_fake_link link_;
static struct sl_tcp *client_tcp;
static struct sl_core core;
static struct sl_config *cfg;
static struct sl_svc_hist hist[SL_STAGE_CNT];
static struct sl_svc_live live;
static uint64_t now;
static struct peer peers[PEERS];
static struct sl_frame *withheld[FRAMES]; /* frames of the server */
static unsigned withheld_cnt;
static unsigned peer_cnt;
static uint32_t client_rcv_buf; /* 0: as usual */

/* --- clients --- */

static inline void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
				const struct sl_addr *local, const struct sl_addr *remote)
{
	(void)app, (void)c, (void)listener, (void)local, (void)remote;
	return NULL;
}

static inline void on_connected(void *handle, struct sl_tcp_conn *c)
{
	struct peer *p = handle;

	p->conn = c;
	p->was_open = true;
}

static inline size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct peer *p = handle;
	size_t room = HEARD_MAX - 1 - p->heard_len;
	size_t n = chunk->len < room ? chunk->len : room;

	if (p->deaf)
		return 0;
	memcpy(p->heard + p->heard_len, chunk->ptr, n);
	p->heard_len += n;
	return chunk->len;
}

static inline void nothing(void *handle)
{
	(void)handle;
}

static inline void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct peer *p = handle;

	(void)why;
	p->conn = NULL;
}

static const struct sl_tcp_ops client_ops = {
	.accepted = on_accepted,
	.connected = on_connected,
	.data = on_data,
	.fin = nothing,
	.writable = nothing,
	.closed = on_closed,
};

/* --- the arena --- */

static inline void end_init(struct end *e, uint8_t side)
{
	struct sl_net_listener l = {.at.port_be = htobe16(80), .at.family = 4, .protocol = 6};

	memset(e, 0, sizeof(*e));
	ck_assert_int_eq(sl_umem_init(&e->umem, 2048, FRAMES), 0);
	sl_fake_port_init(&e->port, &e->umem, 0);
	e->port.port.mac[1] = (uint8_t)(side + 1);
	ck_assert_int_eq(sl_net_init(&e->net, &e->umem), 0);
	ck_assert_int_eq(sl_net_add_port(&e->net, &e->port.port), 0);
	ck_assert_int_eq(sl_net_set_listeners(&e->net, &l, 1), 0);
	sl_net_set_now(&e->net, now);
}

static inline void start(const char *limits)
{
	struct sl_fake_link_config link = {.delay_ns = 50000};
	struct sl_core_maps maps = {.service_cnt = 1, .hist = hist, .live = &live};
	struct sl_tcp_config tcp;
	char text[16384], body[8001];
	struct sl_err err = SL_ERR(256);

	now = sl_now_ns();
	end_init(&client_end, 0);
	end_init(&server_end, 1);
	ck_assert_int_eq(
		sl_fake_link_init(&link_, &client_end.port, &server_end.port, &link, 2048, 1), 0);
	memset(body, 'b', sizeof(body) - 1);
	body[sizeof(body) - 1] = 0;
	snprintf(text, sizeof(text),
		 "limits { %s }\npool p { backend a { endpoint = \"shm:///p\" } }\n"
		 "route /pool { pool = p }\nroute / { respond { body = \"hello\\n\" } }\n"
		 "route /long { respond { body = \"%s\" } }\n",
		 limits, body);
	cfg = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	ck_assert_int_eq(sl_core_init(&core, cfg, &server_end.net, &maps), 0);
	now = core.now_ns; /* its timers begin there */
	sl_tcp_config_default(&tcp);
	tcp.max_conns = PEERS;
	if (client_rcv_buf)
		tcp.rcv_buf = client_rcv_buf;
	client_tcp = sl_tcp_create(&client_end.net, &tcp, &client_ops, NULL);
	ck_assert_ptr_nonnull(client_tcp);
	memset(peers, 0, sizeof(peers));
	peer_cnt = 0;
}

static inline void rx(struct end *e)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	sl_net_set_now(&e->net, now);
	while ((cnt = e->port.port.ops->rx_burst(&e->port.port, frames, SL_BURST, now)) > 0)
		sl_net_input(&e->net, frames, cnt, now);
}

static inline void run_by(unsigned ms, uint64_t step_ns)
{
	for (uint64_t until = now + ms * SL_NS_PER_MS; now < until; now += step_ns) {
		sl_fake_link_step(&link_, now);
		rx(&client_end);
		sl_tcp_timer(client_tcp);
		sl_tcp_output(client_tcp);
		sl_net_flush(&client_end.net);
		sl_core_set_now(&core, now);
		rx(&server_end);
		sl_rpc_poll(core.rpc, now);
		sl_tcp_timer(core.tcp);
		sl_core_run(&core);
		sl_rpc_flush(core.rpc, now);
		sl_tcp_output(core.tcp);
		sl_net_flush(&server_end.net);
		sl_fake_link_step(&link_, now);
	}
}

static inline void run(unsigned ms)
{
	run_by(ms, SL_NS_PER_MS / 10);
}

/* Runs for the time that a request waits for a backend before its 503. */
static inline void wait_for_no_backend(void)
{
	run_by((unsigned)(SL_BATCH_PATIENCE_NS / SL_NS_PER_MS) + 10, SL_NS_PER_MS);
}

/* So many of 16 parts of the frames are left, and one less. */
static inline void leave_frames(unsigned parts)
{
	while (server_end.umem.free_cnt >= FRAMES * parts / 16)
		withheld[withheld_cnt++] = sl_frame_get(&server_end.umem, SL_FRAME_HELD, 0);
}

static inline void give_frames_back(void)
{
	while (withheld_cnt)
		sl_frame_put(&server_end.umem, withheld[--withheld_cnt]);
}

/* A connection from 10.0.0.HOST; perhaps refused. */
static inline struct peer *try_dial(uint8_t host)
{
	struct sl_addr local = {.addr = {10, 0, 0, host}, .family = 4};
	struct sl_addr remote = {.addr = {10, 0, 1, 1}, .port_be = htobe16(80), .family = 4};
	struct peer *p = &peers[peer_cnt++];

	ck_assert_uint_le(peer_cnt, PEERS);
	ck_assert_ptr_nonnull(
		sl_tcp_connect(client_tcp, 0, server_end.port.port.mac, &local, &remote, p));
	run(2);
	return p;
}

static inline struct peer *dial(uint8_t host)
{
	struct peer *p = try_dial(host);

	ck_assert_ptr_nonnull(p->conn);
	return p;
}

static inline void say(struct peer *p, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len && p->conn) {
		size_t n = sl_tcp_send(p->conn, at, len);

		at += n;
		len -= n;
		run(2);
	}
}

static inline void say_text(struct peer *p, const char *text)
{
	say(p, text, strlen(text));
}

static inline unsigned count(struct peer *p, const char *what)
{
	unsigned n = 0;

	for (const char *at = (const char *)p->heard; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static inline void is_served(struct peer *p)
{
	unsigned before = count(p, "HTTP/1.1 200 OK\r\n");

	say_text(p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	run(5);
	ck_assert_uint_eq(count(p, "HTTP/1.1 200 OK\r\n"), before + 1);
}

static inline void stop(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_tcp_destroy(client_tcp);
	sl_core_fini(&core);
	for (struct end *e = &client_end;; e = &server_end) {
		sl_net_flush(&e->net);
		sl_fake_complete(&e->port, UINT32_MAX);
		sl_umem_census(&e->umem, census);
		ck_assert_uint_eq(census[SL_FRAME_FREE], e->umem.frame_cnt);
		sl_net_fini(&e->net);
		if (e == &server_end)
			break;
	}
	sl_fake_link_fini(&link_);
	sl_umem_fini(&client_end.umem);
	sl_umem_fini(&server_end.umem);
	sl_config_free(cfg);
}

/* --- HTTP/2, by hand --- */

static inline void h2_begin(struct peer *p, uint32_t window)
{
	uint8_t bytes[24 + 9 + 6] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4";

	for (int i = 0; i < 4; i++)
		bytes[24 + 9 + 2 + i] = (uint8_t)(window >> (24 - 8 * i));
	say(p, bytes, sizeof(bytes));
}

/* POST, with a body to come, or GET. */
static inline void h2_head(struct peer *p, uint32_t id, const char *path, bool post)
{
	uint8_t bytes[64] = {0, 0, 0, 1, post ? 4 : 5, 0, 0, (uint8_t)(id >> 8), (uint8_t)id};
	size_t len = strlen(path), n = 9;

	bytes[n++] = post ? 0x83 : 0x82;
	bytes[n++] = 0x86;
	bytes[n++] = 0x04;
	bytes[n++] = (uint8_t)len;
	memcpy(bytes + n, path, len);
	n += len;
	memcpy(bytes + n, "\x41\1a", 3);
	n += 3;
	bytes[2] = (uint8_t)(n - 9);
	say(p, bytes, n);
}

/* Returns how many frames with this type and a stream were heard. */
static inline unsigned h2_count(const struct peer *p, uint8_t type)
{
	unsigned n = 0;

	for (size_t at = 0; at + 9 <= p->heard_len;) {
		const uint8_t *f = p->heard + at;

		n += f[3] == type && (f[7] || f[8]);
		at += 9u + ((size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2]);
	}
	return n;
}

#endif
