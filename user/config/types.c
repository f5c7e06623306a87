/* SPDX-License-Identifier: Apache-2.0 */
#include "config/server.h"
#include "config/keys.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/num.h"
#include "base/units.h"

static bool store_uint(const struct conf_value *v, uint64_t n)
{
	uint8_t n8 = (uint8_t)n;
	uint16_t n16 = (uint16_t)n;
	uint32_t n32 = (uint32_t)n;

	switch (v->key->size) {
	case 1: memcpy(conf_field(v), &n8, 1); return true;
	case 2: memcpy(conf_field(v), &n16, 2); return true;
	case 4: memcpy(conf_field(v), &n32, 4); return true;
	case 8: memcpy(conf_field(v), &n, 8); return true;
	default: return false;
	}
}

bool conf_store_text(const struct conf_value *v)
{
	char *s = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	if (!s)
		return false;
	memcpy(conf_field(v), &s, sizeof(s));
	return true;
}

static bool set_string(struct conf_value *v)
{
	size_t len = strlen(v->text);

	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)v->text[i] < 0x20 || v->text[i] == 0x7f)
			return false;
	}
	return conf_in_range(v->key, len) && conf_store_text(v);
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

	if (!conf_in_range(v->key, len) || !conf_store_text(v))
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
			return store_uint(v, (uint64_t)w->value);
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

	return sl_parse_u64(sl_span_cstr(v->text), &n) == 0 && conf_in_range(v->key, n) &&
	       store_uint(v, n);
}

static void allow_uint(const struct conf_key *k, char *buf, size_t len)
{
	snprintf(buf, len, "a whole number from %llu to %llu", (unsigned long long)k->min,
		 (unsigned long long)k->max);
}

const struct conf_type conf_uint = {set_uint, allow_uint};

static bool set_uint_or_auto(struct conf_value *v)
{
	return strcmp(v->text, "auto") == 0 ? store_uint(v, 0) : set_uint(v);
}

static void allow_uint_or_auto(const struct conf_key *k, char *buf, size_t len)
{
	int n = snprintf(buf, len, "auto, or ");

	allow_uint(k, buf + n, len - (size_t)n);
}

const struct conf_type conf_uint_or_auto = {set_uint_or_auto, allow_uint_or_auto};

static bool set_port(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_u64(sl_span_cstr(v->text), &n) == 0 && conf_in_range(v->key, n) &&
	       store_uint(v, htobe16((uint16_t)n));
}

const struct conf_type conf_port = {set_port, allow_uint};

static bool set_pow2(struct conf_value *v)
{
	uint64_t n;

	return sl_parse_u64(sl_span_cstr(v->text), &n) == 0 && conf_in_range(v->key, n) &&
	       (n & (n - 1)) == 0 && store_uint(v, n);
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

	return sl_parse_duration(sl_span_cstr(v->text), &n) == 0 && conf_in_range(v->key, n) &&
	       store_uint(v, n);
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
		return store_uint(v, SL_AUTO);
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

	return sl_parse_size(sl_span_cstr(v->text), &n) == 0 && conf_in_range(v->key, n) &&
	       store_uint(v, n);
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
	memcpy(conf_field(v), &d, sizeof(d));
	return true;
}

static void allow_share(const struct conf_key *k, char *buf, size_t len)
{
	(void)k;
	snprintf(buf, len, "a number from 0 to 1");
}

const struct conf_type conf_share = {set_share, allow_share};

static bool set_share_or_count(struct conf_value *v)
{
	const struct conf_key *k = v->key;
	uint64_t n;
	double d;

	if (strspn(v->text, "0123456789") != strlen(v->text))
		return set_share(v);
	if (sl_parse_u64(sl_span_cstr(v->text), &n) || n > k->max)
		return false;
	d = (double)n;
	memcpy(conf_field(v), &d, sizeof(d));
	return true;
}

static void allow_share_or_count(const struct conf_key *k, char *buf, size_t len)
{
	snprintf(buf, len, "a share from 0 to 1, or a whole number from 2 to %" PRIu64, k->max);
}

const struct conf_type conf_share_or_count = {set_share_or_count, allow_share_or_count};

