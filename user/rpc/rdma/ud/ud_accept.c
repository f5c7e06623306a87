/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts virtual connections. The owner's thread handles requests: they cost no device object. */
#include "rpc/rdma/ud/ud_accept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/path.h"

enum {
	NONBLOCK_MAX = 16,
	RX_BUFS = 256,
	TX_BUFS = 64,
	UNCONFIRMED_MAX = 64,
	UNCONFIRMED_PER_HOST = UNCONFIRMED_MAX / 4, /* leaves room for other hosts */
	PORT_WATCH_FIRST_MS = 20,                   /* delay after a connection */
	PORT_WATCH_MS = 1000,
};

struct ud_listener {
	struct sl_rpc_listener base; /* fd: epoll */
	struct wireup_listener wireup;
	struct ud_iface *iface; /* open like the queue pair of `wireup` */
	uint64_t port_watch_ns; /* when to start watching the port; UINT64_MAX: watched */
	uint32_t slots;
	unsigned nonblock_budget;
	/* Granted connections without a datagram yet, oldest first, by ready_node. */
	struct sl_list unconfirmed;
	unsigned unconfirmed_cnt;
	bool iface_watched;
};

static struct ud_conn *create_conn(struct ud_listener *l, const struct sl_wireup_creq *h,
				   const struct sl_wireup_crep *a, struct ah_entry *n)
{
	const struct ud_conn_params terms = {.id = a->id,
					     .peer_id = h->id,
					     .slots = a->slots,
					     .mtu = a->mtu,
					     .peer_epoch = h->epoch,
					     .peer_worker = h->worker,
					     .link = h->link,
					     .resumes = h->flags & SL_HELLO_RESUME};
	struct ud_keys keys;

	ud_keys_derive(&l->wireup.psk, a, false, &keys);
	return ud_conn_new(&terms, &keys, n);
}

static void remove_unconfirmed(struct ud_listener *l, struct ud_conn *c)
{
	sl_list_del(&c->base.ready_node);
	l->base.unaccepted -= !c->base.resumes;
	if (--l->unconfirmed_cnt == 0 && l->iface_watched) {
		(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, l->iface->group.fd, NULL);
		l->iface_watched = false;
	}
}

static bool is_from_gid(const struct ud_conn *c, const uint8_t gid[16])
{
	return memcmp(c->ah_entry->gid, gid, sizeof(c->ah_entry->gid)) == 0;
}

static bool has_unconfirmed_room(const struct ud_listener *l, const uint8_t gid[16])
{
	unsigned host_cnt = 0;
	struct sl_list *at;

	sl_list_for_each (at, &l->unconfirmed)
		host_cnt += is_from_gid(sl_container_of(at, struct ud_conn, base.ready_node), gid);
	return l->unconfirmed_cnt < UNCONFIRMED_MAX && host_cnt < UNCONFIRMED_PER_HOST;
}

static void drop_repeated(struct ud_listener *l, const struct sl_wireup_creq *h)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &l->unconfirmed) {
		struct ud_conn *c = sl_container_of(at, struct ud_conn, base.ready_node);

		if (c->qpn || c->peer_id != h->id || c->base.peer_epoch != h->epoch ||
		    !is_from_gid(c, h->gid))
			continue;
		remove_unconfirmed(l, c);
		c->base.ops->close(&c->base);
	}
}

static bool is_iface_unwatched(const struct ud_listener *l)
{
	return !l->iface_watched && !l->iface->group.watched;
}

static void watch_iface(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (is_iface_unwatched(l))
		l->iface_watched =
			epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->iface->group.fd, &ev) == 0;
}

static bool add_unconfirmed(struct ud_listener *l, struct ud_conn *c)
{
	uint64_t watch_by_ns = c->created_ns + PORT_WATCH_FIRST_MS * SL_NS_PER_MS;

	if (ud_conn_attach_iface(c, l->iface))
		return false;
	watch_iface(l);
	sl_list_add_tail(&l->unconfirmed, &c->base.ready_node);
	l->base.unaccepted += !c->base.resumes;
	l->unconfirmed_cnt++;
	if (l->port_watch_ns != UINT64_MAX && watch_by_ns < l->port_watch_ns)
		l->port_watch_ns = watch_by_ns;
	return true;
}

static struct ud_listener *listener_of(struct wireup_listener *w)
{
	return sl_container_of(w, struct ud_listener, wireup);
}

static bool make_conn(struct ud_listener *l, const struct sl_wireup_creq *h,
		      struct sl_wireup_crep *a, struct ah_entry *n)
{
	struct ud_conn *c;

	wireup_crep_sign(&l->wireup.psk, h, a);
	ah_cache_hold(n);
	c = create_conn(l, h, a, n);
	if (!c) {
		ah_cache_put(n);
		ud_id_put(a->id);
		return false;
	}
	if (add_unconfirmed(l, c))
		return true;
	c->base.ops->close(&c->base);
	return false;
}

static enum sl_wireup_verdict grant_conn(struct wireup_listener *w, const struct sl_wireup_creq *h,
					 struct sl_wireup_crep *a, struct ah_entry *n)
{
	struct ud_listener *l = listener_of(w);

	a->slots = sl_rpc_at_most(h->slots, l->slots);
	a->mtu = sl_rpc_at_most(h->mtu, l->iface->qp->mtu);
	a->qpn = l->iface->qp->qpn;
	if (!ud_slots_ok(h->slots) || a->mtu < SL_UD_MTU_MIN)
		return SL_WIREUP_BAD_SIZES;
	drop_repeated(l, h);
	if (!has_unconfirmed_room(l, h->gid) || sl_rpc_listener_full(&l->base, h->flags))
		return SL_WIREUP_FULL;
	a->id = ud_id_get();
	return a->id && make_conn(l, h, a, n) ? SL_WIREUP_GRANTED : SL_WIREUP_FULL;
}

