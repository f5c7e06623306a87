/* SPDX-License-Identifier: Apache-2.0 */
/* upstream_conn.c between a fake TCP and a fake protocol: input, ends, and who frees what. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "suite.h"
#include "tcp/tcp.h"
#include "worker/upstream_impl.h"

struct sl_tcp_conn {
	void *handle;
	unsigned closed, aborted, shut, resumed, wants_write, narrowed;
	size_t room;
	uint32_t held, unread;
};

static struct sl_tcp_conn tcps[4];
static unsigned tcp_cnt, tcp_max;
static int tcp_error;
static bool place;

struct sl_tcp_conn *sl_tcp_open(struct sl_tcp *t, const struct sl_addr *local,
				const struct sl_addr *remote, void *handle)
{
	(void)t, (void)local, (void)remote;
	errno = tcp_error;
	if (tcp_cnt == tcp_max)
		return NULL;
	tcps[tcp_cnt] = (struct sl_tcp_conn){.handle = handle, .room = 1000};
	return &tcps[tcp_cnt++];
}

size_t sl_tcp_send(struct sl_tcp_conn *c, const void *bytes, size_t len)
{
	size_t n = len < c->room ? len : c->room;

	(void)bytes;
	c->room -= n;
	return n;
}

void sl_tcp_shutdown(struct sl_tcp_conn *c)
{
	c->shut++;
}

void sl_tcp_close(struct sl_tcp_conn *c)
{
	c->closed++;
}

void sl_tcp_abort(struct sl_tcp_conn *c)
{
	c->aborted++;
}

void sl_tcp_resume(struct sl_tcp_conn *c)
{
	c->resumed++;
}

void sl_tcp_want_write(struct sl_tcp_conn *c)
{
	c->wants_write++;
}

bool sl_tcp_narrow(struct sl_tcp_conn *c, bool narrow)
{
	c->narrowed += narrow;
	return true;
}

uint32_t sl_tcp_held_frames(const struct sl_tcp_conn *c)
{
	return c->held;
}

uint32_t sl_tcp_unread_frames(const struct sl_tcp_conn *c)
{
	return c->unread;
}

bool upstream_has_place(const struct sl_upstream *u)
{
	(void)u;
	return place;
}

/* --- a protocol with 10 bytes of space --- */

enum { SPACE = 10 };

static struct {
	uint8_t at[SPACE];
	size_t used, total;
	unsigned ups, pauses, eofs, closings, writables, readies;
	char why[64];
	bool refuses; /* closes the connection at its next input */
} p;

static bool proto_up(struct origin_conn *c)
{
	p.ups++;
	upstream_io.wait(c, true, false);
	return true;
}

static unsigned proto_room(const struct origin_conn *c)
{
	(void)c;
	return 1;
}

static struct origin_space proto_space(struct origin_conn *c)
{
	(void)c;
	return (struct origin_space){p.at + p.used, SPACE - p.used};
}

static bool proto_input(struct origin_conn *c, size_t len)
{
	p.used += len;
	p.total += len;
	if (p.refuses)
		origin_conn_close(c, "refused");
	return !p.refuses;
}

static void proto_pause(struct origin_conn *c)
{
	(void)c;
	p.pauses++;
}

static void proto_eof(struct origin_conn *c, const char *why)
{
	(void)c;
	p.eofs++;
	snprintf(p.why, sizeof(p.why), "%s", why ? why : "in order");
}

static void proto_writable(struct origin_conn *c)
{
	(void)c;
	p.writables++;
}

static void proto_closing(struct origin_conn *c, const char *why)
{
	(void)c, (void)why;
	p.closings++;
}

static const struct origin_proto proto = {
	.conn_size = sizeof(struct origin_conn),
	.calls_per_conn = 1,
	.up = proto_up,
	.room = proto_room,
	.space = proto_space,
	.input = proto_input,
	.pause = proto_pause,
	.eof = proto_eof,
	.writable = proto_writable,
	.closing = proto_closing,
};

static void note_ready(struct origin_server *s)
{
	(void)s;
	p.readies++;
}

static void explain(const struct origin_server *s)
{
	(void)s;
}

static void no_address(const struct origin_server *s, char *to, size_t len)
{
	(void)s, (void)len;
	to[0] = 0;
}

