/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rules.h"

#include "base/check.h"
#include "base/tlv.h"
#include "core/client.h"
#include "core/exchange.h"
#include "core/router.h"
#include "front/trusted_headers.h"
#include "wire/rpc_wire.h"

enum { KEPT_MAX = 8192 };

size_t sl_rules_room(void)
{
	return KEPT_MAX + 2 * SL_RPC_MAX_META;
}

static const struct sl_cfg_rule *find_rule(const struct sl_cfg_rules *rules, struct sl_span name)
{
	for (uint32_t i = 0; i < rules->cnt; i++) {
		if (sl_span_eq_nocase(name, sl_span_cstr(rules->list[i].name)))
			return &rules->list[i];
	}
	return NULL;
}

static bool is_set(const struct sl_cfg_rule *rule)
{
	return rule->value && !rule->from;
}

struct rule_facts {
	struct {
		struct sl_span place, text;
	} known[4];
	struct sl_span query;
	char address[SL_ADDR_TEXT];
};

static void collect_facts(struct rule_facts *f, const struct sl_exchange *x,
			  const struct sl_request *rq)
{
	SL_UNINIT struct sl_conn_info in;

	sl_client_addrs(x->client, &in);
	f->address[0] = 0;
	if (in.peer.family)
		sl_addr_text(&in.peer, f->address);
	f->known[0].place = sl_span_str("{host}");
	f->known[0].text = sl_router_host(rq->authority);
	f->known[1].place = sl_span_str("{path}");
	f->known[1].text = rq->path;
	f->known[2].place = sl_span_str("{scheme}");
	f->known[2].text = in.tls.cipher ? sl_span_str("https") : sl_span_str("http");
	f->known[3].place = sl_span_str("{client}");
	f->known[3].text = sl_span_cstr(f->address);
	f->query = rq->query;
}

static size_t copy_span(uint8_t *to, struct sl_span text)
{
	if (to && text.len)
		memcpy(to, text.ptr, text.len);
	return text.len;
}

static size_t expand_value(const struct rule_facts *f, const char *value, uint8_t *to)
{
	struct sl_span left = sl_span_cstr(value);
	size_t n = 0;

	while (left.len) {
		struct sl_span text = sl_span_first(left, 1);
		size_t taken = 1;

		for (unsigned i = 0; i < SL_ARRAY_LEN(f->known) && left.ptr[0] == '{'; i++) {
			if (!sl_span_starts(left, f->known[i].place))
				continue;
			text = f->known[i].text;
			taken = f->known[i].place.len;
		}
		n += copy_span(to ? to + n : NULL, text);
		if (taken > 1 && text.ptr == f->known[1].text.ptr && f->query.len) {
			n += copy_span(to ? to + n : NULL, sl_span_str("?"));
			n += copy_span(to ? to + n : NULL, f->query);
		}
		left = sl_span_skip(left, taken);
	}
	return n;
}

bool sl_rules_hide(const struct sl_cfg_rules *rules, struct sl_span name)
{
	for (uint32_t i = 0; i < rules->cnt; i++) {
		if (sl_trusted_header_folds_to(name, sl_span_cstr(rules->list[i].name)))
			return true;
	}
	return false;
}

static uint8_t *begin_field(struct sl_tlv_writer *w, const char *name, size_t value_len)
{
	struct sl_span n = sl_span_cstr(name);
	uint8_t *to = sl_tlv_room(w, SL_META_HEADER, 1 + n.len + value_len);

	if (!to)
		return NULL;
	*to++ = (uint8_t)n.len;
	memcpy(to, n.ptr, n.len);
	return to + n.len;
}

static struct sl_span after_prefix(const struct sl_cfg_rule *rule, struct sl_span value,
				   bool *found)
{
	struct sl_span from = sl_span_cstr(rule->from);

	*found = sl_span_starts(value, from);
	return *found ? sl_span_skip(value, from.len) : value;
}

static void rewrite_request(struct sl_tlv_writer *w, const struct sl_cfg_rule *rule,
			    const struct sl_request *rq)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		struct sl_span to = sl_span_cstr(rule->value), rest;
		uint8_t *at;
		bool found;

		if (!sl_span_eq_nocase(rq->headers[i].name, sl_span_cstr(rule->name)))
			continue;
		rest = after_prefix(rule, rq->headers[i].value, &found);
		to.len = found ? to.len : 0;
		at = begin_field(w, rule->name, to.len + rest.len);
		if (at)
			(void)copy_span(at + copy_span(at, to), rest);
	}
}

