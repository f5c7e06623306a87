/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts virtual connections. Each request costs a MAC and some memory, but no device object, so
 * the owner's thread handles them.
 */
#include "rpc/rdma/ud/ud_accept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/auth.h"
#include "rpc/rdma/path.h"

enum {
	BATCH_MAX = 16,
	BATCHES = 4,
	RX_BUFS = 256,
	TX_BUFS = 64,
	UNCONFIRMED_MAX = 64,
	UNCONFIRMED_PER_HOST = UNCONFIRMED_MAX / 4, /* leaves room for other hosts */
	RELISTEN_MIN_MS = 10,
	RELISTEN_MAX_MS = 1000,
	PORT_WATCH_FIRST_MS = 20, /* delay after a connection */
	PORT_WATCH_MS = 1000,
};

_Static_assert((int)SL_UD_SENDER_ID_LEN == (int)AUTH_SENDER_ID_LEN, "sender ids are of one kind");

struct ud_listener {
	struct sl_rpc_listener base; /* fd: epoll */
	struct sockaddr_storage sa;
	struct sidr_service *sidr; /* NULL: opened again at retry_ns */
	uint64_t retry_ns;
	unsigned retry_ms;
	struct rdma_local local; /* of wireup_qp and iface */
	struct ud_qp *wireup_qp; /* NULL, like iface: the device has gone */
	struct ud_iface *iface;
	uint64_t port_watch_ns; /* when to start watching the port; UINT64_MAX: watched */
	struct sl_psk psk;
	struct replay_filter replay;
	uint32_t slots;
	bool more; /* requests are left, and no event will report them */
	/* requests that poll_nonblock() may still handle before the next accept() */
	unsigned nonblock_budget;
	/*
	 * Granted connections, oldest first, without a datagram yet; linked by ready_node. A
	 * repeated request does not get the earlier reply again.
	 */
	struct sl_list unconfirmed;
	unsigned unconfirmed_cnt;
	/* the interface's fd is in the epoll set, for unconfirmed connections */
	bool iface_watched;
	struct ud_nonce next_nonce;
};

static struct ud_conn *create_conn(struct ud_listener *l, const struct sl_ud_creq *h,
				   const struct sl_ud_crep *a, struct ah_entry *n)
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

	ud_keys_derive(&l->psk, a, false, &keys);
	return ud_conn_new(&terms, &keys, n);
}

static void send_crep(struct ud_listener *l, const struct sl_ud_creq *h, const struct sl_ud_crep *a,
		      struct ah_entry *n)
{
	uint8_t *to = rdma_device->tx_buf(l->wireup_qp);

	if (!to)
		return; /* equivalent to a lost reply */
	memcpy(to, a, sizeof(*a));
	rdma_device->send(l->wireup_qp, n->ah, h->answer_qpn, sizeof(*a));
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

/* A repeated request replaces the pending connection of the first. */
static void drop_repeated(struct ud_listener *l, const struct sl_ud_creq *h)
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

/* Returns true if nothing wakes the owner when a connection confirms. */
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

/* Returns false if there is no room, which the client is told. */
static bool grant_conn(struct ud_listener *l, const struct sl_ud_creq *h, struct sl_ud_crep *a,
		       struct ah_entry *n)
{
	struct ud_conn *c = NULL;

