/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of the RPC: sends batches of requests, receives replies. A worker has one
 * struct sl_rpc, and one channel per backend. sluice/rpc_wire.h defines the messages.
 *
 *   core -> sl_rpc_send() -> session (ids, fragments) -> send queue (classes) -> credits -> transport
 *   core <- sl_rpc_ops    <- session <------------------------------------------------ transport
 *                                                                            (shm | verbs | tcp)
 *
 * sl_rpc_dial() connects on the control thread. The worker adopts the transport between two bursts.
 *
 * The bytes given to sl_rpc_send() belong to the caller. They must not change until `sent` is
 * called for the batch: exactly once, before its batch_done, even if the channel fails or requests
 * are cancelled. shm copies them when the batch's turn comes. The item and span arrays are not
 * needed after the call.
 *
 * The bytes of a reply are valid during the upcall only. `meta` is a private copy. `body` is memory
 * that the backend can still change: copy it before parsing.
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

/* Why a request failed without a reply. */
enum sl_rpc_failure {
	SL_RPC_FAIL_DOWN,     /* channel lost before the request left: safe to send elsewhere */
	SL_RPC_FAIL_LOST,     /* channel lost after it left: safe to repeat only if idempotent */
	SL_RPC_FAIL_TIMEOUT,  /* no reply within the budget plus grace */
	SL_RPC_FAIL_PROTOCOL, /* the peer broke the protocol */
};

/* One request of a batch: metadata and payload as a list of spans (metadata first). */
struct sl_rpc_item {
	void *cookie; /* passed to the upcalls */
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len; /* payload: sum of spans less meta_len */
	uint16_t meta_len;
	bool idempotent;
	bool compressed;    /* the payload is a compressed gRPC message */
	bool stream;        /* opens a stream: a batch of one, without payload */
	bool open;          /* stream: more parts follow */
	bool expects;       /* stream: the client waits for 100 (Continue) */
	uint8_t class;      /* enum sl_rpc_class of this item; each class is a message of its own */
	uint64_t budget_us; /* 0: none */
	uint64_t id;        /* out: for sl_rpc_cancel() */
};

struct sl_rpc_reply {
	uint8_t status;      /* enum sl_rpc_status */
	bool first, last;    /* a long or streamed reply arrives in parts */
	bool more;           /* another message of this reply follows (streaming) */
	bool no_message;     /* gRPC: the body is not a message of the reply */
	bool compressed;     /* gRPC: the message is compressed */
	uint64_t total_len;  /* payload bytes of this message; known with the first part */
	struct sl_span meta; /* with the first part */
	struct sl_span body;
	uint32_t service_us; /* computing time of this request */
	uint32_t together;   /* requests that the backend computed together; 0: unknown */
};

/* How a batch ended, from the replies to its requests. */
struct sl_rpc_batch_end {
	uint64_t batch, sent_ns;
	bool stream;
	uint32_t count;      /* requests in it */
	uint32_t answered;   /* requests that were answered with SL_RPC_OK, see batch_done */
	uint32_t together;   /* largest number that the backend computed together; 0: unknown */
	uint32_t service_us; /* longest computing time; 0: below 1 us, or unknown */
};

/* Events that debug builds report about the bytes of a batch. */
enum sl_rpc_watch {
	SL_RPC_LENT,     /* the bytes must not change from now on; called within sl_rpc_send() */
	SL_RPC_READ,     /* a post reads these bytes */
	SL_RPC_RETURNED, /* the bytes are not needed any more; `sent` follows */
};

