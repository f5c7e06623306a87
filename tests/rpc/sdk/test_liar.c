/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that lies, over the transports as they are: it accepts, reads requests, and says what
 * no backend says. Either that ends its channel as a breach of the protocol, each request failed
 * once, or it changes nothing and the requests are answered.
 */
#include "base/check.h"
#include "rpc/session.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc_harness.h"
#include "suite.h"

enum { CALLS = 4, BIG = 12 << 20 /* more than the ring holds */, BODY_MAX = 16 << 10 };
#define SILENCE_NS (800 * SL_NS_PER_MS)

enum verdict { BREACH, ANSWERED, LOST, DEAD /* not reported over virtual connections */ };

/* The liar's end. */
struct liar {
	struct sl_transport *t;
	uint64_t ids[CALLS];
	unsigned id_cnt;
	uint64_t next;
};

struct liar_order {
	char listen[256];
	void (*lie)(struct liar *l);
	bool at_once; /* does not wait for requests */
};

static uint64_t message_id(uint64_t n)
{
	return sl_rpc_boot_epoch() << 48 | n;
}

static struct sl_rpc_header header(unsigned cnt, uint32_t total)
{
	return (struct sl_rpc_header){
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
		.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_NORMAL,
		.count = (uint16_t)cnt,
		.fragment_len = total,
		.total_or_offset = total,
	};
}

/* Takes what has come; ids of requests are kept. */
static void listen_on(struct liar *l)
{
	struct sl_message m[8];
	int n = harness_poll(l->t, m, 8);

	for (int i = 0; i < n; i++) {
		const struct sl_rpc_header *h = &m[i].header;
		struct sl_rpc_entry e;

		if ((h->version_type & 15) == SL_RPC_REQUEST && h->flags & SL_RPC_FIRST &&
		    l->id_cnt < CALLS) {
			memcpy(&e, m[i].body, sizeof(e));
			l->ids[l->id_cnt++] = e.id;
		}
		l->t->ops->release(l->t, &m[i]);
	}
	l->t->ops->flush(l->t);
}

static void put_header(struct liar *l, const struct sl_rpc_header *h, const uint8_t *body)
{
	struct sl_span span = sl_span_of(body, h->fragment_len);

	while (l->t->ops->post(l->t, h, &span, h->fragment_len ? 1 : 0, 0) == -EAGAIN)
		listen_on(l);
}

static void say_header(struct liar *l, const struct sl_rpc_header *h, const uint8_t *body)
{
	put_header(l, h, body);
	l->t->ops->flush(l->t);
}

/* A response about cnt requests, each with len bytes of 'x'; *total is its length. */
static const uint8_t *response(struct liar *l, unsigned cnt, const uint64_t *ids, uint8_t status,
			       uint8_t flags, uint32_t len, uint32_t *total)
{
	static uint8_t body[BODY_MAX];
	struct sl_rpc_entry e = {.len = len, .status = status, .flags = flags};
	uint32_t at = cnt * (uint32_t)sizeof(e);

	(void)l;
	memset(body, 'x', sizeof(body));
	for (unsigned i = 0; i < cnt; i++) {
		e.id = ids[i];
		memcpy(body + i * sizeof(e), &e, sizeof(e));
		at += (uint32_t)sl_rpc_pad8(len);
	}
	*total = at;
	return body;
}

static void say(struct liar *l, uint64_t id, uint8_t status, uint8_t flags, uint32_t len)
{
	uint32_t total;
	const uint8_t *body = response(l, 1, &id, status, flags, len, &total);
	struct sl_rpc_header h = header(1, total);

	h.id = message_id(++l->next);
	say_header(l, &h, body);
}

static void answer_all(struct liar *l)
{
	for (unsigned i = 0; i < CALLS; i++)
		say(l, l->ids[i], SL_RPC_OK, 0, 5);
}

