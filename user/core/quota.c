/* SPDX-License-Identifier: Apache-2.0 */
#include "core/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/siphash.h"
#include "base/tlv.h"
#include "config/api_keys.h"
#include "core/exchange.h"
#include "core/offender.h"
#include "core/pool.h"
#include "core/quota_table.h"
#include "core/usage_scan.h"
#include "wire/rpc_wire.h"

enum { LONGEST_WAIT_S = 86400 };

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct sl_quota_table *find_table(const struct sl_config *c, const struct sl_cfg_quota *q)
{
	for (uint32_t i = 0; c && i < c->quota_cnt; i++) {
		const struct sl_cfg_quota *k = &c->quotas[i];

		if (strcmp(k->name, q->name) == 0 && k->by == q->by && k->clients == q->clients &&
		    same_text(k->header, q->header))
			return k->table;
	}
	return NULL;
}

static void free_tables(struct sl_config *c)
{
	for (uint32_t i = 0; i < c->quota_cnt; i++)
		sl_quota_table_put(c->quotas[i].table);
	sl_quota_table_put(c->penalty.table);
}

static int load_penalty(struct sl_cfg_penalty *next, const struct sl_cfg_penalty *now)
{
	if (!next->after || next->table)
		return 0;
	/* Old refusals would be too many for a shorter time. */
	next->table = now && now->table && next->within_ns >= now->within_ns
			      ? sl_quota_table_get(now->table)
			      : sl_quota_table_new(SL_OFFENDER_ADDRESSES);
	return next->table ? 0 : -ENOMEM;
}

int sl_quotas_load(struct sl_config *next, const struct sl_config *now, struct sl_err *err)
{
	sl_config_on_free(next, free_tables);
	for (uint32_t i = 0; i < next->quota_cnt; i++) {
		struct sl_cfg_quota *q = &next->quotas[i];
		struct sl_quota_table *was = find_table(now, q);

		if (!q->table)
			q->table = was ? sl_quota_table_get(was) : sl_quota_table_new(q->clients);
		if (!q->table)
			return sl_fail(err, -ENOMEM, "%s: out of memory", next->file);
	}
	if (load_penalty(&next->penalty, now ? &now->penalty : NULL))
		return sl_fail(err, -ENOMEM, "%s: out of memory", next->file);
	return 0;
}

static const struct sl_cfg_quota *quota_of(const struct sl_exchange *x, uint32_t i)
{
	return &x->wcfg->cfg->quotas[x->route->quotas[i]];
}

static struct sl_span header_value(const struct sl_request *rq, const char *name)
{
	const struct sl_span want = sl_span_cstr(name);

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, want))
			return rq->headers[i].value;
	}
	return sl_span_of(NULL, 0);
}

static uint64_t hash_client(const struct sl_exchange *x, const struct sl_cfg_quota *q,
			    const struct sl_request *rq)
{
	const struct sl_sipkey *key = &q->table->key;
	struct sl_span value;

	switch (q->by) {
	case SL_QUOTA_BY_HEADER:
		value = header_value(rq, q->header);
		return sl_siphash24(key, value.ptr, value.len);
	case SL_QUOTA_BY_KEY: return sl_siphash13_words(key, &x->key->id, 1);
	case SL_QUOTA_BY_ROUTE: return sl_siphash24(key, x->route->prefix, x->route->prefix_len);
	default: return sl_siphash13_words(key, &x->quota->hash, 1);
	}
}

static const struct sl_cfg_bucket *rate_of(const struct sl_exchange *x,
					   const struct sl_cfg_quota *q)
{
	return q->by == SL_QUOTA_BY_KEY && x->key->bucket.tokens ? &x->key->bucket : &q->bucket;
}

static uint32_t max_requests_of(const struct sl_exchange *x, const struct sl_cfg_quota *q)
{
	return q->by == SL_QUOTA_BY_KEY && x->key->max_requests ? x->key->max_requests
								: q->max_requests;
}

