/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's end of the RPC: one struct sl_rpc per worker, one channel per backend.
 *
 *   core -> sl_rpc_send() -> session (ids, fragments) -> send queue (classes) -> credits -> transport
 *   core <- sl_rpc_ops    <- session <------------------------------------------------ transport
 *                                                                            (shm | rdma | tcp)
 *
 * Bytes given to sl_rpc_send() must not change until `sent`. Item and span arrays are not needed
 * after the call. A reply's bytes are valid during the upcall. `meta` is a private copy; the backend
 * can still change `body`: copy it before parsing.
 *
 * Upcalls come from sl_rpc_poll(), _flush, _adopt, _drain and _destroy only. They may call
 * sl_rpc_send() and sl_rpc_cancel(). One thread, the worker, uses a session, unless stated
 * otherwise.
 */
#ifndef SL_RPC_RPC_H
#define SL_RPC_RPC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "base/err.h"
#include "wire/rpc_wire.h"

struct sl_rpc;
struct sl_rpc_channel;
struct sl_transport;

enum sl_rpc_state { SL_RPC_DOWN, SL_RPC_CONNECTING, SL_RPC_UP, SL_RPC_DRAINING };

enum sl_rpc_failure {
	SL_RPC_FAIL_DOWN,    /* not sent: safe to send elsewhere */
	SL_RPC_FAIL_LOST,    /* sent: safe to repeat only if idempotent */
	SL_RPC_FAIL_TIMEOUT, /* no reply within budget + grace */
	SL_RPC_FAIL_PROTOCOL,
};

struct sl_rpc_item {
	void *cookie;
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len; /* payload */
	uint16_t meta_len;
	bool idempotent;
	bool compressed;
	bool stream;  /* a batch of one, without payload */
	bool open;    /* stream: more parts follow */
	bool expects; /* stream: awaits 100 (Continue) */
	uint8_t class;
	uint64_t budget_us; /* 0: none */
	uint64_t id;        /* out: for sl_rpc_cancel() */
};

struct sl_rpc_reply {
	uint8_t status; /* enum sl_rpc_status */
	bool first, last;
	bool more;
	bool no_message; /* gRPC */
	bool compressed;
	uint64_t total_len;  /* of this message; with the first part */
	struct sl_span meta; /* with the first part */
	struct sl_span body;
	uint32_t service_us;
	uint32_t together; /* requests in the backend's batch; 0: unknown */
};

struct sl_rpc_batch_end {
	uint64_t batch, sent_ns;
	bool stream;
	uint32_t count;
	uint32_t answered;   /* with SL_RPC_OK */
	uint32_t together;   /* largest; 0: unknown */
	uint32_t service_us; /* largest; 0: unknown */
};

/* Debug builds: what happens to a batch's bytes. */
enum sl_rpc_watch {
	SL_RPC_LENT,     /* must not change any more */
	SL_RPC_READ,     /* a post reads them */
	SL_RPC_RETURNED, /* `sent` follows */
};

struct sl_rpc_ops {
	/* A reply, or a part of one. The cookie is not used after `last` without `more`. */
	void (*reply)(void *app, void *cookie, const struct sl_rpc_reply *r);
	/* The request ended before its reply was complete. */
	void (*failed)(void *app, void *cookie, enum sl_rpc_failure why);
	/*
	 * All requests have ended. A request counts as answered when its last message begins to
	 * arrive, or its reply waits for the caller (sl_rpc_reply_kept()).
	 */
	void (*batch_done)(void *app, void *app_data, const struct sl_rpc_batch_end *end);
	/* The transport does not read the bytes any more. Once per batch, before batch_done. */
	void (*sent)(void *app, void *app_data, uint64_t batch);
	/* The state has changed, or sl_rpc_channel_port_down(). */
	void (*state)(void *app, void *app_data, enum sl_rpc_state state);
	/* A migration has ended; gone_on: it succeeded. */
	void (*moved)(void *app, void *app_data, bool gone_on);
	/* See sl_rpc_part_credit(). */
	void (*credit)(void *app, void *cookie);
	/* The backend wants the rest of a stream with `expects`. Once, before any reply. */
	void (*go_on)(void *app, void *cookie);
	/* At most SL_RPC_MAX_INTERIM, before any reply. */
	void (*interim)(void *app, void *cookie, struct sl_span meta);
	/* Debug builds; may be NULL. */
	void (*watch)(void *app, enum sl_rpc_watch what, const struct sl_span *spans, uint32_t cnt);
};