/* Bytes [from, to) of a response to request i, as a fragment of message `id`. */
static void say_piece(struct liar *l, unsigned i, uint8_t status, uint32_t len, uint64_t id,
		      uint32_t from, uint32_t to)
{
	uint32_t total;
	const uint8_t *body = response(l, 1, &l->ids[i], status, 0, len, &total);
	struct sl_rpc_header h = header(1, total);

	to = to < total ? to : total;
	h.id = message_id(id);
	h.flags = (uint8_t)(SL_RPC_BATCH | (from ? 0 : SL_RPC_FIRST) |
			    (to == total ? SL_RPC_LAST : 0));
	h.fragment_len = to - from;
	h.total_or_offset = from ? from : total;
	say_header(l, &h, body + from);
}

/* --- lies --- */

static void refused_and_more(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_REFUSED, SL_ENTRY_MORE, 0);
}

static void error_with_a_body(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_INTERNAL, 0, 5);
}

static void error_in_pieces(struct liar *l)
{
	say_piece(l, 0, SL_RPC_REFUSED, 1000, 1, 0, 500);
}

static void more_after_a_refusal(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_REFUSED, 0, 0);
	say(l, l->ids[0], SL_RPC_OK, 0, 5);
	for (unsigned i = 1; i < CALLS; i++)
		say(l, l->ids[i], SL_RPC_OK, 0, 5);
}

static void made_up_ids(struct liar *l)
{
	static const uint64_t steps[] = {1, 77, UINT64_C(1) << 48, UINT64_MAX / 2, UINT64_MAX};

	for (unsigned i = 0; i < 5; i++)
		say(l, l->ids[CALLS - 1] + steps[i], SL_RPC_OK, i & 1 ? SL_ENTRY_MORE : 0, 5);
	answer_all(l);
}

static void answers_twice(struct liar *l)
{
	answer_all(l);
	answer_all(l);
}

static void one_id_twice_in_a_message(struct liar *l)
{
	uint64_t ids[] = {l->ids[0], l->ids[0], l->ids[1], l->ids[1]};
	uint32_t total;
	const uint8_t *body = response(l, 4, ids, SL_RPC_OK, 0, 5, &total);
	struct sl_rpc_header h = header(4, total);

	h.id = message_id(1000);
	say_header(l, &h, body);
	say(l, l->ids[2], SL_RPC_OK, 0, 5);
	say(l, l->ids[3], SL_RPC_OK, 0, 5);
}

/* None of them is a stream that has asked. */
static void goes_on_unasked(struct liar *l)
{
	for (unsigned i = 0; i < 1000; i++)
		say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
}

static void one_id_in_two_messages(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	say_piece(l, 0, SL_RPC_OK, 1000, 2, 0, 500);
}

static void message_about_nobody(struct liar *l)
{
	uint64_t id = l->ids[0];

	l->next = 2;
	l->ids[0] = id + 1000; /* belongs to no connection */
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	l->ids[0] = id;
	say_piece(l, 0, SL_RPC_OK, 1000, 2, 0, 500);
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 500, 600);
	say_piece(l, 0, SL_RPC_OK, 1000, 2, 500, 2000);
	for (unsigned i = 1; i < CALLS; i++)
		say(l, l->ids[i], SL_RPC_OK, 0, 5);
}

static void length_of(struct liar *l, uint32_t len, uint16_t meta_len, int32_t more_total)
{
	uint32_t total;
	uint8_t body[256];
	struct sl_rpc_entry e = {.id = l->ids[0], .len = len, .meta_len = meta_len};
	struct sl_rpc_header h;

	memcpy(body, response(l, 1, l->ids, SL_RPC_OK, 0, 64, &total), sizeof(body));
	memcpy(body, &e, sizeof(e));
	h = header(1, total);
	h.id = message_id(1);
	h.total_or_offset += (uint32_t)more_total;
	say_header(l, &h, body);
}

static void longer_than_its_message(struct liar *l)
{
	length_of(l, 65, 8, 0);
}

static void shorter_than_its_message(struct liar *l)
{
	length_of(l, 8, 0, 0);
}

static void longer_than_any_message(struct liar *l)
{
	length_of(l, UINT32_MAX - 7, 0, 0);
}

static void total_of_more(struct liar *l)
{
	length_of(l, 64, 0, 8);
}

static void total_of_less(struct liar *l)
{
	length_of(l, 64, 0, -8);
}

