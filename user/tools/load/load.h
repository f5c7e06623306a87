/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load generator. Closed loop: N connections with a pipelining depth. Open loop: a rate; latency
 * counts from the intended send time.
 *
 * One thread.
 */
#ifndef SL_TOOLS_LOAD_LOAD_H
#define SL_TOOLS_LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/bytes.h"
#include "base/err.h"
#include "base/hist.h"
#include "wire/addr.h"

enum sl_load_arrivals { SL_LOAD_CLOSED, SL_LOAD_CONSTANT, SL_LOAD_POISSON };

struct sl_load_options {
	char host[64]; /* numeric */
	struct sl_addr to;
	char path[256];
	const char *method;
	struct sl_span body;
	bool echo;             /* body must equal the request's */
	struct sl_span expect; /* required body; empty: any */
	bool datagram;
	uint16_t service;
	uint32_t connections;
	uint32_t depth;          /* per connection */
	uint64_t per_connection; /* then reopened; 0: no limit */
	enum sl_load_arrivals arrivals;
	double rate; /* open loop, per second */
	uint64_t duration_ns;
	uint64_t requests; /* ends the run before that time; 0: no limit */
	uint64_t warmup_ns;
	uint64_t timeout_ns;   /* datagrams */
	bool tls;              /* not verified */
	const char *interface; /* AF_XDP; NULL: kernel sockets */
	uint16_t queue;
	int cpu; /* -1: not pinned */
	bool json, quiet;
};

#define SL_LOAD_ERRORS(X)                                                                          \
	X(CONNECT, "connect")                                                                      \
	X(RESET, "reset") /* with requests in flight */                                            \
	X(TIMEOUT, "timeout")                                                                      \
	X(STATUS, "status")       /* not 2xx */                                                    \
	X(MALFORMED, "malformed") /* HTTP or length */                                             \
	X(BODY, "body")
enum sl_load_error {
#define X(name, text) SL_LOAD_##name,
	SL_LOAD_ERRORS(X)
#undef X
		SL_LOAD_ERROR_CNT
};

struct sl_load_result {
	uint64_t requests; /* correct, in the measured time */
	uint64_t errors[SL_LOAD_ERROR_CNT];
	uint64_t connects;
	uint64_t bytes_in;
	uint64_t unanswered;  /* at the end */
	uint64_t statuses[6]; /* 1xx to 5xx */
	uint64_t elapsed_ns;
	double cpu_s; /* this process's */
	struct sl_hist_fine latency;
};

/* Runs the load. Returns 0, or -1 and err. The caller must free r->latency. */
int sl_load_run(const struct sl_load_options *o, struct sl_load_result *r, struct sl_err *err);
/* Prints the result. */
void sl_load_report(const struct sl_load_options *o, const struct sl_load_result *r, FILE *out);

#endif