struct sl_rpc_config {
	uint32_t max_outstanding; /* per worker */
	uint32_t bulk_ring_len;   /* bytes per direction; 0: the transport's default */
	uint32_t slots;           /* per direction */
	uint64_t ping_interval_ns;
	/*
	 * Minimum silence before a channel with outstanding requests ends: the backend may be
	 * computing.
	 */
	uint64_t dead_after_ns;
	uint64_t grace_ns; /* beyond the budget */
	bool one_class;    /* FIFO, for comparison */
};
/* Sets the values of a gateway without configuration. */
void sl_rpc_config_default(struct sl_rpc_config *cfg);

/* Large sends may reference this memory. Registered with each RDMA device in use. */
struct sl_rpc_memory {
	void *addr;
	size_t len;
};

/*
 * Returns NULL without memory or descriptors. `mem` may be NULL; its area and `ops` must outlive
 * it.
 */
struct sl_rpc *sl_rpc_create(const struct sl_rpc_config *cfg, const struct sl_rpc_memory *mem,
			     const struct sl_rpc_ops *ops, void *app);
/* Ends and frees all channels, with upcalls. Waits about 50 ms. NULL does nothing. */
void sl_rpc_destroy(struct sl_rpc *r);

/* Adds a channel, DOWN until sl_rpc_adopt(). Copies the name. NULL: no memory. */
struct sl_rpc_channel *sl_rpc_channel_add(struct sl_rpc *r, const char *name, void *app_data);
/* The same in two steps: makes a channel. Any thread. NULL: no memory. */
struct sl_rpc_channel *sl_rpc_channel_new(const char *name, void *app_data);
/* Frees a channel that never joined. Any thread. */
void sl_rpc_channel_free(struct sl_rpc_channel *ch);
/* Adds the channel, which the session owns then. */
void sl_rpc_channel_join(struct sl_rpc *r, struct sl_rpc_channel *ch);
/* Sends GOAWAY: no request follows. DOWN follows when none is outstanding. */
void sl_rpc_channel_drain(struct sl_rpc_channel *ch);
/* Frees a channel that is DOWN. Not from within an upcall. */
void sl_rpc_channel_remove(struct sl_rpc_channel *ch);
/* Returns DOWN, UP or DRAINING. */
enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch);
/* Returns true while the port is down: sends wait. */
bool sl_rpc_channel_port_down(const struct sl_rpc_channel *ch);

/* Path to an rdma endpoint; zero: as routes give it. */
struct sl_rpc_rdma {
	const char *source; /* local address; NULL: the route's */
	const char *device; /* NULL: that of the source address */
	uint8_t port;       /* 0: any */
	uint8_t tos;        /* both directions */
};
struct sl_rpc_dial_options {
	const char *endpoint;
	const char *key_file;
	const struct sl_rpc_memory *mem;
	uint32_t bulk_ring_len, slots; /* as in sl_rpc_config */
	unsigned timeout_ms;
	uint16_t worker; /* of the gateway; a client's number. RC: one interface for each */
	struct sl_rpc_rdma rdma;
	uint32_t owner; /* shm: user that may listen, besides root and ours */
	/* sl_rpc_adopt() migrates the link of this number, if `resumes`. */
	uint64_t link;
	bool resumes;
};
/* Returns an unguessable number; 0: no randomness. Any thread. */
uint64_t sl_rpc_link_number(void);
/*
 * Connects to an endpoint of sluice/backend.h. Returns a transport for sl_rpc_adopt() or
 * sl_rpc_dial_drop(); or NULL and err. Any thread; blocks for at most timeout_ms.
 */
struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, struct sl_err *err);
/* Closes a transport that was not adopted, or NULL. */
void sl_rpc_dial_drop(struct sl_transport *t);
/* Returns a line such as "rdma rxe0/1 ... mtu 1024 RC ...", valid as long as the transport. */
const char *sl_rpc_transport_info(const struct sl_transport *t);
/* Returns our number of a virtual connection; 0: not virtual. */
uint32_t sl_rpc_transport_number(const struct sl_transport *t);
/* Returns the number of the peer's process. */
uint64_t sl_rpc_transport_peer(const struct sl_transport *t);
enum sl_rpc_probe_result {
	SL_RPC_PROBE_NONE,
	SL_RPC_PROBE_REFUSED, /* not authenticated */
	SL_RPC_PROBE_ALIVE,   /* authenticated */
	SL_RPC_PROBE_REMOVED, /* authenticated: the peer has restarted or ended it */
};
/* Asks the peer about our connection `number`. Any thread; blocks for at most timeout_ms. */
enum sl_rpc_probe_result sl_rpc_probe_peer(const struct sl_rpc_dial_options *opt, uint32_t number);
/* Describes the path, without asking the peer; may block. Returns 0 or -errno. */
int sl_rpc_route_info(const char *endpoint, const struct sl_rpc_rdma *rdma, char *text, size_t len);