static bool has_conn(struct wireup_listener *w, const struct sl_wireup_creq *h)
{
	const struct ud_conn *c = ud_iface_find_peer(listener_of(w)->iface, h->epoch, h->id);

	return c && !c->error && !c->arq.bye;
}

static void poll_unconfirmed(struct ud_listener *l)
{
	struct sl_poll_group *group = &l->iface->group;

	group->ops->handle_event(group);
	group->ops->poll(group);
	if (!group->ops->arm(group)) {
		group->ops->poll(group);
		l->wireup.more |= !group->ops->arm(group);
	}
}

static struct sl_transport *take_confirmed(struct ud_listener *l)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &l->unconfirmed) {
		struct ud_conn *c = sl_container_of(at, struct ud_conn, base.ready_node);

		if (!c->qpn && !c->error)
			continue;
		remove_unconfirmed(l, c);
		if (!c->error)
			return &c->base;
		c->base.ops->close(&c->base);
	}
	return NULL;
}

static void close_iface(struct ud_listener *l)
{
	struct ud_conn *c;

	while (l->iface && (c = sl_list_first(&l->unconfirmed, struct ud_conn, base.ready_node))) {
		remove_unconfirmed(l, c);
		c->base.ops->close(&c->base);
	}
	if (l->iface)
		ud_iface_put(l->iface);
	l->iface = NULL;
}

/* Ends all connections, too. */
static void lose_iface(struct wireup_listener *w)
{
	ud_iface_fail(listener_of(w)->iface);
	close_iface(listener_of(w));
}

static int open_iface(struct wireup_listener *w)
{
	struct ud_listener *l = listener_of(w);
	int rc = 0;

	l->iface = ud_iface_new(&w->local, RDMA_GROUP_BACKEND, &rc);
	if (!l->iface)
		return rc;
	l->iface->refs = 1;
	l->port_watch_ns = sl_now_ns() + PORT_WATCH_MS * SL_NS_PER_MS;
	return 0;
}

static struct sl_transport *ud_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;
	struct sl_transport *t = take_confirmed(l);

	if (t)
		return t;
	wireup_listener_turn(&l->wireup, now_ns);
	if (!l->iface)
		return NULL;
	/* This may start a thread. */
	if (now_ns >= l->port_watch_ns)
		l->port_watch_ns = ud_iface_watch_port(l->iface) == 0
					   ? UINT64_MAX
					   : now_ns + PORT_WATCH_MS * SL_NS_PER_MS;
	(void)wireup_listener_drain(&l->wireup);
	if (l->unconfirmed_cnt) {
		watch_iface(l);
		poll_unconfirmed(l);
	}
	l->nonblock_budget = NONBLOCK_MAX;
	base->refused = l->wireup.refused;
	return take_confirmed(l);
}

/* Accepts, with a budget: a flood must not occupy a busy owner. */
static struct sl_transport *ud_poll_nonblock(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;
	int n = 0;

	(void)now_ns;
	if (!l->iface)
		return NULL;
	if (l->nonblock_budget)
		n = wireup_listener_poll(&l->wireup, l->nonblock_budget);
	if (n > 0)
		l->nonblock_budget -= (unsigned)n;
	if (!l->unconfirmed_cnt)
		return NULL;
	l->iface->group.ops->poll(&l->iface->group);
	return take_confirmed(l);
}

static uint64_t ud_next_ns(const struct sl_rpc_listener *base)
{
	const struct ud_listener *l = (const struct ud_listener *)base;
	const struct ud_conn *oldest =
		sl_list_first(&l->unconfirmed, struct ud_conn, base.ready_node);

	uint64_t next = wireup_listener_next_ns(&l->wireup);

	if (l->iface && l->unconfirmed_cnt && is_iface_unwatched(l))
		return 0;
	if (l->iface && l->port_watch_ns < next)
		next = l->port_watch_ns;
	if (oldest && oldest->created_ns + UD_CONFIRM_NS < next)
		next = oldest->created_ns + UD_CONFIRM_NS;
	return next;
}

static void ud_listener_close(struct sl_rpc_listener *base)
{
	struct ud_listener *l = (struct ud_listener *)base;

	close_iface(l);
	wireup_listener_fini(&l->wireup);
	if (base->fd >= 0)
		close(base->fd);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = ud_accept,
	.poll_nonblock = ud_poll_nonblock,
	.next_ns = ud_next_ns,
	.close = ud_listener_close,
};

struct sl_rpc_listener *sl_ud_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	static const struct wireup_listener_ops ops = {.opened = open_iface,
						       .lost = lose_iface,
						       .grant = grant_conn,
						       .has_conn = has_conn};
	struct ud_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	int rc;

	if (!l)
		return NULL;
	sl_list_init(&l->unconfirmed);
	l->slots = opt->slots;
	l->base.fd = epoll_create1(EPOLL_CLOEXEC);
	l->wireup = (struct wireup_listener){.ops = &ops,
					     .want = SL_WIREUP_UD,
					     .rx_cnt = RX_BUFS,
					     .tx_cnt = TX_BUFS,
					     .epoll_fd = l->base.fd};
	rc = wireup_listener_init(&l->wireup, opt->address, opt->key_file, err);
	if (!rc)
		return &l->base;
	ud_listener_close(&l->base);
	return NULL;
}
