/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: a connection, and what all of a worker have. */
#ifndef SL_FRONT_TLS_CONN_H
#define SL_FRONT_TLS_CONN_H

#include "base/cpu.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/siphash.h"
#include "front/tls/tls.h"

enum {
	SL_TLS_HANDSHAKES = 2048, /* under way in a worker */
	SL_TLS_QUEUE = 1024,      /* of them with threads; new clients leave a quarter to others */
	SL_TLS_BUCKETS = 1024,    /* clients' addresses, by hash */
	SL_TLS_NAME_INLINE = 46,
	SL_TLS_KEY_UPDATE_LEN = 5,
	/* Each record gives 1, a KeyUpdate costs 100: RFC 8446 5.5 wants one in 2^24 records. */
	SL_TLS_UPDATE_COST = 100,
	SL_TLS_UPDATE_MAX = 16 * SL_TLS_UPDATE_COST,
	SL_TLS_QUIET_MAX = 32, /* records without data in a row: empty, KeyUpdate, warnings */
};

enum sl_tls_state {
	SL_TLS_HELLO, /* the client's turn in the handshake */
	SL_TLS_AWAY,  /* a thread has the handshake */
	SL_TLS_OPEN,
	SL_TLS_SHED,   /* there was no place for it: it is reset in a while, and not heard */
	SL_TLS_CLOSED, /* nothing is read any more, nothing written */
};

/* Names that are too long to stand in the connection, or of a client with a certificate. */
struct sl_tls_who {
	uint16_t subject_len, san_len;
	char sni[SL_TLS_NAME_MAX], subject[SL_TLS_WHO_MAX], san[SL_TLS_WHO_MAX];
};

/*
 * Bytes that came and are not used up: frames, the first of which begins with `plain` bytes of
 * content that the layer above has not taken, `skip` behind them are the rest of that record.
 */
struct sl_tls_held {
	struct sl_frame *head, *tail;
	uint32_t len;
	uint16_t plain, skip;
};

struct sl_tls_conn {
	struct sl_filter filter;
	struct sl_tls *tls;
	struct sl_tls_dir rx, tx;
	struct sl_tls_held held;
	union {
		struct sl_tls_hs *hs;     /* until it is open; NULL before the first whole record */
		struct sl_tls_cert *cert; /* open; a reference */
	};
	struct sl_tls_server *server; /* until it is open; a reference */
	struct sl_tls_who *who;
	struct sl_list holders; /* of its bucket's, while `held` is not empty; of tls->shed */
	uint64_t shed_ns;
	uint8_t state; /* enum sl_tls_state */
	uint8_t quiet;
	uint8_t alpn; /* enum sl_tls_alpn */
	uint8_t message_len;
	uint8_t message[SL_TLS_KEY_UPDATE_LEN]; /* the part of one that has come */
	uint16_t update_credit;                 /* see take_update() */
	uint16_t piece_max;                     /* bytes of content in a record, both ways */
	uint8_t depth; /* calls into the layer above that are on the stack */
	bool paused;   /* the layer above did not take all of `plain` */
	bool update_due;
	bool again; /* `resume` was called from within its input */
	bool eof;   /* close_notify, behind all that is held */
	bool fin;   /* the transport has no more, behind all that is held */
	bool gone;  /* freed when `depth` is zero again */
	bool resumed;
	uint16_t bucket; /* of its address, and 1; 0: not asked for yet */
	uint8_t sni_len; /* in `sni`; more: in `who` */
	char sni[SL_TLS_NAME_INLINE];
};
_Static_assert(sizeof(struct sl_tls_conn) <= 448, "the aim for an idle connection, beside TCP's");

