/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between a transport and a front: records however they come, and what must end them. */
#include "suite.h"
#include "base/poison.h"
#include "tls_bed.h"

enum { LONG = 60000 };

FIXTURE(bed_start, bed_stop)

static uint64_t ends(enum sl_tls_end why)
{
	struct sl_tls_stats s;

	sl_tls_stats(bed.tls, &s);
	return s.ends[why];
}

static uint8_t *noise(size_t len)
{
	uint8_t *bytes = malloc(len);
	struct sl_prng prng;

	sl_prng_seed(&prng, len);
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)sl_prng_below(&prng, 256);
	return bytes;
}

/* --- in --- */

static void content_arrives(size_t takes, bool takes_frames, int on_input, uint64_t seed)
{
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(LONG), *wire = malloc(4 * LONG);
	struct sl_prng prng;
	size_t at = 0, len = 0;

	sl_prng_seed(&prng, seed);
	while (at < LONG) {
		size_t n =
			1 + sl_prng_below(&prng, sl_prng_below(&prng, 2) ? 200 : SL_TLS_PLAIN_MAX);

		n = n < LONG - at ? n : LONG - at;
		len += bed_seal(b, SL_TLS_DATA, bytes + at, n, wire + len);
		at += n;
		if (sl_prng_below(&prng, 4) == 0)
			len += bed_seal(b, SL_TLS_DATA, NULL, 0, wire + len);
	}
	b->takes = takes;
	b->takes_frames = takes_frames;
	b->on_input = on_input;
	bed_feed(b, wire, len, 4000, &prng);
	while (b->got_len < LONG && b->filter && at--)
		b->filter->offers->resume(b->filter);
	ck_assert_ptr_nonnull(b->filter);
	ck_assert_uint_eq(b->got_len, LONG);
	ck_assert_mem_eq(b->got, bytes, LONG);
	free(bytes);
	free(wire);
	b->filter->below_tells->closed(b->filter);
	bed_release(b);
}

/*
 * A PROXY header in front of the handshake names the client, and the layers above hear it at once.
 */
TEST(the_clients_name_goes_up_before_the_handshake)
{
	struct bed_conn *b = bed_accept(0);

	b->filter->below_tells->named(b->filter);
	ck_assert(b->named && !b->opened_told);
	b->filter->below_tells->opened(b->filter);
	ck_assert(!b->opened_told);
	b->filter->below_tells->closed(b->filter);
	bed_release(b);
}

TEST(content_arrives_however_it_is_cut)
{
	for (uint64_t seed = 1; seed <= 30; seed++)
		content_arrives(BED_KEEP, false, 0, seed);
}

TEST(a_front_that_keeps_frames_gets_them)
{
	for (uint64_t seed = 1; seed <= 30; seed++)
		content_arrives(BED_KEEP, true, 0, seed);
}

TEST(a_front_that_takes_little_is_offered_the_rest)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		content_arrives(700, seed & 1, 0, seed);
		content_arrives(333, seed & 1, 3, seed);
	}
}

TEST(the_largest_record_is_taken_and_one_byte_more_is_not)
{
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(SL_TLS_PLAIN_MAX + 1);

	bed_say(b, SL_TLS_DATA, bytes, SL_TLS_PLAIN_MAX);
	ck_assert_uint_eq(b->got_len, SL_TLS_PLAIN_MAX);
	bed_say(b, SL_TLS_DATA, bytes, SL_TLS_PLAIN_MAX + 1);
	ck_assert_uint_eq(b->got_len, SL_TLS_PLAIN_MAX);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 22);
	ck_assert(b->closed && b->eof);
	ck_assert_uint_eq(ends(SL_TLS_END_OVERFLOW), 1);
	free(bytes);
}

TEST(a_head_that_promises_too_much_ends_it_before_more_comes)
{
	struct bed_conn *b = bed_open(0);
	static const uint8_t head[] = {23, 3, 3, 0x41, 0x01};

	bed_offer(b, head, sizeof(head), true);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 22);
}

