/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=2048 */
/*
 * The reply to a call of gRPC in any segmentation gives the same result: once the server's bytes come in
 * one piece, once as the input cuts them. A client that does not read for a while makes no difference.
 * Where the connection ends by an error of HTTP/2, that or an earlier one of the stream ends the call.
 *
 * Input: a byte of flags (a stream; the client does not read at first), a byte of how many cuts, the
 * lengths of the pieces, the server's bytes.
 */
#include <fcntl.h>

#include "agent_h2_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct bed_call whole;
static bool broken; /* the server has broken the protocol of the connection */

static struct bed_call *run(uint8_t flags, const uint8_t *cuts, size_t cut_cnt,
			    const uint8_t *bytes, size_t len)
{
	static const uint8_t greeting[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0};
	struct bed_call *k;

	bed_open();
	k = bed_ask(true, flags & 1);
	bed_feed(greeting, sizeof(greeting));
	k->full = cut_cnt && flags & 2;
	for (size_t i = 0; i < cut_cnt && len; i++) {
		size_t n = cuts[i] < len ? cuts[i] : len;

		bed_feed(bytes, n);
		bytes += n;
		len -= n;
		if (i == cut_cnt / 2)
			bed_room(k);
	}
	bed_room(k);
	bed_feed(bytes, len);
	broken = !bed_is_up();
	bed_close();
	return k;
}

/* Returns true if the shorter one begins the longer one. */
static bool begin_alike(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	return memcmp(a, b, a_len < b_len ? a_len : b_len) == 0;
}

/*
 * Bytes are lost that a client has not read when its call, or the connection to the server, fails.
 * A call that fails may have given less of the reply before, if trailers had begun in the same
 * piece.
 */
static void same(const struct bed_call *a, const struct bed_call *b, bool slow)
{
	if (slow && (broken || (a->error && b->error)))
		return;
	must(a->error == b->error || (broken && a->error && b->error), "another error");
	if (a->error && (slow || broken))
		return;
	must(begin_alike(a->heard, a->len, b->heard, b->len), "other messages");
	must(begin_alike(a->fields, a->fields_len, b->fields, b->fields_len), "other metadata");
	if (a->error)
		return;
	must(a->len == b->len && a->fields_len == b->fields_len, "more of the reply");
	must(strcmp(a->type, b->type) == 0, "another content type");
	must(a->grpc_status == b->grpc_status, "another status");
	must(strcmp(a->why, b->why) == 0, "another message of the status");
	must(a->status == b->status, "another HTTP status");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t cut_cnt;

	if (len < 2 || len - 2 < bytes[1])
		return 0;
	cut_cnt = bytes[1];
	whole = *run(bytes[0], NULL, 0, bytes + 2 + cut_cnt, len - 2 - cut_cnt);
	same(&whole, run(bytes[0], bytes + 2, cut_cnt, bytes + 2 + cut_cnt, len - 2 - cut_cnt),
	     bytes[0] & 2);
	return 0;
}
