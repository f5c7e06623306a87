/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 to servers, by OpenSSL. The agent's thread.
 *
 * out[] holds a record that the socket has no room for, so that sent bytes never come again.
 */
#ifndef SL_AGENT_TLS_H
#define SL_AGENT_TLS_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "base/list.h"

enum {
	AGENT_TLS_SESSIONS = 8,
	AGENT_TLS_OUT = 20 << 10,
	AGENT_TLS_IN = 64 << 10, /* bytes of the socket per call */
	AGENT_TLS_WHY = 96
};

struct iovec;

/* Files, read; counted, and shared by servers with the same contents. */
struct agent_tls_context {
	struct sl_list link;
	unsigned refs;
	uint8_t digest[32];
	SSL_CTX *ssl;
	BIO_METHOD *method;
};

/* TLS of a server. */
struct agent_tls_server {
	struct agent_tls_context *ctx; /* NULL: `error` */
	char *name;                    /* checked in the certificate; SNI unless an address */
	bool verify, http2;
	char error[AGENT_TLS_WHY];
	/* Tickets, each for one connection (RFC 8446 C.4); the last one is used first. */
	SSL_SESSION *sessions[AGENT_TLS_SESSIONS];
	unsigned session_cnt;
};

/* A connection. */
struct agent_tls {
	SSL *ssl;
	struct agent_tls_server *server;
	struct agent_tls_context *ctx;
	int fd;
	int error;    /* errno of the socket; 0: none */
	bool emptied; /* last read emptied the socket; cleared by an event */
	bool held;    /* the last recv() needs room in out[] */
	bool ended;   /* the socket's input has ended */
	bool closing; /* close_notify is still to be made */
	bool broken;  /* OpenSSL must not be called again */
	bool refused; /* by an alert about the handshake, which may come after its end */
	uint32_t at, len;
	uint32_t left; /* that may still be read */
	char why[AGENT_TLS_WHY];
	uint8_t out[AGENT_TLS_OUT];
};

/* Returns a reference to a context, from `all` if the contents are known; or NULL and err. */
struct agent_tls_context *agent_tls_context_get(struct sl_list *all, const struct sl_agent_tls *tls,
						struct sl_err *err);
/* Returns a reference; the last one frees the context. NULL is allowed. */
void agent_tls_context_put(struct agent_tls_context *c);
/* Returns OpenSSL's transport of struct agent_tls, for BIO_meth_free(), or NULL. */
BIO_METHOD *agent_tls_bio_method(void);

/*
 * Reads the files of a zeroed server; on failure sets `error`, and it cannot connect. Returns 0, or
 * -1 without memory; agent_tls_server_fini() follows.
 */
int agent_tls_server_init(struct agent_tls_server *s, struct sl_list *all,
			  const struct sl_agent_tls *tls, const char *host, bool http2);
/*
 * Reads the files again; keeps the former contents after an error. Returns true after a change;
 * else err has an error, if any.
 */
bool agent_tls_server_renew(struct agent_tls_server *s, struct sl_list *all,
			    const struct sl_agent_tls *tls, struct sl_err *err);
/* Frees the contents. Connections keep their context. */
void agent_tls_server_fini(struct agent_tls_server *s);

/*
 * Returns a connection before its handshake, for agent_tls_free(), or NULL. The connected socket
 * stays the caller's.
 */
struct agent_tls *agent_tls_new(struct agent_tls_server *s, int fd);
/* Frees t; sends close_notify if it is due and the socket has room. NULL is allowed. */
void agent_tls_free(struct agent_tls *t);
/* Returns 1 when done, 0 if it waits for the socket, -1 and `why` after an error. */
int agent_tls_handshake(struct agent_tls *t);
/*
 * Return bytes, or -errno; recv: 0 after close_notify. Errors of TLS set `why`; of flushes,
 * `error`.
 */
ssize_t agent_tls_recv(struct agent_tls *t, void *to, size_t len);
ssize_t agent_tls_send(struct agent_tls *t, const struct iovec *iov, unsigned cnt);
/* Returns true if a further recv() may return bytes without an event of the socket. */
bool agent_tls_has_more(const struct agent_tls *t);
/* Returns the same after -EAGAIN of recv(). */
bool agent_tls_is_cut(const struct agent_tls *t);
/*
 * Sends close_notify, at the latest when a message of the handshake layer is whole; input goes on
 * (RFC 8446 6.1). Returns false on failure.
 */
bool agent_tls_shut(struct agent_tls *t);
/* Sends out[]. Returns true if nothing waits for room; `error` is set on failure. */
bool agent_tls_flush(struct agent_tls *t);

#endif
