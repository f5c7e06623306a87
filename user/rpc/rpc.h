/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of the RPC. A worker has one struct sl_rpc, with a channel per backend.
 * sluice/rpc_wire.h defines the messages.
 *
 *   core -> sl_rpc_send() -> session (ids, fragments) -> send queue (classes) -> credits -> transport
 *   core <- sl_rpc_ops    <- session <------------------------------------------------ transport
 *                                                                            (shm | verbs | tcp)
 *
 * sl_rpc_dial() connects on the control thread. The worker adopts the transport between two bursts.
 *
 * The caller owns the bytes given to sl_rpc_send(). They must not change until `sent`, which is
 * called once per batch, before batch_done. Item and span arrays are not needed after the call. The
 * bytes of a reply are valid during the upcall. `meta` is a private copy; the backend can still
 * change `body`: copy it before parsing.
 *
 * Upcalls come from sl_rpc_poll(), _flush, _adopt, _drain and _destroy only. They may call
 * sl_rpc_send() and sl_rpc_cancel().
 */
#ifndef SL_RPC_RPC_H
#define SL_RPC_RPC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "base/err.h"
#include "sluice/rpc_wire.h"

struct sl_rpc;
struct sl_rpc_channel;
struct sl_transport;

enum sl_rpc_state { SL_RPC_DOWN, SL_RPC_CONNECTING, SL_RPC_UP, SL_RPC_DRAINING };

/* Reason of a request that failed. */
enum sl_rpc_failure {
	SL_RPC_FAIL_DOWN,    /* before the request left: safe to send elsewhere */
	SL_RPC_FAIL_LOST,    /* after it left: safe to repeat only if idempotent */
	SL_RPC_FAIL_TIMEOUT, /* no reply within the budget plus grace */
	SL_RPC_FAIL_PROTOCOL,
};

/* A request of a batch: spans of metadata, then of payload. */
struct sl_rpc_item {
	void *cookie; /* passed to the upcalls */
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len; /* payload: the spans less meta_len */
	uint16_t meta_len;
	bool idempotent;
	bool compressed;    /* the payload is a compressed gRPC message */
	bool stream;        /* opens a stream: a batch of one, without payload */
	bool open;          /* stream: more parts follow */
	bool expects;       /* stream: the client waits for 100 (Continue) */
	uint8_t class;      /* enum sl_rpc_class; each class is a message of its own */
	uint64_t budget_us; /* 0: none */
	uint64_t id;        /* out: for sl_rpc_cancel() */
};

struct sl_rpc_reply {
	uint8_t status;      /* enum sl_rpc_status */
	bool first, last;    /* of a reply that arrives in parts */
	bool more;           /* another message of this reply follows */
	bool no_message;     /* gRPC: the body is not a message of the reply */
	bool compressed;     /* gRPC: the message is compressed */
	uint64_t total_len;  /* payload of this message; known with the first part */
	struct sl_span meta; /* with the first part */
	struct sl_span body;
	uint32_t service_us; /* computing time of this request */
	uint32_t together;   /* requests that the backend computed together; 0: unknown */
};

struct sl_rpc_batch_end {
	uint64_t batch, sent_ns;
	bool stream;
	uint32_t count;
	uint32_t answered;   /* requests with SL_RPC_OK */
	uint32_t together;   /* largest of the replies; 0: unknown */
	uint32_t service_us; /* largest of the replies; 0: below 1 us, or unknown */
};

/* Events of a batch's bytes, for debug builds. */
enum sl_rpc_watch {
	SL_RPC_LENT,     /* must not change from now on; within sl_rpc_send() */
	SL_RPC_READ,     /* a post reads them */
	SL_RPC_RETURNED, /* not needed any more; `sent` follows */
};

/* app_data: as given to sl_rpc_channel_new(). */
struct sl_rpc_ops {
	/* A reply, or a part of one. The cookie is not used after `last` without `more`. */
	void (*reply)(void *app, void *cookie, const struct sl_rpc_reply *r);
	/* The request ended before its reply was complete. */
	void (*failed)(void *app, void *cookie, enum sl_rpc_failure why);
	/*
	 * All requests were answered, failed, cancelled or lost. A request counts as answered when
	 * its last message begins to arrive, or when its reply waits for the caller
	 * (sl_rpc_reply_kept()).
	 */
	void (*batch_done)(void *app, void *app_data, const struct sl_rpc_batch_end *end);
	/* The transport does not read the bytes any more. */
	void (*sent)(void *app, void *app_data, uint64_t batch);
	/* The state has changed, or sl_rpc_channel_port_down(). */
	void (*state)(void *app, void *app_data, enum sl_rpc_state state);
	/* A migration has ended. gone_on: on the new transport; else on the old one. */
	void (*moved)(void *app, void *app_data, bool gone_on);
	/* The backend has given credit (sl_rpc_part_credit()). */
	void (*credit)(void *app, void *cookie);
	/* The backend wants the rest of a stream with `expects`. Once, before any reply. */
	void (*go_on)(void *app, void *cookie);
	/* An interim reply: at most SL_RPC_MAX_INTERIM, before any reply. */
	void (*interim)(void *app, void *cookie, struct sl_span meta);
	/* Debug builds; may be NULL. Lets the owner check that the bytes do not change. */
	void (*watch)(void *app, enum sl_rpc_watch what, const struct sl_span *spans, uint32_t cnt);
};

