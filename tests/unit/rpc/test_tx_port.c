/* SPDX-License-Identifier: Apache-2.0 */
/* Links that share a port have one cap, and take turns at it. */
#include "rpc/link.h"
#include "suite.h"

enum { LINKS = 6, SLICE = 8 << 10, CAP = 2 * SLICE, LONG = 1 << 20, PORT = 77 };

static struct end {
	struct sl_transport base;
	struct sl_link link;
	struct sl_send send;
	struct sl_span span;
	uint64_t bytes;  /* posted so far */
	bool wants_room; /* as it was armed */
	bool is_taken;   /* posted bytes are taken by the next poll */
} ends[LINKS];

static struct sl_tx_ports tx_ports;
static uint8_t payload[LONG];
static uint64_t now_ns;

static int post(struct sl_transport *t, const struct sl_rpc_header *h, const struct sl_span *s,
		unsigned cnt, uint64_t cookie)
{
	(void)s, (void)cnt, (void)cookie;
	t->posted_bytes += h->fragment_len;
	((struct end *)t)->bytes += h->fragment_len;
	return 0;
}

static int poll_none(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	(void)t, (void)m, (void)max;
	return 0;
}

static void nothing(struct sl_transport *t)
{
	(void)t;
}

static void progress(struct sl_transport *t)
{
	struct end *e = (struct end *)t;

	if (e->is_taken)
		t->posted_bytes = 0;
	e->is_taken = false;
}

static uint32_t window(const struct sl_transport *t)
{
	return t->bulk_max;
}

static bool arm(struct sl_transport *t, bool want_room)
{
	((struct end *)t)->wants_room = want_room;
	return true;
}

static const struct sl_transport_ops end_ops = {.post = post,
						.poll = poll_none,
						.flush = nothing,
						.window = window,
						.progress = progress,
						.arm = arm,
						.close = nothing};

static void send_again(void *ctx, struct sl_send *s);

static const struct sl_link_ops link_ops = {.sent = send_again};

static void send_one(unsigned i, uint32_t len, enum sl_rpc_class class)
{
	struct end *e = &ends[i];

	e->span = sl_span_of(payload, len);
	e->send = (struct sl_send){.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST},
				   .total = len,
				   .deadline_ns = UINT64_MAX,
				   .spans = &e->span,
				   .span_cnt = 1};
	sl_link_send(&e->link, &e->send, class, now_ns);
}

/* Each has always more to send. */
static void send_again(void *ctx, struct sl_send *s)
{
	struct end *e = ctx;

	if (s == &e->send && s->total == LONG)
		send_one((unsigned)(e - ends), LONG, SL_CLASS_BULK);
}

static uint32_t sum(void)
{
	uint32_t posted = 0;

	for (unsigned i = 0; i < LINKS; i++)
		posted += ends[i].base.posted_bytes;
	return posted;
}

static void flush_all(void)
{
	for (unsigned i = 0; i < LINKS; i++)
		sl_link_poll(&ends[i].link, now_ns);
	for (unsigned i = 0; i < LINKS; i++)
		sl_link_flush(&ends[i].link, now_ns);
}

static void open_all(uintptr_t port)
{
	now_ns = 1;
	for (unsigned i = 0; i < LINKS; i++) {
		struct end *e = &ends[i];

		*e = (struct end){.base = {.ops = &end_ops,
					   .copies = true,
					   .slot_len = SL_RPC_SLOT_SIZE,
					   .bulk_max = 64 << 10,
					   .slice_min = SLICE,
					   .credits = {.bulk_len = LONG},
					   .port = port},
				  .link = {.ops = &link_ops, .ctx = e, .tx_ports = &tx_ports}};
		sl_link_init(&e->link, &e->base, now_ns, false);
	}
	/* So that bulk is cut, and capped. */
	for (unsigned i = 0; i < LINKS; i++) {
		send_one(i, 64, SL_CLASS_LATENCY);
		ends[i].base.posted_bytes = 0;
	}
	flush_all();
}

TEST(links_without_a_port_have_caps_of_their_own)
{
	open_all(0);
	for (unsigned i = 0; i < LINKS; i++)
		send_one(i, LONG, SL_CLASS_BULK);
	flush_all();
	ck_assert_uint_eq(sum(), LINKS * CAP);
}

TEST(links_of_one_port_have_one_cap)
{
	open_all(PORT);
	for (unsigned i = 0; i < LINKS; i++)
		send_one(i, LONG, SL_CLASS_BULK);
	flush_all();
	ck_assert_uint_eq(sum(), CAP);
	/* The latency class waits for none of it. */
	ends[5].base.posted_bytes = 0;
	send_one(4, 64, SL_CLASS_LATENCY);
	ck_assert_uint_eq(sum(), CAP + 64);
}

