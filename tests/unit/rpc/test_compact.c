/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in the short form: which go so, that they arrive as the long form would, and lies in them. */
#include "rc_bed.h"
#include "rpc/rdma/rc/compact.h"
#include "suite.h"

enum { META = 5, SECRET = 0x5a };

static struct sl_rpc_entry entry;
static struct sl_rpc_header header;
static uint8_t meta[SL_RPC_MAX_META], payload[BODY];

/* A reply of so many bytes, with all that the form has a place for. */
static void make(uint16_t meta_len, uint32_t len)
{
	entry = (struct sl_rpc_entry){.id = UINT64_C(0x1234567890abcdef),
				      .len = len,
				      .time_us = 77,
				      .together = 9,
				      .meta_len = meta_len,
				      .status = SL_RPC_OK,
				      .flags = SL_ENTRY_MORE | SL_ENTRY_COMPRESSED};
	len = (uint32_t)(sizeof(entry) + sl_rpc_pad8(meta_len) + sl_rpc_pad8(len));
	header = (struct sl_rpc_header){.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
					.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
					.priority = SL_CLASS_LATENCY,
					.count = 1,
					.fragment_len = len,
					.total_or_offset = len,
					.id = sl_rpc_boot_epoch() << 48 | 1,
					.time_us = 77};
	memset(meta, 'm', sizeof(meta));
	memset(payload, 'p', sizeof(payload));
}

/* Entry, metadata, padding, payload, padding: as the session's spans lie. */
static void post_reply(void)
{
	static const uint8_t zeros[8];
	const struct sl_span spans[] = {
		sl_span_of(&entry, sizeof(entry)), sl_span_of(meta, entry.meta_len),
		sl_span_of(zeros, sl_rpc_pad8(entry.meta_len) - entry.meta_len),
		sl_span_of(payload, entry.len),
		sl_span_of(zeros, sl_rpc_pad8(entry.len) - entry.len)};

	ck_assert_int_eq(t->ops->post(t, &header, spans, 5, 0), 0);
	t->ops->flush(t);
}

static const struct ibv_sge *sent_piece(void)
{
	const struct fake_qp *qp = fake_qp(v);

	return &qp->sends[(qp->posted - 1) % FAKE_SENDS].sge[0];
}

/* Feeds the last sent message back. */
static int echo(struct sl_message *m)
{
	const struct ibv_sge *piece = sent_piece();

	ck_assert(fake_arrive(v, (void *)(uintptr_t)piece->addr, piece->length));
	return t->ops->poll(t, m, 1);
}

/* --- what goes so --- */

FIXTURE(set_up, tear_down)

TEST(a_small_reply_arrives_as_it_was_posted)
{
	struct sl_message m;
	struct sl_rpc_entry e;

	v->base.peer_epoch = 0xabcd;
	make(META, 3);
	post_reply();
	ck_assert_uint_eq(sent_piece()->length, sizeof(struct sl_rpc_compact) + 8 + 3);
	ck_assert_int_eq(echo(&m), 1);
	ck_assert_uint_eq(m.header.version_type, header.version_type);
	ck_assert_uint_eq(m.header.flags, header.flags);
	ck_assert_uint_eq(m.header.priority, header.priority);
	ck_assert_uint_eq(m.header.count, 1);
	ck_assert_uint_eq(m.header.fragment_len, header.fragment_len);
	ck_assert_uint_eq(m.header.total_or_offset, header.total_or_offset);
	ck_assert_uint_eq(m.header.id >> 48, 0xabcd);
	ck_assert_uint_eq(m.header.time_us, 77);
	memcpy(&e, m.body, sizeof(e));
	ck_assert_mem_eq(&e, &entry, sizeof(e));
	ck_assert_mem_eq(m.body + sizeof(e), meta, META);
	ck_assert_mem_eq(m.body + sizeof(e) + 8, payload, 3);
	t->ops->release(t, &m);
}

/* Also one whose entry and bytes are one span, as a stream's parts are, and one of no bytes. */
TEST(an_entry_and_its_bytes_in_one_span_go_so)
{
	struct {
		struct sl_rpc_entry entry;
		uint8_t bytes[8];
	} one;
	struct sl_message m;
	struct sl_span span;

	make(0, 8);
	one.entry = entry;
	memset(one.bytes, 'p', sizeof(one.bytes));
	span = sl_span_of(&one, sizeof(one));
	ck_assert_int_eq(t->ops->post(t, &header, &span, 1, 0), 0);
	t->ops->flush(t);
	ck_assert_uint_eq(sent_piece()->length, sizeof(struct sl_rpc_compact) + 8);
	ck_assert_int_eq(echo(&m), 1);
	ck_assert_mem_eq(m.body, &one, sizeof(one));
	t->ops->release(t, &m);
	make(0, 0);
	post_reply();
	ck_assert_uint_eq(sent_piece()->length, sizeof(struct sl_rpc_compact));
	ck_assert_int_eq(echo(&m), 1);
	ck_assert_mem_eq(m.body, &entry, sizeof(entry));
	t->ops->release(t, &m);
}

TEST(the_longest_goes_so_and_a_byte_more_does_not)
{
	const uint32_t most = SL_RPC_COMPACT_MAX - sizeof(struct sl_rpc_compact);

	make(0, most);
	post_reply();
	ck_assert_uint_eq(sent_piece()->length, SL_RPC_COMPACT_MAX);
	make(0, most + 1);
	post_reply();
	ck_assert_uint_eq(sent_piece()->length, sizeof(header) + header.fragment_len);
	make((uint16_t)(most - 8), 8);
	post_reply();
	ck_assert_uint_eq(sent_piece()->length, SL_RPC_COMPACT_MAX);
}

