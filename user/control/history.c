/* SPDX-License-Identifier: Apache-2.0 */
#include "control/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hist.h"
#include "control/code_metrics.h"
#include "control/fields.h"

enum { CLASSES = 5 };

enum {
	POOL_RATE,
	POOL_CLASS,
	POOL_P50 = POOL_CLASS + CLASSES,
	POOL_P99,
	POOL_BATCH,
	POOL_CAP,
	POOL_QUEUED,
	POOL_FLIGHT,
	POOL_SHED,
	POOL_STAGE,
	POOL_SERIES = POOL_STAGE + SL_STAGE_CNT,
};

enum { BACKEND_RATE, BACKEND_ERRORS, BACKEND_P50, BACKEND_P99, BACKEND_SERIES };

struct history_entry {
	const char *pool, *backend;
	unsigned series;
	uint32_t samples;
	bool has_last, seen;
	struct sl_codes codes;
	struct sl_svc_hist hist; /* total time, or time at the backend */
	uint64_t stage_ns[SL_STAGE_CNT], stage_cnt[SL_STAGE_CNT];
	uint64_t batches, batched, shed;
	float *ring;
	char names[];
};

struct sl_history {
	struct history_entry **entries;
	uint32_t cnt, backend_cnt;
	uint32_t hint;
	uint32_t at;
	uint64_t last_ns;
	double seconds;
};

struct sl_history *sl_history_new(void)
{
	return calloc(1, sizeof(struct sl_history));
}

static void free_entry(struct history_entry *e)
{
	free(e->ring);
	free(e);
}

void sl_history_free(struct sl_history *h)
{
	for (uint32_t i = 0; h && i < h->cnt; i++)
		free_entry(h->entries[i]);
	if (h)
		free(h->entries);
	free(h);
}

static struct history_entry *find_entry(struct sl_history *h, const char *pool, const char *backend)
{
	for (uint32_t i = 0; h && i < h->cnt; i++) {
		uint32_t at = (h->hint + i) % h->cnt;
		struct history_entry *e = h->entries[at];

		if (strcmp(e->backend, backend) != 0 || strcmp(e->pool, pool) != 0)
			continue;
		h->hint = at + 1;
		return e;
	}
	return NULL;
}

static struct history_entry *new_entry(const char *pool, const char *backend)
{
	size_t pool_len = strlen(pool) + 1, len = strlen(backend) + 1;
	struct history_entry *e = calloc(1, sizeof(*e) + pool_len + len);

	if (!e)
		return NULL;
	memcpy(e->names, pool, pool_len);
	memcpy(e->names + pool_len, backend, len);
	e->pool = e->names;
	e->backend = e->names + pool_len;
	e->series = *backend ? BACKEND_SERIES : POOL_SERIES;
	e->ring = calloc((size_t)e->series * SL_HISTORY_LEN, sizeof(*e->ring));
	if (e->ring)
		return e;
	free(e);
	return NULL;
}

static struct history_entry *get_entry(struct sl_history *h, const char *pool, const char *backend)
{
	struct history_entry *e = find_entry(h, pool, backend), **grown;

	if (e || (*backend && h->backend_cnt >= SL_HISTORY_BACKENDS))
		return e;
	grown = realloc(h->entries, (h->cnt + 1) * sizeof(struct history_entry *));
	if (!grown)
		return NULL;
	h->entries = grown;
	e = new_entry(pool, backend);
	if (!e)
		return NULL;
	h->backend_cnt += *backend != 0;
	h->entries[h->cnt++] = e;
	return e;
}

static void put(struct sl_history *h, struct history_entry *e, unsigned series, double v)
{
	e->ring[(size_t)series * SL_HISTORY_LEN + h->at] = (float)v;
}

/* Counters of a new object begin at zero. */
static uint64_t growth(uint64_t now, uint64_t last)
{
	return now >= last ? now - last : now;
}

static uint64_t class_growth(const struct sl_codes *now, const struct sl_codes *last,
			     unsigned class)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SL_CODE_CNT; i++) {
		if (sl_code_class(i) == class)
			sum += growth(now->http[i], last->http[i]);
	}
	return sum;
}

static void put_quantiles(struct sl_history *h, struct history_entry *e, unsigned p50, unsigned p99,
			  const uint64_t *bucket)
{
	uint64_t diff[SL_HIST_BUCKET_CNT];

	sl_hist_diff(diff, bucket, (const uint64_t *)e->hist.bucket);
	put(h, e, p50, (double)sl_hist_quantile(diff, 0.5));
	put(h, e, p99, (double)sl_hist_quantile(diff, 0.99));
	memcpy(e->hist.bucket, bucket, sizeof(e->hist.bucket));
}