struct sl_rpc_config {
	uint32_t max_outstanding; /* per worker */
	uint32_t bulk_ring_len;   /* bytes per channel and direction; 0: the transport's default */
	uint32_t slots;           /* small-message slots per channel and direction */
	uint64_t ping_interval_ns;
	/*
	 * Minimum silence before a channel with outstanding requests ends: a backend may compute in
	 * the thread that answers PINGs.
	 */
	uint64_t dead_after_ns;
	uint64_t grace_ns; /* beyond the budget */
	bool one_class;    /* FIFO without priorities, for comparison */
};
void sl_rpc_config_default(struct sl_rpc_config *cfg);

/* Memory that large sends may reference (the UMEM); registered with each RDMA device in use. */
struct sl_rpc_memory {
	void *addr;
	size_t len;
};

/* Returns a session without channels, or NULL. */
struct sl_rpc *sl_rpc_create(const struct sl_rpc_config *cfg, const struct sl_rpc_memory *mem,
			     const struct sl_rpc_ops *ops, void *app);
/* Ends all channels, with upcalls, and frees the session. NULL does nothing. */
void sl_rpc_destroy(struct sl_rpc *r);

/* Adds a channel for one backend, DOWN until sl_rpc_adopt(). Returns NULL if out of memory. */
struct sl_rpc_channel *sl_rpc_channel_add(struct sl_rpc *r, const char *name, void *app_data);
/* The same in two steps. _new: any thread; _free: for a channel that never joined. */
struct sl_rpc_channel *sl_rpc_channel_new(const char *name, void *app_data);
void sl_rpc_channel_free(struct sl_rpc_channel *ch);
void sl_rpc_channel_join(struct sl_rpc *r, struct sl_rpc_channel *ch);
/* Sends GOAWAY. The channel goes DOWN when nothing is outstanding. */
void sl_rpc_channel_drain(struct sl_rpc_channel *ch);
/* Frees a channel that is DOWN. Not from within an upcall. */
void sl_rpc_channel_remove(struct sl_rpc_channel *ch);
enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch);
/* Returns true while the port is down: sends wait. */
bool sl_rpc_channel_port_down(const struct sl_rpc_channel *ch);

/* Path to an rdma endpoint; all zero: as routes and devices give it. */
struct sl_rpc_rdma {
	const char *source; /* local address; NULL: the route's */
	const char *device; /* NULL: the device that has the source address */
	uint8_t port;       /* port of the device; 0: any */
	uint8_t tos;        /* traffic class in both directions */
};
struct sl_rpc_dial_options {
	const char *endpoint;
	const char *key_file;
	const struct sl_rpc_memory *mem;
	uint32_t bulk_ring_len, slots; /* as in sl_rpc_config */
	unsigned timeout_ms;
	uint16_t worker; /* reported to the backend for its statistics */
	struct sl_rpc_rdma rdma;
	uint32_t owner; /* shm: user that may listen, besides root and our own */
	/* Number of the link. goes_on: sl_rpc_adopt() migrates the link to this transport. */
	uint64_t link;
	bool resumes;
};
/* Returns a random number that others cannot guess; 0: no randomness. */
uint64_t sl_rpc_link_number(void);
/*
 * Connects to "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" or "tcp://host:port", for at
 * most timeout_ms. Returns a transport for sl_rpc_adopt() or sl_rpc_dial_drop(), or NULL and a line
 * in err. Control thread.
 */
struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, struct sl_err *err);
/* Closes a transport that was not adopted; NULL does nothing. */
void sl_rpc_dial_drop(struct sl_transport *t);
/*
 * Returns a line for people: "shm /run/x.sock ...", "rdma rxe0/1 gid[1] ... mtu 1024 RC ...", "tcp
 * ...".
 */
const char *sl_rpc_transport_info(const struct sl_transport *t);
/* Returns our number of a virtual connection; 0: not virtual. */
uint32_t sl_rpc_transport_number(const struct sl_transport *t);
/* Returns the epoch of the peer's process. */
uint64_t sl_rpc_transport_peer(const struct sl_transport *t);
/* State of a virtual connection that has been silent. */
enum sl_rpc_probe_result {
	SL_RPC_PROBE_NONE,
	SL_RPC_PROBE_REFUSED, /* nothing listens there; not authenticated */
	SL_RPC_PROBE_ALIVE,   /* authenticated: the peer has it */
	SL_RPC_PROBE_REMOVED, /* authenticated: the peer has restarted, or has ended it */
};
/* Asks the peer for the connection with that number, for at most timeout_ms. Control thread. */
enum sl_rpc_probe_result sl_rpc_probe_peer(const struct sl_rpc_dial_options *opt, uint32_t number);
/*
 * Describes the path to the endpoint, without asking the peer. Returns 0 or -errno. -ENETUNREACH:
 * no RDMA device has a route there. -ENODEV: no RDMA device.
 */
