/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of the RPC: batches out, replies in. One struct sl_rpc per worker, one channel
 * per (worker, backend). Messages and their rules are in sluice/rpc_wire.h.
 *
 *   core -> sl_rpc_send() -> session (ids, fragments) -> send queue (classes) -> credits -> transport
 *   core <- sl_rpc_ops    <- session <------------------------------------------------ transport
 *                                                                            (shm | verbs | tcp)
 *
 * Connecting happens off the data path: sl_rpc_dial_*() run on the control thread and hand an
 * established transport to the worker, which adopts it between two bursts.
 *
 * Bytes given to sl_rpc_send() stay the caller's and must not change until `sent` is called for the
 * batch: exactly once for each batch, before its batch_done, also when the channel fails or
 * requests were cancelled. (shm copies them once, straight into the peer's ring; a batch that has
 * to wait is not copied before its turn.) Item and span arrays are not needed after the call. Bytes
 * in a reply are valid during the upcall only; `meta` is a private copy, `body` is memory that the
 * backend can still change, so copy it before parsing it.
 *
 * Upcalls come from sl_rpc_poll(), _flush, _adopt, _drain and _destroy only, never from within
 * sl_rpc_send() or sl_rpc_cancel(). They may call sl_rpc_send() and sl_rpc_cancel().
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
	void *cookie; /* given back with the reply */
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len; /* payload: sum of spans less meta_len */
	uint16_t meta_len;
	bool idempotent;
	bool compressed;    /* a message of gRPC that is */
	bool stream;        /* opens a stream: a batch of one, without payload */
	bool open;          /* of which more is to come */
	bool expects;       /* and its client waits until a backend says so */
	uint8_t class;      /* enum sl_rpc_class: its own, whatever it is batched with */
	uint64_t budget_us; /* 0 none */
	uint64_t id;        /* out: for sl_rpc_cancel() */
};

struct sl_rpc_reply {
	uint8_t status;      /* enum sl_rpc_status */
	bool first, last;    /* a long or streamed reply arrives in parts */
	bool more;           /* behind this message another one of this reply follows (streaming) */
	bool no_message;     /* gRPC: its body is no message of the reply */
	bool compressed;     /* gRPC: the message is */
	uint64_t total_len;  /* payload of this message, known with the first part */
	struct sl_span meta; /* with the first part */
	struct sl_span body;
	uint32_t service_us; /* of this request */
	uint32_t together;   /* requests that the backend computed at once; 0 not known */
};

/* How a batch has ended: what its replies said, whichever way each of its requests ended. */
struct sl_rpc_batch_end {
	uint64_t batch, sent_ns;
	bool stream;
	uint32_t count;    /* requests in it */
	uint32_t answered; /* of them, those with a whole reply that says SL_RPC_OK */
	uint32_t
		together; /* the most that the backend says to have computed at once; 0: not said */
	uint32_t
		service_us; /* the longest that it says to have taken; 0: below 1 us, or not said */
};

/* What debug builds tell the owner of bytes that a batch refers to. */
enum sl_rpc_watch {
	SL_RPC_LENT,     /* from now on they must stay as they are; within sl_rpc_send() */
	SL_RPC_READ,     /* a post reads these of them */
	SL_RPC_RETURNED, /* not needed any more; `sent` follows */
};

/* app_data: of the channel, as it was made with. */
struct sl_rpc_ops {
	/*
	 * A reply, or a part of one. After `last` without `more` the cookie is forgotten; a status
	 * other than OK always comes like that.
	 */
	void (*reply)(void *app, void *cookie, const struct sl_rpc_reply *r);
	/* The request ended without (the rest of) a reply. */
	void (*failed)(void *app, void *cookie, enum sl_rpc_failure why);
	/*
	 * Nothing of this batch is computed any more: all are answered, failed, cancelled or lost. What
	 * of a last message has begun to arrive is answered, and so is, for good, what has to wait for
	 * the caller to take it (sl_rpc_reply_kept()).
	 * Exactly once for each batch.
	 */
	void (*batch_done)(void *app, void *app_data, const struct sl_rpc_batch_end *end);
	/* The transport is done with the bytes of a batch. */
	void (*sent)(void *app, void *app_data, uint64_t batch);
	/* Also when it is held, or not any more (sl_rpc_channel_held()). */
	void (*state)(void *app, void *app_data, enum sl_rpc_state state);
	/* All of the channel goes by the transport that it was to go on by; or (false) it stays. */
	void (*moved)(void *app, void *app_data, bool gone_on);
	/* The backend takes more of this stream. */
	void (*credit)(void *app, void *cookie);
	/* The backend wants the rest of this stream, which expects to be told: once, before any reply. */
	void (*go_on)(void *app, void *cookie);
	/* An interim reply: up to SL_RPC_MAX_INTERIM of them, before any reply. */
	void (*interim)(void *app, void *cookie, struct sl_span meta);
	/* Debug builds only, may be NULL: so that the owner can check that it keeps its word. */
	void (*watch)(void *app, enum sl_rpc_watch what, const struct sl_span *spans, uint32_t cnt);
};

