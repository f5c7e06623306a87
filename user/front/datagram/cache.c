/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "base/check.h"
#include "front/datagram/datagram.h"

enum { SLOT_FREE, SLOT_PENDING, SLOT_ANSWERED };

/* Links are index + 1; 0 ends a list. */
struct sl_datagram_slot {
	struct sl_datagram_source src;
	uint64_t id;
	uint64_t sent_ns;
	uint32_t next;
	uint32_t older, newer; /* ANSWERED: by age */
	uint16_t len;
	uint8_t state;
	uint8_t reserved[9];
};
SL_ASSERT_SIZE(struct sl_datagram_slot, 64);
SL_ASSERT_SIZE(struct sl_datagram_source, 24);

int sl_datagram_cache_init(struct sl_datagram_cache *c, uint32_t slots, uint32_t reply_cap,
			   uint64_t ttl_ns, const uint8_t key[16])
{
	uint32_t buckets = 1;

	*c = (struct sl_datagram_cache){
		.slot_cnt = slots,
		.reply_cap = reply_cap,
		.ttl_ns = ttl_ns,
		.key = sl_sipkey_from(key),
	};
	if (!slots || slots > 1u << 24 || reply_cap < SL_DATAGRAM_HEAD || reply_cap > UINT16_MAX)
		return -EINVAL;
	while (buckets < slots)
		buckets *= 2;
	c->bucket_mask = buckets - 1;
	c->slots = aligned_alloc(64, slots * sizeof(*c->slots));
	c->buckets = calloc(buckets, sizeof(*c->buckets));
	c->replies = calloc(slots, reply_cap);
	if (!c->slots || !c->buckets || !c->replies) {
		sl_datagram_cache_fini(c);
		return -ENOMEM;
	}
	memset(c->slots, 0, slots * sizeof(*c->slots));
	for (uint32_t i = 0; i < slots; i++)
		c->slots[i].next = i + 1 < slots ? i + 2 : 0;
	c->free_head = 1;
	return 0;
}

void sl_datagram_cache_fini(struct sl_datagram_cache *c)
{
	free(c->slots);
	free(c->buckets);
	free(c->replies);
	*c = (struct sl_datagram_cache){0};
}

static struct sl_datagram_slot *slot_at(const struct sl_datagram_cache *c, uint32_t link)
{
	return &c->slots[link - 1];
}

static uint32_t *bucket_of(const struct sl_datagram_cache *c, const struct sl_datagram_source *src,
			   uint64_t id)
{
	uint64_t words[4] = {[3] = id};

	memcpy(words, src, sizeof(*src));
	return &c->buckets[sl_siphash13_words(&c->key, words, 4) & c->bucket_mask];
}

static void age_remove(struct sl_datagram_cache *c, struct sl_datagram_slot *s)
{
	if (s->older)
		slot_at(c, s->older)->newer = s->newer;
	else
		c->oldest = s->newer;
	if (s->newer)
		slot_at(c, s->newer)->older = s->older;
	else
		c->newest = s->older;
	c->answered--;
}

static void age_append(struct sl_datagram_cache *c, struct sl_datagram_slot *s, uint64_t now_ns)
{
	const uint32_t link = (uint32_t)(s - c->slots) + 1;

	s->sent_ns = now_ns;
	s->newer = 0;
	s->older = c->newest;
	if (c->newest)
		slot_at(c, c->newest)->newer = link;
	else
		c->oldest = link;
	c->newest = link;
	c->answered++;
}

static void slot_free(struct sl_datagram_cache *c, uint32_t link)
{
	struct sl_datagram_slot *s = slot_at(c, link);
	uint32_t *at = bucket_of(c, &s->src, s->id);

	if (s->state == SLOT_ANSWERED)
		age_remove(c, s);
	else
		c->pending--;
	while (*at != link)
		at = &slot_at(c, *at)->next;
	*at = s->next;
	s->state = SLOT_FREE;
	s->next = c->free_head;
	c->free_head = link;
}

static uint32_t slot_take(struct sl_datagram_cache *c)
{
	uint32_t link;

	if (!c->free_head && c->oldest)
		slot_free(c, c->oldest);
	link = c->free_head;
	if (link)
		c->free_head = slot_at(c, link)->next;
	return link;
}

static uint32_t find_slot(const struct sl_datagram_cache *c, const struct sl_datagram_source *src,
			  uint64_t id)
{
	uint32_t link = *bucket_of(c, src, id);

	for (; link; link = slot_at(c, link)->next) {
		const struct sl_datagram_slot *s = slot_at(c, link);

		if (s->id == id && !memcmp(&s->src, src, sizeof(*src)))
			return link;
	}
	return 0;
}

enum sl_datagram_seen sl_datagram_seen(struct sl_datagram_cache *c,
				       const struct sl_datagram_source *src, uint64_t id,
				       size_t reply_max, uint64_t now_ns, uint32_t *slot,
				       struct sl_span *reply)
{
	struct sl_datagram_slot *s;
	uint32_t link, *bucket;

	while (c->oldest && now_ns - slot_at(c, c->oldest)->sent_ns > c->ttl_ns)
		slot_free(c, c->oldest);
	link = find_slot(c, src, id);
	if (link) {
		s = slot_at(c, link);
		if (s->state == SLOT_PENDING)
			return SL_DATAGRAM_PENDING;
		/* Prevents amplification: a retry does not get the reply of a longer request. */
		if (s->len > reply_max)
			return SL_DATAGRAM_AMPLIFY;
		age_remove(c, s);
		age_append(c, s, now_ns);
		*reply = sl_span_of(c->replies + (size_t)(link - 1) * c->reply_cap, s->len);
		return SL_DATAGRAM_ANSWERED;
	}
	link = slot_take(c);
	if (!link)
		return SL_DATAGRAM_FULL;
	s = slot_at(c, link);
	s->src = *src;
	s->id = id;
	s->state = SLOT_PENDING;
	bucket = bucket_of(c, src, id);
	s->next = *bucket;
	*bucket = link;
	c->pending++;
	*slot = link - 1;
	return SL_DATAGRAM_NEW;
}

void sl_datagram_answered(struct sl_datagram_cache *c, uint32_t slot,
			  const uint8_t head[SL_DATAGRAM_HEAD], struct sl_span payload,
			  uint64_t now_ns)
{
	struct sl_datagram_slot *s = &c->slots[slot];
	uint8_t *copy = c->replies + (size_t)slot * c->reply_cap;

	if (!SL_ENSURE(slot < c->slot_cnt && s->state == SLOT_PENDING))
		return;
	if (payload.len > c->reply_cap - SL_DATAGRAM_HEAD) {
		slot_free(c, slot + 1);
		return;
	}
	memcpy(copy, head, SL_DATAGRAM_HEAD);
	if (payload.len)
		memcpy(copy + SL_DATAGRAM_HEAD, payload.ptr, payload.len);
	s->len = (uint16_t)(SL_DATAGRAM_HEAD + payload.len);
	s->state = SLOT_ANSWERED;
	c->pending--;
	age_append(c, s, now_ns);
}

void sl_datagram_forget(struct sl_datagram_cache *c, uint32_t slot)
{
	if (!SL_ENSURE(slot < c->slot_cnt && c->slots[slot].state == SLOT_PENDING))
		return;
	slot_free(c, slot + 1);
}
