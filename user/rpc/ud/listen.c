/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who are new ask (the sign) for the queue pair of the door, and say HELLO there. To take one
 * costs a proof and memory that no device knows of; so whoever owns the connections does it, and
 * TURN_MAX of them at a time.
 *
 * Read from the bottom: ud_accept, ud_glance -> look_at_door -> take_hellos -> consider -> grant;
 * look_for_births; look_at_sign -> put_up_sign.
 */
#include "rpc/ud/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/ud/hall.h"
#include "rpc/verbs/verbs.h"

enum {
	TURN_MAX = 16, /* HELLOs of one poll */
	TURNS = 4,     /* and polls of the door before others have their turn */
	DOOR_RX = 256,
	DOOR_TX = 64,
	UNBORN_MAX = 64,
	UNBORN_OF_HOST = UNBORN_MAX / 4, /* one that lies leaves places to others */
	RELISTEN_MIN_MS = 10,            /* after a device has gone, while it is not back */
	RELISTEN_MAX_MS = 1000,
	WATCH_FIRST_MS = 20, /* behind a connection, whose first request goes first */
	WATCH_MS = 1000,     /* behind the start */
};

_Static_assert((int)SL_UD_SERIES_LEN == (int)VB_SERIES_LEN, "series are of one kind");

struct ud_listener {
	struct sl_rpc_listener base; /* fd: epoll over sign, door and births */
	struct sockaddr_storage sa;
	struct ud_sign *sign; /* NULL: its address is nowhere; it is put up again at retry_ns */
	uint64_t retry_ns;
	unsigned retry_ms;
	struct ud_local local; /* where the next two are */
	struct ud_pair *door;  /* NULL, as the hall is: the device has gone */
	struct ud_hall *hall;
	uint64_t watch_ns; /* its port is watched from then on; UINT64_MAX: it is */
	struct sl_secret secret;
	struct vb_seen seen;
	uint32_t slots;
	bool more;        /* HELLOs wait, and no bell will ring for them */
	unsigned glances; /* HELLOs that may be taken without a look by accept() */
	/*
	 * By sl_transport.stirred, the oldest first: granted, and not heard since. Whoever repeats
	 * its HELLO knows nothing of what the former one got, so nobody else is given that.
	 */
	struct sl_list unborn;
	unsigned unborn_cnt;
	bool watches; /* the hall, with its fd, for those */
	struct ud_nonce next_nonce;
};

static struct ud_conn *make(struct ud_listener *l, const struct sl_ud_hello *h,
			    const struct sl_ud_answer *a, struct ud_node *n)
{
	const struct ud_terms terms = {.id = a->id,
				       .peer_id = h->id,
				       .slots = a->slots,
				       .mtu = a->mtu,
				       .peer_epoch = h->epoch,
				       .peer_worker = h->worker,
				       .link = h->link,
				       .goes_on = h->flags & SL_HELLO_GOES_ON};
	struct ud_keys keys;

	ud_keys_derive(&l->secret, a, false, &keys);
	return ud_conn_new(&terms, &keys, n);
}

static void reply(struct ud_listener *l, const struct sl_ud_hello *h, const struct sl_ud_answer *a,
		  struct ud_node *n)
{
	uint8_t *to = ud_device->slot(l->door);

	if (!to)
		return; /* as if it were lost */
	memcpy(to, a, sizeof(*a));
	ud_device->send(l->door, n->way, h->answer_qpn, sizeof(*a));
}

static void forget(struct ud_listener *l, struct ud_conn *c)
{
	sl_list_del(&c->base.stirred);
	l->base.promised -= !c->base.goes_on;
	if (--l->unborn_cnt == 0 && l->watches) {
		(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, l->hall->hub.fd, NULL);
		l->watches = false;
	}
}

static bool is_from(const struct ud_conn *c, const uint8_t gid[16])
{
	return memcmp(c->node->gid, gid, sizeof(c->node->gid)) == 0;
}

static bool has_place(const struct ud_listener *l, const uint8_t gid[16])
{
	unsigned of_host = 0;
	struct sl_list *at;

	sl_list_for_each (at, &l->unborn)
		of_host += is_from(sl_container_of(at, struct ud_conn, base.stirred), gid);
	return l->unborn_cnt < UNBORN_MAX && of_host < UNBORN_OF_HOST;
}

