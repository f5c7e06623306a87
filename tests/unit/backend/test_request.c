/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in: merged into batches, bounded, and parsed with suspicion. */
#include "fake.h"

enum { SEEN = 1024 };

/* What the handler was given. */
static struct {
	unsigned calls, counts[SEEN], total;
	struct sl_request_view *held[FAKE_IN];
	bool hold;
} seen;

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	ck_assert_uint_lt(seen.calls, SEEN);
	seen.counts[seen.calls++] = batch->count;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		if (seen.hold)
			seen.held[seen.total++] = rq;
		else
			sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
							     .body_len = rq->body_len});
	}
}

static void setup(void)
{
	memset(&seen, 0, sizeof(seen));
}

/* Three gateways, one batch; more than the handler's maximum make two, in order of arrival. */
START_TEST(test_merged)
{
	struct sl_backend *b = fake_backend(handle, NULL, 12);
	struct fake *f[3];

	for (unsigned i = 0; i < 3; i++)
		f[i] = fake_connect(b);
	for (uint64_t id = 1; id <= 4; id++) {
		for (unsigned i = 0; i < 3; i++)
			fake_ask(f[i], id, "x");
	}
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_uint_eq(seen.counts[0], 12);
	for (unsigned i = 0; i < 3; i++) {
		/* One RESPONSE each, however many replies. */
		ck_assert_uint_eq(fake_count(f[i], SL_RPC_RESPONSE), 1);
		for (uint64_t id = 1; id <= 4; id++)
			ck_assert_int_eq(fake_status(f[i], id), SL_RPC_OK);
	}
	for (uint64_t id = 5; id <= 11; id++) {
		for (unsigned i = 0; i < 3; i++)
			fake_ask(f[i], id, "x");
	}
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 3);
	ck_assert_uint_eq(seen.counts[1], 12);
	ck_assert_uint_eq(seen.counts[2], 9);
	sl_backend_close(b);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(f[i]->closed);
		fake_free(f[i]);
	}
}
END_TEST

/* A message that arrives in pieces waits for its end; others do not wait for it. */
START_TEST(test_in_pieces)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);
	struct fake_message *m;

	fake_ask_part(f, 1, NULL, 0, "first...second..", 16, 8, SL_CLASS_NORMAL);
	fake_ask(f, 2, "whole");
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_uint_eq(seen.counts[0], 1);
	ck_assert_int_eq(fake_status(f, 2), SL_RPC_OK);
	m = &f->in[f->in_cnt++];
	m->header = f->in[0].header;
	m->header.flags = SL_RPC_BATCH | SL_RPC_LAST;
	m->header.total_or_offset = m->header.fragment_len;
	m->header.fragment_len = 8;
	m->body = malloc(8);
	memcpy(m->body, "second..", 8);
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 2);
	{
		struct sl_rpc_entry e;
		const uint8_t *at;

		ck_assert(fake_answer(f, 1, &e, &at));
		ck_assert_uint_eq(e.len, 16);
		ck_assert_mem_eq(at, "first...second..", 16);
	}
	sl_backend_close(b);
	fake_free(f);
}
END_TEST

/* --- limits --- */

/* A gateway that has asked for more than its share is refused, another is not. */
START_TEST(test_open_requests)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *greedy = fake_connect(b), *other = fake_connect(b);

	seen.hold = true;
	for (uint64_t id = 1; id <= SL_BE_OPEN_MAX + 2; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX);
	ck_assert_int_eq(fake_status(greedy, SL_BE_OPEN_MAX + 1), SL_RPC_REFUSED);
	ck_assert_int_eq(fake_status(greedy, SL_BE_OPEN_MAX + 2), SL_RPC_REFUSED);
	fake_ask(other, 1, "y");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX + 1);
	/* Room again. */
	ck_assert_int_eq(sl_reply(seen.held[0], &(struct sl_reply_args){.body_len = 0}), 0);
	fake_settle(b);
	fake_ask(greedy, SL_BE_OPEN_MAX + 3, "z");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX + 2);
	sl_backend_close(b);
	/* What nobody has answered is refused at the end. */
	ck_assert_int_eq(fake_status(other, 1), SL_RPC_REFUSED);
	fake_free(greedy);
	fake_free(other);
}
END_TEST