int sl_rpc_route_info(const char *endpoint, const struct sl_rpc_rdma *rdma, char *text, size_t len);

struct ibv_context;
/* Tests the device features that shared receive slots need. Returns NULL or what does not work. */
const char *sl_rpc_rdma_selftest(struct ibv_context *device, uint8_t port);

/* Returns true if the endpoint needs the resolver's files and servers. */
bool sl_rpc_has_name(const char *endpoint);

/*
 * Loads providers of libibverbs and OpenSSL early, before the process loses the right to map
 * executable memory.
 */
void sl_rpc_preload(void);

/*
 * Brings the channel UP on this transport, or migrates it (goes_on; ops->moved reports the result).
 * Returns -1 and closes the transport if the state or the peer is wrong, or epoll is out of memory.
 * Worker.
 */
int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns);

/* Ends the channel if its transport has that number: the peer does not know it any more. Worker. */
void sl_rpc_peer_removed(struct sl_rpc_channel *ch, uint32_t number);

/*
 * Sends items as one batch, in one message per class. Returns 0 and the batch number, or sends
 * nothing. -EAGAIN: queue, table or memory is full now. -ENOTCONN, -EINVAL, -EMSGSIZE: do not try
 * again.
 */
int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns,
		uint64_t *batch);
/*
 * Cancels a request: neither reply nor failed is called later; `sent` and batch_done are. An id
 * that is not outstanding is ignored.
 */
void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id);

/* A message of a stream, or a piece of one. */
struct sl_rpc_part {
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len;    /* sum of spans */
	uint32_t rest;   /* of the message, in later parts */
	bool compressed; /* the message is compressed */
	bool end;        /* of the stream: the spans are its metadata, up to SL_RPC_MAX_ASKED */
};
/*
 * Returns what a part may cost now: its length, at least SL_RPC_MIN_COST. 0: no credit, or not
 * open.
 */
uint32_t sl_rpc_part_credit(struct sl_rpc_channel *ch, uint64_t id);
/*
 * Sends a copy of a part. Returns 0. -EAGAIN: out of memory or queue space. -EINVAL: beyond the
 * credit, too long, or not open.
 */
int sl_rpc_send_part(struct sl_rpc_channel *ch, uint64_t id, const struct sl_rpc_part *part,
		     enum sl_rpc_class class, uint64_t now_ns);

/*
 * Tells how many bytes of an unfinished reply the caller keeps; required when that falls, and at
 * the end of each upcall. The peer gets credit so that it stays within SL_RPC_INITIAL_WINDOW (most
 * streams: SL_RPC_STREAM_WINDOW).
 */
void sl_rpc_reply_kept(struct sl_rpc_channel *ch, uint64_t id, uint64_t kept);

/*
 * Makes progress in both directions, runs timers; once per loop. Returns the number of messages,
 * between arm and disarm also of events: do not sleep unless 0.
 */
unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns);
/* Posts what is queued, one doorbell per channel. */
void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns);
/* Returns when to call sl_rpc_poll() at the latest. */
uint64_t sl_rpc_next_ns(const struct sl_rpc *r);
/* Returns the number of outstanding requests. */
uint32_t sl_rpc_asked(const struct sl_rpc *r);

/*
 * Sleeping: wait for sl_rpc_fd(), an epoll fd. sl_rpc_arm() returns false if something arrived
 * meanwhile: poll again. `rang`: the fd is readable, or was not checked; events left there end the
 * next sleep at once.
 */
int sl_rpc_fd(const struct sl_rpc *r);
bool sl_rpc_arm(struct sl_rpc *r);
void sl_rpc_disarm(struct sl_rpc *r, bool rang);

struct sl_rpc_stats {
	uint64_t batches_sent, requests_sent, replies, failures, bytes_sent, bytes_received;
	uint64_t credit_stalls, messages_sent, messages_received, doorbells, bad_messages;
	uint64_t late_replies, cancels, timeouts;
	uint64_t over_credit; /* channels lost because the peer sent beyond its credit */
	uint64_t no_slot;     /* channels lost because the peer repeatedly had no receive slot */
	/* connections that ended because the peer had none of that number */
	uint64_t peer_restarts;
	/* Datagrams: retransmitted, received twice, with a bad MAC. */
	uint64_t datagrams_retransmitted, datagrams_duplicate, datagrams_bad_mac;
	uint32_t outstanding, slots_free, slots;
};
/*
 * Messages (with PINGs), their bytes, and waits for room, both ways. Any thread, while the worker
 * counts.
 */
struct sl_rpc_traffic {
	uint64_t messages, bytes, waits;
};
void sl_rpc_channel_traffic(const struct sl_rpc_channel *ch, struct sl_rpc_traffic *out);

/*
 * Returns since when a virtual connection's peer has owed an answer; 0: it owes none. Any thread.
 */
uint64_t sl_rpc_channel_silent_ns(const struct sl_rpc_channel *ch);

/* Returns the number of datagrams that matched no connection. */
uint64_t sl_rpc_unmatched(const struct sl_rpc *r);
/* Fills `out`. Worker. */
void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out);

#endif
