/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flight.h"

#include "base/check.h"
#include "core/group.h"

static struct sl_flight *find_flight(const struct sl_member *m, uint64_t batch)
{
	struct sl_list *l;

	sl_list_for_each (l, &m->flights) {
		struct sl_flight *f = sl_container_of(l, struct sl_flight, link);

		if (f->batch == batch)
			return f;
	}
	return NULL;
}

/* The one that has its request, while that may be read; NULL: not sent, or read. */
static struct sl_flight *flight_of(const struct sl_exchange *x)
{
	return x->send_ns ? find_flight(x->member, x->batch) : NULL;
}

static void hold_for(struct sl_hold *h, struct sl_flight *f)
{
	struct sl_hold_ref *ref = &h->flights[h->flight_cnt++];

	SL_CHECK(h->flight_cnt <= SL_ARRAY_LEN(h->flights));
	ref->hold = h;
	sl_list_add_tail(&f->shared, &ref->link);
	h->refs++;
}

static void hold_drop(struct sl_core *c, struct sl_hold *h)
{
	if (--h->refs)
		return;
	sl_store_free(&h->store, c->net->umem);
	sl_pool_put(&c->holds, h);
}

bool sl_flight_hold(struct sl_exchange *x)
{
	struct sl_flight *f = flight_of(x);

	if (f && !x->hold) {
		x->hold = sl_pool_get(&x->core->holds);
		if (!x->hold)
			return false;
		*x->hold = (struct sl_hold){.refs = 1};
	}
	if (f)
		hold_for(x->hold, f);
	x->send_ns = 0; /* no flight is its own until it is sent */
	return true;
}

void sl_flight_leave(struct sl_exchange *x)
{
	struct sl_flight *f = flight_of(x);

	if (x->hold) {
		if (f)
			hold_for(x->hold, f);
		sl_store_splice(&x->hold->store, &x->request);
		hold_drop(x->core, x->hold);
		x->hold = NULL;
	} else if (f) {
		sl_store_splice(&f->limbo, &x->request);
	} else {
		sl_store_free(&x->request, x->core->net->umem);
	}
}

void sl_flight_sent(struct sl_core *c, struct sl_member *m, uint64_t batch)
{
	struct sl_flight *f = find_flight(m, batch);

	if (!f)
		return;
	sl_list_del(&f->link);
	while (!sl_list_empty(&f->shared)) {
		struct sl_hold_ref *ref = sl_list_first(&f->shared, struct sl_hold_ref, link);

		sl_list_del(&ref->link);
		hold_drop(c, ref->hold);
	}
	sl_store_free(&f->limbo, c->net->umem);
	sl_pool_put(&c->flights, f);
}
