/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links by virtual connections whose peers have not been heard for a while: they are asked after, beside
 * the data path, so that a backend that has started again is connected again in a moment, and one that
 * computes in the thread that answers is not taken for dead.
 *
 *   silent --PROBE_AFTER_NS--> asked: KNOWN: waits on; FORGOTTEN: ends at once; NOBODY: ends, if it has been
 *                            silent for DEAD_NS; no word: the pings of the RPC decide
 */
#include "base/clock.h"
#include "base/log.h"
#include "core/pool.h"
#include "gateway/dial_impl.h"

enum { PROBE_TIMEOUT_MS = 500 };
#define PROBE_AFTER_NS                                                                             \
	(200 * SL_NS_PER_MS) /* as long as a datagram waits at most to be sent again */
#define PROBE_AGAIN_NS (500 * SL_NS_PER_MS)
/* Whoever can forge NOBODY can also keep datagrams away, and by that end a connection. */
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
	enum sl_rpc_word word = sl_dial_probe(d, w, PROBE_TIMEOUT_MS);
	uint64_t now_ns = sl_now_ns();
	bool dead = word == SL_RPC_NOBODY && now_ns >= wl->silent_ns + DEAD_NS;

	wl->probe_ns = now_ns + PROBE_AGAIN_NS;
	if (word != SL_RPC_FORGOTTEN && !dead)
		return;
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO, "backend %s/%s: worker %u is %s, after %llu ms",
		     d->pool_name, d->backend.name, w->index,
		     dead ? "not heard, and nobody listens there" : "forgotten there",
		     (unsigned long long)((now_ns - wl->silent_ns) / SL_NS_PER_MS));
	(void)sl_dial_send(d, w, SL_WORKER_FORGET, NULL);
}