TEST(padding_is_no_content)
{
	struct bed_conn *b = bed_open(0);
	uint8_t record[600] = {0};

	memcpy(record + SL_TLS_HEAD, "hello", 5);
	record[SL_TLS_HEAD + 5] =
		SL_TLS_DATA; /* zeros behind it, and one more in the place of a type */
	bed_feed(b, record, sl_tls_seal(bed.ciphers, &b->tx, 0, record, 300), 50, NULL);
	ck_assert_uint_eq(b->got_len, 5);
	ck_assert_mem_eq(b->got, "hello", 5);
	memset(record, 0, sizeof(record));
	bed_feed(b, record, sl_tls_seal(bed.ciphers, &b->tx, 0, record, 300), 600, NULL);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 10); /* nothing but zeros */
}

TEST(a_wrong_tag_ends_it_and_nothing_goes_up)
{
	struct bed_conn *b = bed_open(0);
	uint8_t record[100];
	size_t len = bed_seal(b, SL_TLS_DATA, "hello", 5, record);

	record[7] ^= 1;
	bed_feed(b, record, len, 3, NULL);
	bed_hear(b);
	ck_assert_uint_eq(b->got_len, 0);
	ck_assert_uint_eq(b->alert, 20);
	ck_assert_uint_eq(ends(SL_TLS_END_BAD_RECORD), 1);
}

TEST(few_records_without_content_may_follow_each_other)
{
	struct bed_conn *b = bed_open(0);

	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < SL_TLS_QUIET_MAX; i++)
			bed_say(b, SL_TLS_DATA, NULL, 0);
		bed_say(b, SL_TLS_DATA, "x", 1);
	}
	ck_assert_uint_eq(b->got_len, 3);
	for (unsigned i = 0; i <= SL_TLS_QUIET_MAX; i++)
		bed_say(b, SL_TLS_DATA, NULL, 0);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 10);
}

static const uint8_t update[] = {24, 0, 0, 1, 0}, update_asking[] = {24, 0, 0, 1, 1};

static void client_updates(struct bed_conn *b, const uint8_t *message)
{
	bed_say(b, SL_TLS_HANDSHAKE, message, sizeof(update));
	ck_assert(sl_tls_dir_update(bed.ciphers, &b->tx));
}

TEST(a_key_update_is_followed_and_answered_once)
{
	struct bed_conn *b = bed_open(0);

	client_updates(b, update);
	bed_say(b, SL_TLS_DATA, "a", 1);
	b->filter->offers->write(b->filter, "1", 1);
	bed_hear(b);
	ck_assert_uint_eq(b->updates, 0);
	client_updates(b, update_asking);
	client_updates(b, update_asking);
	bed_say(b, SL_TLS_DATA, "b", 1);
	b->filter->offers->write(b->filter, "2", 1);
	bed_hear(b);
	ck_assert_uint_eq(b->updates, 1);
	ck_assert_mem_eq(b->got, "ab", 2);
	ck_assert_mem_eq(b->heard, "12", 2);
}

TEST(a_flood_of_key_updates_ends_it)
{
	struct bed_conn *b = bed_open(0);

	for (unsigned i = 0; i <= SL_TLS_QUIET_MAX; i++)
		client_updates(b, update_asking);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 10);
	ck_assert_uint_le(b->records, 2);
}

TEST(other_messages_of_a_handshake_end_it)
{
	/* RFC 8446 4.6.3, 5.1, 5.4 */
	static const struct {
		uint8_t type, bytes[10], len, alert;
	} said[] = {
		{SL_TLS_HANDSHAKE, {1, 0, 0, 0}, 5, 10},
		{SL_TLS_HANDSHAKE, {4, 0, 0, 0}, 5, 10},
		{SL_TLS_HANDSHAKE, {24, 0, 0, 2, 0}, 5, 50},
		{SL_TLS_HANDSHAKE, {24, 0, 0, 0}, 4, 50},
		{SL_TLS_HANDSHAKE, {24, 0, 0, 1, 2}, 5, 47},
		{SL_TLS_HANDSHAKE, {24, 0, 0, 1, 0, 24, 0, 0, 1, 0}, 10, 10},
		{SL_TLS_HANDSHAKE, {0}, 0, 10},
		{SL_TLS_ALERT, {0}, 0, 10},
		{SL_TLS_ALERT, {1}, 1, 50},
		{SL_TLS_ALERT, {1, 90, 1}, 3, 50},
		{0, {0}, 0, 10},
	};

	for (unsigned i = 0; i < SL_ARRAY_LEN(said); i++) {
		struct bed_conn *b = bed_open(i % 4);

		bed_say(b, said[i].type, said[i].bytes, said[i].len);
		bed_hear(b);
		ck_assert_msg(b->alert == said[i].alert, "%u: alert %u", i, b->alert);
		b->filter->below_tells->closed(b->filter);
		bed_release(b);
	}
}

