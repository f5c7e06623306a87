/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/cpu.h"
#include "base/rand.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "net/steps.h"
#include "sluice/abi.h"

enum {
	DIR_SLOTS = 8, /* words per bucket: a cache line */
	DIR_TRIES = 16,
	RING_SLOTS = 256,
	SLOT_HEADER = 64,
	WORKER_BITS = 0xff,
	COOKIE_GRAIN_NS = 1000000000,
};

struct handover_slot {
	uint64_t rx_ns;
	uint16_t l2_off, l3_off, l4_off;
	uint16_t end_off;
	uint8_t family, protocol, port;
	int ifindex;
};
_Static_assert(sizeof(struct handover_slot) <= SLOT_HEADER, "bytes are aligned");

struct ring {
	_Atomic uint32_t head SL_ALIGNED(SL_CACHELINE); /* written by the sender */
	_Atomic uint32_t tail SL_ALIGNED(SL_CACHELINE); /* written by the owner */
};

struct bucket {
	_Atomic uint64_t word[DIR_SLOTS];
} SL_ALIGNED(SL_CACHELINE);

struct sl_handover {
	_Atomic uint32_t filled SL_ALIGNED(SL_CACHELINE); /* bit per sender */
	_Atomic uint32_t armed;
	struct sl_handover_hub *hub SL_ALIGNED(SL_CACHELINE); /* constant from here */
	unsigned worker;
	int fd;
};

struct sl_handover_hub {
	struct sl_handover end[SL_MAX_WORKERS];
	_Atomic uint64_t cookies_until_ns SL_ALIGNED(SL_CACHELINE);
	struct ring ring[SL_MAX_WORKERS][SL_MAX_WORKERS]; /* [owner][sender] */
	uint8_t *slots;
	size_t slots_len, slot_len;
	struct bucket *dir;
	size_t dir_len;
	uint32_t dir_mask;
	uint32_t frame_size;
	unsigned worker_cnt;
	struct sl_sipkey key;
};

static void *map_pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int open_ends(struct sl_handover_hub *h)
{
	for (unsigned i = 0; i < SL_MAX_WORKERS; i++)
		h->end[i].fd = -1;
	for (unsigned i = 0; i < h->worker_cnt; i++) {
		h->end[i].hub = h;
		h->end[i].worker = i;
		h->end[i].fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (h->end[i].fd < 0)
			return -errno;
	}
	return 0;
}

struct sl_handover_hub *sl_handover_hub_create(unsigned worker_cnt, uint32_t max_flows,
					       uint32_t frame_size)
{
	uint32_t buckets = 64;
	uint8_t key[16];
	int err;

	if (worker_cnt == 0 || worker_cnt > SL_MAX_WORKERS || max_flows > 1u << 28) {
		errno = EINVAL;
		return NULL;
	}
	struct sl_handover_hub *h = map_pages(sizeof(*h));

	if (!h)
		return NULL;
	h->worker_cnt = worker_cnt;
	h->frame_size = frame_size;
	err = open_ends(h);
	if (err)
		goto fail;
	err = sl_rand_bytes(key, sizeof(key));
	if (err)
		goto fail;
	h->key = sl_sipkey_from(key);

	/* At most half full, so two buckets of 8 are never both full. */
	while (buckets * (DIR_SLOTS / 2) < max_flows)
		buckets *= 2;
	h->dir_mask = buckets - 1;
	err = -ENOMEM;
	h->dir_len = buckets * sizeof(*h->dir);
	h->dir = map_pages(h->dir_len);
	if (!h->dir)
		goto fail;
	h->slot_len = SLOT_HEADER + (size_t)frame_size;
	h->slots_len = h->slot_len * RING_SLOTS * worker_cnt * worker_cnt;
	h->slots = map_pages(h->slots_len);
	if (!h->slots)
		goto fail;
	return h;

fail:
	sl_handover_hub_destroy(h);
	errno = -err;
	return NULL;
}

