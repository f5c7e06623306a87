/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between a link and the wire: shm (memfd rings), rc (RC queue pairs), ud (datagrams of a
 * shared queue pair), tcp (TLS over kernel sockets).
 *
 * Messages of up to slot_len bytes travel in slots. Longer bodies, up to bulk_max bytes, travel in
 * the peer's bulk ring, announced in a slot; tcp sends them in line. The transport enforces both
 * windows (struct sl_credits), fills in `consumed`, and handles CREDIT.
 *
 * Received bytes are lent until release(), in order. Nothing behind a lent message returns to the
 * peer: release soon.
 */
#ifndef SL_RPC_TRANSPORT_H
#define SL_RPC_TRANSPORT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "rpc/credits.h"
#include "rpc/rpc.h"
#include "wire/rpc_wire.h"

struct sl_transport;
struct sl_poll_group;

/* The header is a checked private copy. A hostile peer may change the body: copy what is parsed. */
struct sl_message {
	struct sl_rpc_header header;
	const uint8_t *body;
	uint32_t token;
};

struct sl_transport_ops {
	const char *name;
	/*
	 * Posts a message of header->fragment_len bytes. Returns 0, -EAGAIN (window full),
	 * -ENOTCONN, or the error of poll(). cookie: requests `sent`, unless 0.
	 */
	int (*post)(struct sl_transport *t, const struct sl_rpc_header *header,
		    const struct sl_span *spans, unsigned span_cnt, uint64_t cookie);
	/* Sends due CREDIT, rings the doorbell. */
	void (*flush)(struct sl_transport *t);
	/*
	 * Returns up to max messages, without CREDIT. -EPROTO: the peer broke the protocol.
	 * -ENOBUFS: it had no slot for what its window allowed. Any -errno: the channel is broken.
	 */
	int (*poll)(struct sl_transport *t, struct sl_message *msgs, unsigned max);
	void (*release)(struct sl_transport *t, const struct sl_message *m);
	/* Returns cookies of posts whose spans may be reused; none with `copies`. */
	unsigned (*sent)(struct sl_transport *t, uint64_t *cookies, unsigned max);
	/* Returns the longest data body now; 0: no slot. */
	uint32_t (*window)(const struct sl_transport *t);
	/* Updates posted_bytes. */
	void (*progress)(struct sl_transport *t);
	/*
	 * Event mode: the fd becomes readable when a message arrives, with want_room also when
	 * posted bytes complete. False: that has happened.
	 */
	bool (*arm)(struct sl_transport *t, bool want_room);
	void (*disarm)(struct sl_transport *t);
	/* Asks the kernel whether the peer is alive. */
	int (*check)(struct sl_transport *t);
	/* Stops reading lent bytes. NULL where `copies` always holds. */
	void (*halt)(struct sl_transport *t);
	/* Returns true if the peer's host has all posted bytes. NULL: always. */
	bool (*delivered)(const struct sl_transport *t);
	/* Does not block, see sl_rpc_wait_closed(). */
	void (*close)(struct sl_transport *t);
	/* Joins the poll group of `owner`. NULL: own fd. */
	int (*attach)(struct sl_transport *t, const void *owner);
};

struct sl_transport {
	const struct sl_transport_ops *ops;
	int fd;
	bool copies;
	uint32_t slot_len; /* header + body */
	uint32_t bulk_max; /* at most a quarter of the ring */
	uint32_t slice_min;
	uint32_t spans_max;   /* read in place; more are copied; 0: no limit */
	uint64_t peer_epoch;  /* from its HELLO */
	uint16_t peer_worker; /* acceptor: worker of the gateway */
	uint64_t link;        /* chosen by the dialer */
	bool resumes;         /* for sl_link_migrate() */
	uint32_t number;      /* our number of a virtual connection; 0: none */
	/* the peer has owed an answer since; 0: no */
	uint64_t silent_ns;
	_Atomic bool port_down; /* any thread */
	bool peer_busy;         /* set by the owner: the peer may be computing */
	uint64_t rate_bps;
	uintptr_t port;        /* same value: same wire; 0: not shared */
	uint32_t posted_bytes; /* not yet completed */
	uint64_t doorbells;
	uint64_t retransmitted, duplicates, bad_mac;
	struct sl_credits credits;
	struct sl_poll_group *poll_group; /* set by attach(); NULL: none */
	void *watcher;                    /* set by sl_poll_groups_watch() */
	struct sl_list ready_node;        /* poll group's `ready` */
	char info[128];
};

/* Returns the credits that a message uses. */
static inline enum sl_credit_kind sl_message_kind(const struct sl_rpc_header *h)
{
	switch (h->version_type & 15) {
	case SL_RPC_REQUEST:
	case SL_RPC_RESPONSE: return SL_CREDIT_DATA;
	case SL_RPC_CREDIT: return SL_CREDIT_CREDIT;
	default: return SL_CREDIT_CONTROL;
	}
}

