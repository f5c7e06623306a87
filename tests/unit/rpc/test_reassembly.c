/* SPDX-License-Identifier: Apache-2.0 */
/* Taking messages apart: any fragmentation gives the same parts; forged headers give errors. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/rand.h"
#include "rpc/reassembly.h"
#include "suite.h"

enum { TABLE = sizeof(struct sl_rpc_entry) };

enum { MAX = 200000, PAGE = 4096 };

static struct sl_reassembly_scratch scratch;
static struct sl_capped_alloc mem;

struct seen {
	unsigned entries, parts;
	uint64_t sum; /* checksum of all that was passed on, order included */
	uint64_t body_bytes, meta_bytes;
};

static void mix(struct seen *s, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		s->sum = s->sum * 1099511628211u + p[i] + 1;
}

static void on_part(void *ctx, const struct sl_part *part)
{
	struct seen *s = ctx;

	s->parts++;
	if (part->first) {
		s->sum = s->sum * 31 + part->entry->id;
		s->meta_bytes += part->meta.len;
		ck_assert_uint_eq(part->meta.len, part->entry->meta_len);
		mix(s, part->meta.ptr, part->meta.len);
	}
	mix(s, part->body.ptr, part->body.len);
	s->body_bytes += part->body.len;
	s->entries += part->last;
}

/* A message of cnt entries with lengths from rng; its body's length. */
static uint32_t build(uint8_t *to, unsigned cnt, struct sl_prng *rng)
{
	struct sl_rpc_entry *e = (struct sl_rpc_entry *)(void *)to;
	uint8_t *at = to + cnt * sizeof(*e);

	memset(to, 0, MAX);
	for (unsigned i = 0; i < cnt; i++) {
		e[i] = (struct sl_rpc_entry){
			.id = i + 1,
			.len = (uint32_t)sl_prng_below(rng, sl_prng_below(rng, 4) ? 50 : 5000),
			.meta_len = (uint16_t)sl_prng_below(rng, sl_prng_below(rng, 3) ? 20 : 900),
		};
		for (unsigned k = 0; k < e[i].meta_len; k++)
			at[k] = (uint8_t)(i + k);
		at += sl_rpc_pad8(e[i].meta_len);
		for (unsigned k = 0; k < e[i].len; k++)
			at[k] = (uint8_t)(i * 3 + k);
		at += sl_rpc_pad8(e[i].len);
	}
	return (uint32_t)(at - to);
}

static struct sl_rpc_header header(unsigned cnt, uint32_t total, uint32_t fragment)
{
	return (struct sl_rpc_header){.flags = SL_RPC_BATCH | SL_RPC_FIRST,
				      .count = (uint16_t)cnt,
				      .total_or_offset = total,
				      .fragment_len = fragment};
}

static int feed(struct sl_reassembler *r, const uint8_t *p, size_t len, struct seen *s)
{
	return sl_reassembler_feed(r, sl_span_of(p, len), &mem, &scratch, on_part, s);
}

static void setup(void)
{
	sl_capped_init(&mem, 1 << 20);
}

static void teardown(void)
{
	ck_assert_uint_eq(mem.used, 0);
	sl_capped_fini(&mem);
}

FIXTURE(setup, teardown)

