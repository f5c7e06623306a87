/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection: a byte stream below (front/conn.h), a front above, and time-outs. Worker's
 * thread only.
 */
#ifndef SL_CORE_CLIENT_H
#define SL_CORE_CLIENT_H

#include "core/exchange.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "sock/sock.h"
#include "tcp/conn.h"

/* The event awaited; each phase has a time-out. */
enum sl_client_phase {
	SL_CLIENT_IDLE, /* send the next request */
	SL_CLIENT_HEAD, /* send the rest of a head; since its first byte (slowloris) */
	SL_CLIENT_BODY,
	SL_CLIENT_WAIT, /* deadlines of the exchanges apply */
	SL_CLIENT_SEND, /* read its reply */
	SL_CLIENT_RESET,
};

enum sl_client_proto {
	SL_CLIENT_NEW,
	SL_CLIENT_HTTP1,
	SL_CLIENT_H2,
	SL_CLIENT_DATAGRAM,
	SL_CLIENT_MIRROR
};

struct sl_client {
	struct sl_core *core;
	union {
		void *conn; /* from TCP or sock; NULL: datagrams, or being taken down */
		struct sl_filter *filter; /* if filtered: the topmost */
	};
	struct sl_timer timer;
	uint32_t next, prev; /* list in core->client_head; index + 1, 0: none */
	uint32_t phase_ms;   /* begin, modulo 2^32 */
	uint32_t quota;      /* index + 1; 0: datagrams, or address unknown */
	uint16_t streams;    /* exchanges */
	uint16_t reading;    /* exchanges with incomplete bodies */
	uint16_t listener;
	uint8_t phase : 3;     /* enum sl_client_phase */
	uint8_t first_len : 3; /* bytes in `first` */
	bool drains : 1;       /* its first request is the last one */
	bool proxied : 1;      /* a PROXY header names its address */
	uint8_t proto : 3;     /* enum sl_client_proto */
	bool paused : 1;       /* front did not take all input */
	bool blocked : 1;      /* stream did not take all output */
	bool closing : 1;
	bool filtered : 1;
	bool kernel : 1;
	union {
		uint64_t state[SL_FRONT_STATE_SIZE / 8];
		uint8_t first[4]; /* before the protocol is known */
	};
};
SL_ASSERT_SIZE(struct sl_client, 2 * SL_CACHELINE);
_Static_assert(offsetof(struct sl_client, state) == SL_CACHELINE, "the front has its own line");

enum {
	/* tables: their largest share per entry */
	SL_CLIENT_IDLE_BYTES = sizeof(struct sl_client) + sizeof(struct sl_tcp_conn) +
			       SL_FLOW_BYTES_MAX + SL_HANDOVER_FLOW_BYTES_MAX,
};
_Static_assert(SL_CLIENT_IDLE_BYTES <= 512, "the aim for an idle connection, all layers");

extern const struct sl_tcp_ops sl_client_tcp_ops;
extern const struct sl_sock_ops sl_client_sock_ops;
extern const struct sl_conn_user sl_client_events;
extern const struct sl_front_ops *const sl_client_fronts[];

/*
 * Writes to the client. Returns the bytes taken: fewer than len: writable() follows. These six are
 * sl_front_cb's.
 */
size_t sl_client_write(void *conn, const void *bytes, size_t len);
/* Writes all or nothing. False: too little room; writable() follows. */
bool sl_client_write_head(void *conn, const void *bytes, size_t len);
/* Returns how many bytes fit. If few, writable() follows. */
size_t sl_client_room(void *conn);
/* Defers input until other connections were read. */
void sl_client_later(void *conn);
/* Charges frames to the address; negative: returns them. Returns false, counted, if over quota. */
bool sl_client_hold(void *conn, int32_t frames);
/* Closes the connection after its output; at_once: resets it, by a timer. */
void sl_client_close(void *conn, bool at_once);

/*
 * Returns a client, freed when its stream closes; NULL: no room, over quota, or draining.
 * awaits_proxy_header: no quota until a filter reports the address.
 */
struct sl_client *sl_client_open(struct sl_core *c, struct sl_conn transport,
				 const struct sl_conn_info *info, bool awaits_proxy_header);