static bool reports(const struct sl_cfg_quota *q)
{
	return q->usage_header || q->usage_member;
}

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static enum sl_outcome admit_client(struct sl_exchange *x, uint32_t i, const struct sl_cfg_quota *q)
{
	const uint64_t hash = x->quota_hashes[i], now_ns = x->core->now_ns;
	const struct sl_cfg_bucket *rate = rate_of(x, q);
	const uint32_t max = max_requests_of(x, q);
	struct sl_quota_bucket *b = NULL;
	uint64_t wait_ns = 0;

	if (rate->tokens) {
		b = sl_quota_find(q->table, hash, now_ns);
		wait_ns = sl_quota_take(b, reports(q) ? 0 : rate->token_ns, rate->token_ns,
					rate->depth_ns, now_ns);
	}
	if (wait_ns) {
		const uint64_t wait_s = (wait_ns + SL_NS_PER_SEC - 1) / SL_NS_PER_SEC;

		count(&q->table->refused_by_rate);
		x->quota_no = (uint8_t)i;
		x->quota_wait_s = wait_s < LONGEST_WAIT_S ? (uint32_t)wait_s : LONGEST_WAIT_S;
		return SL_OUTCOME_RATE_LIMIT;
	}
	if (max && !sl_quota_open(q->table, hash, max, now_ns)) {
		count(&q->table->refused_by_open);
		if (b && !reports(q))
			sl_quota_return(b, rate->token_ns);
		return SL_OUTCOME_OPEN_LIMIT;
	}
	if (max)
		x->quota_open |= (uint8_t)(1u << i);
	return SL_OUTCOME_OK;
}

static void return_tokens(struct sl_exchange *x, uint32_t i)
{
	const struct sl_cfg_quota *q = quota_of(x, i);

	if (rate_of(x, q)->tokens && !reports(q))
		sl_quota_return(sl_quota_find(q->table, x->quota_hashes[i], x->core->now_ns),
				rate_of(x, q)->token_ns);
}

enum sl_outcome sl_quotas_admit(struct sl_exchange *x, const struct sl_request *rq)
{
	for (uint32_t i = 0; i < x->route->quota_cnt; i++) {
		const struct sl_cfg_quota *q = quota_of(x, i);
		enum sl_outcome o;

		x->quota_hashes[i] = hash_client(x, q, rq);
		o = admit_client(x, i, q);
		if (o == SL_OUTCOME_OK)
			continue;
		/* others can use up the tokens of a key, a header's value or a route */
		if (q->by == SL_QUOTA_BY_ADDRESS)
			sl_offender_count(x->client, NULL);
		while (i--)
			return_tokens(x, i);
		sl_quotas_close(x);
		return o;
	}
	x->extra |= x->route->charges ? SL_EXTRA_CHARGE : 0;
	return SL_OUTCOME_OK;
}

/* Takes n tokens. A backend may name any number, so the debt is bounded. */
static void charge_client(struct sl_exchange *x, uint32_t i, uint64_t n)
{
	const struct sl_cfg_quota *q = quota_of(x, i);
	const struct sl_cfg_bucket *rate = rate_of(x, q);
	const uint64_t most_ns = rate->depth_ns + LONGEST_WAIT_S * SL_NS_PER_SEC;

	x->quota_charged |= (uint8_t)(1u << i);
	atomic_fetch_add_explicit(&q->table->charged, n, memory_order_relaxed);
	sl_quota_charge(sl_quota_find(q->table, x->quota_hashes[i], x->core->now_ns),
			n > most_ns / rate->token_ns ? most_ns : n * rate->token_ns, most_ns,
			x->core->now_ns);
}

static void charge_value(struct sl_exchange *x, uint32_t i, struct sl_span value)
{
	const struct sl_cfg_quota *q = quota_of(x, i);
	uint64_t n;

	if (!rate_of(x, q)->tokens)
		return;
	if (sl_parse_u64_max(value, UINT32_MAX, &n) != 0)
		count(&q->table->unreadable);
	else
		charge_client(x, i, n);
}