struct sl_tls {
	struct sl_tls_config cfg;
	struct sl_tls_ciphers *ciphers;
	struct sl_mempool conns, who, hs;
	/* The record that is being written: content that is not sealed yet, in the frame it leaves in. */
	struct sl_tls_conn *writer;
	uint8_t *record;
	size_t content, room; /* of it; room: for the whole record */
	struct {
		struct sl_list conns; /* those with `held`, the oldest first */
		uint32_t frames;
	} holders[SL_TLS_BUCKETS];
	uint32_t held_frames;   /* of all of them */
	struct sl_list shed;    /* connections, the oldest first */
	struct sl_list waiting; /* handshakes of which it is the client's turn, the oldest first */
	struct sl_tls_server *servers[SL_MAX_LISTENERS];
	uint32_t queued;
	struct sl_sipkey key;            /* of buckets */
	uint16_t shares[SL_TLS_BUCKETS]; /* handshakes of each bucket of addresses */
	struct sl_tls_stats stats;
};

/* tls.c */
/* Counts why it ends, sends the alert if there is one, closes. The layer above hears that no input follows. */
SL_COLD void sl_tls_fail(struct sl_tls_conn *c, enum sl_tls_end why);
/* The same when the client has been told already. */
void sl_tls_end(struct sl_tls_conn *c, enum sl_tls_end why);
/* The same for the transport: reset, and the layer above is told that it is closed. */
void sl_tls_break(struct sl_tls_conn *c, enum sl_tls_end why);
/*
 * There is no place for its handshake. It is reset, but not at once: who is reset comes again at once,
 * and a connection costs as much as several requests of those who have one.
 */
void sl_tls_shed(struct sl_tls_conn *c);
/* Before and after a call upward; after: false when the connection is gone. */
static inline void sl_tls_enter(struct sl_tls_conn *c)
{
	c->depth++;
}
bool sl_tls_leave(struct sl_tls_conn *c);
/* What was held has been looked at: more may come from below, or its end counts now. */
void sl_tls_go_on(struct sl_tls_conn *c);
uint8_t sl_tls_alert_of(enum sl_tls_end why);
enum sl_tls_end sl_tls_end_of(uint8_t alert);

/* hs.c */
/* Of an IPv4 address or an IPv6 /64; not before a header in front of the handshake has said which. */
uint16_t sl_tls_bucket_of(struct sl_tls_conn *c);
/* Bytes of the handshake are in `held`. */
void sl_tls_hello(struct sl_tls_conn *c);
/* Writes what is left of the handshake's output; behind that the step counts. */
void sl_tls_hs_send(struct sl_tls_conn *c);
/* The connection goes, whoever has its handshake. */
void sl_tls_hs_leave(struct sl_tls_conn *c);

/* held.c */
/* Bytes of a chunk from `at` on: its frame if it has one. False: no memory. */
bool sl_tls_hold(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at);
bool sl_tls_hold_copy(struct sl_tls_conn *c, const uint8_t *bytes, size_t len);
void sl_tls_held_drop(struct sl_tls_conn *c, size_t len);
/* The first frame off the list, or one in front of it. */
struct sl_frame *sl_tls_held_pop(struct sl_tls_conn *c);
void sl_tls_held_push(struct sl_tls_conn *c, struct sl_frame *f);
void sl_tls_held_free(struct sl_tls_conn *c);
size_t sl_tls_held_copy(const struct sl_tls_conn *c, uint8_t *to, size_t max);

/* in.c: what is held, or a chunk; returns bytes of it that were used. */
void sl_tls_pump(struct sl_tls_conn *c);
size_t sl_tls_take(struct sl_tls_conn *c, struct sl_chunk *chunk);

/* out.c */
size_t sl_tls_write(struct sl_tls_conn *c, const uint8_t *bytes, size_t len, bool beyond);
/* Seals what is open, of whichever connection. */
void sl_tls_seal_open(struct sl_tls *t);
size_t sl_tls_room(const struct sl_tls_conn *c);
bool sl_tls_fits(const struct sl_tls_conn *c, size_t len);
/* A record of its own; false: there is no room. */
bool sl_tls_say(struct sl_tls_conn *c, uint8_t type, const uint8_t *bytes, size_t len);

#endif