static void of_type(struct liar *l, unsigned type, unsigned cnt)
{
	struct sl_rpc_header h = header(cnt, cnt * 8);

	h.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type);
	h.id = message_id(1);
	if (type == SL_RPC_CREDIT)
		h.total_or_offset = SL_RPC_MIN_SLOTS; /* allowed over RDMA */
	say_header(l, &h, (const uint8_t *)l->ids);
}

/* An entry of a reply of which `rest` bytes are to come. */
static void say_of_message(struct liar *l, uint8_t flags, uint32_t len, uint32_t rest,
			   uint16_t meta_len)
{
	uint8_t body[512] = {0};
	struct sl_rpc_entry e = {
		.id = l->ids[0], .len = len, .rest = rest, .meta_len = meta_len, .flags = flags};
	uint32_t total = (uint32_t)(sizeof(e) + sl_rpc_pad8(meta_len) + sl_rpc_pad8(len));
	struct sl_rpc_header h = header(1, total);

	memcpy(body, &e, sizeof(e));
	h.id = message_id(++l->next);
	if (total > sizeof(body)) {
		h.flags = SL_RPC_BATCH | SL_RPC_FIRST;
		h.fragment_len = sizeof(body);
	}
	say_header(l, &h, body);
}

static void beyond_its_credit(struct liar *l)
{
	say_of_message(l, 0, SL_RPC_INITIAL_WINDOW + 1, 0, 0);
}

static void message_of_other_length(struct liar *l)
{
	say_of_message(l, 0, 64, 1000, 0);
	say_of_message(l, 0, 64, 900, 0);
}

static void message_without_end(struct liar *l)
{
	say_of_message(l, 0, 64, 1000, 0);
	say_of_message(l, SL_ENTRY_MORE, 64, 936, 0);
}

static void second_head(struct liar *l)
{
	say_of_message(l, SL_ENTRY_MORE, 64, 1000, 0);
	say_of_message(l, SL_ENTRY_MORE, 64, 936, 8);
}

static void rest_of_an_empty_entry(struct liar *l)
{
	say_of_message(l, SL_ENTRY_MORE, 0, 1000, 0);
}

static void longer_than_any_with_its_rest(struct liar *l)
{
	say_of_message(l, 0, 64, SL_RPC_MAX_MESSAGE - 63, 0);
}

static void of_no_type(struct liar *l)
{
	of_type(l, SL_RPC_READY + 1, 0);
}

static void of_another_version(struct liar *l)
{
	struct sl_rpc_header h = header(0, 0);

	h.version_type -= 1 << 4;
	say_header(l, &h, NULL);
}

/* Words for the former connection arrive too late, which must not end this one. */
static void asks_and_raves_at_once(struct liar *l)
{
	struct sl_rpc_header h = header(0, 0);

	h.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING;
	put_header(l, &h, NULL);
	of_no_type(l);
}

static void windows(struct liar *l)
{
	static uint8_t body[16 * 4];
	struct sl_rpc_header h = header(4, sizeof(body));

	memset(body, 0xff, sizeof(body));
	memcpy(body, &l->ids[0], sizeof(l->ids[0]));
	h.version_type = SL_RPC_VERSION << 4 | SL_RPC_WINDOW;
	h.fragment_len = h.count * 16u;
	say_header(l, &h, body);
	answer_all(l);
}

static void half_a_window(struct liar *l)
{
	of_type(l, SL_RPC_WINDOW, 1);
}

static void no_requests(struct liar *l)
{
	struct sl_rpc_header h = header(0, 0);

	h.id = message_id(1);
	say_header(l, &h, NULL);
}

static void too_many_requests(struct liar *l)
{
	static uint8_t body[BODY_MAX];
	struct sl_rpc_header h = header(SL_RPC_MAX_BATCH + 1, BODY_MAX);

	h.id = message_id(1);
	say_header(l, &h, body);
}

static void rest_of_nothing(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 500, 600);
}

static void beyond_the_last(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 500, 2000);
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 500, 2000);
}

static void out_of_place(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 600, 2000);
}