TEST(any_fragmentation_gives_the_same_parts)
{
	static uint8_t body[MAX];
	struct sl_prng rng;

	for (uint64_t seed = 1; seed < 200; seed++) {
		struct sl_reassembler r = {.phase = SL_REASM_IDLE};
		struct seen whole = {0}, cut = {0};
		unsigned cnt;
		uint32_t total, at = 0;
		struct sl_rpc_header h;

		sl_prng_seed(&rng, seed);
		cnt = 1 + (unsigned)sl_prng_below(&rng, 30);
		total = build(body, cnt, &rng);
		h = header(cnt, total, total);
		ck_assert_int_eq(sl_reassembler_start(&r, &h, &mem, &scratch), 0);
		ck_assert_int_eq(feed(&r, body, total, &whole), 1);
		ck_assert_uint_eq(whole.entries, cnt);
		while (at < total) {
			uint32_t most = seed % 3 ? 3000 : 9;
			uint32_t len = 1 + (uint32_t)sl_prng_below(&rng, most);

			len = len < total - at ? len : total - at;
			if (at == 0) {
				h = header(cnt, total, len);
				ck_assert_int_eq(sl_reassembler_start(&r, &h, &mem, &scratch), 0);
			}
			/* Scratch contents of one fragment must not be needed by the next. */
			memset(&scratch, 0xee, sizeof(scratch));
			ck_assert_int_eq(feed(&r, body + at, len, &cut), at + len == total);
			at += len;
		}
		ck_assert_uint_eq(cut.sum, whole.sum);
		ck_assert_uint_eq(cut.entries, cnt);
		ck_assert_uint_eq(cut.body_bytes, whole.body_bytes);
		ck_assert_uint_eq(cut.meta_bytes, whole.meta_bytes);
		ck_assert_uint_eq(mem.used, 0);
	}
}

