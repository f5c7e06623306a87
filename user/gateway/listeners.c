/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/pool.h"
#include "gateway/dial.h"

static uint16_t shed_service(const struct sl_cfg_gen *ed)
{
	const struct sl_config *cfg = ed->cfg;
	int32_t pool = -1;

	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (cfg->routes[i].pool < 0)
			continue;
		if ((cfg->routes[i].pools &&
		     (cfg->routes[i].pools->match_cnt || cfg->routes[i].pools->split.pool >= 0)) ||
		    (pool >= 0 && cfg->routes[i].pool != pool))
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

			if (cl->socket || (cl->at.family && cl->at.family != families[k >> 1]) ||
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

static bool is_any(const struct sl_net_listener *l)
{
	static const uint8_t any[16];

	return memcmp(l->at.addr, any, sizeof(any)) == 0;
}

struct entry {
	struct sl_xdp_listener l;
	uint32_t rank; /* the lowest of a key is in force */
};

struct entries {
	struct entry *list;
	uint32_t cnt, rank;
	uint16_t shed_service;
};

static void add_listener(const struct sl_gateway *g, struct entries *e,
			 const struct sl_net_listener *l)
{
	const struct entry entry = {
		.l = {key_of(l), {.listener = l->listener, .shed_service = e->shed_service}},
		.rank = e->rank + is_any(l),
	};

	if (!is_any(l)) {
		e->list[e->cnt++] = entry;
		return;
	}
	for (uint32_t i = 0; i < g->host.addr_cnt; i++) {
		const struct sl_addr *a = &g->host.addrs[i];

		if (a->family != l->at.family)
			continue;
		e->list[e->cnt] = entry;
		memcpy(e->list[e->cnt++].l.key.addr, a->addr, sizeof(a->addr));
	}
}

static void add_local_ports(const struct sl_gateway *g, struct entries *e)
{
	static const uint8_t families[] = {4, 6}, any[16];

	e->shed_service = SL_ANY_SERVICE;
	for (unsigned i = 0; g->cfg->limits.port_first && i < SL_ARRAY_LEN(families); i++)
		add_listener(g, e,
			     &(struct sl_net_listener){
				     .at = sl_addr_of(families[i], any,
						      htobe16(g->cfg->limits.port_first)),
				     .protocol = IPPROTO_TCP,
			     });
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int by_key = sl_xdp_compare_listeners(&x->l, &y->l);

	return by_key ? by_key : (x->rank > y->rank) - (x->rank < y->rank);
}

/*
 * Returns all entries, sorted, each key once, for the caller to free. An exact address precedes
 * "*", and a listener in force a removed one.
 */
static struct sl_xdp_listener *list_entries(const struct sl_gateway *g, uint32_t *cnt)
{
	const size_t max =
		(g->listening_cnt + g->stale_cnt + 2) * ((size_t)g->host.addr_cnt + 1) + 1;
	struct entries e = {.shed_service = shed_service(g->generation)};
	struct sl_xdp_listener *list = calloc(max, sizeof(*list));

	*cnt = 0;
	e.list = calloc(max, sizeof(*e.list));
	if (list && e.list) {
		for (uint32_t i = 0; i < g->listening_cnt; i++)
			add_listener(g, &e, &g->listening[i]);
		e.rank = 2;
		for (uint32_t i = 0; i < g->stale_cnt; i++)
			add_listener(g, &e, &g->stale[i]);
		add_local_ports(g, &e);
		qsort(e.list, e.cnt, sizeof(*e.list), compare_entries);
		for (uint32_t i = 0; i < e.cnt; i++) {
			if (!*cnt || sl_xdp_compare_listeners(&list[*cnt - 1], &e.list[i].l))
				list[(*cnt)++] = e.list[i].l;
		}
	} else {
		free(list);
		list = NULL;
	}
	free(e.list);
	return list;
}

static int write_entries(struct sl_gateway *g)
{
	uint32_t cnt;
	struct sl_xdp_listener *list = list_entries(g, &cnt);
	int rc = list ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < g->xdp_cnt && !rc; i++)
		rc = sl_xdp_set_listeners(&g->xdp[i], list, cnt);
	free(list);
	return rc;
}

static void add_unix_socket(struct sl_worker_msg *m, const struct sl_unix_socket *s)
{
	int fd = s->serves ? fcntl(s->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (fd >= 0)
		m->listeners[m->listener_cnt++] =
			(struct sl_sock_listener){.fd = fd,
						  .id = s->id,
						  .listener = s->listener,
						  .name = sl_unix_socket_name(s)};
	else if (s->serves)
		sl_log_err("cannot pass a listening socket: %s", strerror(errno));
}

static void tell_worker(const struct sl_gateway *g, struct sl_worker *w)
{
	struct sl_worker_msg m = {.verb = SL_WORKER_LISTEN};

	m.listeners = calloc(g->ports.cnt + g->unix_sockets.cnt + 1, sizeof(*m.listeners));
	if (!m.listeners) {
		sl_log_err("cannot pass listening sockets: out of memory");
		return;
	}
	memcpy(m.excluded, g->ports.excluded, sizeof(m.excluded));
	m.excluded_cnt = g->ports.excluded_cnt;
	for (uint32_t i = 0; i < g->unix_sockets.cnt; i++)
		add_unix_socket(&m, &g->unix_sockets.list[i]);
	for (uint32_t i = 0; i < g->ports.cnt; i++) {
		const struct sl_port_socket *s = &g->ports.list[i];
		int fd = s->listening ? fcntl(s->fd, F_DUPFD_CLOEXEC, 0) : -1;

		if (fd >= 0)
			m.listeners[m.listener_cnt++] = (struct sl_sock_listener){
				.fd = fd, .id = s->id, .listener = SL_SOCK_BY_ADDRESS};
		else if (s->listening)
			sl_log_err("cannot pass a listening socket: %s", strerror(errno));
	}
	if (sl_worker_tell(w, &m) == 0)
		return;
	sl_log_err("cannot pass listening sockets: out of memory");
	for (uint32_t i = 0; i < m.listener_cnt; i++)
		close(m.listeners[i].fd);
	free(m.listeners);
}

void sl_listeners_tell_workers(struct sl_gateway *g)
{
	if (!g->ports.changed && !g->unix_sockets.changed)
		return;
	g->ports.changed = g->unix_sockets.changed = false;
	for (unsigned i = 0; i < g->worker_cnt; i++)
		tell_worker(g, &g->workers[i]);
}

void sl_listeners_follow_ports(struct sl_gateway *g)
{
	struct sl_ports_want now = {g->listening, g->listening_cnt}, next = {0};
	bool serves = !g->opening && !g->draining;

	if (g->opening)
		now = (struct sl_ports_want){g->opening, g->opening_cnt};
	if (g->next)
		next = (struct sl_ports_want){g->next->wcfgs[0]->listeners,
					      g->next->wcfgs[0]->listener_cnt};
	sl_ports_follow(&g->ports, serves ? g->cfg : NULL, now,
			(struct sl_ports_want){g->stale, g->stale_cnt}, next);
	sl_unix_sockets_follow(&g->unix_sockets, g->draining ? NULL : g->cfg,
			       g->next ? g->next->cfg : NULL);
	sl_listeners_tell_workers(g);
}

void sl_listeners_trim(struct sl_gateway *g)
{
	int rc;

	g->stale_cnt = 0;
	sl_listeners_follow_ports(g);
	rc = write_entries(g);
	if (rc)
		sl_log_err("cannot remove listeners: %s", strerror(-rc));
}

static void log_mtu(const struct sl_xdp *x, uint32_t mtu, uint32_t most)
{
	if (mtu > most)
		sl_log_warn("interface %s: the MTU changed from %u to %u; packets longer than %u "
			    "are dropped until a restart",
			    x->ifname, x->mtu, mtu, most);
	else if (mtu != x->mtu)
		sl_log_info("interface %s: the MTU changed from %u to %u", x->ifname, x->mtu, mtu);
}

static int follow_link(struct sl_gateway *g, struct sl_xdp *x, const struct sl_host_link *link)
{
	const uint32_t mtu = link->mtu ? link->mtu : x->mtu;
	struct sl_worker_msg msg = {
		.verb = SL_WORKER_LINK,
		.ifindex = x->ifindex,
		.number = mtu,
	};
	int rc = 0;

	if (mtu == x->mtu && memcmp(link->mac, x->mac, sizeof(x->mac)) == 0)
		return 0;
	memcpy(msg.mac, link->mac, sizeof(msg.mac));
	for (unsigned w = 0; w < g->worker_cnt && !rc; w++)
		rc = sl_worker_tell(&g->workers[w], &msg);
	if (!rc)
		rc = sl_xdp_edge_mac(x, link->mac);
	if (rc)
		return rc;
	log_mtu(x, mtu,
		sl_gateway_takes_chains(g, x) ? SL_MTU_MAX : sl_port_frame_mtu(g->frame_size));
	x->mtu = mtu;
	memcpy(x->mac, link->mac, sizeof(x->mac));
	return 0;
}

void sl_listeners_exclude_links(struct sl_gateway *g)
{
	int ifindex[SL_CFG_MAX_INTERFACES];

	for (uint32_t i = 0; i < g->xdp_cnt; i++)
		ifindex[i] = g->xdp[i].ifindex;
	sl_ports_exclude(&g->ports, ifindex, g->xdp_cnt);
}

void sl_listeners_follow_host(struct sl_gateway *g, uint64_t now_ns)
{
	int rc = 0;

	if (!sl_host_addrs_poll(&g->host, now_ns))
		return;
	sl_listeners_exclude_links(g);
	for (uint32_t i = 0; i < g->xdp_cnt && !rc; i++) {
		const struct sl_host_link *link = sl_host_addrs_link(&g->host, g->xdp[i].ifname);

		if (link)
			rc = follow_link(g, &g->xdp[i], link);
	}
	if (!rc)
		rc = write_entries(g);
	if (rc)
		sl_log_err("cannot follow the host's %u addresses: %s", g->host.addr_cnt,
			   rc == -E2BIG ? "no room in map sl_listeners; list the served addresses "
					  "instead of \"*\""
					: strerror(-rc));
}

void sl_listeners_open(struct sl_gateway *g)
{
	struct sl_net_listener *list = g->opening;
	int rc;

	if (!list || (!sl_hash_rings_tried(g->conn_mgr) && sl_now_ns() < g->open_until_ns))
		return;
	g->opening = NULL;
	rc = sl_listeners_apply(g, list, g->opening_cnt);
	if (rc)
		sl_log_err("cannot set the listeners: %s", strerror(-rc));
}

int sl_listeners_apply(struct sl_gateway *g, struct sl_net_listener *list, uint32_t cnt)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < g->stale_cnt; k++) {
		if (!is_listed(list, cnt, &g->stale[k]))
			g->stale[kept++] = g->stale[k];
	}
	g->stale_cnt = kept;
	free(g->opening); /* a reload was faster */
	g->opening = NULL;
	for (uint32_t k = 0; k < g->listening_cnt; k++) {
		if (is_listed(list, cnt, &g->listening[k]))
			continue;
		if (g->stale_cnt == SL_MAX_LISTENERS) /* no room: removes these now */
			sl_listeners_trim(g);
		g->stale[g->stale_cnt++] = g->listening[k];
	}
	free(g->listening);
	g->listening = list;
	g->listening_cnt = cnt;
	sl_listeners_follow_ports(g);
	return write_entries(g);
}
