/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A burst polls the active channels of a session only. The others rest, and a doorbell wakes them.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "rpc/session.h"
#include "broken.h"
#include "suite.h"

enum { CHANNELS = 8, TICK_NS = SL_SESSION_CHECK_NS };

struct end {
	struct sl_transport base;
	unsigned polls, posts, pings, cancels;
	uint64_t request;       /* the id in the last REQUEST */
	uint32_t time_us;       /* the budget in it */
	uint32_t taken;         /* bytes of REQUESTs, of `most` that it takes; 0: all */
	uint32_t before_cancel; /* of the batches, when it last heard of one */
	uint32_t most;
	bool armed, busy; /* busy: there is something when it is armed */
	bool deaf;        /* it takes no messages */
	bool wants_room;  /* it must tell when it takes messages again */
	struct sl_message in;
	bool has_in;
};

static struct end ends[CHANNELS];
static struct sl_rpc_channel *channels[CHANNELS];
static struct sl_rpc *rpc;
static uint64_t now_ns;
static unsigned replies, failed, batches_sent;
static struct sl_rpc_batch_end last_end;

static int end_post(struct sl_transport *t, const struct sl_rpc_header *h,
		    const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	struct end *e = (struct end *)t;
	struct sl_rpc_entry entry;

	(void)cnt, (void)cookie;
	if (e->deaf)
		return -EAGAIN;
	e->posts++;
	e->pings += (h->version_type & 15) == SL_RPC_PING;
	e->cancels += (h->version_type & 15) == SL_RPC_CANCEL ? h->count : 0;
	if ((h->version_type & 15) == SL_RPC_CANCEL)
		e->before_cancel = e->taken;
	if ((h->version_type & 15) == SL_RPC_REQUEST) {
		e->taken += h->fragment_len;
		memcpy(&entry, spans[0].ptr, sizeof(entry));
		e->request = entry.id;
		e->time_us = entry.time_us;
	}
	return 0;
}

static int end_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	struct end *e = (struct end *)t;

	(void)max;
	e->polls++;
	if (!e->has_in)
		return 0;
	e->has_in = false;
	*m = e->in;
	return 1;
}

static void end_release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t, (void)m;
}

static void nothing(struct sl_transport *t)
{
	(void)t;
}

static uint32_t window(const struct sl_transport *t)
{
	const struct end *e = (const struct end *)t;

	if (e->deaf || (e->most && e->taken >= e->most))
		return 0;
	return e->most ? e->most - e->taken : t->bulk_max;
}

static bool end_arm(struct sl_transport *t, bool want_room)
{
	struct end *e = (struct end *)t;

	e->wants_room = want_room;
	return e->armed = !e->busy && !e->has_in;
}

static void end_disarm(struct sl_transport *t)
{
	((struct end *)t)->armed = false;
}

static int end_check(struct sl_transport *t)
{
	uint64_t bells;

	if (read(t->fd, &bells, sizeof(bells)) < 0)
		ck_assert_int_eq(errno, EAGAIN); /* it has not rung */
	return 0;
}

/* Tells, when it is taken from, of ends that have something. */
static void group_poll(struct sl_poll_group *group)
{
	for (unsigned i = 0; i < CHANNELS; i++) {
		if (ends[i].has_in && ends[i].base.poll_group &&
		    sl_list_empty(&ends[i].base.ready_node))
			sl_list_add_tail(&group->ready, &ends[i].base.ready_node);
	}
}

static bool group_arm(struct sl_poll_group *group)
{
	(void)group;
	return true;
}

static void group_handle_event(struct sl_poll_group *group)
{
	(void)group;
}

static const struct sl_poll_group_ops group_ops = {
	.poll = group_poll, .arm = group_arm, .handle_event = group_handle_event};
static struct sl_poll_group group;
static bool share; /* ends that are made have the group */

static int end_attach(struct sl_transport *t, const void *owner)
{
	(void)owner;
	t->poll_group = share ? &group : NULL;
	return 0;
}