TEST(a_key_update_may_come_in_several_records)
{
	struct bed_conn *b = bed_open(0);

	for (unsigned i = 0; i < sizeof(update_asking); i++)
		bed_say(b, SL_TLS_HANDSHAKE, update_asking + i, 1);
	ck_assert(sl_tls_dir_update(bed.ciphers, &b->tx));
	bed_say(b, SL_TLS_DATA, "a", 1);
	b->filter->offers->write(b->filter, "1", 1);
	bed_hear(b);
	ck_assert_uint_eq(b->updates, 1);
	ck_assert_mem_eq(b->got, "a", 1);
	/* Nothing may stand between the parts. */
	bed_say(b, SL_TLS_HANDSHAKE, update, 2);
	bed_say(b, SL_TLS_DATA, "b", 1);
	bed_hear(b);
	ck_assert_uint_eq(b->got_len, 1);
	ck_assert_uint_eq(b->alert, 10);
}

/* Data between them does not make them free. */
TEST(key_updates_are_paid_for_by_records)
{
	struct bed_conn *b = bed_open(0);
	unsigned updates = 0;

	for (; updates < 100 && !b->closed; updates++) {
		client_updates(b, update);
		bed_say(b, SL_TLS_DATA, "x", 1);
	}
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 10);
	ck_assert_uint_ge(updates, SL_TLS_UPDATE_MAX / SL_TLS_UPDATE_COST);
	ck_assert_uint_le(updates, SL_TLS_UPDATE_MAX / SL_TLS_UPDATE_COST + 1);
	b = bed_open(1);
	for (updates = 0; updates < 20; updates++) {
		for (unsigned i = 0; i < SL_TLS_UPDATE_COST; i++)
			bed_say(b, SL_TLS_DATA, "x", 1);
		client_updates(b, update);
	}
	bed_hear(b);
	ck_assert(!b->closed);
}

/* RFC 6066 4: both ways. */
TEST(records_keep_to_the_length_that_was_agreed_on)
{
	static const uint8_t bytes[2000];
	struct bed_conn *b = bed_open(0);
	struct sl_tls_conn *c = sl_container_of(b->filter, struct sl_tls_conn, filter);

	c->piece_max = 512;
	b->filter->offers->write(b->filter, bytes, sizeof(bytes));
	bed_hear(b);
	ck_assert_uint_eq(b->heard_len, sizeof(bytes));
	ck_assert_uint_ge(b->records, 4);
	bed_say(b, SL_TLS_DATA, bytes, 512);
	ck_assert_uint_eq(b->got_len, 512);
	bed_say(b, SL_TLS_DATA, bytes, 513);
	bed_hear(b);
	ck_assert_uint_eq(b->alert, 22);
}

/* Records that a middlebox may see and drop between the hellos are not allowed later. */
TEST(a_change_of_cipher_after_the_handshake_ends_it)
{
	static const uint8_t change[] = {SL_TLS_CCS, 3, 3, 0, 1, 1};
	struct bed_conn *b = bed_open(0);

	bed_offer(b, change, sizeof(change), true);
	bed_hear(b);
	ck_assert(b->closed);
	ck_assert_uint_eq(b->alert, 10);
	ck_assert_uint_eq(ends(SL_TLS_END_UNEXPECTED), 1);
}

