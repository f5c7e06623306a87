/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

#include "base/pool.h"
#include "config/defaults.h"

void sl_front_limits_default(struct sl_front_limits *l)
{
	*l = (struct sl_front_limits){
		.max_head = SL_DEFAULT_MAX_HEAD_KIB << 10,
		.max_target = SL_DEFAULT_MAX_TARGET_KIB << 10,
		.max_headers = SL_DEFAULT_MAX_HEADERS,
		.max_body = SL_DEFAULT_MAX_BODY_MIB << 20,
		.max_pipeline = SL_DEFAULT_MAX_PIPELINE,
		.max_streams = SL_DEFAULT_MAX_STREAMS,
		.max_resets_per_s = 100,
		.max_message = SL_DEFAULT_MAX_MESSAGE_MIB << 20,
		.address_connections = 1,
		.address_streams = 1,
	};
}

static void note_head(const struct sl_front_env *env, const uint8_t *buf, void *host)
{
	if (env->head_hosts)
		env->head_hosts[sl_pool_index(env->heads, buf)] = host;
}

uint8_t *sl_front_head_get(const struct sl_front_env *env, void *host)
{
	uint8_t *buf = env->heads ? sl_pool_get(env->heads) : NULL;

	if (buf)
		note_head(env, buf, host);
	return buf;
}

void sl_front_head_put(const struct sl_front_env *env, uint8_t *buf)
{
	note_head(env, buf, NULL);
	sl_pool_put(env->heads, buf);
}

static const struct {
	struct sl_span name;
	bool idempotent;
} methods[SL_METHOD_CNT] = {
	[SL_METHOD_OTHER] = {SL_SPAN_LIT(""), false},
	[SL_METHOD_GET] = {SL_SPAN_LIT("GET"), true},
	[SL_METHOD_HEAD] = {SL_SPAN_LIT("HEAD"), true},
	[SL_METHOD_POST] = {SL_SPAN_LIT("POST"), false},
	[SL_METHOD_PUT] = {SL_SPAN_LIT("PUT"), true},
	[SL_METHOD_DELETE] = {SL_SPAN_LIT("DELETE"), true},
	[SL_METHOD_OPTIONS] = {SL_SPAN_LIT("OPTIONS"), true},
	[SL_METHOD_PATCH] = {SL_SPAN_LIT("PATCH"), false},
	[SL_METHOD_CONNECT] = {SL_SPAN_LIT("CONNECT"), false},
	[SL_METHOD_TRACE] = {SL_SPAN_LIT("TRACE"), true},
};

enum sl_method sl_method_parse(struct sl_span name)
{
	for (unsigned m = SL_METHOD_GET; m < SL_METHOD_CNT; m++) {
		if (name.len == methods[m].name.len && name.ptr[0] == methods[m].name.ptr[0] &&
		    sl_span_eq(name, methods[m].name))
			return (enum sl_method)m;
	}
	return SL_METHOD_OTHER;
}

const char *sl_method_name(enum sl_method m)
{
	return (unsigned)m < SL_METHOD_CNT ? (const char *)methods[m].name.ptr : "";
}

bool sl_method_idempotent(enum sl_method m)
{
	return (unsigned)m < SL_METHOD_CNT && methods[m].idempotent;
}

size_t sl_methods_text(char to[SL_METHODS_TEXT], uint32_t set)
{
	size_t len = 0;

	for (unsigned m = SL_METHOD_GET; m < SL_METHOD_CNT; m++) {
		if (!(set & 1u << m))
			continue;
		if (len) {
			memcpy(to + len, ", ", 2);
			len += 2;
		}
		memcpy(to + len, methods[m].name.ptr, methods[m].name.len);
		len += methods[m].name.len;
	}
	return len;
}

static const char *const status_texts[600] = {
	[100] = "Continue",
	[101] = "Switching Protocols",
	[200] = "OK",
	[201] = "Created",
	[202] = "Accepted",
	[203] = "Non-Authoritative Information",
	[204] = "No Content",
	[205] = "Reset Content",
	[206] = "Partial Content",
	[207] = "Multi-Status",
	[300] = "Multiple Choices",
	[301] = "Moved Permanently",
	[302] = "Found",
	[303] = "See Other",
	[304] = "Not Modified",
	[307] = "Temporary Redirect",
	[308] = "Permanent Redirect",
	[400] = "Bad Request",
	[401] = "Unauthorized",
	[402] = "Payment Required",
	[403] = "Forbidden",
	[404] = "Not Found",
	[405] = "Method Not Allowed",
	[406] = "Not Acceptable",
	[408] = "Request Timeout",
	[409] = "Conflict",
	[410] = "Gone",
	[411] = "Length Required",
	[412] = "Precondition Failed",
	[413] = "Content Too Large",
	[414] = "URI Too Long",
	[415] = "Unsupported Media Type",
	[416] = "Range Not Satisfiable",
	[417] = "Expectation Failed",
	[421] = "Misdirected Request",
	[422] = "Unprocessable Content",
	[424] = "Failed Dependency",
	[425] = "Too Early",
	[426] = "Upgrade Required",
	[428] = "Precondition Required",
	[429] = "Too Many Requests",
	[431] = "Request Header Fields Too Large",
	[451] = "Unavailable For Legal Reasons",
	[499] = "Client Closed Request",
	[500] = "Internal Server Error",
	[501] = "Not Implemented",
	[502] = "Bad Gateway",
	[503] = "Service Unavailable",
	[504] = "Gateway Timeout",
	[505] = "HTTP Version Not Supported",
	[507] = "Insufficient Storage",
	[511] = "Network Authentication Required",
};

const char *sl_status_text(unsigned status)
{
	if (status >= 600 || !status_texts[status])
		return "Unknown";
	return status_texts[status];
}