/* Limits the time of handshakes. Called once the client has filters. */
void sl_client_await_filters(struct sl_client *cl);
/* Called by the timer: ends a late client, perhaps frees it, or sets the timer again. */
void sl_client_timer(struct sl_client *cl);
/* Lets the front end the connection, with 408 if possible. Needs a front. */
void sl_client_time_out(struct sl_client *cl);
/* Returns the client behind cl, or the first (NULL); NULL: none. */
struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl);
/* Resets the connection and frees the client with its exchanges. */
SL_COLD void sl_client_abort(struct sl_client *cl);
/* Closes the connection once idle. A first request may still come within a second. */
void sl_client_drain(struct sl_client *cl);

/* Reads input that waited for room. May free exchanges. Not during a loan. */
void sl_client_progress(struct sl_client *cl);
/* Restarts the phase's time-out after a delay by the gateway. */
void sl_client_restart_timeout(struct sl_client *cl);

extern const struct sl_conn_ops sl_client_tcp_stream;
/* Returns the topmost stream: the last filter, or the transport. Valid while cl->conn is set. */
static inline struct sl_conn sl_client_stream(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_conn(cl->filter)
			    : (struct sl_conn){cl->kernel ? &sl_sock_stream : &sl_client_tcp_stream,
					       cl->conn};
}
/* Returns the lowest stream: TCP or a socket. */
static inline struct sl_conn sl_client_transport(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_bottom(cl->filter)->below : sl_client_stream(cl);
}
/* Makes the receive window small, or large again. Returns true for a change. Needs cl->conn. */
static inline bool sl_client_narrow(const struct sl_client *cl, bool narrow)
{
	struct sl_conn t = sl_client_transport(cl);

	return t.ops->narrow(t.self, narrow);
}
/* Returns the index of its listener, or -1 if removed. Needs cl->conn. */
int sl_client_find_listener(const struct sl_client *cl);

enum { SL_NO_LISTENER = UINT16_MAX };
/* Returns the listener's index, or SL_NO_LISTENER if a reload removed it. */
static inline uint16_t sl_client_listener(const struct sl_client *cl)
{
	const struct sl_udp_peer *from = cl->core->datagram_from;

	return sl_unlikely(cl->proto == SL_CLIENT_DATAGRAM && from) ? from->listener : cl->listener;
}

/*
 * Describes the connection; all but the listener is zero once it has ended. Texts live as long as
 * cl->conn.
 */
void sl_client_addrs(const struct sl_client *cl, struct sl_conn_info *out);

enum sl_client_due {
	SL_CLIENT_DUE_NOT,
	SL_CLIENT_DUE_PHASE,
	SL_CLIENT_DUE_HEAD,   /* in any phase */
	SL_CLIENT_DUE_UNREAD, /* bytes in TCP */
};
/* Returns the time in this phase, rounded down. */
uint64_t sl_client_waited_ms(const struct sl_client *cl);
/* Sets the timer to the earliest limit of the client. */
void sl_client_arm(struct sl_client *cl);
/* Returns which limit has passed. */
enum sl_client_due sl_client_due(const struct sl_client *cl);

/* Returns the functions of the client's protocol. */
static inline const struct sl_front_ops *sl_client_front(const struct sl_client *cl)
{
	return sl_client_fronts[cl->proto];
}

/* Calls the front: a reply or window is ready. May free the exchange. */
static inline void sl_client_ready(struct sl_client *cl, struct sl_stream *st)
{
	sl_client_front(cl)->ready(cl->state, &cl->core->env, st);
}

/* Returns the address's quota, or that of all unproven addresses. */
static inline struct sl_addr_quota *sl_client_quota(const struct sl_client *cl)
{
	struct sl_addr_quotas *t = &cl->core->quotas;

	return cl->quota ? sl_mempool_at(&t->pool, cl->quota - 1) : &t->unproven;
}

/* Sets up the zeroed client of all datagrams, on no list and never idle. */
void sl_client_open_datagrams(struct sl_client *cl, struct sl_core *c);
/* Ends the datagrams' exchanges. */
void sl_client_close_datagrams(struct sl_client *cl);

#endif
