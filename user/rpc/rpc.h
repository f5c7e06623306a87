/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of the RPC: batches out, replies in. One struct sl_rpc per worker, one channel
 * per (worker, backend). Messages and their rules are in sluice/rpc_wire.h.
 *
 *   core -> sl_rpc_send() -> session (ids, fragments) -> send queue (classes) -> credits ->
 * transport core <- sl_rpc_ops    <- session                                          <- transport
 * (shm | verbs)
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
	uint32_t budget_us; /* 0 none */
	uint64_t id;        /* out: for sl_rpc_cancel() */
};

struct sl_rpc_reply {
	uint8_t status;      /* enum sl_rpc_status */
	bool first, last;    /* a long or streamed reply arrives in parts */
	bool more;           /* behind this message another one of this reply follows (streaming) */
	bool no_message;     /* gRPC: its body is no message of the reply */
	uint64_t total_len;  /* payload of this message, known with the first part */
	struct sl_span meta; /* with the first part */
	struct sl_span body;
	uint32_t service_us; /* of this request */
	uint32_t together;   /* requests that the backend computed at once; 0 not known */
};

struct sl_rpc_ops {
	/* A reply, or a part of one. After `last` without `more` the cookie is forgotten. */
	void (*reply)(void *app, void *cookie, const struct sl_rpc_reply *r);
	/* The request ended without (the rest of) a reply. */
	void (*failed)(void *app, void *cookie, enum sl_rpc_failure why);
	/*
	 * Nothing of this batch is outstanding any more: all answered (service_us as the backend
	 * measured it), failed, cancelled or lost. Exactly once for each batch. service_us is 0 if
	 * no reply came.
	 */
	void (*batch_done)(void *app, struct sl_rpc_channel *ch, uint64_t batch, uint32_t count,
			   uint32_t service_us, uint64_t sent_ns);
	/* The transport is done with the bytes of a batch. */
	void (*sent)(void *app, struct sl_rpc_channel *ch, uint64_t batch);
	void (*state)(void *app, struct sl_rpc_channel *ch, enum sl_rpc_state state);
};

struct sl_rpc_config {
	uint32_t max_outstanding; /* requests per worker over all channels */
	uint32_t bulk_ring_len;   /* bytes per channel and direction */
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
void *sl_rpc_channel_data(const struct sl_rpc_channel *ch);
enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch);

/*
 * Control thread: connects to "shm:///path" or "rdma://addr:port", negotiates (HELLO, key proof,
 * ring sizes), bounded by timeout_ms. Returns NULL and a line in err. The transport may then be
 * adopted by a worker; sl_rpc_dial_drop() frees one that is not.
 */
struct sl_rpc_dial_options {
	const char *endpoint;
	const char *key_file;
	const struct sl_rpc_memory *mem;
	uint32_t bulk_ring_len, slots;
	unsigned timeout_ms;
	uint16_t worker; /* told to the backend, for its statistics */
};
struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, char *err, size_t err_len);
void sl_rpc_dial_drop(struct sl_transport *t);
/* One line for people: "shm /run/x.sock ..." or "rdma rxe0/1 gid[1] ... mtu 1024 RC ...". */
const char *sl_rpc_transport_info(const struct sl_transport *t);
/*
 * Which way bytes to that endpoint would go from here, without asking the other end. 0 or -errno:
 * -ENETUNREACH: no RDMA device has a route there, -ENODEV: there is none at all.
 */
int sl_rpc_probe(const char *endpoint, char *text, size_t len);

/*
 * Worker: the channel comes UP on this transport. -1: it was not DOWN, or epoll is out of memory;
 * the transport is then closed.
 */
int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns);

/*
 * Sends items as one batch. Returns 0 and the batch number; -EAGAIN: no credit or ring space now
 * (nothing was sent); -ENOTCONN; -EMSGSIZE.
 */
int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt,
		enum sl_rpc_class class, uint64_t now_ns, uint64_t *batch);
/*
 * The reply is not wanted any more: tells the backend; neither reply nor failed is called later.
 * `sent` and batch_done of its batch still are. An id that is not outstanding does no harm.
 */
void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id);

/* Once per loop: progress in both directions, timers. Returns messages received. */
unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns);
/* Posts what is queued, one doorbell per channel. */
void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns);
uint64_t sl_rpc_next_ns(const struct sl_rpc *r);

/*
 * Sleeping: add sl_rpc_fd() (one epoll fd) to the worker's wait; sl_rpc_arm() asks for events and
 * returns false if something arrived meanwhile (then poll again instead of sleeping).
 */
int sl_rpc_fd(const struct sl_rpc *r);
bool sl_rpc_arm(struct sl_rpc *r);
void sl_rpc_disarm(struct sl_rpc *r);

/* No new requests; GOAWAY to the peers. Channels with nothing outstanding go DOWN from poll. */
void sl_rpc_drain(struct sl_rpc *r);

struct sl_rpc_stats {
	uint64_t batches_sent, requests_sent, replies, failures, bytes_sent, bytes_received;
	uint64_t credit_stalls, messages_sent, messages_received, doorbells, bad_messages;
	uint64_t late_replies, cancels, timeouts;
	uint32_t outstanding, slots_free, slots;
};
void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out);

#endif