static const struct sl_transport_ops end_ops = {
	.post = end_post,
	.flush = nothing,
	.poll = end_poll,
	.release = end_release,
	.window = window,
	.progress = nothing,
	.arm = end_arm,
	.disarm = end_disarm,
	.check = end_check,
	.close = nothing,
	.attach = end_attach,
};

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	(void)app, (void)cookie;
	replies += r->last;
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	(void)app, (void)cookie, (void)why;
	failed++;
}

static void on_done(void *app, void *app_data, const struct sl_rpc_batch_end *end)
{
	(void)app, (void)app_data;
	last_end = *end;
}

static void on_sent(void *app, void *app_data, uint64_t batch)
{
	(void)app, (void)app_data, (void)batch;
	batches_sent++;
}

static void on_state(void *app, void *app_data, enum sl_rpc_state state)
{
	(void)app, (void)app_data, (void)state;
}

static const struct sl_rpc_ops ops = {.reply = on_reply,
				      .failed = on_failed,
				      .batch_done = on_done,
				      .sent = on_sent,
				      .state = on_state};

static unsigned turn(uint64_t passed_ns)
{
	unsigned n;

	now_ns += passed_ns;
	n = sl_rpc_poll(rpc, now_ns);
	sl_rpc_flush(rpc, now_ns);
	return n;
}

static void forget_counts(void)
{
	for (unsigned i = 0; i < CHANNELS; i++)
		ends[i].polls = ends[i].posts = 0;
}

/* All are up, and nothing has happened for two ticks. */
static void open_all(void)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.max_outstanding = 2048;
	replies = failed = batches_sent = 0;
	rpc = sl_rpc_create(&cfg, NULL, &ops, NULL);
	now_ns = 1;
	for (unsigned i = 0; i < CHANNELS; i++) {
		ends[i].base = (struct sl_transport){.ops = &end_ops,
						     .fd = eventfd(0, EFD_NONBLOCK),
						     .copies = true,
						     .slot_len = SL_RPC_SLOT_SIZE,
						     .bulk_max = 64 << 10,
						     .slice_min = 8 << 10,
						     .peer_epoch = 7};
		sl_list_init(&ends[i].base.ready_node);
		channels[i] = sl_rpc_channel_add(rpc, "test", NULL);
		ck_assert_int_eq(sl_rpc_adopt(channels[i], &ends[i].base, now_ns), 0);
	}
	turn(TICK_NS);
	turn(TICK_NS);
	forget_counts();
}

static void close_all(void)
{
	sl_rpc_destroy(rpc);
	for (unsigned i = 0; i < CHANNELS; i++)
		close(ends[i].base.fd);
}

static void set_up(void)
{
	share = false;
	open_all();
}

static void tear_down(void)
{
	close_all();
}

/* The same, but with a group for all of them. */
static void share_a_hub(void)
{
	close_all();
	share = true;
	group = (struct sl_poll_group){.ops = &group_ops, .fd = eventfd(0, EFD_NONBLOCK)};
	sl_list_init(&group.ready);
	open_all();
}

static void ask(unsigned i)
{
	static const uint8_t body[8];
	struct sl_span span = sl_span_of(body, sizeof(body));
	struct sl_rpc_item item = {
		.spans = &span, .span_cnt = 1, .len = sizeof(body), .class = SL_CLASS_NORMAL};
	uint64_t batch;

	ck_assert_int_eq(sl_rpc_send(channels[i], &item, 1, now_ns, &batch), 0);
}

/* Returns when the request is given up. */
static uint64_t ask_within(unsigned i, uint64_t budget_us)
{
	struct sl_rpc_item item = {.class = SL_CLASS_NORMAL, .budget_us = budget_us};
	uint64_t batch;

	ck_assert_int_eq(sl_rpc_send(channels[i], &item, 1, now_ns, &batch), 0);
	turn(1);
	return sl_timer_expires_ns(&rpc->wheel,
				   &sl_outstanding_find(&rpc->out, channels[i], item.id)->timer);
}

