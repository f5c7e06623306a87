/* SPDX-License-Identifier: Apache-2.0 */
#include "front/codes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const uint16_t statuses[SL_CODE_CNT] = {
#define X(code) [SL_CODE_##code] = (code),
	SL_CODES(X)
#undef X
};

enum { STATUS_END = 600 };

static const uint8_t indexes[STATUS_END] = {
#define X(code) [code] = SL_CODE_##code + 1,
	SL_CODES(X)
#undef X
};
_Static_assert(SL_CODE_CNT < UINT8_MAX, "indexes fit");

static const uint64_t bounds_ns[SL_CODE_BOUND_CNT] = {
#define X(us) [SL_CODE_BOUND_##us] = UINT64_C(us) * 1000,
	SL_CODE_BOUNDS_US(X)
#undef X
};

static const uint16_t outcome_http[SL_OUTCOME_CNT] = {
#define X(name, metric, http, grpc, datagram, retry_after_s, text) [SL_OUTCOME_##name] = (http),
	SL_OUTCOMES(X)
#undef X
};

static const uint8_t outcome_grpc[SL_OUTCOME_CNT] = {
#define X(name, metric, http, grpc, datagram, retry_after_s, text)                                 \
	[SL_OUTCOME_##name] = SL_GRPC_##grpc,
	SL_OUTCOMES(X)
#undef X
};

unsigned sl_code_index(unsigned status)
{
	if (status >= STATUS_END)
		return SL_CODE_OTHER;
	if (indexes[status])
		return indexes[status] - 1u;
	return SL_CODE_OTHER + (status < 100 ? 0 : status / 100 - 1);
}

unsigned sl_code_status(unsigned index)
{
	return statuses[index];
}

unsigned sl_code_class(unsigned index)
{
	return index < SL_CODE_OTHER ? statuses[index] / 100u : index - SL_CODE_OTHER + 1;
}

uint64_t sl_code_bound_ns(unsigned bucket)
{
	return bounds_ns[bucket];
}

static bool is_unanswered(const struct sl_code_end *e)
{
	return !e->status || (!e->begun && e->outcome == SL_OUTCOME_CLIENT_GONE);
}

unsigned sl_code_http(const struct sl_code_end *e)
{
	if (is_unanswered(e))
		return outcome_http[e->outcome];
	return e->proto == SL_PROTO_GRPC ? 200 : e->status;
}

unsigned sl_code_grpc(const struct sl_code_end *e)
{
	if (is_unanswered(e))
		return outcome_grpc[e->outcome];
	if (e->grpc_status || e->status == 200)
		return e->grpc_status;
	return sl_grpc_from_http(e->status);
}

unsigned sl_code_end_class(const struct sl_code_end *e)
{
	unsigned status = sl_code_http(e);

	if (e->proto != SL_PROTO_GRPC || status != 200)
		return status / 100;
	switch (sl_code_grpc(e)) {
	case SL_GRPC_OK: return 2;
	case SL_GRPC_UNKNOWN:
	case SL_GRPC_DEADLINE_EXCEEDED:
	case SL_GRPC_UNIMPLEMENTED:
	case SL_GRPC_INTERNAL:
	case SL_GRPC_UNAVAILABLE:
	case SL_GRPC_DATA_LOSS: return 5;
	default: return 4;
	}
}

bool sl_code_failed(const struct sl_code_end *e)
{
	return sl_code_end_class(e) == 5 || outcome_http[e->outcome] / 100 == 5;
}

static unsigned grpc_index(const struct sl_code_end *e)
{
	unsigned status = sl_code_grpc(e);

	return status < SL_GRPC_STATUS_CNT ? status : SL_CODE_GRPC_OTHER;
}

_Static_assert(SL_CODE_CNT <= UINT8_MAX && SL_CODE_GRPC_CNT <= UINT8_MAX, "struct sl_code_at");

struct sl_code_at sl_code_find(const struct sl_code_end *e)
{
	struct sl_code_at at = {
		.http = (uint8_t)sl_code_index(sl_code_http(e)),
		.is_grpc = e->proto == SL_PROTO_GRPC,
	};

	if (at.is_grpc)
		at.grpc = (uint8_t)grpc_index(e);
	return at;
}

static struct sl_duration *find_slot(struct sl_duration *slots, unsigned index)
{
	for (unsigned i = 0; i < SL_DURATION_OTHER; i++) {
		if (!slots[i].index)
			slots[i].index = (uint16_t)(index + 1);
		if (slots[i].index == index + 1)
			return &slots[i];
	}
	return &slots[SL_DURATION_OTHER];
}

unsigned sl_duration_slot(const struct sl_duration *slots, unsigned index)
{
	unsigned i = 0;

	while (i < SL_DURATION_OTHER && slots[i].index != index + 1)
		i++;
	return i;
}

enum { LOG_CNT = 34 }; /* 2^34 ns is beyond all bounds */

/* [k]: the first bound of at least 2^k ns. */
static uint8_t first_bounds[LOG_CNT + 1];

__attribute__((constructor)) static void find_first_bounds(void)
{
	for (unsigned k = 0, at = 0; k <= LOG_CNT; k++) {
		while (at < SL_CODE_BOUND_CNT && bounds_ns[at] < UINT64_C(1) << k)
			at++;
		first_bounds[k] = (uint8_t)at;
	}
}

unsigned sl_duration_bucket(uint64_t ns)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(ns | 1);
	unsigned at = first_bounds[log < LOG_CNT ? log : LOG_CNT];

	while (at < SL_CODE_BOUND_CNT && ns > bounds_ns[at])
		at++;
	return at;
}

