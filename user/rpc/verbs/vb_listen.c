/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/verbs/verbs.h"

enum { PENDING_MAX = 16, HELLO_TIMEOUT_MS = 3000 };

/* Accepted, key not yet proven. */
struct pending {
	struct sl_verbs *v; /* NULL free */
	struct vb_talk talk;
	uint64_t deadline_ns;
};

struct verbs_listener {
	struct sl_rpc_listener base; /* fd: epoll over the listening id and the pending ones */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct vb_secret secret;
	struct vb_geometry most;
	struct pending pending[PENDING_MAX];
};

static bool watch(struct verbs_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->base.fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void drop_pending(struct verbs_listener *l, struct pending *p)
{
	(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, p->v->base.fd, NULL);
	vb_close(&p->v->base);
	p->v = NULL;
	l->base.refused++;
}

/* A free place, or that of whoever has been silent the longest. */
static struct pending *place_for(struct verbs_listener *l)
{
	struct pending *oldest = &l->pending[0];

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (!l->pending[i].v)
			return &l->pending[i];
		if (l->pending[i].deadline_ns < oldest->deadline_ns)
			oldest = &l->pending[i];
	}
	drop_pending(l, oldest);
	return oldest;
}

static uint32_t at_most(uint32_t asked, uint32_t most)
{
	return asked < most ? asked : most;
}

/* What of a request can be granted. 0 or -EPROTO. */
static int consider(const struct verbs_listener *l, const struct vb_request *rq,
		    struct vb_geometry *g)
{
	*g = (struct vb_geometry){.slots = at_most(rq->slots, l->most.slots),
				  .bulk_len = at_most(rq->bulk_len, l->most.bulk_len)};
	return rq->magic == VB_MAGIC && rq->version == SL_RPC_VERSION && vb_geometry_ok(g)
		       ? 0
		       : -EPROTO;
}

/* The answer to a request, with its proof. 0 or -errno. */
static int answer(struct verbs_listener *l, struct vb_talk *talk, const struct vb_geometry *g)
{
	talk->answer = (struct vb_answer){
		.magic = VB_MAGIC,
		.version = SL_RPC_VERSION,
		.status = SL_RPC_OK,
		.epoch = sl_rpc_boot_epoch(),
		.slots = g->slots,
		.bulk_len = g->bulk_len,
	};
	if (sl_rand_bytes(talk->answer.nonce, VB_NONCE_LEN))
		return -EIO;
	return vb_prove(&l->secret, talk, VB_ANSWER);
}

/* Queue pair and event channel of its own for a connection that has asked. */
static int open_pending(struct verbs_listener *l, struct pending *p, struct rdma_cm_id *id,
			struct vb_geometry *g)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	int rc = -ENOMEM;

	p->v = vb_new();
	if (!cm || !p->v || rdma_migrate_id(id, cm))
		goto fail;
	rc = vb_open(p->v, id, cm, VB_GROUP_BACKEND, g);
	if (rc)
		goto back;
	if (watch(l, p->v->base.fd))
		return 0;
	vb_free(p->v);
	p->v = NULL;
	return 1; /* id is gone too */
back:
	(void)rdma_migrate_id(id, l->cm);
fail:
	if (p->v)
		vb_free(p->v);
	p->v = NULL;
	if (cm)
		rdma_destroy_event_channel(cm);
	return rc;
}

static void refuse(struct verbs_listener *l, struct rdma_cm_id *id)
{
	const struct vb_answer a = {
		.magic = VB_MAGIC, .version = SL_RPC_VERSION, .status = SL_RPC_REFUSED};

	(void)rdma_reject(id, &a, sizeof(a));
	(void)rdma_destroy_id(id);
	l->base.refused++;
}

static void take_request(struct verbs_listener *l, struct rdma_cm_id *id,
			 const struct vb_request *rq, uint64_t now_ns)
{
	struct pending *p = place_for(l);
	struct rdma_conn_param param = {
		.private_data = &p->talk.answer,
		.private_data_len = sizeof(p->talk.answer),
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = 7,
	};
	struct vb_geometry g;
	int rc = consider(l, rq, &g);

	p->talk = (struct vb_talk){.request = *rq};
	p->deadline_ns = now_ns + HELLO_TIMEOUT_MS * SL_NS_PER_MS;
	if (!rc)
		rc = open_pending(l, p, id, &g);
	if (rc < 0)
		refuse(l, id);
	else if (!rc && (answer(l, &p->talk, &g) || rdma_accept(id, &param)))
		drop_pending(l, p);
}

static void take_requests(struct verbs_listener *l, uint64_t now_ns)
{
	struct rdma_cm_event *ev;

	for (unsigned i = 0; i < PENDING_MAX && rdma_get_cm_event(l->cm, &ev) == 0; i++) {
		struct rdma_cm_id *id = ev->id;
		bool asks = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		struct vb_request rq = {.magic = 0};

		if (asks && ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(rq))
			memcpy(&rq, ev->param.conn.private_data, sizeof(rq));
		/* An id cannot leave this channel before its events are acknowledged. */
		rdma_ack_cm_event(ev);
		if (asks)
			take_request(l, id, &rq, now_ns);
	}
}