static void put_stages(struct sl_history *h, struct history_entry *e, struct sl_gateway *g,
		       const struct sl_gateway_info *in, uint32_t slot)
{
	uint64_t total[SL_HIST_BUCKET_CNT] = {0};

	for (unsigned st = 0; st < SL_STAGE_CNT; st++) {
		uint64_t ns = 0, cnt = 0, more;

		for (uint32_t w = 0; w < in->worker_cnt; w++) {
			const struct sl_svc_hist *s =
				sl_gateway_hist(g, w, slot, (enum sl_stage)st);

			ns += s->sum_ns;
			cnt += s->count;
			if (st == SL_STAGE_TOTAL)
				sl_hist_merge(total, (const uint64_t *)s->bucket);
		}
		more = growth(cnt, e->stage_cnt[st]);
		put(h, e, POOL_STAGE + st,
		    more ? (double)growth(ns, e->stage_ns[st]) / (double)more : 0);
		e->stage_ns[st] = ns;
		e->stage_cnt[st] = cnt;
	}
	put_quantiles(h, e, POOL_P50, POOL_P99, total);
}

static void put_live(struct sl_history *h, struct history_entry *e, struct sl_gateway *g,
		     const struct sl_gateway_info *in, uint32_t slot)
{
	uint64_t batches = 0, batched = 0, shed = 0, queued = 0, flight = 0, more;
	uint32_t cap = 0;

	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		struct sl_svc_live l;

		sl_gateway_live(g, w, slot, &l);
		batches += l.batches;
		batched += l.requests;
		shed += l.shed;
		queued += l.queued;
		flight += l.in_flight;
		cap = l.batch_cap > cap ? l.batch_cap : cap;
	}
	more = growth(batches, e->batches);
	put(h, e, POOL_BATCH, more ? (double)growth(batched, e->batched) / (double)more : 0);
	put(h, e, POOL_CAP, cap);
	put(h, e, POOL_QUEUED, (double)queued);
	put(h, e, POOL_FLIGHT, (double)flight);
	put(h, e, POOL_SHED, (double)growth(shed, e->shed) / h->seconds);
	e->batches = batches;
	e->batched = batched;
	e->shed = shed;
}

static void sample_pool(struct sl_history *h, struct sl_gateway *g,
			const struct sl_gateway_info *in, uint32_t p)
{
	struct history_entry *e = get_entry(h, in->cfg->pools[p].name, "");
	uint32_t slot = sl_gateway_slot(g, p);
	struct sl_codes now;
	double all = 0;

	if (!e)
		return;
	e->seen = true;
	sl_codes_of_pool(g, in, p, &now);
	for (unsigned k = 0; k < CLASSES; k++) {
		double rate = (double)class_growth(&now, &e->codes, k + 1) / h->seconds;

		put(h, e, POOL_CLASS + k, rate);
		all += rate;
	}
	put(h, e, POOL_RATE, all);
	e->codes = now;
	put_stages(h, e, g, in, slot);
	put_live(h, e, g, in, slot);
}

static void sample_backend(void *arg, const struct sl_backend_sum *sum)
{
	const struct sl_backend_codes *codes = &sum->codes;
	struct sl_history *h = arg;
	struct history_entry *e = get_entry(h, sum->pool, sum->name);
	double all = 0, errors;

	if (!e)
		return;
	e->seen = true;
	for (unsigned k = 1; k <= CLASSES; k++)
		all += (double)class_growth(&codes->codes, &e->codes, k);
	errors = (double)class_growth(&codes->codes, &e->codes, 5);
	put(h, e, BACKEND_RATE, all / h->seconds);
	put(h, e, BACKEND_ERRORS, errors / h->seconds);
	e->codes = codes->codes;
	put_quantiles(h, e, BACKEND_P50, BACKEND_P99, codes->bucket);
}

static void clear_first(struct sl_history *h, struct history_entry *e)
{
	if (e->has_last) {
		e->samples += e->samples < SL_HISTORY_LEN;
		return;
	}
	e->has_last = true;
	for (unsigned s = 0; s < e->series; s++)
		put(h, e, s, 0);
}

static void drop_unseen(struct sl_history *h)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < h->cnt; i++) {
		struct history_entry *e = h->entries[i];

		if (!e->seen) {
			h->backend_cnt -= *e->backend != 0;
			free_entry(e);
			continue;
		}
		clear_first(h, e);
		e->seen = false;
		h->entries[kept++] = e;
	}
	h->cnt = kept;
}

