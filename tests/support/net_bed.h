/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A net on a fake port, with an L4 that records what it gets. Every test ends with bed_end(), which
 * counts frames: what is not free, and not in the transmit ring, is lost.
 */
#ifndef SL_TESTS_NET_BED_H
#define SL_TESTS_NET_BED_H

#include "packet.h"
#include "unit.h"
#include "net/flow_table.h"
#include "net/net.h"
#include "fake_port.h"

enum { BED_FRAMES = 512 };

struct bed {
	struct sl_umem umem;
	struct sl_net net;
	struct sl_fake_port port;
	struct sl_flow_table flows; /* without entries */
	/* last frame that reached L4 */
	unsigned tcp_cnt, udp_cnt, icmp_cnt;
	uint8_t data[4096];
	size_t len;
	uint8_t family, flags;
	struct sl_net_path path;
	struct sl_flow_key key;
	uint32_t mtu;
	bool hard;
	uint8_t quoted[64];
	uint16_t quoted_sport;
	/* a frame that L4 keeps instead of giving it back */
	bool keep;
	struct sl_frame *kept;
};

static inline void bed_take(struct bed *b, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct sl_flow_key again = {0};

	ck_assert_uint_eq(f->state, SL_FRAME_RX);
	ck_assert_uint_eq(b->net.now_ns, 12345);
	memcpy(b->data, f->data, f->len);
	b->len = f->len;
	b->family = f->family;
	b->flags = f->flags;
	sl_net_path_from_rx(&b->net, f, &b->path);
	if (key) {
		sl_net_flow_key(&b->net, f, &again);
		ck_assert_mem_eq(key, &again, sizeof(again));
	}
	b->key = again;
	if (b->keep)
		b->kept = f;
	else
		sl_frame_put(b->net.umem, f);
}

static inline void bed_tcp(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct bed *b = ctx;

	ck_assert_uint_eq(f->flow_hash, sl_flow_hash(&b->flows, key));
	b->tcp_cnt++;
	bed_take(b, f, key);
}

static inline void bed_udp(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct bed *b = ctx;

	ck_assert_ptr_null(key); /* without flows */
	b->udp_cnt++;
	bed_take(b, f, key);
}

static inline bool bed_no_match(const void *ctx, uint32_t value, const struct sl_flow_key *key)
{
	(void)ctx, (void)value, (void)key;
	return false;
}

static inline void bed_icmp(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
			    bool hard)
{
	struct bed *b = ctx;

	b->icmp_cnt++;
	b->mtu = mtu;
	b->hard = hard;
	memcpy(b->quoted, ip_header, 20);
	b->quoted_sport = sl_get_be16(l4);
}

static inline void bed_begin(struct bed *b)
{
	memset(b, 0, sizeof(*b));
	ck_assert_int_eq(sl_umem_init(&b->umem, 4096, BED_FRAMES), 0);
	ck_assert_int_eq(sl_net_init(&b->net, &b->umem), 0);
	sl_fake_port_init(&b->port, &b->umem, 0);
	ck_assert_int_eq(sl_net_add_port(&b->net, &b->port.port), 0);
	ck_assert_int_eq(
		sl_flow_table_init(&b->flows, 16, &(struct sl_sipkey){1, 2}, bed_no_match, b), 0);
	b->net.tcp = (struct sl_l4){b, bed_tcp, &b->flows, bed_icmp};
	b->net.udp = (struct sl_l4){b, bed_udp, NULL, NULL};
}

static inline void bed_end(struct bed *b)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_net_fini(&b->net);
	sl_flow_table_fini(&b->flows);
	b->port.port.ops->close(&b->port.port);
	sl_umem_census(&b->umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], BED_FRAMES);
	ck_assert_uint_eq(b->umem.free_cnt, BED_FRAMES);
	sl_umem_fini(&b->umem);
}

/* Everything that was injected, through the stack. */
static inline void bed_run(struct bed *b)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	while ((cnt = b->port.port.ops->rx_burst(&b->port.port, frames, SL_BURST, 12345)))
		sl_net_input(&b->net, frames, cnt, 12345);
}

static inline void bed_input(struct bed *b, const struct pkt *p)
{
	ck_assert(sl_fake_inject(&b->port, p->b, p->len, 777));
	bed_run(b);
}

static inline uint64_t bed_drops(const struct bed *b)
{
	uint64_t sum = 0;

	for (int i = 0; i < SL_DROP_CNT; i++)
		sum += b->net.drops[i];
	return sum;
}

#endif
