/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

void sl_front_limits_default(struct sl_front_limits *l)
{
	*l = (struct sl_front_limits){
		.max_head = 16384,
		.max_target = 8192,
		.max_headers = 100,
		.max_body = 64u << 20,
		.max_pipeline = 16,
		.max_streams = 100,
		.max_resets_per_s = 100,
		.max_message = 64u << 20,
	};
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

static const char *const status_texts[600] = {
	[100] = "Continue",
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

bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name)
{
	static const struct sl_span ours[] = {
		SL_SPAN_LIT("te"),
		SL_SPAN_LIT("date"),
		SL_SPAN_LIT("server"),
		SL_SPAN_LIT("trailer"),
		SL_SPAN_LIT("upgrade"),
		SL_SPAN_LIT("connection"),
		SL_SPAN_LIT("keep-alive"),
		SL_SPAN_LIT("content-length"),
		SL_SPAN_LIT("proxy-connection"),
		SL_SPAN_LIT("transfer-encoding"),
	};

	/* The lengths of those, of content-type and of retry-after: most names have another. */
	static const uint32_t lengths = 1u << 2 | 1u << 4 | 1u << 6 | 1u << 7 | 1u << 10 |
					1u << 11 | 1u << 12 | 1u << 14 | 1u << 16 | 1u << 17;

	if (!name.len || name.ptr[0] == ':')
		return true;
	if (name.len > 17 || !(lengths & 1u << name.len))
		return false;
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (ours[i].len == name.len && sl_span_eq_nocase(ours[i], name))
			return true;
	}
	if (r->content_type.len && sl_span_eq_nocase(name, sl_span_str("content-type")))
		return true;
	return r->retry_after_s && sl_span_eq_nocase(name, sl_span_str("retry-after"));
}
