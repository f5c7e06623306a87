/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -Itests/support tests/support/fake_port.c
/* fuzz: max_len=4096 */
/*
 * Frames from a hostile wire through eth, ip, icmp, udp and the handover between two workers.
 *
 * Input: a byte of options, then per frame a 16-bit little-endian length and that many bytes.
 * OPT_REPAIR corrects the checksums, so that the checks behind them are reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/bytes.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "udp/udp.h"
#include "wire/csum.h"
#include "wire/tcp.h"
#include "wire/udp.h"
#include "wire/eth.h"
#include "fake_port.h"

enum { OPT_REPAIR = 1, OPT_PARTIAL = 2, OPT_KEEP = 4, FRAMES = 128 };

struct side {
	struct sl_umem umem;
	struct sl_net net;
	struct sl_fake_port port;
	struct sl_udp *udp;
	struct sl_flow_table flows; /* without entries */
	struct sl_frame *kept;
};

static struct side side[2];
static struct sl_handover_hub *hub;
static uint8_t options;
static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int cond, const char *what)
{
	if (cond)
		return;
	fprintf(stderr, "net_input: %s\n", what);
	abort();
}

static void on_tcp(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct side *s = ctx;
	struct sl_net_path path;

	sl_net_path_from_rx(&s->net, f, &path);
	sink += path.vlan[0] + path.remote[3];
	if (f->len >= SL_TCP_HDR_MIN) {
		if (sl_handover_give(&s->net, f, key, SL_IP_PROTO_TCP))
			return;
		sink += sl_net_l4_csum_ok(&s->net, f, SL_IP_PROTO_TCP, SL_TCP_CSUM_OFF);
		sl_handover_claim(&s->net, key);
		if (key->local[0] & 1)
			sl_handover_release(&s->net, key);
	}
	sl_frame_put(&s->umem, f);
}

static bool no_match(const void *ctx, uint32_t value, const struct sl_flow_key *key)
{
	(void)ctx, (void)value, (void)key;
	return false;
}

static void on_icmp(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu, bool hard)
{
	const uint8_t *ip = ip_header;

	(void)ctx;
	require(mtu == 0 || mtu >= 68, "an MTU that no path has");
	for (int i = 0; i < (ip[0] >> 4 == 4 ? 20 : 40); i++)
		sink += ip[i];
	sink += sl_get_be64(l4) + hard;
}

static void on_datagram(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk)
{
	struct side *s = app;
	struct sl_span span = sl_span_of(chunk->ptr, chunk->len);

	for (size_t i = 0; i < chunk->len; i++)
		sink += chunk->ptr[i];
	sl_udp_send(s->udp, peer, &span, 1);
	if (options & OPT_KEEP) {
		chunk->frame->next = s->kept;
		s->kept = chunk->frame;
		chunk->frame = NULL;
	}
}

static void set_up(void)
{
	const struct sl_net_listener l[] = {
		{.at.port_be = htobe16(80), .at.family = 4, .protocol = SL_IP_PROTO_UDP},
		{.at.port_be = htobe16(80), .at.family = 6, .protocol = SL_IP_PROTO_UDP},
	};

	hub = sl_handover_hub_create(2, 64, 4096);
	require(hub != NULL, "no memory");
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &side[i];

		require(sl_umem_init(&s->umem, 4096, FRAMES) == 0, "no memory");
		require(sl_net_init(&s->net, &s->umem) == 0, "no random bytes");
		sl_fake_port_init(&s->port, &s->umem, 0);
		s->port.auto_complete = true;
		require(sl_net_add_port(&s->net, &s->port.port) == 0, "port");
		require(sl_net_set_listeners(&s->net, l, 2) == 0, "listeners");
		require(sl_handover_join(hub, i, &s->net) == 0, "join");
		require(sl_flow_table_init(&s->flows, 16, &(struct sl_sipkey){1, 2}, no_match, s) ==
				0,
			"no memory");
		s->net.tcp = (struct sl_l4){s, on_tcp, &s->flows, on_icmp};
		s->udp = sl_udp_create(&s->net, on_datagram, s);
		require(s->udp != NULL, "no memory");
		s->net.udp.icmp_error = on_icmp;
	}
}

static void repair_l4(const struct sl_ip4_hdr *ip4, const struct sl_ip6_hdr *ip6, uint8_t protocol,
		      uint8_t *l4, size_t len)
{
	uint64_t sum = ip4 ? sl_csum_pseudo4(ip4->src_be, ip4->dst_be, protocol, (uint32_t)len)
			   : sl_csum_pseudo6(ip6->src, ip6->dst, protocol, (uint32_t)len);
	size_t off = protocol == SL_IP_PROTO_TCP ? 16 : protocol == SL_IP_PROTO_UDP ? 6 : 2;
	uint16_t csum_be = 0;

	if (len < off + 2)
		return;
	memcpy(l4 + off, &csum_be, 2);
	csum_be = sl_csum_finish(sl_csum_add(l4, len, protocol == SL_IP_PROTO_ICMP ? 0 : sum));
	memcpy(l4 + off, &csum_be, 2);
}

static void repair(uint8_t *p, size_t len)
{
	struct sl_eth_view eth;
	struct sl_ip4_view v4;
	struct sl_ip6_view v6;
	int off = sl_eth_parse(p, len, &eth);

	if (off < 0)
		return;
	p += off;
	len -= (size_t)off;
	if (eth.type == SL_ETHERTYPE_IP4 && sl_ip4_parse(p, len, &v4) >= 0) {
		sl_csum_ip4_fill((struct sl_ip4_hdr *)p, v4.hdr_len);
		repair_l4(v4.hdr, NULL, v4.protocol, p + v4.hdr_len, v4.payload_len);
	} else if (eth.type == SL_ETHERTYPE_IP6 && sl_ip6_parse(p, len, &v6) >= 0) {
		repair_l4(NULL, v6.hdr, v6.protocol, p + v6.hdr_len, v6.payload_len);
	}
}

static void run(struct side *s)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt = s->port.port.ops->rx_burst(&s->port.port, frames, SL_BURST, 1);

	sl_net_input(&s->net, frames, cnt, 1);
	sl_handover_poll(&s->net);
	sl_net_flush(&s->net);
}

static void finish(struct side *s)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_frame_put_list(&s->umem, s->kept);
	s->kept = NULL;
	sl_umem_census(&s->umem, census);
	require(census[SL_FRAME_FREE] == FRAMES && s->umem.free_cnt == FRAMES, "frames lost");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	unsigned which = 0;

	if (!hub)
		set_up();
	if (len == 0)
		return 0;
	options = bytes[0];
	side[0].port.port.partial_csum = side[1].port.port.partial_csum = options & OPT_PARTIAL;
	bytes++;
	len--;
	while (len >= 2) {
		struct side *s = &side[which++ % 2];
		size_t want = sl_get_le16(bytes), frame_len = want < len - 2 ? want : len - 2;
		struct sl_frame *f;

		if (sl_fake_inject(&s->port, bytes + 2, frame_len, 1)) {
			f = s->port.rx[(s->port.rx_head - 1) % SL_FAKE_RING];
			if (options & OPT_REPAIR)
				repair(f->data, f->len);
			run(s);
		}
		bytes += 2 + frame_len;
		len -= 2 + frame_len;
	}
	run(&side[0]);
	run(&side[1]);
	finish(&side[0]);
	finish(&side[1]);
	return 0;
}
