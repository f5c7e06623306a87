/* SPDX-License-Identifier: Apache-2.0 */
#include "core/dgram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "core/client.h"
#include "front/datagram/datagram.h"

_Static_assert(sizeof(struct sl_udp_peer) <= SL_DATAGRAM_WAY_SIZE, "the way back is kept");

struct sl_dgram {
	_Alignas(SL_CACHELINE) struct sl_client client; /* pads for aligned_alloc */
	struct sl_datagrams *front;
};

static struct sl_core *core_of(void *conn)
{
	return ((struct sl_client *)conn)->core;
}

static void send_datagram(void *conn, const void *way, struct sl_span head, struct sl_span payload)
{
	struct sl_span spans[2] = {head, payload};

	(void)sl_udp_send(core_of(conn)->udp, way, spans, 2);
}

static size_t datagram_room(void *conn, const void *way)
{
	return sl_udp_max_payload(core_of(conn)->udp, way);
}

static void drop_datagram(void *conn, enum sl_drop why)
{
	sl_net_drop(core_of(conn)->net, why);
}

static const struct sl_datagram_cb datagram_cb = {
	.send = send_datagram,
	.room = datagram_room,
	.drop = drop_datagram,
};

static void on_datagram(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk)
{
	struct sl_core *c = app;
	struct sl_client *cl = &c->dgram->client;
	struct sl_datagram_source src = {.peer = sl_net_remote(&peer->path, peer->remote_port_be),
					 .listener = peer->listener};

	c->datagram_from = peer;
	sl_datagram_input(cl->state, &c->env, &src, peer, sizeof(*peer), chunk);
	c->datagram_from = NULL;
}

int sl_dgram_init(struct sl_core *c)
{
	uint8_t key[16];
	int rc = sl_rand_bytes(key, sizeof(key));

	if (rc)
		return rc;
	c->dgram = aligned_alloc(SL_CACHELINE, sizeof(*c->dgram));
	if (!c->dgram)
		return -ENOMEM;
	memset(c->dgram, 0, sizeof(*c->dgram));
	c->dgram->front = sl_datagrams_create(&datagram_cb, c->cfg->limits.max_exchanges, key);
	c->env.datagram = c->dgram->front;
	if (!c->dgram->front)
		return -ENOMEM;
	sl_client_open_datagrams(&c->dgram->client, c);
	c->udp = sl_udp_create(c->net, on_datagram, c);
	return c->udp ? 0 : -ENOMEM;
}

void sl_dgram_fini(struct sl_core *c)
{
	if (!c->dgram)
		return;
	if (c->udp)
		sl_udp_destroy(c->udp);
	if (c->dgram->front)
		sl_client_close_datagrams(&c->dgram->client);
	sl_datagrams_destroy(c->dgram->front);
	free(c->dgram);
	c->dgram = NULL;
}
