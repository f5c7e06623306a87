/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=2048 */
/*
 * Peers of a virtual connection that have the key and lie: the input chooses their headers. This
 * end must send no more than was put, keep no more than its window, and deliver whole datagrams in
 * order of their numbers.
 *
 * The bytes of datagram n are n, n + 30, n + 60 and so on, so that output tells its datagram. The
 * next one begins with n + 1, which none of these is.
 *
 * Input: steps; the first byte tells the kind, ten more are a header's.
 */
#include <errno.h>
#include <string.h>
#include "base/check.h"
#include "rpc/rdma/ud/arq.h"

enum { MTU = 288, STEP = 11 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct ud_arq flow;
static uint64_t now_ns, reading;
static uint32_t at; /* bytes of datagram `reading` that came out */

static uint8_t byte_of(uint64_t number, uint32_t i)
{
	return (uint8_t)(number + 30 * (uint64_t)i);
}

static struct sl_ud_header header_of(const uint8_t *b)
{
	return (struct sl_ud_header){
		.kind = b[0] % 5,
		.seq = (uint32_t)flow.next + (uint32_t)(int8_t)b[1],
		.ack = (uint32_t)flow.una + (uint32_t)(int8_t)b[2],
		.sacked = b[3] | (uint32_t)b[4] << 8 | (uint32_t)b[5] << 24,
		.window = b[6],
		.len = (uint16_t)(b[7] | (b[8] & 1) << 8),
	};
}

/* Checks the bytes in rx: each one continues its datagram, or begins the next one. */
static void read_all(void)
{
	while (flow.rx_head < flow.rx_tail) {
		uint8_t b = flow.rx[flow.rx_head++];

		if (!at || b != byte_of(reading, at)) {
			reading += at != 0;
			at = 0;
			SL_CHECK(b == byte_of(reading, 0));
		}
		at++;
	}
	flow.rx_head = flow.rx_tail = 0;
	ud_arq_deliver(&flow);
}

static int take(const uint8_t *b)
{
	struct sl_ud_header h = header_of(b);
	uint64_t number = ud_arq_number(&flow, h.seq);
	uint8_t payload[512];

	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = byte_of(number, i);
	return ud_arq_input(&flow, &h, payload, now_ns);
}

static void put(uint32_t len)
{
	static const uint8_t zeros[1024];
	uint32_t room = ud_arq_room(&flow);

	ud_arq_write(&flow, zeros, len < room ? len : room);
	ud_arq_push(&flow);
}

static void send_all(void)
{
	struct ud_arq_out o;
	unsigned cnt = 0;

	while (ud_arq_next(&flow, now_ns, &o)) {
		SL_CHECK(++cnt <= flow.window + 1U);
		SL_CHECK(o.header.kind != SL_UD_DATA ||
			 (o.number >= flow.una && o.number < flow.end && o.header.len &&
			  o.header.len <= flow.payload));
	}
}

static void check_bounds(void)
{
	SL_CHECK(flow.una <= flow.sent && flow.sent <= flow.end);
	SL_CHECK(flow.end - flow.una <= flow.window && flow.bytes <= flow.window * flow.payload);
	SL_CHECK(flow.base <= flow.next && flow.next - flow.base <= flow.window);
	SL_CHECK(flow.rx_tail <= UD_RX_BYTES &&
		 (flow.una != flow.end || flow.bytes < flow.payload));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	int rc = ud_arq_init(&flow, MTU);

	SL_CHECK(rc == 0);
	now_ns = 1;
	reading = at = 0;
	for (; len >= STEP && !rc; bytes += STEP, len -= STEP) {
		switch (bytes[0] & 7) {
		case 0: put(bytes[1] * 4U); break;
		case 1: send_all(); break;
		case 2:
			now_ns += UINT64_C(1) << (bytes[1] & 31);
			rc = ud_arq_tick(&flow, now_ns);
			break;
		case 3: flow.lent = bytes[1] & 1; break;
		case 4: read_all(); break;
		default: rc = take(bytes + 1);
		}
		check_bounds();
	}
	flow.lent = false;
	read_all();
	ud_arq_fini(&flow);
	return 0;
}
