/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that die, stop, or lie: requests end, nothing leaks, and only the liar's channel breaks. */
#include "base/rand.h"
#include "rpc_harness.h"
#include "suite.h"

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

static struct backend_proc start_echo(const char *endpoint)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint, .on_batch = echo});
}

static void check_served(const char *ep)
{
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("alive"), 0, SL_CLASS_LATENCY), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert(c.done);
	ck_assert_mem_eq(c.body, "alive", 5);
	call_fini(&c);
	gw_close(&g);
}

/* Shortens the time-out, because no kernel reports the end of the peer here. */
static void open_hasty(struct gateway *g, const char *ep)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.ping_interval_ns = 500 * SL_NS_PER_MS;
	cfg.dead_after_ns = 2 * SL_NS_PER_SEC;
	gw_open_with(g, ep, &cfg);
}

/* --- killed at every step of a transfer --- */

enum { BIG = 3 << 20, SMALL_CNT = 20, STEPS = 40 };

static void kill_at_step(const char *ep, unsigned step)
{
	static uint8_t big[BIG];
	static struct call calls[SMALL_CNT + 1];
	struct backend_proc p = start_echo(ep);
	struct gateway g;
	unsigned lost = 0;

	open_hasty(&g, ep);
	call_init(&calls[SMALL_CNT], BIG);
	ck_assert_int_eq(gw_send(&g, &calls[SMALL_CNT], sl_span_of(NULL, 0), sl_span_of(big, BIG),
				 0, SL_CLASS_BULK),
			 0);
	for (unsigned i = 0; i < SMALL_CNT; i++) {
		call_init(&calls[i], 16);
		ck_assert_int_eq(gw_send(&g, &calls[i], sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	for (unsigned i = 0; i < step; i++)
		gw_turn(&g);
	backend_kill(p);
	gw_until(&g, g.downs == 1);
	ck_assert_uint_eq(g.done + g.failed, SMALL_CNT + 1);
	ck_assert_uint_eq(g.batches_done, SMALL_CNT + 1);
	for (unsigned i = 0; i <= SMALL_CNT; i++) {
		ck_assert(calls[i].done != calls[i].failed);
		lost += calls[i].failed && calls[i].why == SL_RPC_FAIL_LOST;
		ck_assert(!calls[i].failed || calls[i].why == SL_RPC_FAIL_LOST ||
			  calls[i].why == SL_RPC_FAIL_DOWN);
		call_fini(&calls[i]);
	}
	ck_assert_uint_le(lost, SMALL_CNT + 1);
	gw_close(&g);
}

TEST_EACH(a_backend_may_be_killed_at_every_step, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	/*
	 * A silent host is noticed after seconds; with other transports the kernel reports the end
	 * at once.
	 */
	unsigned each = strncmp(ep, "rdma+ud", 7) == 0 ? 8 : harness_emulated() ? 4 : 1;

	for (unsigned step = 0; step < STEPS; step += each)
		kill_at_step(ep, step * step / 4);
}

/* Requests whose transmission had not begun may be sent elsewhere; others may not. */
TEST_EACH(unsent_requests_fail_as_down_and_begun_ones_as_lost, endpoint_cnt())
{
	static uint8_t big[32 << 20];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct gateway g;
	struct call begun, waiting;

	open_hasty(&g, ep);
	backend_pause(p);
	call_init(&begun, sizeof(big));
	call_init(&waiting, sizeof(big));
	ck_assert_int_eq(gw_send(&g, &begun, sl_span_of(NULL, 0), sl_span_of(big, sizeof(big)), 0,
				 SL_CLASS_BULK),
			 0);
	ck_assert_int_eq(gw_send(&g, &waiting, sl_span_of(NULL, 0), sl_span_of(big, sizeof(big)), 0,
				 SL_CLASS_BULK),
			 0);
	for (unsigned i = 0; i < 100; i++)
		gw_turn(&g);
	backend_kill(p);
	gw_until(&g, g.downs == 1);
	ck_assert(begun.failed && waiting.failed);
	ck_assert_int_eq(begun.why, SL_RPC_FAIL_LOST);
	ck_assert_int_eq(waiting.why, SL_RPC_FAIL_DOWN);
	call_fini(&begun);
	call_fini(&waiting);
	gw_close(&g);
}

/* The classes of a batch leave apart from each other. */
TEST_EACH(classes_of_a_batch_fail_separately, endpoint_cnt())
{
	static uint8_t big[32 << 20];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct gateway g;
	struct call begun, mixed[2];
	struct sl_span spans[2] = {sl_span_of(big, 64), sl_span_of(big, sizeof(big))};
	struct sl_rpc_item items[2];
	uint64_t batch;

	open_hasty(&g, ep);
	backend_pause(p);
	call_init(&begun, sizeof(big));
	ck_assert_int_eq(gw_send(&g, &begun, sl_span_of(NULL, 0), sl_span_of(big, sizeof(big)), 0,
				 SL_CLASS_BULK),
			 0);
	for (unsigned i = 0; i < 2; i++) {
		call_init(&mixed[i], spans[i].len);
		items[i] = (struct sl_rpc_item){.cookie = &mixed[i],
						.spans = &spans[i],
						.span_cnt = 1,
						.class = i ? SL_CLASS_BULK : SL_CLASS_CONTROL,
						.len = (uint32_t)spans[i].len};
	}
	ck_assert_int_eq(sl_rpc_send(g.ch, items, 2, sl_now_ns(), &batch), 0);
	for (unsigned i = 0; i < 100; i++)
		gw_turn(&g);
	backend_kill(p);
	gw_until(&g, g.downs == 1);
	ck_assert_uint_eq(g.batches_done, 2);
	ck_assert(mixed[0].failed && mixed[1].failed);
	ck_assert_int_eq(mixed[0].why, SL_RPC_FAIL_LOST);
	ck_assert_int_eq(mixed[1].why, SL_RPC_FAIL_DOWN);
	call_fini(&begun);
	for (unsigned i = 0; i < 2; i++)
		call_fini(&mixed[i]);
	gw_close(&g);
}

/* The process is there and does nothing: three unanswered pings. */
TEST_EACH(unanswered_pings_end_the_channel, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_rpc_config cfg;
	struct gateway g;
	struct call c;
	uint64_t start;

	sl_rpc_config_default(&cfg);
	cfg.ping_interval_ns = 300 * SL_NS_PER_MS;
	cfg.dead_after_ns = 100 * SL_NS_PER_MS;
	gw_open_with(&g, ep, &cfg);
	/* Answered ones keep an idle channel up. */
	start = sl_now_ns();
	while (sl_now_ns() - start < 1500 * SL_NS_PER_MS) {
		gw_turn(&g);
		usleep(1000);
	}
	ck_assert_uint_eq(g.downs, 0);
	backend_pause(p);
	call_init(&c, 8);
	ck_assert_int_eq(gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			 0);
	gw_until(&g, g.downs == 1);
	ck_assert(c.failed);
	ck_assert_int_eq(c.why, SL_RPC_FAIL_LOST);
	gw_close(&g);
	kill(p.pid, SIGCONT);
	check_served(ep);
	backend_term(p);
}

/* --- a gateway that lies --- */

static struct sl_rpc_header request_header(const struct sl_transport *t, uint32_t len)
{
	return (struct sl_rpc_header){
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
		.flags = SL_RPC_FIRST | SL_RPC_LAST | SL_RPC_BATCH,
		.priority = SL_CLASS_NORMAL,
		.count = 1,
		.fragment_len = len,
		.total_or_offset = len,
		.id = sl_rpc_boot_epoch() << 48 | (t->credits.sent + 1),
	};
}

static int raw_post(struct sl_transport *t, const struct sl_rpc_header *h, const void *body)
{
	struct sl_span span = sl_span_of(body, h->fragment_len);
	int rc = t->ops->post(t, h, &span, 1, 0);

	t->ops->flush(t);
	return rc;
}

/* It is rejected for its lie, not for its silence: it says that it is there when asked. */
static void answer_ping(struct sl_transport *t, const struct sl_rpc_header *h)
{
	struct sl_rpc_header pong = *h;

	if ((h->version_type & 15) != SL_RPC_PING)
		return;
	pong.version_type = SL_RPC_VERSION << 4 | SL_RPC_PONG;
	raw_post(t, &pong, NULL);
}

static void reject_wait(struct sl_transport *t)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_message m;

	for (;;) {
		int n = harness_poll(t, &m, 1);

		if (n < 0)
			return;
		if (n) {
			answer_ping(t, &m.header);
			t->ops->release(t, &m);
		}
		t->ops->flush(t);
		(void)t->ops->check(t);
		ck_assert_msg(sl_now_ns() < until, "the liar's channel is still up");
		usleep(100);
	}
}

struct lie {
	const char *what;
	size_t offset; /* in the header */
	unsigned width;
	uint64_t value;
};
#define FIELD(f) offsetof(struct sl_rpc_header, f), sizeof(((struct sl_rpc_header *)0)->f)

static const struct lie header_lies[] = {
	{"version", FIELD(version_type), 1 << 4 | SL_RPC_REQUEST},
	{"type 0", FIELD(version_type), SL_RPC_VERSION << 4},
	{"type unknown", FIELD(version_type), SL_RPC_VERSION << 4 | 15},
	{"a response", FIELD(version_type), SL_RPC_VERSION << 4 | SL_RPC_RESPONSE},
	{"a hello", FIELD(version_type), SL_RPC_VERSION << 4 | SL_RPC_HELLO},
	{"credit with a body", FIELD(version_type), SL_RPC_VERSION << 4 | SL_RPC_CREDIT},
	{"cancel of odd length", FIELD(version_type), SL_RPC_VERSION << 4 | SL_RPC_CANCEL},
	{"no batch", FIELD(flags), SL_RPC_FIRST | SL_RPC_LAST},
	{"no first", FIELD(flags), SL_RPC_LAST | SL_RPC_BATCH},
	{"no last", FIELD(flags), SL_RPC_FIRST | SL_RPC_BATCH},
	{"priority", FIELD(priority), SL_CLASS_CNT},
	{"count 0", FIELD(count), 0},
	{"count 2 of 1", FIELD(count), 2},
	{"count too large", FIELD(count), UINT16_MAX},
	{"total too small", FIELD(total_or_offset), 24},
	{"total too large", FIELD(total_or_offset), UINT32_MAX},
	{"last before the total", FIELD(total_or_offset), 64},
	{"stale generation", FIELD(id), 1},
};

TEST_EACH(each_lying_header_ends_its_channel, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);

	for (unsigned i = 0; i < sizeof(header_lies) / sizeof(header_lies[0]); i++) {
		const struct lie *lie = &header_lies[i];
		struct sl_transport *t = raw_dial(ep, 64, 1 << 20);
		struct {
			struct sl_rpc_entry e;
			uint64_t body;
		} m = {.e = {.id = 1, .len = 8}};
		struct sl_rpc_header h = request_header(t, sizeof(m));

		memcpy((uint8_t *)&h + lie->offset, &lie->value, lie->width);
		ck_assert_int_eq(raw_post(t, &h, &m), 0);
		reject_wait(t);
		sl_rpc_dial_drop(t);
	}
	check_served(ep);
	backend_term(p);
}

/* As raw_post(), once the backend has made room. */
static int raw_post_when_room(struct sl_transport *t, const struct sl_rpc_header *h,
			      const void *body)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_message m;
	int rc;

	while ((rc = raw_post(t, h, body)) == -EAGAIN && sl_now_ns() < until) {
		if (harness_poll(t, &m, 1) > 0) {
			answer_ping(t, &m.header);
			t->ops->release(t, &m);
		}
		(void)t->ops->check(t);
		usleep(100);
	}
	return rc;
}