void sl_route_codes_add(struct sl_route_codes *r, struct sl_code_at at, uint64_t ns)
{
	struct sl_duration *d =
		at.is_grpc ? find_slot(r->grpc, at.grpc) : find_slot(r->http, at.http);

	sl_codes_add(&r->codes, at);
	d->sum_ns += ns;
	d->bucket[sl_duration_bucket(ns)]++;
}

void sl_durations_merge(struct sl_duration *to, const struct sl_duration *from)
{
	for (unsigned i = 0; i < SL_DURATION_SLOTS; i++) {
		struct sl_duration *d = &to[SL_DURATION_OTHER];

		if (from[i].index)
			d = find_slot(to, from[i].index - 1u);
		d->sum_ns += from[i].sum_ns;
		for (unsigned b = 0; b <= SL_CODE_BOUND_CNT; b++)
			d->bucket[b] += from[i].bucket[b];
	}
}

static size_t write_label(char label[SL_ROUTE_LABEL], const struct sl_cfg_route *route)
{
	int len = route ? snprintf(label, SL_ROUTE_LABEL, "%s%.*s",
				   route->host_cnt ? route->hosts[0] : "", (int)route->prefix_len,
				   route->prefix)
			: snprintf(label, SL_ROUTE_LABEL, "%s", "");

	return len < SL_ROUTE_LABEL ? (size_t)len : SL_ROUTE_LABEL - 1;
}

struct sl_route_codes *sl_route_codes_get(struct sl_list *made, const struct sl_cfg_route *route)
{
	char label[SL_ROUTE_LABEL];
	size_t len = write_label(label, route);
	struct sl_route_codes *r;
	const struct sl_list *at;

	sl_list_for_each (at, made) {
		r = sl_container_of(at, struct sl_route_codes, made);
		if (strcmp(r->label, label) != 0)
			continue;
		r->refs++;
		return r;
	}
	r = calloc(1, sizeof(*r) + len + 1);
	if (!r)
		return NULL;
	memcpy(r->label, label, len + 1);
	r->refs = 1;
	sl_list_add_tail(made, &r->made);
	return r;
}

void sl_route_codes_put(struct sl_route_codes *r)
{
	if (!r || --r->refs)
		return;
	sl_list_del(&r->made);
	free(r->exemplars);
	free(r);
}