TEST(our_own_key_changes_in_time)
{
	struct bed_conn *b = bed_open(0);
	struct sl_tls_conn *c = sl_container_of(b->filter, struct sl_tls_conn, filter);

	c->tx.seq = b->rx.seq = (1 << 23) - 1;
	for (unsigned i = 0; i < 3; i++) {
		b->filter->offers->write(b->filter, "x", 1);
		bed_hear(b);
	}
	ck_assert_uint_eq(b->updates, 1);
	ck_assert_uint_eq(b->heard_len, 3);
	ck_assert_uint_eq(c->tx.seq, 2);
}

/* --- out --- */

TEST(a_head_and_its_body_are_one_record)
{
	struct bed_conn *b = bed_open(0);

	ck_assert(b->filter->offers->write_head(b->filter, "head", 4));
	ck_assert_uint_eq(b->filter->offers->write(b->filter, "body", 4), 4);
	ck_assert_uint_eq(b->sent_len, 0);
	bed_hear(b);
	ck_assert_uint_eq(b->records, 1);
	ck_assert_mem_eq(b->heard, "headbody", 8);
}

TEST(no_record_is_longer_than_a_segment)
{
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(LONG);

	ck_assert_uint_eq(b->filter->offers->write(b->filter, bytes, LONG), LONG);
	bed_hear(b);
	ck_assert_uint_eq(b->heard_len, LONG);
	ck_assert_mem_eq(b->heard, bytes, LONG);
	ck_assert_uint_eq(b->records, LONG / (BED_SEGMENT - SL_TLS_OVERHEAD) + 1);
	free(bytes);
}

TEST(connections_that_write_in_turn_get_their_own)
{
	struct bed_conn *a = bed_open(0), *b = bed_open(1);

	for (unsigned i = 0; i < 100; i++) {
		a->filter->offers->write(a->filter, "a", 1);
		b->filter->offers->write(b->filter, "bb", 2);
	}
	bed_hear(a);
	bed_hear(b);
	ck_assert_uint_eq(a->heard_len, 100);
	ck_assert_uint_eq(b->heard_len, 200);
	for (unsigned i = 0; i < 100; i++)
		ck_assert(a->heard[i] == 'a' && b->heard[2 * i] == 'b');
}

TEST(room_tells_how_much_will_be_taken)
{
	for (unsigned room = 0; room < 5000; room += 37) {
		struct bed_conn *b = bed_open(0);
		uint8_t *bytes = noise(6000);
		size_t said;

		b->room = room;
		said = b->filter->offers->room(b->filter);
		ck_assert_uint_ge(b->filter->offers->write(b->filter, bytes, 6000),
				  said < 2 * SL_TLS_OVERHEAD + 32 ? 0
								  : said - SL_TLS_OVERHEAD - 32);
		free(bytes);
		b->filter->below_tells->closed(b->filter);
		bed_release(b);
	}
}

TEST(a_write_that_does_not_fit_as_a_whole_is_not_begun)
{
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(SL_TLS_PLAIN_MAX + BED_SEGMENT);

	b->room = 0;
	ck_assert(!b->filter->offers->write_head(b->filter, bytes, SL_TLS_PLAIN_MAX));
	ck_assert(b->filter->offers->write_head(b->filter, bytes, SL_TLS_PLAIN_MAX / 2));
	bed_hear(b);
	ck_assert_uint_eq(b->heard_len, SL_TLS_PLAIN_MAX / 2);
	free(bytes);
}

/* The last frame may go to another connection between the check and the answer. */
TEST(a_head_that_is_written_in_part_ends_the_connection)
{
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(3 * BED_SEGMENT);

	b->dry_at = b->sent_len + BED_SEGMENT;
	ck_assert(b->filter->offers->write_head(b->filter, bytes, 3 * BED_SEGMENT));
	ck_assert(b->closed);
	ck_assert(!b->filter->offers->write(b->filter, "more", 4));
	ck_assert(b->filter->offers->write_head(b->filter, "more", 4)); /* taken, and not sent */
	bed_hear(b);
	ck_assert_uint_lt(b->heard_len, 3 * BED_SEGMENT);
	ck_assert_mem_eq(b->heard, bytes, b->heard_len);
	free(bytes);
}

/* --- the end --- */