/* In any order of polls: in turns, slice by slice. */
TEST(each_has_its_turn)
{
	uint64_t least = UINT64_MAX, most = 0;

	open_all(PORT);
	for (unsigned i = 0; i < LINKS; i++)
		send_one(i, LONG, SL_CLASS_BULK);
	for (unsigned step = 0; step < 600; step++) {
		unsigned i = step % LINKS;

		while (!ends[i].base.posted_bytes)
			i = (i + 1) % LINKS;
		ends[i].base.posted_bytes -=
			SLICE < ends[i].base.posted_bytes ? SLICE : ends[i].base.posted_bytes;
		now_ns += 1000;
		flush_all();
		ck_assert_uint_le(sum(), CAP + SLICE + SLICE / 4);
		ck_assert_uint_gt(sum(), 0);
	}
	for (unsigned i = 0; i < LINKS; i++) {
		least = ends[i].bytes < least ? ends[i].bytes : least;
		most = ends[i].bytes > most ? ends[i].bytes : most;
	}
	ck_assert_uint_gt(least, 600 * SLICE / LINKS * 9 / 10);
	ck_assert_uint_le(most, least + 4 * SLICE);
}

/* A peer that takes nothing keeps its own link back, not the port. */
TEST(a_stuck_link_delays_no_others)
{
	open_all(PORT);
	for (unsigned i = 0; i < 2; i++)
		send_one(i, LONG, SL_CLASS_BULK);
	flush_all();
	ck_assert_uint_eq(ends[0].base.posted_bytes, CAP);
	ck_assert_uint_eq(ends[1].base.posted_bytes, 0);
	/*
	 * Its bytes are taken soon, or it is stuck: a link with nothing under way itself stays
	 * awake for it.
	 */
	ck_assert(!sl_link_arm(&ends[1].link));
	ck_assert(sl_link_arm(&ends[0].link));
	now_ns += SL_TX_PORT_DRAIN_NS;
	flush_all();
	ck_assert_uint_eq(ends[1].base.posted_bytes, CAP);
	ck_assert(sl_link_arm(&ends[1].link));
	/* It has come back. */
	ends[0].base.posted_bytes -= SLICE;
	flush_all();
	ck_assert_uint_eq(ends[0].link.out.counted, ends[0].base.posted_bytes);
}

TEST(a_stuck_link_gets_no_more_than_before)
{
	uint64_t before;

	open_all(PORT);
	before = ends[0].bytes;
	send_one(0, LONG, SL_CLASS_BULK);
	flush_all();
	ck_assert_uint_eq(ends[0].base.posted_bytes, CAP);
	now_ns += SL_TX_PORT_DRAIN_NS;
	flush_all();
	ck_assert_uint_eq(ends[0].base.posted_bytes, CAP);
	ck_assert_uint_eq(ends[0].bytes, before + CAP);
	/* The peer takes bytes again: the next send notices. */
	ends[0].is_taken = true;
	sl_link_flush(&ends[0].link, now_ns);
	ck_assert_uint_gt(ends[0].bytes, before + CAP);
}

/* Each poll is late: everything is gone by then. */
static uint32_t learnt_when_late(uintptr_t port)
{
	open_all(port);
	send_one(0, LONG, SL_CLASS_BULK);
	for (unsigned i = 0; i < 100; i++) {
		now_ns += 1000000;
		ends[0].is_taken = true;
		send_one(1, 64, SL_CLASS_LATENCY);
		flush_all();
	}
	return ends[0].base.posted_bytes;
}

/* Posted bytes of a port precede urgent ones, however late its owner polls. */
TEST(a_late_owner_learns_no_more_than_a_port_needs)
{
	ck_assert_uint_gt(learnt_when_late(0), 4 * CAP);
	ck_assert_uint_gt(learnt_when_late(PORT), CAP);
	ck_assert_uint_le(ends[0].base.posted_bytes, 2 * CAP + SLICE + SLICE / 4);
}

TEST(an_ended_link_makes_room)
{
	open_all(PORT);
	for (unsigned i = 0; i < 3; i++)
		send_one(i, LONG, SL_CLASS_BULK);
	flush_all();
	ck_assert_uint_eq(ends[0].base.posted_bytes, CAP);
	/* Also one that waits: its turn passes to the next. */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_ptr_eq(sl_link_unsent(&ends[i].link), &ends[i].send);
		sl_link_fini(&ends[i].link);
	}
	sl_link_flush(&ends[2].link, now_ns);
	ck_assert_uint_eq(ends[2].base.posted_bytes, CAP);
}

/* The bytes of one are what others wait for: their end wakes the worker. */
TEST(a_link_with_bytes_under_way_is_armed_for_others)
{
	open_all(PORT);
	send_one(0, CAP, SL_CLASS_BULK);
	ck_assert(sl_link_arm(&ends[0].link));
	ck_assert(!ends[0].wants_room);
	send_one(1, LONG, SL_CLASS_BULK);
	ck_assert(sl_link_arm(&ends[0].link));
	ck_assert(ends[0].wants_room);
}