static uint64_t open_stream(unsigned i)
{
	struct sl_rpc_item item = {.stream = true, .open = true, .class = SL_CLASS_NORMAL};
	uint64_t batch;

	ck_assert_int_eq(sl_rpc_send(channels[i], &item, 1, now_ns, &batch), 0);
	return item.id;
}

/* So many streams, each with parts as far as its credit goes. How many bytes of parts are queued. */
static size_t fill(unsigned i, unsigned streams)
{
	static const uint8_t body[1024];
	struct sl_span span = sl_span_of(body, sizeof(body));
	struct sl_rpc_part part = {.spans = &span, .span_cnt = 1, .len = sizeof(body)};
	size_t sum = 0;

	for (unsigned k = 0; k < streams; k++) {
		uint64_t id = open_stream(i);

		for (int rc = 0; !rc && sl_rpc_part_credit(channels[i], id) > sizeof(body);) {
			rc = sl_rpc_send_part(channels[i], id, &part, SL_CLASS_NORMAL, now_ns);
			ck_assert(!rc || rc == -EAGAIN);
			sum += rc ? 0 : sizeof(body);
		}
	}
	return sum;
}

/* One message; its header says `longest_us`. */
static void answer_with(unsigned i, const struct sl_rpc_entry *e, uint16_t cnt, uint32_t longest_us)
{
	uint32_t len = cnt * (uint32_t)sizeof(*e);

	ends[i].in = (struct sl_message){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
			   .flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
			   .priority = SL_CLASS_NORMAL,
			   .count = cnt,
			   .fragment_len = len,
			   .total_or_offset = len,
			   .id = UINT64_C(7) << 48 | 1,
			   .time_us = longest_us},
		.body = (const uint8_t *)e};
	ends[i].has_in = true;
}

static void answer(unsigned i)
{
	static struct sl_rpc_entry e;

	e = (struct sl_rpc_entry){.id = ends[i].request};
	answer_with(i, &e, 1, 0);
}

static void ring(unsigned i)
{
	static const uint64_t one = 1;

	ck_assert_int_eq(write(ends[i].base.fd, &one, sizeof(one)), sizeof(one));
}

/* Polls of all, in ten bursts between two ticks. */
static unsigned polls_of_ten(void)
{
	unsigned sum = 0;

	forget_counts();
	for (unsigned i = 0; i < 10; i++)
		turn(10);
	for (unsigned i = 0; i < CHANNELS; i++)
		sum += ends[i].polls;
	return sum;
}

FIXTURE(set_up, tear_down)

TEST(a_burst_polls_active_channels)
{
	ck_assert_uint_eq(polls_of_ten(), 0);
	ask(3);
	ck_assert_uint_eq(polls_of_ten(), 10);
	ck_assert_uint_eq(ends[3].polls, 10);
	/* For any duration. */
	for (unsigned i = 0; i < 5; i++)
		turn(TICK_NS);
	ck_assert_uint_eq(polls_of_ten(), 10);
	answer(3);
	turn(1);
	ck_assert_uint_eq(replies, 1);
	/* It may go on at once; a channel that is not used for a tick rests. */
	ck_assert_uint_eq(polls_of_ten(), 10);
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert_uint_eq(polls_of_ten(), 0);
}

/* A slow answer costs no look at its channel: the group tells of it in the burst in which it comes. */
TEST(a_channel_in_a_group_is_polled_when_input_has_come)
{
	share_a_hub();
	ask(3);
	ask(4);
	ck_assert_uint_eq(polls_of_ten(), 20); /* it may come at once */
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert_uint_eq(polls_of_ten(), 0);
	answer(3);
	ck_assert_uint_eq(turn(1), 1);
	ck_assert_uint_eq(replies, 1);
	ck_assert_uint_eq(ends[4].polls, 0);
	/* Nor does one with output. */
	sl_rpc_cancel(channels[4], ends[4].request);
	turn(1);
	ck_assert_uint_eq(ends[4].cancels, 1);
	/* Nor does one that rests for long go unasked, or unheard. */
	ask(5);
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert(sl_rpc_arm(rpc));
	ck_assert(ends[5].armed);
	sl_rpc_disarm(rpc, false);
	answer(5);
	ck_assert_uint_eq(turn(1), 1);
	ck_assert_uint_eq(replies, 2);
	close(group.fd);
}

