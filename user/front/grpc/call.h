/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that the gateway answers itself: grpc.health.v1.Health and server reflection.
 *
 *   bytes in -> [ messages that wait | the one being answered ] -> parts -> nghttp2
 *
 * One answer at a time: requests wait in memory of the connection's budget until it is out, then
 * the next one is taken. So a stream costs a struct h2_call and what it has sent ahead; who sends
 * more ahead than SL_CALL_WAITING_MAX is told RESOURCE_EXHAUSTED.
 */
#ifndef SL_FRONT_GRPC_CALL_H
#define SL_FRONT_GRPC_CALL_H

#include "front/grpc/pb.h"
#include "front/h2/conn.h"

enum {
	SL_CALL_MESSAGE_MAX = 8192,
	SL_CALL_WAITING_MAX = 65408, /* a size of h2/mem.c */
	SL_CALL_PARTS = 7,
};

enum sl_call_kind { SL_CALL_NONE, SL_CALL_CHECK, SL_CALL_WATCH, SL_CALL_REFLECT };

struct h2_call {
	struct sl_list link; /* WATCH: of env->watches */
	struct h2_stream *s;
	/* requests with their prefixes: [head, tail) of buf[cap] */
	uint8_t *buf;
	uint32_t cap, head, tail;
	uint32_t asked; /* length of the first one with its prefix, while it is answered */
	uint8_t kind;   /* enum sl_call_kind */
	uint8_t told;   /* WATCH: the last status sent; 0 none */
	bool answering; /* parts are on their way */
	bool whole;     /* the client sends no more */
	bool finished;  /* `status` follows */
	uint8_t part, part_cnt;
	uint8_t small_len;
	uint8_t status; /* enum sl_grpc_status */
	const char *why;
	struct sl_span parts[SL_CALL_PARTS];
	uint8_t small[96]; /* pieces of the answer that are nowhere else */
};

/*
 * Which of them it calls, if that is offered, and no route names the service: who writes such a route
 * wants his servers' own answers.
 */
enum sl_call_kind sl_call_kind_of(const struct h2_conn *c, const struct sl_request *rq);
/* The head of such a call is there. */
void sl_call_begin(struct h2_stream *s, enum sl_call_kind kind);
void sl_call_input(struct h2_stream *s, struct sl_span bytes);
void sl_call_end(struct h2_stream *s);
/* Watches say so and end, idle reflection ends. */
void sl_call_drain(struct h2_stream *s);
/* The stream goes: gives back what it holds. */
void sl_call_free(struct h2_stream *s);
/* Nothing of it is under way: it waits for what may never come. */
bool sl_call_rests(const struct h2_stream *s);

/* The next piece of an answer, which goes out behind its prefix once sl_call_send was called. */
void sl_call_part(struct h2_call *k, struct sl_span bytes);
/* Room for a small piece: len of it is used then. */
uint8_t *sl_call_small(struct h2_call *k);
void sl_call_small_part(struct h2_call *k, const uint8_t *end);
void sl_call_send(struct h2_call *k);
void sl_call_finish(struct h2_call *k, enum sl_grpc_status status, const char *why);
static inline struct sl_span sl_call_request(const struct h2_call *k)
{
	return sl_span_of(k->buf + k->head + SL_GRPC_PREFIX, k->asked - SL_GRPC_PREFIX);
}

/* health.c, reflect.c: answer k's request, or (watch) say what has changed. */
void sl_health_check(struct h2_call *k);
void sl_health_watch(struct h2_call *k);
void sl_reflect(struct h2_call *k);

#endif
