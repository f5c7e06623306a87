/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c: segments that reach the wrong worker get to the owner, and what happens at the
 * limits. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "net_bed.h"
#include "net/handover.h"
#include "suite.h"

enum { RING = 256 };

struct pair {
	struct sl_handover_hub *hub;
	struct bed w[3];
};

/* An L4 without connections: what it does not have, it offers to the owner. */
static void miss(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct bed *b = ctx;

	if (!sl_handover_give(&b->net, f, key, PKT_TCP))
		bed_tcp(ctx, f, key);
}

static void begin(struct pair *p)
{
	p->hub = sl_handover_hub_create(3, 1000, 4096);
	ck_assert_ptr_nonnull(p->hub);
	for (unsigned i = 0; i < 3; i++) {
		bed_begin(&p->w[i]);
		ck_assert_int_eq(sl_handover_join(p->hub, i, &p->w[i].net), 0);
		p->w[i].net.tcp.input = miss;
		p->w[i].net.now_ns = 12345;
	}
}

static void end(struct pair *p)
{
	for (unsigned i = 0; i < 3; i++) {
		sl_handover_leave(&p->w[i].net);
		bed_end(&p->w[i]);
	}
	sl_handover_hub_destroy(p->hub);
}

static struct sl_flow_key key_of(const struct pkt *p)
{
	bool v4 = p->family == 4;
	struct sl_flow_key k = {.family = p->family};

	memcpy(k.local, v4 ? pkt_our_ip4 : pkt_our_ip6, 16);
	memcpy(k.remote, v4 ? pkt_peer_ip4 : pkt_peer_ip6, 16);
	memcpy(&k.remote_port_be, p->b + p->l4, 2);
	memcpy(&k.local_port_be, p->b + p->l4 + 2, 2);
	return k;
}

static void build(struct pkt *p, uint8_t family, uint32_t seq)
{
	pkt_build(p, &(struct pkt_spec){.family = family,
					.protocol = PKT_TCP,
					.vlan_cnt = 2,
					.seq = seq,
					.payload = "some bytes",
					.payload_len = 10});
}

TEST_EACH(a_segment_reaches_its_owner_whole, 2)
{
	uint8_t family = _i ? 6 : 4;
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, family, 7);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].tcp_cnt, 0);
	ck_assert_uint_eq(s.w[0].tcp_cnt, 0);
	ck_assert_uint_eq(sl_handover_poll(&s.w[2].net), 0);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 1);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 0);
	ck_assert_uint_eq(s.w[0].tcp_cnt, 1);
	ck_assert_uint_eq(s.w[0].flags, SL_NET_HANDED_OVER);
	ck_assert_uint_eq(s.w[0].len, p.len - p.l4);
	ck_assert_mem_eq(s.w[0].data, p.b + p.l4, p.len - p.l4);
	ck_assert_mem_eq(&s.w[0].key, &key, sizeof(key));
	ck_assert_mem_eq(s.w[0].path.mac, pkt_peer_mac, 6);
	ck_assert_uint_eq(s.w[0].path.vlan_cnt, 2);
	ck_assert_uint_eq(s.w[0].path.vlan[0], PKT_VLAN_OUTER);

	/* the owner's own miss (the flow is closing, say) stays with it */
	bed_input(&s.w[0], &p);
	ck_assert_uint_eq(s.w[0].tcp_cnt, 2);
	ck_assert_uint_eq(s.w[0].flags, 0);
	end(&s);
}

TEST(only_a_claimed_flow_is_given)
{
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 7);
	key = key_of(&p);
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].tcp_cnt, 1);

	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	sl_handover_release(&s.w[0].net, &key);
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].tcp_cnt, 2);

	/* claimed by a second one: it owns the flow, and the first cannot release it any more */
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	ck_assert(sl_handover_claim(&s.w[2].net, &key));
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 0);
	ck_assert_uint_eq(sl_handover_poll(&s.w[2].net), 1);
	sl_handover_release(&s.w[0].net, &key);
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 0);
	ck_assert_uint_eq(sl_handover_poll(&s.w[2].net), 1);
	ck_assert_uint_eq(s.w[2].tcp_cnt, 2);

	/* another flow of the same addresses is not concerned */
	key.remote_port_be ^= 1;
	sl_handover_release(&s.w[2].net, &key);
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(sl_handover_poll(&s.w[2].net), 1);
	end(&s);
}

/* Both think the other owns it: the frame is handed over once and no more. */
TEST(nothing_goes_in_circles)
{
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 7);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	bed_input(&s.w[1], &p);
	ck_assert(sl_handover_claim(&s.w[2].net, &key));
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 1);
	ck_assert_uint_eq(s.w[0].tcp_cnt, 1);
	ck_assert_uint_eq(sl_handover_poll(&s.w[2].net), 0);
	end(&s);
}

TEST(a_full_ring_drops_by_name)
{
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 0);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	for (unsigned i = 0; i < RING + 3; i++)
		bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].net.drops[SL_DROP_HANDOVER_FULL], 3);
	ck_assert_uint_eq(bed_drops(&s.w[1]), 3);
	ck_assert_uint_eq(s.w[1].tcp_cnt, 0);

	/* one burst per poll, and the rest is not forgotten */
	for (unsigned i = 0; i < RING / SL_BURST; i++)
		ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), SL_BURST);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 0);
	ck_assert_uint_eq(s.w[0].tcp_cnt, RING);
	end(&s);
}

