/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport: messages in a TLS stream (stream.h), for hosts without RDMA.
 *
 *   post -> `plain`, a record's worth -> encrypted -> one send() per burst
 *   one recv() per burst -> decrypted into `rx` -> messages, lent in place
 *
 * The channel's own thread makes the system calls: per burst one epoll_wait() for all channels
 * (poll_group.c), one recv() and one send() per active channel.
 *
 * Bytes in the kernel cannot be overtaken: it holds at most SK_NOTSENT unsent ones; posted_bytes
 * counts the rest. There is no bulk ring: bodies lie in line.
 */
#ifndef SL_RPC_TCPSOCK_SOCK_H
#define SL_RPC_TCPSOCK_SOCK_H

#include <sys/socket.h>
#include "rpc/tcpsock/stream.h"
#include "rpc/transport.h"

enum {
	SK_BULK_MAX = 64 << 10,
	SK_SLICE_MIN = 32 << 10,
	SK_NOTSENT = 64 << 10,
	SK_OUT = 128 << 10,
	SK_CONTROL = 8 << 10, /* part of SK_OUT for control messages */
	SK_IN = 64 << 10,
	SK_RX = 192 << 10,
};

/* Start value for dql.h. */
#define SK_RATE_BPS (UINT64_C(10) * 1000 * 1000 * 1000)

struct sl_sock {
	struct sl_transport base;
	struct sk_stream s;
	uint8_t *plain, *rx;
	uint32_t plain_len;
	uint32_t rx_head, rx_tail;
	uint32_t rx_next;
	uint32_t lent;
	bool dry; /* the last read found nothing */
	int error;
	struct sk_poll_group *spare; /* until the socket joins a group */
};

/*
 * Makes a transport of an authenticated stream. Returns NULL and closes the stream if out of
 * memory.
 */
struct sl_sock *sk_sock_new(struct sk_stream *s, uint32_t slots);

/* poll_group.c */

/* Returns a group with an empty epoll; NULL: out of memory or descriptors. */
struct sk_poll_group *sk_poll_group_new(void);
/* The group has no sockets. NULL does nothing. */
void sk_poll_group_free(struct sk_poll_group *h);
/* The transport's attach(). Returns 0 or -errno. */
int sk_poll_group_join(struct sl_transport *t, const void *owner);
/* Leaves the group, if any, and frees `spare`. */
void sk_poll_group_leave(struct sl_sock *k);

/* Disables Nagle's algorithm, and limits unsent bytes to SK_NOTSENT. */
void sk_sock_options(int sock);

/* address.c */

enum { SK_NAME_LEN = 64 };
/* Formats an address: "10.0.0.2:7471", "[fd00::2]:7471". */
void sk_name(const struct sockaddr_storage *sa, char name[SK_NAME_LEN]);

bool sk_has_name(const char *text);
/* Resolves "host:port" or "[IPv6]:port". Returns a list for freeaddrinfo(), or NULL and *why. */
struct addrinfo *sk_resolve(const char *text, bool passive, const char **why);

/* hello.c: bytes before the first message */

struct sk_hello {
	struct sl_rpc_hello words;
	uint32_t got;
};
void sk_hello_write(struct sk_stream *s, const struct sl_rpc_hello *h);
/* Returns 1 (complete), 0 (not yet), -EBADMSG (not a hello), -ENOTCONN or -EPROTO. */
int sk_hello_read(struct sk_hello *h, struct sk_stream *s);
/* Returns true for a power of two within the limits of the protocol. */
bool sk_slots_ok(uint32_t slots);
/*
 * Checks for a ClientHello in one record of our size. Returns 1, 0 (more bytes are needed) or
 * -EPROTO.
 */
int sk_hello_begins(const uint8_t *bytes, size_t len);

extern const struct sl_transport_ops sk_ops;
/* The listen() of sl_sock_scheme. */
struct sl_rpc_listener *sk_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

#endif
