/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes with OpenSSL and memory BIOs, without sockets. A worker fills `in`, a handshake thread
 * makes one step, and the worker sends `out`:
 *
 *   worker    in --> [ thread: sl_tls_hs_step ] --> out, and at the end keys
 *
 * A struct sl_tls_hs is owned by either the worker or the thread, and moves between them by rings.
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
	SL_TLS_HS_BYTES = 17 << 10,   /* one record and some more */
	SL_TLS_CHAIN_MAX = 128 << 10, /* certificates of a listener, concatenated */
	SL_TLS_FLIGHT_MAX = SL_TLS_CHAIN_MAX + (8 << 10), /* the server's whole flight */
	SL_TLS_CLIENT_CERT_MAX = 64 << 10,
	SL_TLS_IDENTITY_MAX = 256,
	SL_TLS_NAME_MAX = 256
};

enum sl_tls_step {
	SL_TLS_MORE,
	SL_TLS_DONE,
	SL_TLS_FAILED, /* `out` may hold an alert */
	SL_TLS_LEFT,   /* set by the worker: the client is gone, free the memory */
};

struct sl_tls_hs {
	struct sl_list link;
	struct sl_tls_conn *conn;     /* used by the worker; NULL: gone */
	struct sl_tls_server *server; /* a reference */
	SSL *ssl;
	uint64_t queued_ns, waited_ns; /* time of submission; time in the queue */
	uint8_t step;
	uint8_t alert; /* FAILED: alert description, ours or the client's; 255: none */
	bool peer_alert;
	bool ticket;       /* the ClientHello contains a ticket */
	bool away;         /* a thread has it */
	_Atomic bool gone; /* the client has left: skip the work */
	bool begun;        /* at least one step is done */
	bool few;          /* the client address has few handshakes */
	bool resumed;
	bool too_large; /* FAILED: client certificates exceed SL_TLS_CLIENT_CERT_MAX */
	uint8_t alpn;
	uint16_t piece_max; /* DONE: maximum content of a record, RFC 6066 4 */
	uint8_t thread;     /* thread that has the SSL, below sl_tls_server_threads() */
	uint8_t worker;     /* used by the thread: worker to return it to */
	uint16_t bucket;
	uint32_t in_len, in_used;
	uint32_t out_len, out_sent; /* bytes of `out`; of these, already written */
	uint8_t *out;               /* `here`, or allocated for a longer flight */
	struct sl_tls_dir rx, tx;   /* valid when DONE; secrets are stored earlier */
	struct sl_tls_cert *cert;   /* a reference */
	uint16_t sni_len, subject_len, san_len;
	char sni[SL_TLS_NAME_MAX], subject[SL_TLS_IDENTITY_MAX], san[SL_TLS_IDENTITY_MAX];
	uint8_t in[SL_TLS_HS_BYTES];
	uint8_t here[SL_TLS_HS_BYTES];
};

/* Makes one step: consumes hs->in, sets hs->out and hs->step. Any thread. */
void sl_tls_hs_step(struct sl_tls_hs *hs, uint64_t now_ns);
/* Frees the thread's part and wipes secrets. */
void sl_tls_hs_end(struct sl_tls_hs *hs);

/*
 * Creates the TLS state of a listener. Returns NULL after reporting errors. `own`: shared ticket
 * keys, used if no file is configured. Thread-safe; connections and handshakes hold references.
 */
struct sl_tls_server *sl_tls_server_new(const struct sl_cfg_tls *cfg, struct sl_tls_tickets *own,
					struct conf_diags *mistakes);
struct sl_tls_server *sl_tls_server_get(struct sl_tls_server *s);
void sl_tls_server_put(struct sl_tls_server *s);

/* Returns the number of threads allowed; each has its own SSL_CTX to avoid contention. */
unsigned sl_tls_server_threads(const struct sl_tls_server *s);
/* Returns certificate `i` in the order of the file, or NULL after the last. */
const struct sl_tls_cert *sl_tls_server_cert(const struct sl_tls_server *s, unsigned i);
struct sl_tls_tickets *sl_tls_server_tickets(struct sl_tls_server *s);

/* hello.c. Gets the first 16 bytes of the first ticket in a ClientHello. False: none. */
bool sl_tls_hello_ticket(struct sl_span records, uint8_t name[16]);

/*
 * Creates the servers of all listeners with tls. Returns 0, or -1 and error lines in `err`.
 * sl_config_free() frees them.
 */
int sl_tls_load(struct sl_config *c, struct sl_err *err);
/* Logs the end of validity of each certificate. */
void sl_tls_log_ends(const struct sl_config *c);
/* Reports each certificate that expires within 30 days or has expired. */
void sl_tls_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);

#endif
