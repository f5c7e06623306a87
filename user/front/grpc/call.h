/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that the gateway answers: grpc.health.v1.Health and server reflection.
 *
 * Over SL_CALL_WAITING_MAX waiting bytes: RESOURCE_EXHAUSTED.
 */
#ifndef SL_FRONT_GRPC_CALL_H
#define SL_FRONT_GRPC_CALL_H

#include "front/grpc/pb.h"
#include "front/h2/conn.h"

enum {
	SL_CALL_MESSAGE_MAX = 8192,
	SL_CALL_WAITING_MAX = 65408, /* a size class of h2/mem.c */
	SL_CALL_PARTS = 7,
};

enum sl_call_kind { SL_CALL_NONE, SL_CALL_CHECK, SL_CALL_WATCH, SL_CALL_REFLECT };

struct h2_call {
	struct sl_list link; /* WATCH: in env->watches */
	struct h2_stream *s;
	/* with prefixes: [head, tail) of buf[cap] */
	uint8_t *buf;
	uint32_t cap, head, tail;
	uint32_t asked;
	uint8_t kind;
	uint8_t told; /* WATCH: last status; 0: none */
	bool answering;
	bool whole; /* the client has ended */
	bool finished;
	uint8_t part, part_cnt;
	uint8_t small_len;
	uint8_t status;
	const char *why;
	struct sl_span parts[SL_CALL_PARTS];
	uint8_t small[96];
};

/* Returns the kind, or SL_CALL_NONE: another service, or one that a route names. */
enum sl_call_kind sl_call_kind_of(const struct h2_conn *c, const struct sl_request *rq);
/* Handles the head: makes s->call, or answers 503. */
void sl_call_begin(struct h2_stream *s, enum sl_call_kind kind);
/* Adds request bytes; too many end the call. */
void sl_call_input(struct h2_stream *s, struct sl_span bytes);
/* Handles the request's end. */
void sl_call_end(struct h2_stream *s);
/* Continues when the connection drains. */
void sl_call_drain(struct h2_stream *s);
/* Frees s->call, if any, when the stream closes. */
void sl_call_free(struct h2_stream *s);
/* Returns true while the client is to send or read. */
bool sl_call_rests(const struct h2_stream *s);

/* Appends a view to the answer, valid until sent. The first one is the prefix in `small`. */
void sl_call_part(struct h2_call *k, struct sl_span bytes);
/* Returns where to write; sl_call_small_part() then appends the bytes up to `end`. */
uint8_t *sl_call_small(struct h2_call *k);
void sl_call_small_part(struct h2_call *k, const uint8_t *end);
/* Writes the prefix, and sends all parts. */
void sl_call_send(struct h2_call *k);
/* Ends the call once, with trailers. why: static, may be NULL. */
void sl_call_finish(struct h2_call *k, enum sl_grpc_status status, const char *why);
/* Returns the request being answered. */
static inline struct sl_span sl_call_request(const struct h2_call *k)
{
	return sl_span_of(k->buf + k->head + SL_GRPC_PREFIX, k->asked - SL_GRPC_PREFIX);
}

/* Answer the request. sl_health_watch() sends changes only. */
void sl_health_check(struct h2_call *k);
void sl_health_watch(struct h2_call *k);
void sl_reflect(struct h2_call *k);

#endif
