/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/cpu.h"
#include "base/rand.h"
#include "net/steps.h"
#include "wire/ip4.h"

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint8_t process_key[16];
static int key_err;

static void draw_key(void)
{
	key_err = sl_rand_bytes(process_key, sizeof(process_key));
}

int sl_net_init(struct sl_net *n, struct sl_umem *umem)
{
	memset(n, 0, sizeof(*n));
	n->umem = umem;
	pthread_once(&key_once, draw_key);
	memcpy(n->hash_key, process_key, sizeof(n->hash_key));
	return key_err;
}

int sl_net_add_port(struct sl_net *n, struct sl_port *p)
{
	if (n->port_cnt == SL_MAX_PORTS || p->index != n->port_cnt || p->umem != n->umem)
		return -EINVAL;
	n->ports[n->port_cnt++] = p;
	return 0;
}

void sl_net_fini(struct sl_net *n)
{
	for (unsigned i = 0; i < n->port_cnt; i++) {
		for (unsigned k = 0; k < n->tx[i].cnt; k++)
			sl_frame_tx_done(n->umem, n->tx[i].frames[k]);
	}
	free(n->listeners);
	memset(n, 0, sizeof(*n));
}

static const struct sl_l4 *l4_of(const struct sl_net *n, uint8_t protocol)
{
	return protocol == SL_IP_PROTO_TCP ? &n->tcp : &n->udp;
}

static bool is_icmp(uint8_t protocol)
{
	return protocol == SL_IP_PROTO_ICMP || protocol == SL_IP_PROTO_ICMP6;
}

void sl_net_deliver(struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		    unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		const struct sl_l4 *to = l4_of(n, protocols[i]);

		if (!is_icmp(protocols[i]) && to->prefetch)
			to->prefetch(to->ctx, frames[i]);
	}
	for (unsigned i = 0; i < cnt; i++) {
		const struct sl_l4 *to = l4_of(n, protocols[i]);

		if (is_icmp(protocols[i]))
			sl_net_icmp_rx(n, frames[i], protocols[i]);
		else if (to->input)
			to->input(to->ctx, frames[i]);
		else
			sl_net_drop_frame(n, frames[i], SL_DROP_NO_LISTENER);
	}
}

static void prefetch_headers(struct sl_frame **frames, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		sl_prefetch(frames[i]->data);
		sl_prefetch(frames[i]->data + SL_CACHELINE);
	}
}

/* Keeps the frames that pass the checks, with their protocols, in order. Returns how many. */
static unsigned classify(struct sl_net *n, struct sl_frame **frames, unsigned cnt,
			 struct sl_frame **kept, uint8_t *protocols)
{
	unsigned kept_cnt = 0;

	for (unsigned i = 0; i < cnt; i++) {
		struct sl_frame *f = frames[i];
		int type, protocol;

		f->flags = 0;
		type = sl_net_eth_rx(n, f);
		if (type == SL_NET_DROPPED)
			continue;
		protocol = sl_net_ip_rx(n, f, type);
		if (protocol == SL_NET_DROPPED)
			continue;
		protocols[kept_cnt] = (uint8_t)protocol;
		kept[kept_cnt++] = f;
	}
	return kept_cnt;
}

static void input_burst(struct sl_net *n, struct sl_frame **frames, unsigned cnt)
{
	struct sl_frame *kept[SL_BURST];
	uint8_t protocols[SL_BURST];

	prefetch_headers(frames, cnt);
	cnt = classify(n, frames, cnt, kept, protocols);
	sl_net_deliver(n, kept, protocols, cnt);
}

void sl_net_input(struct sl_net *n, struct sl_frame **frames, unsigned cnt, uint64_t now_ns)
{
	n->now_ns = now_ns;
	while (cnt) {
		unsigned part = cnt < SL_BURST ? cnt : SL_BURST;

		input_burst(n, frames, part);
		frames += part;
		cnt -= part;
	}
}

/* What the port does not take stays pending, in order. */
static void push_pending(struct sl_net *n, unsigned port)
{
	struct sl_port *p = n->ports[port];
	struct sl_frame **frames = n->tx[port].frames;
	unsigned cnt = n->tx[port].cnt;
	unsigned taken = p->ops->tx_burst(p, frames, cnt);

	n->tx[port].cnt = cnt - taken;
	if (taken && taken < cnt)
		memmove(frames, frames + taken, (cnt - taken) * sizeof(struct sl_frame *));
}

bool sl_net_tx(struct sl_net *n, struct sl_frame *f)
{
	unsigned port = f->port;

	SL_CHECK(port < n->port_cnt);
	if (n->tx[port].cnt == SL_BURST)
		push_pending(n, port);
	if (n->tx[port].cnt == SL_BURST) {
		sl_net_drop(n, SL_DROP_TX_FULL);
		if (!f->retain)
			sl_frame_put(n->umem, f);
		else if (f->state != SL_FRAME_UNACKED)
			sl_frame_to(n->umem, f, SL_FRAME_UNACKED);
		return false;
	}
	if (f->state != SL_FRAME_TX)
		sl_frame_to(n->umem, f, SL_FRAME_TX);
	n->tx[port].frames[n->tx[port].cnt++] = f;
	return true;
}

void sl_net_flush(struct sl_net *n)
{
	for (unsigned i = 0; i < n->port_cnt; i++) {
		if (n->tx[i].cnt)
			push_pending(n, i);
		n->ports[i]->ops->flush(n->ports[i]);
	}
}