/* app_data: the value that sl_rpc_channel_new() got. */
struct sl_rpc_ops {
	/*
	 * A reply, or a part of one. The cookie is not used after `last` without `more`. A status
	 * other than OK arrives as one such part.
	 */
	void (*reply)(void *app, void *cookie, const struct sl_rpc_reply *r);
	/* The request ended before its reply was complete. */
	void (*failed)(void *app, void *cookie, enum sl_rpc_failure why);
	/*
	 * The backend computes nothing of this batch any more: each request was answered, failed,
	 * cancelled or lost. A request counts as answered when its last message begins to arrive,
	 * or when its reply waits for the caller (sl_rpc_reply_kept()). Called exactly once for
	 * each batch.
	 */
	void (*batch_done)(void *app, void *app_data, const struct sl_rpc_batch_end *end);
	/* The transport does not read the bytes of the batch any more. */
	void (*sent)(void *app, void *app_data, uint64_t batch);
	/* The state has changed, or the port went down or came back (sl_rpc_channel_port_down()). */
	void (*state)(void *app, void *app_data, enum sl_rpc_state state);
	/*
	 * A migration has ended. gone_on: the channel uses the new transport; else it keeps the old
	 * one.
	 */
	void (*moved)(void *app, void *app_data, bool gone_on);
	/* The backend has given credit for this stream (sl_rpc_part_credit()). */
	void (*credit)(void *app, void *cookie);
	/*
	 * The backend wants the rest of a stream that was sent with `expects`. Once, before any
	 * reply.
	 */
	void (*go_on)(void *app, void *cookie);
	/* An interim reply: at most SL_RPC_MAX_INTERIM, before any reply. */
	void (*interim)(void *app, void *cookie, struct sl_span meta);
	/* Debug builds only; may be NULL. Lets the owner check that the bytes do not change. */
	void (*watch)(void *app, enum sl_rpc_watch what, const struct sl_span *spans, uint32_t cnt);
};

struct sl_rpc_config {
	uint32_t max_outstanding; /* requests per worker over all channels */
	uint32_t bulk_ring_len;   /* bytes per channel and direction; 0: the transport's default */
	uint32_t slots;           /* small-message slots per channel and direction */
	uint64_t ping_interval_ns;
	/*
	 * While requests are outstanding, a channel must be silent for this time before it ends. A
	 * backend may compute in the thread that answers PINGs.
	 */
	uint64_t dead_after_ns;
	uint64_t grace_ns; /* beyond the budget, before a request times out */
	bool one_class;    /* FIFO instead of priority classes, for comparison */
};
void sl_rpc_config_default(struct sl_rpc_config *cfg);

/* Memory that large sends may reference (the UMEM). Each RDMA device in use registers it. */
struct sl_rpc_memory {
	void *addr;
	size_t len;
};

/* Returns a session without channels; NULL if out of memory or descriptors. */
struct sl_rpc *sl_rpc_create(const struct sl_rpc_config *cfg, const struct sl_rpc_memory *mem,
			     const struct sl_rpc_ops *ops, void *app);
/* Ends and frees all channels, with upcalls; NULL does nothing. */
void sl_rpc_destroy(struct sl_rpc *r);

/*
 * Adds a channel for one backend, DOWN until it adopts a transport. Returns NULL if out of memory.
 */
struct sl_rpc_channel *sl_rpc_channel_add(struct sl_rpc *r, const char *name, void *app_data);
/*
 * sl_rpc_channel_add() in two steps. Any thread may call _new; _free is for a channel that never
 * joined.
 */
struct sl_rpc_channel *sl_rpc_channel_new(const char *name, void *app_data);
void sl_rpc_channel_free(struct sl_rpc_channel *ch);
void sl_rpc_channel_join(struct sl_rpc *r, struct sl_rpc_channel *ch);
/* Sends GOAWAY and takes no new requests. The channel goes DOWN when nothing is outstanding. */
void sl_rpc_channel_drain(struct sl_rpc_channel *ch);
/* Removes and frees a channel that is DOWN. Must not be called from an upcall. */
void sl_rpc_channel_remove(struct sl_rpc_channel *ch);
enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch);
/* Returns true while the port is down: sends wait until it is back or the channel ends. */
bool sl_rpc_channel_port_down(const struct sl_rpc_channel *ch);