START_TEST(test_memory_of_a_channel)
{
	enum { BIG = SL_RPC_MAX_MESSAGE };
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);

	/* Announced: little of it has come, but the room is taken. */
	for (uint64_t id = 1; id <= 4; id++)
		fake_ask_part(f, id, NULL, 0, "first...", BIG, 8, SL_CLASS_BULK);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 3);
	ck_assert_int_eq(fake_status(f, 4), SL_RPC_REFUSED);
	ck_assert(!f->closed);
	sl_backend_close(b);
	fake_free(f);
}
END_TEST

START_TEST(test_same_id_twice)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *liar = fake_connect(b), *other = fake_connect(b);
	struct sl_backend_stats st;

	seen.hold = true;
	fake_ask(liar, 5, "x");
	fake_ask(other, 5, "x"); /* of another channel: another request */
	fake_settle(b);
	ck_assert(!liar->closed && !other->closed);
	fake_ask(liar, 5, "y");
	fake_settle(b);
	ck_assert(liar->closed && !other->closed);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.bad_messages, 1);
	/* The handler's own are told so. */
	ck_assert(sl_request_cancelled(seen.held[0]));
	ck_assert(!sl_request_cancelled(seen.held[1]));
	ck_assert_int_eq(sl_reply(seen.held[0], &(struct sl_reply_args){.body_len = 0}),
			 -ECANCELED);
	fake_settle(b);
	b->tick_ns = 0;
	fake_settle(b);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.channels, 1);
	sl_backend_close(b);
	fake_free(liar);
	fake_free(other);
}
END_TEST

/* --- metadata --- */

static size_t field(uint8_t *to, unsigned tag, const void *value, size_t len)
{
	sl_put_le16(to, (uint16_t)tag);
	sl_put_le16(to + 2, (uint16_t)len);
	memcpy(to + 4, value, len);
	return 4 + len;
}

static bool text_is(const char *ptr, size_t len, const char *expected)
{
	return len == strlen(expected) && memcmp(ptr, expected, len) == 0;
}

START_TEST(test_fields)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);
	const struct sl_request_view *v;
	const char *value = NULL;
	uint8_t meta[256];
	size_t n = 0, len = 0;

	seen.hold = true;
	n += field(meta + n, SL_META_METHOD, "PUT", 3);
	n += field(meta + n, 999, "of a newer gateway", 18);
	n += field(meta + n, SL_META_PATH, "/a/b", 4);
	n += field(meta + n, SL_META_HEADER, "\x03x-a1", 5);
	n += field(meta + n, SL_META_HEADER, "\x04x-abc", 6);
	n += field(meta + n, SL_META_HEADER, "\x09x-empty", 1); /* name beyond the field */
	n += field(meta + n, SL_META_HEADER, "", 0);
	n += field(meta + n, SL_META_PROTOCOL, "\x02\x00", 2);
	n += field(meta + n, SL_META_QUERY, "q=1", 3);
	n += field(meta + n, SL_META_CONTENT_TYPE, "t/x", 3);
	fake_ask_part(f, 1, meta, n, "body", 4, 4, SL_CLASS_LATENCY);
	fake_settle(b);
	ck_assert_uint_eq(seen.total, 1);
	v = seen.held[0];
	ck_assert(text_is(v->method, v->method_len, "PUT"));
	ck_assert(text_is(v->path, v->path_len, "/a/b"));
	ck_assert(text_is(v->query, v->query_len, "q=1"));
	ck_assert(text_is(v->content_type, v->content_type_len, "t/x"));
	ck_assert(text_is((const char *)v->body, v->body_len, "body"));
	ck_assert_uint_eq((uintptr_t)v->body % 16, 0);
	ck_assert_uint_eq(v->protocol, 2);
	ck_assert_uint_eq(v->priority, SL_CLASS_LATENCY);
	ck_assert(sl_request_header(v, "x-a", &value, &len));
	ck_assert(text_is(value, len, "1"));
	ck_assert(sl_request_header(v, "x-ab", &value, &len));
	ck_assert(text_is(value, len, "c"));
	ck_assert(!sl_request_header(v, "x-", &value, &len));
	ck_assert(!sl_request_header(v, "x-empty", &value, &len));
	ck_assert(!sl_request_header(v, "", &value, &len));
	sl_backend_close(b);
	fake_free(f);
}
END_TEST

