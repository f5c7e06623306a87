/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "config/keys.h"
#include "http/method.h"

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
	memcpy(conf_field(v), &s, sizeof(s));
	return true;
}

const struct conf_type conf_header = {set_header, NULL};

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

static bool is_hop_by_hop(const char *name)
{
	static const char *const names[] = {
		"connection",        "keep-alive", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade",    "content-length",   NULL,
	};

	for (const char *const *h = names; *h; h++) {
		if (strcasecmp(*h, name) == 0)
			return true;
	}
	return false;
}

static bool set_headers(struct conf_value *v)
{
	struct sl_cfg_route *r = &((struct conf_route_ref *)v->obj)->route;

	if (strcmp(v->text, "*") == 0) {
		r->forward_all = true;
		return true;
	}
	if (!conf_is_token(v->text, 64) || r->forward_header_cnt >= 32 || is_hop_by_hop(v->text))
		return false;
	return append_text(v->arena, &r->forward_headers, &r->forward_header_cnt, lower_copy(v));
}

const struct conf_type conf_headers = {set_headers, NULL};

/* Field values begin and end with no blank, RFC 9110 5.5. The host has a key of its own. */
bool conf_parse_field(struct conf_value *v, const char **to_name, const char **to_value)
{
	size_t name_len = strcspn(v->text, ":"), len;
	const char *value = v->text + name_len;
	char *name = lower_copy(v);

	value += strspn(value, ": \t");
	len = strlen(value);
	for (size_t i = 0; i < len; i++) {
		if (((uint8_t)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
			return false;
	}
	if (!name || !v->text[name_len] || !len || strchr(" \t", value[len - 1]))
		return false;
	name[name_len] = 0;
	*to_name = name;
	*to_value = conf_arena_strndup(v->arena, value, len);
	return conf_is_token(name, 64) && !is_hop_by_hop(name) && strcmp(name, "host") != 0 &&
	       *to_value;
}

static bool set_header_field(struct conf_value *v)
{
	struct sl_cfg_route *r = &((struct conf_route_ref *)v->obj)->route;

	return conf_parse_field(v, &r->header, &r->header_value);
}

const struct conf_type conf_header_field = {set_header_field, NULL};

static bool set_route_listeners(struct conf_value *v)
{
	struct conf_route_ref *r = v->obj;
	const char *name = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	r->listener_line = v->line;
	return v->text[0] && r->listener_cnt < SL_MAX_LISTENERS &&
	       append_text(v->arena, &r->listeners, &r->listener_cnt, name);
}

const struct conf_type conf_route_listeners = {set_route_listeners, NULL};

/* Requests in one of these would pass all routes. */
static bool set_upgrades(struct conf_value *v)
{
	static const char *const carriers[] = {"h2c", "h2", "http", "tls", NULL};
	struct sl_cfg_route *r = &((struct conf_route_ref *)v->obj)->route;

	if (strcmp(v->text, "auto") == 0 || strcmp(v->text, "none") == 0) {
		r->upgrade_none = v->text[0] == 'n';
		return !r->upgrade_cnt;
	}
	if (r->upgrade_none || !conf_is_token(v->text, 32) || r->upgrade_cnt >= 8)
		return false;
	for (const char *const *c = carriers; *c; c++) {
		if (strcasecmp(*c, v->text) == 0)
			return false;
	}
	return append_text(v->arena, &r->upgrades, &r->upgrade_cnt, lower_copy(v));
}

const struct conf_type conf_upgrades = {set_upgrades, NULL};

static bool is_host(const char *s)
{
	size_t label = 0, len = strlen(s);

	if (s[0] == '[')
		return len > 2 && s[len - 1] == ']' &&
		       strspn(s + 1, "0123456789abcdefABCDEF:.") == len - 2;
	for (size_t i = 0; i < len; i++) {
		bool dot = s[i] == '.';

		if (dot ? !label : !isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
		label = dot ? 0 : label + 1;
		if (label > 63)
			return false;
	}
	return label && len <= 253;
}

static bool set_hosts(struct conf_value *v)
{
	struct sl_cfg_route *r = &((struct conf_route_ref *)v->obj)->route;
	bool wildcard = strncmp(v->text, "*.", 2) == 0;

	if (!is_host(v->text + (wildcard ? 2 : 0)) || r->host_cnt >= SL_CFG_MAX_HOSTS)
		return false;
	return append_text(v->arena, &r->hosts, &r->host_cnt, lower_copy(v));
}

const struct conf_type conf_hosts = {set_hosts, NULL};

static bool set_redirect(struct conf_value *v)
{
	const char *s = v->text;

	if (strncmp(s, "http://", 7) != 0 && strncmp(s, "https://", 8) != 0)
		return false;
	for (; *s; s++) {
		bool known = strncmp(s, "{host}", 6) == 0 || strncmp(s, "{path}", 6) == 0;

		if (known)
			s += 5;
		else if (*s <= ' ' || *s == 0x7f || strchr("\"<>\\^`{|}", *s))
			return false;
	}
	return conf_in_range(v->key, strlen(v->text)) && conf_store_text(v);
}

const struct conf_type conf_redirect = {set_redirect, NULL};

static bool set_files(struct conf_value *v)
{
	struct sl_config *c = v->obj;
	char *s = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	c->descriptor_sets_line = v->line;
	return v->text[0] && append_text(v->arena, &c->descriptor_sets, &c->descriptor_set_cnt, s);
}

const struct conf_type conf_files = {set_files, NULL};

static bool set_admin_hosts(struct conf_value *v)
{
	struct sl_config *c = v->obj;
	const size_t len = strlen(v->text);
	const char *s = conf_arena_strndup(v->arena, v->text, len);

	return len && len <= 255 && !v->text[strcspn(v->text, "/@ \t\r\n")] &&
	       append_text(v->arena, &c->admin.hosts, &c->admin.host_cnt, s);
}

const struct conf_type conf_admin_hosts = {set_admin_hosts, NULL};

static bool set_log_fields(struct conf_value *v)
{
	static const char *const names[] = {
#define X(name, text) [SL_LOG_##name] = (text),
		SL_LOG_FIELDS(X)
#undef X
			[SL_LOG_NONE] = "none",
	};
	uint32_t *fields = &((struct sl_config *)v->obj)->access_log.fields;

	for (unsigned i = 0; i <= SL_LOG_NONE; i++) {
		if (strcmp(v->text, names[i]) == 0) {
			*fields |= 1u << i;
			return i != SL_LOG_NONE || *fields == 1u << i;
		}
	}
	return false;
}

const struct conf_type conf_log_fields = {set_log_fields, NULL};

static bool set_methods(struct conf_value *v)
{
	uint32_t bit = 1u << sl_method_parse(sl_span_cstr(v->text)) & SL_METHODS_SERVED;

	((struct conf_route_ref *)v->obj)->route.methods |= bit;
	return bit;
}

const struct conf_type conf_methods = {set_methods, NULL};

/* The scan removes this key. */
static bool set_nowhere(struct conf_value *v)
{
	(void)v;
	return false;
}

const struct conf_type conf_nowhere = {set_nowhere, NULL};