void sl_history_tick(struct sl_history *h, struct sl_gateway *g, uint64_t now_ns)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);

	h->seconds = h->last_ns ? (double)(now_ns - h->last_ns) / 1e9 : 1;
	h->last_ns = now_ns;
	for (uint32_t p = 0; p < in->cfg->pool_cnt; p++)
		sample_pool(h, g, in, p);
	sl_codes_each_backend(in, sample_backend, h);
	drop_unseen(h);
	h->at = (h->at + 1) % SL_HISTORY_LEN;
}

static void name_series(const struct history_entry *e, unsigned s, char *text, size_t size)
{
	static const char *const pool[] = {
		[POOL_RATE] = "rate",     [POOL_P50] = "p50_ns", [POOL_P99] = "p99_ns",
		[POOL_BATCH] = "batch",   [POOL_CAP] = "cap",    [POOL_QUEUED] = "queued",
		[POOL_FLIGHT] = "flight", [POOL_SHED] = "shed",
	};
	static const char *const backend[] = {"rate", "errors", "p50_ns", "p99_ns"};

	if (e->series == BACKEND_SERIES)
		snprintf(text, size, "%s", backend[s]);
	else if (s >= POOL_STAGE)
		snprintf(text, size, "%s_ns", stage_names[s - POOL_STAGE].name);
	else if (s >= POOL_CLASS && s < POOL_CLASS + CLASSES)
		snprintf(text, size, "%uxx", s - POOL_CLASS + 1);
	else
		snprintf(text, size, "%s", pool[s]);
}

static float sample_at(const struct sl_history *h, const struct history_entry *e, unsigned s,
		       uint32_t ago)
{
	uint32_t i = (h->at + SL_HISTORY_LEN - 1 - ago) % SL_HISTORY_LEN;

	return e->ring[(size_t)s * SL_HISTORY_LEN + i];
}

static void write_number(struct sl_strbuf *b, double v)
{
	sl_strbuf_printf(b, v >= 100 ? "%.0f" : "%.3g", v);
}

static void write_entry(const struct sl_history *h, struct sl_strbuf *b,
			const struct history_entry *e)
{
	char name[40];

	sl_strbuf_str(b, "{\"pool\":");
	sl_strbuf_json_str(b, sl_span_cstr(e->pool));
	if (*e->backend) {
		sl_strbuf_str(b, ",\"backend\":");
		sl_strbuf_json_str(b, sl_span_cstr(e->backend));
	}
	for (unsigned s = 0; s < e->series; s++) {
		name_series(e, s, name, sizeof(name));
		sl_strbuf_printf(b, ",\"%s\":[", name);
		for (uint32_t i = e->samples; i-- > 0;) {
			write_number(b, (double)sample_at(h, e, s, i));
			if (i)
				sl_strbuf_char(b, ',');
		}
		sl_strbuf_char(b, ']');
	}
	sl_strbuf_char(b, '}');
}

static void write_entries(const struct sl_history *h, struct sl_strbuf *b, bool backends)
{
	bool any = false;

	for (uint32_t i = 0; i < h->cnt; i++) {
		if ((*h->entries[i]->backend != 0) != backends)
			continue;
		if (any)
			sl_strbuf_char(b, ',');
		any = true;
		write_entry(h, b, h->entries[i]);
	}
}

void sl_history_write(const struct sl_history *h, struct sl_strbuf *b)
{
	sl_strbuf_printf(b, "{\"length\":%d,\"pools\":[", SL_HISTORY_LEN);
	write_entries(h, b, false);
	sl_strbuf_str(b, "],\"backends\":[");
	write_entries(h, b, true);
	sl_strbuf_str(b, "]}");
}

static double recent_of(const struct sl_history *h, const struct history_entry *e, unsigned s,
			bool is_time, uint32_t seconds)
{
	uint32_t n = e->samples < seconds ? e->samples : seconds, cnt = 0;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double v = (double)sample_at(h, e, s, i);

		sum += v;
		cnt += !is_time || v > 0;
	}
	return cnt ? sum / cnt : 0;
}

static json_t *recent_json(const struct sl_history *h, const struct history_entry *e,
			   uint32_t seconds)
{
	json_t *o = e ? json_object() : NULL;
	char name[40];

	for (unsigned s = 0; o && s < e->series; s++) {
		name_series(e, s, name, sizeof(name));
		json_object_set_new(
			o, name,
			json_real(recent_of(h, e, s, strstr(name, "_ns") != NULL, seconds)));
	}
	return o;
}

json_t *sl_history_pool(struct sl_history *h, const char *pool, uint32_t seconds)
{
	return recent_json(h, find_entry(h, pool, ""), seconds);
}

json_t *sl_history_backend(struct sl_history *h, const char *pool, const char *backend,
			   uint32_t seconds)
{
	return recent_json(h, find_entry(h, pool, backend), seconds);
}
