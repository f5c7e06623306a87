/* SPDX-License-Identifier: Apache-2.0 */
/* net and udp: nanoseconds per packet in and out, flow look-ups, hand-over between workers. */
#include <stdlib.h>
#include "bench.h"
#include "base/rand.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "udp/udp.h"
#include "wire/csum.h"
#include "wire/udp.h"
#include "wire/eth.h"
#include "fake_port.h"

enum { BURSTS = 200, PACKETS = BURSTS * SL_BURST, PAYLOAD = 64 };

struct side {
	struct sl_umem umem;
	struct sl_net net;
	struct sl_fake_port port;
	struct sl_udp *udp;
	struct sl_frame *frames[SL_BURST];
	uint8_t packet[2048];
	size_t packet_len;
	unsigned seen;
	uint8_t protocol;
};

static void end_tcp(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct side *s = ctx;

	(void)key;
	s->seen++;
	sl_frame_put(&s->umem, f);
}

static void give_tcp(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct side *s = ctx;
	struct sl_flow_key own;

	(void)key; /* without a table of flows there is none */
	sl_net_flow_key(&s->net, f, &own);
	if (!sl_handover_give(&s->net, f, &own, SL_IP_PROTO_TCP))
		sl_frame_put(&s->umem, f);
}

static void echo(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk)
{
	struct side *s = app;
	struct sl_span span = sl_span_of(chunk->ptr, chunk->len);

	s->seen++;
	sl_udp_send(s->udp, peer, &span, 1);
}

static int set_up(struct side *s)
{
	const struct sl_net_listener l[] = {
		{.at.port_be = htobe16(80), .at.family = 4, .protocol = SL_IP_PROTO_UDP},
		{.at.port_be = htobe16(80), .at.family = 6, .protocol = SL_IP_PROTO_UDP},
	};
	int err = sl_umem_init(&s->umem, 2048, 2048);

	if (err)
		return err;
	err = sl_net_init(&s->net, &s->umem);
	if (err)
		return err;
	sl_fake_port_init(&s->port, &s->umem, 0);
	s->port.auto_complete = true;
	sl_net_add_port(&s->net, &s->port.port);
	s->udp = sl_udp_create(&s->net, echo, s);
	s->net.tcp = (struct sl_l4){.ctx = s, .input = end_tcp};
	return sl_net_set_listeners(&s->net, l, 2);
}

static void fill_udp(uint8_t *p, uint64_t pseudo)
{
	((struct sl_udp_hdr *)p)->csum_be = sl_csum_finish(sl_csum_add(p, 8 + PAYLOAD, pseudo));
}

static void build(struct side *s, uint8_t family, uint8_t protocol)
{
	static const uint8_t ours[16] = {192, 0, 2, 1}, theirs[16] = {198, 51, 100, 1};
	uint8_t *p = s->packet;
	uint16_t len = PAYLOAD + (protocol == SL_IP_PROTO_TCP ? 20 : 8);

	s->protocol = protocol;
	memset(p, 0, sizeof(s->packet));
	p += sl_eth_write(p, (const uint8_t[]){2, 0, 0, 0, 0, 1},
			  (const uint8_t[]){2, 0, 0, 0, 0, 9}, NULL, 0,
			  family == 4 ? SL_ETHERTYPE_IP4 : SL_ETHERTYPE_IP6);
	if (family == 4) {
		struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)p;
		uint32_t src, dst;

		memcpy(&src, theirs, 4);
		memcpy(&dst, ours, 4);
		sl_ip4_write(ip, src, dst, protocol, len, 0, true);
		sl_csum_ip4_fill(ip, sizeof(*ip));
		p += sizeof(*ip);
		sl_udp_write((struct sl_udp_hdr *)p, htobe16(1000), htobe16(80), PAYLOAD);
		fill_udp(p, sl_csum_pseudo4(src, dst, SL_IP_PROTO_UDP, 8 + PAYLOAD));
	} else {
		struct sl_ip6_hdr *ip = (struct sl_ip6_hdr *)p;

		sl_ip6_write(ip, theirs, ours, protocol, len);
		p += sizeof(*ip);
		sl_udp_write((struct sl_udp_hdr *)p, htobe16(1000), htobe16(80), PAYLOAD);
		fill_udp(p, sl_csum_pseudo6(theirs, ours, SL_IP_PROTO_UDP, 8 + PAYLOAD));
	}
	s->packet_len = (size_t)(p - s->packet) + len;
}