/* Sequences that no single header gives away. */
TEST_EACH(each_lying_sequence_ends_its_channel, endpoint_cnt())
{
	static uint8_t body[4096];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);

	for (unsigned lie = 0; lie < 4; lie++) {
		struct sl_transport *t = raw_dial(ep, 64, 1 << 20);
		struct sl_rpc_entry *e = (void *)body;
		struct sl_rpc_header h = request_header(t, sizeof(*e) + 8);

		*e = (struct sl_rpc_entry){.id = 5, .len = 4096};
		h.total_or_offset = sizeof(*e) + 4096;
		h.flags = SL_RPC_FIRST | SL_RPC_BATCH;
		ck_assert_int_eq(raw_post(t, &h, body), 0);
		switch (lie) {
		case 0: /* the same message begins twice */
			ck_assert_int_eq(raw_post(t, &h, body), 0);
			break;
		case 1: /* a hole */
			h.flags = SL_RPC_BATCH;
			h.total_or_offset = 48;
			ck_assert_int_eq(raw_post(t, &h, body), 0);
			break;
		case 2: /* the same request in another message */
			h.id++;
			ck_assert_int_eq(raw_post(t, &h, body), 0);
			break;
		default: /* more messages at once than allowed */
			for (unsigned i = 0; i < SL_RPC_MAX_INTERLEAVE; i++) {
				h.id++;
				e->id++;
				ck_assert_int_eq(raw_post_when_room(t, &h, body), 0);
			}
		}
		reject_wait(t);
		sl_rpc_dial_drop(t);
	}
	check_served(ep);
	backend_term(p);
}

