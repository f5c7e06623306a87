/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/*
 * Peers over tcp that have the key and lie: what they write into the stream, cut where the input
 * says, against a reading of the same bytes that takes them whole. Messages come out in order, with
 * the bytes that went in, until the first that breaks the rules, and then nothing does. How many are
 * polled at once, and how many stay lent, is the input's too.
 *
 * One TLS connection, made at the start, carries all inputs; the transport above it is new for each.
 *
 * Input: four bytes of steps (bytes per write; polled at once; released late), then the stream.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/check.h"
#include "rpc/tcpsock/sock.h"

enum { SLOTS = 64, LENT_MAX = 8, EXTRA = 3 << 16 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct sk_stream writer;
static struct sl_sock *reader;

/* The expectation: the bytes, and how far they were understood. */
static uint8_t *all;
static size_t all_len, at;
static bool broken;
static uint32_t acked;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct sl_psk secret = {.bytes = "of the fuzzer only", .len = 18};
	static struct sk_context ours, theirs;
	static struct sk_stream s;
	int socks[2], done = 0;

	(void)argc, (void)argv;
	all = malloc(EXTRA);
	SL_CHECK(all && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, socks) == 0);
	SL_CHECK(!sk_context_open(&ours, &secret, true) &&
		 !sk_context_open(&theirs, &secret, false));
	SL_CHECK(!sk_stream_open(&s, socks[0], &ours, true));
	SL_CHECK(!sk_stream_open(&writer, socks[1], &theirs, false));
	for (unsigned i = 0; i < 10 && done != 2; i++) {
		sk_stream_event(&writer);
		sk_stream_event(&s);
		done = (sk_stream_handshake(&writer) == 1) + (sk_stream_handshake(&s) == 1);
	}
	SL_CHECK(done == 2 && !sk_stream_grow(&writer, SK_IN, SK_OUT));
	reader = sk_sock_new(&s, SLOTS);
	SL_CHECK(reader != NULL);
	return 0;
}

/* As far as the socket takes it: many short records fill it. */
static void push(void)
{
	sk_stream_event(&writer);
	sk_stream_push(&writer);
}

/* As if it had just been made; what an earlier input left on the way is read off. */
static void begin(void)
{
	uint8_t rest[4096];

	do {
		push();
		do
			sk_stream_event(&reader->s);
		while (sk_stream_read(&reader->s, rest, sizeof(rest)) > 0);
	} while (sk_buf_len(&writer.out));
	sl_credits_init(&reader->base.credits, SLOTS, SLOTS, SK_OUT);
	reader->rx_head = reader->rx_tail = 0;
	reader->msgs = (struct sl_msg_stream){0};
	reader->error = 0;
	at = all_len = 0;
	acked = 0;
	broken = false;
}

/* Messages that the reader has sent, so that acknowledgements can be valid. */
static void send_some(void)
{
	static const struct sl_rpc_header ping = {.version_type =
							  SL_RPC_VERSION << 4 | SL_RPC_PING};

	for (unsigned i = 0; i < 4; i++)
		SL_CHECK(reader->base.ops->post(&reader->base, &ping, NULL, 0, 0) == 0);
	reader->plain_len = reader->base.posted_bytes = 0; /* not read by any end */
}

/* The next message of the expected ones that is no CREDIT. False: there is none. */
static bool expect(struct sl_rpc_header *h, const uint8_t **body)
{
	while (!broken && all_len - at >= sizeof(*h)) {
		memcpy(h, all + at, sizeof(*h));
		broken = sl_message_check(h, SK_BULK_MAX) != 0;
		if (broken || all_len - at - sizeof(*h) < h->fragment_len)
			return false;
		broken = h->consumed - acked > 4 - acked;
		if (broken)
			return false;
		acked = h->consumed;
		*body = all + at + sizeof(*h);
		at += sizeof(*h) + h->fragment_len;
		if ((h->version_type & 15) != SL_RPC_CREDIT)
			return true;
	}
	return false;
}

static void check_message(const struct sl_message *m)
{
	struct sl_rpc_header h;
	const uint8_t *body;

	SL_CHECK(expect(&h, &body) && memcmp(&h, &m->header, sizeof(h)) == 0);
	SL_CHECK(!h.fragment_len || memcmp(body, m->body, h.fragment_len) == 0);
}

/* Polls until nothing comes; keeps up to `keep` of them lent. */
static void take_all(unsigned max, unsigned keep)
{
	static struct sl_message lent[LENT_MAX];
	static unsigned cnt;
	struct sl_message m[LENT_MAX];
	int n;

	if (!keep)
		SL_CHECK(cnt == 0 || !max);
	for (;;) {
		n = max ? reader->base.ops->poll(&reader->base, m, max) : 0;
		for (int i = 0; i < n; i++) {
			check_message(&m[i]);
			while (cnt && cnt >= keep) {
				reader->base.ops->release(&reader->base, &lent[0]);
				memmove(lent, lent + 1, --cnt * sizeof(lent[0]));
			}
			if (keep)
				lent[cnt++] = m[i];
			else
				reader->base.ops->release(&reader->base, &m[i]);
		}
		if (n <= 0)
			break;
	}
	while (cnt && (!max || n < 0)) {
		reader->base.ops->release(&reader->base, &lent[0]);
		memmove(lent, lent + 1, --cnt * sizeof(lent[0]));
	}
}

static void check_beginning(const uint8_t *bytes, size_t len)
{
	int whole = sk_hello_begins(bytes, len);

	for (size_t n = 0; n < len && n < 64; n++) {
		int part = sk_hello_begins(bytes, n);

		/*
		 * A refused record stays refused; a complete one stays complete with more behind
		 * it.
		 */
		SL_CHECK(part == 0 || part == whole);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t step, before;
	unsigned max, keep;

	check_beginning(bytes, len);
	if (len < 4)
		return 0;
	step = 1u + bytes[0] + (size_t)bytes[1] * 16;
	max = 1 + bytes[2] % LENT_MAX;
	keep = bytes[3] % LENT_MAX;
	bytes += 4;
	len -= 4;
	begin();
	send_some();
	memcpy(all, bytes, len);
	while (all_len < len) {
		size_t n = len - all_len < step ? len - all_len : step;

		SL_CHECK(sk_stream_write(&writer, bytes + all_len, (uint32_t)n) == 0);
		push();
		all_len += n;
		(void)reader->base.ops->check(&reader->base);
		take_all(max, keep);
	}
	take_all(0, 0);
	/* Now there is room for what waited for what was kept, and for records without end. */
	do {
		before = at;
		push();
		(void)reader->base.ops->check(&reader->base);
		take_all(max, 0);
	} while (at != before || (!reader->error && (!reader->dry || sk_buf_len(&writer.out))));
	/* Everything whole came out. */
	for (struct sl_rpc_header h;;) {
		const uint8_t *body;

		if (!expect(&h, &body))
			break;
		SL_CHECK(!"a message is missing");
	}
	SL_CHECK(broken == (reader->error == -EPROTO));
	return 0;
}