/* Of one dialer's connection there is one, however often it says HELLO. */
static void drop_former(struct ud_listener *l, const struct sl_ud_hello *h)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &l->unborn) {
		struct ud_conn *c = sl_container_of(at, struct ud_conn, base.stirred);

		if (c->qpn || c->peer_id != h->id || c->base.peer_epoch != h->epoch ||
		    !is_from(c, h->gid))
			continue;
		forget(l, c);
		c->base.ops->close(&c->base);
	}
}

/* Nobody wakes the owner when they are born: neither this nor a connection of the hall that it watches. */
static bool births_are_missed(const struct ud_listener *l)
{
	return !l->watches && !l->hall->hub.watched;
}

static void watch_births(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (births_are_missed(l))
		l->watches = epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->hall->hub.fd, &ev) == 0;
}

static bool await_birth(struct ud_listener *l, struct ud_conn *c)
{
	uint64_t watch_by_ns = c->born_ns + WATCH_FIRST_MS * SL_NS_PER_MS;

	if (ud_conn_enter(c, l->hall))
		return false;
	watch_births(l);
	sl_list_add_tail(&l->unborn, &c->base.stirred);
	l->base.promised += !c->base.goes_on;
	l->unborn_cnt++;
	if (l->watch_ns != UINT64_MAX && watch_by_ns < l->watch_ns)
		l->watch_ns = watch_by_ns;
	return true;
}

/* False: it does not get a connection, and is told so. */
static bool grant(struct ud_listener *l, const struct sl_ud_hello *h, struct sl_ud_answer *a,
		  struct ud_node *n)
{
	struct ud_conn *c = NULL;

	drop_former(l, h);
	if (!has_place(l, h->gid) || sl_rpc_listener_full(&l->base, h->flags))
		return false;
	a->id = ud_id_get();
	if (a->id && !ud_nonce_take(&l->next_nonce, a->nonce, sizeof(a->nonce))) {
		ud_answer_prove(&l->secret, h, a);
		c = make(l, h, a, n);
	}
	if (!c && a->id)
		ud_id_put(a->id);
	if (c && !await_birth(l, c)) {
		/* Closing puts one, and so does the caller. */
		(void)ud_node_get(&l->local, h->gid, h->tos);
		c->base.ops->close(&c->base);
		c = NULL;
	}
	return c != NULL;
}

/* Whether the dialer's connection of that number is one of ours, and has not ended. */
static bool knows(const struct ud_listener *l, const struct sl_ud_hello *h)
{
	const struct ud_conn *c = ud_hall_peer(l->hall, h->epoch, h->id);

	return c && !c->error && !c->flow.bye;
}

static void consider(struct ud_listener *l, const struct ud_packet *p, const struct sl_ud_hello *h)
{
	uint32_t mtu = sl_rpc_at_most(h->mtu, l->hall->pair->mtu);
	struct sl_ud_answer a = {.magic = SL_UD_HELLO_MAGIC,
				 .version = SL_UD_VERSION,
				 .verdict = SL_UD_GRANTED,
				 .epoch = sl_rpc_boot_epoch(),
				 .number = h->number,
				 .slots = sl_rpc_at_most(h->slots, l->slots),
				 .mtu = mtu,
				 .qpn = l->hall->pair->qpn};
	struct ud_node *n = NULL;

	/* Its number is used up by what is to be answered only. */
	if (h->magic == SL_UD_HELLO_MAGIC && h->version == SL_UD_VERSION &&
	    ud_hello_proven(&l->secret, h, l->local.gid, l->door->qpn) && ud_is_from(p, h->gid) &&
	    ud_slots_ok(h->slots) && mtu >= SL_UD_MTU_MIN &&
	    vb_fresh(&l->seen, vb_series_of(h->series), h->number))
		n = ud_node_meet(&l->local, h->gid, h->tos);
	if (!n) {
		l->base.refused++;
		return;
	}
	if (h->flags & SL_HELLO_ASKS) {
		a.verdict = knows(l, h) ? SL_UD_KNOWN : SL_UD_RESET;
	} else if (grant(l, h, &a, n)) {
		reply(l, h, &a, n);
		return;
	} else {
		l->base.refused++;
		a.verdict = SL_UD_FULL;
	}
	ud_answer_prove(&l->secret, h, &a);
	reply(l, h, &a, n);
	ud_node_put(n);
}

