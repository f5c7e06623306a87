/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte stream between a transport and a client protocol. A filter (TLS, PROXY) is between two
 * streams.
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
 * - `close` sends the written bytes. No input follows, but `closed` does.
 * - `reset` ends the stream at once: no upcall follows, and `self` is freed.
 * - When `closed` is called, the layer below is already freed. A filter calls the `closed` above,
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

struct sl_conn_tls {
	const char *cipher;          /* NULL: no TLS, or handshake not complete */
	struct sl_span sni;          /* lower case; empty: not sent */
	struct sl_span subject, san; /* client certificate's; empty: not sent */
	/* server certificate, for sl_tls_cert_covers() */
	const struct sl_tls_cert *cert;
	bool resumed;
	uint8_t alpn;
};

/* The PROXY filter replaces the transport's addresses. */
struct sl_conn_info {
	struct sl_addr local, peer;
	uint16_t listener; /* set at accept, not by `info` */
	struct sl_conn_tls tls;
};

/* Downcalls. */
struct sl_conn_ops {
	size_t (*write)(void *self, const void *bytes, size_t len);
	/* Writes up to SL_FRONT_HEAD_OUT bytes beyond the room, all or nothing. */
	bool (*write_head)(void *self, const void *bytes, size_t len);
	size_t (*room)(const void *self);
	void (*want_room)(void *self);
	void (*resume)(void *self);
	void (*close)(void *self);
	void (*reset)(void *self);
	void (*info)(const void *self, struct sl_conn_info *out);
	/*
	 * Returns a buffer of at least `min` bytes in the output, and its size in *room; NULL: none
	 * now (`writable` follows). `commit` must be the next call. `beyond`: may exceed the room
	 * as in write_head; needs a true `fits_head`. Not offered by filters that change bytes.
	 */
	uint8_t *(*lay)(void *self, size_t min, bool beyond, size_t *room);
	void (*commit)(void *self, size_t len);
	bool (*fits_head)(const void *self, size_t len);
	/* Transports only: */
	/* Lets the peer send little, or as much as usual. Returns true for a change. */
	bool (*narrow)(void *self, bool narrow);
	/* Counts both directions. */
	uint32_t (*held_frames)(const void *self);
	uint32_t (*unread_frames)(const void *self);
	/* Returns how long the peer has read nothing; 0: nothing pending. */
	uint64_t (*unread_ns)(const void *self);
	/* Returns the bytes read by the peer, modulo 2^32. */
	uint32_t (*read_bytes)(const void *self);
	/* 0: unknown. */
	uint32_t (*rtt_us)(const void *self);
};

struct sl_conn {
	const struct sl_conn_ops *ops;
	void *self;
};

/* Upcalls. */
struct sl_conn_user {
	/* Called at most once; handshakes may still run. */
	void (*named)(void *user);
	/* All handshakes are complete. Only called with filters. */
	void (*opened)(void *user);
	size_t (*input)(void *user, struct sl_chunk *chunk);
	void (*eof)(void *user);
	void (*writable)(void *user);
	void (*closed)(void *user);
};

/* A filter's first member. */
struct sl_filter {
	/* upcalls from below, with the filter as argument */
	const struct sl_conn_user *below_tells;
	/* downcalls from above, likewise */
	const struct sl_conn_ops *offers;
	struct sl_conn below;
	struct sl_filter *under; /* offers `below`; NULL: the transport */
	const struct sl_conn_user *up;
	void *user;
	bool talks; /* has a handshake, whose end `opened` reports */
};

/*
 * Creates the filters of a connection. The caller sets `up` and `user` of the topmost, *top; NULL:
 * none. Returns false to refuse it. May be NULL.
 */
struct sl_filter_maker {
	bool (*open)(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		     struct sl_filter **top);
	/* Returns true if the peer is a proxy until a filter calls `named`. NULL: never. */
	bool (*expects_proxy_header)(void *arg, const struct sl_conn_info *info);
	/* applies other threads' results; returns their number */
	unsigned (*poll)(void *arg);
	/* next poll(); NULL: never */
	uint64_t (*next_ns)(void *arg);
	void (*listeners)(void *arg, const struct sl_config *cfg);
	/* writes bytes held back, before output is built; may be NULL */
	void (*flush)(void *arg);
	void *arg;
};

/* Returns the stream that the filter offers. */
static inline struct sl_conn sl_filter_conn(struct sl_filter *f)
{
	return (struct sl_conn){f->offers, f};
}

/* Returns the lowest filter. */
static inline struct sl_filter *sl_filter_bottom(struct sl_filter *f)
{
	while (f->under)
		f = f->under;
	return f;
}

#endif
