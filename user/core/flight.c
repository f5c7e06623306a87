/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flights stand in a table by member and batch, so that the end of one costs the same however many
 * wait: clients may open streams, whose heads a backend does not take, and reset them in any order.
 *
 *   hash of member and batch --> slots --> flight --next--> flight
 */
#include "core/flight.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/group.h"

int sl_flights_init(struct sl_core *c, uint32_t cap)
{
	uint32_t slots = 64;
	int rc = sl_mempool_init(&c->flights, sizeof(struct sl_flight), 8, cap);

	if (rc)
		return rc;
	while (slots < cap)
		slots *= 2;
	c->flight_slots = calloc(slots, sizeof(*c->flight_slots));
	c->flight_mask = slots - 1;
	return c->flight_slots ? 0 : -ENOMEM;
}

void sl_flights_fini(struct sl_core *c)
{
	free(c->flight_slots);
	sl_mempool_fini(&c->flights);
}

/* Numbers of batches follow each other: those of a member have slots side by side. */
static uint32_t *slot_of(const struct sl_core *c, const struct sl_member *m, uint64_t batch)
{
	uint64_t home = (uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &c->flight_slots[(home + batch) & c->flight_mask];
}

/* Where its index stands; of none, where the last one's next is 0. */
static uint32_t *find_place(const struct sl_core *c, const struct sl_member *m, uint64_t batch)
{
	uint32_t *at = slot_of(c, m, batch);

	while (*at) {
		struct sl_flight *f = sl_mempool_at(&c->flights, *at - 1);

		if (f->member == m && f->batch == batch)
			break;
		at = &f->next;
	}
	return at;
}

void sl_flight_begin(struct sl_core *c, const struct sl_member *m, struct sl_flight *f)
{
	uint32_t *slot = slot_of(c, m, f->batch);

	f->member = m;
	f->limbo = (struct sl_store){0};
	sl_list_init(&f->shared);
	f->next = *slot;
	*slot = sl_mempool_index(&c->flights, f) + 1;
}

/* The one that has its request, while that may be read; NULL: not sent, or read. */
static struct sl_flight *flight_of(const struct sl_exchange *x)
{
	const struct sl_core *c = x->core;
	uint32_t at = x->send_ns ? *find_place(c, x->member, x->batch) : 0;

	return at ? sl_mempool_at(&c->flights, at - 1) : NULL;
}

/* For so many flights more. */
static unsigned hold_room(const struct sl_hold *h)
{
	unsigned room = (unsigned)SL_ARRAY_LEN(h->flights) - h->flight_cnt;

	for (unsigned i = 0; i < h->flight_cnt; i++)
		room += sl_list_empty(&h->flights[i].link);
	return room;
}

static struct sl_hold_ref *spare_ref(struct sl_hold *h)
{
	for (unsigned i = 0; i < h->flight_cnt; i++) {
		if (sl_list_empty(&h->flights[i].link))
			return &h->flights[i];
	}
	return h->flight_cnt < SL_ARRAY_LEN(h->flights) ? &h->flights[h->flight_cnt++] : NULL;
}

static void hold_for(struct sl_hold *h, struct sl_flight *f)
{
	struct sl_hold_ref *ref = spare_ref(h);

	h->refs++;
	if (!SL_ENSURE(ref))
		return; /* its bytes are never given back, rather than while they are read */
	ref->hold = h;
	sl_list_add_tail(&f->shared, &ref->link);
}

static void hold_drop(struct sl_core *c, struct sl_hold *h)
{
	if (--h->refs)
		return;
	sl_store_free(&h->store, c->net->umem);
	sl_mempool_put(&c->holds, h);
}

bool sl_flight_hold(struct sl_exchange *x)
{
	struct sl_flight *f = flight_of(x);

	/* One is left for the flight that it is sent by now. */
	if (f && x->hold && hold_room(x->hold) < 2)
		return false;
	if (f && !x->hold) {
		x->hold = sl_mempool_get(&x->core->holds);
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

static void leave_head(struct sl_exchange *x)
{
	struct sl_flight *f = flight_of(x);

	if (f)
		sl_store_splice(&f->limbo, &x->head);
	else
		sl_store_free(&x->head, x->core->net->umem);
}

void sl_flight_leave_head(struct sl_exchange *x)
{
	leave_head(x);
	x->core->keeping -= x->kept.len != 0;
	sl_store_free(&x->kept, x->core->net->umem); /* the RPC has a copy */
}

bool sl_flight_copy_head(struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;
	struct sl_store copy = {0};

	if (flight_of(x)) {
		for (const struct sl_frame *f = x->head.head; f; f = f->next) {
			uint32_t skip = f == x->head.head ? x->head.off : 0;
			size_t len = (size_t)f->len - skip;

			if (sl_store_copy(&copy, u, f->data + skip, len) == len)
				continue;
			sl_store_free(&copy, u);
			return false;
		}
		leave_head(x);
		x->head = copy;
	}
	x->send_ns = 0;
	return true;
}

void sl_flight_sent(struct sl_core *c, const struct sl_member *m, uint64_t batch)
{
	uint32_t *at = find_place(c, m, batch);
	struct sl_flight *f;

	if (!*at)
		return;
	f = sl_mempool_at(&c->flights, *at - 1);
	*at = f->next;
	while (!sl_list_empty(&f->shared)) {
		struct sl_hold_ref *ref = sl_list_first(&f->shared, struct sl_hold_ref, link);

		sl_list_del(&ref->link);
		hold_drop(c, ref->hold);
	}
	sl_store_free(&f->limbo, c->net->umem);
	sl_mempool_put(&c->flights, f);
}
