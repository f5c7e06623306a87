/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams: layout, lengths, the bound on replies, and retries. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "front/datagram/datagram.h"
#include "suite.h"

enum { SLOTS = 4, REPLY_CAP = 100, TTL = 1000 };

static uint8_t *guarded;
static size_t page;
static struct sl_datagram_cache cache;

static void setup(void)
{
	static const uint8_t key[16] = {1};

	page = (size_t)sysconf(_SC_PAGESIZE) * 17;
	guarded = mmap(NULL, page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(guarded, MAP_FAILED);
	ck_assert_int_eq(mprotect(guarded + page, page, PROT_NONE), 0);
	ck_assert_int_eq(sl_datagram_cache_init(&cache, SLOTS, REPLY_CAP, TTL, key), 0);
}

static void teardown(void)
{
	munmap(guarded, page * 2);
	sl_datagram_cache_fini(&cache);
}

static enum sl_datagram_verdict parse_at_edge(const void *bytes, size_t len,
					      struct sl_datagram *out)
{
	memcpy(guarded + page - len, bytes, len);
	return sl_datagram_parse(sl_span_of(guarded + page - len, len), out);
}

/* Written out by hand: the layout is the contract. */
static const uint8_t request[] = {
	'S',  'L',  'D',  'G', 1,   1,   0x34, 0x12, /* service 0x1234 */
	8,    7,    6,    5,   4,   3,   2,    1,    /* id */
	0x40, 0x42, 0x0f, 0,                         /* 1,000,000 us */
	3,    0,    5,    0,   'k', 'n', 'n',  'h',
	'e',  'l',  'l',  'o', 0,   0, /* two bytes of padding */
};

FIXTURE(setup, teardown)

TEST(a_request_is_parsed_and_no_part_of_it_is)
{
	struct sl_datagram d;

	ck_assert_int_eq(parse_at_edge(request, sizeof(request), &d), SL_DATAGRAM_IS_REQUEST);
	ck_assert_uint_eq(d.service, 0x1234);
	ck_assert_uint_eq(d.id, 0x0102030405060708);
	ck_assert_uint_eq(d.deadline_us, 1000000);
	ck_assert(sl_span_eq(d.method, sl_span_str("knn")));
	ck_assert(sl_span_eq(d.payload, sl_span_str("hello")));
	ck_assert_uint_eq(d.reply_max, sizeof(request));
	/* each cut below the end of the payload is malformed; padding is not needed */
	for (size_t len = 0; len < sizeof(request) - 2; len++)
		ck_assert_int_eq(parse_at_edge(request, len, &d), SL_DATAGRAM_IS_MALFORMED);
	ck_assert_int_eq(parse_at_edge(request, sizeof(request) - 2, &d), SL_DATAGRAM_IS_REQUEST);
}

TEST(each_malformed_datagram_is_told_from_another_version)
{
	static const struct {
		unsigned at;
		uint8_t byte;
		enum sl_datagram_verdict verdict;
	} cases[] = {
		{0, 's', SL_DATAGRAM_IS_MALFORMED},   {3, 0, SL_DATAGRAM_IS_MALFORMED},
		{5, 0, SL_DATAGRAM_IS_MALFORMED},     {5, 2, SL_DATAGRAM_IS_MALFORMED},
		{20, 6, SL_DATAGRAM_IS_MALFORMED},    {22, 8, SL_DATAGRAM_IS_MALFORMED},
		{21, 255, SL_DATAGRAM_IS_MALFORMED},  {23, 255, SL_DATAGRAM_IS_MALFORMED},
		{4, 0, SL_DATAGRAM_IS_OTHER_VERSION}, {4, 2, SL_DATAGRAM_IS_OTHER_VERSION},
		{20, 5, SL_DATAGRAM_IS_REQUEST},      {22, 7, SL_DATAGRAM_IS_REQUEST},
	};
	uint8_t bytes[sizeof(request)];
	struct sl_datagram d;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(bytes, request, sizeof(bytes));
		bytes[cases[i].at] = cases[i].byte;
		ck_assert_msg(parse_at_edge(bytes, sizeof(bytes), &d) == cases[i].verdict,
			      "case %u", i);
	}
	memcpy(bytes, request, sizeof(bytes));
	bytes[6] = bytes[7] = 0; /* no service has number 0 */
	ck_assert_int_eq(parse_at_edge(bytes, sizeof(bytes), &d), SL_DATAGRAM_IS_MALFORMED);
}

