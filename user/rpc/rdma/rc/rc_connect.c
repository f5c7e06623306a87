/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/rdma/rc/rc_conn.h"

struct rc_dial {
	struct wireup_dial base;
	struct rc_conn *conn;
};

/* Runs while the listener makes its own; an error shows up again in rc_conn_open_rings(). */
static void register_rings(void *arg)
{
	struct rc_dial *d = arg;

	(void)rc_conn_register_rings(d->conn);
}

static void drop_conn(struct wireup_dial *base)
{
	struct rc_dial *d = (struct rc_dial *)base;

	if (d->conn)
		rc_conn_close(&d->conn->base);
	d->conn = NULL;
}

static const char *open_error_text(int rc)
{
	if (rc == -EUSERS)
		return "this worker has too many connections";
	if (rc == -EOPNOTSUPP)
		return RC_UNSUPPORTED_TEXT;
	return "the RDMA device has no room for a queue pair, or memory cannot be pinned: see "
	       "`rdma resource` and `ulimit -l`";
}

static int open_conn(struct wireup_dial *base)
{
	struct rc_dial *d = (struct rc_dial *)base;
	struct sl_wireup_creq *creq = &base->creq;
	const struct rc_ring_sizes g = {.slots = creq->slots, .bulk_len = creq->bulk_len};
	struct rc_path path = {.local = base->host.local, .tos = creq->tos, .sl = base->host.sl};
	int rc;

	memcpy(path.gid, base->host.gid, sizeof(path.gid));
	d->conn = rc_conn_new();
	if (!d->conn)
		return -ENOMEM;
	rc = rc_conn_open(d->conn, &path, base->opt->worker, &g);
	if (!rc && sl_rand_bytes(&creq->psn, sizeof(creq->psn)))
		rc = -EIO;
	if (rc) {
		base->why = open_error_text(rc);
		drop_conn(base);
		return rc;
	}
	creq->sl = path.sl;
	creq->id = creq->qpn = d->conn->qp.qp->qp_num;
	creq->psn &= RDMA_PSN_MASK;
	creq->rkey = d->conn->rkey;
	creq->bulk = (uintptr_t)d->conn->rx_bulk;
	return 0;
}

static int finish_connect(struct rc_dial *d)
{
	const struct sl_wireup_creq *creq = &d->base.creq;
	const struct sl_wireup_crep *a = &d->base.crep;
	const struct rc_ring_sizes g = {.slots = a->slots, .bulk_len = a->bulk_len};
	const struct rc_qp_end peer = {
		.qpn = a->qpn, .psn = a->psn, .rkey = a->rkey, .bulk = a->bulk};
	const struct sl_rpc_dial_options *opt = d->base.opt;
	struct rc_conn *conn = d->conn;
	uint8_t proof[SL_PSK_MAC_LEN];
	int rc;

	if (!rc_ring_sizes_ok(&g) || g.slots > creq->slots || g.bulk_len > creq->bulk_len ||
	    a->mtu < RC_MTU_MIN || a->mtu > creq->mtu)
		return -EBADMSG;
	rc = rc_conn_to_rts(conn, &peer, creq->psn, a->mtu);
	if (!rc)
		rc = rc_conn_open_rings(conn, &g);
	if (rc == -ENOMEM)
		d->base.why = "cannot register memory: raise the limit of locked memory";
	if (rc)
		return rc;
	wireup_derive(&d->base.psk, a, WIREUP_ACK, proof);
	rc = rc_conn_send_ack(conn, proof);
	if (rc)
		return rc;
	conn->base.peer_epoch = a->epoch;
	conn->base.number = creq->id;
	conn->base.link = opt->link;
	conn->base.resumes = opt->resumes;
	if (opt->mem && opt->mem->addr)
		rc_conn_set_zcopy_mem(conn, opt->mem->addr, opt->mem->len);
	return 0;
}

static const char *error_text(const struct wireup_dial *d, int rc)
{
	if (d->why)
		return d->why;
	switch (rc) {
	case -ETIMEDOUT: return "no answer in time: the backend is busy, stopped or unreachable";
	case -EBADMSG: return "the answer is not a sluice HELLO: is this a sluice backend?";
	default: return strerror(-rc);
	}
}

struct sl_transport *sl_rc_dial(const struct sl_rpc_dial_options *opt, const char *address,
				struct sl_err *err)
{
	struct rc_dial d = {.base = {.prepare = open_conn,
				     .undo = drop_conn,
				     .overlap = register_rings,
				     .arg = &d}};
	const struct rc_ring_sizes g = {.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	int rc;

	if (wireup_dial_init(&d.base, opt, SL_WIREUP_RC, address, err))
		return NULL;
	d.base.creq.bulk_len = g.bulk_len;
	rc = rc_ring_sizes_ok(&g) ? wireup_dial_run(&d.base) : -EINVAL;
	if (!rc && (rc = finish_connect(&d)))
		drop_conn(&d.base);
	sl_psk_wipe(&d.base.psk);
	if (rc) {
		sl_err_set(err, "rdma://%s: %s", address, error_text(&d.base, rc));
		return NULL;
	}
	rc_ifaces_schedule_refill();
	rc_conn_set_info(d.conn, opt->mem && !d.conn->mem ? " copies" : "");
	return &d.conn->base;
}

enum sl_rpc_probe_result sl_rc_probe_peer(const struct sl_rpc_dial_options *opt,
					  const char *address, uint32_t number)
{
	return wireup_probe(opt, SL_WIREUP_RC, address, number);
}
