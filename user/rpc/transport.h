/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between link and wire: shm (memfd rings, a Unix socket as bell), verbs (RC queue pairs),
 * ud (datagrams of a queue pair that many share) and tcp (TLS over kernel sockets) implement it, the
 * gateway's session and the backend SDK use it through link.h, and tests/rpc runs one suite over all.
 *
 * A transport carries messages (header + body) of at most slot_len bytes in slots, longer ones, whose
 * body has at most bulk_max bytes, through the peer's bulk ring, for the announcement of which they
 * take a slot too, or, over tcp, in line. It counts and enforces both windows (peer slots, own send
 * queue), fills in `consumed`, and sends and takes CREDIT by itself. Received bytes are lent to the
 * caller until release(), in order; lend for moments only, since nothing behind a lent message is
 * given back to the peer.
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
#include "sluice/rpc_wire.h"

struct sl_transport;
struct sl_hub;

/*
 * A received message. The header is a private copy; its version, type and fragment_len are checked.
 * The body lies in memory that a hostile peer may be changing: copy what is to be parsed.
 */
struct sl_message {
	struct sl_rpc_header header;
	const uint8_t *body;
	uint32_t token; /* the transport's, for release */
};

struct sl_transport_ops {
	const char *name;
	/*
	 * Posts one message: header, then the concatenation of spans (header->fragment_len bytes).
	 * 0; -EAGAIN: window full; -ENOTCONN, or why the channel is broken, as of poll().
	 * `cookie` != 0 asks for `sent`.
	 */
	int (*post)(struct sl_transport *t, const struct sl_rpc_header *header,
		    const struct sl_span *spans, unsigned span_cnt, uint64_t cookie);
	/* Sends credit that is due, rings the doorbell for everything posted. */
	void (*flush)(struct sl_transport *t);
	/*
	 * Up to max messages, CREDIT not among them; negative errno when the channel is broken, of
	 * which -EPROTO is the peer's doing, and -ENOBUFS: it had no slot for what its window
	 * allows.
	 */
	int (*poll)(struct sl_transport *t, struct sl_message *msgs, unsigned max);
	/* The message's bytes are not used any more. */
	void (*release)(struct sl_transport *t, const struct sl_message *m);
	/* Cookies of posts whose spans may be reused; how many. Never any where `copies` is set. */
	unsigned (*sent)(struct sl_transport *t, uint64_t *cookies, unsigned max);
	/* Bytes of body that a data message could carry now; 0 if no slot is free. */
	uint32_t (*window)(const struct sl_transport *t);
	/* Brings posted_bytes up to date. */
	void (*progress)(struct sl_transport *t);
	/*
	 * Event mode: after arm() the fd becomes readable when a message arrives, with want_room
	 * also when posted bytes complete. False: something did already, poll again.
	 */
	bool (*arm)(struct sl_transport *t, bool want_room);
	void (*disarm)(struct sl_transport *t);
	/*
	 * Asks the kernel whether the peer is alive; called every millisecond or so, and when fd
	 * has an event. 0 or -errno.
	 */
	int (*check)(struct sl_transport *t);
	/* Bytes lent by posts are not read any more. NULL where `copies` always holds. */
	void (*halt)(struct sl_transport *t);
	/* All posted bytes have reached the peer's host; NULL: as soon as they are posted. */
	bool (*delivered)(const struct sl_transport *t);
	/* Does not block: what takes time happens elsewhere, see sl_rpc_settle(). */
	void (*close)(struct sl_transport *t);
	/*
	 * Of those that share a hub: joins that of its owner, who is told from others by a pointer.
	 * 0 or -errno. NULL: it has an fd of its own.
	 */
	int (*attach)(struct sl_transport *t, const void *owner);
};

struct sl_transport {
	const struct sl_transport_ops *ops;
	int fd;             /* to be watched for EPOLLIN (hub.h) */
	bool copies;        /* post() has copied the bytes when it returns */
	uint32_t slot_len;  /* bytes of header + body that fit a slot */
	uint32_t bulk_max;  /* largest body of one message; a quarter of the ring at the most */
	uint32_t slice_min; /* of a body that is cut: its own message is cheap beside it */
	uint32_t
		spans_max; /* that one message reads where they lie; of more, all are copied. 0: all */
	uint64_t peer_epoch;   /* boot epoch of the peer, from its HELLO */
	uint16_t peer_worker;  /* at the acceptor: the gateway's worker */
	uint64_t link;         /* that it is for, the dialer's number */
	bool goes_on;          /* by this: sl_link_migrate(), not a link of its own */
	uint32_t number;       /* of a virtual connection, this end's; 0: it is none */
	uint64_t silent_ns;    /* of one: since when the peer has owed a word; 0: it owes none */
	_Atomic bool held;     /* any thread's: its port is down, and nothing is posted */
	bool patient;          /* its owner's: the peer may be computing, and not there to answer */
	uint64_t rate_bps;     /* of the link, for the posted-byte cap */
	uintptr_t port;        /* whose wire others with the same one share; 0: nobody's */
	uint32_t posted_bytes; /* posted, not yet completed */
	uint64_t doorbells;
	/* Datagrams: sent once more, come once more, addressed to it without its seal. */
	uint64_t resent, doubled, unsealed;
	struct sl_credits credits;
	struct sl_hub *hub;     /* from attach() on; NULL: it has none */
	void *watcher;          /* the owner's, of hub.h */
	struct sl_list stirred; /* of its hub: something has come for it */
	char info[128];
};

