/* SPDX-License-Identifier: Apache-2.0 */
#include "control/metric_text.h"
#include "base/num.h"

/*
 * Takes the part before `sep`, trimmed, off *rest. A separator in a quoted string does not count.
 */
static struct sl_span take_part(struct sl_span *rest, uint8_t sep)
{
	struct sl_span part;
	bool quoted = false;
	size_t n = 0;

	for (; n < rest->len && (quoted || rest->ptr[n] != sep); n++) {
		if (rest->ptr[n] == '"')
			quoted = !quoted;
		else if (quoted && rest->ptr[n] == '\\' && n + 1 < rest->len)
			n++;
	}
	part = sl_span_first(*rest, n);
	*rest = sl_span_skip(*rest, n + 1);
	while (part.len && (*part.ptr == ' ' || *part.ptr == '\t'))
		part = sl_span_skip(part, 1);
	while (part.len && (part.ptr[part.len - 1] == ' ' || part.ptr[part.len - 1] == '\t'))
		part.len--;
	return part;
}

static unsigned read_weight(struct sl_span v)
{
	uint64_t whole, part = 0;
	struct sl_span digits = sl_span_skip(v, 2);
	static const unsigned scales[] = {1000, 100, 10, 1};

	if (sl_parse_u64_max(sl_span_first(v, 1), 1, &whole) != 0 || digits.len > 3 ||
	    (v.len > 1 && v.ptr[1] != '.') ||
	    (digits.len && sl_parse_u64_max(digits, 999, &part) != 0))
		return 0;
	return whole ? (part ? 0 : 1000) : (unsigned)part * scales[digits.len];
}

struct media_range {
	struct sl_span type, version;
	unsigned weight;
};

static struct media_range read_range(struct sl_span text)
{
	struct media_range r = {.type = take_part(&text, ';'), .weight = 1000};

	while (text.len) {
		struct sl_span value = take_part(&text, ';');
		struct sl_span name = take_part(&value, '=');

		if (value.len > 1 && *value.ptr == '"' && value.ptr[value.len - 1] == '"')
			value = sl_span_of(value.ptr + 1, value.len - 2);
		if (sl_span_eq_nocase(name, sl_span_str("q")))
			r.weight = read_weight(value);
		else if (sl_span_eq_nocase(name, sl_span_str("version")))
			r.version = value;
	}
	return r;
}

static bool has_version(const struct media_range *r, struct sl_span version)
{
	return !r->version.len || sl_span_eq(r->version, version);
}

static unsigned find_text_rank(const struct media_range *r)
{
	if (sl_span_eq_nocase(r->type, sl_span_str("text/plain")) &&
	    has_version(r, sl_span_str("0.0.4")))
		return 3;
	if (sl_span_eq_nocase(r->type, sl_span_str("text/*")))
		return 2;
	return sl_span_eq_nocase(r->type, sl_span_str("*/*"));
}

void sl_metric_accept_add(struct sl_metric_accept *a, struct sl_span field)
{
	while (field.len) {
		struct media_range r = read_range(take_part(&field, ','));
		unsigned rank = find_text_rank(&r);

		if (sl_span_eq_nocase(r.type, sl_span_str("application/openmetrics-text")) &&
		    has_version(&r, sl_span_str("1.0.0")) && r.weight > a->openmetrics)
			a->openmetrics = r.weight;
		if (rank > a->text_rank || (rank && rank == a->text_rank && r.weight > a->text)) {
			a->text_rank = rank;
			a->text = r.weight;
		}
	}
}

bool sl_metric_accept_openmetrics(const struct sl_metric_accept *a)
{
	return a->openmetrics && a->openmetrics >= a->text;
}
