/* SPDX-License-Identifier: Apache-2.0 */
#include "control/notes.h"
#include "control/json_memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "control/code_metrics.h"
#include "control/fields.h"
#include "sluice/outcome.h"

enum { MERGE_MS = 10000 }; /* an outcome repeated within this time is one note */

struct change_note {
	uint64_t first_ms, last_ms, cnt;
	int outcome;
	bool bad;
	char text[SL_NOTE_LEN];
};

struct sl_notes {
	struct change_note ring[SL_NOTES];
	unsigned cnt, at;
	uint64_t now_ms;
	uint64_t config; /* number; 0: none */
	uint8_t *states;
	uint32_t state_cnt, visited;
	bool looked, ready, draining;
	uint64_t outcomes[SL_OUTCOME_CNT];
};

json_t *sl_json_text(const char *text)
{
	json_t *o = json_string(text);
	struct sl_strbuf b;

	if (o || !text)
		return o;
	sl_strbuf_grow(&b, 8 * strlen(text) + 8);
	sl_strbuf_json_str(&b, sl_span_cstr(text));
	if (b.err)
		sl_json_memory_lack();
	o = json_loads(sl_strbuf_cstr(&b), JSON_DECODE_ANY, NULL);
	sl_strbuf_fini(&b);
	return o;
}

struct sl_notes *sl_notes_new(void)
{
	return calloc(1, sizeof(struct sl_notes));
}

void sl_notes_free(struct sl_notes *n)
{
	if (n)
		free(n->states);
	free(n);
}

static struct change_note *add_note(struct sl_notes *n, bool bad)
{
	struct change_note *t = &n->ring[n->at];

	n->at = (n->at + 1) % SL_NOTES;
	n->cnt += n->cnt < SL_NOTES;
	*t = (struct change_note){
		.first_ms = n->now_ms, .last_ms = n->now_ms, .outcome = -1, .bad = bad};
	return t;
}

static void say(struct sl_notes *n, bool bad, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct sl_notes *n, bool bad, const char *fmt, ...)
{
	struct change_note *t = add_note(n, bad);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->text, sizeof(t->text), fmt, ap);
	va_end(ap);
}

static unsigned best_state(const struct sl_backend_sum *s)
{
	return s->workers[SL_RPC_UP]           ? SL_RPC_UP
	       : s->workers[SL_RPC_DRAINING]   ? SL_RPC_DRAINING
	       : s->workers[SL_RPC_CONNECTING] ? SL_RPC_CONNECTING
					       : SL_RPC_DOWN;
}

static void look_at_backend(void *arg, const struct sl_backend_sum *s)
{
	struct sl_notes *n = arg;
	unsigned now = best_state(s);
	uint32_t i = n->visited++;

	if (i >= n->state_cnt || n->states[i] == now)
		return;
	if ((n->states[i] == SL_RPC_UP || now == SL_RPC_UP) && n->looked)
		say(n, now != SL_RPC_UP, "backend %.40s/%.40s is %s%s%s", s->pool, s->name,
		    rpc_state_name(now == SL_RPC_CONNECTING ? SL_RPC_DOWN : now),
		    s->info && *s->info ? ": " : "", s->info ? s->info : "");
	n->states[i] = (uint8_t)now;
}

static void look_at_config(struct sl_notes *n, const struct sl_config *cfg)
{
	uint32_t cnt = 0;
	uint8_t *states;

	if (n->config == cfg->number)
		return;
	if (n->looked)
		say(n, false, "a new configuration is in force");
	n->config = cfg->number;
	for (uint32_t p = 0; p < cfg->pool_cnt; p++)
		cnt += cfg->pools[p].backend_cnt;
	states = realloc(n->states, cnt + 1);
	n->state_cnt = states ? cnt : 0;
	if (states) {
		n->states = states;
		memset(states, SL_RPC_CONNECTING, cnt);
	}
	n->looked = false;
}

static struct change_note *recent_outcome(struct sl_notes *n, int outcome)
{
	for (unsigned i = 0; i < n->cnt; i++) {
		struct change_note *t = &n->ring[(n->at + SL_NOTES - 1 - i) % SL_NOTES];

		if (t->outcome == outcome && n->now_ms - t->last_ms < MERGE_MS)
			return t;
	}
	return NULL;
}

static void look_at_outcomes(struct sl_notes *n, const struct sl_gateway_info *in, bool first)
{
	for (int o = 0; o < SL_OUTCOME_CNT; o++) {
		uint64_t sum = 0, more;
		struct change_note *t;

		for (uint32_t w = 0; w < in->worker_cnt; w++)
			sum += in->workers[w].core.outcomes[o];
		more = sum - n->outcomes[o];
		n->outcomes[o] = sum;
		if (!more || first || o == SL_OUTCOME_OK || o == SL_OUTCOME_FIXED ||
		    o == SL_OUTCOME_CLIENT_GONE || o == SL_OUTCOME_NO_ROUTE)
			continue;
		t = recent_outcome(n, o);
		if (!t)
			t = add_note(n, true);
		t->outcome = o;
		t->cnt += more;
		t->last_ms = n->now_ms;
		snprintf(t->text, sizeof(t->text), "%" PRIu64 " request%s not served: %s (%s)",
			 t->cnt, t->cnt == 1 ? "" : "s", outcome_names[o].name,
			 outcome_names[o].help);
	}
}

static void look_at_gateway(struct sl_notes *n, struct sl_gateway *g,
			    const struct sl_gateway_info *in, bool first)
{
	struct sl_err why = SL_ERR(160);
	bool ready = sl_gateway_ready(g, &why);

	if (in->draining && !n->draining)
		say(n, true, "draining: no new connections are taken");
	else if (ready != n->ready && !(first && ready))
		say(n, !ready, "%s%s", ready ? "ready" : "not ready: ", ready ? "" : why.text);
	n->ready = ready;
	n->draining = in->draining;
}

void sl_notes_tick(struct sl_notes *n, struct sl_gateway *g, uint64_t unix_ms)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);
	bool first = !n->config;

	n->now_ms = unix_ms;
	look_at_config(n, in->cfg);
	n->visited = 0;
	sl_codes_each_backend(in, look_at_backend, n);
	n->looked = true;
	look_at_outcomes(n, in, first);
	look_at_gateway(n, g, in, first);
}

json_t *sl_notes_json(const struct sl_notes *n)
{
	json_t *list = json_array();

	for (unsigned i = 0; n && i < n->cnt; i++) {
		const struct change_note *t = &n->ring[(n->at + SL_NOTES - 1 - i) % SL_NOTES];

		json_array_append_new(list, json_pack("{s:I, s:b, s:o}", "time_ms",
						      (json_int_t)t->last_ms, "bad", t->bad, "text",
						      sl_json_text(t->text)));
	}
	return list;
}