void sl_handover_hub_destroy(struct sl_handover_hub *h)
{
	if (!h)
		return;
	for (unsigned i = 0; i < SL_MAX_WORKERS; i++) {
		if (h->end[i].fd >= 0)
			close(h->end[i].fd);
	}
	if (h->slots)
		munmap(h->slots, h->slots_len);
	if (h->dir)
		munmap(h->dir, h->dir_len);
	munmap(h, sizeof(*h));
}

int sl_handover_join(struct sl_handover_hub *h, unsigned worker, struct sl_net *n)
{
	if (worker >= h->worker_cnt || n->umem->frame_size != h->frame_size)
		return -EINVAL;
	n->handover = &h->end[worker];
	return 0;
}

void sl_handover_leave(struct sl_net *n)
{
	n->handover = NULL;
}

/* Directory word: 56 bits of hash, owner + 1; 0: free. */

static void buckets_of(const struct sl_handover_hub *h, uint64_t hash, struct bucket **b)
{
	b[0] = &h->dir[(hash >> 8) & h->dir_mask];
	b[1] = &h->dir[(hash >> 36) & h->dir_mask];
}

static bool same_flow(uint64_t word, uint64_t hash)
{
	return word && ((word ^ hash) & ~(uint64_t)WORKER_BITS) == 0;
}

static uint64_t word_of(uint64_t hash, unsigned worker)
{
	return (hash & ~(uint64_t)WORKER_BITS) | (worker + 1);
}

static _Atomic uint64_t *place_for(const struct sl_handover_hub *h, uint64_t hash, uint64_t *seen)
{
	_Atomic uint64_t *hole[2] = {NULL, NULL};
	unsigned free_cnt[2] = {0, 0};
	struct bucket *b[2];

	buckets_of(h, hash, b);
	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < DIR_SLOTS; i++) {
			_Atomic uint64_t *w = &b[k]->word[i];

			*seen = atomic_load_explicit(w, memory_order_relaxed);
			if (same_flow(*seen, hash))
				return w;
			if (*seen == 0) {
				hole[k] = hole[k] ? hole[k] : w;
				free_cnt[k]++;
			}
		}
	}
	*seen = 0;
	return free_cnt[1] > free_cnt[0] ? hole[1] : hole[0];
}

bool sl_handover_claim(struct sl_net *n, const struct sl_flow_key *key)
{
	if (!n->handover)
		return true;
	const struct sl_handover_hub *h = n->handover->hub;
	uint64_t hash = sl_flow_hash_key(&h->key, key), seen;

	for (int i = 0; i < DIR_TRIES; i++) {
		_Atomic uint64_t *w = place_for(h, hash, &seen);

		if (!w)
			return false;
		if (atomic_compare_exchange_strong(w, &seen, word_of(hash, n->handover->worker)))
			return true;
	}
	return false;
}

void sl_handover_release(struct sl_net *n, const struct sl_flow_key *key)
{
	struct bucket *b[2];

	if (!n->handover)
		return;
	const struct sl_handover_hub *h = n->handover->hub;
	uint64_t hash = sl_flow_hash_key(&h->key, key);

	buckets_of(h, hash, b);
	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < DIR_SLOTS; i++) {
			uint64_t mine = word_of(hash, n->handover->worker);

			atomic_compare_exchange_strong(&b[k]->word[i], &mine, 0);
		}
	}
}

static int owner_of(const struct sl_handover_hub *h, const struct sl_flow_key *key, unsigned self)
{
	uint64_t hash = sl_flow_hash_key(&h->key, key);
	struct bucket *b[2];

	buckets_of(h, hash, b);
	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < DIR_SLOTS; i++) {
			uint64_t w = atomic_load_explicit(&b[k]->word[i], memory_order_relaxed);
			unsigned owner = (unsigned)(w & WORKER_BITS) - 1;

			if (same_flow(w, hash) && owner != self && owner < h->worker_cnt)
				return (int)owner;
		}
	}
	return -1;
}

