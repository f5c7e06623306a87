/* SPDX-License-Identifier: Apache-2.0 */
/* Types of values: text to field. Each set() writes only what it has understood as a whole. */
#include "config/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/num.h"
#include "base/units.h"

static void *field(const struct conf_value *v)
{
	return (char *)v->obj + v->key->offset;
}

static bool store(const struct conf_value *v, uint64_t n)
{
	uint8_t n8 = (uint8_t)n;
	uint16_t n16 = (uint16_t)n;
	uint32_t n32 = (uint32_t)n;

	switch (v->key->size) {
	case 1: memcpy(field(v), &n8, 1); return true;
	case 2: memcpy(field(v), &n16, 2); return true;
	case 4: memcpy(field(v), &n32, 4); return true;
	case 8: memcpy(field(v), &n, 8); return true;
	default: return false;
	}
}

static bool store_text(const struct conf_value *v)
{
	char *s = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	if (!s)
		return false;
	memcpy(field(v), &s, sizeof(s));
	return true;
}

static bool in_range(const struct conf_key *k, uint64_t n)
{
	return n >= k->min && n <= k->max;
}

/* Text of min..max bytes without control characters. */
static bool set_string(struct conf_value *v)
{
	size_t len = strlen(v->text);

	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)v->text[i] < 0x20 || v->text[i] == 0x7f)
			return false;
	}
	return in_range(v->key, len) && store_text(v);
}

const struct conf_type conf_string = {set_string, NULL};

static bool set_account(struct conf_value *v)
{
	((struct sl_config *)v->obj)->user_line = v->line;
	return set_string(v);
}

const struct conf_type conf_account = {set_account, NULL};

static bool set_body(struct conf_value *v)
{
	struct conf_route_ref *r = v->obj;
	size_t len = strlen(v->text);

	if (!in_range(v->key, len) || !store_text(v))
		return false;
	r->route.reply_body_len = (uint32_t)len;
	return true;
}

const struct conf_type conf_body = {set_body, NULL};

static bool set_bool(struct conf_value *v)
{
	static const struct conf_name words[] = {
		{"yes", 1}, {"no", 0}, {"true", 1}, {"false", 0}, {"on", 1}, {"off", 0}, {0},
	};

	for (const struct conf_name *w = words; w->name; w++) {
		if (strcmp(w->name, v->text) == 0)
			return store(v, (uint64_t)w->value);
	}
	return false;
}

static void allow_bool(const struct conf_key *k, char *buf, size_t len)
{
	(void)k;
	snprintf(buf, len, "yes or no");
}

const struct conf_type conf_bool = {set_bool, allow_bool};

static bool set_uint(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_u64(sl_span_cstr(v->text), &n) == 0 && in_range(v->key, n) && store(v, n);
}

static void allow_uint(const struct conf_key *k, char *buf, size_t len)
{
	snprintf(buf, len, "a whole number from %llu to %llu", (unsigned long long)k->min,
		 (unsigned long long)k->max);
}

const struct conf_type conf_uint = {set_uint, allow_uint};

static bool set_pow2(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_u64(sl_span_cstr(v->text), &n) == 0 && in_range(v->key, n) &&
	       (n & (n - 1)) == 0 && store(v, n);
}

static void allow_pow2(const struct conf_key *k, char *buf, size_t len)
{
	snprintf(buf, len, "a power of two from %llu to %llu", (unsigned long long)k->min,
		 (unsigned long long)k->max);
}

const struct conf_type conf_pow2 = {set_pow2, allow_pow2};

static bool set_duration(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_duration(sl_span_cstr(v->text), &n) == 0 && in_range(v->key, n) &&
	       store(v, n);
}

static void allow_duration(const struct conf_key *k, char *buf, size_t len)
{
	char min[SL_UNIT_TEXT], max[SL_UNIT_TEXT];

	snprintf(buf, len, "%s, from %s to %s", sl_unit_expected(SL_UNIT_DURATION),
		 sl_format_duration(min, k->min), sl_format_duration(max, k->max));
}

const struct conf_type conf_duration = {set_duration, allow_duration};

static bool set_duration_or_auto(struct conf_value *v)
{
	if (strcmp(v->text, "auto") == 0)
		return store(v, SL_AUTO);
	return set_duration(v);
}