struct sl_rpc_config {
	uint32_t max_outstanding; /* requests per worker over all channels */
	uint32_t bulk_ring_len;   /* bytes per channel and direction; 0: as suits its transport */
	uint32_t slots;           /* small-message slots per channel and direction */
	uint64_t ping_interval_ns;
	/*
	 * While requests are outstanding, missed pings alone do not end a channel before it has
	 * been silent for so long: a backend may compute in the thread that answers.
	 */
	uint64_t patience_ns;
	uint64_t grace_ns; /* beyond the budget before a request is given up */
	bool one_class;    /* FIFO instead of priority classes, for comparison */
};
void sl_rpc_config_default(struct sl_rpc_config *cfg);

/* Memory that large sends may reference (the UMEM); registered with each RDMA device in use. */
struct sl_rpc_memory {
	void *addr;
	size_t len;
};

struct sl_rpc *sl_rpc_create(const struct sl_rpc_config *cfg, const struct sl_rpc_memory *mem,
			     const struct sl_rpc_ops *ops, void *app);
void sl_rpc_destroy(struct sl_rpc *r);

/* A channel slot for one backend: DOWN until a transport is adopted. `app_data` is the core's. */
struct sl_rpc_channel *sl_rpc_channel_add(struct sl_rpc *r, const char *name, void *app_data);
/* The same in two steps, the first by any thread; free: one that was never joined. */
struct sl_rpc_channel *sl_rpc_channel_new(const char *name, void *app_data);
void sl_rpc_channel_free(struct sl_rpc_channel *ch);
void sl_rpc_channel_join(struct sl_rpc *r, struct sl_rpc_channel *ch);
/* No new requests on this one; GOAWAY to its peer. It goes DOWN when nothing is outstanding. */
void sl_rpc_channel_drain(struct sl_rpc_channel *ch);
/* Takes out and frees a channel that is DOWN. Not from within an upcall. */
void sl_rpc_channel_remove(struct sl_rpc_channel *ch);
enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch);
/* Its port is down: what is sent waits for that to end, or for the end of the channel. */
bool sl_rpc_channel_held(const struct sl_rpc_channel *ch);

/*
 * Control thread: connects to "shm:///path", "rdma://addr:port" or "tcp://host:port", negotiates
 * (HELLO, key proof, ring sizes), bounded by timeout_ms. Returns NULL and a line in err. The
 * transport may then be adopted by a worker; sl_rpc_dial_drop() frees one that is not.
 */
/* The way to an rdma endpoint. All zero: as routes and devices have it. */
struct sl_rpc_rdma {
	const char *source; /* an address of ours; NULL: the route's */
	const char *device; /* NULL: the one that has the source */
	uint8_t port;       /* of the device; 0: any */
	uint8_t tos;        /* of its packets, in both directions: a DSCP times four */
};
struct sl_rpc_dial_options {
	const char *endpoint;
	const char *key_file;
	const struct sl_rpc_memory *mem;
	uint32_t bulk_ring_len, slots; /* as in sl_rpc_config */
	unsigned timeout_ms;
	uint16_t worker; /* told to the backend, for its statistics */
	struct sl_rpc_rdma rdma;
	uint32_t owner; /* shm: account that may listen, beside root and this process' own */
	/*
	 * Of the link that this is for, sl_rpc_link_number(); goes_on: it has a transport, and is
	 * to go on by this one, which sl_rpc_adopt() then sees to.
	 */
	uint64_t link;
	bool goes_on;
};
/* At random, so that nobody else knows it; 0: there is no randomness. */
uint64_t sl_rpc_link_number(void);
struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, struct sl_err *err);
void sl_rpc_dial_drop(struct sl_transport *t);
/* One line for people: "shm /run/x.sock ...", "rdma rxe0/1 gid[1] ... mtu 1024 RC ...", "tcp ...". */
const char *sl_rpc_transport_info(const struct sl_transport *t);
/* Of a virtual connection, in this process; 0: it is none. */
uint32_t sl_rpc_transport_number(const struct sl_transport *t);
/* Of the process at the other end: it is the same one for as long as this is the same. */
uint64_t sl_rpc_transport_peer(const struct sl_transport *t);
/* What is heard where a virtual connection was dialled, when nothing has come by it for a while. */
enum sl_rpc_word {
	SL_RPC_NO_WORD,
	SL_RPC_NOBODY,    /* nobody listens there; anybody on the way can say so */
	SL_RPC_KNOWN,     /* the peer's own word: it has that connection */
	SL_RPC_FORGOTTEN, /* it has not: it has started again, or has given it up */
};
/* Control thread, bounded by timeout_ms: asks after the connection of that number. */
enum sl_rpc_word sl_rpc_ask(const struct sl_rpc_dial_options *opt, uint32_t number);
/*
 * Which way bytes to that endpoint would go from here, without asking the other end. 0 or -errno:
 * -ENETUNREACH: no RDMA device has a route there, -ENODEV: there is none at all.
 */
int sl_rpc_probe(const char *endpoint, const struct sl_rpc_rdma *rdma, char *text, size_t len);

/*
 * Doctor: tries on that port of a device what connections rely on that share receive slots. NULL, or
 * what does not work.
 */
