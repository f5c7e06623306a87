/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of HTTP/1.1 whose replies are more work than bytes. */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include "origin/h1.h"
#include "agent/internal.h"
#include "agent_ends.h"

static size_t unread(void)
{
	int n = 0;

	ck_assert_int_eq(ioctl(bed.server_fd, SIOCOUTQ, &n), 0);
	return (size_t)n;
}

static void set_up(void)
{
	bed_start("http");
}

FIXTURE(set_up, bed_stop)

/* A byte in each of its chunks: of that much little goes on, so no gateway holds the server up. */
TEST(a_server_that_says_much_has_turns)
{
	static const char chunk[] = "0000000000000001\r\nx\r\n";
	enum { CHUNK = sizeof(chunk) - 1, CHUNKS = 15000 };
	static char reply[CHUNKS * CHUNK];
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);
	int size = 1 << 20;
	size_t left;

	bed_server_accept();
	ck_assert_int_eq(setsockopt(bed.server_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 47);
	bed_until(r->parts == 1);
	for (unsigned i = 0; i < CHUNKS; i++)
		memcpy(reply + i * CHUNK, chunk, CHUNK);
	bed_server_say(reply, sizeof(reply));
	ck_assert_uint_ge(unread(), sizeof(reply)); /* all of it waits */
	bed_turns(1);
	left = unread();
	ck_assert_uint_gt(left, 0);
	ck_assert_uint_lt(left, sizeof(reply));
	bed_server_say("0\r\n\r\n", 5);
	bed_until(r->ends == 1);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, CHUNKS);
	bed_request_free(r);
}

/* But for 100, and without what concerns the connection; as many as a server may say. */
TEST(interim_replies_go_on)
{
	static const char hints[] =
		"HTTP/1.1 100 Continue\r\n\r\n"
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-hop\r\nX-Hop: no\r\n\r\n";
	static const char reply[] =
		"HTTP/1.1 102 \r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(hints, sizeof(hints) - 1);
	bed_until(r->interims == 1);
	ck_assert_int_eq(r->interim_status, 103);
	ck_assert_str_eq(r->interim_field, "link: </a>");
	ck_assert_uint_eq(r->parts, 0);
	bed_server_say(reply, sizeof(reply) - 1);
	bed_until(r->ends == 1);
	ck_assert_uint_eq(r->interims, 2);
	ck_assert_int_eq(r->interim_status, 102);
	ck_assert_int_eq(r->status, 200);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2);
	bed_request_free(r);
}

/* Bytes behind a server's reply must not answer the next request of any client. */
TEST_EACH(a_kept_connection_is_looked_at_before_it_is_used, 4)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
	static const char forged[] = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged";
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(reply, sizeof(reply) - 1);
	bed_until(r->ends == 1);
	bed_request_free(r);
	bed_turns(2);
	/* Between the loop's last look at the connection and the next request. */
	if (_i & 2)
		shutdown(bed.server_fd, SHUT_WR);
	else
		bed_server_say(forged, sizeof(forged) - 1);
	r = bed_ask(SL_PROTO_HTTP1, false);
	r->view->idempotent = _i & 1;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(reply, sizeof(reply) - 1);
	bed_until(r->ends == 1);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2);
	ck_assert_mem_eq(r->heard, "ok", 2);
	bed_request_free(r);
}

/* Also one that was opened for a request that left: servers answer their silence with 408. */
TEST_EACH(an_unused_connection_is_looked_at_before_it_is_used, 2)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
	static const char late[] = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	r->view->idempotent = true;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_close();
	bed_turns(1); /* it is lost, and the next connection begins */
	bed_cancel(r, false);
	bed_request_free(r);
	bed_server_accept();
	bed_turns(2);
	if (_i)
		shutdown(bed.server_fd, SHUT_WR);
	else
		bed_server_say(late, sizeof(late) - 1);
	r = bed_ask(SL_PROTO_HTTP1, false);
	bed_turns(4);
	ck_assert_uint_eq(r->ends, 0);
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(reply, sizeof(reply) - 1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_int_eq(r->status, 200);
	bed_request_free(r);
}

/*
 * A reply without a length and the end of its connection are one event. The gateway has no room at
 * first in the second case.
 */
TEST_EACH(end_of_a_connection_ends_its_reply, 2)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	static char body[40000];
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	r->full = _i;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(head, sizeof(head) - 1);
	bed_server_say(body, sizeof(body));
	bed_server_close();
	bed_turns(4);
	bed_room(r);
	bed_until(r->ends == 1);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, sizeof(body));
	bed_request_free(r);
}

/* What a slow client still has to read of a server says nothing about it now. */
TEST(a_dead_server_is_down_while_its_reply_is_read)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	static char body[40000];
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	r->full = true;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(head, sizeof(head) - 1);
	bed_server_say(body, sizeof(body));
	expect_down_while_read(r);
	ck_assert_uint_eq(r->len, sizeof(body));
	bed_request_free(r);
}

TEST(a_server_that_ends_each_connection_is_asked_with_pauses)
{
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	r->view->idempotent = true;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	expect_pauses();
	bed_cancel(r, false);
	bed_request_free(r);
}

TEST_EACH(an_interim_reply_is_no_reply_for_the_places, 2)
{
	static const char *const interim[] = {"HTTP/1.1 100 Continue\r\n\r\n",
					      "HTTP/1.1 103 Early Hints\r\n\r\n"};
	static const char reply[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, true);
	const struct agent_server *server =
		sl_list_first(&bed.agent->servers, struct agent_server, link);

	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 0));
	bed_server_say(interim[_i], strlen(interim[_i]));
	bed_turns(4);
	ck_assert_uint_eq(server->origin.busy_cnt, 0);
	bed.opt.on_stream->on_data(bed.opt.arg, r->view, "hello", 5, 0);
	bed.opt.on_stream->on_end(bed.opt.arg, r->view);
	ck_assert_uint_eq(server->origin.busy_cnt, 1);
	bed_turns(2);
	bed_server_say(reply, sizeof(reply) - 1);
	bed_until(r->ends == 1);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(server->origin.busy_cnt, 0);
	bed_request_free(r);
}