void sl_handover_cookie_sent(struct sl_net *n, uint64_t until_ns)
{
	if (!n->handover)
		return;
	_Atomic uint64_t *shared = &n->handover->hub->cookies_until_ns;
	uint64_t old = atomic_load_explicit(shared, memory_order_relaxed);

	until_ns += COOKIE_GRAIN_NS;
	if (until_ns >= old + COOKIE_GRAIN_NS)
		atomic_compare_exchange_strong_explicit(shared, &old, until_ns,
							memory_order_relaxed, memory_order_relaxed);
}

uint64_t sl_handover_cookies_until(const struct sl_net *n)
{
	if (!n->handover)
		return 0;
	return atomic_load_explicit(&n->handover->hub->cookies_until_ns, memory_order_relaxed);
}

static struct handover_slot *slot_at(const struct sl_handover_hub *h, unsigned owner,
				     unsigned giver, uint32_t index)
{
	size_t i = ((size_t)owner * h->worker_cnt + giver) * RING_SLOTS + index % RING_SLOTS;

	return (struct handover_slot *)(h->slots + i * h->slot_len);
}

static void fill_slot(struct handover_slot *s, const struct sl_net *n, const struct sl_frame *f,
		      uint8_t protocol)
{
	const uint8_t *base = sl_frame_base(n->umem, f);

	*s = (struct handover_slot){
		.rx_ns = f->rx_ns,
		.l2_off = f->l2_off,
		.l3_off = f->l3_off,
		.l4_off = (uint16_t)(f->data - base),
		.end_off = (uint16_t)(f->data - base + f->len),
		.family = f->family,
		.protocol = protocol,
		.port = f->port,
		.ifindex = n->ports[f->port]->ifindex,
	};
	memcpy((uint8_t *)s + SLOT_HEADER, base + f->l2_off, (size_t)(s->end_off - s->l2_off));
}

/* The fence orders this after the ring's head. */
static void notify(struct sl_handover *owner, unsigned giver)
{
	const uint64_t one = 1;
	uint32_t bit = 1u << giver;

	atomic_thread_fence(memory_order_seq_cst);
	if (!(atomic_load_explicit(&owner->filled, memory_order_relaxed) & bit))
		atomic_fetch_or(&owner->filled, bit);
	if (atomic_load(&owner->armed) && atomic_exchange(&owner->armed, 0)) {
		if (write(owner->fd, &one, sizeof(one)) < 0)
			return;
	}
}

static bool push(struct sl_net *n, unsigned to, const struct sl_frame *f, uint8_t protocol,
		 uint32_t most)
{
	struct sl_handover_hub *h = n->handover->hub;
	unsigned self = n->handover->worker;
	struct ring *r = &h->ring[to][self];
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) >= most)
		return false;
	fill_slot(slot_at(h, to, self, head), n, f, protocol);
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	notify(&h->end[to], self);
	return true;
}

bool sl_handover_give(struct sl_net *n, struct sl_frame *f, const struct sl_flow_key *key,
		      uint8_t protocol)
{
	struct sl_handover *self = n->handover;

	if (!self || f->flags & SL_NET_HANDED_OVER)
		return false;
	int owner = owner_of(self->hub, key, self->worker);

	if (owner < 0)
		return false;
	if (push(n, (unsigned)owner, f, protocol, RING_SLOTS))
		sl_frame_put(n->umem, f);
	else
		sl_net_drop_frame(n, f, SL_DROP_HANDOVER_FULL);
	return true;
}

void sl_handover_tell(struct sl_net *n, const struct sl_frame *f, uint8_t protocol)
{
	if (!n->handover || f->flags & SL_NET_HANDED_OVER)
		return;
	for (unsigned i = 0; i < n->handover->hub->worker_cnt; i++) {
		if (i != n->handover->worker && !push(n, i, f, protocol, RING_SLOTS / 2))
			sl_net_drop(n, SL_DROP_HANDOVER_FULL);
	}
}