/*
 * A burst as a port hands it over; the copy is not what is measured, so it is measured alone too.
 */
static void receive_burst(struct side *s)
{
	for (unsigned i = 0; i < SL_BURST; i++) {
		struct sl_frame *f = sl_frame_get(&s->umem, SL_FRAME_FILL, 256);

		sl_frame_to(&s->umem, f, SL_FRAME_RX);
		memcpy(f->data, s->packet, s->packet_len);
		f->len = (uint16_t)s->packet_len;
		s->frames[i] = f;
	}
}

static void frames_only(void *ctx)
{
	struct side *s = ctx;

	for (unsigned b = 0; b < BURSTS; b++) {
		receive_burst(s);
		for (unsigned i = 0; i < SL_BURST; i++)
			sl_frame_put(&s->umem, s->frames[i]);
	}
}

static void input(void *ctx)
{
	struct side *s = ctx;

	for (unsigned b = 0; b < BURSTS; b++) {
		receive_burst(s);
		sl_net_input(&s->net, s->frames, SL_BURST, b);
		sl_net_flush(&s->net);
	}
}

struct two {
	struct side *from, *to;
};

static void hand_over(void *ctx)
{
	struct two *t = ctx;

	for (unsigned b = 0; b < BURSTS; b++) {
		receive_burst(t->from);
		sl_net_input(&t->from->net, t->from->frames, SL_BURST, b);
		sl_handover_poll(&t->to->net);
	}
}

static void bench_packets(struct side *s)
{
	bench_time("net_frame_get_copy_put", frames_only, s, PACKETS);
	build(s, 4, SL_IP_PROTO_TCP);
	bench_time("net_rx_eth_ip4", input, s, PACKETS);
	build(s, 6, SL_IP_PROTO_TCP);
	bench_time("net_rx_eth_ip6", input, s, PACKETS);
	build(s, 4, SL_IP_PROTO_UDP);
	bench_time("net_udp4_echo_64B", input, s, PACKETS);
	build(s, 6, SL_IP_PROTO_UDP);
	bench_time("net_udp6_echo_64B", input, s, PACKETS);
}

static int bench_handover(struct side *a, struct side *b)
{
	struct sl_handover_hub *hub = sl_handover_hub_create(2, 1000, 2048);
	struct sl_flow_key key = {.local = {192, 0, 2, 1},
				  .remote = {198, 51, 100, 1},
				  .local_port_be = htobe16(80),
				  .remote_port_be = htobe16(1000),
				  .family = 4};
	struct two t = {a, b};

	if (!hub || sl_handover_join(hub, 0, &a->net) || sl_handover_join(hub, 1, &b->net))
		return -1;
	sl_handover_claim(&b->net, &key);
	a->net.tcp = (struct sl_l4){.ctx = a, .input = give_tcp};
	build(a, 4, SL_IP_PROTO_TCP);
	b->seen = 0;
	bench_time("net_rx_handed_over", hand_over, &t, PACKETS);
	if (b->seen != PACKETS * (BENCH_ROUNDS + 1))
		fprintf(stderr, "net: %u of %d frames handed over\n", b->seen,
			PACKETS * (BENCH_ROUNDS + 1));
	sl_handover_leave(&a->net);
	sl_handover_leave(&b->net);
	sl_handover_hub_destroy(hub);
	return 0;
}

enum { LOOKUPS = 64 * 1024 };

struct flows {
	struct sl_flow_table wcfg;
	struct sl_flow_key *keys;   /* indexed by value */
	uint32_t *order;            /* LOOKUPS values */
	struct sl_flow_key *probes; /* their keys, one after the other as from packets */
	uint32_t cnt;
	uint32_t found;
};

static bool match(const void *ctx, uint32_t value, const struct sl_flow_key *k)
{
	const struct flows *f = ctx;

	return memcmp(&f->keys[value], k, sizeof(*k)) == 0;
}

static void look_up_one_by_one(void *ctx)
{
	struct flows *f = ctx;

	for (uint32_t i = 0; i < LOOKUPS; i++) {
		const struct sl_flow_key *k = &f->probes[i];

		f->found += sl_flow_find(&f->wcfg, sl_flow_hash(&f->wcfg, k), k) == f->order[i];
	}
}

