/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dial_impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

const char *sl_dialer_endpoint(const struct sl_dialer *d, enum ep_kind ep)
{
	return ep == EP_PRIMARY     ? d->backend.endpoint
	       : ep == EP_BOOTSTRAP ? d->backend.first
				    : d->backend.fallback;
}

bool sl_dialer_used(const struct sl_dialer *d, unsigned worker)
{
	return atomic_load(&d->workers[worker].used);
}

static struct sl_rpc_dial_options options_of(const struct sl_dialer *d, const struct sl_worker *w,
					     const char *endpoint)
{
	struct sl_rpc_config rpc;

	sl_rpc_config_default(&rpc);
	return (struct sl_rpc_dial_options){
		.endpoint = endpoint,
		.key_file = d->backend.key_file,
		.timeout_ms = SL_DIAL_TIMEOUT_MS,
		.worker = (uint16_t)w->index,
		.rdma = {.source = d->backend.source,
			 .device = d->backend.device,
			 .port = d->backend.device_port,
			 .tos = d->backend.tos},
		.owner = d->backend.owner,
		.link = d->workers[w->index].link,
		.bulk_ring_len = rpc.bulk_ring_len,
		.slots = d->slots,
	};
}

struct sl_transport *sl_dial(struct sl_dialer *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err)
{
	struct sl_rpc_memory mem = {.addr = w->umem.area, .len = w->umem.area_len};
	struct sl_rpc_dial_options opt = options_of(d, w, endpoint);

	opt.mem = &mem;
	opt.resumes = goes_on;
	return sl_rpc_dial(&opt, err);
}

enum sl_rpc_probe_result sl_dial_probe(struct sl_dialer *d, const struct sl_worker *w,
				       unsigned timeout_ms)
{
	const struct worker_link *wl = &d->workers[w->index];
	struct sl_rpc_dial_options opt = options_of(d, w, sl_dialer_endpoint(d, wl->ep));

	opt.timeout_ms = timeout_ms;
	return sl_rpc_probe_peer(&opt, wl->number);
}

int sl_dial_send(struct sl_dialer *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t)
{
	struct worker_link *wl = &d->workers[w->index];
	struct sl_worker_msg *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	*m = (struct sl_worker_msg){
		.verb = verb, .backend = wl->backend, .transport = t, .number = wl->number};
	rc = sl_worker_send(w, m);
	if (rc)
		free(m);
	return rc;
}