static uint8_t port_of_slot(const struct sl_net *n, const struct handover_slot *s, bool *unknown)
{
	*unknown = false;
	if (s->port < n->port_cnt && n->ports[s->port]->ifindex == s->ifindex)
		return s->port;
	for (uint8_t i = 0; i < n->port_cnt; i++) {
		if (n->ports[i]->ifindex == s->ifindex)
			return i;
	}
	*unknown = true;
	return 0;
}

static struct sl_frame *copy_slot(struct sl_net *n, const struct handover_slot *s)
{
	struct sl_frame *f = NULL;
	bool unknown;

	if (n->port_cnt)
		f = sl_frame_get(n->umem, SL_FRAME_FILL, s->l4_off);
	if (!f) {
		sl_net_drop(n, SL_DROP_NO_FRAME);
		return NULL;
	}
	sl_frame_to(n->umem, f, SL_FRAME_RX);
	memcpy(sl_frame_base(n->umem, f) + s->l2_off, (const uint8_t *)s + SLOT_HEADER,
	       (size_t)(s->end_off - s->l2_off));
	f->len = (uint16_t)(s->end_off - s->l4_off);
	f->l2_off = s->l2_off;
	f->l3_off = s->l3_off;
	f->family = s->family;
	f->port = port_of_slot(n, s, &unknown);
	sl_net_set_sender(n, f);
	f->rx_ns = s->rx_ns;
	f->take_ns = n->now_ns;
	f->flags = (uint8_t)(SL_NET_HANDED_OVER | (unknown ? SL_NET_PORT_UNKNOWN : 0));
	return f;
}

static unsigned drain_ring(struct sl_net *n, unsigned giver, bool *more)
{
	struct sl_handover_hub *h = n->handover->hub;
	unsigned self = n->handover->worker, cnt = 0;
	struct ring *r = &h->ring[self][giver];
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint32_t have = atomic_load_explicit(&r->head, memory_order_acquire) - tail;
	SL_UNINIT struct sl_frame *frames[SL_BURST];
	SL_UNINIT uint8_t protocols[SL_BURST];

	*more = have > SL_BURST;
	if (have > SL_BURST)
		have = SL_BURST;
	for (uint32_t i = 0; i < have; i++) {
		const struct handover_slot *s = slot_at(h, self, giver, tail + i);

		frames[cnt] = copy_slot(n, s);
		protocols[cnt] = s->protocol;
		cnt += frames[cnt] != NULL;
	}
	atomic_store_explicit(&r->tail, tail + have, memory_order_release);
	sl_net_deliver(n, frames, protocols, cnt);
	return have;
}

unsigned sl_handover_poll(struct sl_net *n)
{
	struct sl_handover *self = n->handover;
	unsigned cnt = 0;
	uint32_t bits;

	if (!self || !atomic_load_explicit(&self->filled, memory_order_relaxed))
		return 0;
	bits = atomic_exchange(&self->filled, 0);
	/* Pairs with the fence in notify(). */
	atomic_thread_fence(memory_order_seq_cst);
	while (bits) {
		unsigned giver = (unsigned)__builtin_ctz(bits);
		bool more;

		bits &= bits - 1;
		cnt += drain_ring(n, giver, &more);
		if (more)
			atomic_fetch_or(&self->filled, 1u << giver);
	}
	return cnt;
}

int sl_handover_fd(const struct sl_net *n)
{
	return n->handover ? n->handover->fd : -1;
}

void sl_handover_arm(struct sl_net *n)
{
	if (!n->handover)
		return;
	atomic_store(&n->handover->armed, 1);
	/* Pairs with the fence in notify(). */
	atomic_thread_fence(memory_order_seq_cst);
}

void sl_handover_disarm(struct sl_net *n)
{
	uint64_t cnt;

	if (!n->handover)
		return;
	atomic_store(&n->handover->armed, 0);
	/* Always: a sender may write late, and the fd must not stay readable. */
	if (read(n->handover->fd, &cnt, sizeof(cnt)) < 0)
		return;
}