TEST(a_resting_channel_is_armed_and_woken_by_its_bell)
{
	for (unsigned i = 0; i < CHANNELS; i++)
		ck_assert(ends[i].armed);
	ask(2);
	ck_assert(!ends[2].armed); /* its peer need not ring */
	answer(2);
	ck_assert_uint_eq(turn(1), 1);
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert(ends[2].armed);
	/* Unexpected input is taken at the next tick. */
	ask(2);
	turn(1);
	sl_rpc_cancel(channels[2], ends[2].request);
	turn(TICK_NS);
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert(ends[2].armed);
	answer(2);
	ring(2);
	ck_assert_uint_eq(turn(TICK_NS), 1);
}

/* It has something to do when it is to rest: it goes on being looked at. */
TEST(a_channel_that_cannot_be_armed_does_not_rest)
{
	ends[5].busy = true;
	ask(5);
	answer(5);
	turn(1);
	turn(TICK_NS);
	turn(TICK_NS);
	ck_assert_uint_eq(polls_of_ten(), 10);
	ends[5].busy = false;
	turn(TICK_NS);
	ck_assert_uint_eq(polls_of_ten(), 0);
}

TEST(all_are_armed_when_the_worker_sleeps)
{
	ask(1);
	turn(1);
	ck_assert(sl_rpc_arm(rpc));
	for (unsigned i = 0; i < CHANNELS; i++)
		ck_assert(ends[i].armed);
	/* A bell that is taken on the way to bed keeps the worker up. */
	ring(6);
	ck_assert_uint_eq(turn(TICK_NS), 1);
	ck_assert_uint_eq(ends[6].polls, 1);
	sl_rpc_disarm(rpc, true);
	for (unsigned i = 0; i < CHANNELS; i++)
		ck_assert_int_eq(ends[i].armed, i != 1 && i != 6);
}

/* Most sleeps end with a packet: doorbells are not fetched then, and pending ones stay. */
TEST(channel_events_are_taken_only_after_an_event_wakeup)
{
	ask(1);
	turn(1);
	for (unsigned rang = 0; rang < 2; rang++) {
		ck_assert(sl_rpc_arm(rpc));
		if (!rang)
			ring(6);
		sl_rpc_disarm(rpc, rang);
		ends[6].polls = 0;
		turn(1);
		ck_assert_uint_eq(ends[6].polls, rang);
	}
}

/* Silent ones are asked whether they are there, and the worker wakes for it. */
TEST(a_resting_peer_gets_pings)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	ck_assert_uint_eq(sl_rpc_next_ns(rpc), 1 + cfg.ping_interval_ns);
	turn(cfg.ping_interval_ns);
	turn(1);
	for (unsigned i = 0; i < CHANNELS; i++)
		ck_assert_uint_eq(ends[i].pings, 1);
}

/* Ticks send PINGs: a worker sleeps until the next one, even if a PING is due. */
TEST(a_ping_due_between_two_ticks_does_not_keep_the_worker_awake)
{
	uint64_t due_ns = sl_rpc_next_ns(rpc);

	turn(due_ns - now_ns - TICK_NS / 2);
	turn(TICK_NS * 3 / 4);
	ck_assert_uint_gt(now_ns, due_ns);
	ck_assert_uint_eq(ends[0].pings, 0);
	ck_assert_uint_eq(sl_rpc_next_ns(rpc), now_ns + TICK_NS / 4);
	turn(TICK_NS / 4);
	ck_assert_uint_eq(ends[0].pings, 1);
}

