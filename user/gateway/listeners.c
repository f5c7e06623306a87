/* SPDX-License-Identifier: Apache-2.0 */
/* From the configuration's listeners to what the program on the interfaces sends to us. */
#include "gateway/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/dial.h"

/* The service whose overload refuses connections: that of all routes, if they share one. */
static uint16_t shed_service(const struct sl_cfg_gen *ed)
{
	const struct sl_config *cfg = ed->cfg;
	int32_t pool = -1;

	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (cfg->routes[i].pool < 0)
			continue;
		if (pool >= 0 && cfg->routes[i].pool != pool)
			return SL_ANY_SERVICE;
		pool = cfg->routes[i].pool;
	}
	return pool < 0 ? SL_ANY_SERVICE : (uint16_t)ed->slots[pool];
}

struct sl_net_listener *sl_listeners_list(const struct sl_config *cfg, uint32_t *cnt)
{
	static const uint8_t families[] = {4, 6}, protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct sl_net_listener *list = calloc(SL_MAX_LISTENERS, sizeof(*list));

	*cnt = 0;
	for (uint32_t i = 0; list && i < cfg->listener_cnt; i++) {
		const struct sl_cfg_listener *cl = &cfg->listeners[i];

		for (unsigned k = 0; k < 4; k++) {
			bool tcp = protocols[k & 1] == IPPROTO_TCP;

			if ((cl->at.family && cl->at.family != families[k >> 1]) ||
			    !(tcp ? cl->http : cl->datagram))
				continue;
			if (*cnt == SL_MAX_LISTENERS) {
				free(list);
				errno = E2BIG;
				return NULL;
			}
			list[(*cnt)++] = (struct sl_net_listener){
				.at = sl_addr_of(families[k >> 1], cl->at.addr, cl->at.port_be),
				.protocol = protocols[k & 1],
				.listener = (uint16_t)i,
			};
		}
	}
	return list;
}

static struct sl_listener_key key_of(const struct sl_net_listener *l)
{
	struct sl_listener_key key = {
		.port = l->at.port_be, .family = l->at.family, .protocol = l->protocol};

	memcpy(key.addr, l->at.addr, sizeof(key.addr));
	return key;
}

static bool is_listed(const struct sl_net_listener *list, uint32_t cnt,
		      const struct sl_net_listener *wanted)
{
	struct sl_listener_key want = key_of(wanted);

	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_listener_key key = key_of(&list[i]);

		if (memcmp(&key, &want, sizeof(key)) == 0)
			return true;
	}
	return false;
}

void sl_listeners_trim(struct sl_gateway *g)
{
	for (uint32_t k = 0; k < g->stale_cnt; k++) {
		struct sl_listener_key key = key_of(&g->stale[k]);

		for (uint32_t i = 0; i < g->xdp_cnt; i++)
			(void)sl_xdp_unlisten(&g->xdp[i], &key);
	}
	g->stale_cnt = 0;
}

/* Clients that came sooner would be told that there is no backend. */
void sl_listeners_open(struct sl_gateway *g)
{
	struct sl_net_listener *list = g->opening;
	int rc;

	if (!list || (!sl_hash_rings_tried(g->conn_mgr) && sl_now_ns() < g->open_until_ns))
		return;
	g->opening = NULL;
	rc = sl_listeners_apply(g, g->generation, list, g->opening_cnt);
	if (rc)
		sl_log_err("cannot set the listeners: %s", strerror(-rc));
}

int sl_listeners_apply(struct sl_gateway *g, const struct sl_cfg_gen *ed,
		       struct sl_net_listener *list, uint32_t cnt)
{
	struct sl_listener value = {.shed_service = shed_service(ed)};
	uint32_t kept = 0;
	int rc = 0;

	/* Moves those that are not listed any more from one list to the other. */
	for (uint32_t k = 0; k < g->stale_cnt; k++) {
		if (!is_listed(list, cnt, &g->stale[k]))
			g->stale[kept++] = g->stale[k];
	}
	g->stale_cnt = kept;
	free(g->opening); /* a reload was sooner */
	g->opening = NULL;
	for (uint32_t k = 0; k < g->listening_cnt; k++) {
		if (is_listed(list, cnt, &g->listening[k]))
			continue;
		if (g->stale_cnt == SL_MAX_LISTENERS) /* then without the courtesy */
			sl_listeners_trim(g);
		g->stale[g->stale_cnt++] = g->listening[k];
	}
	free(g->listening);
	g->listening = list;
	g->listening_cnt = cnt;
	for (uint32_t i = 0; i < g->xdp_cnt; i++) {
		for (uint32_t k = 0; k < cnt && !rc; k++) {
			struct sl_listener_key key = key_of(&list[k]);

			value.listener = list[k].listener;
			rc = sl_xdp_listen(&g->xdp[i], &key, &value);
		}
	}
	return rc;
}