TEST(close_notify_goes_both_ways)
{
	struct bed_conn *b = bed_open(0);

	bed_say(b, SL_TLS_DATA, "last", 4);
	bed_say(b, SL_TLS_ALERT, "\1\0", 2);
	ck_assert(b->eof && !b->closed);
	ck_assert_uint_eq(b->filter->offers->write(b->filter, "answer", 6), 6);
	b->filter->offers->close(b->filter);
	bed_hear(b);
	ck_assert_mem_eq(b->heard, "answer", 6);
	ck_assert_uint_eq(b->alert, 0);
	ck_assert(b->closed);
	b->filter->below_tells->eof(b->filter);
	ck_assert_uint_eq(ends(SL_TLS_END_TRUNCATED), 0);
}

TEST(an_end_without_close_notify_is_none)
{
	struct bed_conn *b = bed_open(0);
	struct sl_filter *f = b->filter;

	bed_say(b, SL_TLS_DATA, "some", 4);
	f->below_tells->eof(f);
	ck_assert(!b->eof && b->ended && b->reset);
	ck_assert_uint_eq(ends(SL_TLS_END_TRUNCATED), 1);
}

TEST(an_alert_of_the_client_ends_it)
{
	struct bed_conn *b = bed_open(0);

	bed_say(b, SL_TLS_ALERT, "\1\x5a", 2); /* user_canceled */
	ck_assert_ptr_nonnull(b->filter);
	bed_say(b, SL_TLS_ALERT, "\2\x14", 2);
	ck_assert(b->ended && b->reset);
	ck_assert_uint_eq(ends(SL_TLS_END_PEER), 1);
}

TEST(a_front_may_close_or_reset_within_its_input)
{
	for (int how = 1; how <= 2; how++) {
		for (size_t takes = 1; takes < 3000; takes += 1499) {
			struct bed_conn *b = bed_open(0);
			uint8_t *bytes = noise(5000), *wire = malloc(20000);
			size_t len = bed_seal(b, SL_TLS_DATA, bytes, 5000, wire);

			len += bed_seal(b, SL_TLS_DATA, bytes, 100, wire + len);
			b->on_input = how;
			b->takes = takes;
			bed_feed(b, wire, len, BED_SEGMENT, NULL);
			ck_assert(how == 1 ? b->closed : b->reset);
			ck_assert_uint_le(b->got_len, takes);
			if (b->filter)
				b->filter->below_tells->closed(b->filter);
			bed_release(b);
			free(bytes);
			free(wire);
		}
	}
}

TEST(parts_of_records_hold_a_share_of_the_frames_only)
{
	static uint8_t wire[SL_TLS_PLAIN_MAX + 64];
	unsigned left = 0;

	for (unsigned i = 0; i < BED_CONNS; i++) {
		struct bed_conn *b = bed_open(i);

		memset(wire, 0, sizeof(wire));
		sl_tls_seal(bed.ciphers, &b->tx, SL_TLS_DATA, wire, SL_TLS_PLAIN_MAX);
		bed_feed(b, wire, 8000, BED_SEGMENT, NULL);
		ck_assert_uint_le(bed.tls->backlog_frames, BED_FRAMES / 8 + 1);
	}
	for (unsigned i = 0; i < BED_CONNS; i++)
		left += !bed.conns[i].ended;
	ck_assert_uint_ge(left, 4);
	ck_assert(bed.conns[0].ended && !bed.conns[BED_CONNS - 1].ended); /* the oldest goes */
	ck_assert_uint_eq(ends(SL_TLS_END_SLOW_RECORD), BED_CONNS - left);
}

/*
 * The connection with the most frames gives way, even if another one has waited longer for a
 * record.
 */