void sl_quotas_charge(struct sl_exchange *x, struct sl_span meta)
{
	struct sl_span field;
	uint16_t tag;

	while (sl_tlv_next(&meta, &tag, &field)) {
		struct sl_span name;

		if ((tag != SL_META_HEADER && tag != SL_META_TRAILER) || !field.len ||
		    field.len < 1u + field.ptr[0])
			continue;
		name = sl_span_of(field.ptr + 1, field.ptr[0]);
		for (uint32_t i = 0; i < x->route->quota_cnt; i++) {
			const char *want = quota_of(x, i)->usage_header;

			if (want && !(x->quota_charged & 1u << i) &&
			    sl_span_eq_nocase(name, sl_span_cstr(want)))
				charge_value(x, i, sl_span_skip(field, 1u + name.len));
		}
	}
}

static bool is_type(struct sl_span type, const char *want)
{
	struct sl_span w = sl_span_cstr(want);

	return sl_span_eq_nocase(sl_span_first(type, w.len), w) &&
	       (type.len == w.len || memchr("; \t", type.ptr[w.len], 3));
}

/*
 * Starts to search a JSON or event-stream reply. An agent passes its server's type on as a header.
 */
static void begin_reply(struct sl_exchange *x, struct sl_span meta)
{
	static const struct sl_span name = SL_SPAN_LIT("content-type");
	struct sl_span field, type = {0};
	uint16_t tag;
	bool events;

	while (sl_tlv_next(&meta, &tag, &field)) {
		if (tag == SL_META_CONTENT_TYPE)
			type = field;
		else if (tag == SL_META_HEADER && field.len > name.len &&
			 field.ptr[0] == name.len &&
			 sl_span_eq_nocase(sl_span_first(sl_span_skip(field, 1), name.len), name))
			type = sl_span_skip(field, 1 + name.len);
	}
	events = is_type(type, "text/event-stream");
	if (!events && !is_type(type, "application/json"))
		return;
	x->usage = sl_mempool_get(&x->core->usage_scans);
	if (x->usage)
		sl_usage_scan_begin(x->usage, x->route->usage_member, events);
}

void sl_quotas_read_reply(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	if (r->first && !x->usage && r->meta.len)
		begin_reply(x, r->meta);
	if (x->usage)
		sl_usage_scan_read(x->usage, r->body);
}

void sl_quotas_end_reply(struct sl_exchange *x)
{
	uint64_t n;
	bool found = sl_usage_scan_value(x->usage, &n);

	for (uint32_t i = 0; i < x->route->quota_cnt; i++) {
		const struct sl_cfg_quota *q = quota_of(x, i);

		if (!q->usage_member || !rate_of(x, q)->tokens)
			continue;
		if (found)
			charge_client(x, i, n);
		else
			count(&q->table->unreadable);
	}
	sl_mempool_put(&x->core->usage_scans, x->usage);
	x->usage = NULL;
}

void sl_quotas_close(struct sl_exchange *x)
{
	for (uint32_t i = 0; x->quota_open; i++, x->quota_open >>= 1) {
		if (x->quota_open & 1)
			sl_quota_close(quota_of(x, i)->table, x->quota_hashes[i]);
	}
}

void sl_quota_put_fields(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	const struct sl_cfg_quota *q = quota_of(x, x->quota_no);
	const struct sl_cfg_bucket *b = rate_of(x, q);
	char(*text)[SL_QUOTA_FIELD] = x->core->limit_texts;

	out->reply.retry_after_s = x->quota_wait_s;
	snprintf(text[0], SL_QUOTA_FIELD, "\"%s\";q=%" PRIu32 ";w=%" PRIu64, q->name, b->burst,
		 (b->depth_ns + SL_NS_PER_SEC - 1) / SL_NS_PER_SEC);
	snprintf(text[1], SL_QUOTA_FIELD, "\"%s\";r=0;t=%" PRIu32, q->name, x->quota_wait_s);
	out->headers[0] =
		(struct sl_header){sl_span_str("ratelimit-policy"), sl_span_cstr(text[0])};
	out->headers[1] = (struct sl_header){sl_span_str("ratelimit"), sl_span_cstr(text[1])};
	out->reply.headers = out->headers;
	out->reply.header_cnt = 2;
}