static void has_rest(void)
{
	entry.rest = 1;
}
static void together(void)
{
	entry.together = 256;
}
static void two(void)
{
	header.count = 2;
}
static void first_only(void)
{
	header.flags &= (uint8_t)~SL_RPC_LAST;
}
static void last_only(void)
{
	header.flags &= (uint8_t)~SL_RPC_FIRST;
}
static void of_another_process(void)
{
	header.id ^= UINT64_C(1) << 48;
}
static void other_total(void)
{
	header.total_or_offset += 8;
}
static void other_length(void)
{
	entry.len--;
	header.fragment_len = (uint32_t)(sizeof(entry) + 2 * sl_rpc_pad8(entry.len));
}

static void (*const unfit[])(void) = {has_rest,  together,           two,         first_only,
				      last_only, of_another_process, other_total, other_length};

TEST_EACH(headers_without_a_compact_form_use_the_long_one, (int)(sizeof(unfit) / sizeof(unfit[0])))
{
	uint8_t to[SL_RPC_COMPACT_MAX];
	struct sl_span spans[2];

	make(0, 8);
	spans[0] = sl_span_of(&entry, sizeof(entry));
	spans[1] = sl_span_of(payload, 8);
	ck_assert_uint_gt(rc_compact_write(to, &header, spans, 2), 0);
	unfit[_i]();
	ck_assert_uint_eq(rc_compact_write(to, &header, spans, 2), 0);
}

TEST(a_message_without_an_entry_goes_in_the_long_form)
{
	uint8_t to[SL_RPC_COMPACT_MAX];
	struct sl_span piece;

	make(0, 8);
	piece = sl_span_of(&entry, sizeof(entry) - 1);
	ck_assert_uint_eq(rc_compact_write(to, &header, &piece, 1), 0);
	ck_assert_uint_eq(rc_compact_write(to, &header, &piece, 0), 0);
}

/* --- lies --- */

static struct sl_rpc_compact lie;

static uint32_t a_credit(void)
{
	lie.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT;
	return sizeof(lie) + 16;
}
static uint32_t a_fragment(void)
{
	lie.flags &= (uint8_t)~SL_RPC_LAST;
	return sizeof(lie) + 16;
}
static uint32_t of_another_version(void)
{
	lie.version_type = (SL_RPC_VERSION - 1) << 4 | SL_RPC_RESPONSE;
	return sizeof(lie) + 16;
}
static uint32_t of_no_type(void)
{
	lie.version_type = SL_RPC_VERSION << 4;
	return sizeof(lie) + 16;
}
static uint32_t more_metadata_than_there_is(void)
{
	lie.meta_len = 9;
	return sizeof(lie) + 15;
}
static uint32_t a_part_of_the_form(void)
{
	return sizeof(lie) - 1;
}
static uint32_t too_long(void)
{
	return SL_RPC_COMPACT_MAX + 1;
}
static uint32_t consumed_what_was_not_sent(void)
{
	lie.consumed = 1;
	return sizeof(lie) + 16;
}

static uint32_t (*const lies[])(void) = {a_credit,
					 a_fragment,
					 of_another_version,
					 of_no_type,
					 more_metadata_than_there_is,
					 a_part_of_the_form,
					 too_long,
					 consumed_what_was_not_sent};

TEST_EACH(an_invalid_compact_message_ends_the_connection, (int)(sizeof(lies) / sizeof(lies[0])))
{
	uint8_t bytes[SL_RPC_SLOT_SIZE] = {0};
	struct sl_message m;
	uint32_t len;

	lie = (struct sl_rpc_compact){.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
				      .flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST |
					       SL_RPC_COMPACT};
	memcpy(bytes, &lie, sizeof(lie));
	ck_assert(fake_arrive(v, bytes, sizeof(lie) + 16));
	ck_assert_int_eq(t->ops->poll(t, &m, 1), 1);
	t->ops->release(t, &m);
	len = lies[_i]();
	memcpy(bytes, &lie, sizeof(lie));
	ck_assert(fake_arrive(v, bytes, len));
	ck_assert_int_eq(t->ops->poll(t, &m, 1), -EPROTO);
}

/* No slot's former bytes come to lie where a reader looks: what is not sent is not read either. */
TEST(earlier_bytes_of_the_slot_are_not_part_of_a_message)
{
	uint8_t slot[2 * SL_RPC_COMPACT_MAX];
	struct sl_rpc_header h;
	uint32_t len;

	memset(slot, SECRET, sizeof(slot));
	lie = (struct sl_rpc_compact){.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
				      .flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST |
					       SL_RPC_COMPACT,
				      .meta_len = 8};
	memset(slot, 0, sizeof(lie) + 8 + 3);
	memcpy(slot, &lie, sizeof(lie));
	ck_assert_int_eq(rc_compact_read(slot, sizeof(lie) + 8 + 3, 1, &h), 0);
	len = h.fragment_len;
	ck_assert_uint_eq(len, sizeof(entry) + 8 + 8);
	for (uint32_t i = 0; i < len; i++)
		ck_assert_uint_ne(slot[i], SECRET);
}
