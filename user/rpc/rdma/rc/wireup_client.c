/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/rdma/wireup_qp.h"
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/rc/wireup.h"
#include "rpc/rdma/rc/rc_conn.h"

enum { TRIES = 3 };

struct wireup_client {
	const struct sl_rpc_dial_options *opt;
	const struct sl_psk *psk;
	struct rc_peer *peer;
	struct rc_conn *conn;
	struct rc_ring_sizes requested;
	struct wireup_transcript transcript;
	uint64_t deadline_ns;
};

static int build_request(void *arg, const struct ud_qp *qp, uint8_t *to)
{
	static _Atomic uint32_t number;
	struct wireup_client *client = arg;
	struct wireup_request *h = &client->transcript.request;

	h->number = atomic_fetch_add(&number, 1);
	h->answer_qpn = qp->qpn;
	if (sl_rand_bytes(h->nonce, sizeof(h->nonce)))
		return -EIO;
	wireup_sign(client->psk, &client->transcript, WIREUP_REQUEST, h->proof);
	memcpy(to, h, sizeof(*h));
	return (int)sizeof(*h);
}

static bool is_reply(void *arg, const struct ud_packet *p)
{
	struct wireup_client *client = arg;
	struct wireup_reply *w = &client->transcript.reply;

	if (p->len != sizeof(*w))
		return false;
	memcpy(w, p->bytes, sizeof(*w));
	return w->magic == WIREUP_MAGIC && w->version == RC_WIRE_VERSION &&
	       w->number == client->transcript.request.number &&
	       wireup_verify(client->psk, &client->transcript, WIREUP_REPLY, w->proof);
}

/* Runs while the server makes its own. */
static void register_rings(void *arg)
{
	struct wireup_client *client = arg;

	(void)rc_conn_register_rings(
		client->conn); /* an error shows up again in rc_conn_open_rings() */
}

static int open_qp(struct wireup_client *client)
{
	const struct rc_peer_addr *addr = &client->peer->addr;
	struct wireup_request *h = &client->transcript.request;
	uint32_t psn;
	int rc;

	client->requested = (struct rc_ring_sizes){
		.slots = sl_rpc_at_most(client->opt->slots, addr->slots),
		.bulk_len = sl_rpc_at_most(client->opt->bulk_ring_len, addr->bulk_len)};
	if (!rc_ring_sizes_ok(&client->requested))
		return -EINVAL;
	rc = rc_conn_open_to_peer(client->conn, client->peer, client->opt->worker,
				  &client->requested);
	if (rc)
		return rc;
	if (sl_rand_bytes(&psn, sizeof(psn)))
		return -EIO;
	client->transcript.to =
		(struct wireup_target){.epoch = addr->epoch, .qpn = addr->wireup_qpn};
	*h = (struct wireup_request){
		.magic = WIREUP_MAGIC,
		.version = RC_WIRE_VERSION,
		.flags = client->opt->resumes ? SL_HELLO_RESUME : 0,
		.worker = client->opt->worker,
		.epoch = sl_rpc_boot_epoch(),
		.slots = client->requested.slots,
		.bulk_len = client->requested.bulk_len,
		.qpn = client->conn->qp.qp->qp_num,
		.psn = psn & RDMA_PSN_MASK,
		.rkey = ibv_inc_rkey(client->conn->qp.mw->rkey),
		.bulk = (uintptr_t)rc_conn_rx_bulk(client->conn, client->requested.bulk_len),
		.tos = addr->path.tos,
		.link = client->opt->link};
	memcpy(h->gid, addr->local.gid, sizeof(h->gid));
	return auth_sender_id(&addr->sa, h->sender_id);
}

static int exchange_messages(struct wireup_client *client)
{
	const struct rc_peer_addr *addr = &client->peer->addr;
	struct ah_entry *n =
		ah_cache_get(&addr->local, addr->qp_attr.ah_attr.grh.dgid.raw, addr->path.tos);
	int rc;

	if (!n)
		return -ENETUNREACH;
	rc = wireup_call_run(&(struct wireup_call){.local = &addr->local,
						   .ah = n->ah,
						   .qpn = addr->wireup_qpn,
						   .tries = TRIES,
						   .deadline_ns = client->deadline_ns,
						   .build = build_request,
						   .is_reply = is_reply,
						   .overlap = register_rings,
						   .arg = client});
	ah_cache_put(n);
	/* The peer's wireup QP has gone. */
	if (rc == -ETIMEDOUT)
		rc_peer_unpublish(client->peer);
	return rc;
}

static int finish_connect(struct wireup_client *client)
{
	const struct wireup_reply *w = &client->transcript.reply;
	const struct rc_ring_sizes g = {.slots = w->slots, .bulk_len = w->bulk_len};
	struct rc_conn *conn = client->conn;
	int rc;

	if (w->verdict == RC_UNKNOWN_PEER)
		rc_peer_unpublish(client->peer);
	if (w->verdict != RC_GRANTED)
		return -ECONNREFUSED;
	if (w->epoch != client->peer->addr.epoch || !rc_ring_sizes_ok(&g) ||
	    g.slots > client->requested.slots || g.bulk_len != client->requested.bulk_len)
		return -EBADMSG;
	conn->peer_bulk = w->bulk;
	conn->peer_rkey = w->rkey;
	rc = rc_conn_to_rts(conn, w->qpn, w->psn, client->transcript.request.psn);
	if (!rc)
		rc = rc_conn_open_rings(conn, &g);
	if (rc)
		return rc;
	wireup_sign(client->psk, &client->transcript, WIREUP_ACK, conn->keys[0].proof);
	rc = rc_conn_send_keys(conn);
	if (rc)
		return rc;
	conn->base.peer_epoch = w->epoch;
	conn->base.link = client->opt->link;
	conn->base.resumes = client->opt->resumes;
	if (client->opt->mem && client->opt->mem->addr)
		rc_conn_set_zcopy_mem(conn, client->opt->mem->addr, client->opt->mem->len);
	return 0;
}

struct rc_conn *wireup_connect(const struct sl_rpc_dial_options *opt,
			       const struct sockaddr_storage *sa, const struct sl_psk *s,
			       uint64_t deadline_ns)
{
	const struct rdma_path_spec path = rdma_path_spec_of(&opt->rdma);
	struct wireup_client client = {.opt = opt, .psk = s, .deadline_ns = deadline_ns};
	int rc;

	client.conn = rc_conn_new();
	client.peer = client.conn ? rc_peer_find_by_addr(sa, &path) : NULL;
	if (!client.peer) {
		if (client.conn)
			rc_conn_free(client.conn);
		return NULL;
	}
	rc = open_qp(&client);
	if (!rc)
		rc = exchange_messages(&client);
	if (!rc)
		rc = finish_connect(&client);
	if (!rc)
		return client.conn;
	rc_conn_close(&client.conn->base);
	return NULL;
}
