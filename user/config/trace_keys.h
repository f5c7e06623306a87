/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of keys.c: trace. */
#ifndef SL_CONFIG_TRACE_KEYS_H
#define SL_CONFIG_TRACE_KEYS_H

#define TRACE(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_TRACE, false, false, FIELD(struct sl_config, trace.f), name_, &type_,         \
			__VA_ARGS__                                                                \
	}

/* clang-format off */
#define CONF_TRACE_KEYS \
	TRACE("request_id", conf_bool, request_id, .fallback = "no", \
	      .help = "backends and clients get x-request-id: the client's, if it has 1 to 64 of " \
	      	"the characters A-Z a-z 0-9 . _ : + / = -, otherwise a new one"), \
	TRACE("otlp", conf_otlp, otlp, .what = "http://ADDRESS:PORT/PATH with a numeric address", \
	      .help = "collector that gets spans by OTLP/HTTP as JSON, as " \
	      	"http://127.0.0.1:4318/v1/traces. Backends get a traceparent that continues " \
	      	"the client's trace, or begins one"), \
	TRACE("sample", conf_share, sample, .fallback = "0.01", \
	      .help = "share of new traces that are exported. A request is also exported if the " \
	      	"client's traceparent is sampled, the request failed (5xx), or it was slow"), \
	TRACE("slow", conf_duration, slow_ns, 0, 86400 * SEC, "1s", \
	      .help = "requests that take this long or longer are exported; 0: no limit")
/* clang-format on */

#endif