	drop_repeated(l, h);
	if (!has_unconfirmed_room(l, h->gid) || sl_rpc_listener_full(&l->base, h->flags))
		return false;
	a->id = ud_id_get();
	if (a->id && !ud_nonce_take(&l->next_nonce, a->nonce, sizeof(a->nonce))) {
		ud_crep_sign(&l->psk, h, a);
		c = create_conn(l, h, a, n);
	}
	if (!c && a->id)
		ud_id_put(a->id);
	if (c && !add_unconfirmed(l, c)) {
		/* The connection and the caller each release a reference. */
		(void)ah_cache_get(&l->local, h->gid, h->tos);
		c->base.ops->close(&c->base);
		c = NULL;
	}
	return c != NULL;
}

static bool has_conn(const struct ud_listener *l, const struct sl_ud_creq *h)
{
	const struct ud_conn *c = ud_iface_find_peer(l->iface, h->epoch, h->id);

	return c && !c->error && !c->arq.bye;
}

static void handle_creq(struct ud_listener *l, const struct ud_packet *p,
			const struct sl_ud_creq *h)
{
	uint32_t mtu = sl_rpc_at_most(h->mtu, l->iface->qp->mtu);
	struct sl_ud_crep a = {.magic = SL_UD_WIREUP_MAGIC,
			       .version = SL_UD_VERSION,
			       .verdict = SL_UD_GRANTED,
			       .epoch = sl_rpc_boot_epoch(),
			       .number = h->number,
			       .slots = sl_rpc_at_most(h->slots, l->slots),
			       .mtu = mtu,
			       .qpn = l->iface->qp->qpn};
	struct ah_entry *n = NULL;

	/* Only an acceptable request uses up its number. */
	if (h->magic == SL_UD_WIREUP_MAGIC && h->version == SL_UD_VERSION &&
	    ud_creq_verify(&l->psk, h, l->local.gid, l->wireup_qp->qpn) &&
	    ud_packet_is_from(p, h->gid) && ud_slots_ok(h->slots) && mtu >= SL_UD_MTU_MIN &&
	    replay_filter_accept(&l->replay, auth_sender_id_word(h->sender_id), h->number))
		n = ah_cache_get_nowait(&l->local, h->gid, h->tos);
	if (!n) {
		l->base.refused++;
		return;
	}
	if (h->flags & SL_HELLO_EP_CHECK) {
		a.verdict = has_conn(l, h) ? SL_UD_EP_ALIVE : SL_UD_EP_REMOVED;
	} else if (grant_conn(l, h, &a, n)) {
		send_crep(l, h, &a, n);
		return;
	} else {
		l->base.refused++;
		a.verdict = SL_UD_FULL;
	}
	ud_crep_sign(&l->psk, h, &a);
	send_crep(l, h, &a, n);
	ah_cache_put(n);
}

static unsigned poll_creqs(struct ud_listener *l, unsigned max)
{
	SL_UNINIT struct ud_packet packets[BATCH_MAX];
	int n = rdma_device->poll(l->wireup_qp, packets, max);

	for (int i = 0; i < n; i++) {
		struct sl_ud_creq h = {.magic = 0};

		if (packets[i].len == sizeof(h))
			memcpy(&h, packets[i].bytes, sizeof(h));
		handle_creq(l, &packets[i], &h);
	}
	(void)rdma_device->flush(l->wireup_qp);
	if (n > 0) {
		(void)rdma_device->repost(l->wireup_qp, packets, (unsigned)n);
		ud_nonce_draw(&l->next_nonce);
	}
	return n > 0 ? (unsigned)n : 0;
}

/* Handles requests. Afterwards the QP is armed, or `more` is set. */
static void drain_creqs(struct ud_listener *l)
{
	unsigned batches = 0;

	do {
		rdma_device->ack_event(l->wireup_qp);
		l->more = poll_creqs(l, BATCH_MAX) == BATCH_MAX;
	} while ((l->more || !rdma_device->arm(l->wireup_qp)) && ++batches < BATCHES);
	l->more |= batches == BATCHES;
}

static void poll_unconfirmed(struct ud_listener *l)
{
	struct sl_poll_group *group = &l->iface->group;

	group->ops->handle_event(group);
	group->ops->poll(group);
	if (!group->ops->arm(group)) {
		group->ops->poll(group);
		l->more |= !group->ops->arm(group);
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

static void close_local(struct ud_listener *l)
{
	struct ud_conn *c;

	while (l->iface && (c = sl_list_first(&l->unconfirmed, struct ud_conn, base.ready_node))) {
		remove_unconfirmed(l, c);
		c->base.ops->close(&c->base);
	}
	if (l->iface)
		ud_iface_put(l->iface);
	if (l->wireup_qp)
		rdma_device->close(l->wireup_qp);
	l->iface = NULL;
	l->wireup_qp = NULL;
}

/* Ends all connections, too. */
static void fail_local(struct ud_listener *l)
{
	ud_iface_fail(l->iface);
	close_local(l);
}

/* Returns 0, or -errno and leaves nothing open. */
static int open_local(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;

	l->local = l->sidr->local;
	l->wireup_qp = rdma_device->open(&l->local, RDMA_GROUP_BACKEND, RX_BUFS, TX_BUFS, &rc);
	if (!l->wireup_qp)
		return rc;
	if (epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->wireup_qp->fd, &ev) < 0)
		rc = -errno;
	else
		l->iface = ud_iface_new(&l->local, RDMA_GROUP_BACKEND, &rc);
	if (!l->iface) {
		close_local(l);
		return rc;
	}
	l->iface->refs = 1;
	l->port_watch_ns = sl_now_ns() + PORT_WATCH_MS * SL_NS_PER_MS;
	(void)rdma_device->arm(l->wireup_qp);
	return 0;
}

static void close_sidr(struct ud_listener *l)
{
	if (l->sidr)
		rdma_device->sidr_free(l->sidr);
	l->sidr = NULL;
}

/* Listens where the address is now. Returns 0 or -errno. */
static int open_sidr(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = rdma_device->sidr_new(&l->sidr, &l->sa);

	if (!rc && l->iface && !rdma_local_same(&l->sidr->local, &l->local))
		fail_local(l);
	if (!rc && !l->iface)
		rc = open_local(l);
	if (!rc && epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->sidr->fd, &ev) < 0)
		rc = -errno;
	if (rc)
		close_sidr(l);
	return rc;
}

static void retry_sidr(struct ud_listener *l, uint64_t now_ns)
{
	if (open_sidr(l) == 0)
		return;
	l->retry_ns = now_ns + l->retry_ms * SL_NS_PER_MS;
	l->retry_ms = sl_rpc_at_most(2 * l->retry_ms, RELISTEN_MAX_MS);
}

static void answer_sidr(struct ud_listener *l, uint64_t now_ns)
{
	int rc = rdma_device->sidr_reply(l->sidr, l->wireup_qp->qpn);

	if (!rc)
		return;
	if (rc == -ENODEV)
		fail_local(l);
	close_sidr(l);
	l->retry_ms = RELISTEN_MIN_MS;
	retry_sidr(l, now_ns);
}

static struct sl_transport *ud_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;
	struct sl_transport *t = take_confirmed(l);

