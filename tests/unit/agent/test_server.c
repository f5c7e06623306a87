/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for a server, and the requests that it gets, one at a time. */
#include "base/clock.h"
#include "origin/server.h"
#include "agent_bed.h"

enum { ASKED_MAX = 64 };

static struct bed_request *asked[ASKED_MAX];
static bool streams[ASKED_MAX]; /* those of which the end is still to come */
static unsigned asked_cnt;

static void set_up(void)
{
	bed_start_as("http", (struct sl_agent_options){.concurrency = 1, .host = "site.example:8"});
}

/* Unanswered requests end with their server. */
static void tear_down(void)
{
	bed_stop();
	for (unsigned i = 0; i < asked_cnt; i++)
		bed_request_free(asked[i]);
}

FIXTURE(set_up, tear_down)

static void ask(enum sl_rpc_class class, const char *path, bool stream)
{
	ck_assert_uint_lt(asked_cnt, ASKED_MAX);
	streams[asked_cnt] = stream;
	asked[asked_cnt] = bed_ask_as(SL_PROTO_HTTP1, stream, class, path);
	if (stream)
		asked[asked_cnt]->view->length = 0;
	asked_cnt++;
}

/* As the SDK does: of those that are on their way to the server. */
static void end_streams(void)
{
	for (unsigned i = 0; i < asked_cnt; i++) {
		if (!streams[i] || !asked[i]->view || asked[i]->paused)
			continue;
		bed.opt.on_stream->on_end(bed.opt.arg, asked[i]->view);
		streams[i] = false;
	}
	bed_turns(1);
}

/* The next request that the server gets, up to the end of its head, is answered. */
static const char *serve(void)
{
	static char path[64];
	char *end;

	bed_until((bed_server_hear(), bed.heard[bed.heard_len] = 0,
		   strstr((char *)bed.heard, "\r\n\r\n")));
	ck_assert_int_eq(sscanf((char *)bed.heard, "POST /%60s HTTP/1.1", path), 1);
	ck_assert_ptr_nonnull(strstr((char *)bed.heard, "\r\nhost: site.example:8\r\n"));
	end = strstr((char *)bed.heard, "\r\n\r\n") + 4;
	/* The body of those that have one is "hello", and comes with the head or right after it. */
	if (!strstr((char *)bed.heard, "content-length: 0") &&
	    strstr((char *)bed.heard, "content-length:"))
		bed_until((bed_server_hear(),
			   (size_t)(end - (char *)bed.heard) + 5 <= bed.heard_len));
	bed.heard_len = 0;
	end_streams();
	bed_server_say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 38);
	return path;
}

static void all_answered(void)
{
	for (unsigned i = 0; i < asked_cnt; i++) {
		bed_until(asked[i]->ends == 1);
		ck_assert(asked[i]->gone || asked[i]->error == SL_RPC_OK);
	}
}

/* Whether they come whole or as streams. */
TEST_EACH(urgent_calls_overtake_others, 2)
{
	ask(SL_CLASS_BULK, "first", false); /* occupies the server */
	bed_server_accept();
	ask(SL_CLASS_BULK, "b1", _i);
	ask(SL_CLASS_NORMAL, "n1", _i);
	ask(SL_CLASS_BULK, "b2", false);
	ask(SL_CLASS_LATENCY, "l1", _i);
	ask(SL_CLASS_NORMAL, "n2", false);
	ask(SL_CLASS_LATENCY, "l2", false);
	ck_assert_str_eq(serve(), "first");
	ck_assert_str_eq(serve(), "l1");
	ck_assert_str_eq(serve(), "l2");
	ck_assert_str_eq(serve(), "n1");
	ck_assert_str_eq(serve(), "n2");
	ck_assert_str_eq(serve(), "b1");
	ck_assert_str_eq(serve(), "b2");
	all_answered();
}

/* One in sixteen is of the least urgent class that waits. */
TEST(urgent_calls_starve_no_others)
{
	unsigned before = 0;

	ask(SL_CLASS_LATENCY, "first", false);
	bed_server_accept();
	ask(SL_CLASS_BULK, "bulk", false);
	for (unsigned i = 0; i < 40; i++)
		ask(SL_CLASS_LATENCY, "urgent", false);
	while (strcmp(serve(), "bulk") != 0)
		before++;
	ck_assert_uint_eq(before, 15);
	for (unsigned i = before + 1; i < asked_cnt; i++)
		ck_assert_str_eq(serve(), "urgent");
	all_answered();
}

/* A cancelled request that waits never reaches the server. */
TEST_EACH(a_waiting_call_that_is_cancelled_is_not_sent, 2)
{
	ask(SL_CLASS_NORMAL, "first", false);
	bed_server_accept();
	ask(SL_CLASS_NORMAL, "left", _i);
	ask(SL_CLASS_NORMAL, "last", false);
	bed_turns(2);
	bed_cancel(asked[1], _i);
	ck_assert_str_eq(serve(), "first");
	ck_assert_str_eq(serve(), "last");
	bed_turns(5);
	ck_assert(bed_server_hear());
	ck_assert_uint_eq(bed.heard_len, 0);
	all_answered();
}

/* The next connection, on which the server gets a request and says nothing. */
static void lose(const char *path)
{
	char line[64];

	snprintf(line, sizeof(line), "POST /%s ", path);
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > strlen(line)));
	ck_assert_int_eq(strncmp((char *)bed.heard, line, strlen(line)), 0);
	bed_server_close();
}