static void begun_twice(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
}

static void too_many_at_once(struct liar *l)
{
	for (unsigned i = 0; i <= SL_RPC_MAX_INTERLEAVE; i++)
		say_piece(l, 0, SL_RPC_OK, 1000, 1 + i, 0, 8);
}

static void of_another_process(struct liar *l)
{
	uint32_t total;
	const uint8_t *body = response(l, 1, l->ids, SL_RPC_OK, 0, 5, &total);
	struct sl_rpc_header h = header(1, total);

	h.id = message_id(1) ^ UINT64_C(1) << 48;
	say_header(l, &h, body);
}

static void asks(struct liar *l)
{
	of_type(l, SL_RPC_REQUEST, 1);
}

static void cancels(struct liar *l)
{
	of_type(l, SL_RPC_CANCEL, 1);
}

static void hello(struct liar *l)
{
	of_type(l, SL_RPC_HELLO, 0);
}

static void pings(struct liar *l)
{
	for (unsigned i = 0; i < 2000; i++)
		of_type(l, i & 1 ? SL_RPC_PING : SL_RPC_PONG, 0);
	answer_all(l);
}

static void goes_away_often(struct liar *l)
{
	for (unsigned i = 0; i < 3; i++)
		of_type(l, SL_RPC_GOAWAY, 0);
	answer_all(l);
}

/* Says that it has read what was never sent; shm and tcp send what their count says. */
static void credit_for_more(struct liar *l)
{
	l->t->credits.consumed += 1000;
	of_type(l, SL_RPC_PING, 0);
}

static _Noreturn void die(struct liar *l)
{
	(void)l;
	kill(getpid(), SIGKILL);
	_exit(0);
}

static void dies_in_a_reply(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	die(l);
}

static void dies_between_replies(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_MORE, 5);
	die(l);
}

static void hangs_up_in_a_reply(struct liar *l)
{
	say_piece(l, 0, SL_RPC_OK, 1000, 1, 0, 500);
	l->t->ops->close(l->t);
	for (;;)
		pause();
}

static const struct {
	void (*lie)(struct liar *l);
	enum verdict verdict;
} lies[] = {
	{refused_and_more, BREACH},
	{error_with_a_body, BREACH},
	{error_in_pieces, BREACH},
	{more_after_a_refusal, ANSWERED},
	{made_up_ids, ANSWERED},
	{answers_twice, ANSWERED},
	{one_id_twice_in_a_message, ANSWERED},
	{one_id_in_two_messages, BREACH},
	{goes_on_unasked, BREACH},
	{message_about_nobody, ANSWERED},
	{longer_than_its_message, BREACH},
	{shorter_than_its_message, BREACH},
	{longer_than_any_message, BREACH},
	{total_of_more, BREACH},
	{total_of_less, BREACH},
	{beyond_its_credit, BREACH},
	{message_of_other_length, BREACH},
	{message_without_end, BREACH},
	{second_head, BREACH},
	{rest_of_an_empty_entry, BREACH},
	{longer_than_any_with_its_rest, BREACH},
	{of_no_type, BREACH},
	{of_another_version, BREACH},
	{asks_and_raves_at_once, BREACH},
	{windows, ANSWERED},
	{half_a_window, BREACH},
	{no_requests, BREACH},
	{too_many_requests, BREACH},
	{rest_of_nothing, BREACH},
	{beyond_the_last, BREACH},
	{out_of_place, BREACH},
	{begun_twice, BREACH},
	{too_many_at_once, BREACH},
	{of_another_process, BREACH},
	{asks, BREACH},
	{cancels, BREACH},
	{hello, BREACH},
	{pings, ANSWERED},
	{goes_away_often, ANSWERED},
	{die, DEAD},
	{dies_in_a_reply, DEAD},
	{dies_between_replies, DEAD},
	{hangs_up_in_a_reply, LOST},
};

/* --- the liar's process --- */

static struct sl_transport *accept_one(const char *endpoint)
{
	struct sl_rpc_listen_options opt = {
		.key_file = harness_key(), .bulk_ring_len = 4 << 20, .slots = 256};
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_listener *l = sl_rpc_listen(endpoint, &opt, &err);
	struct sl_transport *t = NULL;

