/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport: messages in a TLS stream (stream.h).
 *
 * The channel's thread makes the system calls; one epoll_wait() serves all channels (poll_group.c).
 *
 * Bytes in the kernel cannot be overtaken: it holds at most SK_NOTSENT unsent ones; posted_bytes
 * counts the rest.
 */
#ifndef SL_RPC_TCPSOCK_SOCK_H
#define SL_RPC_TCPSOCK_SOCK_H

#include <sys/socket.h>
#include "rpc/tcpsock/stream.h"
#include "rpc/msg_stream.h"
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
	struct sl_msg_stream msgs;
	bool dry; /* the last read found nothing */
	int error;
	struct sk_poll_group *spare; /* until the socket joins a group */
};

/*
 * Makes a transport from an authenticated stream; *s is invalid then. NULL: no memory, the stream
 * is closed.
 */
struct sl_sock *sk_sock_new(struct sk_stream *s, uint32_t slots);

/* Returns an empty group. NULL: out of memory or descriptors. */
struct sk_poll_group *sk_poll_group_new(void);
/* Frees a group without sockets, or NULL. */
void sk_poll_group_free(struct sk_poll_group *h);
/* Joins the owner's group (`attach` of rpc/transport.h). Returns 0 or -errno. */
int sk_poll_group_join(struct sl_transport *t, const void *owner);
/* Leaves the group, if any, which ends with its last socket. Frees `spare`. */
void sk_poll_group_leave(struct sl_sock *k);

/* Sets TCP_NODELAY and a low TCP_NOTSENT_LOWAT. Ignores errors. */
void sk_sock_options(int sock);

enum { SK_NAME_LEN = 64 };
/* Formats "10.0.0.2:7471" or "[fd00::2]:7471". */
void sk_name(const struct sockaddr_storage *sa, char name[SK_NAME_LEN]);

/* Returns true for a host name, false for an address. */
bool sk_has_name(const char *text);
/* Resolves "host:port" or "[IPv6]:port"; blocks. Returns freeaddrinfo()'s list; NULL: *why. */
struct addrinfo *sk_resolve(const char *text, bool passive, const char **why);

/* Bytes before the first message. */

struct sk_hello {
	struct sl_rpc_hello words;
	uint32_t got;
};
/* Sends our HELLO. Errors show in the next read. */
void sk_hello_write(struct sk_stream *s, const struct sl_rpc_hello *h);
/* Returns 1 (complete), 0 (not yet), -EBADMSG (not a hello), -ENOTCONN or -EPROTO. */
int sk_hello_read(struct sk_hello *h, struct sk_stream *s);
/* Returns true for a power of two within the limits. */
bool sk_slots_ok(uint32_t slots);
/* Checks for a ClientHello in one record of our size. Returns 1, 0 (incomplete) or -EPROTO. */
int sk_hello_begins(const uint8_t *bytes, size_t len);

extern const struct sl_transport_ops sk_ops;
/* Listens at all addresses of opt->address. NULL: see err. */
struct sl_rpc_listener *sk_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

#endif