static struct origin_owner owner = {
	.connect = upstream_conn_open,
	.retry = origin_server_try,
	.gone = upstream_conn_gone,
	.free = upstream_conn_free,
	.ready = note_ready,
	.explain = explain,
	.address = no_address,
	.conns_max = 16,
};

static struct sl_upstream_list list;
static struct sl_upstream u;
static struct sl_umem umem = {.frame_cnt = 100, .free_cnt = 100};

static void set_up(void)
{
	ck_assert(origin_init(&list.origin, 1 << 20, 16, SL_NS_PER_SEC));
	list.origin.io = &upstream_io;
	list.origin.owner = &owner;
	list.origin.area = "upstream";
	list.origin.prng = &list.prng;
	sl_prng_seed(&list.prng, 1);
	list.umem = &umem;
	sl_list_init(&list.servers);
	sl_list_init(&list.received);
	sl_list_init(&list.closing);
	u.list = &list;
	u.origin.name = "p/a";
	origin_server_init(&u.origin, &list.origin, &proto, 0);
	sl_list_init(&u.link);
	sl_list_add_tail(&list.servers, &u.link);
	place = true;
	tcp_max = 4;
}

static void tear_down(void)
{
	origin_server_fini(&u.origin, "end");
	upstream_handles_reset(&list);
	origin_conns_free(&list.origin);
	origin_fini(&list.origin);
}

FIXTURE(set_up, tear_down)

static struct origin_conn *conn(void)
{
	return sl_container_of(u.origin.conns.next, struct origin_conn, link);
}

/* A connection that is established. */
static struct sl_tcp_conn *connect_one(void)
{
	struct sl_tcp_conn *t = &tcps[tcp_cnt];

	ck_assert(upstream_conn_open(&u.origin));
	ck_assert_uint_eq(u.origin.connecting, 1);
	upstream_tcp_ops.connected(t->handle, t);
	ck_assert(u.origin.connecting == 0 && u.origin.conn_cnt == 1 && p.ups == 1);
	ck_assert_uint_eq(t->narrowed, 1);
	return t;
}

static size_t arrive(struct sl_tcp_conn *t, size_t len)
{
	static const uint8_t bytes[100];
	struct sl_chunk chunk = {.ptr = bytes, .len = len};

	return upstream_tcp_ops.data(t->handle, &chunk);
}

TEST(input_beyond_the_protocols_space_stays_with_tcp)
{
	struct sl_tcp_conn *t = connect_one();

	ck_assert_uint_eq(arrive(t, 4), 4);
	ck_assert_uint_eq(arrive(t, 20), 6);
	ck_assert_uint_eq(p.total, 10);
	p.used = 0;
	upstream_conns_pause(&list);
	ck_assert(t->resumed == 1 && p.pauses == 1);
	upstream_conns_pause(&list); /* nothing has arrived since */
	ck_assert(t->resumed == 1 && p.pauses == 1);
}

TEST(connection_that_wants_no_input_takes_none)
{
	struct sl_tcp_conn *t = connect_one();

	upstream_io.wait(conn(), false, false);
	ck_assert_uint_eq(arrive(t, 4), 0);
	upstream_conns_pause(&list);
	ck_assert_uint_eq(t->resumed, 0);
	upstream_io.wait(conn(), true, false);
	upstream_conns_pause(&list);
	ck_assert_uint_eq(t->resumed, 1);
}

TEST(bytes_after_the_protocol_closed_are_discarded)
{
	struct sl_tcp_conn *t = connect_one();

	p.refuses = true;
	ck_assert_uint_eq(arrive(t, 20), 20);
	ck_assert(p.closings == 1 && t->closed == 1 && !t->aborted);
	ck_assert_uint_eq(arrive(t, 5), 5); /* TCP closes meanwhile */
	upstream_tcp_ops.closed(t->handle, SL_TCP_CLOSED);
	ck_assert(sl_list_empty(&list.closing));
}

TEST(idle_connection_ends_in_order_and_a_busy_one_by_reset)
{
	struct sl_tcp_conn *t = connect_one();

	origin_conn_close(conn(), "idle");
	ck_assert(t->closed == 1 && !t->aborted && !sl_list_empty(&list.closing));
	p.ups = 0;
	t = connect_one();
	upstream_io.busy(conn());
	origin_conn_close(conn(), "cancelled");
	ck_assert(t->aborted == 1 && !t->closed);
	p.ups = 0;
	t = connect_one();
	t->held = 1; /* frames of a reply that nothing will read */
	origin_conn_close(conn(), "idle");
	ck_assert(t->aborted == 1 && !t->closed);
}