TEST(a_reply_is_no_longer_than_was_asked_with)
{
	static const uint8_t want[] = {'S', 'L', 'D', 'G', 1, 2, 0, 0, 8,   7, 6, 5,
				       4,   3,   2,   1,   7, 0, 0, 0, 200, 0, 2, 0};
	struct sl_datagram rq = {.id = 0x0102030405060708, .reply_max = 26};
	enum sl_datagram_status status = SL_DATAGRAM_OK;
	struct sl_span payload = sl_span_str("hi");
	uint8_t head[SL_DATAGRAM_HEAD];

	sl_datagram_format(&rq, &status, 200, 7, 1472, &payload, head);
	ck_assert_int_eq(memcmp(head, want, sizeof(want)), 0);
	ck_assert_uint_eq(payload.len, 2);
	/* never more than was asked with, nor than the path takes */
	payload = sl_span_str("hi!");
	sl_datagram_format(&rq, &status, 200, 7, 1472, &payload, head);
	ck_assert_uint_eq(payload.len, 0);
	ck_assert_int_eq(status, SL_DATAGRAM_REPLY_TOO_LARGE);
	ck_assert_uint_eq(sl_get_le16(head + 6), SL_DATAGRAM_REPLY_TOO_LARGE);
	ck_assert_uint_eq(sl_get_le16(head + 20), 0);
	ck_assert_uint_eq(sl_get_le16(head + 22), 0);
	status = SL_DATAGRAM_OK;
	payload = sl_span_str("hi");
	sl_datagram_format(&rq, &status, 200, 7, 25, &payload, head);
	ck_assert_int_eq(status, SL_DATAGRAM_REPLY_TOO_LARGE);
	status = SL_DATAGRAM_OK;
	payload = sl_span_of(NULL, 0);
	rq.reply_max = 24;
	sl_datagram_format(&rq, &status, 204, 7, 1472, &payload, head);
	ck_assert_int_eq(status, SL_DATAGRAM_OK);
	ck_assert_uint_eq(sl_get_le16(head + 20), 204);
}

static const uint8_t head[SL_DATAGRAM_HEAD] = {'S', 'L', 'D', 'G'};

static struct sl_datagram_source source(unsigned n)
{
	return (struct sl_datagram_source){.peer = {.addr = {10, 0, 0, (uint8_t)n}, .family = 4}};
}

static enum sl_datagram_seen see(unsigned src, uint64_t id, uint64_t now, uint32_t *slot)
{
	struct sl_datagram_source s = source(src);
	struct sl_span reply;

	return sl_datagram_seen(&cache, &s, id, 1472, now, slot, &reply);
}

TEST(a_retry_is_told_from_a_new_request)
{
	struct sl_datagram_source src = source(1);
	uint32_t slot, other;
	struct sl_span reply;

	ck_assert_int_eq(see(1, 7, 0, &slot), SL_DATAGRAM_NEW);
	ck_assert_int_eq(see(1, 7, 0, &other), SL_DATAGRAM_PENDING);
	ck_assert_int_eq(see(2, 7, 0, &other), SL_DATAGRAM_NEW); /* another's request */
	ck_assert_int_eq(see(1, 8, 0, &other), SL_DATAGRAM_NEW);
	sl_datagram_answered(&cache, slot, head, sl_span_str("pong"), 5);
	ck_assert_int_eq(sl_datagram_seen(&cache, &src, 7, 28, 6, &other, &reply),
			 SL_DATAGRAM_ANSWERED);
	ck_assert_uint_eq(reply.len, 28);
	ck_assert_int_eq(memcmp(reply.ptr, head, 24), 0);
	ck_assert_int_eq(memcmp(reply.ptr + 24, "pong", 4), 0);
	/* a retry that is shorter than the reply */
	ck_assert_int_eq(sl_datagram_seen(&cache, &src, 7, 27, 6, &other, &reply),
			 SL_DATAGRAM_AMPLIFY);
	/* each retry that gets it keeps it, one that does not does not; then the time has passed */
	ck_assert_int_eq(see(1, 7, 6 + TTL, &slot), SL_DATAGRAM_ANSWERED);
	ck_assert_int_eq(see(1, 7, 6 + 2 * TTL, &slot), SL_DATAGRAM_ANSWERED);
	ck_assert_int_eq(sl_datagram_seen(&cache, &src, 7, 27, 6 + 3 * TTL, &other, &reply),
			 SL_DATAGRAM_AMPLIFY);
	ck_assert_int_eq(see(1, 7, 7 + 3 * TTL, &slot), SL_DATAGRAM_NEW);
	ck_assert_uint_eq(cache.pending, 3);
	ck_assert_uint_eq(cache.answered, 0);
}