	if (!l) {
		fprintf(stderr, "liar: %s\n", err.text);
		_exit(3);
	}
	while (!t) {
		t = l->ops->accept(l, sl_now_ns());
		sched_yield();
	}
	return t;
}

static void liar_main(const void *arg)
{
	const struct liar_order *order = arg;
	struct liar l = {.t = NULL};

	alarm(3 * harness_timeout_s());
	l.t = accept_one(order->listen);
	while (!order->at_once && l.id_cnt < CALLS)
		listen_on(&l);
	order->lie(&l);
	for (;;) {
		listen_on(&l);
		sched_yield();
	}
}

static struct backend_proc liar_start(const char *endpoint, void (*lie)(struct liar *l),
				      bool at_once)
{
	struct liar_order order = {.lie = lie, .at_once = at_once};

	snprintf(order.listen, sizeof(order.listen), "%s", endpoint);
	return (struct backend_proc){harness_spawn(liar_main, &order, sizeof(order))};
}

/* --- the gateway --- */

static void check_verdict(struct gateway *g, const struct call *calls, enum verdict v,
			  void (*lie)(struct liar *l))
{
	struct sl_rpc_stats st;
	unsigned failed = 0;

	sl_rpc_channel_stats(g->ch, &st);
	for (unsigned i = 0; i < CALLS; i++) {
		failed += calls[i].failed;
		ck_assert(calls[i].done != calls[i].failed);
		if (calls[i].failed)
			ck_assert_int_eq(calls[i].why,
					 v == BREACH ? SL_RPC_FAIL_PROTOCOL : SL_RPC_FAIL_LOST);
	}
	ck_assert_uint_eq(st.bad_messages, v == BREACH);
	ck_assert_uint_eq(st.over_credit, lie == beyond_its_credit);
	ck_assert_uint_eq(failed > 0, v != ANSWERED);
	ck_assert_uint_eq(g->batches_done, CALLS);
}

static bool is_virtual(const char *ep)
{
	return strncmp(ep, "rdma+ud://", 10) == 0;
}

/* The liar answers no PING, and on a slow host takes his time. */
static struct sl_rpc_config patient(void)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.dead_after_ns = harness_timeout_s() * SL_NS_PER_SEC;
	return cfg;
}

static void open_patiently(struct gateway *g, const char *ep)
{
	struct sl_rpc_config cfg = patient();

	gw_open_with(g, ep, &cfg);
}