/* A backend that takes nothing has its part of the memory, and others theirs. */
TEST(parts_that_are_not_taken_leave_memory_to_others)
{
	size_t deaf[CHANNELS];

	for (unsigned i = 0; i < 3; i++) {
		ends[i].deaf = true;
		deaf[i] = fill(i, 600);
		ck_assert_uint_ge(deaf[i], 512 << 10);
	}
	ck_assert_uint_lt(deaf[2], deaf[0]);
	ask(3);
	ck_assert_uint_eq(fill(3, 1), 15 << 10);
	ck_assert_uint_lt(rpc->part_bytes, rpc->mem.limit / 2);
	/* Sent bytes do not count any more. */
	for (unsigned i = 0; i < 3; i++)
		ends[i].deaf = false;
	for (unsigned i = 0; i < 100; i++)
		turn(TICK_NS);
	ck_assert_uint_eq(rpc->part_bytes, 0);
	for (unsigned i = 0; i < CHANNELS; i++)
		ck_assert_uint_eq(channels[i]->part_bytes[SL_CLASS_NORMAL], 0);
}

static void send_parts(uint64_t id, uint32_t len, unsigned cnt)
{
	static const uint8_t body[12 << 10];
	struct sl_span span = sl_span_of(body, len);
	struct sl_rpc_part part = {.spans = &span, .span_cnt = 1, .len = len};

	for (; cnt; cnt--)
		ck_assert_int_eq(sl_rpc_send_part(channels[0], id, &part, SL_CLASS_NORMAL, now_ns),
				 0);
}

/* Clients that open streams, send as much as goes, and leave, take nothing of others' memory. */
TEST(parts_that_wait_go_with_their_stream)
{
	enum { LONG = 12 << 10, SHORT = 1 << 10, HALF = 9 << 10, CNT = 14 };
	uint64_t begun = open_stream(0), waits = open_stream(0);
	size_t entry = sizeof(struct sl_rpc_entry);

	turn(1);
	send_parts(waits, SHORT, 1); /* one that has left is no concern any more */
	ck_assert_uint_eq(rpc->part_bytes, 0);
	ends[0].taken = 0;
	ends[0].most = HALF;
	send_parts(begun, LONG, 1);
	ck_assert_uint_eq(ends[0].taken, HALF);
	send_parts(waits, SHORT, CNT);
	ck_assert_uint_eq(rpc->part_bytes, LONG + entry + CNT * (SHORT + entry));
	sl_rpc_cancel(channels[0], waits);
	ck_assert_uint_eq(rpc->part_bytes, LONG + entry);
	/* The peer has half of it, and gets the rest. */
	sl_rpc_cancel(channels[0], begun);
	ck_assert_uint_eq(rpc->part_bytes, LONG + entry);
	ends[0].most = 0;
	turn(1);
	turn(1);
	ck_assert_uint_eq(rpc->part_bytes, 0);
	ck_assert_uint_eq(ends[0].taken, LONG + entry);
	ck_assert_uint_eq(ends[0].cancels, 2);
	ck_assert_uint_eq(rpc->mem.used, 0);
}

/* Reads a stream's reply without keeping any. Returns what the peer may send of it then. */
static uint32_t read_on(uint64_t id, uint32_t len)
{
	struct sl_pending *p = sl_outstanding_find(&rpc->out, channels[0], id);

	p->flags |= SL_ENTRY_MORE;
	for (uint32_t n = 0; n < len; n += 4096) {
		p->credit -= 4096;
		sl_rpc_reply_kept(channels[0], id, 0);
	}
	return p->credit;
}

