/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/rdma/rc/wireup.h"
#include "rpc/rdma/rc/rc_conn.h"

struct rc_connect_call {
	const struct sl_rpc_dial_options *opt;
	const struct sockaddr_storage *sa;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct rc_conn *conn;
	struct sl_psk psk;
	struct cm_transcript transcript;
	uint32_t slots; /* requested */
	uint64_t deadline_ns;
	const char *why; /* more specific than the errno */
};

static int remaining_ms(const struct rc_connect_call *d)
{
	uint64_t now = sl_now_ns();

	return now < d->deadline_ns ? (int)((d->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

static int set_refusal_text(struct rc_connect_call *d, const struct cm_reply *a)
{
	if (a->version < RC_WIRE_VERSION)
		d->why = "refused: the backend is of an older release: build both from one release";
	else if (a->version > RC_WIRE_VERSION || a->verdict == RC_OTHER_VERSION)
		d->why = "refused: the backend is of a newer release: build both from one release";
	else if (a->verdict == RC_OTHER_KEY)
		d->why = "the backend has another key: give both ends the same key file";
	else if (a->verdict == RC_FULL)
		d->why = SL_RPC_FULL_TEXT;
	else
		d->why = "refused: the backend does not grant these sizes";
	return -EPROTO;
}

static int cm_event_error(struct rc_connect_call *d, const struct rdma_cm_event *ev)
{
	const struct cm_reply *a = ev->param.conn.private_data;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		d->why = "no RDMA device has a route there: see `rdma link` and `ip route get`";
		return -ENETUNREACH;
	case RDMA_CM_EVENT_REJECTED:
		if (a && ev->param.conn.private_data_len >= sizeof(*a) && a->magic == CM_MAGIC)
			return set_refusal_text(d, a);
		d->why = "connection refused: is the backend running?";
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE: return -ETIMEDOUT;
	default: return -ECONNRESET;
	}
}

/* Returns 0 if the next CM event is the expected one, or -errno. */
static int await_cm_event(struct rc_connect_call *d, enum rdma_cm_event_type expected)
{
	struct pollfd p = {.fd = d->cm->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int rc = 0, n;

	/* The library keeps some events to itself and returns EAGAIN. */
	do {
		n = poll(&p, 1, remaining_ms(d));
		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0)
			n = rdma_get_cm_event(d->cm, &ev);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return -errno;
	if (ev->event != expected) {
		rc = cm_event_error(d, ev);
	} else if (expected == RDMA_CM_EVENT_ESTABLISHED) {
		if (ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(d->transcript.reply))
			memcpy(&d->transcript.reply, ev->param.conn.private_data,
			       sizeof(d->transcript.reply));
		else
			rc = -EBADMSG;
	}
	rdma_ack_cm_event(ev);
	return rc;
}

static int resolve_path(struct rc_connect_call *d, struct sockaddr_storage *sa)
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
	rc = rdma_path_resolve(&d->opt->rdma, d->id, sa, remaining_ms(d));
	if (rc == -ENODEV)
		d->why = "no such RDMA device: see `rdma link`";
	if (rc == -EADDRNOTAVAIL)
		d->why = "no such source: see `ip address`, and `rdma link` for the device's";
	if (!rc)
		rc = await_cm_event(d, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!rc && !rdma_path_matches(&d->opt->rdma, d->id)) {
		d->why = "the route uses another device or port than configured: see `ip "
			 "route get`";
		rc = -ENETUNREACH;
	}
	if (rc)
		return rc;
	if (rdma_resolve_route(d->id, remaining_ms(d)))
		return -errno;
	return await_cm_event(d, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* From here on d->conn owns id and cm. */
static int create_conn(struct rc_connect_call *d)
{
	struct rc_ring_sizes g = {.slots = d->opt->slots, .bulk_len = d->opt->bulk_ring_len};
	int rc;

	if (!rc_ring_sizes_ok(&g))
		return -EINVAL;
	d->conn = rc_conn_new();
	if (!d->conn)
		return -ENOMEM;
	rc = rc_conn_open(d->conn, d->id, d->cm, d->opt->worker, &g);
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

static int check_cm_reply(struct rc_connect_call *d)
{
	const struct cm_request *asked = &d->transcript.request;
	const struct cm_reply *a = &d->transcript.reply;
	struct rc_ring_sizes g = {.slots = a->slots, .bulk_len = a->bulk_len};

	if (a->magic != CM_MAGIC)
		return -EBADMSG;
	if (a->version != RC_WIRE_VERSION || a->verdict != RC_GRANTED)
		return set_refusal_text(d, a);
	if (!auth_verify(&d->psk, &d->transcript, CM_REPLY)) {
		d->why = "the backend has another key: give both ends the same key file";
		return -EACCES;
	}
	return rc_ring_sizes_ok(&g) && g.slots <= asked->slots && g.bulk_len <= asked->bulk_len
		       ? 0
		       : -EBADMSG;
}

static int send_cm_request(struct rc_connect_call *d)
{
	static _Atomic uint32_t number;
	struct rdma_conn_param param = {
		.private_data = &d->transcript.request,
		.private_data_len = sizeof(d->transcript.request),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = RC_RETRIES,
		.rnr_retry_count = RC_RNR_RETRIES,
	};
	int rc;

	d->transcript.target = auth_target_of(rdma_get_peer_addr(d->conn->peer->id));
	d->transcript.request = (struct cm_request){
		.magic = CM_MAGIC,
		.version = RC_WIRE_VERSION,
		.worker = d->opt->worker,
		.epoch = sl_rpc_boot_epoch(),
		.slots = d->slots,
		.bulk_len = d->opt->bulk_ring_len,
		.number = atomic_fetch_add(&number, 1),
		.flags = d->opt->resumes ? SL_HELLO_RESUME : 0,
	};
	if (auth_sender_id(d->sa, d->transcript.request.sender_id) ||
	    sl_rand_bytes(d->transcript.request.nonce, sizeof(d->transcript.request.nonce)))
		return -EIO;
	auth_sign(&d->psk, &d->transcript, CM_REQUEST);
	if (rdma_connect(d->conn->peer->id, &param))
		return -errno;
	rc = await_cm_event(d, RDMA_CM_EVENT_ESTABLISHED);
	return rc ? rc : rc_conn_established(d->conn);
}

static int await_keys(struct rc_connect_call *d)
{
	struct rc_conn *conn = d->conn;

	for (;;) {
		struct pollfd p = {.fd = conn->base.fd, .events = POLLIN};
		int rc, ms = remaining_ms(d);

		(void)rc_check(&conn->base);
		rc = rc_conn_poll_keys(conn);
		if (rc)
			return rc < 0 ? rc : 0;
		if (!ms)
			return -ETIMEDOUT;
		(void)poll(&p, 1, ms);
	}
}

static int exchange_keys(struct rc_connect_call *d)
{
	struct rc_ring_sizes g = {.slots = d->transcript.reply.slots,
				  .bulk_len = d->transcript.reply.bulk_len};
	struct rc_conn *conn = d->conn;
	int rc = rc_conn_open_rings(conn, &g);

	if (rc) {
		d->why = rc == -ENOMEM ? "cannot register memory: raise the limit of locked memory"
				       : NULL;
		return rc;
	}
	conn->keys[0].link = d->opt->link;
	d->transcript.client = conn->keys[0];
	auth_sign(&d->psk, &d->transcript, CM_CLIENT_KEYS);
	conn->keys[0] = d->transcript.client;
	rc = rc_conn_send_keys(conn);
	if (!rc)
		rc = await_keys(d);
	if (rc)
		return rc;
	d->transcript.server = conn->keys[1];
	if (!auth_verify(&d->psk, &d->transcript, CM_SERVER_KEYS))
		return -EACCES;
	conn->base.peer_epoch = d->transcript.reply.epoch;
	conn->base.link = d->opt->link;
	conn->base.resumes = d->opt->resumes;
	if (d->opt->mem && d->opt->mem->addr)
		rc_conn_set_zcopy_mem(conn, d->opt->mem->addr, d->opt->mem->len);
	return 0;
}

static const char *error_text(const struct rc_connect_call *d, int rc)
{
	if (d->why)
		return d->why;
	switch (rc) {
	case -ETIMEDOUT: return "no answer in time: the backend is busy, stopped or unreachable";
	case -ECONNRESET:
		return "the backend closed the connection: give both ends the same key file";
	case -EBADMSG: return "the answer is not a sluice HELLO: is this a sluice backend?";
	case -EACCES: return "the peer did not prove the key: give both ends the same key file";
	default: return strerror(-rc);
	}
}

static void abort_connect(struct rc_connect_call *d)
{
	bool owned = d->conn && d->conn->peer;

	if (owned) {
		rc_conn_close(&d->conn->base);
		return;
	}
	if (d->conn)
		rc_conn_free(d->conn);
	if (d->id)
		rdma_destroy_id(d->id);
	if (d->cm)
		rdma_destroy_event_channel(d->cm);
}

static int connect_by_cm(struct rc_connect_call *d, struct sockaddr_storage *sa)
{
	int rc = resolve_path(d, sa);

	if (!rc)
		rc = create_conn(d);
	if (!rc)
		rc = send_cm_request(d);
	if (!rc)
		rc = check_cm_reply(d);
	if (!rc)
		rc = exchange_keys(d);
	if (!rc && d->conn->iface)
		rc_peer_publish(d->conn->peer, d->conn->qp.qp,
				&(struct rc_peer_addr){.sa = *sa,
						       .path = rdma_path_spec_of(&d->opt->rdma),
						       .epoch = d->transcript.reply.epoch,
						       .wireup_qpn = d->transcript.reply.wireup_qpn,
						       .slots = d->transcript.reply.slots,
						       .bulk_len = d->transcript.reply.bulk_len});
	return rc;
}

struct sl_transport *sl_rc_dial(const struct sl_rpc_dial_options *opt, const char *address,
				struct sl_err *err)
{
	struct sockaddr_storage sa;
	struct rc_connect_call d = {
		.opt = opt, .sa = &sa, .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	int rc;

	if (rdma_parse_addr(address, &sa)) {
		sl_err_set(err,
			   "rdma://%s: expected a numeric address and port, as in "
			   "rdma://10.0.0.2:7471",
			   address);
		return NULL;
	}
	if (sl_psk_read(&d.psk, opt->key_file, err))
		return NULL;
	d.conn = wireup_connect(opt, &sa, &d.psk, d.deadline_ns);
	rc = d.conn ? 0 : connect_by_cm(&d, &sa);
	sl_psk_wipe(&d.psk);
	if (rc) {
		sl_err_set(err, "rdma://%s: %s", address, error_text(&d, rc));
		abort_connect(&d);
		return NULL;
	}
	rc_ifaces_schedule_refill();
	rc_conn_set_info(d.conn, opt->mem && !d.conn->mem ? " copies" : "");
	return &d.conn->base;
}