struct ibv_context;
const char *sl_rpc_try_rdma(struct ibv_context *device, uint8_t port);

/* Does finding that endpoint take the resolver's files and servers? */
bool sl_rpc_has_name(const char *endpoint);

/*
 * Loads what libraries load late: libibverbs' providers of the devices that are there, OpenSSL's
 * configuration and providers. Before the process loses the right to map executable memory.
 */
void sl_rpc_preload(void);

/*
 * Worker: the channel comes UP on this transport; or goes on by it, UP as it is, if it was dialled for
 * that: then ops->moved says whether. -1: the channel is not in the state for it,
 * the peer is another one, or epoll is out of memory; the transport is then closed.
 */
int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns);

/* Worker: the peer does not have the connection of that number any more. Another one goes on. */
void sl_rpc_forgotten(struct sl_rpc_channel *ch, uint32_t number);

/*
 * Sends items as one batch, those of each class in a message of their own, so that what is urgent
 * waits neither on its way nor at the backend for what is not. Returns 0 and the batch number;
 * -EAGAIN: no credit or ring space now (nothing was sent); -ENOTCONN; -EMSGSIZE.
 */
int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns,
		uint64_t *batch);
/*
 * The reply is not wanted any more: tells the backend; neither reply nor failed is called later.
 * `sent` and batch_done of its batch still are. An id that is not outstanding does no harm.
 */
void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id);

/* A message of a stream, or a piece of one. */
struct sl_rpc_part {
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len;    /* sum of spans */
	uint32_t rest;   /* of the message: in further parts */
	bool compressed; /* the message is; the same in all parts of it */
	bool end;        /* of the stream: the spans are its metadata, up to SL_RPC_MAX_ASKED */
};
/* What a part may cost now: its length, SL_RPC_MIN_COST at the least. 0: nothing, or it is not open. */
uint32_t sl_rpc_part_credit(struct sl_rpc_channel *ch, uint64_t id);
/* Copies the bytes. 0; -EAGAIN: no memory now; -EINVAL: beyond the credit, or it is not open. */
int sl_rpc_send_part(struct sl_rpc_channel *ch, uint64_t id, const struct sl_rpc_part *part,
		     enum sl_rpc_class class, uint64_t now_ns);

/*
 * How much of a reply the caller keeps, of which more is to come: gives the peer credit, so that it
 * is never more than SL_RPC_INITIAL_WINDOW, of most streams SL_RPC_STREAM_WINDOW (and as much again as its messages' prefixes are). To be
 * said whenever that falls, and at the end of each upcall. No harm if nothing is outstanding.
 */
void sl_rpc_reply_kept(struct sl_rpc_channel *ch, uint64_t id, uint64_t kept);

/*
 * Once per loop: progress in both directions, timers. Returns messages received, and bells if it is
 * called between sl_rpc_arm() and sl_rpc_disarm(): with any of these, do not sleep.
 */
unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns);
/* Posts what is queued, one doorbell per channel. */
void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns);
uint64_t sl_rpc_next_ns(const struct sl_rpc *r);
/* Requests whose replies are still to come, over all channels. */
uint32_t sl_rpc_asked(const struct sl_rpc *r);

/*
 * Sleeping: add sl_rpc_fd() (one epoll fd, whose events are the session's to take) to the worker's
 * wait; sl_rpc_arm() asks for events and returns false if something arrived meanwhile (then poll
 * again instead of sleeping). `rang`: the fd has become readable, or nobody has looked. Events that
 * are left there end the next sleep at once.
 */
int sl_rpc_fd(const struct sl_rpc *r);
bool sl_rpc_arm(struct sl_rpc *r);
void sl_rpc_disarm(struct sl_rpc *r, bool rang);

struct sl_rpc_stats {
	uint64_t batches_sent, requests_sent, replies, failures, bytes_sent, bytes_received;
	uint64_t credit_stalls, messages_sent, messages_received, doorbells, bad_messages;
	uint64_t late_replies, cancels, timeouts;
	uint64_t over_credit; /* channels lost because the peer sent beyond its credit */
	uint64_t no_slot; /* channels lost because the peer had no receive slot, time after time */
	uint64_t forgotten; /* virtual connections that ended as the peer had none of that number */
	/* Of virtual connections: sent or come once more, and not sealed by the peer. */
	uint64_t datagrams_resent, datagrams_doubled, datagrams_unsealed;
	uint32_t outstanding, slots_free, slots;
};
/*
 * What a channel has carried, both ways: messages, PINGs included, and their bytes; how often something
 * waited for room. Any thread; as the worker counts meanwhile.
 */
struct sl_rpc_traffic {
	uint64_t messages, bytes, waits;
};
void sl_rpc_channel_traffic(const struct sl_rpc_channel *ch, struct sl_rpc_traffic *out);

/* Any thread: since when the peer of a virtual connection has owed a word; 0: it owes none. */
uint64_t sl_rpc_channel_silent_ns(const struct sl_rpc_channel *ch);

/* Datagrams that came for no connection. */
uint64_t sl_rpc_strays(const struct sl_rpc *r);
void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out);

#endif