/* Nothing beyond the fragment's end is read: it lies against a page that must not be touched. */
TEST(nothing_beyond_a_fragment_is_read)
{
	uint8_t *page =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t body[MAX];
	struct sl_prng rng;
	struct seen seen = {0};
	uint32_t total;

	ck_assert_int_eq(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
	sl_prng_seed(&rng, 5);
	total = build(body, 4, &rng);
	ck_assert_uint_lt(total, PAGE);
	for (uint32_t len = 1; len <= total; len++) {
		struct sl_reassembler r = {.phase = SL_REASM_IDLE};
		struct sl_rpc_header h = header(4, total, len);

		memcpy(page + PAGE - len, body, len);
		ck_assert_int_eq(sl_reassembler_start(&r, &h, &mem, &scratch), 0);
		ck_assert_int_eq(feed(&r, page + PAGE - len, len, &seen), len == total);
		sl_reassembler_reset(&r, &mem);
	}
	ck_assert_uint_eq(mem.used, 0);
	munmap(page, 2 * PAGE);
}

static int start_with(unsigned cnt, uint32_t total, uint8_t flags)
{
	struct sl_reassembler r = {.phase = SL_REASM_IDLE};
	struct sl_rpc_header h = header(cnt, total, 8);
	int rc;

	h.flags = flags;
	rc = sl_reassembler_start(&r, &h, &mem, &scratch);
	sl_reassembler_reset(&r, &mem);
	return rc;
}

TEST(forged_headers_are_refused)
{
	uint8_t ok = SL_RPC_BATCH | SL_RPC_FIRST;

	ck_assert_int_eq(start_with(1, 32, ok), 0);
	ck_assert_int_eq(start_with(1, 32, SL_RPC_FIRST), -EPROTO);
	ck_assert_int_eq(start_with(0, 32, ok), -EPROTO);
	ck_assert_int_eq(start_with(SL_RPC_MAX_BATCH + 1, 1 << 20, ok), -EPROTO);
	ck_assert_int_eq(start_with(2, 47, ok), -EPROTO);
	ck_assert_int_eq(start_with(1, SL_RPC_MAX_BODY + 1, ok), -EPROTO);
	ck_assert_uint_eq(mem.used, 0);
}

/* One entry with these lengths in a message of `total`; the last feed's result. */
static int entry(const struct sl_rpc_entry *e, uint32_t total, struct seen *seen)
{
	static uint8_t body[MAX];
	struct sl_reassembler r = {.phase = SL_REASM_IDLE};
	struct sl_rpc_header h = header(1, total, total < MAX ? total : MAX);
	int rc = sl_reassembler_start(&r, &h, &mem, &scratch);

	memcpy(body, e, sizeof(*e));
	if (!rc)
		rc = feed(&r, body, h.fragment_len, seen);
	sl_reassembler_reset(&r, &mem);
	return rc;
}

static int one_entry(uint32_t len, uint16_t meta_len, uint32_t total, struct seen *seen)
{
	return entry(&(struct sl_rpc_entry){.id = 1, .len = len, .meta_len = meta_len}, total,
		     seen);
}

/* An error is one part and the last one: neither a payload nor MORE. */
TEST(an_error_is_the_only_and_last_part)
{
	struct seen seen = {0};

	for (unsigned status = SL_RPC_REFUSED; status <= UINT8_MAX; status++) {
		struct sl_rpc_entry e = {.id = 1, .meta_len = 8, .status = (uint8_t)status};

		seen = (struct seen){0};
		ck_assert_int_eq(entry(&e, TABLE + 8, &seen), 1);
		ck_assert_uint_eq(seen.parts, 1);
		e.flags = SL_ENTRY_MORE;
		ck_assert_int_eq(entry(&e, TABLE + 8, &seen), -EPROTO);
		e.flags = 0;
		e.len = 1;
		ck_assert_int_eq(entry(&e, TABLE + 8 + 8, &seen), -EPROTO);
		ck_assert_uint_eq(seen.parts, 1);
	}
}

TEST(forged_entries_are_refused)
{
	struct seen seen = {0};

	ck_assert_int_eq(one_entry(16, 8, TABLE + 24, &seen), 1);
	ck_assert_int_eq(one_entry(13, 3, TABLE + 24, &seen), 1);
	ck_assert_uint_eq(seen.entries, 2);
	seen = (struct seen){0};
	ck_assert_int_eq(one_entry(17, 8, TABLE + 24, &seen), -EPROTO); /* more than there is */
	ck_assert_int_eq(one_entry(8, 8, TABLE + 24, &seen), -EPROTO);  /* less */
	ck_assert_int_eq(one_entry(UINT32_MAX, 8, TABLE + 8, &seen), -EPROTO);
	ck_assert_int_eq(
		one_entry(SL_RPC_MAX_MESSAGE + 8, 0, TABLE + SL_RPC_MAX_MESSAGE + 8, &seen),
		-EPROTO);
	ck_assert_int_eq(one_entry(0, SL_RPC_MAX_META + 1, TABLE + SL_RPC_MAX_META + 8, &seen),
			 -EPROTO);
	ck_assert_uint_eq(seen.parts, 0);
	ck_assert_uint_eq(mem.used, 0);
}

TEST(bytes_beyond_the_total_are_refused)
{
	static uint8_t body[MAX];
	struct sl_prng rng;
	struct seen seen = {0};
	struct sl_reassembler r = {.phase = SL_REASM_IDLE};
	struct sl_rpc_header h;
	uint32_t total;

	sl_prng_seed(&rng, 7);
	total = build(body, 3, &rng);
	h = header(3, total, total - 8);
	ck_assert_int_eq(sl_reassembler_start(&r, &h, &mem, &scratch), 0);
	ck_assert_int_eq(feed(&r, body, total - 8, &seen), 0);
	ck_assert_int_eq(feed(&r, body + total - 8, 16, &seen), -EPROTO);
	sl_reassembler_reset(&r, &mem);
	ck_assert_uint_eq(mem.used, 0);
}

TEST(a_message_without_memory_is_refused)
{
	struct sl_capped_alloc small;
	struct sl_reassembler r = {.phase = SL_REASM_IDLE};
	struct sl_rpc_header h = header(SL_RPC_MAX_BATCH, 1 << 20, 8);

	sl_capped_init(&small, 1000);
	ck_assert_int_eq(sl_reassembler_start(&r, &h, &small, &scratch), -ENOBUFS);
	sl_reassembler_reset(&r, &small);
	ck_assert_uint_eq(small.used, 0);
	sl_capped_fini(&small);
}