static bool set_enum(struct conf_value *v)
{
	for (const struct conf_name *n = v->key->names; n->name; n++) {
		if (strcmp(n->name, v->text) == 0)
			return store_uint(v, (uint64_t)n->value);
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

	return sl_log_level_parse(v->text, &level) == 0 && store_uint(v, level);
}

const struct conf_type conf_log_level = {set_log_level, NULL};

bool conf_parse_address(const char *text, struct sl_addr *a)
{
	if (strcmp(text, "*") != 0)
		return sl_addr_parse(a, text);
	*a = (struct sl_addr){0};
	return true;
}

static bool set_address(struct conf_value *v)
{
	struct sl_cfg_listener *l = v->obj;
	struct sl_addr a;

	if (!conf_parse_address(v->text, &a))
		return false;
	l->at = sl_addr_of(a.family, a.addr, l->at.port_be);
	return true;
}

const struct conf_type conf_address = {set_address, NULL};

static bool set_numeric(struct conf_value *v)
{
	struct sl_addr a;

	return sl_addr_parse(&a, v->text) && conf_store_text(v);
}

const struct conf_type conf_numeric = {set_numeric, NULL};

static bool is_address_port(const char *text)
{
	const char *colon = strrchr(text, ':');
	struct sl_addr a;
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
	return sl_addr_parse(&a, host) && a.family == (bracketed ? 6 : 4);
}

static bool is_name_port(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.-_";
	size_t len = strspn(text, letters);
	uint64_t port;

	return len < 254 && text[len] == ':' && strspn(text, "0123456789.") < len &&
	       !sl_parse_u64_max(sl_span_cstr(text + len + 1), 65535, &port) && port;
}

static bool set_endpoint(struct conf_value *v)
{
	size_t len = strlen(v->text);

	if (strncmp(v->text, "shm:///", 7) == 0)
		return len > 7 && len - 6 <= 100 && conf_store_text(v);
	if (strncmp(v->text, "rdma://", 7) == 0)
		return is_address_port(v->text + 7) && conf_store_text(v);
	if (strncmp(v->text, "rdma+ud://", 10) == 0)
		return is_address_port(v->text + 10) && conf_store_text(v);
	if (strncmp(v->text, "tcp://", 6) == 0)
		return (is_address_port(v->text + 6) || is_name_port(v->text + 6)) &&
		       conf_store_text(v);
	return false;
}

const struct conf_type conf_endpoint = {set_endpoint, NULL};

static bool set_backend_endpoint(struct conf_value *v)
{
	struct sl_server_url url;

	return set_endpoint(v) || (sl_server_url_parse(v->text, &url) && conf_store_text(v));
}

const struct conf_type conf_backend_endpoint = {set_backend_endpoint, NULL};

static bool set_authority(struct conf_value *v)
{
	return sl_server_authority_ok(v->text) && conf_store_text(v);
}

static bool set_server_name(struct conf_value *v)
{
	return sl_server_name_ok(v->text) && conf_store_text(v);
}

const struct conf_type conf_server_name = {set_server_name, NULL};

const struct conf_type conf_authority = {set_authority, NULL};

static bool is_path(const char *text)
{
	return text[0] == '/' && strlen(text) < 4096;
}

static bool set_absolute(struct conf_value *v)
{
	return is_path(v->text) && conf_store_text(v);
}

const struct conf_type conf_absolute = {set_absolute, NULL};

static bool set_file(struct conf_value *v)
{
	struct sl_cfg_file f = {conf_arena_strndup(v->arena, v->text, strlen(v->text)), v->line};

	if (!is_path(v->text) || !f.path)
		return false;
	memcpy(conf_field(v), &f, sizeof(f));
	return true;
}

const struct conf_type conf_file = {set_file, NULL};

static bool append_file(struct conf_value *v, struct sl_cfg_file **list, uint32_t *cnt)
{
	struct sl_cfg_file *more = conf_arena_alloc(v->arena, (*cnt + 1) * sizeof(*more));
	char *path = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	if (!is_path(v->text) || *cnt == SL_CFG_MAX_CERTIFICATES || !more || !path)
		return false;
	if (*cnt)
		memcpy(more, *list, *cnt * sizeof(*more));
	more[(*cnt)++] = (struct sl_cfg_file){path, v->line};
	*list = more;
	return true;
}

static bool set_certificates(struct conf_value *v)
{
	struct sl_cfg_tls *t = v->obj;

	return append_file(v, &t->certificates, &t->certificate_cnt);
}

const struct conf_type conf_certificates = {set_certificates, NULL};

static bool set_private_keys(struct conf_value *v)
{
	struct sl_cfg_tls *t = v->obj;

	return append_file(v, &t->keys, &t->key_cnt);
}

const struct conf_type conf_private_keys = {set_private_keys, NULL};

static bool set_log_file(struct conf_value *v)
{
	return strcmp(v->text, "-") == 0 ? conf_store_text(v) : set_absolute(v);
}

const struct conf_type conf_log_file = {set_log_file, NULL};

static bool set_socket(struct conf_value *v)
{
	if (strcmp(v->text, "auto") == 0 || strcmp(v->text, "none") == 0)
		return conf_store_text(v);
	return v->text[0] == '/' && strlen(v->text) <= SL_CFG_SOCKET_MAX && conf_store_text(v);
}

const struct conf_type conf_socket = {set_socket, NULL};

static bool set_unix_path(struct conf_value *v)
{
	return v->text[0] == '/' && strlen(v->text) <= SL_CFG_SOCKET_MAX && conf_store_text(v);
}

const struct conf_type conf_unix_path = {set_unix_path, NULL};

static bool set_file_mode(struct conf_value *v)
{
	size_t len = strspn(v->text, "01234567");

	return len && len <= 4 && !v->text[len] && strtoul(v->text, NULL, 8) <= 0777 &&
	       store_uint(v, strtoul(v->text, NULL, 8));
}

const struct conf_type conf_file_mode = {set_file_mode, NULL};

static bool set_owner(struct conf_value *v)
{
	const struct passwd *pw;
	uint64_t n;

	if (sl_parse_u64_max(sl_span_cstr(v->text), UINT32_MAX - 1, &n) == 0)
		return store_uint(v, n);
	pw = v->text[0] && !v->offline ? getpwnam(v->text) : NULL;
	if (v->offline && v->text[0] && strlen(v->text) <= 32)
		return true;
	return pw && store_uint(v, pw->pw_uid);
}

const struct conf_type conf_uid = {set_owner, NULL};

static bool set_queues(struct conf_value *v)
{
	struct sl_cfg_interface *i = v->obj;
	uint64_t n;

	if (sl_parse_u64(sl_span_cstr(v->text), &n) || !conf_in_range(v->key, n))
		return false;
	for (unsigned q = 0; q < i->queue_cnt; q++) {
		if (i->queues[q] == n)
			return false;
	}
	i->queues[i->queue_cnt++] = (uint16_t)n;
	return true;
}

const struct conf_type conf_queues = {set_queues, NULL};

static bool set_vlan(struct conf_value *v)
{
	uint64_t n;

	if (strcmp(v->text, "any") == 0)
		return store_uint(v, SL_VLAN_ANY);
	if (strcmp(v->text, "none") == 0)
		return store_uint(v, SL_VLAN_NONE);
	return sl_parse_u64_max(sl_span_cstr(v->text), 4094, &n) == 0 && n && store_uint(v, n);
}

const struct conf_type conf_vlan = {set_vlan, NULL};

static bool set_cpus(struct conf_value *v)
{
	struct sl_config *c = v->obj;
	unsigned at = 0;
	uint64_t n;

	if (sl_parse_u64(sl_span_cstr(v->text), &n) || !conf_in_range(v->key, n))
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

static bool set_agent_cpus(struct conf_value *v)
{
	struct sl_cfg_agents *a = &((struct sl_config *)v->obj)->agents;
	uint64_t n;

	if (sl_parse_u64(sl_span_cstr(v->text), &n) || !conf_in_range(v->key, n) ||
	    a->cpu_cnt == SL_CFG_MAX_AGENTS)
		return false;
	a->cpus[a->cpu_cnt++] = (int32_t)n;
	return true;
}

const struct conf_type conf_agent_cpus = {set_agent_cpus, NULL};

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

static bool set_reference(struct conf_value *v)
{
	return v->text[0] && conf_store_text(v);
}

const struct conf_type conf_reference = {set_reference, NULL};
