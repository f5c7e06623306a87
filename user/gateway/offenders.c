/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/offender.h"
#include "core/top_refused.h"
#include "gateway/internal.h"

static bool overlaps(const struct sl_cfg_prefixes *p, const struct sl_addr *source)
{
	const unsigned most = source->family == 4 ? 32 : 64;

	for (uint32_t i = 0; i < p->cnt; i++) {
		const struct sl_addr_prefix *one = &p->list[i].of;
		unsigned len = one->len < most ? one->len : most, whole = len / 8, rest = len % 8;

		if (one->family == source->family && !memcmp(one->addr, source->addr, whole) &&
		    (!rest || !((one->addr[whole] ^ source->addr[whole]) >> (8 - rest))))
			return true;
	}
	return false;
}

static bool may_be_listed(const struct sl_config *cfg, const struct sl_addr *source)
{
	if (!cfg->penalty.after || overlaps(&cfg->penalty.except, source))
		return false;
	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		if (overlaps(&cfg->listeners[i].proxies, source))
			return false;
	}
	return true;
}

static void log_offender(struct sl_gateway *g, const struct sl_addr *source, uint64_t now_ns)
{
	const struct sl_cfg_penalty *p = &g->cfg->penalty;
	char text[SL_QUOTA_TEXT];

	if (now_ns < g->offenders.log_ns) {
		g->offenders.unlogged++;
		return;
	}
	g->offenders.log_ns = now_ns + SL_NS_PER_SEC;
	if (g->offenders.unlogged)
		sl_log_warn("penalty: %u more clients since the last line", g->offenders.unlogged);
	sl_log_warn("client %s: limits refused it more than %u times in %.9gs; its packets are "
		    "dropped for %.9gs",
		    sl_top_refused_text(source, text), p->after, (double)p->within_ns / 1e9,
		    (double)p->time_ns / 1e9);
	g->offenders.unlogged = 0;
}

static void list_source(struct sl_gateway *g, const struct sl_addr *source, uint64_t now_ns)
{
	const struct sl_xdp_offender o = {.key = sl_offender_key_of(source),
					  .until_ns = now_ns + g->cfg->penalty.time_ns};
	int rc = 0;

	if (!may_be_listed(g->cfg, source))
		return;
	for (uint32_t i = 0; i < g->xdp_cnt && !rc; i++)
		rc = sl_xdp_offender_add(&g->xdp[i], &o);
	if (!rc)
		log_offender(g, source, now_ns);
	else
		sl_log_warn("penalty: cannot list a client: %s", strerror(-rc));
}

struct keep_arg {
	const struct sl_config *cfg;
	uint64_t now_ns;
	bool recheck; /* after a reload */
};

static bool stays_listed(const void *arg, const struct sl_xdp_offender *o)
{
	const struct keep_arg *k = arg;
	const struct sl_addr source = sl_offender_addr(&o->key);

	return o->until_ns > k->now_ns && (!k->recheck || may_be_listed(k->cfg, &source));
}

void sl_offenders_follow(struct sl_gateway *g, uint64_t now_ns)
{
	const uint32_t number = g->generation->number;
	const struct keep_arg k = {
		.cfg = g->cfg, .now_ns = now_ns, .recheck = g->offenders.checked != number};
	struct sl_addr source;

	for (unsigned w = 0; w < g->worker_cnt; w++) {
		struct sl_ring *r = g->workers[w].core.offenders;

		for (unsigned i = 0; i < SL_OFFENDER_RING && sl_offender_take(r, &source); i++)
			list_source(g, &source, now_ns);
	}
	if (now_ns < g->offenders.tidy_ns)
		return;
	g->offenders.tidy_ns = now_ns + SL_NS_PER_SEC;
	for (uint32_t i = 0; i < g->xdp_cnt; i++)
		g->offenders.cnt[i] = sl_xdp_offenders_tidy(&g->xdp[i], stays_listed, &k);
	g->offenders.checked = number;
}

uint32_t sl_gateway_offenders(struct sl_gateway *g, const char *ifname,
			      struct sl_xdp_offender *list, uint32_t max)
{
	const struct sl_xdp *x = sl_gateway_find_xdp(g, ifname);

	return x ? sl_xdp_offenders_list(x, list, max) : 0;
}

int sl_gateway_unlist(struct sl_gateway *g, const char *ifname, const struct sl_addr *source)
{
	const struct sl_offender_key key = sl_offender_key_of(source);
	const struct sl_xdp *x = sl_gateway_find_xdp(g, ifname);

	g->offenders.tidy_ns = 0;
	return x ? sl_xdp_offender_remove(x, &key) : -ENODEV;
}
