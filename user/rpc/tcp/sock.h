/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport: messages one behind the other in a TLS stream (stream.h), for hosts
 * without RDMA.
 *
 *   post -> `plain`, a record's worth -> sealed -> one send() per burst
 *   one recv() per burst -> opened into `rx` -> messages, lent where they lie
 *
 * Who does the calls of the kernel: the thread that owns the channel, as it rings verbs' doorbells
 * and wakes AF_XDP. A thread of its own for them would cost each round trip two wake-ups of it at
 * each end, more than the calls that it saves. So a worker makes, per burst and not per request,
 * one epoll_wait() for all its channels (hub.c), one recv() for each that has something, one send()
 * for each that it has posted to; however many have nothing.
 *
 * What is handed to the kernel cannot be overtaken: it takes no more than SK_NOTSENT that the
 * network has not taken, and posted_bytes counts what waits here for that.
 *
 * The windows of slots are kept as in the other transports. There is no bulk ring: a body lies in
 * line, and what the peer does not read it keeps away by TCP's own window.
 */
#ifndef SL_RPC_TCP_SOCK_H
#define SL_RPC_TCP_SOCK_H

#include <sys/socket.h>
#include "rpc/tcp/stream.h"
#include "rpc/transport.h"

enum {
	SK_BULK_MAX = 64 << 10, /* of one body */
	SK_SLICE_MIN = 32 << 10,
	SK_NOTSENT = 64 << 10,
	SK_OUT = 128 << 10,   /* records that wait for the kernel */
	SK_CONTROL = 8 << 10, /* of that, what data leaves for control messages */
	SK_IN = 64 << 10,     /* of one recv() */
	SK_RX = 192 << 10,    /* messages; one that is not whole moves to the front */
};

/* Nobody tells: for the first guess at what is on its way, from which limit.h learns. */
#define SK_RATE_BPS (UINT64_C(10) * 1000 * 1000 * 1000)

struct sl_sock {
	struct sl_transport base;
	struct sk_stream s;
	uint8_t *plain, *rx;
	uint32_t plain_len;
	uint32_t rx_head, rx_tail; /* bytes that are no message yet */
	uint32_t rx_next;          /* number of the next message */
	uint32_t lent;
	bool dry; /* nothing was left to be read */
	int error;
	struct sk_hub *spare; /* until it joins one */
};

/* A stream whose peer has proven the key becomes a transport, or is closed: NULL. */
struct sl_sock *sk_sock_new(struct sk_stream *s, uint32_t slots);

/* --- hub.c: an owner's sockets --- */

/* With an epoll that nothing is in; NULL: there is no memory, or no descriptor. */
struct sk_hub *sk_hub_new(void);
void sk_hub_free(struct sk_hub *h);
/* The transport's attach(): 0 or -errno. Its end, joined or not. */
int sk_hub_join(struct sl_transport *t, const void *owner);
void sk_hub_leave(struct sl_sock *k);

/* --- */

/* One that does not block or delay, and keeps what is not sent short. */
void sk_sock_options(int sock);

/* --- address.c --- */

enum { SK_NAME_LEN = 64 };
/* "10.0.0.2:7471", "[fd00::2]:7471" */
void sk_name(const struct sockaddr_storage *sa, char name[SK_NAME_LEN]);

/*
 * "host:port" or "[IPv6]:port" to addresses. The host may be a name: then this takes as long as the
 * resolver does. NULL and why; freeaddrinfo() is the caller's.
 */
bool sk_has_name(const char *text);
struct addrinfo *sk_resolve(const char *text, bool passive, const char **why);

/* --- hello.c: what both ends say before there are messages --- */

struct sk_hello {
	struct sl_rpc_hello words;
	uint32_t got;
};
void sk_hello_write(struct sk_stream *s, const struct sl_rpc_hello *h);
/* 1: it is whole; 0: not yet; -EBADMSG: it is none; -ENOTCONN, -EPROTO. */
int sk_hello_read(struct sk_hello *h, struct sk_stream *s);
bool sk_slots_ok(uint32_t slots);
/* Does a peer begin as TLS does, in one record of our size? 1; 0: not yet to be told; -EPROTO. */
int sk_hello_begins(const uint8_t *bytes, size_t len);

extern const struct sl_transport_ops sk_ops;
struct sl_rpc_listener *sk_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

#endif
