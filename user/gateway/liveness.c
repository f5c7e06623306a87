/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes silent peers of virtual connections: a backend may compute in its I/O thread.
 *
 *   silent --PROBE_AFTER_NS--> probe --+-- peer knows the connection: keep waiting
 *                                      +-- peer has forgotten it: end the link at once
 *                                      +-- nothing listens there: end after DEAD_NS of silence
 */
#include "base/clock.h"
#include "base/log.h"
#include "core/pool.h"
#include "gateway/dial_impl.h"

enum { PROBE_TIMEOUT_MS = 500 };
#define PROBE_AFTER_NS (200 * SL_NS_PER_MS)
#define PROBE_AGAIN_NS (500 * SL_NS_PER_MS)
/* An attacker that can forge this answer can drop datagrams as well. */
#define DEAD_NS (3 * SL_NS_PER_SEC)

void sl_liveness_note(struct sl_dialer *d)
{
	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		struct worker_link *wl = &d->workers[i];

		wl->silent_ns = wl->number ? sl_rpc_channel_silent_ns(wl->backend->channel) : 0;
	}
}

uint64_t sl_liveness_due_ns(const struct sl_dialer *d, unsigned worker)
{
	const struct worker_link *wl = &d->workers[worker];
	uint64_t due = wl->silent_ns + PROBE_AFTER_NS;

	if (!wl->silent_ns || wl->offered || sl_backend_ref_state(wl->backend) != SL_BACKEND_UP)
		return UINT64_MAX;
	return due > wl->probe_ns ? due : wl->probe_ns;
}

void sl_liveness_probe(struct sl_dialer *d, struct sl_worker *w)
{
	struct worker_link *wl = &d->workers[w->index];
	enum sl_rpc_probe_result word = sl_dial_probe(d, w, PROBE_TIMEOUT_MS);
	uint64_t now_ns = sl_now_ns();
	bool dead = word == SL_RPC_PROBE_REFUSED && now_ns >= wl->silent_ns + DEAD_NS;

	wl->probe_ns = now_ns + PROBE_AGAIN_NS;
	if (word != SL_RPC_PROBE_REMOVED && !dead)
		return;
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO,
		     "backend %s/%s: reconnecting worker %u after %llu ms of silence: %s",
		     d->pool_name, d->backend.name, w->index,
		     (unsigned long long)((now_ns - wl->silent_ns) / SL_NS_PER_MS),
		     dead ? "nothing listens at its endpoint" : "it does not know the connection");
	(void)sl_dial_send(d, w, SL_WORKER_FORGET, NULL);
}
