/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a connection and a worker. */
#ifndef SL_FRONT_TLS_CONN_H
#define SL_FRONT_TLS_CONN_H

#include "base/cpu.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/siphash.h"
#include "front/tls/tls.h"

enum {
	SL_TLS_HANDSHAKES = 2048, /* per worker */
	/* queued for threads; the last quarter is not for new clients */
	SL_TLS_QUEUE = 1024,
	SL_TLS_BUCKETS = 1024,
	SL_TLS_NAME_INLINE = 46,
	SL_TLS_KEY_UPDATE_LEN = 5,
	/*
	 * A record adds 1 credit, a KeyUpdate costs 100. RFC 8446 5.5 needs one per 2^24 records.
	 */
	SL_TLS_UPDATE_COST = 100,
	SL_TLS_UPDATE_MAX = 16 * SL_TLS_UPDATE_COST,
	SL_TLS_QUIET_MAX = 32, /* consecutive records without data: empty, KeyUpdate, warnings */
};

enum sl_tls_state {
	SL_TLS_HELLO,
	SL_TLS_AWAY, /* a thread has it */
	SL_TLS_OPEN,
	SL_TLS_SHED, /* overload: reset after SHED_MS, input ignored */
	SL_TLS_CLOSED,
};

/* Long names, or of a client with a certificate. */
struct sl_tls_identity {
	uint16_t subject_len, san_len;
	char sni[SL_TLS_NAME_MAX], subject[SL_TLS_IDENTITY_MAX], san[SL_TLS_IDENTITY_MAX];
};

/*
 * Unconsumed bytes. The first frame begins with `plain` decrypted bytes, then `skip` bytes that end
 * the record.
 */
struct sl_tls_backlog {
	struct sl_frame *head, *tail;
	uint32_t len;
	uint16_t plain, skip;
};

struct sl_tls_conn {
	struct sl_filter filter;
	struct sl_tls *tls;
	struct sl_tls_dir rx, tx;
	struct sl_tls_backlog backlog;
	union {
		/* handshake; NULL before the first complete record */
		struct sl_tls_hs *hs;
		struct sl_tls_cert *cert; /* SL_TLS_OPEN; a reference */
	};
	struct sl_tls_server *server; /* handshake; a reference */
	struct sl_tls_identity *identity;
	/* in its bucket while `backlog` is not empty, or in tls->shed */
	struct sl_list holders;
	uint64_t shed_ns;
	uint8_t state;
	uint8_t quiet;
	uint8_t alpn;
	uint8_t message_len;
	uint8_t message[SL_TLS_KEY_UPDATE_LEN];
	uint16_t update_credit;
	uint16_t piece_max; /* largest content of a record, both directions */
	uint8_t depth;      /* nested upcalls */
	bool paused;        /* `plain` was not taken completely */
	bool update_due;
	bool again; /* `resume` was called within `input` */
	bool eof;   /* close_notify follows the held bytes */
	bool fin;   /* the transport's end follows them */
	bool gone;  /* free when `depth` is zero */
	bool resumed;
	uint16_t bucket; /* 1 + bucket of the client address; 0: unknown */
	uint8_t sni_len; /* if longer than `sni`: in `identity` */
	char sni[SL_TLS_NAME_INLINE];
};
_Static_assert(sizeof(struct sl_tls_conn) <= 448, "the aim for an idle connection, beside TCP's");

struct sl_tls {
	struct sl_tls_config cfg;
	struct sl_tls_ciphers *ciphers;
	struct sl_mempool conns, identity, hs;
	/* Open record, gathered in the frame that leaves next. */
	struct sl_tls_conn *writer;
	uint8_t *record;
	size_t content, room;
	struct {
		struct sl_list conns; /* holding frames, oldest first */
		uint32_t frames;
	} holders[SL_TLS_BUCKETS];
	uint32_t backlog_frames;
	struct sl_list shed;    /* SL_TLS_SHED, oldest first */
	struct sl_list waiting; /* handshakes waiting for clients, oldest first */
	struct sl_tls_server *servers[SL_MAX_LISTENERS];
	uint32_t queued;
	struct sl_sipkey key;
	uint16_t shares[SL_TLS_BUCKETS];
	struct sl_tls_stats stats;
};

/* Counts `why`, sends its alert, closes, and tells the layer above. */
SL_COLD void sl_tls_fail(struct sl_tls_conn *c, enum sl_tls_end why);
/* Like sl_tls_fail(), without an alert. */
void sl_tls_end(struct sl_tls_conn *c, enum sl_tls_end why);
/* Like sl_tls_end(), but resets the transport. */
void sl_tls_break(struct sl_tls_conn *c, enum sl_tls_end why);
/* Rejects a connection; a late reset delays its next attempt. */
void sl_tls_shed(struct sl_tls_conn *c);
/* Bracket an upcall. sl_tls_leave() returns false if the connection was freed. */
static inline void sl_tls_enter(struct sl_tls_conn *c)
{
	c->depth++;
}
bool sl_tls_leave(struct sl_tls_conn *c);
/* After held bytes: resumes the layer below, or handles its end. */
void sl_tls_go_on(struct sl_tls_conn *c);
/* Convert a cause and an alert (OTHER: unknown). */
uint8_t sl_tls_alert_of(enum sl_tls_end why);
enum sl_tls_end sl_tls_end_of(uint8_t alert);

/* Returns the known client address's bucket (IPv6: /64). */
uint16_t sl_tls_bucket_of(struct sl_tls_conn *c);
/* Passes complete records to a thread, or rejects the connection. */
void sl_tls_hello(struct sl_tls_conn *c);
/* Writes handshake output, then applies the step's result. */
void sl_tls_hs_send(struct sl_tls_conn *c);
/* Detaches an ending connection. */
void sl_tls_hs_leave(struct sl_tls_conn *c);

/* Appends a chunk's bytes from `at`, with its frame if any. False: no memory. */
bool sl_tls_backlog_add(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at);
bool sl_tls_backlog_add_copy(struct sl_tls_conn *c, const uint8_t *bytes, size_t len);
/* Removes the first bytes, which must be there. */
void sl_tls_backlog_drop(struct sl_tls_conn *c, size_t len);
/* Removes and returns the first frame, now the caller's; not if empty. */
struct sl_frame *sl_tls_backlog_pop(struct sl_tls_conn *c);
/* Puts a frame in front, and takes it. */
void sl_tls_backlog_push(struct sl_tls_conn *c, struct sl_frame *f);
/* Frees all. */
void sl_tls_backlog_free(struct sl_tls_conn *c);
/* Copies the first bytes. Returns how many. */
size_t sl_tls_backlog_peek(const struct sl_tls_conn *c, uint8_t *to, size_t max);

/* Process held bytes, or a chunk. sl_tls_take() returns the bytes used. */
void sl_tls_pump(struct sl_tls_conn *c);
size_t sl_tls_take(struct sl_tls_conn *c, struct sl_chunk *chunk);

/* Returns the bytes written; `beyond` as in lay(). */
size_t sl_tls_write(struct sl_tls_conn *c, const uint8_t *bytes, size_t len, bool beyond);
/* Seals the worker's open record, if any. */
void sl_tls_seal_open(struct sl_tls *t);
/* sl_conn_ops: those of the transport less overhead. */
size_t sl_tls_room(const struct sl_tls_conn *c);
bool sl_tls_fits(const struct sl_tls_conn *c, size_t len);
/* Sends a separate record. Returns false without room. */
bool sl_tls_say(struct sl_tls_conn *c, uint8_t type, const uint8_t *bytes, size_t len);

#endif
