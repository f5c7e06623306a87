/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte stream: what the protocol of a client reads from and writes to, without knowing what
 * carries it. A filter stands between two layers: it uses the stream below and offers one above.
 *
 *             input eof writable closed
 *   transport ------------------------> filter ------------------------> client and its front
 *             <------------------------ (TLS, PROXY ...) <--------------
 *             write room close reset resume
 *
 * Rules, the same at each border:
 * - `input` returns how many bytes it used; the rest is offered again, with what follows, after
 *   `resume`, perhaps from within it. All other calls upward come from below, never from within a
 *   call downward.
 * - `write` may take less than it is given; then, and after `want_room`, `writable` follows.
 * - After `close` bytes that were written still leave; no input is wanted. `closed` follows.
 * - `reset` ends the stream at once. Neither `closed` nor anything else follows; `self` is gone.
 * - In `closed` the layer below is gone already. A filter tells the layer above, then frees itself.
 *
 * Everything belongs to one worker; nothing here is called per packet more than once.
 */
#ifndef SL_FRONT_CONN_H
#define SL_FRONT_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/addr.h"
#include "xio/frame.h"

struct sl_tls_cert;
struct sl_config;

/* The protocol that the client and the listener agreed on, RFC 7301. */
enum sl_tls_alpn { SL_TLS_ALPN_NONE, SL_TLS_ALPN_HTTP1, SL_TLS_ALPN_H2 };

/* What TLS knows of a connection; texts are its own and live as long as it. */
struct sl_conn_tls {
	const char *cipher;             /* NULL: no TLS, or its handshake is not over */
	struct sl_span sni;             /* lower case; empty: the client named no host */
	struct sl_span subject, san;    /* of the client's certificate; empty: it has shown none */
	const struct sl_tls_cert *cert; /* ours: sl_tls_cert_covers() of tls/cert.h */
	bool resumed;
	uint8_t alpn; /* enum sl_tls_alpn */
};

/* Who is at the ends. A filter may know better than the transport: PROXY tells another peer. */
struct sl_conn_info {
	struct sl_addr local, peer;
	uint16_t
		listener; /* by which door it came in: told when it is accepted, and by no stream */
	struct sl_conn_tls tls;
};

/* What a stream does for the layer above it. */
struct sl_conn_ops {
	size_t (*write)(void *self, const void *bytes, size_t len);
	/* Up to SL_FRONT_HEAD_OUT bytes beyond the room, all or nothing: heads, whole chunks, frames. */
	bool (*write_head)(void *self, const void *bytes, size_t len);
	size_t (*room)(const void *self); /* bytes that `write` would take now */
	void (*want_room)(void *self);
	void (*resume)(void *self);
	void (*close)(void *self);
	void (*reset)(void *self);
	void (*info)(const void *self, struct sl_conn_info *out);
	/*
	 * For a writer that makes its bytes where they leave: room for at least min, `commit` takes
	 * some of it before anything else is called. `beyond` as write_head, if `fits_head` said so.
	 * NULL: none now, `writable` follows. Offered by the transport, and by filters that change
	 * no byte.
	 */
	uint8_t *(*lay)(void *self, size_t min, bool beyond, size_t *room);
	void (*commit)(void *self, size_t len);
	bool (*fits_head)(const void *self, size_t len);
};

struct sl_conn {
	const struct sl_conn_ops *ops;
	void *self;
};

/* What a stream tells the layer above it. */
struct sl_conn_user {
	/* A filter below has learnt who the peer is, once; its talk, or another's, may go on. */
	void (*named)(void *user);
	/* A filter's own talk is over: input may follow. Not told of connections without filters. */
	void (*opened)(void *user);
	size_t (*input)(void *user, struct sl_chunk *chunk);
	void (*eof)(void *user); /* the peer closed its half, behind all input */
	void (*writable)(void *user);
	void (*closed)(void *user);
};

/* The head of each filter's state. */
struct sl_filter {
	const struct sl_conn_user *below_tells; /* called with the filter by what is below it */
	const struct sl_conn_ops *offers;       /* called with the filter by what is above it */
	struct sl_conn below;
	struct sl_filter *under; /* the filter that `below` is of; NULL: it is the transport's */
	const struct sl_conn_user *up;
	void *user; /* of `up` */
	bool talks; /* it has something to say first, whose end `opened` tells */
};

/*
 * Makes the filters of a connection that was accepted: *top is the topmost, whose `up` and `user` the
 * caller sets; it stays NULL where there are none. False: the connection is refused. No `open`:
 * connections have no filters.
 */
struct sl_filter_maker {
	bool (*open)(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		     struct sl_filter **top);
	/* Whether a filter will say by `named` who the peer is: the address that it has stands for
	   many. NULL: never. */
	bool (*tells_peer)(void *arg, const struct sl_conn_info *info);
	unsigned (*poll)(void *arg); /* what others have done for them; returns how much; or NULL */
	uint64_t (*next_ns)(void *arg); /* when poll() has to be called, whatever comes; or NULL */
	void (*listeners)(void *arg, const struct sl_config *cfg); /* of new connections */
	void (*flush)(void *arg); /* before output is made: what filters hold back; or NULL */
	void *arg;
};

static inline struct sl_conn sl_filter_conn(struct sl_filter *f)
{
	return (struct sl_conn){f->offers, f};
}

static inline struct sl_filter *sl_filter_bottom(struct sl_filter *f)
{
	while (f->under)
		f = f->under;
	return f;
}

#endif