TEST(a_holder_of_many_partial_records_ends_no_others)
{
	static uint8_t wire[SL_TLS_PLAIN_MAX + 64];
	struct bed_conn *other = bed_accept(0);
	unsigned left = 0;

	other->peer = (struct sl_addr){.addr = {10, 0, 0, 2}, .family = 4};
	bed_offer(other, bed_hello, sizeof(bed_hello), true);
	bed_finish(bed.submitted[--bed.submitted_cnt], other);
	sl_tls_seal(bed.ciphers, &other->tx, SL_TLS_DATA, wire, 2000);
	bed_offer(other, wire, 1000, true);
	for (unsigned i = 1; i < BED_CONNS; i++) {
		bed_open(i);
		bed_offer(&bed.conns[i], wire, SL_TLS_HEAD, true);
		ck_assert_uint_le(bed.tls->backlog_frames, BED_FRAMES / 8 + 1);
	}
	for (unsigned i = 1; i < BED_CONNS; i++)
		left += !bed.conns[i].ended;
	ck_assert(!other->ended);
	ck_assert(bed.conns[1].ended && !bed.conns[BED_CONNS - 1].ended);
	ck_assert_uint_ge(left, BED_FRAMES / 8 - 1);
	bed_offer(other, wire + 1000, 2000 + SL_TLS_OVERHEAD - 1000, true);
	ck_assert_uint_eq(other->got_len, 2000);
}

/* The frames that leave held another connection's plaintext before. */
TEST(output_has_no_bytes_of_another_client)
{
	static const char secret[] = "a secret that nobody else may see";
	struct bed_conn *b = bed_open(0);
	uint8_t *bytes = noise(LONG);

	for (size_t at = 0; at + sizeof(secret) < BED_KEEP; at += sizeof(secret))
		memcpy(b->sent + at, secret, sizeof(secret));
	for (size_t len = 1; len < 3000; len += 333) {
		b->filter->offers->write(b->filter, bytes, len);
		bed_hear(b);
	}
	b->filter->offers->close(b->filter);
	bed_hear(b);
	ck_assert_uint_eq(b->opened, b->sent_len); /* nothing but records */
	ck_assert_ptr_null(memmem(b->sent, b->sent_len, secret, 8));
	ck_assert_ptr_null(memmem(b->heard, b->heard_len, secret, 8));
	free(bytes);
}

TEST(keys_are_gone_with_their_connection)
{
	struct bed_conn *b = bed_open(0);
	struct sl_tls_conn *c = sl_container_of(b->filter, struct sl_tls_conn, filter);
	uint8_t key[16], secret[32];

	memcpy(key, c->rx.key, 16);
	memcpy(secret, c->tx.secret, 32);
	bed_say(b, SL_TLS_DATA, "x", 1);
	b->filter->below_tells->closed(b->filter);
	/* A sanitizer has what is unused poisoned; its bytes are what they are. */
	SL_UNPOISON(bed.tls->conns.base, 4 * sizeof(*c));
	SL_UNPOISON(bed.tls->hs.base, 2 * sizeof(struct sl_tls_hs));
	ck_assert_ptr_null(memmem(bed.tls->conns.base, 4 * sizeof(*c), key, 16));
	ck_assert_ptr_null(memmem(bed.tls->conns.base, 4 * sizeof(*c), secret, 32));
	ck_assert_ptr_null(memmem(bed.tls->hs.base, 2 * sizeof(struct sl_tls_hs), secret, 32));
}

/* "dd" among the flags of the mapping at an address. */
static bool is_left_out_of_dumps(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	uintptr_t from, to, want = (uintptr_t)at;
	bool within = false, found = false;
	char line[512];

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			within = from <= want && want < to;
		else if (within && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, " dd");
	}
	fclose(f);
	return found;
}

TEST(keys_are_in_no_core_dump)
{
	ck_assert(!is_left_out_of_dumps(&bed));
	ck_assert(is_left_out_of_dumps(bed.tls->conns.base));
	ck_assert(is_left_out_of_dumps(bed.tls->hs.base));
	ck_assert(is_left_out_of_dumps(bed.tls->identity.base));
	ck_assert(is_left_out_of_dumps(sl_tls_server_tickets(bed.server)));
}

/* --- before there are keys --- */