TEST(half_closed_connection_ends_in_order_only_if_both_have_ended)
{
	struct sl_tcp_conn *t = connect_one();

	upstream_io.busy(conn());
	ck_assert(upstream_io.shut(conn()) && t->shut == 1);
	origin_conn_close(conn(), "the client left");
	ck_assert(t->aborted == 1 && !t->closed);
	p.ups = 0;
	t = connect_one();
	upstream_io.busy(conn());
	upstream_io.shut(conn());
	upstream_tcp_ops.fin(t->handle);
	ck_assert(p.eofs == 1 && !strcmp(p.why, "in order"));
	origin_conn_close(conn(), "done");
	ck_assert(t->closed == 1 && !t->aborted);
}

TEST(end_of_tcp_is_told_once_with_its_reason)
{
	struct sl_tcp_conn *t = connect_one();

	upstream_tcp_ops.closed(t->handle, SL_TCP_RESET);
	ck_assert(p.eofs == 1 && !strcmp(p.why, "Connection reset by peer"));
	ck_assert(p.closings == 1 && !t->closed && !t->aborted);
	ck_assert_uint_eq(u.origin.conn_cnt, 0);
}

TEST(refused_connection_puts_the_server_down)
{
	ck_assert(upstream_conn_open(&u.origin));
	upstream_tcp_ops.closed(tcps[0].handle, SL_TCP_UNREACHABLE);
	ck_assert(u.origin.down_ns && !u.origin.conn_cnt && !u.origin.connecting);
	ck_assert_str_eq(u.origin.why, "Connection refused");
	ck_assert(p.readies == 1 && u.origin.told_unready);
}

static const struct {
	int error;
	bool place;
	const char *why;
} failures[] = {
	{EHOSTUNREACH, true, "no route by an interface with XDP"},
	{EADDRINUSE, true, "all tcp.server_ports are in use"},
	{ENOBUFS, true, "too many connections"},
	{0, false, "too many connections"},
};

TEST_EACH(failed_open_has_a_reason, 4)
{
	tcp_max = failures[_i].place ? 0 : 4;
	tcp_error = failures[_i].error;
	place = failures[_i].place;
	ck_assert(!upstream_conn_open(&u.origin));
	ck_assert_str_eq(u.origin.why, failures[_i].why);
	ck_assert_uint_eq(tcp_cnt, 0);
}

TEST(missing_place_is_taken_from_a_closing_then_from_an_idle_connection)
{
	struct sl_tcp_conn *closing = connect_one(), *idle;

	origin_conn_close(conn(), "idle");
	p.ups = 0;
	idle = connect_one();
	upstream_io.idle(conn());
	place = false;
	ck_assert(!upstream_conn_open(&u.origin));
	ck_assert(closing->aborted == 1 && !idle->aborted);
	ck_assert(!upstream_conn_open(&u.origin));
	ck_assert(idle->aborted == 1 && !idle->closed);
	ck_assert_uint_eq(u.origin.conn_cnt, 0);
}

TEST(send_takes_what_fits)
{
	struct sl_tcp_conn *t = connect_one();
	uint8_t bytes[900] = {0};
	struct iovec iov[2] = {{bytes, 900}, {bytes, 900}};

	ck_assert_int_eq(upstream_io.send(conn(), iov, 2), 1000);
	ck_assert_int_eq(upstream_io.send(conn(), iov, 2), -EAGAIN);
	upstream_io.wait(conn(), true, true);
	ck_assert_uint_eq(t->wants_write, 1);
	upstream_tcp_ops.writable(t->handle);
	ck_assert_uint_eq(p.writables, 1);
}

TEST(slow_server_keeps_few_frames_while_frames_are_scarce)
{
	struct sl_tcp_conn *t = connect_one();

	t->unread = 16;
	umem.free_cnt = 75;
	ck_assert(!upstream_tcp_ops.full(t->handle));
	umem.free_cnt = 74;
	ck_assert(upstream_tcp_ops.full(t->handle));
	t->unread = 15;
	ck_assert(!upstream_tcp_ops.full(t->handle));
}