static bool has_died(struct backend_proc p)
{
	siginfo_t si = {.si_pid = 0};

	return waitid(P_PID, (id_t)p.pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid;
}

/*
 * The peer has died and the channel goes down. Over UD only its silence shows that, and not before
 * the patience for a computing peer is over. From here on that time is short.
 */
static void await_end(struct gateway *g, const char *ep)
{
	bool silent = is_virtual(ep) && sl_rpc_channel_state(g->ch) != SL_RPC_DOWN;
	uint64_t heard_ns = g->ch->link.last_rx_ns;
	bool computes = g->ch->outstanding;

	if (silent) {
		g->r->cfg.dead_after_ns = SILENCE_NS;
		g->ch->link.alive.silence_ns = g->ch->link.alive.interval_ns = SILENCE_NS / 16;
		g->ch->link.alive.next_ns = 0;
	}
	gw_until(g, sl_rpc_channel_state(g->ch) == SL_RPC_DOWN);
	ck_assert_uint_eq(g->downs, 1);
	if (silent && computes)
		ck_assert_uint_ge(sl_now_ns() - heard_ns, SILENCE_NS);
}

static void ask_liar(const char *ep, void (*lie)(struct liar *l), enum verdict verdict)
{
	struct backend_proc p = liar_start(ep, lie, false);
	struct call calls[CALLS];
	struct gateway g;

	open_patiently(&g, ep);
	for (unsigned i = 0; i < CALLS; i++) {
		call_init(&calls[i], 4096);
		ck_assert_int_eq(gw_send(&g, &calls[i], sl_span_of(NULL, 0), sl_span_str("ask"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	if (verdict == DEAD) {
		gw_until(&g, has_died(p));
		await_end(&g, ep);
	}
	gw_until(&g, g.done + g.failed == CALLS && g.batches_done == CALLS);
	/* Bytes behind the last reply. */
	for (unsigned i = 0; i < 200; i++)
		gw_turn(&g);
	check_verdict(&g, calls, verdict, lie);
	backend_kill(p);
	await_end(&g, ep);
	for (unsigned i = 0; i < CALLS; i++)
		call_fini(&calls[i]);
	gw_close(&g);
}

SUITE_TIMEOUT(4 * harness_timeout_s())

TEST_EACH(invalid_messages_have_their_verdicts, endpoint_cnt() * SL_ARRAY_LEN(lies))
{
	unsigned k = (unsigned)_i % SL_ARRAY_LEN(lies);

	ask_liar(endpoint_of(_i / (int)SL_ARRAY_LEN(lies)), lies[k].lie, lies[k].verdict);
}

SUITE_TIMEOUT(4 * harness_timeout_s())

/* Over these, whatever the others run over: test_verbs has its own. */
TEST_EACH(credit_for_more_than_was_sent_is_a_breach, 3)
{
	static const char *const names[] = {"shm", "tcp", "ud"};

	ask_liar(endpoint_named(names[_i], strlen(names[_i])), credit_for_more, BREACH);
}

/* --- lies about datagrams, below the messages --- */

static struct ud_arq *flow_of(struct liar *l)
{
	return &((struct ud_conn *)l->t)->arq;
}

/* Sent together with the next message. */
static void has_got_what_was_not_sent(struct liar *l)
{
	flow_of(l)->next += 20;
	flow_of(l)->base += 20;
	of_type(l, SL_RPC_PING, 0);
}

static void holds_what_was_not_sent(struct liar *l)
{
	flow_of(l)->ooo_bits = 0xff00;
	of_type(l, SL_RPC_PING, 0);
	flow_of(l)->ooo_bits = 0;
}

static void has_room_beyond_its_window(struct liar *l)
{
	flow_of(l)->base += 1;
	of_type(l, SL_RPC_PING, 0);
	flow_of(l)->base -= 1;
}

static void (*const of_datagrams[])(struct liar *l) = {
	has_got_what_was_not_sent, holds_what_was_not_sent, has_room_beyond_its_window};

SUITE_TIMEOUT(4 * harness_timeout_s())

TEST_EACH(lies_about_datagrams_end_the_channel, endpoint_cnt() * SL_ARRAY_LEN(of_datagrams))
{
	const char *ep = endpoint_of(_i / (int)SL_ARRAY_LEN(of_datagrams));

	if (is_virtual(ep))
		ask_liar(ep, of_datagrams[(unsigned)_i % SL_ARRAY_LEN(of_datagrams)], BREACH);
}

static void answer_what_was_cancelled(struct liar *l)
{
	usleep(20000); /* more often than not the CANCEL has come */
	answer_all(l);
}

SUITE_TIMEOUT(4 * harness_timeout_s())

TEST_EACH(cancelled_requests_may_be_answered_or_not, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = liar_start(ep, answer_what_was_cancelled, false);
	struct call calls[CALLS];
	struct sl_rpc_stats st;
	struct gateway g;

	open_patiently(&g, ep);
	for (unsigned i = 0; i < CALLS; i++) {
		call_init(&calls[i], 4096);
		ck_assert_int_eq(gw_send(&g, &calls[i], sl_span_of(NULL, 0), sl_span_str("ask"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	sl_rpc_cancel(g.ch, calls[1].id);
	sl_rpc_cancel(g.ch, calls[2].id);
	gw_until(&g, g.done == 2 && g.batches_done == CALLS);
	gw_until(&g, (sl_rpc_channel_stats(g.ch, &st), st.late_replies == 2));
	ck_assert(!calls[1].parts && !calls[2].parts && !calls[1].failed && !calls[2].failed);
	backend_kill(p);
	await_end(&g, ep);
	for (unsigned i = 0; i < CALLS; i++)
		call_fini(&calls[i]);
	gw_close(&g);
}

/* A stream whose client sent a request: sent once the reply is valid, then followed by more. */
static void goes_on_for_ever(struct liar *l)
{
	for (unsigned i = 0; i < 100000; i++)
		say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
}

static void goes_on_behind_its_head(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_MORE, 5);
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
}

static void goes_on_behind_its_end(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
	say(l, l->ids[0], SL_RPC_OK, 0, 5);
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
}

/* STATUS 103, of which one more than may be is a lie, and so is one behind the head. */
static void say_interim(struct liar *l)
{
	static const uint8_t meta[8] = {SL_META_STATUS, 0, 2, 0, 103};
	const struct sl_rpc_entry e = {
		.id = l->ids[0], .meta_len = 6, .flags = SL_ENTRY_GO_ON | SL_ENTRY_MORE};
	uint8_t body[sizeof(e) + sizeof(meta)];
	struct sl_rpc_header h = header(1, sizeof(body));

	memcpy(body, &e, sizeof(e));
	memcpy(body + sizeof(e), meta, sizeof(meta));
	h.id = message_id(++l->next);
	say_header(l, &h, body);
}

static void hints_for_ever(struct liar *l)
{
	for (unsigned i = 0; i <= SL_RPC_MAX_INTERIM; i++)
		say_interim(l);
}

static void hints_behind_its_head(struct liar *l)
{
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_MORE, 5);
	say_interim(l);
}

static void hints_and_goes_on(struct liar *l)
{
	say_interim(l);
	say(l, l->ids[0], SL_RPC_OK, SL_ENTRY_GO_ON | SL_ENTRY_MORE, 0);
	say_interim(l);
	say(l, l->ids[0], SL_RPC_OK, 0, 5);
	say_interim(l);
}

static unsigned told;

static void note_go_on(void *app, void *cookie)
{
	(void)app, (void)cookie;
	told++;
}

static const struct {
	void (*lie)(struct liar *l);
	unsigned told;
	bool breach;
} of_streams[] = {
	{goes_on_for_ever, 1, true},        {goes_on_behind_its_head, 0, true},
	{goes_on_behind_its_end, 1, false}, {hints_for_ever, 0, true},
	{hints_behind_its_head, 0, true},   {hints_and_goes_on, 1, false},
};

SUITE_TIMEOUT(4 * harness_timeout_s())

TEST_EACH(too_many_go_ons_end_the_channel, endpoint_cnt() * SL_ARRAY_LEN(of_streams))
{
	const char *ep = endpoint_of(_i / (int)SL_ARRAY_LEN(of_streams));
	unsigned k = (unsigned)_i % SL_ARRAY_LEN(of_streams), failed = 0;
	struct backend_proc p = liar_start(ep, of_streams[k].lie, false);
	struct sl_rpc_ops ops = gw_ops;
	struct call calls[CALLS];
	struct sl_rpc_config cfg = patient();
	struct sl_rpc_stats st;
	struct gateway g;
	uint64_t number;

	told = 0;
	ops.go_on = note_go_on;
	gw_open_ops(&g, ep, &cfg, &ops);
	for (unsigned i = 0; i < CALLS; i++) {
		struct sl_rpc_item it = {.cookie = &calls[i],
					 .stream = true,
					 .open = true,
					 .expects = true,
					 .class = SL_CLASS_NORMAL};

		call_init(&calls[i], 64);
		ck_assert_int_eq(sl_rpc_send(g.ch, &it, 1, sl_now_ns(), &number), 0);
	}
	if (of_streams[k].breach)
		gw_until(&g, g.failed == CALLS);
	else
		gw_until(&g, calls[0].done && (sl_rpc_channel_stats(g.ch, &st), st.late_replies));
	for (unsigned i = 0; i < 200; i++)
		gw_turn(&g);
	for (unsigned i = 0; i < CALLS; i++)
		failed += calls[i].failed;
	sl_rpc_channel_stats(g.ch, &st);
	ck_assert_uint_eq(told, of_streams[k].told);
	ck_assert_uint_eq(st.bad_messages, of_streams[k].breach);
	ck_assert_uint_eq(failed, of_streams[k].breach ? CALLS : 0);
	backend_kill(p);
	await_end(&g, ep);
	ck_assert_uint_eq(g.failed, of_streams[k].breach ? CALLS : CALLS - 1);
	for (unsigned i = 0; i < CALLS; i++)
		call_fini(&calls[i]);
	gw_close(&g);
}

/* --- refused before it was read, and read then --- */

/* It takes its time, and has nothing to compute. */
static void pong(struct liar *l)
{
	struct sl_rpc_header h = header(0, 0);

	h.version_type = SL_RPC_VERSION << 4 | SL_RPC_PONG;
	(void)l->t->ops->post(l->t, &h, NULL, 0, 0);
}

static _Noreturn void refuse_and_read(struct liar *l)
{
	struct sl_message m[8];
	size_t got = 0;

	while (!l->id_cnt) {
		int n = harness_poll(l->t, m, 1);

		if (n != 1)
			continue;
		memcpy(&l->ids[0], m[0].body, 8);
		l->id_cnt = 1;
	}
	say(l, l->ids[0], SL_RPC_REFUSED, 0, 0);
	usleep(100000);
	for (got = m[0].header.fragment_len, l->t->ops->release(l->t, &m[0]); got < BIG;) {
		int n = harness_poll(l->t, m, 8);

		if (n < 0)
			_exit(7);
		for (int i = 0; i < n; i++) {
			bool ours = true;

			if ((m[i].header.version_type & 15) == SL_RPC_PING)
				pong(l);
			for (uint32_t k = 0; k < m[i].header.fragment_len; k++)
				ours &= m[i].body[k] == 'z';
			if (!ours)
				_exit(8);
			got += m[i].header.fragment_len;
			l->t->ops->release(l->t, &m[i]);
		}
		l->t->ops->flush(l->t);
	}
	_exit(0);
}

SUITE_TIMEOUT(4 * harness_timeout_s())

TEST_EACH(bytes_of_a_refused_request_stay_until_sent, endpoint_cnt())
{
	static uint8_t big[BIG];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = liar_start(ep, refuse_and_read, true);
	struct gateway g;
	struct call c;
	int status;

	memset(big, 'z', sizeof(big));
	open_patiently(&g, ep);
	call_init(&c, 16);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_of(big, BIG), 0, SL_CLASS_BULK), 0);
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.status, SL_RPC_REFUSED);
	/* The answer says nothing about the bytes; `sent` does. */
	ck_assert_uint_eq(g.sent, 0);
	gw_until(&g, g.sent == 1);
	memset(big, 'y', sizeof(big));
	gw_until(&g, has_died(p));
	await_end(&g, ep);
	status = backend_wait(p);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "liar's status %x", status);
	gw_close(&g);
}

enum { CREDITS = 240 };

/* Nothing but what a poll deals with by itself. */
static void credits_only(struct liar *l)
{
	for (unsigned i = 0; i < CREDITS; i++)
		of_type(l, SL_RPC_CREDIT, 0);
}

SUITE_TIMEOUT(4 * harness_timeout_s())

/* A peer that can send more than one poll reads must not occupy a worker for ever. */
TEST_EACH(a_look_takes_so_much_of_what_is_no_message, endpoint_cnt())
{
	enum { AT_A_TIME = 16 };
	struct backend_proc p = liar_start(endpoint_of(_i), credits_only, true);
	struct sl_transport *t = raw_dial(endpoint_of(_i), 256, 64 << 10);
	uint32_t before = 0, most = 0, now = 0;
	struct sl_message m[AT_A_TIME];

	usleep(50000); /* most of it is here */
	while (now < CREDITS) {
		ck_assert_int_eq(harness_poll(t, m, AT_A_TIME), 0);
		t->ops->flush(t); /* verbs counts with it */
		now = t->credits.consumed;
		most = now - before > most ? now - before : most;
		before = now;
	}
	ck_assert_uint_le(most, 4 * AT_A_TIME);
	t->ops->close(t);
	backend_kill(p);
}
