/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is sent again, and what the backends do that had it: nothing that the first one
 * says later reaches anybody, and nothing but the request's own bytes reaches the first one.
 */
#include "batch/internal.h"
#include "core_bed.h"
#include "core/sent_batch.h"
#include "broken.h"
#include "suite.h"

enum { BODY = 40000 };

static unsigned first, second; /* backends, in the order in which they got the request */

static void set_up(void)
{
	bed_begin();
}

static void tear_down(void)
{
	bed_end();
}

static void begin(bool lends, unsigned room)
{
	for (unsigned i = 0; i < BED_BACKENDS; i++) {
		bed_connect(i, lends);
		bed.backends[i].room = room;
	}
	bed_open(0);
	bed_open(1);
}

static uint64_t first_id(void)
{
	bed_turns(3);
	first = bed.backends[0].id_cnt ? 0 : 1;
	second = 1 - first;
	ck_assert_uint_eq(bed.backends[first].id_cnt, 1);
	ck_assert_uint_eq(bed.backends[second].id_cnt, 0);
	return bed.backends[first].ids[0];
}

static uint64_t second_id(void)
{
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[second].id_cnt, 1);
	return bed.backends[second].ids[0];
}

static bool heard(unsigned client, const char *text)
{
	const struct bed_client *cl = &bed.clients[client];

	return cl->heard_len && memmem(cl->heard, cl->heard_len, text, strlen(text));
}

static void answer_second(const char *text)
{
	ck_assert(bed_reply(&bed.backends[second], second_id(), SL_RPC_OK, 0, text));
	bed_turns(3);
	ck_assert(heard(0, text));
}

/*
 * Everything that a backend was sent of this client's body, and nothing of another one's. A single byte
 * may be in the metadata, which have a hash of the client's address; a body has many of it in a row.
 */
static void check_taken(unsigned backend, uint8_t fill, uint8_t foreign)
{
	const struct bed_backend *be = &bed.backends[backend];
	size_t own = 0, row = 0;

	for (size_t i = 0; i < be->taken_len; i++) {
		row = be->taken[i] == foreign ? row + 1 : 0;
		ck_assert_msg(row < 8, "byte %zu of %zu is another client's", i, be->taken_len);
		own += be->taken[i] == fill;
	}
	ck_assert_uint_ge(own, BODY);
}

FIXTURE(set_up, tear_down)

TEST_EACH(refused_is_answered_by_another, 2)
{
	uint64_t id;

	begin(_i, 1000);
	bed_post_request(0, "/e", 'z', 100);
	id = first_id();
	bed_reply(&bed.backends[first], id, SL_RPC_REFUSED, 0, "");
	answer_second("the second's");
	ck_assert_uint_eq(bed.core.stats.retried, 1);
	/* It is not outstanding any more: neither a word of the first one nor its end matters. */
	bed_reply(&bed.backends[first], id, SL_RPC_OK, 0, "late");
	bed_turns(3);
	bed.backends[first].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert(!heard(0, "late") && !heard(1, "late"));
}

/* Status and end of the reply: an error is final, so more of it breaks the protocol. */
TEST_EACH(more_behind_an_error_ends_the_channel, 8)
{
	static const struct {
		uint8_t status, flags;
		const char *body;
	} lies[] = {{SL_RPC_REFUSED, SL_ENTRY_MORE, ""},
		    {SL_RPC_INTERNAL, SL_ENTRY_MORE, ""},
		    {SL_RPC_REFUSED, 0, "why"},
		    {SL_RPC_EXPIRED, SL_ENTRY_MORE, "why"}};
	uint64_t id;

	begin(_i & 1, 1000);
	bed_post_request(0, "/e", 'z', 100);
	id = first_id();
	bed_reply(&bed.backends[first], id, lies[_i / 2].status, lies[_i / 2].flags,
		  lies[_i / 2].body);
	bed_turns(2);
	ck_assert(!bed.backends[first].up);
	/* As any other backend that was lost. */
	answer_second("the second's");
	bed_post_request(1, "/o", 'y', 100);
	bed_turns(3);
	ck_assert(!heard(1, "HTTP"));
}

/* Refused while most of it is still to be sent: what the first one reads later is what it asked
 * for. */