static void allow_duration_or_auto(const struct conf_key *k, char *buf, size_t len)
{
	int n = snprintf(buf, len, "auto, or ");

	allow_duration(k, buf + n, len - (size_t)n);
}

const struct conf_type conf_duration_or_auto = {set_duration_or_auto, allow_duration_or_auto};

static bool set_size(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_size(sl_span_cstr(v->text), &n) == 0 && in_range(v->key, n) && store(v, n);
}

static void allow_size(const struct conf_key *k, char *buf, size_t len)
{
	char min[SL_UNIT_TEXT], max[SL_UNIT_TEXT];

	snprintf(buf, len, "%s, from %s to %s", sl_unit_expected(SL_UNIT_SIZE),
		 sl_format_size(min, k->min), sl_format_size(max, k->max));
}

const struct conf_type conf_size = {set_size, allow_size};

static bool set_share(struct conf_value *v)
{
	char *end;
	double d;

	if (strspn(v->text, "0123456789.") != strlen(v->text) || !v->text[0])
		return false;
	d = strtod(v->text, &end);
	if (*end || !(d >= 0 && d <= 1))
		return false;
	memcpy(field(v), &d, sizeof(d));
	return true;
}

static void allow_share(const struct conf_key *k, char *buf, size_t len)
{
	(void)k;
	snprintf(buf, len, "a number from 0 to 1");
}

const struct conf_type conf_share = {set_share, allow_share};

static bool set_enum(struct conf_value *v)
{
	for (const struct conf_name *n = v->key->names; n->name; n++) {
		if (strcmp(n->name, v->text) == 0)
			return store(v, (uint64_t)n->value);
	}
	return false;
}

static void allow_enum(const struct conf_key *k, char *buf, size_t len)
{
	size_t at = (size_t)snprintf(buf, len, "one of");

	for (const struct conf_name *n = k->names; n->name && at < len; n++)
		at += (size_t)snprintf(buf + at, len - at, "%s %s", n == k->names ? "" : ",",
				       n->name);
}

const struct conf_type conf_enum = {set_enum, allow_enum};

static bool set_log_level(struct conf_value *v)
{
	enum sl_log_level level;

	return sl_log_level_parse(v->text, &level) == 0 && store(v, level);
}

const struct conf_type conf_log_level = {set_log_level, NULL};

bool conf_parse_address(const char *text, uint8_t addr[16], uint8_t *family)
{
	uint8_t a[16] = {0};

	if (strcmp(text, "*") == 0)
		*family = 0;
	else if (inet_pton(AF_INET, text, a) == 1)
		*family = 4;
	else if (inet_pton(AF_INET6, text, a) == 1)
		*family = 6;
	else
		return false;
	memcpy(addr, a, 16);
	return true;
}

static bool set_address(struct conf_value *v)
{
	struct sl_cfg_listener *l = v->obj;

	return conf_parse_address(v->text, l->addr, &l->family);
}

const struct conf_type conf_address = {set_address, NULL};

static bool set_admin_address(struct conf_value *v)
{
	uint8_t addr[16], family;

	return conf_parse_address(v->text, addr, &family) && family && store_text(v);
}

const struct conf_type conf_admin_address = {set_admin_address, NULL};

/* ADDRESS:PORT with IPv6 addresses in brackets. */
static bool is_address_port(const char *text)
{
	const char *colon = strrchr(text, ':');
	uint8_t addr[16], family;
	char host[64];
	uint64_t port;
	bool bracketed;
	size_t len;

	if (!colon || sl_parse_u64_max(sl_span_cstr(colon + 1), 65535, &port) || !port)
		return false;
	len = (size_t)(colon - text);
	bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	if (bracketed) {
		text++;
		len -= 2;
	}
	if (!len || len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = 0;
	return conf_parse_address(host, addr, &family) && family == (bracketed ? 6 : 4);
}

static bool set_endpoint(struct conf_value *v)
{
	size_t len = strlen(v->text);

	if (strncmp(v->text, "shm:///", 7) == 0)
		return len > 7 && len - 6 <= 100 && store_text(v);
	if (strncmp(v->text, "rdma://", 7) == 0)
		return is_address_port(v->text + 7) && store_text(v);
	return false;
}

const struct conf_type conf_endpoint = {set_endpoint, NULL};

static bool set_absolute(struct conf_value *v)
{
	return v->text[0] == '/' && strlen(v->text) < 4096 && store_text(v);
}

const struct conf_type conf_absolute = {set_absolute, NULL};

bool conf_is_token(const char *text, size_t max)
{
	static const char extra[] = "!#$%&'*+-.^_`|~";
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool alnum =
			(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!alnum && !strchr(extra, c))
			return false;
	}
	return len > 0 && len <= max;
}