/* Many that stand still cost memory, and a few may be fast. */
TEST(few_streams_have_wide_windows)
{
	enum { STREAMS = SL_RPC_WIDE_MAX + 1, MUCH = 6 * SL_RPC_STREAM_WINDOW };
	uint64_t ids[STREAMS];
	uint32_t credit;

	for (unsigned i = 0; i < STREAMS; i++) {
		ids[i] = open_stream(0);
		ck_assert_uint_eq(read_on(ids[i], 4096), SL_RPC_STREAM_WINDOW - 4096);
		credit = read_on(ids[i], MUCH);
		if (i < SL_RPC_WIDE_MAX) {
			ck_assert_uint_gt(credit, SL_RPC_INITIAL_WINDOW / 2);
			ck_assert_uint_le(credit, SL_RPC_INITIAL_WINDOW);
		} else {
			ck_assert_uint_gt(credit, SL_RPC_STREAM_WINDOW / 2 - 4096);
			ck_assert_uint_le(credit, SL_RPC_STREAM_WINDOW);
		}
	}
	/* When one of them ends, another takes its place; not one whose caller keeps bytes. */
	sl_rpc_cancel(channels[0], ids[0]);
	sl_rpc_reply_kept(channels[0], ids[STREAMS - 1], 1);
	ck_assert_uint_eq(rpc->out.wide_cnt, SL_RPC_WIDE_MAX - 1);
	ck_assert_uint_gt(read_on(ids[STREAMS - 1], MUCH), SL_RPC_INITIAL_WINDOW / 2);
	ck_assert_uint_eq(rpc->out.wide_cnt, SL_RPC_WIDE_MAX);
}

/*
 * Cancelled by its caller or by its time-out: the peer never hears of it, and its bytes are freed.
 */
TEST_EACH(a_queued_request_is_withdrawn_when_it_is_cancelled, 2)
{
	static const uint8_t body[8];
	struct sl_span span = sl_span_of(body, sizeof(body));
	struct sl_rpc_item item = {.spans = &span,
				   .span_cnt = 1,
				   .len = sizeof(body),
				   .budget_us = 1000,
				   .class = SL_CLASS_NORMAL};
	uint64_t batch;

	ends[0].deaf = true;
	ck_assert_int_eq(sl_rpc_send(channels[0], &item, 1, now_ns, &batch), 0);
	turn(0);
	ck_assert_uint_eq(batches_sent, 0);
	if (!_i)
		sl_rpc_cancel(channels[0], item.id);
	for (unsigned i = 0; i < (_i ? 200 : 1); i++)
		turn(TICK_NS);
	ck_assert_uint_eq(batches_sent, 1);
	ck_assert_uint_eq(rpc->out.used, 0);
	ends[0].deaf = false;
	ends[0].request = 0;
	turn(TICK_NS);
	ck_assert_uint_eq(ends[0].request, 0);
	ask(0);
	ck_assert_uint_ne(ends[0].request, 0);
}

/*
 * A stream of which the peer never hears that it has ended is open there for ever: so it hears of
 * all, however many end at a time, and when it listens again.
 */