/* The peer's keys are here: check its proof, make rings, send ours. 0 or -errno. */
static int establish(struct verbs_listener *l, struct pending *p)
{
	const struct vb_geometry g = {.slots = p->talk.answer.slots,
				      .bulk_len = p->talk.answer.bulk_len};
	struct sl_verbs *v = p->v;
	char what[32];
	int rc;

	p->talk.dialler = v->keys[1];
	if (!vb_proven(&l->secret, &p->talk, VB_DIALLER_KEYS))
		return -EACCES;
	rc = vb_open_rings(v, &g);
	if (rc)
		return rc;
	p->talk.acceptor = v->keys[0];
	rc = vb_prove(&l->secret, &p->talk, VB_ACCEPTOR_KEYS);
	v->keys[0] = p->talk.acceptor;
	if (!rc)
		rc = vb_send_keys(v);
	v->base.peer_epoch = p->talk.request.epoch;
	v->base.peer_worker = p->talk.request.worker;
	snprintf(what, sizeof(what), " worker %u", p->talk.request.worker);
	vb_describe(v, what);
	return rc;
}

static struct sl_transport *advance(struct verbs_listener *l, struct pending *p, uint64_t now_ns)
{
	struct sl_verbs *v = p->v;
	int rc;

	(void)vb_check(&v->base);
	rc = vb_keys_arrived(v);
	if (rc == 0 && now_ns < p->deadline_ns)
		return NULL;
	if (rc <= 0 || establish(l, p)) {
		drop_pending(l, p);
		return NULL;
	}
	(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, v->base.fd, NULL);
	p->v = NULL;
	return &v->base;
}

static struct sl_transport *verbs_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct verbs_listener *l = (struct verbs_listener *)base;

	take_requests(l, now_ns);
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct sl_transport *t = NULL;

		if (l->pending[i].v)
			t = advance(l, &l->pending[i], now_ns);
		if (t)
			return t;
	}
	return NULL;
}

static uint64_t verbs_next_ns(const struct sl_rpc_listener *base)
{
	const struct verbs_listener *l = (const struct verbs_listener *)base;
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].v && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void verbs_listener_close(struct sl_rpc_listener *base)
{
	struct verbs_listener *l = (struct verbs_listener *)base;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].v)
			drop_pending(l, &l->pending[i]);
	}
	if (l->id)
		rdma_destroy_id(l->id);
	if (l->cm)
		rdma_destroy_event_channel(l->cm);
	if (base->fd >= 0)
		close(base->fd);
	vb_secret_wipe(&l->secret);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = verbs_accept,
	.next_ns = verbs_next_ns,
	.close = verbs_listener_close,
};

static int open_listener(struct verbs_listener *l, struct sockaddr_storage *sa)
{
	int flags;

	l->base.fd = epoll_create1(EPOLL_CLOEXEC);
	l->cm = rdma_create_event_channel();
	if (!l->cm)
		return -ENODEV;
	flags = fcntl(l->cm->fd, F_GETFL);
	if (l->base.fd < 0 || flags < 0 || fcntl(l->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    rdma_create_id(l->cm, &l->id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(l->id, (struct sockaddr *)sa) || rdma_listen(l->id, PENDING_MAX) ||
	    !watch(l, l->cm->fd))
		return errno ? -errno : -EIO;
	return 0;
}

static const char *why(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return "in use: another backend listens there";
	case -EADDRNOTAVAIL: return "not an address of this host: see `ip address`";
	case -ENODEV:
		return "no RDMA device with that address: load the driver of the NIC, or "
		       "rdma_rxe and rdma_ucm; see `rdma link`";
	default: return strerror(-rc);
	}
}

struct sl_rpc_listener *sl_verbs_listen(const struct sl_rpc_listen_options *opt, char *err,
					size_t err_len)
{
	struct verbs_listener *l = calloc(1, sizeof(*l));
	struct sockaddr_storage sa;
	int rc;

	if (!l) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	l->base.ops = &listener_ops;
	l->base.fd = -1;
	l->most = (struct vb_geometry){.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	if (vb_address(opt->address, &sa)) {
		snprintf(err, err_len,
			 "rdma://%s: expected a numeric address and port, as in "
			 "rdma://10.0.0.2:7471",
			 opt->address);
		goto fail;
	}
	if (vb_secret_read(&l->secret, opt->key_file, err, err_len))
		goto fail;
	rc = open_listener(l, &sa);
	if (!rc)
		return &l->base;
	snprintf(err, err_len, "rdma://%s: %s", opt->address, why(rc));
fail:
	verbs_listener_close(&l->base);
	return NULL;
}
