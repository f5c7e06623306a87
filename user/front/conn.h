/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte stream between a transport and a client protocol. A filter (TLS, PROXY) uses the stream
 * below and offers one to the layer above.
 *
 *             input eof writable closed
 *   transport ------------------------> filter ------------------------> client and its front
 *             <------------------------ (TLS, PROXY ...) <--------------
 *             write room close reset resume
 *
 * Rules between any two layers:
 * - `input` returns the bytes consumed. The layer below offers the rest again, with later bytes,
 *   after `resume`, possibly from within it. Other upcalls never happen within a downcall.
 * - `write` may take fewer bytes than offered. `writable` follows then, and after `want_room`.
 * - `close` still sends the written bytes. No input follows, but `closed` does.
 * - `reset` ends the stream at once: no upcall follows, and `self` is freed.
 * - The layer below is already freed when `closed` is called. A filter calls the `closed` above,
 *   then frees itself.
 *
 * One worker owns all objects.
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

/* RFC 7301 */
enum sl_tls_alpn { SL_TLS_ALPN_NONE, SL_TLS_ALPN_HTTP1, SL_TLS_ALPN_H2 };

/* TLS state of a connection, which owns the texts. */
struct sl_conn_tls {
	const char *cipher;          /* NULL: no TLS, or handshake not complete */
	struct sl_span sni;          /* lower case; empty: not sent */
	struct sl_span subject, san; /* of the client's certificate; empty: not sent */
	/* server certificate, for sl_tls_cert_covers() */
	const struct sl_tls_cert *cert;
	bool resumed;
	uint8_t alpn;
};

/* Addresses and TLS state. The PROXY filter replaces the addresses that the transport reports. */
struct sl_conn_info {
	struct sl_addr local, peer;
	uint16_t listener; /* set at accept, not by `info` */
	struct sl_conn_tls tls;
};

/* Downcalls, from the layer above. */
struct sl_conn_ops {
	size_t (*write)(void *self, const void *bytes, size_t len);
	/* Writes up to SL_FRONT_HEAD_OUT bytes beyond the room, all or nothing. */
	bool (*write_head)(void *self, const void *bytes, size_t len);
	size_t (*room)(const void *self); /* bytes that `write` would take now */
	void (*want_room)(void *self);
	void (*resume)(void *self);
	void (*close)(void *self);
	void (*reset)(void *self);
	void (*info)(const void *self, struct sl_conn_info *out);
	/*
	 * Returns a buffer of at least `min` bytes in the output, and its size in *room; NULL: none
	 * now (`writable` follows). `commit` must follow before any other call. `beyond`: may
	 * exceed the room as in write_head; needs a true `fits_head`. Offered by the transport, and
	 * by filters that pass bytes unchanged.
	 */
	uint8_t *(*lay)(void *self, size_t min, bool beyond, size_t *room);
	void (*commit)(void *self, size_t len);
	bool (*fits_head)(const void *self, size_t len);
	/* The following are offered by transports only. */
	/* Lets the peer send little, or as much as usual. Returns true if this is a change. */
	bool (*narrow)(void *self, bool narrow);
	/* Returns the frames queued in both directions, not consumed, or out of order. */
	uint32_t (*held_frames)(const void *self);
	/* Returns the frames in the send queue. */
	uint32_t (*unread_frames)(const void *self);
	/* Returns for how long the peer has read nothing; 0: nothing is pending. */
	uint64_t (*unread_ns)(const void *self);
	/* Returns the bytes that the peer has read, modulo 2^32. */
	uint32_t (*read_bytes)(const void *self);
	/* Returns the smoothed round-trip time; 0: unknown. */
	uint32_t (*rtt_us)(const void *self);
};

struct sl_conn {
	const struct sl_conn_ops *ops;
	void *self;
};

/* Upcalls, from the layer below. */
struct sl_conn_user {
	/* The peer's address is known. At most once; handshakes may still run. */
	void (*named)(void *user);
	/* All handshakes are complete. Not called without filters. */
	void (*opened)(void *user);
	size_t (*input)(void *user, struct sl_chunk *chunk);
	void (*eof)(void *user);
	void (*writable)(void *user);
	void (*closed)(void *user);
};

/* First member of each filter's state. */
struct sl_filter {
	/* upcalls from the layer below; their argument is the filter */
	const struct sl_conn_user *below_tells;
	/* downcalls from the layer above; their argument is the filter */
	const struct sl_conn_ops *offers;
	struct sl_conn below;
	struct sl_filter *under; /* offers `below`; NULL: the transport */
	const struct sl_conn_user *up;
	void *user; /* argument of `up` */
	bool talks; /* has a handshake, whose end `opened` reports */
};

/*
 * Creates the filters of an accepted connection. The caller sets `up` and `user` of *top, the
 * topmost filter; NULL: none. Returns false to refuse the connection. `open` may be NULL.
 */
struct sl_filter_maker {
	bool (*open)(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		     struct sl_filter **top);
	/*
	 * Returns true if a filter will call `named`; the peer address is a proxy's until then.
	 * NULL: never.
	 */
	bool (*expects_proxy_header)(void *arg, const struct sl_conn_info *info);
	/* applies results of other threads; returns their number; NULL: none */
	unsigned (*poll)(void *arg);
	/* deadline of the next poll(); NULL: never */
	uint64_t (*next_ns)(void *arg);
	void (*listeners)(void *arg, const struct sl_config *cfg);
	/* writes bytes held back, before output is built; NULL: none */
	void (*flush)(void *arg);
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