/* Returns the longest body that may be posted now, at least `small` (fits a slot); 0: no credit. */
static inline uint32_t sl_transport_window(const struct sl_transport *t, uint32_t small)
{
	uint32_t bulk;

	if (!sl_credits_room(&t->credits, SL_CREDIT_DATA))
		return 0;
	bulk = sl_credits_bulk_room(&t->credits);
	if (bulk > t->bulk_max)
		bulk = t->bulk_max;
	return bulk > small ? bulk : small;
}

/* Checks version, type and length. Returns 0 or -EPROTO. */
static inline int sl_message_check(const struct sl_rpc_header *h, uint32_t bulk_max)
{
	unsigned type = h->version_type & 15;

	if (h->version_type >> 4 != SL_RPC_VERSION || type < SL_RPC_REQUEST || type > SL_RPC_READY)
		return -EPROTO;
	if (h->fragment_len > bulk_max || (type == SL_RPC_CREDIT && h->fragment_len))
		return -EPROTO;
	return 0;
}

/* Copies the spans' first `room` bytes. */
static inline void sl_message_gather(uint8_t *to, size_t room, const struct sl_span *spans,
				     unsigned span_cnt)
{
	for (unsigned i = 0; i < span_cnt; i++) {
		size_t len = spans[i].len < room ? spans[i].len : room;

		if (len) /* an empty span may have no address */
			memcpy(to, spans[i].ptr, len);
		to += len;
		room -= len;
	}
}

/* `fd` is readable when accept() has something to do. */
struct sl_rpc_listener;
struct sl_rpc_listener_ops {
	/* Returns the next established transport, or NULL. Never blocks. */
	struct sl_transport *(*accept)(struct sl_rpc_listener *l, uint64_t now_ns);
	/* accept() without system calls; NULL: impossible. */
	struct sl_transport *(*poll_nonblock)(struct sl_rpc_listener *l, uint64_t now_ns);
	/* Returns when to call accept() without an event. */
	uint64_t (*next_ns)(const struct sl_rpc_listener *l);
	void (*close)(struct sl_rpc_listener *l);
};
struct sl_rpc_listener {
	const struct sl_rpc_listener_ops *ops;
	int fd;
	uint64_t refused;
	/* Links that the owner still takes, set before each accept(). */
	_Atomic uint32_t accept_limit;
	_Atomic uint32_t unaccepted; /* granted, not handed over yet */
};

#define SL_RPC_FULL_TEXT "refused: the backend has as many connections as it takes"

/*
 * Returns true if accept_limit is reached, so that a peer must be refused. A migrating link needs
 * no room.
 */
static inline bool sl_rpc_listener_full(const struct sl_rpc_listener *l, uint32_t hello_flags)
{
	return !(hello_flags & SL_HELLO_RESUME) && l->unaccepted >= l->accept_limit;
}

/* Returns a zeroed listener of `size` bytes, without a limit; the caller frees it. */
static inline void *sl_rpc_listener_new(size_t size, const struct sl_rpc_listener_ops *ops,
					struct sl_err *err)
{
	struct sl_rpc_listener *l = calloc(1, size);

	if (!l) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	l->ops = ops;
	l->fd = -1;
	l->accept_limit = UINT32_MAX;
	return l;
}

/* Returns the smaller number. */
static inline uint32_t sl_rpc_at_most(uint32_t asked, uint32_t most)
{
	return asked < most ? asked : most;
}

/* Returns true for an errno of a shortage: accept() is retried. */
static inline bool sl_rpc_accept_later(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

struct sl_rpc_listen_options {
	const char *address; /* behind "scheme://" */
	const char *key_file;
	uint32_t bulk_ring_len, slots;   /* upper bounds */
	const struct sl_rpc_memory *mem; /* NULL: none */
};

/* dial and listen return NULL and err on failure. */
struct sl_transport_scheme {
	const char *scheme;
	uint32_t bulk_ring_len; /* default; 0: no ring */
	struct sl_transport *(*dial)(const struct sl_rpc_dial_options *opt, const char *address,
				     struct sl_err *err);
	struct sl_rpc_listener *(*listen)(const struct sl_rpc_listen_options *opt,
					  struct sl_err *err);
	void (*wait_closed)(void); /* may be NULL */
	/* NULL: connections have no number */
	enum sl_rpc_probe_result (*probe_peer)(const struct sl_rpc_dial_options *opt,
					       const char *address, uint32_t number);
	int (*route_info)(const char *address, const struct sl_rpc_rdma *rdma, char *text,
			  size_t len);         /* NULL: the peer is on this host */
	bool (*has_name)(const char *address); /* NULL: never */
	void (*preload)(void);                 /* may be NULL */
};
extern const struct sl_transport_scheme sl_shm_scheme, sl_rc_scheme, sl_ud_scheme, sl_sock_scheme;

/* Listens, until ops->close(). Ignores opt->address. NULL: a line is in err. */
struct sl_rpc_listener *sl_rpc_listen(const char *endpoint, const struct sl_rpc_listen_options *opt,
				      struct sl_err *err);

/* Waits until closed transports use no memory of their owners, about 50 ms. */
void sl_rpc_wait_closed(void);

/* Returns the random number of the process. A forked child draws its own. */
uint64_t sl_rpc_boot_epoch(void);

#endif