static char *lower_copy(const struct conf_value *v)
{
	char *s = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	for (char *c = s; c && *c; c++)
		*c = (char)sl_ascii_lower((uint8_t)*c);
	return s;
}

static bool set_header(struct conf_value *v)
{
	char *s = conf_is_token(v->text, 64) ? lower_copy(v) : NULL;

	if (!s)
		return false;
	memcpy(field(v), &s, sizeof(s));
	return true;
}

const struct conf_type conf_header = {set_header, NULL};

/* Appends a pointer to an array of texts that grows by being copied: configurations are small. */
static bool append_text(struct conf_arena *a, const char ***list, uint32_t *cnt, const char *s)
{
	const char **more = conf_arena_alloc(a, (*cnt + 1) * sizeof(*more));

	if (!more || !s)
		return false;
	if (*cnt)
		memcpy(more, *list, *cnt * sizeof(*more));
	more[(*cnt)++] = s;
	*list = more;
	return true;
}

static bool set_headers(struct conf_value *v)
{
	static const char *const hop_by_hop[] = {
		"connection",        "keep-alive", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade",    "content-length",   NULL,
	};
	struct sl_cfg_route *r = &((struct conf_route_ref *)v->obj)->route;

	if (!conf_is_token(v->text, 64) || r->forward_header_cnt >= 32)
		return false;
	for (const char *const *h = hop_by_hop; *h; h++) {
		if (strcasecmp(*h, v->text) == 0)
			return false;
	}
	return append_text(v->arena, &r->forward_headers, &r->forward_header_cnt, lower_copy(v));
}

const struct conf_type conf_headers = {set_headers, NULL};

static bool set_files(struct conf_value *v)
{
	struct sl_config *c = v->obj;
	char *s = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	c->descriptor_sets_line = v->line;
	return v->text[0] && append_text(v->arena, &c->descriptor_sets, &c->descriptor_set_cnt, s);
}

const struct conf_type conf_files = {set_files, NULL};

static bool set_queues(struct conf_value *v)
{
	struct sl_cfg_interface *i = v->obj;
	uint64_t n;

	if (sl_parse_u64(sl_span_cstr(v->text), &n) || !in_range(v->key, n))
		return false;
	for (unsigned q = 0; q < i->queue_cnt; q++) {
		if (i->queues[q] == n)
			return false;
	}
	i->queues[i->queue_cnt++] = (uint16_t)n;
	return true;
}

const struct conf_type conf_queues = {set_queues, NULL};

static bool set_cpus(struct conf_value *v)
{
	struct sl_config *c = v->obj;
	unsigned at = 0;
	uint64_t n;

	if (sl_parse_u64(sl_span_cstr(v->text), &n) || !in_range(v->key, n))
		return false;
	while (at < SL_MAX_WORKERS && c->cpus[at] >= 0)
		at++;
	if (at == SL_MAX_WORKERS)
		return false;
	c->cpus[at] = (int32_t)n;
	c->cpus_line = v->line;
	return true;
}

const struct conf_type conf_cpus = {set_cpus, NULL};

static bool set_protocols(struct conf_value *v)
{
	struct sl_cfg_listener *l = v->obj;

	if (strcmp(v->text, "http") == 0)
		l->http = true;
	else if (strcmp(v->text, "datagram") == 0)
		l->datagram = true;
	else
		return false;
	return true;
}

const struct conf_type conf_protocols = {set_protocols, NULL};

static bool set_methods(struct conf_value *v)
{
	/* Bits as enum sl_method of front.h numbers them; config may not include it. */
	static const char *const methods[] = {
		NULL, "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH",
	};
	struct conf_route_ref *r = v->obj;

	for (unsigned i = 1; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i], v->text) == 0) {
			r->route.methods |= 1u << i;
			return true;
		}
	}
	return false;
}

const struct conf_type conf_methods = {set_methods, NULL};

static bool set_reference(struct conf_value *v)
{
	return v->text[0] && store_text(v);
}

const struct conf_type conf_reference = {set_reference, NULL};
