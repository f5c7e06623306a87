/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dial_impl.h"

static enum promo_state state_of(const struct worker_link *wl)
{
	if (wl->ep == EP_PRIMARY)
		return wl->to_ep == EP_PRIMARY ? PROMO_PROMOTED : PROMO_DEMOTING;
	return wl->to_ep == EP_PRIMARY ? PROMO_PROMOTED : PROMO_BOOTSTRAP;
}

static bool is_candidate(const struct sl_dialer *d, unsigned worker)
{
	return !d->stop && sl_backend_ref_state(d->workers[worker].backend) != SL_BACKEND_DOWN;
}

static void start_switch(struct promo_candidate *c, unsigned worker, enum ep_kind to_ep,
			 uint64_t now_ns)
{
	struct worker_link *wl = c ? sl_container_of(c, struct worker_link, promo) : NULL;

	if (!wl)
		return;
	wl->to_ep = to_ep;
	wl->next_ns = now_ns;
	sl_dial_timer_set(sl_container_of(wl - worker, struct sl_dialer, workers));
}

static void run_promo_round(struct sl_conn_mgr *cm, unsigned worker, uint64_t now_ns)
{
	struct promo_round a = {.max = cm->max_promoted};
	struct sl_list *at;

	sl_list_for_each (at, &cm->with_bootstrap) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, bootstrap_node);
		struct worker_link *wl = &d->workers[worker];
		struct sl_rpc_traffic t;

		if (!is_candidate(d, worker))
			continue;
		sl_rpc_channel_traffic(wl->backend->channel, &t);
		promo_candidate_note(&wl->promo, &t, now_ns);
		promo_round_count(&a, state_of(wl));
	}
	sl_list_for_each (at, &cm->with_bootstrap) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, bootstrap_node);
		struct worker_link *wl = &d->workers[worker];
		unsigned refused = a.refused;

		if (!is_candidate(d, worker))
			continue;
		promo_round_add(&a, &wl->promo, state_of(wl),
				!d->busy && wl->ep == wl->to_ep && now_ns >= wl->next_ns &&
					sl_backend_ref_state(wl->backend) == SL_BACKEND_UP,
				now_ns);
		wl->stats.promotions_refused += a.refused - refused;
	}
	promo_round_end(&a);
	start_switch(a.promote, worker, EP_PRIMARY, now_ns);
	start_switch(a.demote, worker, EP_BOOTSTRAP, now_ns);
}

void sl_promotion_update(struct sl_conn_mgr *cm, uint64_t now_ns)
{
	for (unsigned w = 0; w < cm->worker_cnt; w++)
		run_promo_round(cm, w, now_ns);
}
