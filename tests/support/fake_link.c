/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "fake_link.h"

static int wire_init(struct sl_fake_wire *w, const struct sl_fake_link_config *cfg, uint32_t cap,
		     uint32_t frame_len, uint64_t seed)
{
	w->cfg = *cfg;
	w->cap = cap;
	w->frame_len = frame_len;
	sl_prng_seed(&w->prng, seed);
	w->heap = calloc(cap, sizeof(*w->heap));
	w->free_slot = calloc(cap, sizeof(*w->free_slot));
	w->bytes = calloc(cap, frame_len);
	if (!w->heap || !w->free_slot || !w->bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < cap; i++)
		w->free_slot[i] = i;
	return 0;
}

static void wire_fini(struct sl_fake_wire *w)
{
	free(w->heap);
	free(w->free_slot);
	free(w->bytes);
}

int sl_fake_link_init(struct sl_fake_link *l, struct sl_fake_port *a, struct sl_fake_port *b,
		      const struct sl_fake_link_config *cfg, uint32_t cap, uint64_t seed)
{
	memset(l, 0, sizeof(*l));
	l->port[0] = a;
	l->port[1] = b;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t frame_len = l->port[i]->port.umem->frame_size;
		int err = wire_init(&l->wire[i], cfg, cap, frame_len, seed * 2 + i);

		if (err) {
			sl_fake_link_fini(l);
			return err;
		}
	}
	return 0;
}

void sl_fake_link_fini(struct sl_fake_link *l)
{
	wire_fini(&l->wire[0]);
	wire_fini(&l->wire[1]);
	memset(l, 0, sizeof(*l));
}

static bool earlier(const struct sl_fake_packet *a, const struct sl_fake_packet *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_swap(struct sl_fake_packet *heap, uint32_t i, uint32_t j)
{
	struct sl_fake_packet p = heap[i];

	heap[i] = heap[j];
	heap[j] = p;
}

/* Makes a copy of the frame arrive at due_ns. False when the link's memory is full. */
static bool wire_push(struct sl_fake_wire *w, const uint8_t *bytes, uint32_t len, uint64_t due_ns,
		      bool damage)
{
	if (w->cnt == w->cap)
		return false;
	uint32_t slot = w->free_slot[w->cap - 1 - w->cnt];
	uint8_t *copy = w->bytes + (size_t)slot * w->frame_len;
	uint32_t i = w->cnt++;

	memcpy(copy, bytes, len);
	if (damage && len)
		copy[sl_prng_below(&w->prng, len)] ^= (uint8_t)(1u << sl_prng_below(&w->prng, 8));
	w->heap[i] = (struct sl_fake_packet){due_ns, w->order++, len, slot};
	for (; i > 0 && earlier(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_swap(w->heap, i, (i - 1) / 2);
	return true;
}

static struct sl_fake_packet wire_pop(struct sl_fake_wire *w)
{
	struct sl_fake_packet top = w->heap[0];
	uint32_t i = 0;

	w->heap[0] = w->heap[--w->cnt];
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= w->cnt)
			break;
		if (child + 1 < w->cnt && earlier(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!earlier(&w->heap[child], &w->heap[i]))
			break;
		heap_swap(w->heap, i, child);
		i = child;
	}
	w->free_slot[w->cap - 1 - w->cnt] = top.slot;
	return top;
}

static bool happens(struct sl_fake_wire *w, double probability)
{
	return probability > 0 && sl_prng_unit(&w->prng) < probability;
}

static void wire_send(struct sl_fake_wire *w, const struct sl_frame *f, uint64_t now_ns)
{
	const struct sl_fake_link_config *c = &w->cfg;
	uint64_t on_wire_ns = 0, due_ns;

	w->sent++;
	if (c->bits_per_s)
		on_wire_ns = (uint64_t)f->len * 8 * SL_NS_PER_SEC / c->bits_per_s;
	if (w->busy_until_ns < now_ns)
		w->busy_until_ns = now_ns;
	if (c->queue_cnt && on_wire_ns &&
	    (w->busy_until_ns - now_ns) / on_wire_ns >= c->queue_cnt) {
		w->queue_full++;
		return;
	}
	w->busy_until_ns += on_wire_ns;
	if (happens(w, c->loss)) {
		w->lost++;
		return;
	}
	due_ns = w->busy_until_ns + c->delay_ns;
	if (c->jitter_ns)
		due_ns += sl_prng_below(&w->prng, c->jitter_ns);
	if (happens(w, c->reorder)) {
		due_ns += c->reorder_ns;
		w->reordered++;
	}
	bool damage = happens(w, c->corrupt);

	w->corrupted += damage;
	if (!wire_push(w, f->data, f->len, due_ns, damage)) {
		w->queue_full++;
		return;
	}
	if (happens(w, c->duplicate) && wire_push(w, f->data, f->len, due_ns, false))
		w->duplicated++;
}

uint32_t sl_fake_link_step(struct sl_fake_link *l, uint64_t now_ns)
{
	uint32_t delivered = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct sl_fake_port *from = l->port[i], *to = l->port[1 - i];
		struct sl_fake_wire *w = &l->wire[i];

		while (from->tx_seen != from->tx_head)
			wire_send(w, from->tx[from->tx_seen++ % SL_FAKE_RING], now_ns);
		if (!happens(w, w->cfg.late))
			sl_fake_complete(from, UINT32_MAX);
		while (w->cnt && w->heap[0].due_ns <= now_ns) {
			struct sl_fake_packet p = wire_pop(w);
			const uint8_t *bytes = w->bytes + (size_t)p.slot * w->frame_len;

			if (!sl_fake_inject(to, bytes, p.len, p.due_ns)) {
				w->rx_full++;
				continue;
			}
			w->delivered++;
			delivered++;
		}
	}
	return delivered;
}

uint64_t sl_fake_link_next_ns(const struct sl_fake_link *l)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < 2; i++) {
		const struct sl_fake_wire *w = &l->wire[i];

		if (w->cnt && w->heap[0].due_ns < next)
			next = w->heap[0].due_ns;
	}
	return next;
}
