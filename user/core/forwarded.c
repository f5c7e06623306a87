/* SPDX-License-Identifier: Apache-2.0 */
#include "core/forwarded.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/tlv.h"
#include "config/api_keys.h"
#include "core/api_key.h"
#include "core/client.h"
#include "core/rules.h"
#include "front/trusted_headers.h"

enum { HOST_MAX = 255 + 6, AROUND = 40 }; /* name with port; other words */

bool sl_forwarded_wanted(const struct sl_cfg_route *r, struct sl_span name)
{
	for (uint32_t i = 0; i < r->forward_header_cnt; i++) {
		if (sl_span_eq_nocase(name, sl_span_cstr(r->forward_headers[i])))
			return true;
	}
	return r->forward_all && (r->underscores || !memchr(name.ptr, '_', name.len));
}

bool sl_forwarded_passes(const struct sl_cfg_route *r, struct sl_span name, bool all)
{
	return (sl_forwarded_wanted(r, name) || (all && !r->forward_all)) &&
	       !sl_trusted_header_is(name) && !sl_trusted_header_is_framing(name) &&
	       !sl_rules_hide(&r->request_rules, name) && !sl_api_key_hides(r, name);
}

static bool keeps_client_fields(const struct sl_config *cfg, const struct sl_conn_info *in)
{
	return in->listener < cfg->listener_cnt &&
	       cfg->listeners[in->listener].forwarded == SL_FORWARDED_APPEND;
}

struct forwarded_writer {
	struct sl_tlv_writer *w;
	const struct sl_cfg_route *route;
	const struct sl_request *kept; /* NULL: drop the client's fields */
};

static uint8_t *begin_value(struct forwarded_writer *s, enum sl_trusted_header what, size_t len)
{
	struct sl_span name = sl_trusted_header_names[what];
	uint8_t *to = sl_tlv_room(s->w, SL_META_HEADER, 1 + name.len + len);

	if (!to)
		return NULL;
	*to++ = (uint8_t)name.len;
	memcpy(to, name.ptr, name.len);
	return to + name.len;
}

static void put_value(struct forwarded_writer *s, enum sl_trusted_header what, struct sl_span value)
{
	uint8_t *to = value.len ? begin_value(s, what, value.len) : NULL;

	if (to)
		memcpy(to, value.ptr, value.len);
}

static const struct sl_header *next_kept(const struct forwarded_writer *s,
					 enum sl_trusted_header what, uint32_t *i)
{
	while (s->kept && *i < s->kept->header_cnt) {
		const struct sl_header *h = &s->kept->headers[(*i)++];

		if (h->value.len && sl_span_eq_nocase(h->name, sl_trusted_header_names[what]))
			return h;
	}
	return NULL;
}

static void put_list(struct forwarded_writer *s, enum sl_trusted_header what, struct sl_span own)
{
	const struct sl_header *h;
	size_t len = own.len;
	uint8_t *to;

	if (!sl_forwarded_wanted(s->route, sl_trusted_header_names[what]))
		return;
	for (uint32_t i = 0; (h = next_kept(s, what, &i));)
		len += h->value.len + 2;
	to = begin_value(s, what, len);
	if (!to)
		return;
	for (uint32_t i = 0; (h = next_kept(s, what, &i)); to += 2) {
		memcpy(to, h->value.ptr, h->value.len);
		to += h->value.len;
		memcpy(to, ", ", 2);
	}
	memcpy(to, own.ptr, own.len);
}

static void put_first(struct forwarded_writer *s, enum sl_trusted_header what, struct sl_span own)
{
	const struct sl_header *h;
	uint32_t i = 0;

	if (!sl_forwarded_wanted(s->route, sl_trusted_header_names[what]))
		return;
	h = next_kept(s, what, &i);
	put_value(s, what, h ? h->value : own);
}

static void format_element(struct sl_strbuf *to, const char *address, struct sl_span host,
			   const char *proto)
{
	bool v6 = strchr(address, ':');

	sl_strbuf_str(to, v6 ? "for=\"[" : "for=");
	sl_strbuf_str(to, address);
	sl_strbuf_str(to, v6 ? "]\"" : "");
	if (host.len) {
		sl_strbuf_str(to, ";host=\"");
		sl_strbuf_add(to, host.ptr, host.len);
		sl_strbuf_char(to, '"');
	}
	sl_strbuf_str(to, ";proto=");
	sl_strbuf_str(to, proto);
}

static void put_origin(struct forwarded_writer *s, const struct sl_conn_info *in,
		       struct sl_span host)
{
	SL_UNINIT char address[SL_ADDR_TEXT], text[SL_ADDR_TEXT + HOST_MAX + AROUND];
	const char *proto = in->tls.cipher ? "https" : "http";
	struct sl_strbuf element;

	if (host.len > HOST_MAX) /* the front has checked its characters */
		host.len = 0;
	sl_addr_text(&in->peer, address);
	sl_strbuf_fixed(&element, text, sizeof(text));
	format_element(&element, address, host, proto);
	put_list(s, SL_TRUSTED_FOR, sl_span_cstr(address));
	put_first(s, SL_TRUSTED_PROTO, sl_span_cstr(proto));
	put_first(s, SL_TRUSTED_HOST, host);
	put_first(s, SL_TRUSTED_PORT, sl_span_of(NULL, 0));
	put_list(s, SL_TRUSTED_FORWARDED, sl_strbuf_span(&element));
}

void sl_forwarded_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		      const struct sl_request *rq)
{
	struct forwarded_writer s = {.w = w, .route = x->route};
	SL_UNINIT struct sl_conn_info in;
	bool way = false;

	for (unsigned i = SL_TRUSTED_FOR; i <= SL_TRUSTED_FORWARDED && !way; i++)
		way = sl_forwarded_wanted(x->route, sl_trusted_header_names[i]);
	if (x->key)
		put_value(&s, SL_TRUSTED_KEY, sl_span_cstr(x->key->name));
	if (!way && !x->client->filtered)
		return;
	sl_client_addrs(x->client, &in);
	if (keeps_client_fields(x->core->cfg, &in))
		s.kept = rq;
	if (way && in.peer.family)
		put_origin(&s, &in, rq->authority);
	put_value(&s, SL_TRUSTED_SUBJECT, in.tls.subject);
	put_value(&s, SL_TRUSTED_SAN, in.tls.san);
}