TEST(an_owner_without_frames_counts_them)
{
	struct sl_frame *head = NULL, *f;
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 0);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	while ((f = sl_frame_get(&s.w[0].umem, SL_FRAME_HELD, 0))) {
		f->next = head;
		head = f;
	}
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 1);
	ck_assert_uint_eq(s.w[0].net.drops[SL_DROP_NO_FRAME], 1);
	ck_assert_uint_eq(s.w[0].tcp_cnt, 0);
	sl_frame_put_list(&s.w[0].umem, head);
	end(&s);
}

/* The error's queue is the router's, its flow may be elsewhere. */
TEST(icmp_errors_follow_their_flow)
{
	uint8_t payload[64] = {0, 0, 1300 >> 8, 1300 & 0xff};
	struct pkt sent, p, in;
	struct sl_flow_key key;
	struct pair s;

	begin(&s);
	build(&in, 4, 0);
	key = key_of(&in);
	pkt_build(&sent, &(struct pkt_spec){.protocol = PKT_TCP, .from_us = true});
	sl_put_be16(sent.b + sent.l3 + 2, 1500);
	memcpy(payload + 4, sent.b + sent.l3, 40);
	pkt_build(&p, &(struct pkt_spec){.protocol = PKT_ICMP,
					 .type = 3,
					 .code = 4,
					 .payload = payload,
					 .payload_len = 44});
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].icmp_cnt, 1); /* local: no worker owns it */
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].icmp_cnt, 1);
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 1);
	ck_assert_uint_eq(s.w[0].icmp_cnt, 1);
	ck_assert_uint_eq(s.w[0].mtu, 1300);
	end(&s);
}

static bool readable(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, 0) == 1;
}

/* Datagrams have no owner: an error about the size of one comes to all workers, once. */
TEST(errors_about_datagrams_reach_all_workers)
{
	uint8_t payload[32] = {0};
	struct pair s;
	struct pkt sent, p;

	begin(&s);
	for (unsigned i = 0; i < 3; i++)
		s.w[i].net.udp.icmp_error = bed_icmp;
	pkt_build(&sent, &(struct pkt_spec){.protocol = PKT_UDP, .from_us = true});
	sl_put_be16(sent.b + sent.l3 + 2, 1500);
	sl_put_be16(payload + 2, 1400);
	memcpy(payload + 4, sent.b + sent.l3, 28);
	pkt_build(&p, &(struct pkt_spec){.protocol = PKT_ICMP,
					 .type = 3,
					 .code = 4,
					 .payload = payload,
					 .payload_len = sizeof(payload)});
	bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].icmp_cnt, 1);
	for (unsigned round = 0; round < 2; round++) { /* it does not come back */
		for (unsigned i = 0; i < 3; i++)
			sl_handover_poll(&s.w[i].net);
	}
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(s.w[i].icmp_cnt, 1);
		ck_assert_uint_eq(s.w[i].mtu, 1400);
	}
	/* half of a ring is left to segments */
	for (unsigned i = 0; i < RING; i++)
		bed_input(&s.w[1], &p);
	ck_assert_uint_eq(s.w[1].icmp_cnt, 1 + RING);
	ck_assert_uint_eq(s.w[1].net.drops[SL_DROP_HANDOVER_FULL], 2 * (RING / 2));
	for (unsigned i = 0; i < RING; i++)
		sl_handover_poll(&s.w[0].net);
	ck_assert_uint_eq(s.w[0].icmp_cnt, 1 + RING / 2);
	/* other errors than about size are not copied */
	p.b[p.l4 + 1] = 3;
	pkt_fix_l4(&p);
	bed_input(&s.w[0], &p);
	ck_assert_uint_eq(sl_handover_poll(&s.w[1].net), 0);
	sl_handover_poll(&s.w[2].net);
	end(&s);
}

TEST(a_sleeper_is_woken_once)
{
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 0);
	key = key_of(&p);
	int fd = sl_handover_fd(&s.w[0].net);

	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	bed_input(&s.w[1], &p);
	ck_assert(!readable(fd)); /* awake: it polls anyway */
	sl_handover_arm(&s.w[0].net);
	bed_input(&s.w[1], &p);
	ck_assert(readable(fd));
	sl_handover_disarm(&s.w[0].net);
	ck_assert(!readable(fd));
	ck_assert_uint_eq(sl_handover_poll(&s.w[0].net), 2);
	sl_handover_arm(&s.w[0].net);
	sl_handover_disarm(&s.w[0].net);
	bed_input(&s.w[1], &p);
	ck_assert(!readable(fd));
	end(&s);
}