struct ibv_context;
/* Tests SRQ and memory windows by messages. Returns NULL or what does not work. */
const char *sl_rpc_rdma_selftest(struct ibv_context *device, uint8_t port);

/* Returns true if resolving the endpoint needs files or servers. */
bool sl_rpc_has_name(const char *endpoint);

/* Loads libibverbs providers and OpenSSL while mapping code is allowed. */
void sl_rpc_preload(void);

/*
 * Brings the channel UP on this transport, or migrates it (`resumes`; ops->moved follows). Returns
 * 0; or closes the transport: -EINVAL (wrong state or peer), -EUSERS (too many sleepers), -errno.
 */
int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns);

/* Ends the channel if its transport has that number. */
void sl_rpc_peer_removed(struct sl_rpc_channel *ch, uint32_t number);

/*
 * Sends items as one batch, in one message per class. Returns 0 and the batch number, or sends
 * nothing: -EAGAIN if queue, table or memory is full; other errors are permanent.
 */
int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns,
		uint64_t *batch);
/* Cancels a request: no reply or failed follows; `sent` and batch_done do. Ignores unknown ids. */
void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id);
/* Changes a request's cookie. Ignores unknown ids. */
void sl_rpc_set_cookie(struct sl_rpc_channel *ch, uint64_t id, void *cookie);

/* A piece of a stream's message. */
struct sl_rpc_part {
	const struct sl_span *spans;
	uint32_t span_cnt;
	uint32_t len;
	uint32_t rest; /* of the message */
	bool compressed;
	bool end; /* the spans are the stream's metadata, up to SL_RPC_MAX_ASKED */
};
/*
 * Returns how much a part (its length, at least SL_RPC_MIN_COST) may cost now. 0: no credit, or not
 * open.
 */
uint32_t sl_rpc_part_credit(struct sl_rpc_channel *ch, uint64_t id);
/* Sends a copy. Returns 0, -EAGAIN (memory or queue full), or -EINVAL (over credit, not open). */
int sl_rpc_send_part(struct sl_rpc_channel *ch, uint64_t id, const struct sl_rpc_part *part,
		     enum sl_rpc_class class, uint64_t now_ns);

/*
 * The caller keeps that many bytes of an unfinished reply. Required when that falls, and at the end
 * of each upcall. The peer gets credit up to SL_RPC_INITIAL_WINDOW (most streams:
 * SL_RPC_STREAM_WINDOW).
 */
void sl_rpc_reply_kept(struct sl_rpc_channel *ch, uint64_t id, uint64_t kept);

/*
 * Makes progress in both directions, runs timers; once per loop. Returns the number of messages
 * (between arm and disarm also events); do not sleep unless 0.
 */
unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns);
/* Posts what is queued, one doorbell per channel. */
void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns);
/* Returns the latest time for sl_rpc_poll(). */
uint64_t sl_rpc_next_ns(const struct sl_rpc *r);
/* Returns the number of outstanding requests. */
uint32_t sl_rpc_asked(const struct sl_rpc *r);

/* Returns an epoll fd to wait for, owned by the session. */
int sl_rpc_fd(const struct sl_rpc *r);
/* Prepares a sleep. False: something arrived: poll again, without disarm. */
bool sl_rpc_arm(struct sl_rpc *r);
/*
 * Ends the sleep. `rang`: the fd is readable, or was not checked; events left there end the next
 * sleep.
 */
void sl_rpc_disarm(struct sl_rpc *r, bool rang);

struct sl_rpc_stats {
	uint64_t batches_sent, requests_sent, replies, failures, bytes_sent, bytes_received;
	uint64_t credit_stalls, messages_sent, messages_received, doorbells, bad_messages;
	uint64_t late_replies, cancels, timeouts;
	uint64_t over_credit; /* channels lost: the peer sent beyond its credit */
	uint64_t no_slot;     /* channels lost: the peer repeatedly had no slot */
	/* connections unknown to the peer */
	uint64_t peer_restarts;
	uint64_t datagrams_retransmitted, datagrams_duplicate, datagrams_bad_mac;
	uint32_t outstanding, slots_free, slots;
};
/* Both directions, with PINGs. Any thread, while the worker counts. */
struct sl_rpc_traffic {
	uint64_t messages, bytes, waits;
};
/* Reads the counters. Any thread. */
void sl_rpc_channel_traffic(const struct sl_rpc_channel *ch, struct sl_rpc_traffic *out);

/* Returns since when a virtual connection's peer has owed an answer; 0: no. Any thread. */
uint64_t sl_rpc_channel_silent_ns(const struct sl_rpc_channel *ch);

/* Returns how many received datagrams belonged to no connection. */
uint64_t sl_rpc_unmatched(const struct sl_rpc *r);
/* Reads all counters. */
void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out);

#endif
