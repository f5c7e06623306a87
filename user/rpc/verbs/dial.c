/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of an RDMA connection, with the proofs of proof.h. Read from the bottom:
 * sl_verbs_dial -> vb_dial_known (known.c), or else connect_by_manager -> resolve -> make_ends ->
 * connect_ends -> check_answer -> exchange_keys. It blocks until its deadline: for threads that dial.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/verbs/door.h"
#include "rpc/verbs/verbs.h"

struct dialling {
	const struct sl_rpc_dial_options *opt;
	const struct sockaddr_storage *sa;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct sl_verbs *v;
	struct sl_secret secret;
	struct vb_talk talk;
	uint32_t slots; /* to be asked for */
	uint64_t deadline_ns;
	const char *why; /* more than the errno says */
};

int vb_address(const char *text, struct sockaddr_storage *sa)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct addrinfo *found;
	const char *colon = strrchr(text, ':');
	uint64_t port;
	char host[64];
	size_t len;

	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host) ||
	    sl_parse_u64_max(sl_span_cstr(colon + 1), UINT16_MAX, &port))
		return -EINVAL;
	len = (size_t)(colon - text);
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	memset(sa, 0, sizeof(*sa));
	/* As most are, which the library takes long for. */
	if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
		in.sin_port = htons((uint16_t)port);
		memcpy(sa, &in, sizeof(in));
		return 0;
	}
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return -EINVAL;
	memcpy(sa, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int left_ms(const struct dialling *d)
{
	uint64_t now = sl_now_ns();

	return now < d->deadline_ns ? (int)((d->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

/* What a backend says when it refuses. */
static int refusal(struct dialling *d, const struct vb_answer *a)
{
	if (a->version < VB_VERSION)
		d->why = "refused: the backend is of an older release: build both from one release";
	else if (a->version > VB_VERSION || a->verdict == VB_OTHER_VERSION)
		d->why = "refused: the backend is of a newer release: build both from one release";
	else if (a->verdict == VB_OTHER_KEY)
		d->why = "the backend has another key: give both ends the same key file";
	else if (a->verdict == VB_FULL)
		d->why = SL_RPC_FULL_TEXT;
	else
		d->why = "refused: the backend does not grant these sizes";
	return -EPROTO;
}

/* What an event other than the expected one means. */
static int failure_of(struct dialling *d, const struct rdma_cm_event *ev)
{
	const struct vb_answer *a = ev->param.conn.private_data;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		d->why = "no RDMA device has a route there: see `rdma link` and `ip route get`";
		return -ENETUNREACH;
	case RDMA_CM_EVENT_REJECTED:
		if (a && ev->param.conn.private_data_len >= sizeof(*a) && a->magic == VB_MAGIC)
			return refusal(d, a);
		d->why = "connection refused: is the backend running?";
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE: return -ETIMEDOUT;
	default: return -ECONNRESET;
	}
}

/* 0 when the next event is the expected one. */
static int await(struct dialling *d, enum rdma_cm_event_type expected)
{
	struct pollfd p = {.fd = d->cm->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int rc = 0, n;

	/* The library keeps some events to itself: EAGAIN then. */
	do {
		n = poll(&p, 1, left_ms(d));
		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0)
			n = rdma_get_cm_event(d->cm, &ev);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return -errno;
	if (ev->event != expected) {
		rc = failure_of(d, ev);
	} else if (expected == RDMA_CM_EVENT_ESTABLISHED) {
		if (ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(d->talk.answer))
			memcpy(&d->talk.answer, ev->param.conn.private_data,
			       sizeof(d->talk.answer));
		else
			rc = -EBADMSG;
	}
	rdma_ack_cm_event(ev);
	return rc;
}

static int resolve(struct dialling *d, struct sockaddr_storage *sa)
{
	int rc;

	d->cm = rdma_create_event_channel();
	if (!d->cm) {
		d->why = "this host has no RDMA: load the driver of its NIC, or rdma_rxe and "
			 "rdma_ucm";
		return -ENODEV;
	}
	if (rdma_create_id(d->cm, &d->id, NULL, RDMA_PS_TCP)) {
		d->id = NULL;
		return -errno;
	}
	rc = vb_way_begin(&d->opt->rdma, d->id, sa, left_ms(d));
	if (rc == -ENODEV)
		d->why = "no such RDMA device: see `rdma link`";
	if (rc == -EADDRNOTAVAIL)
		d->why = "no such source: see `ip address`, and `rdma link` for the device's";
	if (!rc)
		rc = await(d, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!rc && !vb_way_is(&d->opt->rdma, d->id)) {
		d->why = "the way there is by another device or port than configured: see `ip "
			 "route get`";
		rc = -ENETUNREACH;
	}
	if (rc)
		return rc;
	if (rdma_resolve_route(d->id, left_ms(d)))
		return -errno;
	return await(d, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* Until here d owns id and cm, from here d->v does. */
static int make_ends(struct dialling *d)
{
	struct vb_geometry g = {.slots = d->opt->slots, .bulk_len = d->opt->bulk_ring_len};
	int rc;

	if (!vb_geometry_ok(&g))
		return -EINVAL;
	d->v = vb_new();
	if (!d->v)
		return -ENOMEM;
	rc = vb_open(d->v, d->id, d->cm, d->opt->worker, &g);
	if (rc) {
		d->why = rc == -EUSERS ? "this worker has too many connections"
				       : "the RDMA device has no room for a queue pair, or memory "
					 "cannot be pinned: see `rdma resource` and `ulimit -l`";
		return rc;
	}
	d->slots = g.slots;
	d->id = NULL;
	return 0;
}

static int check_answer(struct dialling *d)
{
	const struct vb_request *asked = &d->talk.request;
	const struct vb_answer *a = &d->talk.answer;
	struct vb_geometry g = {.slots = a->slots, .bulk_len = a->bulk_len};

	if (a->magic != VB_MAGIC)
		return -EBADMSG;
	if (a->version != VB_VERSION || a->verdict != VB_GRANTED)
		return refusal(d, a);
	if (!vb_proven(&d->secret, &d->talk, VB_ANSWER)) {
		d->why = "the backend has another key: give both ends the same key file";
		return -EACCES;
	}
	return vb_geometry_ok(&g) && g.slots <= asked->slots && g.bulk_len <= asked->bulk_len
		       ? 0
		       : -EBADMSG;
}

/* What is asked for, with its proof, and the answer to it. */
static int connect_ends(struct dialling *d)
{
	static _Atomic uint32_t number;
	struct rdma_conn_param param = {
		.private_data = &d->talk.request,
		.private_data_len = sizeof(d->talk.request),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = VB_RETRIES,
		.rnr_retry_count = VB_RNR_RETRIES,
	};
	int rc;

	d->talk.dialled = vb_dialled_of(rdma_get_peer_addr(d->v->leash->id));
	d->talk.request = (struct vb_request){
		.magic = VB_MAGIC,
		.version = VB_VERSION,
		.worker = d->opt->worker,
		.epoch = sl_rpc_boot_epoch(),
		.slots = d->slots,
		.bulk_len = d->opt->bulk_ring_len,
		.number = atomic_fetch_add(&number, 1),
		.flags = d->opt->goes_on ? SL_HELLO_GOES_ON : 0,
	};
	if (vb_series_to(d->sa, d->talk.request.series) ||
	    sl_rand_bytes(d->talk.request.nonce, sizeof(d->talk.request.nonce)))
		return -EIO;
	vb_prove(&d->secret, &d->talk, VB_REQUEST);
	if (rdma_connect(d->v->leash->id, &param))
		return -errno;
	rc = await(d, RDMA_CM_EVENT_ESTABLISHED);
	return rc ? rc : vb_connected(d->v);
}

static int await_keys(struct dialling *d)
{
	struct sl_verbs *v = d->v;

	for (;;) {
		struct pollfd p = {.fd = v->base.fd, .events = POLLIN};
		int rc, ms = left_ms(d);

		(void)vb_check(&v->base);
		rc = vb_keys_arrived(v);
		if (rc)
			return rc < 0 ? rc : 0;
		if (!ms)
			return -ETIMEDOUT;
		(void)poll(&p, 1, ms);
	}
}

static int exchange_keys(struct dialling *d)
{
	struct vb_geometry g = {.slots = d->talk.answer.slots, .bulk_len = d->talk.answer.bulk_len};
	struct sl_verbs *v = d->v;
	int rc = vb_open_rings(v, &g);

	if (rc) {
		d->why = rc == -ENOMEM ? "cannot pin memory: raise the limit of locked memory"
				       : NULL;
		return rc;
	}
	v->keys[0].link = d->opt->link;
	d->talk.dialer = v->keys[0];
	vb_prove(&d->secret, &d->talk, VB_DIALLER_KEYS);
	v->keys[0] = d->talk.dialer;
	rc = vb_send_keys(v);
	if (!rc)
		rc = await_keys(d);
	if (rc)
		return rc;
	d->talk.acceptor = v->keys[1];
	if (!vb_proven(&d->secret, &d->talk, VB_ACCEPTOR_KEYS))
		return -EACCES;
	v->base.peer_epoch = d->talk.answer.epoch;
	v->base.link = d->opt->link;
	v->base.goes_on = d->opt->goes_on;
	if (d->opt->mem && d->opt->mem->addr)
		vb_borrow_from(v, d->opt->mem->addr, d->opt->mem->len);
	return 0;
}

static const char *why(const struct dialling *d, int rc)
{
	if (d->why)
		return d->why;
	switch (rc) {
	case -ETIMEDOUT: return "no answer in time: the backend is busy, stopped or unreachable";
	case -ECONNRESET: return "the backend closed the connection: has it the same key?";
	case -EBADMSG: return "the answer is not a sluice HELLO: is this a sluice backend?";
	case -EACCES: return "the peer has not proven the key";
	default: return strerror(-rc);
	}
}

static void give_up(struct dialling *d)
{
	bool owned = d->v && d->v->leash;

	if (owned) {
		vb_close(&d->v->base);
		return;
	}
	if (d->v)
		vb_free(d->v);
	if (d->id)
		rdma_destroy_id(d->id);
	if (d->cm)
		rdma_destroy_event_channel(d->cm);
}

static int connect_by_manager(struct dialling *d, struct sockaddr_storage *sa)
{
	int rc = resolve(d, sa);

	if (!rc)
		rc = make_ends(d);
	if (!rc)
		rc = connect_ends(d);
	if (!rc)
		rc = check_answer(d);
	if (!rc)
		rc = exchange_keys(d);
	if (!rc && d->v->home)
		vb_leash_share(d->v->leash, d->v->end.qp,
			       &(struct vb_known){.sa = *sa,
						  .asked = vb_way_of(&d->opt->rdma),
						  .epoch = d->talk.answer.epoch,
						  .door = d->talk.answer.door,
						  .slots = d->talk.answer.slots,
						  .bulk_len = d->talk.answer.bulk_len});
	return rc;
}

struct sl_transport *sl_verbs_dial(const struct sl_rpc_dial_options *opt, const char *address,
				   struct sl_err *err)
{
	struct sockaddr_storage sa;
	struct dialling d = {
		.opt = opt, .sa = &sa, .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	int rc;

	if (vb_address(address, &sa)) {
		sl_err_set(err,
			   "rdma://%s: expected a numeric address and port, as in "
			   "rdma://10.0.0.2:7471",
			   address);
		return NULL;
	}
	if (sl_secret_read(&d.secret, opt->key_file, err))
		return NULL;
	d.v = vb_dial_known(opt, &sa, &d.secret, d.deadline_ns);
	rc = d.v ? 0 : connect_by_manager(&d, &sa);
	sl_secret_wipe(&d.secret);
	if (rc) {
		sl_err_set(err, "rdma://%s: %s", address, why(&d, rc));
		give_up(&d);
		return NULL;
	}
	vb_closer_fill();
	vb_describe(d.v, opt->mem && !d.v->mem ? " copies" : "");
	return &d.v->base;
}

const struct sl_transport_scheme sl_verbs_scheme = {
	.scheme = "rdma",
	/* Clearing and pinning it is most of a connection's time; 100 Gbit/s fill it in 80 us. */
	.bulk_ring_len = 1 << 20,
	.settle = sl_verbs_settle,
	.probe = sl_verbs_probe,
	.preload = sl_verbs_preload,
	.dial = sl_verbs_dial,
	.listen = sl_verbs_listen,
};
