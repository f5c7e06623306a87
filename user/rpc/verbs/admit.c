/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who comes by the door. Read from the bottom: vb_admitted, when it has heard; vb_admit -> grant ->
 * open_known. And what those who wait have in common, at the top.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/verbs/listener.h"

bool vb_listener_watch(struct vb_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void vb_pending_drop(struct vb_listener *l, struct vb_pending *p)
{
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, p->v->base.fd, NULL);
	l->base.promised -= !p->v->base.goes_on;
	/* Who came by the door has not been heard there: nothing is said to whoever that is. */
	if (p->by_door)
		p->v->bye = VB_BYE_DONE;
	vb_close(&p->v->base);
	p->v = NULL;
	l->refused++;
}

struct vb_pending *vb_pending_place(struct vb_listener *l, const uint8_t host[16], bool by_door)
{
	struct vb_pending *place = NULL;
	unsigned cnt = 0, of_host = 0;

	for (struct vb_pending *p = l->pending; p < l->pending + VB_PENDING_MAX; p++) {
		if (!p->v) {
			place = p;
		} else if (p->by_door == by_door) {
			cnt++;
			of_host += memcmp(p->host, host, sizeof(p->host)) == 0;
		}
	}
	if (!place || of_host >= VB_PENDING_OF_HOST || (by_door && cnt >= VB_PENDING_BY_DOOR))
		return NULL;
	place->by_door = by_door;
	memcpy(place->host, host, sizeof(place->host));
	return place;
}

void vb_pending_promise(struct vb_listener *l, struct sl_verbs *v, uint32_t hello_flags)
{
	v->base.goes_on = hello_flags & SL_HELLO_GOES_ON;
	l->base.promised += !v->base.goes_on;
}

void vb_listener_door(struct vb_listener *l, const struct rdma_cm_id *id)
{
	if (l->door.pair)
		return;
	vb_door_open(&l->door, id);
	if (l->door.pair && !vb_listener_watch(l, l->door.pair->fd))
		vb_door_close(&l->door);
	l->door_device = l->door.pair ? id->verbs : NULL;
}

/* Of one dialer's queue pair there is one connection, however often it says HELLO. */
static void drop_former(struct vb_listener *l, const struct vb_hello *h)
{
	for (struct vb_pending *p = l->pending; p < l->pending + VB_PENDING_MAX; p++) {
		if (p->v && p->by_door && p->said.hello.qpn == h->qpn &&
		    vb_series_of(p->said.hello.series) == vb_series_of(h->series))
			vb_pending_drop(l, p);
	}
}

/* 0, and all that is said of it in p->said but the proof, or -errno. */
static int open_known(struct vb_listener *l, struct vb_pending *p, struct vb_leash *leash,
		      struct vb_geometry *g)
{
	const struct vb_hello *h = &p->said.hello;
	struct vb_welcome *w = &p->said.welcome;
	struct sl_verbs *v = p->v;
	uint32_t psn;
	int rc = vb_open_known(v, leash, l->group, g);

	if (!rc && !vb_listener_watch(l, v->base.fd))
		rc = -EIO;
	if (!rc && sl_rand_bytes(&psn, sizeof(psn)))
		rc = -EIO;
	if (rc)
		return rc;
	psn &= VB_PSN_MASK;
	rc = vb_reach(v, h->qpn, h->psn, psn);
	if (!rc)
		rc = vb_open_rings(v, g);
	if (rc)
		return rc;
	if (l->mem.addr)
		vb_borrow_from(v, l->mem.addr, l->mem.len);
	w->slots = g->slots;
	w->bulk_len = g->bulk_len;
	w->qpn = v->end.qp->qp_num;
	w->psn = psn;
	w->rkey = v->keys[0].rkey;
	w->bulk = v->keys[0].bulk;
	return vb_bind(v);
}

static enum vb_verdict grant(struct vb_listener *l, struct vb_greetings *said)
{
	const struct vb_hello *h = &said->hello;
	struct vb_geometry g = {.slots = sl_rpc_at_most(h->slots, l->most.slots),
				.bulk_len = h->bulk_len};
	struct vb_leash *leash;
	struct vb_pending *p;

	drop_former(l, h);
	p = vb_pending_place(l, h->gid, true);
	if (!vb_geometry_ok(&g) || g.bulk_len > l->most.bulk_len)
		return VB_BAD_SIZES;
	if (!p || sl_rpc_listener_full(&l->base, h->flags) || vb_homes_shun(l->group, h->gid))
		return VB_FULL;
	p->v = vb_new();
	if (!p->v)
		return VB_FULL;
	leash = vb_leash_of(l->door_device, h->epoch, h->gid, h->tos);
	if (!leash) {
		vb_free(p->v);
		p->v = NULL;
		return VB_STRANGER;
	}
	p->said = *said;
	p->deadline_ns = sl_now_ns() + VB_PENDING_MS * SL_NS_PER_MS;
	vb_pending_promise(l, p->v, h->flags);
	if (open_known(l, p, leash, &g)) {
		vb_pending_drop(l, p);
		return VB_FULL;
	}
	said->welcome = p->said.welcome;
	return VB_GRANTED;
}

void vb_admit(void *listener, const struct vb_hello *h)
{
	struct vb_listener *l = listener;
	struct vb_greetings said = {
		.to = {.epoch = sl_rpc_boot_epoch(), .qpn = l->door.pair ? l->door.pair->qpn : 0},
		.hello = *h,
		.welcome = {.magic = VB_DOOR_MAGIC,
			    .version = VB_VERSION,
			    .epoch = sl_rpc_boot_epoch(),
			    .number = h->number},
	};
	struct vb_welcome *w = &said.welcome;

	if (h->magic != VB_DOOR_MAGIC || h->version != VB_VERSION ||
	    !vb_greeting_proven(&l->secret, &said, VB_HELLO, h->proof) ||
	    !vb_fresh(&l->knocked, vb_series_of(h->series), h->number)) {
		l->refused++;
		return;
	}
	if (sl_rand_bytes(w->nonce, sizeof(w->nonce)))
		return;
	w->verdict = (uint8_t)grant(l, &said);
	vb_greeting_prove(&l->secret, &said, VB_WELCOME, w->proof);
	vb_door_answer(&l->door, h, w);
}

int vb_admitted(struct vb_listener *l, struct vb_pending *p)
{
	const struct vb_hello *h = &p->said.hello;
	struct sl_verbs *v = p->v;
	char what[32];

	if (!vb_greeting_proven(&l->secret, &p->said, VB_HEARD, v->keys[1].proof))
		return -EACCES;
	/* What HELLO has proven, and not what its message says besides. */
	v->peer_bulk = h->bulk;
	v->peer_rkey = h->rkey;
	vb_closer_fill();
	v->base.peer_epoch = h->epoch;
	v->base.peer_worker = h->worker;
	v->base.link = h->link;
	snprintf(what, sizeof(what), " worker %u", h->worker);
	vb_describe(v, what);
	return 0;
}