/* Bad metadata is the request's fault, not the channel's: it gets its answer. */
TEST_EACH(bad_metadata_is_the_requests_fault, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	call_init(&c, 8);
	ck_assert_int_eq(gw_send(&g, &c, sl_span_of("\x02\0\xff\xffpath", 8), sl_span_str("x"), 0,
				 SL_CLASS_NORMAL),
			 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert_uint_eq(c.status, SL_RPC_BAD_REQUEST);
	gw_close(&g);
	backend_term(p);
}

/* Random requests for as long as the channel stands, over and over, beside an honest gateway. */
TEST_EACH(random_messages_disturb_no_other_gateway, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_prng rng;

	sl_prng_seed(&rng, 42);
	for (unsigned round = 0; round < 30; round++) {
		struct sl_transport *t = raw_dial(ep, 64, 1 << 20);

		for (unsigned i = 0; i < 40; i++) {
			uint64_t body[64];
			struct sl_rpc_header h = request_header(t, sizeof(body));
			uint8_t *raw = (uint8_t *)&h;

			for (unsigned k = 0; k < 64; k++)
				body[k] = sl_prng_below(&rng, 2) ? sl_prng_u64(&rng)
								 : sl_prng_below(&rng, 64);
			for (unsigned k = 0; k < 3; k++)
				raw[sl_prng_below(&rng, 28)] = (uint8_t)sl_prng_u64(&rng);
			h.fragment_len = sizeof(body);
			if (raw_post(t, &h, body))
				break;
		}
		sl_rpc_dial_drop(t);
	}
	check_served(ep);
	backend_term(p);
}

/* --- a backend that lies --- */

enum backend_lie { UNKNOWN_ID, OTHER_LENGTH, REPLY_TWICE, A_REQUEST, LIE_CNT };

struct lying_order {
	char ep[256];
	enum backend_lie lie;
};

static void lying_backend(const void *arg)
{
	const struct lying_order *order = arg;
	const char *ep = order->ep;
	enum backend_lie lie = order->lie;
	struct sl_rpc_listen_options opt = {
		.key_file = harness_key(), .bulk_ring_len = 1 << 20, .slots = 64};
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_listener *l = sl_rpc_listen(ep, &opt, &err);
	struct sl_transport *t = NULL;
	struct sl_message m;
	struct sl_rpc_entry e;
	struct sl_rpc_header h;

	alarm(30);
	while (l && !t) {
		t = l->ops->accept(l, sl_now_ns());
		usleep(200);
	}
	while (harness_poll(t, &m, 1) == 0)
		usleep(200);
	memcpy(&e, m.body, sizeof(e));
	t->ops->release(t, &m);
	h = request_header(t, sizeof(e));
	h.version_type =
		SL_RPC_VERSION << 4 | (lie == A_REQUEST ? SL_RPC_REQUEST : SL_RPC_RESPONSE);
	e.len = e.meta_len = 0;
	if (lie == UNKNOWN_ID)
		e.id ^= 1;
	if (lie == OTHER_LENGTH)
		e.len = 100;
	raw_post(t, &h, &e);
	h.id++;
	raw_post(t, &h, &e);
	for (;;)
		pause();
}

TEST_EACH(invalid_message_of_a_backend_ends_its_channel, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);

	for (unsigned lie = 0; lie < LIE_CNT; lie++) {
		struct lying_order order = {.lie = lie};
		struct backend_proc p;
		struct gateway g;
		struct call c;
		struct sl_rpc_stats st;

		snprintf(order.ep, sizeof(order.ep), "%s", ep);
		p.pid = harness_spawn(lying_backend, &order, sizeof(order));
		gw_open(&g, ep);
		call_init(&c, 8);
		ck_assert_int_eq(
			gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			0);
		switch (lie) {
		case UNKNOWN_ID:
			do {
				gw_turn(&g);
				sl_rpc_channel_stats(g.ch, &st);
			} while (st.late_replies < 2);
			ck_assert(!c.done && !c.failed);
			sl_rpc_cancel(g.ch, c.id);
			gw_until(&g, g.batches_done == 1);
			break;
		case REPLY_TWICE:
			do {
				gw_turn(&g);
				sl_rpc_channel_stats(g.ch, &st);
			} while (!st.late_replies);
			ck_assert(c.done);
			break;
		default:
			gw_until(&g, g.downs == 1);
			ck_assert(c.failed);
			ck_assert_int_eq(c.why, SL_RPC_FAIL_PROTOCOL);
		}
		gw_close(&g);
		backend_kill(p);
	}
}