/* Path to an rdma endpoint. All zero: as the routes and devices give it. */
struct sl_rpc_rdma {
	const char *source; /* local address; NULL: the route's */
	const char *device; /* NULL: the device that has the source address */
	uint8_t port;       /* port of the device; 0: any */
	uint8_t tos;        /* in both directions: a DSCP times four */
};
struct sl_rpc_dial_options {
	const char *endpoint;
	const char *key_file;
	const struct sl_rpc_memory *mem;
	uint32_t bulk_ring_len, slots; /* as in sl_rpc_config */
	unsigned timeout_ms;
	uint16_t worker; /* reported to the backend for its statistics */
	struct sl_rpc_rdma rdma;
	uint32_t owner; /* shm: user id that may listen, besides root and our own */
	/*
	 * Number of the link (sl_rpc_link_number()). goes_on: the link has a transport, and
	 * sl_rpc_adopt() migrates it to this one.
	 */
	uint64_t link;
	bool resumes;
};
/* Returns a random number, so that no other process can guess it; 0: there is no randomness. */
uint64_t sl_rpc_link_number(void);
/*
 * Connects to "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" or "tcp://host:port" and
 * negotiates (HELLO, key proof, ring sizes), for at most timeout_ms. Returns a transport for
 * sl_rpc_adopt() or sl_rpc_dial_drop(), or NULL and a line in err. Control thread.
 */
struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, struct sl_err *err);
/* Closes a transport that was not adopted; NULL does nothing. */
void sl_rpc_dial_drop(struct sl_transport *t);
/*
 * Returns a line that describes the transport: "shm /run/x.sock ...", "rdma rxe0/1 gid[1] ... mtu
 * 1024 RC ...", "tcp ...".
 */
const char *sl_rpc_transport_info(const struct sl_transport *t);
/* Returns this process's number of a virtual connection; 0 for other transports. */
uint32_t sl_rpc_transport_number(const struct sl_transport *t);
/* Returns the epoch of the peer's process, which changes when the peer starts again. */
uint64_t sl_rpc_transport_peer(const struct sl_transport *t);
/* Answers about a virtual connection that has been silent for a while. */
enum sl_rpc_probe_result {
	SL_RPC_PROBE_NONE,
	SL_RPC_PROBE_REFUSED, /* nothing listens there; anyone on the path can forge this answer */
	SL_RPC_PROBE_ALIVE,   /* authenticated: the peer has the connection */
	SL_RPC_PROBE_REMOVED, /* authenticated: the peer has restarted, or has ended the connection */
};
/* Asks the peer for the connection with that number, for at most timeout_ms. Control thread. */
enum sl_rpc_probe_result sl_rpc_probe_peer(const struct sl_rpc_dial_options *opt, uint32_t number);
/*
 * Describes the path to that endpoint in `text`, without asking the peer. Returns 0 or -errno.
 * -ENETUNREACH: no RDMA device has a route there. -ENODEV: there is no RDMA device.
 */
int sl_rpc_route_info(const char *endpoint, const struct sl_rpc_rdma *rdma, char *text, size_t len);

struct ibv_context;
/*
 * Tests the device features that shared receive slots need, for "sluice doctor". Returns NULL, or
 * the feature that does not work.
 */
const char *sl_rpc_rdma_selftest(struct ibv_context *device, uint8_t port);

/* Returns true if finding the endpoint needs the resolver's files and servers. */
bool sl_rpc_has_name(const char *endpoint);

/*
 * Loads what libraries load late: libibverbs' providers of the present devices, OpenSSL's
 * configuration and providers. Must run before the process loses the right to map executable
 * memory.
 */
void sl_rpc_preload(void);

/*
 * Brings the channel UP on this transport, or migrates it if the transport was dialled for that.
 * The result of a migration is reported by ops->moved. Returns -1 and closes the transport if the
 * channel is in the wrong state, the peer is another one, or epoll is out of memory. Worker.
 */
int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns);

/*
 * Ends the channel because the peer has no connection of that number any more. Does nothing if the
 * channel uses another one. Worker.
 */
void sl_rpc_peer_removed(struct sl_rpc_channel *ch, uint32_t number);

