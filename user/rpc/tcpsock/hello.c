/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the client's first record before TLS allocates memory for it (RFC 8446 4, 5.1). */
#include <errno.h>
#include "rpc/tcpsock/sock.h"

enum {
	RECORD_HANDSHAKE = 22, /* RFC 8446 5.1 */
	RECORD_HEADER = 5,
	CLIENT_HELLO = 1, /* RFC 8446 4 */
	HANDSHAKE_HEADER = 4,
};

int sk_hello_begins(const uint8_t *bytes, size_t len)
{
	uint32_t record;

	if (len && bytes[0] != RECORD_HANDSHAKE)
		return -EPROTO;
	if (len < RECORD_HEADER)
		return 0;
	record = sl_get_be16(bytes + 3);
	if (bytes[1] != 3 || record < HANDSHAKE_HEADER || record > SK_HANDSHAKE_MAX - RECORD_HEADER)
		return -EPROTO;
	if (len < RECORD_HEADER + record)
		return 0;
	bytes += RECORD_HEADER;
	return bytes[0] == CLIENT_HELLO && sl_get_be24(bytes + 1) == record - HANDSHAKE_HEADER
		       ? 1
		       : -EPROTO;
}

void sk_hello_write(struct sk_stream *s, const struct sl_rpc_hello *h)
{
	(void)sk_stream_write(s, h, sizeof(*h));
	sk_stream_push(s);
}

int sk_hello_read(struct sk_hello *h, struct sk_stream *s)
{
	while (h->got < sizeof(h->words)) {
		int n = sk_stream_read(s, (uint8_t *)&h->words + h->got,
				       (uint32_t)sizeof(h->words) - h->got);

		if (n <= 0)
			return n;
		h->got += (uint32_t)n;
	}
	return h->words.magic == SL_RPC_HELLO_MAGIC ? 1 : -EBADMSG;
}

bool sk_slots_ok(uint32_t slots)
{
	return slots >= SL_RPC_MIN_SLOTS && slots <= SL_RPC_MAX_SLOTS && !(slots & (slots - 1));
}
