/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/dial_impl.h"

enum {
	RETRY_MIN_MS = 1000,
	RETRY_MAX_MS = 30000,
	SWITCH_MS = 30000,
};

static enum ep_kind resting_ep(const struct sl_dialer *d, enum ep_kind ep)
{
	return ep != EP_FALLBACK ? ep : d->backend.first ? EP_BOOTSTRAP : EP_PRIMARY;
}

void sl_ep_switch_reset(struct sl_dialer *d, unsigned worker, enum ep_kind ep, bool broke)
{
	struct worker_link *wl = &d->workers[worker];
	uint64_t now_ns = sl_now_ns();
	struct sl_rpc_traffic t;

	wl->ep = ep;
	wl->to_ep = resting_ep(d, ep);
	wl->retry_ms = RETRY_MIN_MS;
	wl->next_ns = now_ns + (ep == EP_FALLBACK || broke ? RETRY_MIN_MS * SL_NS_PER_MS : 0);
	wl->offered = wl->peer_mismatch = false;
	wl->silent_ns = wl->probe_ns = 0;
	if (d->stop)
		return; /* the backend may be freed soon */
	sl_rpc_channel_traffic(wl->backend->channel, &t);
	promo_candidate_begin(&wl->promo, &t, now_ns);
}

uint64_t sl_ep_switch_due_ns(const struct sl_dialer *d, unsigned worker)
{
	const struct worker_link *wl = &d->workers[worker];
	bool due = wl->to_ep != wl->ep && !wl->offered;

	return due && sl_backend_ref_state(wl->backend) == SL_BACKEND_UP ? wl->next_ns : UINT64_MAX;
}

static void retry_later(struct sl_dialer *d, struct worker_link *wl, uint64_t now_ns)
{
	wl->offered = false;
	wl->to_ep = resting_ep(d, wl->ep);
	wl->next_ns = now_ns + wl->retry_ms * SL_NS_PER_MS;
	wl->retry_ms = wl->retry_ms < RETRY_MAX_MS / 2 ? 2 * wl->retry_ms : RETRY_MAX_MS;
}

static bool is_same_peer(struct sl_dialer *d, struct worker_link *wl, unsigned worker,
			 const struct sl_transport *t)
{
	if (sl_rpc_transport_peer(t) == wl->peer)
		return true;
	if (!wl->peer_mismatch)
		sl_log_warn("backend %s/%s: %s answers, but is another process than %s; worker %u "
			    "does not switch",
			    d->pool_name, d->backend.name, sl_dialer_endpoint(d, wl->to_ep),
			    sl_dialer_endpoint(d, wl->ep), worker);
	wl->peer_mismatch = true;
	return false;
}

void sl_ep_switch_try(struct sl_dialer *d, struct sl_worker *w)
{
	struct sl_err err = SL_ERR(160);
	struct worker_link *wl = &d->workers[w->index];
	struct sl_transport *t = sl_dial(d, w, sl_dialer_endpoint(d, wl->to_ep), true, &err);
	bool handed = false;

	pthread_mutex_lock(&d->mgr->lock);
	if (t && is_same_peer(d, wl, w->index, t)) {
		snprintf(wl->next_text, sizeof(wl->next_text), "%s", sl_rpc_transport_info(t));
		wl->switched_cnt = atomic_load(&wl->backend->switched_cnt);
		wl->stayed_cnt = atomic_load(&wl->backend->stayed_cnt);
		wl->next_number = sl_rpc_transport_number(t);
		handed = sl_dial_send(d, w, SL_WORKER_ADOPT, t) == 0;
	}
	if (handed) {
		wl->offered = true;
		wl->next_ns = sl_now_ns() + SWITCH_MS * SL_NS_PER_MS;
	} else {
		retry_later(d, wl, sl_now_ns());
	}
	pthread_mutex_unlock(&d->mgr->lock);
	if (!handed)
		sl_rpc_dial_drop(t);
}

static void count_switch(struct sl_dialer *d, struct worker_link *wl, unsigned worker)
{
	wl->stats.promotions += wl->ep == EP_BOOTSTRAP;
	wl->stats.demotions += wl->to_ep == EP_BOOTSTRAP && wl->ep == EP_PRIMARY;
	if (wl->to_ep == EP_PRIMARY)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO,
			     "backend %s/%s: worker %u switched to the primary endpoint, %s",
			     d->pool_name, d->backend.name, worker, wl->next_text);
	else
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO,
			     "backend %s/%s: worker %u switched to the bootstrap endpoint, %s",
			     d->pool_name, d->backend.name, worker, wl->next_text);
}

void sl_ep_switch_note(struct sl_dialer *d, uint64_t now_ns)
{
	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		struct worker_link *wl = &d->workers[i];

		if (!wl->offered)
			continue;
		if (atomic_load(&wl->backend->switched_cnt) != wl->switched_cnt) {
			count_switch(d, wl, i);
			wl->ep = wl->to_ep;
			wl->number = wl->next_number;
			wl->offered = wl->peer_mismatch = false;
			wl->retry_ms = RETRY_MIN_MS;
			wl->next_ns = now_ns;
			memcpy(wl->text, wl->next_text, sizeof(wl->text));
		} else if (atomic_load(&wl->backend->stayed_cnt) != wl->stayed_cnt ||
			   now_ns >= wl->next_ns) {
			retry_later(d, wl, now_ns);
		}
	}
}