/* Its server may be dying: the call is sent a third time after a while, and delays no other. */
TEST(a_call_that_was_lost_twice_rests)
{
	uint64_t lost;

	ask(SL_CLASS_LATENCY, "again", false);
	asked[0]->view->idempotent = true;
	lose("again");
	lose("again");
	lost = sl_now_ns();
	bed_turns(2);
	ask(SL_CLASS_BULK, "other", false);
	bed_server_accept();
	ck_assert_str_eq(serve(), "other");
	/* Looked at afterwards: to hear it may have taken long. */
	for (;;) {
		bed_turns(1);
		ck_assert(bed_server_hear());
		if (sl_now_ns() - lost >= 190 * SL_NS_PER_MS)
			break;
		ck_assert_uint_eq(bed.heard_len, 0);
	}
	while (sl_now_ns() - lost < 300 * SL_NS_PER_MS)
		bed_turns(1);
	ck_assert_str_eq(serve(), "again");
	all_answered();
}

/*
 * A call that is cancelled meanwhile is not sent again; a server that ends takes its calls along.
 */
TEST(a_resting_call_may_leave)
{
	for (unsigned i = 0; i < 2; i++) {
		ask(SL_CLASS_NORMAL, "again", false);
		asked[i]->view->idempotent = true;
		lose("again");
		lose("again");
		bed_turns(2);
	}
	bed_cancel(asked[0], false);
	ck_assert_uint_eq(asked[0]->ends, 1);
	ck_assert_uint_eq(asked[1]->ends, 0);
}

/* A reload takes it away, the next one brings it back: until it has gone its endpoint is taken. */
TEST(a_call_brought_back_before_it_has_gone_stays)
{
	struct sl_agent_options again = {
		.listen = "x", .to = "http://127.0.0.1:9", .concurrency = 1};
	struct sl_err err = SL_ERR(200);

	ask(SL_CLASS_NORMAL, "first", false);
	bed_server_accept();
	bed.waiting = 1;
	sl_agent_remove(bed.agent, "x");
	bed_turns(2);
	ck_assert(bed.unready);
	ck_assert_int_eq(sl_agent_add(bed.agent, &again, &err), 0);
	ck_assert(!bed.unready);
	bed_turns(2);
	ck_assert_uint_eq(bed.opened, 1);
	ck_assert_str_eq(serve(), "first");
	all_answered();
	/* It is no longer about to go. */
	bed.waiting = 0;
	bed_turns(2);
	ask(SL_CLASS_NORMAL, "second", false);
	ck_assert_str_eq(serve(), "second");
	all_answered();
}

/* --- a server that is not there --- */

static void stop_listening(void)
{
	close(bed.listen_fd);
	bed.listen_fd = -1;
}

static void listen_again(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	unlink(bed.path);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", bed.path);
	bed.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(bed.listen_fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	ck_assert_int_eq(listen(bed.listen_fd, 16), 0);
}

/* Its agent does not wait for it: others of the pool may be up, and the gateway waits if none is. */
TEST(calls_for_an_absent_server_are_refused_at_once)
{
	uint64_t begun;

	stop_listening();
	ask(SL_CLASS_NORMAL, "first", false);
	ask(SL_CLASS_NORMAL, "second", true);
	begun = sl_now_ns();
	bed_until(asked[0]->ends == 1 && asked[1]->ends == 1);
	ck_assert_int_eq(asked[0]->error, SL_RPC_REFUSED);
	ck_assert_int_eq(asked[1]->error, SL_RPC_REFUSED);
	ck_assert(bed.unready);
	/* Nor what comes meanwhile, and gateways hear of the server when it is back. */
	ask(SL_CLASS_NORMAL, "third", false);
	ck_assert_int_eq(asked[2]->error, SL_RPC_REFUSED);
	listen_again();
	while (bed.unready && sl_now_ns() - begun < 20 * SL_NS_PER_SEC)
		bed_turns(1);
	ck_assert(!bed.unready);
}

/* The gateway may repeat it, but not as often as what no server has seen. */
TEST(a_call_that_a_lost_server_has_read_is_not_refused_as_new)
{
	ask(SL_CLASS_NORMAL, "again", false);
	asked[0]->view->idempotent = true;
	bed_server_accept();
	bed_until((bed_server_hear(), bed.heard_len > 10));
	stop_listening();
	bed_server_close();
	bed_until(asked[0]->ends == 1);
	ck_assert_int_eq(asked[0]->error, SL_RPC_UNANSWERED);
	ck_assert(bed.unready);
}

/* Each server of a pool that ends its connections at once gets few requests, others get them. */
TEST(a_server_that_ends_connections_without_a_reply_is_down)
{
	uint64_t begun = sl_now_ns();

	for (unsigned i = 0; i < ORIGIN_MUTE_MAX; i++) {
		ck_assert(!bed.unready);
		ask(SL_CLASS_NORMAL, "lost", false);
		lose("lost");
		bed_until(asked[i]->ends == 1);
	}
	ck_assert(bed.unready);
	while (bed.unready && sl_now_ns() - begun < 20 * SL_NS_PER_SEC)
		bed_turns(1);
	bed_server_accept(); /* the next try ended at once */
	bed_server_close();
	ask(SL_CLASS_NORMAL, "lost", false);
	lose("lost");
	bed_until(asked[ORIGIN_MUTE_MAX]->ends == 1);
	ck_assert(bed.unready);
	while (bed.unready && sl_now_ns() - begun < 20 * SL_NS_PER_SEC)
		bed_turns(1);
	bed_server_accept();
	bed_server_close();
	ask(SL_CLASS_NORMAL, "served", false);
	bed_server_accept();
	ck_assert_str_eq(serve(), "served");
	bed_until(asked[ORIGIN_MUTE_MAX + 1]->ends == 1);
	/* A reply ends the suspicion. */
	bed_server_close();
	ask(SL_CLASS_NORMAL, "lost", false);
	lose("lost");
	bed_until(asked[ORIGIN_MUTE_MAX + 2]->ends == 1);
	ck_assert(!bed.unready);
}