static void look_up_in_bursts(void *ctx)
{
	struct flows *f = ctx;
	uint64_t hash[SL_BURST];

	for (uint32_t i = 0; i < LOOKUPS; i += SL_BURST) {
		for (uint32_t j = 0; j < SL_BURST; j++) {
			hash[j] = sl_flow_hash(&f->wcfg, &f->probes[i + j]);
			sl_flow_prefetch(&f->wcfg, hash[j]);
		}
		for (uint32_t j = 0; j < SL_BURST; j++) {
			const struct sl_flow_key *k = &f->probes[i + j];

			f->found += sl_flow_find(&f->wcfg, hash[j], k) == f->order[i + j];
		}
	}
}

static void remove_and_insert(void *ctx)
{
	struct flows *f = ctx;

	for (uint32_t i = 0; i < LOOKUPS; i++) {
		uint32_t v = f->order[i];
		uint64_t hash = sl_flow_hash(&f->wcfg, &f->probes[i]);

		if (sl_flow_remove(&f->wcfg, hash, v))
			f->found += sl_flow_insert(&f->wcfg, hash, v) == 0;
	}
}

static void hash_only(void *ctx)
{
	struct flows *f = ctx;

	for (uint32_t i = 0; i < LOOKUPS; i++)
		f->found += (uint32_t)sl_flow_hash(&f->wcfg, &f->probes[i]);
}

static int fill(struct flows *f, uint8_t family)
{
	const struct sl_sipkey key = {1, 2};
	struct sl_prng rnd;

	if (!f->keys || !f->order || !f->probes ||
	    sl_flow_table_init(&f->wcfg, f->cnt, &key, match, f))
		return -1;
	sl_prng_seed(&rnd, 1);
	for (uint32_t i = 0; i < f->cnt; i++) {
		f->keys[i] = (struct sl_flow_key){.local_port_be = 80, .family = family};
		memcpy(f->keys[i].remote, &i, 4);
		if (sl_flow_insert(&f->wcfg, sl_flow_hash(&f->wcfg, &f->keys[i]), i))
			return -1;
	}
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		f->order[i] = (uint32_t)sl_prng_below(&rnd, f->cnt);
		f->probes[i] = f->keys[f->order[i]];
	}
	return 0;
}

static void time_flows(struct flows *f, uint8_t family)
{
	static const struct {
		const char *name;
		bench_fn *fn;
	} benches[] = {
		{"flow_find", look_up_one_by_one},
		{"flow_find_burst", look_up_in_bursts},
		{"flow_remove_insert", remove_and_insert},
	};
	char name[64];

	for (size_t i = 0; i < SL_ARRAY_LEN(benches); i++) {
		snprintf(name, sizeof(name), "%s_v%u_%u", benches[i].name, family, f->cnt);
		bench_time(name, benches[i].fn, f, LOOKUPS);
	}
	snprintf(name, sizeof(name), "flow_bytes_per_entry_v%u_%u", family, f->cnt);
	bench_row(name, (double)sl_flow_table_bytes(&f->wcfg) / f->cnt, "bytes");
	snprintf(name, sizeof(name), "flow_hash_v%u", family);
	if (f->cnt == 1000)
		bench_time(name, hash_only, f, LOOKUPS);
}

static int bench_flows(uint32_t cnt, uint8_t family)
{
	struct flows f = {.cnt = cnt};
	int err;

	f.keys = calloc(cnt, sizeof(*f.keys));
	f.order = calloc(LOOKUPS, sizeof(*f.order));
	f.probes = calloc(LOOKUPS, sizeof(*f.probes));
	err = fill(&f, family);
	if (!err)
		time_flows(&f, family);
	sl_flow_table_fini(&f.wcfg);
	free(f.keys);
	free(f.order);
	free(f.probes);
	return err;
}

int main(void)
{
	static struct side a, b;

	if (set_up(&a) || set_up(&b)) {
		fprintf(stderr, "net: no memory\n");
		return 1;
	}
	bench_packets(&a);
	if (bench_handover(&a, &b) || bench_flows(1000, 4) || bench_flows(1000, 6) ||
	    bench_flows(1000000, 4)) {
		fprintf(stderr, "net: no memory\n");
		return 1;
	}
	return 0;
}