TEST_EACH(a_cancel_of_each_of_many_streams_is_sent, 2)
{
	enum { STREAMS = 1000 };
	uint64_t id[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		id[i] = open_stream(0);
	turn(1);
	ends[0].deaf = _i;
	for (unsigned i = 0; i < STREAMS; i++)
		sl_rpc_cancel(channels[0], id[i]);
	turn(1);
	if (_i) {
		ck_assert(sl_rpc_arm(rpc));
		ck_assert(ends[0].wants_room);
		sl_rpc_disarm(rpc, true);
		ends[0].deaf = false;
		turn(1);
	}
	ck_assert_uint_eq(ends[0].cancels, STREAMS);
	ck_assert_uint_eq(rpc->out.used, 0);
}

/* Nor does what it could not be told any more stay behind. */
TEST(cancels_go_with_their_channel)
{
	uint64_t id = open_stream(0);

	turn(1);
	ends[0].deaf = true;
	sl_rpc_cancel(channels[0], id);
	turn(1);
	channels[0]->link.error = -ETIMEDOUT;
	turn(1);
	ck_assert_uint_eq(rpc->mem.used, 0);
}

/* A CANCEL makes no sense to a peer that has only half of a request. */
TEST(a_request_is_all_there_before_it_is_cancelled)
{
	static const uint8_t meta[SL_RPC_MAX_ASKED];
	struct sl_span span = sl_span_of(meta, sizeof(meta));
	struct sl_rpc_item item = {.spans = &span,
				   .span_cnt = 1,
				   .meta_len = sizeof(meta),
				   .stream = true,
				   .open = true,
				   .class = SL_CLASS_NORMAL};
	uint64_t batch;

	ends[0].most = 12 << 10;
	ck_assert_int_eq(sl_rpc_send(channels[0], &item, 1, now_ns, &batch), 0);
	ck_assert_uint_eq(ends[0].taken, ends[0].most);
	sl_rpc_cancel(channels[0], item.id);
	turn(1);
	ck_assert_uint_eq(ends[0].cancels, 0);
	ck_assert_uint_eq(batches_sent, 0);
	ends[0].most = 0;
	turn(1);
	ck_assert_uint_eq(ends[0].taken, sizeof(struct sl_rpc_entry) + sizeof(meta));
	turn(1);
	ck_assert_uint_eq(ends[0].cancels, 1);
	ck_assert_uint_eq(batches_sent, 1);
	ck_assert_uint_eq(rpc->mem.used, 0);
}

/*
 * Nor of one of several: it is there before CANCEL, or all of them are withdrawn. 0: nothing of it has
 * left when one is cancelled, 1: a part has, 2: nothing, and then the others are, too.
 */
TEST_EACH(a_batch_is_all_there_before_one_of_it_is_cancelled, 3)
{
	enum { CNT = 3, LEN = 8192 };
	static const uint8_t body[LEN];
	struct sl_span span = sl_span_of(body, sizeof(body));
	struct sl_rpc_item items[CNT];
	uint32_t whole = CNT * (sizeof(struct sl_rpc_entry) + LEN);
	uint64_t batch;

	for (unsigned i = 0; i < CNT; i++)
		items[i] = (struct sl_rpc_item){
			.spans = &span, .span_cnt = 1, .len = LEN, .class = SL_CLASS_NORMAL};
	ends[0].deaf = _i != 1;
	ends[0].most = 12 << 10;
	ck_assert_int_eq(sl_rpc_send(channels[0], items, CNT, now_ns, &batch), 0);
	turn(1);
	sl_rpc_cancel(channels[0], items[1].id);
	for (unsigned i = 0; i < CNT && _i == 2; i++)
		sl_rpc_cancel(channels[0], items[i].id);
	ck_assert_uint_eq(rpc->out.used, _i == 2 ? 0 : CNT - 1);
	turn(1);
	ck_assert_uint_eq(ends[0].cancels, 0);
	ends[0].deaf = false;
	ends[0].most = 0;
	turn(1);
	turn(1);
	ck_assert_uint_eq(ends[0].taken, _i == 2 ? 0 : whole);
	ck_assert_uint_eq(ends[0].cancels, _i != 2);
	ck_assert_uint_eq(ends[0].before_cancel, ends[0].taken);
	ck_assert_uint_eq(batches_sent, 1);
}

/* The peer lives, and has no room even for GOAWAY. */
TEST(a_channel_that_drains_ends_though_its_peer_takes_nothing)
{
	enum { TURNS = 4 * SL_NS_PER_SEC / TICK_NS };
	struct sl_message ping = {.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
					     .flags = SL_RPC_FIRST | SL_RPC_LAST}};

	ends[0].deaf = true;
	sl_rpc_channel_drain(channels[0]);
	for (unsigned i = 0; i < 2 * TURNS; i++) {
		if (i == TURNS)
			ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_DRAINING);
		ends[0].in = ping;
		ends[0].has_in = true;
		ring(0);
		turn(TICK_NS);
	}
	ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_DOWN);
}

static void come(unsigned i, enum sl_rpc_type type, uint64_t id)
{
	ends[i].in = (struct sl_message){
		.header = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
			   .flags = SL_RPC_FIRST | SL_RPC_LAST,
			   .id = id}};
	ends[i].has_in = true;
	ring(i);
	turn(TICK_NS);
}