/* Lengths that lie are the request's fault: it gets its answer, and the channel goes on. */
START_TEST(test_bad_fields)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {{"\x02\0\x05\0/abc", 8}, {"\x02\0\xff\xff", 4}, {"\x02\0\0", 3}, {"x", 1}};
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);

	for (unsigned i = 0; i < 4; i++)
		fake_ask_part(f, i + 1, bad[i].bytes, bad[i].len, "x", 1, 1, SL_CLASS_NORMAL);
	fake_ask(f, 5, "good");
	fake_settle(b);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(fake_status(f, i + 1), SL_RPC_BAD_REQUEST);
	ck_assert_int_eq(fake_status(f, 5), SL_RPC_OK);
	ck_assert_uint_eq(seen.counts[0], 1);
	sl_backend_close(b);
	fake_free(f);
}
END_TEST

/* --- gateways that are gone without a word --- */

START_TEST(test_half_open)
{
	const uint64_t sec = SL_NS_PER_SEC;
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *gone = fake_connect(b), *there = fake_connect(b);
	struct channel *ch[2] = {sl_container_of(b->channels.next, struct channel, node),
				 sl_container_of(b->channels.next->next, struct channel, node)};
	uint64_t start = ch[0]->link.last_rx_ns, now;

	/* A handler that takes an hour has not asked: silence alone says nothing. */
	sl_be_channel_tick(ch[0], start + 3600 * sec);
	ck_assert_int_eq(ch[0]->link.error, 0);
	sl_link_flush(&ch[0]->link, start);
	ck_assert_uint_eq(fake_count(gone, SL_RPC_PING), 1);
	for (unsigned i = 1; i <= 20; i++) {
		now = start + (3600 + i) * sec;
		sl_be_channel_tick(ch[0], now);
		sl_be_channel_tick(ch[0], now); /* once a second */
		sl_link_flush(&ch[0]->link, now);
		ch[1]->link.last_rx_ns = now; /* heard */
		sl_be_channel_tick(ch[1], now);
		sl_link_flush(&ch[1]->link, now);
		if (ch[0]->link.error)
			break;
	}
	ck_assert_int_eq(ch[0]->link.error, -ETIMEDOUT);
	ck_assert_uint_eq(fake_count(gone, SL_RPC_PING), 3);
	ck_assert_int_eq(ch[1]->link.error, 0);
	ck_assert_uint_eq(fake_count(there, SL_RPC_PING), 0);
	sl_backend_poll(b, 0);
	ck_assert(gone->closed && !there->closed);
	sl_backend_close(b);
	fake_free(gone);
	fake_free(there);
}
END_TEST

/* Whoever answers in between begins anew. */
START_TEST(test_heard_again)
{
	const uint64_t sec = SL_NS_PER_SEC;
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);
	struct channel *ch = sl_container_of(b->channels.next, struct channel, node);
	uint64_t start = ch->link.last_rx_ns;

	for (unsigned i = 6; i <= 8; i++) {
		sl_be_channel_tick(ch, start + i * sec);
		sl_link_flush(&ch->link, start + i * sec);
	}
	ck_assert_uint_eq(fake_count(f, SL_RPC_PING), 3);
	ch->link.last_rx_ns = start + 9 * sec;
	for (unsigned i = 10; i <= 16; i++) {
		sl_be_channel_tick(ch, start + i * sec);
		sl_link_flush(&ch->link, start + i * sec);
	}
	ck_assert_int_eq(ch->link.error, 0);
	ck_assert_uint_eq(fake_count(f, SL_RPC_PING), 6);
	sl_be_channel_tick(ch, start + 17 * sec);
	ck_assert_int_eq(ch->link.error, -ETIMEDOUT);
	sl_backend_close(b);
	fake_free(f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("backend requests");
	TCase *tc = tcase_create("requests");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, test_merged);
	tcase_add_test(tc, test_in_pieces);
	tcase_add_test(tc, test_open_requests);
	tcase_add_test(tc, test_memory_of_a_channel);
	tcase_add_test(tc, test_same_id_twice);
	tcase_add_test(tc, test_fields);
	tcase_add_test(tc, test_bad_fields);
	tcase_add_test(tc, test_half_open);
	tcase_add_test(tc, test_heard_again);
	suite_add_tcase(s, tc);
	return fake_run(s);
}