TEST_EACH(bytes_stay_while_the_first_one_reads, 2)
{
	bool lends = _i;
	uint64_t id;

	begin(lends, 0);
	bed.backends[0].room = bed.backends[1].room = 1;
	bed_post_request(0, "/e", 'z', BODY);
	id = first_id();
	bed_reply(&bed.backends[first], id, SL_RPC_REFUSED, 0, "");
	bed.backends[second].room = 100;
	bed_turns(3);
	bed_complete(&bed.backends[second], 100);
	bed_turns(3);
	answer_second("the second's");
	/* Frames that came free are taken by another client now. */
	bed_post_request(1, "/o", 'y', BODY);
	bed_turns(3);
	bed.backends[first].room = 100;
	bed_turns(3);
	bed_complete(&bed.backends[first], 100);
	bed_turns(3);
	check_taken(first, 'z', 'y');
	check_taken(second, 'z', 'y');
}

/* The same where the client goes while both read; and where none of them ever does. */
TEST_EACH(bytes_stay_when_the_client_goes, 8)
{
	bool lends = _i & 1, read_on = _i & 2;
	uint64_t id;

	begin(lends, 1);
	bed_post_request(0, "/e", 'z', BODY);
	id = first_id();
	bed_reply(&bed.backends[first], id, SL_RPC_REFUSED, 0, "");
	(void)second_id();
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	bed_post_request(1, "/o", 'y', BODY);
	bed_turns(3);
	for (unsigned i = 0; read_on && i < 2; i++) {
		unsigned k = i ^ (unsigned)(_i >> 2); /* either is through first */

		bed.backends[k].room = 100;
		bed_turns(3);
		bed_complete(&bed.backends[k], 100);
		bed_turns(3);
		check_taken(k, 'z', 'y');
	}
}

/* When too many are read by two, it is not sent again, and its bytes stay all the same. */
TEST_EACH(not_sent_again_without_a_place, 2)
{
	uint64_t id;

	begin(_i, 1);
	while (sl_mempool_get(&bed.core.buf_refs))
		;
	bed_post_request(0, "/e", 'z', BODY);
	id = first_id();
	bed_reply(&bed.backends[first], id, SL_RPC_REFUSED, 0, "");
	bed_turns(3);
	ck_assert(heard(0, "HTTP/1.1 503"));
	ck_assert_uint_eq(bed.backends[second].id_cnt, 0);
	bed_post_request(1, "/o", 'y', BODY);
	bed.backends[first].room = 100;
	bed_turns(3);
	bed_complete(&bed.backends[first], 100);
	check_taken(first, 'z', 'y');
}

/* The first one dies in the midst of it, or behind the second one's answer. */
TEST_EACH(the_first_one_dies, 4)
{
	bool lends = _i & 1, early = _i & 2;
	uint64_t id;

	begin(lends, 1);
	bed_post_request(0, "/e", 'z', BODY);
	id = first_id();
	bed_reply(&bed.backends[first], id, SL_RPC_REFUSED, 0, "");
	bed.backends[second].room = 100;
	(void)second_id();
	if (early)
		bed.backends[first].broken = -ENOTCONN;
	answer_second("the second's");
	bed.backends[first].broken = -ENOTCONN;
	bed_turns(3);
	bed_complete(&bed.backends[second], 100);
	bed_turns(3);
	check_taken(second, 'z', 'y');
}

/* A second message about the same request, while the reply of the first one is under way. */
TEST_EACH(two_messages_of_one_reply_end_the_channel, 2)
{
	uint8_t body[256] = {0};
	struct sl_rpc_entry e = {.len = 64};
	struct sl_rpc_header h = bed_header(SL_RPC_RESPONSE, 1, 1, sizeof(e) + 64);

	begin(false, 1000);
	bed_post_request(0, "/e", 'z', 100);
	e.id = first_id();
	memcpy(body, &e, sizeof(e));
	memset(body + sizeof(e), 'A', 64);
	h.flags = SL_RPC_BATCH | SL_RPC_FIRST;
	h.fragment_len = sizeof(e) + 32;
	bed_message(&bed.backends[first], &h, body);
	bed_reply(&bed.backends[first], e.id, SL_RPC_OK, _i ? SL_ENTRY_MORE : 0,
		  "HTTP/1.1 200 forged");
	bed.backends[first].queue[1].h.id++;
	bed_turns(3);
	ck_assert(!bed.backends[first].up);
	ck_assert(!heard(0, "forged"));
}