TEST(http_without_tls_gets_status_400)
{
	struct bed_conn *b = bed_accept(0);

	bed_offer(b, (const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, true);
	ck_assert_int_eq(strncmp((char *)b->sent, "HTTP/1.1 400 ", 13), 0);
	ck_assert(b->closed);
	ck_assert_uint_eq(bed.submitted_cnt, 0);
}

TEST(garbage_instead_of_a_handshake_reaches_no_thread)
{
	static const uint8_t starts[][6] = {{23, 3, 3, 0, 1, 0}, {0x80, 0x2e, 1, 3, 1, 0}, {0}};

	for (unsigned i = 0; i < 3; i++) {
		struct bed_conn *b = bed_accept(i);

		bed_offer(b, starts[i], 6, true);
		ck_assert(b->closed);
		ck_assert_uint_eq(b->sent[0], SL_TLS_ALERT);
	}
	ck_assert_uint_eq(bed.submitted_cnt, 0);
}

TEST(a_part_of_a_record_takes_no_handshake)
{
	struct bed_conn *b = bed_accept(0);

	for (size_t i = 0; i + 1 < sizeof(bed_hello); i++)
		bed_offer(b, bed_hello + i, 1, i & 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.tls->hs), 0);
	bed_offer(b, bed_hello + sizeof(bed_hello) - 1, 1, true);
	ck_assert_uint_eq(bed.submitted_cnt, 1);
}

TEST(bytes_behind_the_handshake_are_read_when_it_is_over)
{
	struct bed_conn *b = bed_accept(0);
	struct sl_tls_hs *hs;
	uint8_t record[64];
	size_t len;

	hs = bed_say_hello(b);
	len = bed_seal(b, SL_TLS_DATA, "early", 5, record);
	ck_assert_uint_eq(bed_offer(b, record, len, true), len);
	bed_finish(hs, b);
	ck_assert_mem_eq(b->got, "early", 5);
}

/* Says hello from an address; whether that was heard. */
static bool is_heard(unsigned i, uint8_t address)
{
	struct bed_conn *b = bed_accept(i);
	uint64_t shed = ends(SL_TLS_END_SHED);

	b->peer = (struct sl_addr){.addr = {10, 0, 0, address}, .family = 4};
	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	return !b->ended && ends(SL_TLS_END_SHED) == shed;
}

static uint16_t *share_of_only(void)
{
	uint16_t *found = NULL;

	for (unsigned i = 0; i < SL_TLS_BUCKETS; i++) {
		if (bed.tls->shares[i])
			found = &bed.tls->shares[i];
	}
	return found;
}

TEST(a_flooding_address_waits_behind_itself)
{
	uint32_t *all = &bed.tls->stats.handshakes;
	uint16_t *flooding;

	ck_assert(is_heard(0, 1));
	flooding = share_of_only();
	ck_assert_ptr_nonnull(flooding);
	*flooding = SL_TLS_HANDSHAKES / 32;
	ck_assert(is_heard(1, 1)); /* while no other connection wants it */
	ck_assert(bed.submitted[0]->few && !bed.submitted[1]->few);
	*all = SL_TLS_HANDSHAKES / 4;
	ck_assert(!is_heard(2, 1));
	ck_assert(is_heard(3, 2));
	ck_assert(is_heard(4, 2));
	*all = SL_TLS_HANDSHAKES / 8 * 7;
	ck_assert(!is_heard(5, 2));
	ck_assert(is_heard(6, 3)); /* the first of its address */
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 2);
	*all = sl_mempool_used(&bed.tls->hs);
	*flooding = 2;
}

TEST(an_address_that_has_no_handshake_gets_a_place_in_the_queue)
{
	bed.tls->queued = SL_TLS_QUEUE / 4 * 3;
	ck_assert(is_heard(0, 1));
	ck_assert(!is_heard(1, 1));
	ck_assert(is_heard(2, 2));
	bed.tls->queued = bed.submitted_cnt;
}

TEST(a_thread_is_told_that_a_client_has_left)
{
	struct bed_conn *b = bed_accept(0);

	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	ck_assert(!atomic_load(&bed.submitted[0]->gone));
	b->filter->below_tells->closed(b->filter);
	ck_assert(atomic_load(&bed.submitted[0]->gone));
}