/* What a message of this type may take of the peer's slots. */
static inline enum sl_credit_kind sl_message_kind(const struct sl_rpc_header *h)
{
	switch (h->version_type & 15) {
	case SL_RPC_REQUEST:
	case SL_RPC_RESPONSE: return SL_CREDIT_DATA;
	case SL_RPC_CREDIT: return SL_CREDIT_CREDIT;
	default: return SL_CREDIT_CONTROL;
	}
}

/* The longest body that may be posted now; one of `small` bytes goes into a slot. 0: none. */
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

/* What every transport asks of a header that has come: 0 or -EPROTO. */
static inline int sl_message_check(const struct sl_rpc_header *h, uint32_t bulk_max)
{
	unsigned type = h->version_type & 15;

	if (h->version_type >> 4 != SL_RPC_VERSION || type < SL_RPC_REQUEST || type > SL_RPC_READY)
		return -EPROTO;
	if (h->fragment_len > bulk_max || (type == SL_RPC_CREDIT && h->fragment_len))
		return -EPROTO;
	return 0;
}

/* Copies the body that post() was given: at most `room` bytes, whatever the spans say. */
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

/* Accepting side. `fd` (one, may be an epoll fd) is readable when accept() has something to do. */
struct sl_rpc_listener;
struct sl_rpc_listener_ops {
	/* Never blocks: the next established transport, or NULL. */
	struct sl_transport *(*accept)(struct sl_rpc_listener *l, uint64_t now_ns);
	/*
	 * The same as far as it takes no call of the kernel, for an owner that is busy and asks that
	 * seldom. NULL: everything takes one.
	 */
	struct sl_transport *(*glance)(struct sl_rpc_listener *l, uint64_t now_ns);
	/* When accept() wants to be called without an event (time-outs); UINT64_MAX never. */
	uint64_t (*next_ns)(const struct sl_rpc_listener *l);
	void (*close)(struct sl_rpc_listener *l);
};
struct sl_rpc_listener {
	const struct sl_rpc_listener_ops *ops;
	int fd;
	uint64_t refused; /* peers that failed the handshake, or for whom there was no room */
	/*
	 * So many links more its owner takes, who says so before each accept(); at first, any number.
	 * Who comes with one more is told that the backend is full, before anything is made for it.
	 */
	_Atomic uint32_t room;
	_Atomic uint32_t promised; /* of that, granted, and not handed over yet */
};

/* Its dialer's line. */
#define SL_RPC_FULL_TEXT "refused: the backend has as many connections as it takes"

/* A transport by which a link goes on takes no room: its link has some already. */
static inline bool sl_rpc_listener_full(const struct sl_rpc_listener *l, uint32_t hello_flags)
{
	return !(hello_flags & SL_HELLO_GOES_ON) && l->promised >= l->room;
}

/* Of a transport: `size` bytes, of which the first are these. NULL and one line in err: no memory. */
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
	l->room = UINT32_MAX;
	return l;
}

/* What of a size is granted. */
static inline uint32_t sl_rpc_at_most(uint32_t asked, uint32_t most)
{
	return asked < most ? asked : most;
}

/* Whether accept() may succeed later: who tries again at once finds no descriptor or memory either. */
static inline bool sl_rpc_accept_later(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

struct sl_rpc_listen_options {
	const char *address; /* behind "scheme://" */
	const char *key_file;
	uint32_t bulk_ring_len, slots;   /* upper bounds; a peer may ask for less */
	const struct sl_rpc_memory *mem; /* that posts may reference; NULL none */
};

/* One per transport; dial.c holds the list. Both functions give NULL and one line in err. */
struct sl_transport_scheme {
	const char *scheme;
	uint32_t bulk_ring_len; /* that a gateway asks for unless it was told; 0: there are none */
	struct sl_transport *(*dial)(const struct sl_rpc_dial_options *opt, const char *address,
				     struct sl_err *err);
	struct sl_rpc_listener *(*listen)(const struct sl_rpc_listen_options *opt,
					  struct sl_err *err);
	void (*settle)(void); /* NULL: nothing to wait for */
	/* Of a connection that has a number; NULL: none has. */
	enum sl_rpc_word (*ask)(const struct sl_rpc_dial_options *opt, const char *address,
				uint32_t number);
	int (*probe)(const char *address, const struct sl_rpc_rdma *rdma, char *text,
		     size_t len);              /* NULL: needs none */
	bool (*has_name)(const char *address); /* NULL: there are numbers only */
	void (*preload)(void);                 /* NULL: nothing is loaded late */
};
extern const struct sl_transport_scheme sl_shm_scheme, sl_verbs_scheme, sl_ud_scheme,
	sl_sock_scheme;

/*
 * endpoint: "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" or "tcp://host:port";
 * opt->address is ignored.
 */
struct sl_rpc_listener *sl_rpc_listen(const char *endpoint, const struct sl_rpc_listen_options *opt,
				      struct sl_err *err);

/* Waits until all that this process has closed is gone: 50 ms or so, for the end of a program. */
void sl_rpc_settle(void);

/* Of this process, drawn once. */
uint64_t sl_rpc_boot_epoch(void);

#endif
