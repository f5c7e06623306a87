/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator: closed loop (N connections, a pipelining depth) or open loop (a rate; latency
 * counts from the time at which a request was meant to be sent, so stalls are not hidden).
 *
 *   engine.c   what is sent when, and what became of it      no I/O, no clock
 *   reply.c    HTTP/1.1 replies, checked as they arrive       no I/O
 *   io_sock.c  kernel sockets and epoll: TCP, or UDP datagrams
 *   io_xdp.c   AF_XDP and the project's own TCP, so that the client does not become the limit
 *   tls.c      TLS 1.3 between the engine and either of them
 *   report.c   text and JSON
 *
 * One thread. All memory is allocated before the first connection, but for OpenSSL's of handshakes.
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
	char host[64];     /* numeric address */
	struct sl_addr to; /* the same, with the port */
	char path[256];
	const char *method;
	struct sl_span body;
	bool echo;             /* the reply's body must equal the request's */
	struct sl_span expect; /* the reply's body must be this; empty: not compared */
	bool datagram;         /* sluice/datagram.h instead of HTTP */
	uint16_t service;      /* of datagrams */
	uint32_t connections;
	uint32_t depth;          /* requests in flight per connection */
	uint64_t per_connection; /* requests before it is closed and opened anew; 0: no limit */
	enum sl_load_arrivals arrivals;
	double rate; /* open loop: requests per second */
	uint64_t duration_ns;
	uint64_t warmup_ns;    /* not counted */
	uint64_t timeout_ns;   /* datagrams: given up after that */
	bool tls;              /* 1.3, whatever certificate the server has */
	const char *interface; /* AF_XDP on this one; NULL: kernel sockets */
	uint16_t queue;
	int cpu; /* -1: not pinned */
	bool json, quiet;
};

/* What became of requests and connections. */
#define SL_LOAD_ERRORS(X)                                                                          \
	X(CONNECT, "connect")     /* no connection */                                              \
	X(RESET, "reset")         /* connection lost with requests in flight */                    \
	X(TIMEOUT, "timeout")     /* no answer */                                                  \
	X(STATUS, "status")       /* answered, but not 2xx */                                      \
	X(MALFORMED, "malformed") /* not HTTP, or not what was announced */                        \
	X(BODY, "body")           /* other bytes than expected */
enum sl_load_error {
#define X(name, text) SL_LOAD_##name,
	SL_LOAD_ERRORS(X)
#undef X
		SL_LOAD_ERROR_CNT
};

struct sl_load_result {
	uint64_t requests; /* answered right, within the measured time */
	uint64_t errors[SL_LOAD_ERROR_CNT];
	uint64_t connects;
	uint64_t bytes_in;
	uint64_t unanswered;  /* in flight or still waiting at the end */
	uint64_t statuses[6]; /* by class */
	uint64_t elapsed_ns;
	double cpu_s; /* of this process */
	struct sl_hist_fine latency;
};

/* Runs to the end of its duration. 0, or -1 and one line in err. The result's histogram is to be
 * freed. */
int sl_load_run(const struct sl_load_options *o, struct sl_load_result *r, struct sl_err *err);
void sl_load_report(const struct sl_load_options *o, const struct sl_load_result *r, FILE *out);

#endif