/* Up to max; how many. */
static unsigned take_hellos(struct ud_listener *l, unsigned max)
{
	SL_UNINIT struct ud_packet packets[TURN_MAX];
	int n = ud_device->poll(l->door, packets, max);

	for (int i = 0; i < n; i++) {
		struct sl_ud_hello h = {.magic = 0};

		if (packets[i].len == sizeof(h))
			memcpy(&h, packets[i].bytes, sizeof(h));
		consider(l, &packets[i], &h);
	}
	(void)ud_device->ring(l->door);
	if (n > 0) {
		(void)ud_device->put_back(l->door, packets, (unsigned)n);
		ud_nonce_draw(&l->next_nonce);
	}
	return n > 0 ? (unsigned)n : 0;
}

/* Ends armed, or with `more`. */
static void look_at_door(struct ud_listener *l)
{
	unsigned turns = 0;

	do {
		ud_device->take_bell(l->door);
		l->more = take_hellos(l, TURN_MAX) == TURN_MAX;
	} while ((l->more || !ud_device->arm(l->door)) && ++turns < TURNS);
	l->more |= turns == TURNS;
}

/* Nobody else looks there while the hall's only connections are these. */
static void look_for_births(struct ud_listener *l)
{
	struct sl_hub *hub = &l->hall->hub;

	hub->ops->check(hub);
	hub->ops->take(hub);
	if (!hub->ops->arm(hub)) {
		hub->ops->take(hub);
		l->more |= !hub->ops->arm(hub);
	}
}

static struct sl_transport *take_born(struct ud_listener *l)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &l->unborn) {
		struct ud_conn *c = sl_container_of(at, struct ud_conn, base.stirred);

		if (!c->qpn && !c->error)
			continue;
		forget(l, c);
		if (!c->error)
			return &c->base;
		c->base.ops->close(&c->base);
	}
	return NULL;
}

/* --- where it listens --- */

static void leave_place(struct ud_listener *l)
{
	struct ud_conn *c;

	while (l->hall && (c = sl_list_first(&l->unborn, struct ud_conn, base.stirred))) {
		forget(l, c);
		c->base.ops->close(&c->base);
	}
	if (l->hall)
		ud_hall_put(l->hall);
	if (l->door)
		ud_device->close(l->door);
	l->hall = NULL;
	l->door = NULL;
}

/* So have those who were connected there. */
static void lose_place(struct ud_listener *l)
{
	ud_hall_spoil(l->hall);
	leave_place(l);
}

/* All of it, or nothing. 0 or -errno. */
static int take_place(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;

	l->local = l->sign->local;
	l->door = ud_device->open(&l->local, VB_GROUP_BACKEND, DOOR_RX, DOOR_TX, &rc);
	if (!l->door)
		return rc;
	if (epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->door->fd, &ev) < 0)
		rc = -errno;
	else
		l->hall = ud_hall_new(&l->local, VB_GROUP_BACKEND, &rc);
	if (!l->hall) {
		leave_place(l);
		return rc;
	}
	l->hall->refs = 1;
	l->watch_ns = sl_now_ns() + WATCH_MS * SL_NS_PER_MS;
	(void)ud_device->arm(l->door);
	return 0;
}

static void take_down_sign(struct ud_listener *l)
{
	if (l->sign)
		ud_device->sign_free(l->sign);
	l->sign = NULL;
}

/* Where its address is now. Who is connected stays so, if that is where it was. 0 or -errno. */
static int put_up_sign(struct ud_listener *l)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = ud_device->sign_new(&l->sign, &l->sa);

	if (!rc && l->hall && !ud_local_same(&l->sign->local, &l->local))
		lose_place(l);
	if (!rc && !l->hall)
		rc = take_place(l);
	if (!rc && epoll_ctl(l->base.fd, EPOLL_CTL_ADD, l->sign->fd, &ev) < 0)
		rc = -errno;
	if (rc)
		take_down_sign(l);
	return rc;
}

