/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/rdma/rc/rc_listener.h"

bool rc_listener_watch(struct rc_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void rc_pending_drop(struct rc_listener *l, struct rc_pending *p)
{
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, p->conn->base.fd, NULL);
	l->base.unaccepted -= !p->conn->base.resumes;
	/* The client may be an impostor until it is heard: send nothing. */
	if (p->by_wireup)
		p->conn->bye = RC_BYE_DONE;
	rc_conn_close(&p->conn->base);
	p->conn = NULL;
	l->refused++;
}

struct rc_pending *rc_pending_alloc(struct rc_listener *l, const uint8_t host[16], bool by_wireup)
{
	struct rc_pending *free_slot = NULL;
	unsigned cnt = 0, host_cnt = 0;

	for (struct rc_pending *p = l->pending; p < l->pending + RC_PENDING_MAX; p++) {
		if (!p->conn) {
			free_slot = p;
		} else if (p->by_wireup == by_wireup) {
			cnt++;
			host_cnt += memcmp(p->host, host, sizeof(p->host)) == 0;
		}
	}
	if (!free_slot || host_cnt >= RC_PENDING_PER_HOST ||
	    (by_wireup && cnt >= RC_PENDING_BY_WIREUP))
		return NULL;
	free_slot->by_wireup = by_wireup;
	memcpy(free_slot->host, host, sizeof(free_slot->host));
	return free_slot;
}

void rc_pending_begin(struct rc_listener *l, struct rc_conn *conn, uint32_t hello_flags)
{
	conn->base.resumes = hello_flags & SL_HELLO_RESUME;
	l->base.unaccepted += !conn->base.resumes;
}

void rc_listener_open_wireup(struct rc_listener *l, const struct rdma_cm_id *id)
{
	if (l->wireup.qp)
		return;
	wireup_listener_open(&l->wireup, id);
	if (l->wireup.qp && !rc_listener_watch(l, l->wireup.qp->fd))
		wireup_listener_close(&l->wireup);
	l->wireup_device = l->wireup.qp ? id->verbs : NULL;
}

/* A repeated request replaces the pending connection of the first. */
static void drop_repeated(struct rc_listener *l, const struct wireup_request *h)
{
	for (struct rc_pending *p = l->pending; p < l->pending + RC_PENDING_MAX; p++) {
		if (p->conn && p->by_wireup && p->wireup.request.qpn == h->qpn &&
		    auth_sender_id_word(p->wireup.request.sender_id) ==
			    auth_sender_id_word(h->sender_id))
			rc_pending_drop(l, p);
	}
}

static int open_conn(struct rc_listener *l, struct rc_pending *p, struct rc_peer *peer,
		     struct rc_ring_sizes *g)
{
	const struct wireup_request *h = &p->wireup.request;
	struct wireup_reply *w = &p->wireup.reply;
	struct rc_conn *conn = p->conn;
	uint32_t psn;
	int rc = rc_conn_open_to_peer(conn, peer, l->group, g);

	if (!rc && !rc_listener_watch(l, conn->base.fd))
		rc = -EIO;
	if (!rc && sl_rand_bytes(&psn, sizeof(psn)))
		rc = -EIO;
	if (rc)
		return rc;
	psn &= RDMA_PSN_MASK;
	rc = rc_conn_to_rts(conn, h->qpn, h->psn, psn);
	if (!rc)
		rc = rc_conn_open_rings(conn, g);
	if (rc)
		return rc;
	if (l->mem.addr)
		rc_conn_set_zcopy_mem(conn, l->mem.addr, l->mem.len);
	w->slots = g->slots;
	w->bulk_len = g->bulk_len;
	w->qpn = conn->qp.qp->qp_num;
	w->psn = psn;
	w->rkey = conn->keys[0].rkey;
	w->bulk = conn->keys[0].bulk;
	return rc_conn_bind_mw(conn);
}

static enum rc_verdict grant_request(struct rc_listener *l, struct wireup_transcript *wireup)
{
	const struct wireup_request *h = &wireup->request;
	struct rc_ring_sizes g = {.slots = sl_rpc_at_most(h->slots, l->max_sizes.slots),
				  .bulk_len = h->bulk_len};
	struct rc_peer *peer;
	struct rc_pending *p;

	drop_repeated(l, h);
	p = rc_pending_alloc(l, h->gid, true);
	if (!rc_ring_sizes_ok(&g) || g.bulk_len > l->max_sizes.bulk_len)
		return RC_BAD_SIZES;
	if (!p || sl_rpc_listener_full(&l->base, h->flags) ||
	    rc_ifaces_host_blocked(l->group, h->gid))
		return RC_FULL;
	p->conn = rc_conn_new();
	if (!p->conn)
		return RC_FULL;
	peer = rc_peer_find_by_gid(l->wireup_device, h->epoch, h->gid, h->tos);
	if (!peer) {
		rc_conn_free(p->conn);
		p->conn = NULL;
		return RC_UNKNOWN_PEER;
	}
	p->wireup = *wireup;
	p->deadline_ns = sl_now_ns() + RC_PENDING_MS * SL_NS_PER_MS;
	rc_pending_begin(l, p->conn, h->flags);
	if (open_conn(l, p, peer, &g)) {
		rc_pending_drop(l, p);
		return RC_FULL;
	}
	wireup->reply = p->wireup.reply;
	return RC_GRANTED;
}

void wireup_handle_request(void *listener, const struct wireup_request *h)
{
	struct rc_listener *l = listener;
	struct wireup_transcript wireup = {
		.to = {.epoch = sl_rpc_boot_epoch(), .qpn = l->wireup.qp ? l->wireup.qp->qpn : 0},
		.request = *h,
		.reply = {.magic = WIREUP_MAGIC,
			  .version = RC_WIRE_VERSION,
			  .epoch = sl_rpc_boot_epoch(),
			  .number = h->number},
	};
	struct wireup_reply *w = &wireup.reply;

	if (h->magic != WIREUP_MAGIC || h->version != RC_WIRE_VERSION ||
	    !wireup_verify(&l->psk, &wireup, WIREUP_REQUEST, h->proof) ||
	    !replay_filter_accept(&l->wireup_replay, auth_sender_id_word(h->sender_id),
				  h->number)) {
		l->refused++;
		return;
	}
	if (sl_rand_bytes(w->nonce, sizeof(w->nonce)))
		return;
	w->verdict = (uint8_t)grant_request(l, &wireup);
	wireup_sign(&l->psk, &wireup, WIREUP_REPLY, w->proof);
	wireup_listener_reply(&l->wireup, h, w);
}

int wireup_handle_ack(struct rc_listener *l, struct rc_pending *p)
{
	const struct wireup_request *h = &p->wireup.request;
	struct rc_conn *conn = p->conn;
	char what[32];

	if (!wireup_verify(&l->psk, &p->wireup, WIREUP_ACK, conn->keys[1].proof))
		return -EACCES;
	/* These values are proven by the request, not by the keys message. */
	conn->peer_bulk = h->bulk;
	conn->peer_rkey = h->rkey;
	rc_ifaces_schedule_refill();
	conn->base.peer_epoch = h->epoch;
	conn->base.peer_worker = h->worker;
	conn->base.link = h->link;
	snprintf(what, sizeof(what), " worker %u", h->worker);
	rc_conn_set_info(conn, what);
	return 0;
}
