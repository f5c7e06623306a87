/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/*
 * A hostile TLS client: bytes instead of a handshake, valid records around any content, invalid
 * records, cut anywhere. Meanwhile the front takes much or little, keeps frames, closes or resets
 * within its input, and writes. Frames, handshakes and connections are counted at the end; output
 * must be records that the client can open.
 */
#include "../support/tls_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *at, *end;

static uint8_t byte(void)
{
	return at < end ? *at++ : 0;
}

static void before_keys(struct bed_conn *b)
{
	while (at < end && b->filter && !b->closed && !bed.submitted_cnt) {
		size_t n = 1 + byte();

		n = n < (size_t)(end - at) ? n : (size_t)(end - at);
		if (!n)
			return;
		bed_offer(b, at, n, n & 1);
		at += n;
	}
}

/* Sealed as it should be, or changed at one place. */
static void client_record(struct bed_conn *b, uint8_t how)
{
	static uint8_t record[SL_TLS_CIPHER_MAX + 64];
	static const uint8_t types[] = {SL_TLS_DATA,      SL_TLS_DATA, SL_TLS_DATA, SL_TLS_ALERT,
					SL_TLS_HANDSHAKE, SL_TLS_CCS,  0,           SL_TLS_DATA};
	struct sl_prng prng;
	size_t n = byte(), len;

	if (how & 8)
		n = n << 7 & SL_TLS_PLAIN_MAX;
	n = n + 1 < (size_t)(end - at) ? n : (size_t)(end - at);
	len = bed_seal(b, types[how & 7], at, n, record);
	at += n;
	if (how & 16)
		record[byte() % len] ^= byte();
	sl_prng_seed(&prng, byte());
	bed_feed(b, record, len, 1 + (size_t)byte() * 8, how & 32 ? &prng : NULL);
}

static void front(struct bed_conn *b, uint8_t how)
{
	static uint8_t bytes[40000];
	const struct sl_conn_ops *ops = b->filter->offers;

	switch (how & 7) {
	case 0: b->takes = byte(); break;
	case 1: b->takes = BED_KEEP; break;
	case 2: b->takes_frames = how & 8; break;
	case 3: b->on_input = how >> 3 & 3; break;
	case 4:
		if (b->sent_len < BED_KEEP / 2)
			ops->write(b->filter, bytes, (size_t)byte() << (how >> 4 & 7));
		break;
	case 5:
		if (b->sent_len < BED_KEEP / 2)
			ops->write_head(b->filter, bytes, (size_t)byte() << (how >> 5));
		break;
	case 6: b->room = (size_t)byte() << (how >> 4); break;
	default: ops->resume(b->filter); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bed_conn *b;
	uint8_t name[16];

	at = data;
	end = data + size;
	bed_start();
	if (byte() & 1) {
		b = bed_accept(0);
		before_keys(b);
		if (bed.submitted_cnt && bed.submitted[0]->conn)
			bed_finish(bed.submitted[--bed.submitted_cnt], b);
	} else {
		(void)sl_tls_hello_ticket(sl_span_of(data, size), name);
		b = bed_open(0);
	}
	while (at < end && b->filter && b->opened_told && b->got_len < BED_KEEP / 2) {
		uint8_t how = byte();

		if (how & 64)
			front(b, how);
		else
			client_record(b, how);
		if (b->filter && how & 128)
			bed_hear(b);
	}
	if (b->opened_told && b->sent && !b->reset)
		bed_hear(b);
	bed_stop();
	return 0;
}
