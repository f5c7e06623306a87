/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "rpc/rdma/info.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/ud/ud_accept.h"
#include "rpc/rdma/ud/ud_iface.h"

static int prepare_iface(struct wireup_dial *d)
{
	uint32_t mtu = 0;
	int rc = ud_iface_prepare(&d->host.local, d->opt->worker, &mtu);

	d->creq.mtu = sl_rpc_at_most(d->creq.mtu, mtu);
	if (!rc && d->creq.mtu < SL_UD_MTU_MIN) {
		d->why = "the path MTU is too small: interfaces on the path need an MTU of 1100";
		rc = -EMSGSIZE;
	}
	return rc;
}

static int create_conn(struct wireup_dial *d, struct ud_conn **c)
{
	const struct sl_wireup_creq *creq = &d->creq;
	const struct sl_wireup_crep *a = &d->crep;
	struct ud_conn_params terms = {.id = creq->id,
				       .peer_id = a->id,
				       .qpn = a->qpn,
				       .slots = a->slots,
				       .mtu = a->mtu,
				       .peer_epoch = a->epoch,
				       .worker = d->opt->worker,
				       .link = d->opt->link,
				       .resumes = d->opt->resumes};
	struct ah_entry *n;
	struct ud_keys keys;

	if (!ud_slots_ok(a->slots) || a->slots > creq->slots || a->mtu < SL_UD_MTU_MIN ||
	    a->mtu > creq->mtu)
		return -EBADMSG;
	ud_keys_derive(&d->psk, a, true, &keys);
	n = ah_cache_get(&d->host.local, d->host.gid, creq->tos);
	*c = n ? ud_conn_new(&terms, &keys, n) : NULL;
	if (n && !*c)
		ah_cache_put(n);
	return *c ? 0 : -ENOMEM;
}

static int connect_conn(struct wireup_dial *d, struct ud_conn **c)
{
	int rc;

	d->creq.id = ud_id_get();
	if (!d->creq.id)
		return -EUSERS;
	rc = ud_slots_ok(d->creq.slots) ? wireup_dial_run(d) : -EINVAL;
	if (!rc)
		rc = create_conn(d, c);
	if (rc)
		ud_id_put(d->creq.id);
	return rc;
}

static struct sl_transport *sl_ud_dial(const struct sl_rpc_dial_options *opt, const char *address,
				       struct sl_err *err)
{
	struct wireup_dial d = {.prepare = prepare_iface};
	struct ud_conn *c = NULL;
	int rc;

	if (wireup_dial_init(&d, opt, SL_WIREUP_UD, address, err))
		return NULL;
	rc = connect_conn(&d, &c);
	sl_psk_wipe(&d.psk);
	if (rc) {
		sl_err_set(err, "rdma+ud://%s: %s", address, d.why ? d.why : strerror(-rc));
		return NULL;
	}
	snprintf(c->base.info, sizeof(c->base.info), "ud %s, %u slots, datagrams of %u bytes",
		 d.host.local.name, d.crep.slots, d.crep.mtu);
	return &c->base;
}

static enum sl_rpc_probe_result sl_ud_probe_peer(const struct sl_rpc_dial_options *opt,
						 const char *address, uint32_t number)
{
	return wireup_probe(opt, SL_WIREUP_UD, address, number);
}

const struct sl_transport_scheme sl_ud_scheme = {
	.scheme = "rdma+ud",
	.route_info = sl_rdma_route_info,
	.preload = sl_rdma_preload,
	.dial = sl_ud_dial,
	.probe_peer = sl_ud_probe_peer,
	.listen = sl_ud_listen,
};