TEST(a_channel_whose_peer_is_not_ready_stays_and_rests_until_the_peer_is_ready)
{
	come(0, SL_RPC_GOAWAY, SL_GOAWAY_STAYS);
	ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_DRAINING);
	for (unsigned i = 0; i < 4; i++)
		turn(TICK_NS);
	ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_DRAINING);
	ck_assert(sl_list_empty(&channels[0]->awake));
	ck_assert_uint_gt(sl_rpc_next_ns(rpc), now_ns + TICK_NS);
	come(0, SL_RPC_READY, 0);
	ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_UP);
}

TEST(a_channel_whose_unready_peer_ends_goes_down)
{
	come(0, SL_RPC_GOAWAY, SL_GOAWAY_STAYS);
	for (unsigned i = 0; i < 4; i++)
		turn(TICK_NS);
	come(0, SL_RPC_GOAWAY, 0);
	turn(TICK_NS);
	ck_assert_int_eq(sl_rpc_channel_state(channels[0]), SL_RPC_DOWN);
}

static void remove_first(void)
{
	sl_rpc_channel_remove(channels[0]);
}

/* Its requests end, and the others' go on. */
TEST(a_channel_that_is_taken_out_while_it_is_up_goes_down_first)
{
	ask(0);
	ask(1);
	turn(1);
	ck_broken(remove_first);
	answer(1);
	ring(1);
	turn(1);
	ck_assert_uint_eq(replies, 1);
#ifndef SL_DEBUG
	ck_assert_uint_eq(failed, 1);
	ck_assert_uint_eq(rpc->out.used, 0);
#endif
}

/* Replies of a slow batch and of a fast one come in one message: each batch took what its own say. */
TEST_EACH(a_batch_took_as_long_as_its_own_replies_say, 2)
{
	static const uint8_t body[8];
	struct sl_span span = sl_span_of(body, sizeof(body));
	struct sl_rpc_item two[2];
	struct sl_rpc_entry e[3] = {{.time_us = 40000}, {.time_us = 20}, {.time_us = 30}};
	uint64_t slow, fast;

	two[0] = two[1] = (struct sl_rpc_item){
		.spans = &span, .span_cnt = 1, .len = sizeof(body), .class = SL_CLASS_NORMAL};
	ck_assert_int_eq(sl_rpc_send(channels[0], two, 1, now_ns, &slow), 0);
	e[0].id = two[0].id;
	ck_assert_int_eq(sl_rpc_send(channels[0], two, 2, now_ns, &fast), 0);
	e[1].id = two[_i].id;
	e[2].id = two[!_i].id;
	answer_with(0, e, 3, 40000);
	turn(1);
	ck_assert_uint_eq(replies, 3);
	ck_assert_uint_eq(last_end.batch, fast);
	ck_assert_uint_eq(last_end.service_us, 30);
	/* And no other way round. */
	ck_assert_int_eq(sl_rpc_send(channels[0], two, 1, now_ns, &slow), 0);
	e[0].id = two[0].id;
	answer_with(0, e, 1, 0);
	turn(1);
	ck_assert_uint_eq(last_end.batch, slow);
	ck_assert_uint_eq(last_end.service_us, 40000);
}

/* A longer budget than the wire holds is the gateway's alone to keep: the backend has none. */
TEST(a_deadline_beyond_32_bits_of_microseconds_is_kept)
{
	static const uint64_t budgets_us[] = {1, SL_RPC_TIME_MAX - 1, SL_RPC_TIME_MAX,
					      SL_RPC_TIME_MAX + UINT64_C(1),
					      UINT64_C(3) * 3600 * 1000000};

	for (unsigned i = 0; i < SL_ARRAY_LEN(budgets_us); i++) {
		uint64_t due_ns = now_ns + budgets_us[i] * SL_NS_PER_US;

		ck_assert_uint_ge(ask_within(i, budgets_us[i]), due_ns);
		ck_assert_uint_eq(ends[i].time_us, i < 2 ? budgets_us[i] : 0);
	}
	ck_assert_uint_eq(ask_within(5, UINT64_MAX), UINT64_MAX);
	ck_assert_uint_eq(ends[5].time_us, 0);
}