/* Begun when there was no such request yet, and gone on with in the midst of its reply. */
TEST(rest_of_another_message_ends_the_channel)
{
	uint8_t body[256] = {0};
	struct sl_rpc_entry e = {.len = 64};
	struct sl_rpc_header h = bed_header(SL_RPC_RESPONSE, 1, 1, sizeof(e) + 64);
	struct sl_rpc_header rest = h;

	begin(false, 1000);
	h.flags = SL_RPC_BATCH | SL_RPC_FIRST;
	h.fragment_len = rest.total_or_offset = sizeof(e) + 32;
	rest.flags = SL_RPC_BATCH | SL_RPC_LAST;
	rest.fragment_len = 32;
	memcpy(body, &e, sizeof(e)); /* the first id of all is 0 */
	bed_message(&bed.backends[0], &h, body);
	bed_message(&bed.backends[1], &h, body);
	bed_turns(1);
	bed_post_request(0, "/e", 'z', 100);
	ck_assert_uint_eq(first_id(), e.id);
	h.id++;
	bed_message(&bed.backends[first], &h, body);
	bed_message(&bed.backends[first], &rest,
		    (const uint8_t *)"forged forged forged forged forged");
	bed_turns(3);
	ck_assert(!bed.backends[first].up);
	ck_assert(!heard(0, "forged"));
}

static struct sl_exchange again;
static struct {
	struct sl_buf_ref hold;
	uint64_t neighbour;
} full;

static void hold_once_more(void)
{
	sl_sent_batch_release_request(&again);
}

/* Its bytes are lost for good, but not read by another while they are in use. */
TEST(a_flight_too_many_writes_over_nothing)
{
	static struct sl_backend_ref backend;
	struct sl_sent_batch *sent = sl_mempool_get(&bed.core.sent_batches);

	sent->batch = 5;
	sl_sent_batch_begin(&bed.core, &backend, sent);
	full.hold = (struct sl_buf_ref){.link_cnt = SL_MAX_RETRIES + 1, .refs = 1};
	full.neighbour = 77;
	again = (struct sl_exchange){.core = &bed.core,
				     .backend = &backend,
				     .batch = 5,
				     .send_ns = 1,
				     .buf_ref = &full.hold};
	ck_broken(hold_once_more);
	ck_assert_uint_eq(full.neighbour, 77);
	ck_assert(sl_list_empty(&sent->shared));
#ifndef SL_DEBUG
	ck_assert_uint_eq(full.hold.refs, 1); /* two, without the exchange's */
#endif
	sl_sent_batch_done(&bed.core, &backend, 5);
}

/* The batcher gives up a request that waits. A deadline that passes before its client reads of it is why. */
TEST_EACH(a_request_that_is_given_up_at_its_deadline_has_expired, 2)
{
	struct sl_sent_batch *f[4096];
	struct sl_batcher *b;
	struct sl_batch_item *item = NULL;
	unsigned n = 0;

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].deadline_ns = _i ? 600 * SL_NS_PER_MS : 600 * SL_NS_PER_US;
	begin(false, 1000);
	while ((f[n] = sl_mempool_get(&bed.core.sent_batches))) /* nothing can be sent */
		n++;
	bed_post_request(0, "/e", 'z', 100);
	b = bed.core.wcfg->pools[0].pool->batcher;
	for (unsigned lane = 0; lane < SL_LANES && !item; lane++)
		item = sl_lane_first(&b->queue.lanes[lane]);
	ck_assert_ptr_nonnull(item);
	sl_batch_drop(b, item, SL_OUTCOME_SHED);
	while (n)
		sl_mempool_put(&bed.core.sent_batches, f[--n]);
	bed_turns(2);
	ck_assert(heard(0, _i ? "HTTP/1.1 503 " : "HTTP/1.1 504 "));
	ck_assert_uint_eq(bed.core.stats.outcomes[_i ? SL_OUTCOME_SHED : SL_OUTCOME_EXPIRED], 1);
}

/* --- backends that are not ready --- */

static void tell(unsigned backend, enum sl_rpc_type type)
{
	struct sl_rpc_header h = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
				  .flags = SL_RPC_FIRST | SL_RPC_LAST,
				  .priority = SL_CLASS_CONTROL,
				  .id = type == SL_RPC_GOAWAY ? SL_GOAWAY_STAYS : 0};

	ck_assert(bed_message(&bed.backends[backend], &h, NULL));
}