TEST(answered_requests_make_room_the_oldest_first)
{
	uint32_t slots[SLOTS], slot;
	static const uint8_t big[REPLY_CAP];

	for (unsigned i = 0; i < SLOTS; i++)
		ck_assert_int_eq(see(1, i, 0, &slots[i]), SL_DATAGRAM_NEW);
	ck_assert_int_eq(see(1, 99, 0, &slot), SL_DATAGRAM_FULL);
	/* answered ones make room, the oldest first */
	sl_datagram_answered(&cache, slots[2], head, sl_span_str("2"), 1);
	sl_datagram_answered(&cache, slots[0], head, sl_span_str("0"), 2);
	ck_assert_int_eq(see(1, 99, 3, &slot), SL_DATAGRAM_NEW);
	ck_assert_int_eq(see(1, 0, 3, &slot), SL_DATAGRAM_ANSWERED);
	ck_assert_int_eq(see(1, 2, 3, &slot), SL_DATAGRAM_NEW);
	ck_assert_int_eq(see(1, 0, 3, &slot), SL_DATAGRAM_FULL);
	/* no reply, or one that is too large to be kept: computed again */
	sl_datagram_forget(&cache, slots[1]);
	ck_assert_int_eq(see(1, 1, 3, &slot), SL_DATAGRAM_NEW);
	sl_datagram_answered(&cache, slot, head, sl_span_of(big, REPLY_CAP - 23), 4);
	ck_assert_int_eq(see(1, 1, 4, &slot), SL_DATAGRAM_NEW);
	sl_datagram_answered(&cache, slot, head, sl_span_of(big, REPLY_CAP - 24), 4);
	ck_assert_int_eq(see(1, 1, 4, &slot), SL_DATAGRAM_ANSWERED);
	ck_assert_uint_eq(cache.pending + cache.answered, SLOTS);
}

/* Against a plain list, with everything colliding that can. */
TEST(duplicate_detection_agrees_with_a_plain_list)
{
	enum { KEYS = 12 };
	int state[KEYS] = {0}; /* 0 unknown, 1 pending, 2 answered */
	uint32_t slot_of[KEYS];
	uint64_t when[KEYS] = {0}, now = 0;
	uint32_t pending = 0;

	srand(1);
	for (unsigned i = 0; i < 200000; i++) {
		unsigned k = (unsigned)rand() % KEYS;
		uint32_t slot = 0;
		enum sl_datagram_seen seen;

		now += (unsigned)rand() % 100;
		if (state[k] == 1 && rand() % 2) {
			if (rand() % 4) {
				sl_datagram_answered(&cache, slot_of[k], head, sl_span_str("x"),
						     now);
				when[k] = now;
				state[k] = 2;
			} else {
				sl_datagram_forget(&cache, slot_of[k]);
				state[k] = 0;
			}
			pending--;
			continue;
		}
		for (unsigned j = 0; j < KEYS; j++) {
			if (state[j] == 2 && now - when[j] > TTL)
				state[j] = 0;
		}
		seen = see(k % 3, k / 3, now, &slot);
		if (state[k] == 1) {
			ck_assert_int_eq(seen, SL_DATAGRAM_PENDING);
		} else if (state[k] == 2) {
			ck_assert_int_eq(seen, SL_DATAGRAM_ANSWERED);
			when[k] = now;
		} else if (pending == SLOTS) {
			ck_assert_int_eq(seen, SL_DATAGRAM_FULL);
		} else {
			unsigned used = pending, oldest = KEYS;

			ck_assert_int_eq(seen, SL_DATAGRAM_NEW);
			for (unsigned j = 0; j < KEYS; j++) {
				if (state[j] != 2)
					continue;
				used++;
				if (oldest == KEYS || when[j] < when[oldest])
					oldest = j;
			}
			if (used == SLOTS) { /* the slot must have been the oldest */
				uint32_t at = slot;

				for (unsigned j = 0; j < KEYS; j++) {
					if (state[j] == 2 && slot_of[j] == at) {
						ck_assert_uint_eq(when[j], when[oldest]);
						state[j] = 0;
					}
				}
			}
			state[k] = 1;
			slot_of[k] = slot;
			pending++;
		}
		ck_assert_uint_eq(cache.pending, pending);
	}
}

TEST(impossible_sizes_of_the_cache_are_refused)
{
	static const uint8_t key[16];
	struct sl_datagram_cache c;

	ck_assert_int_lt(sl_datagram_cache_init(&c, 0, 100, 1, key), 0);
	ck_assert_int_lt(sl_datagram_cache_init(&c, 1, 23, 1, key), 0);
	ck_assert_int_lt(sl_datagram_cache_init(&c, 1, 65536, 1, key), 0);
	ck_assert_int_eq(sl_datagram_cache_init(&c, 1, 24, 1, key), 0);
	sl_datagram_cache_fini(&c);
}
