/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dials who is met already, by datagrams (door.h). Read from the bottom: vb_dial_known -> open_end,
 * greet, join.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/ud/door.h"
#include "rpc/ud/node.h"
#include "rpc/verbs/door.h"
#include "rpc/verbs/verbs.h"

enum { TRIES = 3 };

struct knocking {
	const struct sl_rpc_dial_options *opt;
	const struct sl_secret *secret;
	struct vb_leash *leash;
	struct sl_verbs *v;
	struct vb_geometry asked;
	struct vb_greetings said;
	uint64_t deadline_ns;
};

static int say(void *arg, const struct ud_pair *door, uint8_t *to)
{
	static _Atomic uint32_t number;
	struct knocking *k = arg;
	struct vb_hello *h = &k->said.hello;

	h->number = atomic_fetch_add(&number, 1);
	h->answer_qpn = door->qpn;
	if (sl_rand_bytes(h->nonce, sizeof(h->nonce)))
		return -EIO;
	vb_greeting_prove(k->secret, &k->said, VB_HELLO, h->proof);
	memcpy(to, h, sizeof(*h));
	return (int)sizeof(*h);
}

static bool is_answer(void *arg, const struct ud_packet *p)
{
	struct knocking *k = arg;
	struct vb_welcome *w = &k->said.welcome;

	if (p->len != sizeof(*w))
		return false;
	memcpy(w, p->bytes, sizeof(*w));
	return w->magic == VB_DOOR_MAGIC && w->version == VB_VERSION &&
	       w->number == k->said.hello.number &&
	       vb_greeting_proven(k->secret, &k->said, VB_WELCOME, w->proof);
}

/* The peer makes its own at the same time. */
static void pin(void *arg)
{
	struct knocking *k = arg;

	(void)vb_pin_rings(k->v); /* what fails is tried again, and told, when they are opened */
}

/* Ready but for its peer, and for its memory. */
static int open_end(struct knocking *k)
{
	const struct vb_known *known = &k->leash->known;
	struct vb_hello *h = &k->said.hello;
	uint32_t psn;
	int rc;

	k->asked = (struct vb_geometry){
		.slots = sl_rpc_at_most(k->opt->slots, known->slots),
		.bulk_len = sl_rpc_at_most(k->opt->bulk_ring_len, known->bulk_len)};
	if (!vb_geometry_ok(&k->asked))
		return -EINVAL;
	rc = vb_open_known(k->v, k->leash, k->opt->worker, &k->asked);
	if (rc)
		return rc;
	if (sl_rand_bytes(&psn, sizeof(psn)))
		return -EIO;
	k->said.to = (struct vb_door_name){.epoch = known->epoch, .qpn = known->door};
	*h = (struct vb_hello){.magic = VB_DOOR_MAGIC,
			       .version = VB_VERSION,
			       .flags = k->opt->goes_on ? SL_HELLO_GOES_ON : 0,
			       .worker = k->opt->worker,
			       .epoch = sl_rpc_boot_epoch(),
			       .slots = k->asked.slots,
			       .bulk_len = k->asked.bulk_len,
			       .qpn = k->v->end.qp->qp_num,
			       .psn = psn & VB_PSN_MASK,
			       .rkey = ibv_inc_rkey(k->v->end.mw->rkey),
			       .bulk = (uintptr_t)vb_ring_of(k->v, k->asked.bulk_len),
			       .tos = known->asked.tos,
			       .link = k->opt->link};
	memcpy(h->gid, known->local.gid, sizeof(h->gid));
	return vb_series_to(&known->sa, h->series);
}

static int greet(struct knocking *k)
{
	const struct vb_known *known = &k->leash->known;
	struct ud_node *n =
		ud_node_get(&known->local, known->way.ah_attr.grh.dgid.raw, known->asked.tos);
	int rc;

	if (!n)
		return -ENETUNREACH;
	rc = ud_greet(&(struct ud_greeting){.local = &known->local,
					    .way = n->way,
					    .qpn = known->door,
					    .tries = TRIES,
					    .deadline_ns = k->deadline_ns,
					    .say = say,
					    .is_answer = is_answer,
					    .meanwhile = pin,
					    .arg = k});
	ud_node_put(n);
	/* Its door is not where it was. */
	if (rc == -ETIMEDOUT)
		vb_leash_unshare(k->leash);
	return rc;
}

/* Both queue pairs know each other from here on. */
static int join(struct knocking *k)
{
	const struct vb_welcome *w = &k->said.welcome;
	const struct vb_geometry g = {.slots = w->slots, .bulk_len = w->bulk_len};
	struct sl_verbs *v = k->v;
	int rc;

	if (w->verdict == VB_STRANGER)
		vb_leash_unshare(k->leash);
	if (w->verdict != VB_GRANTED)
		return -ECONNREFUSED;
	if (w->epoch != k->leash->known.epoch || !vb_geometry_ok(&g) || g.slots > k->asked.slots ||
	    g.bulk_len != k->asked.bulk_len)
		return -EBADMSG;
	v->peer_bulk = w->bulk;
	v->peer_rkey = w->rkey;
	rc = vb_reach(v, w->qpn, w->psn, k->said.hello.psn);
	if (!rc)
		rc = vb_open_rings(v, &g);
	if (rc)
		return rc;
	vb_greeting_prove(k->secret, &k->said, VB_HEARD, v->keys[0].proof);
	rc = vb_send_keys(v);
	if (rc)
		return rc;
	v->base.peer_epoch = w->epoch;
	v->base.link = k->opt->link;
	v->base.goes_on = k->opt->goes_on;
	if (k->opt->mem && k->opt->mem->addr)
		vb_borrow_from(v, k->opt->mem->addr, k->opt->mem->len);
	return 0;
}

struct sl_verbs *vb_dial_known(const struct sl_rpc_dial_options *opt,
			       const struct sockaddr_storage *sa, const struct sl_secret *s,
			       uint64_t deadline_ns)
{
	const struct vb_way asked = vb_way_of(&opt->rdma);
	struct knocking k = {.opt = opt, .secret = s, .deadline_ns = deadline_ns};
	int rc;

	k.v = vb_new();
	k.leash = k.v ? vb_leash_to(sa, &asked) : NULL;
	if (!k.leash) {
		if (k.v)
			vb_free(k.v);
		return NULL;
	}
	rc = open_end(&k);
	if (!rc)
		rc = greet(&k);
	if (!rc)
		rc = join(&k);
	if (!rc)
		return k.v;
	vb_close(&k.v->base);
	return NULL;
}