	if (t)
		return t;
	if (l->sidr)
		answer_sidr(l, now_ns);
	else if (now_ns >= l->retry_ns)
		retry_sidr(l, now_ns);
	if (!l->iface)
		return NULL;
	/* This may start a thread. */
	if (now_ns >= l->port_watch_ns)
		l->port_watch_ns = ud_iface_watch_port(l->iface) == 0
					   ? UINT64_MAX
					   : now_ns + PORT_WATCH_MS * SL_NS_PER_MS;
	drain_creqs(l);
	if (l->unconfirmed_cnt) {
		watch_iface(l);
		poll_unconfirmed(l);
	}
	l->nonblock_budget = BATCH_MAX;
	return take_confirmed(l);
}

/* A flood must not occupy a busy owner. */
static struct sl_transport *ud_poll_nonblock(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;

	(void)now_ns;
	if (!l->iface)
		return NULL;
	if (l->nonblock_budget)
		l->nonblock_budget -= poll_creqs(l, sl_rpc_at_most(l->nonblock_budget, BATCH_MAX));
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

	uint64_t next = l->sidr ? UINT64_MAX : l->retry_ns;

	if (l->iface && (l->more || (l->unconfirmed_cnt && is_iface_unwatched(l))))
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

	close_local(l);
	close_sidr(l);
	if (base->fd >= 0)
		close(base->fd);
	sl_psk_wipe(&l->psk);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = ud_accept,
	.poll_nonblock = ud_poll_nonblock,
	.next_ns = ud_next_ns,
	.close = ud_listener_close,
};

static const char *listen_error_text(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return "in use: another backend listens there";
	case -EADDRNOTAVAIL:
		return "not the address of an RDMA device of this host: see `ip address` and `rdma "
		       "link`";
	case -ENODEV:
		return "no RDMA device with that address: load the driver of the NIC, or rdma_rxe "
		       "and rdma_ucm; see `rdma link`";
	default: return strerror(-rc);
	}
}

struct sl_rpc_listener *sl_ud_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	struct ud_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	int rc;

	if (!l)
		return NULL;
	sl_list_init(&l->unconfirmed);
	l->slots = opt->slots;
	if (rdma_parse_addr(opt->address, &l->sa)) {
		sl_err_set(err,
			   "rdma+ud://%s: expected a numeric address and port, as in "
			   "rdma+ud://10.0.0.2:7471",
			   opt->address);
		goto fail;
	}
	if (sl_psk_read(&l->psk, opt->key_file, err))
		goto fail;
	l->base.fd = epoll_create1(EPOLL_CLOEXEC);
	rc = l->base.fd < 0 ? -errno : open_sidr(l);
	if (!rc)
		return &l->base;
	sl_err_set(err, "rdma+ud://%s: %s", opt->address, listen_error_text(rc));
fail:
	ud_listener_close(&l->base);
	return NULL;
}