TEST(a_shed_client_is_reset_after_a_while_and_not_heard)
{
	struct bed_conn *b = &bed.conns[0], *left = &bed.conns[1];

	ck_assert_uint_eq(sl_tls_next_ns(bed.tls), UINT64_MAX);
	bed.tls->queued = SL_TLS_QUEUE;
	ck_assert(!is_heard(0, 0) && !is_heard(1, 0));
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 2);
	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	left->filter->below_tells->closed(left->filter);
	bed.tls->queued = 0;
	/* the sleeping worker wakes */
	ck_assert_uint_eq(sl_tls_next_ns(bed.tls), bed.now_ns + 1000000000);
	bed.now_ns += 999000000;
	sl_tls_poll(bed.tls);
	ck_assert(!b->reset && !b->ended);
	bed.now_ns += 1000000;
	sl_tls_poll(bed.tls);
	ck_assert(b->reset && b->ended);
	ck_assert_uint_eq(sl_tls_next_ns(bed.tls), UINT64_MAX);
	ck_assert_uint_eq(bed.submitted_cnt, 0);
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 2);
	ck_assert_uint_eq(ends(SL_TLS_END_GONE), 0);
}

TEST(a_shed_client_that_leaves_is_reset_at_once)
{
	struct bed_conn *b = &bed.conns[0];

	bed.tls->queued = SL_TLS_QUEUE;
	ck_assert(!is_heard(0, 0));
	b->filter->below_tells->eof(b->filter);
	ck_assert(b->reset && b->ended);
	bed.tls->queued = 0;
	bed.now_ns += 1000000000;
	ck_assert_uint_eq(sl_tls_poll(bed.tls), 0);
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 1);
	ck_assert_uint_eq(ends(SL_TLS_END_GONE), 0);
}

TEST(new_clients_are_shed_before_those_with_tickets)
{
	/* version and random, three empty lists, then pre_shared_key with an identity of 16 bytes */
	static const uint8_t ticket[73] = {
		22, 3, 1, 0, 68, 1, 0, 0, 64, 3, 3, [47] = 0, 24, 0, 41, 0, 20, 0, 18, 0, 16};
	struct bed_conn *b;

	ck_assert(is_heard(0, 1));
	bed.tls->queued = SL_TLS_QUEUE / 4 * 3;
	ck_assert(!is_heard(1, 1));
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 1);
	b = bed_accept(2);
	b->peer = bed.conns[0].peer;
	bed_offer(b, ticket, sizeof(ticket), true);
	ck_assert(!b->ended);
	ck_assert_uint_eq(bed.submitted_cnt, 2);
	bed.tls->queued = bed.submitted_cnt;
}

TEST(a_client_that_leaves_meanwhile_leaves_nothing)
{
	struct bed_conn *b = bed_accept(0);
	struct sl_tls_hs *hs;

	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	b->filter->below_tells->closed(b->filter);
	ck_assert(b->ended);
	ck_assert_uint_eq(sl_mempool_used(&bed.tls->conns), 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.tls->hs), 1);
	hs = bed.submitted[--bed.submitted_cnt];
	hs->step = SL_TLS_MORE;
	sl_tls_result(bed.tls, hs);
	ck_assert_uint_eq(sl_mempool_used(&bed.tls->hs), 0);
}

/* So many clients say hello and no more: the oldest goes, once it has had its time. */
TEST(the_handshake_that_waits_for_longest_gives_way)
{
	struct bed_conn *b = bed_accept(0), *next = bed_accept(1);
	struct sl_tls_hs *hs;

	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	hs = bed.submitted[--bed.submitted_cnt];
	hs->step = SL_TLS_MORE;
	hs->in_used = hs->in_len;
	sl_tls_result(bed.tls, hs);
	while (sl_mempool_get(&bed.tls->hs))
		;
	bed.now_ns += 500000000;
	bed_offer(next, bed_hello, sizeof(bed_hello), true);
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 1);
	ck_assert(!b->ended);
	bed.now_ns += 2000000000;
	next = bed_accept(2);
	bed_offer(next, bed_hello, sizeof(bed_hello), true);
	ck_assert(b->ended && !next->ended);
	ck_assert_uint_eq(ends(SL_TLS_END_SHED), 1);
	for (uint32_t i = 0; i < SL_TLS_HANDSHAKES; i++) {
		struct sl_tls_hs *at = sl_mempool_at(&bed.tls->hs, i);

		if (at != bed.submitted[0])
			sl_mempool_put(&bed.tls->hs, at);
	}
}
