/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of keys.c about clients and header fields. */
#ifndef SL_CONFIG_CLIENT_KEYS_H
#define SL_CONFIG_CLIENT_KEYS_H

#define QUOTA(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_QUOTA, false, false, FIELD(struct sl_cfg_quota, f), name_, &type_,            \
			__VA_ARGS__                                                                \
	}
#define KEYS(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_KEYS, false, false, FIELD(struct sl_cfg_keys, f), name_, &type_, __VA_ARGS__  \
	}

#define PENALTY(name_, type_, list_, f, ...)                                                       \
	{                                                                                          \
		CONF_PENALTY, list_, false, FIELD(struct sl_config, penalty.f), name_, &type_,     \
			__VA_ARGS__                                                                \
	}

#define CORS(name_, type_, list_, f, ...)                                                          \
	{                                                                                          \
		CONF_CORS, list_, false, FIELD(struct conf_route_ref, route.cors.f), name_,        \
			&type_, __VA_ARGS__                                                        \
	}

/* clang-format off */
#define CONF_CLIENT_KEYS \
	CORS("origins", conf_origins, true, origins, \
	     .what = "up to 64 texts as https://HOST or http://HOST:PORT in lower case, or \"*\" alone", \
	     .help = "origins of web pages whose scripts may use this route. Others get replies " \
	     	"that their browser withholds. \"*\": all, without credentials"), \
	CORS("methods", conf_cors_methods, true, methods, \
	     .what = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH", \
	     .help = "methods in replies to preflight requests; none: GET, HEAD and POST only"), \
	CORS("headers", conf_cors_headers, true, headers, .what = "names of headers", \
	     .help = "request headers that scripts may set, such as authorization"), \
	CORS("expose", conf_cors_headers, true, expose, .what = "names of headers", \
	     .help = "reply headers that scripts may read, such as retry-after"), \
	CORS("max_age", conf_duration, false, max_age_ns, 0, 86400 * SEC, "600s", \
	     .help = "time that browsers keep the reply to a preflight request"), \
	CORS("credentials", conf_bool, false, credentials, .fallback = "no", \
	     .help = "requests may have cookies and client certificates; not with origins = " \
	     	"{\"*\"}"), \
	QUOTA("by", conf_enum, by, .fallback = "address", .names = conf_quota_bys, \
	      .help = "what has a bucket of its own. address: an IPv4 address or IPv6 /64; all " \
	      	"datagrams share one. header: a value of `header`, so a trusted proxy must " \
	      	"set it. key: the name of an API key, on routes with keys. route: all clients of routes with the same prefix"), \
	QUOTA("header", conf_header, header, .what = "the name of a header", \
	      .help = "request header that names the client, with by = header. Requests " \
	      	"without it share one bucket"), \
	QUOTA("rate", conf_rate, bucket.tokens, \
	      .what = "a whole number from 1 to 100000000 with /s, /min, /h or /d, as 100/s", \
	      .help = "requests in the long run, of all workers together; none: unlimited. " \
	      	"Beyond it 429 with Retry-After, RateLimit-Policy and RateLimit " \
	      	"(draft-ietf-httpapi-ratelimit-headers)"), \
	QUOTA("burst", conf_uint, bucket.burst, 0, 1000000000, "0", \
	      .help = "requests at once after a pause; 0: those of a second, at least one"), \
	QUOTA("usage_header", conf_header, usage_header, .what = "the name of a header", \
	      .help = "reply header or trailer in which backends say how many tokens a request " \
	      	"has used, such as x-tokens-used. They are taken then. A request takes none, " \
	      	"but needs one when it begins. A debt is at most that of a day"), \
	QUOTA("usage_member", conf_usage_member, usage_member, \
	      .what = "OUTER.INNER, each 1 to 64 of A-Z a-z 0-9 _ -", \
	      .help = "the same for a number in the body of replies: OUTER is a member of a JSON " \
	      	"object, INNER one of OUTER, such as usage.total_tokens of OpenAI's API. In " \
	      	"text/event-stream the last one counts. Taken when the reply ends. Compressed " \
	      	"bodies are not read"), \
	QUOTA("max_requests", conf_uint, max_requests, 0, 65535, "0", \
	      .help = "open requests at a time, of all workers together; beyond it 429. 0: " \
	      	"unlimited"), \
	QUOTA("clients", conf_uint, clients, 16, 16777216, "16384", \
	      .help = "clients that have a bucket; 32 bytes each. Beyond it the fullest of " \
	      	"eight buckets is replaced. A reload that changes it, or `by` or `header`, " \
	      	"begins with full buckets"), \
	KEYS("file", conf_absolute, file, .what = "the absolute path of a file", \
	     .help = "file of API keys, one per line: NAME HASH [rate=N/UNIT] [burst=N] " \
	     	"[max_requests=N]. HASH is the SHA-256 of the key in hexadecimal. The limits " \
	     	"replace those of quotas with by = key. Lines with one name share its limits, " \
	     	"so a key can be exchanged. A # begins a comment line. Owner root or the " \
	     	"account, not readable by others (chmod 640). A reload reads it again"), \
	KEYS("header", conf_header, header, .fallback = "authorization", \
	     .what = "the name of a header", \
	     .help = "request header with the key. authorization: with the scheme Bearer. " \
	     	"Others: the key alone"), \
	KEYS("forward", conf_bool, forward, .fallback = "no", \
	     .help = "pass the header on to backends, where headers are passed on"), \
	PENALTY("after", conf_uint, false, after, 1, 1000000, .what = "a whole number from 1 to 1000000", \
		.help = "refusals of an address before its packets to the listeners are dropped. " \
			"Connections and requests count that limits.address_* or quotas with by = " \
			"address refuse. IPv6: of a /64. Datagrams never count, nor do clients behind " \
			"a PROXY header, of a listener with forwarded = append, or without XDP. " \
			"The block needs this key"), \
	PENALTY("within", conf_duration, false, within_ns, SEC, 86400 * SEC, "10s", \
		.help = "time in which so many refusals are tolerated: the time of a token bucket " \
			"of `after`"), \
	PENALTY("time", conf_duration, false, time_ns, SEC, 86400 * SEC, "60s", \
		.help = "time for which packets are dropped, also of open connections"), \
	PENALTY("except", conf_except, true, except, \
		.what = "up to 4096 addresses and prefixes as 192.0.2.0/24, no bit set beyond the length", \
		.help = "clients that are never dropped, such as health checks and NAT gateways. " \
			"Those in proxy_protocol of a listener never are"),
#define CONF_ROUTE_CLIENT_KEYS \
	ROUTE("set_header", conf_set_header, true, route.request_rules, \
	      .what = "up to 32 texts as \"name: value\", each name once, none of a connection, a body or the gateway's own", \
	      .help = "request headers for the backend, in place of the client's. Values can " \
	      	"have {host}, {path} with the query, {scheme} and {client}. {replace FROM " \
	      	"TO}: changes the beginning of the client's value"), \
	ROUTE("drop_header", conf_drop_header, true, route.request_rules, \
	      .what = "names of headers, each once, none of a connection, a body or the gateway's own", \
	      .help = "request headers and trailers that the backend does not get"), \
	ROUTE("set_reply_header", conf_set_header, true, route.reply_rules, \
	      .what = "up to 32 texts as \"name: value\", each name once, none of a connection, a body or the gateway's own", \
	      .help = "reply headers in place of the backend's, as in set_header; also of the " \
	      	"gateway's own replies"), \
	ROUTE("drop_reply_header", conf_drop_header, true, route.reply_rules, \
	      .what = "names of headers, each once, none of a connection, a body or the gateway's own", \
	      .help = "reply headers that the client does not get"), \
	ROUTE("keys", conf_route_keys, false, keys, .what = "the name of a keys block", \
	      .help = "API keys of which requests must have one; others get 401. Backends get " \
	      	"its name as sluice-client-key, which no client can set"), \
	ROUTE("quotas", conf_route_quotas, true, route.quota_cnt, .what = "up to 4 names of quotas", \
	      .help = "quotas of the clients of this route. A request that one of them refuses " \
	      	"gets 429 (gRPC: RESOURCE_EXHAUSTED) and takes no tokens of the others"),
/* clang-format on */

#endif
