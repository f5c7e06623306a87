/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of any content through parser, retry cache and reply, and through the client's end. The
 * input is a list of {u8 source and action, u8 length, bytes}; no reply may be larger than the
 * datagram that caused it, and a client understands every reply that is sent.
 */
#include <stdlib.h>
#include "sdk/datagram/wire.h"
#include "front/datagram/datagram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 8, MTU = 200 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* As if it came to a client: views lie within it. */
static bool client_takes(const uint8_t *p, size_t len)
{
	struct sl_datagram_answer a;

	if (!sl_datagram_decode(sl_span_of(p, len), &a))
		return false;
	must(a.payload == p + SL_DATAGRAM_HEAD && a.payload_len == len - SL_DATAGRAM_HEAD);
	must(a.status >= SL_DATAGRAM_OK && a.status <= SL_DATAGRAM_INTERNAL);
	return true;
}

static void answer(struct sl_datagram_cache *c, const struct sl_datagram *d, uint32_t slot,
		   uint8_t how, uint64_t now)
{
	static const uint8_t zeros[255];
	enum sl_datagram_status status = SL_DATAGRAM_OK;
	struct sl_span payload = how & 1 ? d->payload : sl_span_of(zeros, how);
	uint8_t head[SL_DATAGRAM_HEAD], whole[SL_DATAGRAM_HEAD + 255];

	sl_datagram_format(d, &status, 200, 1, MTU, &payload, head);
	must(SL_DATAGRAM_HEAD + payload.len <= d->reply_max);
	must(!payload.len || SL_DATAGRAM_HEAD + payload.len <= MTU);
	must((status == SL_DATAGRAM_OK) || !payload.len);
	memcpy(whole, head, sizeof(head));
	if (payload.len)
		memcpy(whole + sizeof(head), payload.ptr, payload.len);
	must(client_takes(whole, SL_DATAGRAM_HEAD + payload.len));
	if (how & 64)
		sl_datagram_forget(c, slot);
	else
		sl_datagram_answered(c, slot, head, payload, now);
}

static void one(struct sl_datagram_cache *c, uint8_t how, const uint8_t *p, size_t len,
		uint64_t now)
{
	struct sl_datagram_source src = {.peer = {.addr = {how & 3}, .family = 4}};
	struct sl_span reply;
	struct sl_datagram d;
	uint8_t *copy = malloc(len); /* so that a read beyond it is seen */
	uint32_t slot;

	if (len)
		memcpy(copy, p, len);
	(void)client_takes(copy, len);
	if (sl_datagram_parse(sl_span_of(copy, len), &d) == SL_DATAGRAM_IS_REQUEST) {
		must(d.service && SL_DATAGRAM_HEAD + d.method.len + d.payload.len <= len);
		switch (sl_datagram_seen(c, &src, d.id, d.reply_max, now, &slot, &reply)) {
		case SL_DATAGRAM_NEW:
			must(slot < SLOTS);
			if (how & 128)
				answer(c, &d, slot, how, now);
			break;
		case SL_DATAGRAM_ANSWERED:
			must(reply.len <= len && reply.len >= SL_DATAGRAM_HEAD);
			break;
		case SL_DATAGRAM_FULL: must(c->pending == SLOTS); break;
		default: break;
		}
	}
	must(c->pending + c->answered <= SLOTS);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[16];
	struct sl_datagram_cache c;
	uint64_t now = 0;

	must(sl_datagram_cache_init(&c, SLOTS, 64, 10, key) == 0);
	while (size >= 2) {
		uint8_t how = data[0];
		size_t len = data[1];

		data += 2;
		size -= 2;
		if (len > size)
			len = size;
		one(&c, how, data, len, now++);
		data += len;
		size -= len;
	}
	sl_datagram_cache_fini(&c);
	return 0;
}