static void ask_by(bool stream)
{
	static const char get[] = "GET /e HTTP/1.1\r\nHost: x\r\n\r\n";

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].stream = stream;
	bed_say(0, get, sizeof(get) - 1);
}

/* The backend says so in front of the reply, and the other one is ready again. */
static void pass_on(unsigned from, enum sl_rpc_status status)
{
	struct bed_backend *be = &bed.backends[from];

	tell(1 - from, SL_RPC_READY);
	bed_turns(1);
	tell(from, SL_RPC_GOAWAY);
	bed_reply(be, be->ids[be->id_cnt - 1], status, 0, "");
	bed_turns(3);
	bed_complete(be, 100);
	bed_turns(1);
}

/* Unary requests and streams, also while their bytes are being read. */
TEST_EACH(a_request_passes_any_number_of_backends_that_are_not_ready, 4)
{
	enum { ROUNDS = 6 };
	unsigned at;

	begin(_i & 1, 1000);
	ask_by(_i / 2);
	first_id();
	at = first;
	for (unsigned n = 0; n < ROUNDS; n++, at = 1 - at) {
		pass_on(at, SL_RPC_REFUSED);
		ck_assert_uint_eq(bed.backends[1 - at].id_cnt, n / 2 + 1 + (1 - at == first));
		ck_assert(!heard(0, "HTTP"));
	}
	ck_assert(bed_reply(&bed.backends[at], bed.backends[at].ids[bed.backends[at].id_cnt - 1],
			    SL_RPC_OK, 0, "at last"));
	bed_turns(3);
	ck_assert(heard(0, "at last"));
	ck_assert_uint_eq(bed.core.stats.retried, ROUNDS);
}

/* No other backend is there: the request waits for the first one. */
TEST_EACH(a_request_waits_where_no_backend_is_ready, 2)
{
	begin(false, 1000);
	ask_by(_i);
	first_id();
	tell(second, SL_RPC_GOAWAY);
	bed_turns(1);
	tell(first, SL_RPC_GOAWAY);
	bed_reply(&bed.backends[first], bed.backends[first].ids[0], SL_RPC_REFUSED, 0, "");
	bed_turns(3);
	ck_assert(!heard(0, "HTTP"));
	ck_assert_uint_eq(bed.backends[first].id_cnt, 1);
	tell(first, SL_RPC_READY);
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[first].id_cnt, 2);
	ck_assert(
		bed_reply(&bed.backends[first], bed.backends[first].ids[1], SL_RPC_OK, 0, "back"));
	bed_turns(3);
	ck_assert(heard(0, "back"));
}

/* A request that a server has read and not answered may be the cause of its end. */
TEST_EACH(a_request_that_was_not_answered_is_repeated_twice_at_the_most, 2)
{
	unsigned at;

	begin(false, 1000);
	ask_by(_i);
	first_id();
	at = first;
	for (unsigned n = 0; n < SL_MAX_RETRIES; n++, at = 1 - at)
		pass_on(at, SL_RPC_UNANSWERED);
	ck_assert(!heard(0, "HTTP"));
	pass_on(at, SL_RPC_UNANSWERED);
	ck_assert(heard(0, "HTTP/1.1 502 "));
	ck_assert_uint_eq(bed.core.stats.retried, SL_MAX_RETRIES);
}

/* Requests that met only backends that are down are not limited. */
TEST_EACH(a_request_is_not_repeated_beyond_the_budget, 2)
{
	begin(false, 1000);
	while (sl_retry_take(&bed.core.wcfg->pools[0].pool->budget, bed.now_ns))
		;
	ask_by(_i);
	first_id();
	pass_on(first, SL_RPC_UNANSWERED);
	ck_assert(heard(0, "HTTP/1.1 502 "));
	ck_assert_uint_eq(bed.core.stats.retried, 0);
	ck_assert_uint_eq(bed.core.stats.retries_refused, 1);
}

TEST(unanswered_non_idempotent_request_is_not_repeated)
{
	begin(false, 1000);
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].idempotent = -1; /* as the method is */
	bed_post_request(0, "/e", 'z', 100);
	first_id();
	pass_on(first, SL_RPC_UNANSWERED);
	ck_assert(heard(0, "HTTP/1.1 502 "));
	ck_assert_uint_eq(bed.core.stats.retried, 0);
}

