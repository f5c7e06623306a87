/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes with OpenSSL and memory BIOs.
 *
 * Either the worker or the thread owns a struct sl_tls_hs.
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
	SL_TLS_HS_BYTES = 17 << 10,
	SL_TLS_CHAIN_MAX = 128 << 10,
	SL_TLS_FLIGHT_MAX = SL_TLS_CHAIN_MAX + (8 << 10),
	SL_TLS_CLIENT_CERT_MAX = 64 << 10,
	SL_TLS_IDENTITY_MAX = 256,
	SL_TLS_NAME_MAX = 256
};

enum sl_tls_step {
	SL_TLS_MORE,
	SL_TLS_DONE,
	SL_TLS_FAILED, /* `out` may hold an alert */
	SL_TLS_LEFT,   /* set by the worker: client gone, free it */
};

struct sl_tls_hs {
	struct sl_list link;
	struct sl_tls_conn *conn;     /* the worker's; NULL: gone */
	struct sl_tls_server *server; /* a reference */
	SSL *ssl;
	uint64_t queued_ns, waited_ns; /* submission; time in the queue */
	uint8_t step;
	uint8_t alert; /* FAILED: ours or the client's; 255: none */
	bool peer_alert;
	bool ticket;
	bool away;         /* a thread has it */
	_Atomic bool gone; /* client gone: skip the work */
	bool begun;
	bool few;
	bool resumed;
	bool too_large; /* FAILED: above SL_TLS_CLIENT_CERT_MAX */
	uint8_t alpn;
	uint16_t piece_max; /* DONE: record limit, RFC 6066 4 */
	uint8_t thread;     /* has the SSL; below sl_tls_server_threads() */
	uint8_t worker;     /* takes it back */
	uint16_t bucket;
	uint32_t in_len, in_used;
	uint32_t out_len, out_sent;
	uint8_t *out;             /* `here`, or allocated for a long flight */
	struct sl_tls_dir rx, tx; /* valid when DONE; secrets earlier */
	struct sl_tls_cert *cert; /* a reference */
	uint16_t sni_len, subject_len, san_len;
	char sni[SL_TLS_NAME_MAX], subject[SL_TLS_IDENTITY_MAX], san[SL_TLS_IDENTITY_MAX];
	uint8_t in[SL_TLS_HS_BYTES];
	uint8_t here[SL_TLS_HS_BYTES];
};

/* Consumes hs->in, sets hs->out and hs->step. Any thread. */
void sl_tls_hs_step(struct sl_tls_hs *hs, uint64_t now_ns);
/* Frees the thread's part and wipes secrets; hs stays the worker's. */
void sl_tls_hs_end(struct sl_tls_hs *hs);

/*
 * Creates a listener's TLS state. NULL: errors were reported. `own`: shared ticket keys without a
 * file. Thread-safe; connections and handshakes hold references.
 */
struct sl_tls_server *sl_tls_server_new(const struct sl_cfg_tls *cfg, struct sl_tls_tickets *own,
					struct conf_diags *mistakes);
/* Return s with another reference; drop one (s may be NULL), the last frees s. Any thread. */
struct sl_tls_server *sl_tls_server_get(struct sl_tls_server *s);
void sl_tls_server_put(struct sl_tls_server *s);

/* Returns the number of threads, each with its own SSL_CTX. */
unsigned sl_tls_server_threads(const struct sl_tls_server *s);
/* Returns the i-th certificate, owned by s; NULL: no more. */
const struct sl_tls_cert *sl_tls_server_cert(const struct sl_tls_server *s, unsigned i);
/* Returns the ticket keys, owned by s. */
struct sl_tls_tickets *sl_tls_server_tickets(struct sl_tls_server *s);

/* Gets the name of the ticket's key. Returns false without a ticket. */
bool sl_tls_hello_ticket(struct sl_span records, uint8_t name[16]);

/* Creates the servers of all TLS listeners, freed by sl_config_free(). On error `err` has lines. */
int sl_tls_load(struct sl_config *c, struct sl_err *err);
/* Logs when each certificate expires. */
void sl_tls_log_ends(const struct sl_config *c);
/* Reports certificates that have expired or do so within 30 days. */
void sl_tls_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);

#endif