/*
 * Sends items as one batch, in one message per class, so that urgent requests do not wait for
 * others. Returns 0 and the batch number. Sends nothing on error. -EAGAIN: the queue, the table or
 * the memory is full now. -ENOTCONN, -EINVAL or -EMSGSIZE: a later call fails, too.
 */
int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns,
		uint64_t *batch);
/*
 * Cancels a request: tells the backend, and calls neither reply nor failed for it later. `sent` and
 * batch_done of its batch are still called. An id that is not outstanding is ignored.
 */
void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id);

/* A message of a stream, or a piece of one. */
struct sl_rpc_part {
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len;    /* sum of spans */
	uint32_t rest;   /* bytes of the message that later parts bring */
	bool compressed; /* the message is compressed; the same in all of its parts */
	bool end;        /* end of the stream: the spans are its metadata, up to SL_RPC_MAX_ASKED */
};
/*
 * Returns what a part may cost now: its length, but at least SL_RPC_MIN_COST. Returns 0 if the
 * credit is lower, or the stream is not open.
 */
uint32_t sl_rpc_part_credit(struct sl_rpc_channel *ch, uint64_t id);
/*
 * Sends a part and copies its bytes. Returns 0. -EAGAIN: out of memory or queue space now. -EINVAL:
 * beyond the credit, too long, or the stream is not open.
 */
int sl_rpc_send_part(struct sl_rpc_channel *ch, uint64_t id, const struct sl_rpc_part *part,
		     enum sl_rpc_class class, uint64_t now_ns);

/*
 * Tells how many bytes of an unfinished reply the caller keeps. The peer gets credit, so that
 * `kept` stays within SL_RPC_INITIAL_WINDOW (most streams: SL_RPC_STREAM_WINDOW), message prefixes
 * not counted. Must be called when `kept` falls, and at the end of each upcall. An id that is not
 * outstanding is ignored.
 */
void sl_rpc_reply_kept(struct sl_rpc_channel *ch, uint64_t id, uint64_t kept);

/*
 * Makes progress in both directions and runs timers; called once per loop. Returns the number of
 * messages received. Between sl_rpc_arm() and sl_rpc_disarm() events count, too. The worker must
 * not sleep unless it is 0.
 */
unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns);
/* Posts what is queued, with one doorbell per channel. */
void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns);
/* Returns when sl_rpc_poll() must be called at the latest. */
uint64_t sl_rpc_next_ns(const struct sl_rpc *r);
/* Returns the number of outstanding requests of all channels. */
uint32_t sl_rpc_asked(const struct sl_rpc *r);

/*
 * Sleeping: the worker waits for sl_rpc_fd(), one epoll fd, whose events belong to the session.
 * sl_rpc_arm() asks for events; it returns false if something arrived meanwhile: poll instead of
 * sleeping. sl_rpc_disarm() ends the sleep. `rang`: the fd is readable, or was not checked. Events
 * that are left there end the next sleep at once.
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
	/* virtual connections that ended because the peer had none of that number */
	uint64_t forgotten;
	/* Datagrams of virtual connections: retransmitted, received twice, with a bad MAC. */
	uint64_t datagrams_resent, datagrams_doubled, datagrams_unsealed;
	uint32_t outstanding, slots_free, slots;
};
/*
 * Counts of a channel in both directions: messages (with PINGs), bytes, and waits for room. Any
 * thread may read them while the worker counts.
 */
struct sl_rpc_traffic {
	uint64_t messages, bytes, waits;
};
void sl_rpc_channel_traffic(const struct sl_rpc_channel *ch, struct sl_rpc_traffic *out);

/*
 * Returns since when the peer of a virtual connection has owed an answer; 0: it owes none. Any
 * thread.
 */
uint64_t sl_rpc_channel_silent_ns(const struct sl_rpc_channel *ch);

/* Returns the number of datagrams that matched no connection. */
uint64_t sl_rpc_unmatched(const struct sl_rpc *r);
/* Fills `out`. Worker. */
void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out);

#endif
