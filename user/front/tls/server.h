/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake, by OpenSSL between two memories: no socket, no waiting. A worker fills `in`, a
 * handshake thread makes a step of it, the worker sends `out`:
 *
 *   worker    in --> [ thread: sl_tls_hs_step ] --> out, and at the end keys
 *
 * A struct sl_tls_hs belongs to whoever has it in hand; it goes between them by rings.
 */
#ifndef SL_FRONT_TLS_SERVER_H
#define SL_FRONT_TLS_SERVER_H

#include <stdatomic.h>
#include "base/list.h"
#include "front/conn.h"
#include "front/tls/cert.h"
#include "front/tls/record.h"
#include "front/tls/ticket.h"

struct sl_tls_server;
struct sl_tls_conn;

enum {
	SL_TLS_HS_BYTES = 17 << 10,   /* a record, and a little more */
	SL_TLS_CHAIN_MAX = 128 << 10, /* certificates of a listener, one behind the other */
	SL_TLS_FLIGHT_MAX =
		SL_TLS_CHAIN_MAX + (8 << 10), /* with the other messages of the flight */
	SL_TLS_CLIENT_CERT_MAX = 64 << 10,
	SL_TLS_WHO_MAX = 256,
	SL_TLS_NAME_MAX = 256
};

enum sl_tls_step {
	SL_TLS_MORE,   /* the client's turn */
	SL_TLS_DONE,   /* keys are there */
	SL_TLS_FAILED, /* `out` may hold an alert */
	SL_TLS_LEFT,   /* the worker: the client is gone, only the memory is to be given back */
};

struct sl_tls_hs {
	struct sl_list link;          /* of whoever has it */
	struct sl_tls_conn *conn;     /* the worker's; NULL: gone */
	struct sl_tls_server *server; /* a reference */
	SSL *ssl;
	uint64_t queued_ns, waited_ns; /* when it went to the thread; for how long it lay there */
	uint8_t step;                  /* enum sl_tls_step */
	uint8_t alert;                 /* FAILED: description, ours or the client's; 255: none */
	bool peer_alert;               /* it was the client's */
	bool ticket;                   /* its ClientHello shows one */
	bool away;                     /* the worker's: a thread has it */
	_Atomic bool gone;             /* meanwhile its client has left: spare the work */
	bool begun;                    /* not its first step */
	bool few;                      /* its address has few of them */
	bool resumed;
	bool too_large;     /* FAILED: the client's certificates are above SL_TLS_CLIENT_CERT_MAX */
	uint8_t alpn;       /* enum sl_tls_alpn */
	uint16_t piece_max; /* DONE: bytes of content in a record, RFC 6066 4 */
	uint8_t thread;     /* which has its SSL, below sl_tls_server_threads() */
	uint8_t worker;     /* the thread's: whom to give it back */
	uint16_t bucket;    /* the worker's: of the client's address */
	uint32_t in_len, in_used;
	uint32_t out_len, out_sent; /* the worker's: bytes of `out` that are on their way */
	uint8_t *out;               /* `here`, or allocated for a longer flight */
	struct sl_tls_dir rx, tx;   /* DONE; until then their secrets by and by */
	struct sl_tls_cert *cert;   /* a reference */
	uint16_t sni_len, subject_len, san_len;
	char sni[SL_TLS_NAME_MAX], subject[SL_TLS_WHO_MAX], san[SL_TLS_WHO_MAX];
	uint8_t in[SL_TLS_HS_BYTES];
	uint8_t here[SL_TLS_HS_BYTES];
};

/* Any thread. Takes hs->in, fills hs->out and step. */
void sl_tls_hs_step(struct sl_tls_hs *hs, uint64_t now_ns);
/* Frees what the thread has of it, and wipes secrets. */
void sl_tls_hs_end(struct sl_tls_hs *hs);

/*
 * Of a listener, from its configuration; mistakes are told. `shared`: tickets of gateways without a
 * file of them. Use by many threads; connections and handshakes keep it alive.
 */
struct sl_tls_server *sl_tls_server_new(const struct sl_cfg_tls *cfg, struct sl_tls_tickets *own,
					struct conf_mistakes *mistakes);
struct sl_tls_server *sl_tls_server_get(struct sl_tls_server *s);
void sl_tls_server_put(struct sl_tls_server *s);

/* How many threads may have its handshakes: what OpenSSL keeps for all of them, each has for itself. */
unsigned sl_tls_server_threads(const struct sl_tls_server *s);
/* Its certificates, in the order of the file; NULL behind the last. */
const struct sl_tls_cert *sl_tls_server_cert(const struct sl_tls_server *s, unsigned i);
struct sl_tls_tickets *sl_tls_server_tickets(struct sl_tls_server *s);

/* hello.c: the ticket that a ClientHello shows first: its first 16 bytes; false: none. */
bool sl_tls_hello_ticket(struct sl_span records, uint8_t name[16]);

/*
 * For the configuration: makes the servers of all listeners with tls. 0, or -1 and lines in err.
 * They go with sl_config_free().
 */
int sl_tls_load(struct sl_config *c, struct sl_err *err);
/* A line of the log for each certificate: when it ends. */
void sl_tls_log_ends(const struct sl_config *c);
/* A line for each certificate that ends within 30 days, or has ended. */
void sl_tls_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);

#endif