void sl_rules_put_request(struct sl_tlv_writer *w, const struct sl_exchange *x,
			  const struct sl_request *rq)
{
	const struct sl_cfg_rules *rules = &x->route->request_rules;
	SL_UNINIT struct rule_facts f;

	collect_facts(&f, x, rq);
	for (uint32_t i = 0; i < rules->cnt; i++) {
		const struct sl_cfg_rule *rule = &rules->list[i];
		uint8_t *at;

		if (rule->from)
			rewrite_request(w, rule, rq);
		if (!is_set(rule))
			continue;
		at = begin_field(w, rule->name, expand_value(&f, rule->value, NULL));
		if (at)
			(void)expand_value(&f, rule->value, at);
	}
}

bool sl_rules_keep_reply(struct sl_exchange *x, const struct sl_request *rq)
{
	const struct sl_cfg_rules *rules = &x->route->reply_rules;
	SL_UNINIT uint8_t kept[KEPT_MAX];
	SL_UNINIT struct rule_facts f;
	size_t n = 0;

	collect_facts(&f, x, rq);
	for (uint32_t i = 0; i < rules->cnt; i++) {
		uint16_t len;
		size_t want;

		if (!rules->list[i].varies)
			continue;
		want = expand_value(&f, rules->list[i].value, NULL);
		if (want > sizeof(kept) - n - sizeof(len) || n + sizeof(len) > sizeof(kept))
			return false;
		len = (uint16_t)want;
		memcpy(kept + n, &len, sizeof(len));
		(void)expand_value(&f, rules->list[i].value, kept + n + sizeof(len));
		n += sizeof(len) + want;
	}
	return sl_exchange_keep(x, &x->rule_values, sl_span_of(kept, n));
}

static void filter_reply(const struct sl_cfg_rules *rules, struct sl_reply_parts *out, uint8_t *to,
			 const uint8_t *end)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < out->reply.header_cnt; i++) {
		struct sl_header h = out->headers[i];
		const struct sl_cfg_rule *rule = find_rule(rules, h.name);

		if (rule && !rule->from)
			continue;
		if (rule) {
			struct sl_span text = sl_span_cstr(rule->value), rest;
			bool found;

			rest = after_prefix(rule, h.value, &found);
			if (found && text.len + rest.len <= (size_t)(end - to)) {
				h.value = sl_span_of(to, text.len + rest.len);
				to += copy_span(to, text);
				to += copy_span(to, rest);
			}
		}
		out->headers[n++] = h;
	}
	out->reply.header_cnt = n;
}

static bool has_field(const struct sl_reply_parts *out, const char *name)
{
	for (uint32_t i = 0; i < out->reply.header_cnt; i++) {
		if (sl_span_eq_nocase(out->headers[i].name, sl_span_cstr(name)))
			return true;
	}
	return false;
}

bool sl_rules_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	const struct sl_cfg_rules *rules = &x->route->reply_rules;
	uint8_t *kept = x->core->rule_buf;

	sl_store_read(&x->rule_values, kept, x->rule_values.len);
	filter_reply(rules, out, kept + x->rule_values.len, kept + sl_rules_room());
	for (uint32_t i = 0; i < rules->cnt; i++) {
		const struct sl_cfg_rule *rule = &rules->list[i];
		struct sl_span value =
			is_set(rule) ? sl_span_cstr(rule->value) : sl_span_of(NULL, 0);
		uint16_t len;

		if (rule->varies && !x->rule_values.len)
			continue;
		if (rule->varies) {
			memcpy(&len, kept, sizeof(len));
			value = sl_span_of(kept + sizeof(len), len);
			kept += sizeof(len) + len;
		}
		if (!is_set(rule))
			continue;
		if (out->reply.header_cnt == SL_ARRAY_LEN(out->headers))
			return false;
		out->headers[out->reply.header_cnt++] =
			(struct sl_header){sl_span_cstr(rule->name), value};
	}
	out->reply.headers = out->headers;
	out->reply.has_server = has_field(out, "server");
	out->reply.has_date = has_field(out, "date");
	return true;
}
