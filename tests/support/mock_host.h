/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for fronts, in place of the core. It logs the front's calls, answers as the test says, and
 * checks the contract of front.h at every call (mock_shut() reports the first breach). Replies can
 * be pulled after mock_answer(), or its parts: mock_head, mock_bytes, mock_end, mock_break. Within
 * upcalls `ready` waits for the end of mock_input().
 *
 *   mock.log   one line per request: "GET /a?q @host [cl=N] [u=N] [te]", then its body and its end
 *   mock.out   the bytes for the client
 */
#ifndef SL_TESTS_MOCK_HOST_H
#define SL_TESTS_MOCK_HOST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mempool.h"
#include "front/front.h"

#define MOCK_DATE "Sun, 06 Nov 1994 08:49:37 GMT"

enum { MOCK_STREAMS = 64, MOCK_OUT = 4 << 20, MOCK_LOG = 2 << 20 };

enum mock_answer {
	MOCK_AT_END,   /* when the request is whole */
	MOCK_IN_BEGIN, /* refuses the body */
	MOCK_LATER,    /* when the test calls mock_answer() */
	MOCK_IN_BODY,  /* refuses the rest of it */
};

struct mock;
struct mock_stream {
	struct sl_stream st; /* first, as in the core */
	struct mock *m;
	bool live, whole, answered;
	unsigned announced; /* `ready` is due, in this order */
	bool answer_due;
	char *body; /* body of the request */
	size_t body_len, body_cap;
	unsigned compressed; /* compressed messages of an open-ended body */
	size_t messages_end; /* in the body: end of the announced messages */
	unsigned no;
	/* the reply: what of it has come, and how much of that was taken */
	bool has_head, ended, broken;
	struct sl_reply head, tail;
	char *reply;
	size_t reply_len, reply_cap, taken;
	size_t shown;   /* bytes of the last peek */
	bool end_shown; /* it ended there */
};

struct mock {
	uint64_t state[SL_FRONT_STATE_SIZE / 8];
	const struct sl_front_ops *ops;
	struct sl_front_env env;
	struct sl_front_limits limits;
	struct sl_umem umem;
	struct sl_mempool heads;
	uint64_t rx_ns, take_ns; /* of the last request */
	uint64_t now_ns, errors[SL_FRONT_ERR_CNT];
	struct mock_stream streams[MOCK_STREAMS];
	unsigned begun, done, cancelled, closed, reset, announced;
	unsigned heads_asked,
		peeks; /* how often a front looked for the beginning of a reply, and what is next */
	char *log, *out;
	size_t log_len, out_len;
	/* choices of the test */
	enum mock_answer answer;
	struct sl_reply reply;
	struct sl_span reply_body;
	bool log_all;  /* every header but the content type */
	bool echo;     /* the body is the request's */
	bool parts;    /* requests are open-ended */
	bool awaits;   /* mock_continue() answers Expect: 100-continue */
	bool upgrades; /* a client may change the protocol ... */
	bool agrees;   /* ... and does */
	bool in_parts; /* reply with the head first, then pieces of part_max bytes */
	size_t part_max;
	uint32_t source;
	size_t peek_max;     /* bytes that lie together */
	unsigned later;      /* how often a front has asked to be called again */
	uint32_t held;       /* frames of what is incomplete */
	unsigned heads_fail; /* so many calls of write_head find no frame */
	size_t room;         /* room in the client's window; SIZE_MAX: no limit */
	size_t body_max;     /* bytes taken per body upcall */
	bool take_frames;
	unsigned exhausted; /* begin fails from this request on; 0 never */
	struct sl_frame *taken;
	int upcall; /* inside begin, body or end */
	int inside; /* inside a call of the front: none follows before it returns */
};

/* Reports a breach of the contract; a fuzz target ends there (MOCK_ABORT). */
void mock_breach(const char *what);
#define MOCK_MUST(cond) ((cond) ? (void)0 : mock_breach(#cond))

/* --- the front's calls, one at a time --- */

#define MOCK_CALL(m, call)                                                                         \
	do {                                                                                       \
		MOCK_MUST(!(m)->inside);                                                           \
		(m)->inside++;                                                                     \
		call;                                                                              \
		(m)->inside--;                                                                     \
	} while (0)

/* Tells of what is new; at the end of the burst if the front is on the stack. */
void mock_announce(struct mock_stream *s);
/* The end of a burst. */
void mock_burst(struct mock *m);
void mock_writable(struct mock *m);
/* It listens on. */
void mock_eof(struct mock *m);
void mock_gone(struct mock *m);
void mock_timeout(struct mock *m);
void mock_drain(struct mock *m);

/* --- the reply, as it comes --- */

void mock_keep(struct mock_stream *s, struct sl_span bytes);
/* A message of the reply begins. */
void mock_message(struct mock_stream *s, uint64_t len);
void mock_head(struct mock_stream *s, const struct sl_reply *r);
void mock_bytes(struct mock_stream *s, struct sl_span bytes);
/* Its backend wants the body. */
void mock_continue(struct mock_stream *s);
/* Its backend says something before the reply. */
void mock_interim(struct mock_stream *s, unsigned status, const struct sl_header *fields,
		  uint32_t cnt);
/* `tail` NULL: the head has said it all. */
void mock_end(struct mock_stream *s, const struct sl_reply *tail);
/* Like the core: a stream without a head gets another reply instead. */
void mock_break(struct mock_stream *s, enum sl_outcome why);
/* All of what the test has chosen: at once, or piece by piece. */
void mock_answer(struct mock_stream *s);
/* An unplanned step of a reply: its head, bytes, or its end. */
void mock_go_on(struct mock_stream *s, bool end);

/* --- the host --- */

struct mock *mock_new(const struct sl_front_ops *ops);
/* A fresh connection with the choices that most tests want. */
void mock_open(struct mock *m);
/* One chunk, and the burst that it ends. Returns how much of it was used. */
size_t mock_chunk(struct mock *m, struct sl_chunk *c);
/* Bytes of the client, offered again as long as some are used. Returns how many were. */
size_t mock_input(struct mock *m, const void *bytes, size_t len);
struct mock_stream *mock_find(struct mock *m, unsigned no);
/* The connection ends; returns NULL, or what leaked or was broken since the start. */
const char *mock_shut(struct mock *m);
void mock_free(struct mock *m);

#endif