/* More flows than room: claims say so, and the rest still works. */
TEST(claims_in_a_full_directory_fail)
{
	struct sl_flow_key key;
	unsigned kept = 0;
	struct pair s;
	struct pkt p;

	begin(&s);
	build(&p, 4, 0);
	key = key_of(&p);
	for (uint32_t i = 0; i < 1000; i++) {
		key.remote_port_be = (uint16_t)i;
		ck_assert(sl_handover_claim(&s.w[0].net, &key));
	}
	for (uint32_t i = 1000; i < 20000; i++) {
		key.remote_port_be = (uint16_t)i;
		kept += sl_handover_claim(&s.w[0].net, &key);
	}
	ck_assert_uint_gt(kept, 0);
	ck_assert_uint_le(kept, 2048 - 1000);
	for (uint32_t i = 0; i < 20000; i++) {
		key.remote_port_be = (uint16_t)i;
		sl_handover_release(&s.w[0].net, &key);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		key.remote_port_be = (uint16_t)(30000 + i);
		ck_assert(sl_handover_claim(&s.w[1].net, &key));
	}
	end(&s);
}

TEST(alone_nothing_is_shared)
{
	struct sl_flow_key key;
	struct sl_frame *f;
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	build(&p, 4, 0);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&b.net, &key));
	sl_handover_release(&b.net, &key);
	b.keep = true;
	bed_input(&b, &p);
	f = b.kept;
	ck_assert(!sl_handover_give(&b.net, f, &key, PKT_TCP));
	sl_frame_put(&b.umem, f);
	ck_assert_uint_eq(sl_handover_poll(&b.net), 0);
	ck_assert_int_eq(sl_handover_fd(&b.net), -1);
	sl_handover_arm(&b.net);
	sl_handover_disarm(&b.net);
	bed_end(&b);
}

TEST(impossible_set_ups_are_refused)
{
	struct sl_handover_hub *hub = sl_handover_hub_create(2, 10, 2048);
	struct bed b;

	bed_begin(&b);
	ck_assert_ptr_nonnull(hub);
	ck_assert_int_eq(sl_handover_join(hub, 0, &b.net), -EINVAL); /* other frame size */
	ck_assert_ptr_null(b.net.handover);
	sl_handover_hub_destroy(hub);
	ck_assert_ptr_null(sl_handover_hub_create(0, 10, 4096));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(sl_handover_hub_create(17, 10, 4096));
	hub = sl_handover_hub_create(2, 10, 4096);
	ck_assert_int_eq(sl_handover_join(hub, 2, &b.net), -EINVAL);
	sl_handover_hub_destroy(hub);
	sl_handover_hub_destroy(NULL);
	bed_end(&b);
}

/* Two threads: the owner sees all that was not counted as dropped, in order. */
enum { THREAD_FRAMES = 20000 };

struct owner_state {
	struct bed *b;
	uint32_t last_seq, received, out_of_order;
};

static void owner_input(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct owner_state *o = ctx;
	uint32_t seq = sl_get_be32(f->data + 4);

	(void)key;
	o->out_of_order += seq <= o->last_seq;
	o->last_seq = seq;
	o->received++;
	sl_frame_put(o->b->net.umem, f);
}

struct giver_state {
	struct bed *b;
	_Atomic int done;
};

static void *give_all(void *arg)
{
	struct giver_state *g = arg;
	struct pkt p;

	for (uint32_t i = 1; i <= THREAD_FRAMES; i++) {
		struct sl_frame *frames[1];

		build(&p, 4, i);
		if (sl_fake_inject(&g->b->port, p.b, p.len, 0) &&
		    g->b->port.port.ops->rx_burst(&g->b->port.port, frames, 1, 12345) == 1)
			sl_net_input(&g->b->net, frames, 1, 12345);
		if (i % 64 == 0)
			sched_yield();
	}
	atomic_store(&g->done, 1);
	return NULL;
}

TEST(threads_lose_nothing_and_keep_the_order)
{
	struct owner_state o = {0};
	struct giver_state g = {0};
	struct sl_flow_key key;
	struct pair s;
	struct pkt p;
	pthread_t t;
	int done;

	begin(&s);
	build(&p, 4, 0);
	key = key_of(&p);
	ck_assert(sl_handover_claim(&s.w[0].net, &key));
	o.b = &s.w[0];
	s.w[0].net.tcp = (struct sl_l4){.ctx = &o, .input = owner_input};
	g.b = &s.w[1];
	ck_assert_int_eq(pthread_create(&t, NULL, give_all, &g), 0);
	do {
		done = atomic_load(&g.done);
		if (!sl_handover_poll(&s.w[0].net)) {
			struct pollfd fd = {sl_handover_fd(&s.w[0].net), POLLIN, 0};

			sl_handover_arm(&s.w[0].net);
			if (!sl_handover_poll(&s.w[0].net) && !done)
				poll(&fd, 1, 10);
			sl_handover_disarm(&s.w[0].net);
		}
	} while (!done);
	pthread_join(t, NULL);
	while (sl_handover_poll(&s.w[0].net))
		;
	ck_assert_uint_eq(o.received + s.w[1].net.drops[SL_DROP_HANDOVER_FULL], THREAD_FRAMES);
	ck_assert_uint_eq(o.out_of_order, 0);
	ck_assert_uint_gt(o.received, 0);
	end(&s);
}