enum { HALF = 50 };

/* Half of its body has come, and is on its way to the backend. */
static void begin_stream(void)
{
	static const char head[] = "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";
	char body[HALF];

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].stream = true;
	memset(body, 'z', sizeof(body));
	bed_say(0, head, sizeof(head) - 1);
	bed_say(0, body, sizeof(body));
	bed_turns(3);
	first = bed.backends[0].id_cnt ? 0 : 1;
}

/* A backend gets so much without giving credit; all of it is sent again. */
TEST_EACH(stream_moves_to_another_backend_with_its_sent_bytes, 4)
{
	static const char rest[] = "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
	const struct bed_backend *be;
	char want[HALF];

	begin(_i & 1, 1000);
	begin_stream();
	if (_i / 2) /* all of it, and its end */
		bed_say(0, rest, HALF);
	bed_turns(3);
	be = &bed.backends[1 - first];
	pass_on(first, SL_RPC_REFUSED);
	if (!(_i / 2))
		bed_say(0, rest, HALF);
	bed_turns(3);
	bed_complete(&bed.backends[1 - first], 100);
	memset(want, 'z', HALF);
	ck_assert(memmem(be->taken, be->taken_len, want, HALF));
	ck_assert(memmem(be->taken, be->taken_len, rest, HALF));
	ck_assert(bed_reply(&bed.backends[1 - first], be->ids[0], SL_RPC_OK, 0, "whole"));
	bed_turns(3);
	ck_assert(heard(0, "whole"));
	ck_assert_uint_eq(bed.core.stats.stream_bytes_in, 100); /* counted once */
}

/* A stream without a frame for its sent bytes takes no place of another stream. */
TEST(stream_without_memory_for_sent_bytes_is_not_counted)
{
	begin(false, 1000);
	tell(0, SL_RPC_GOAWAY);
	tell(1, SL_RPC_GOAWAY);
	bed_turns(1);
	begin_stream(); /* waits for a backend */
	ck_assert_uint_eq(bed.backends[0].id_cnt + bed.backends[1].id_cnt, 0);
	bed.umem.low_water = UINT32_MAX;
	tell(0, SL_RPC_READY);
	bed_turns(3);
	bed.umem.low_water = 0;
	ck_assert_uint_eq(bed.core.stats.stream_bytes_in, HALF);
	ck_assert_uint_eq(bed.core.keeping, 0);
	pass_on(0, SL_RPC_REFUSED);
	ck_assert(heard(0, "HTTP/1.1 503"));
	ck_assert_uint_eq(bed.core.keeping, 0);
}

/* More than that, and the begin of it is gone. */
TEST(a_stream_of_which_a_backend_has_taken_some_is_not_repeated)
{
	struct sl_rpc_window w = {.bytes = 1000};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 0, sizeof(w));

	begin(false, 1000);
	begin_stream();
	w.id = bed.backends[first].ids[0];
	ck_assert(bed_message(&bed.backends[first], &h, (const uint8_t *)&w));
	bed_turns(1);
	pass_on(first, SL_RPC_REFUSED);
	ck_assert(heard(0, "HTTP/1.1 503"));
	ck_assert_uint_eq(bed.core.stats.retried, 0);
}

/* Bytes taken from the second one do not come back. */
TEST_EACH(joined_stores_have_the_rest_of_both, 2)
{
	struct sl_store one = {0}, two = {0};
	struct sl_span spans[4];
	uint8_t text[8];
	uint32_t n, len = 0;

	bed_connect(0, false);
	if (_i)
		ck_assert_uint_eq(sl_store_copy(&one, &bed.umem, "ab", 2), 2);
	ck_assert_uint_eq(sl_store_copy(&two, &bed.umem, "xyzcd", 5), 5);
	sl_store_skip(&two, &bed.umem, 3);
	sl_store_splice(&one, &two);
	n = sl_store_spans(&one, spans, 4);
	for (uint32_t i = 0; i < n; len += (uint32_t)spans[i++].len)
		memcpy(text + len, spans[i].ptr, spans[i].len);
	ck_assert_uint_eq(len, one.len);
	ck_assert_uint_eq(len, _i ? 4 : 2);
	ck_assert_mem_eq(text, _i ? "abcd" : "cd", len);
	sl_store_free(&one, &bed.umem);
}