static void try_again(struct ud_listener *l, uint64_t now_ns)
{
	if (put_up_sign(l) == 0)
		return;
	l->retry_ns = now_ns + l->retry_ms * SL_NS_PER_MS;
	l->retry_ms = sl_rpc_at_most(2 * l->retry_ms, RELISTEN_MAX_MS);
}

static void look_at_sign(struct ud_listener *l, uint64_t now_ns)
{
	int rc = ud_device->sign_answer(l->sign, l->door->qpn);

	if (!rc)
		return;
	if (rc == -ENODEV)
		lose_place(l);
	take_down_sign(l);
	l->retry_ms = RELISTEN_MIN_MS;
	try_again(l, now_ns);
}

/* --- who comes --- */

static struct sl_transport *ud_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;
	struct sl_transport *t = take_born(l);

	if (t)
		return t;
	if (l->sign)
		look_at_sign(l, now_ns);
	else if (now_ns >= l->retry_ns)
		try_again(l, now_ns);
	if (!l->hall)
		return NULL;
	/* To watch a port takes a thread, for whose start nobody is to wait who waits for this process's. */
	if (now_ns >= l->watch_ns)
		l->watch_ns =
			ud_hall_watch(l->hall) == 0 ? UINT64_MAX : now_ns + WATCH_MS * SL_NS_PER_MS;
	look_at_door(l);
	if (l->unborn_cnt) {
		watch_births(l);
		look_for_births(l);
	}
	l->glances = TURN_MAX;
	return take_born(l);
}

/* Between two calls of accept() few HELLOs, or a flood of them would take more of a busy owner. */
static struct sl_transport *ud_glance(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct ud_listener *l = (struct ud_listener *)base;

	(void)now_ns;
	if (!l->hall)
		return NULL;
	if (l->glances)
		l->glances -= take_hellos(l, sl_rpc_at_most(l->glances, TURN_MAX));
	if (!l->unborn_cnt)
		return NULL;
	l->hall->hub.ops->take(&l->hall->hub);
	return take_born(l);
}

static uint64_t ud_next_ns(const struct sl_rpc_listener *base)
{
	const struct ud_listener *l = (const struct ud_listener *)base;
	const struct ud_conn *oldest = sl_list_first(&l->unborn, struct ud_conn, base.stirred);

	uint64_t next = l->sign ? UINT64_MAX : l->retry_ns;

	if (l->hall && (l->more || (l->unborn_cnt && births_are_missed(l))))
		return 0;
	if (l->hall && l->watch_ns < next)
		next = l->watch_ns;
	if (oldest && oldest->born_ns + UD_BIRTH_NS < next)
		next = oldest->born_ns + UD_BIRTH_NS;
	return next;
}

static void ud_listener_close(struct sl_rpc_listener *base)
{
	struct ud_listener *l = (struct ud_listener *)base;

	leave_place(l);
	take_down_sign(l);
	if (base->fd >= 0)
		close(base->fd);
	sl_secret_wipe(&l->secret);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = ud_accept,
	.glance = ud_glance,
	.next_ns = ud_next_ns,
	.close = ud_listener_close,
};

static const char *why(int rc)
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
	sl_list_init(&l->unborn);
	l->slots = opt->slots;
	if (vb_address(opt->address, &l->sa)) {
		sl_err_set(err,
			   "rdma+ud://%s: expected a numeric address and port, as in "
			   "rdma+ud://10.0.0.2:7471",
			   opt->address);
		goto fail;
	}
	if (sl_secret_read(&l->secret, opt->key_file, err))
		goto fail;
	l->base.fd = epoll_create1(EPOLL_CLOEXEC);
	rc = l->base.fd < 0 ? -errno : put_up_sign(l);
	if (!rc)
		return &l->base;
	sl_err_set(err, "rdma+ud://%s: %s", opt->address, why(rc));
fail:
	ud_listener_close(&l->base);
	return NULL;
}
