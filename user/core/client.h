/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection: a byte stream below (front/conn.h), a front above, and time-outs. An idle
 * connection on plain TCP takes SL_CLIENT_IDLE_BYTES.
 */
#ifndef SL_CORE_CLIENT_H
#define SL_CORE_CLIENT_H

#include "core/exchange.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "sock/sock.h"
#include "tcp/conn.h"

/* The next expected event; each phase has a configured time-out. */
enum sl_client_phase {
	SL_CLIENT_IDLE,  /* send the next request */
	SL_CLIENT_HEAD,  /* send the rest of a head; since its first byte (slowloris) */
	SL_CLIENT_BODY,  /* send more of a body */
	SL_CLIENT_WAIT,  /* deadlines of the exchanges apply */
	SL_CLIENT_SEND,  /* read its reply */
	SL_CLIENT_RESET, /* its timer aborts it now */
};

/* NEW: the first bytes have not come. */
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
		void *conn;               /* of TCP or sock; NULL: datagrams, or being taken down */
		struct sl_filter *filter; /* if filtered: the topmost */
	};
	struct sl_timer timer;
	uint32_t next, prev;   /* list in core->client_head; index + 1, 0: none */
	uint32_t phase_ms;     /* begin, modulo 2^32 */
	uint32_t quota;        /* index + 1; 0: datagrams, or address unknown */
	uint16_t streams;      /* exchanges */
	uint16_t reading;      /* exchanges with incomplete bodies */
	uint16_t listener;     /* index; each datagram has its own */
	uint8_t phase : 3;     /* enum sl_client_phase */
	uint8_t first_len : 3; /* bytes in `first` */
	bool drains : 1;       /* its first request is the last one */
	uint8_t proto : 3;     /* enum sl_client_proto */
	bool paused : 1;       /* front did not take all input */
	bool blocked : 1;      /* stream did not take all output */
	bool closing : 1;
	bool filtered : 1;
	bool kernel : 1; /* on a kernel socket */
	union {
		uint64_t state[SL_FRONT_STATE_SIZE / 8];
		uint8_t first[4]; /* before the protocol is known */
	};
};
SL_ASSERT_SIZE(struct sl_client, 2 * SL_CACHELINE);
_Static_assert(offsetof(struct sl_client, state) == SL_CACHELINE, "the front has its own line");

enum {
	/* Tables count with their largest share per entry. */
	SL_CLIENT_IDLE_BYTES = sizeof(struct sl_client) + sizeof(struct sl_tcp_conn) +
			       SL_FLOW_BYTES_MAX + SL_HANDOVER_FLOW_BYTES_MAX,
};
_Static_assert(SL_CLIENT_IDLE_BYTES <= 512, "the aim for an idle connection, all layers");

extern const struct sl_tcp_ops sl_client_tcp_ops; /* transport.c */
extern const struct sl_sock_ops sl_client_sock_ops;
extern const struct sl_conn_user sl_client_events;
extern const struct sl_front_ops *const sl_client_fronts[]; /* indexed by enum sl_client_proto */

/* Writes bytes of a front. Returns how many the stream took. These six are sl_front_cb's. */
size_t sl_client_write(void *conn, const void *bytes, size_t len);
/* Writes all bytes or none. False: the front is called when there is room. */
bool sl_client_write_head(void *conn, const void *bytes, size_t len);
/* Returns the room in bytes. If small, the front is called when there is more. */
size_t sl_client_room(void *conn);
/* Defers the rest of the input: calls `writable` after other connections. */
void sl_client_later(void *conn);
/* Charges frames to the address, or returns them if negative. False: over quota. */
bool sl_client_hold(void *conn, int32_t frames);
/* Closes the connection after its output, or aborts it if at_once, by a timer. */
void sl_client_close(void *conn, bool at_once);

/*
 * Creates the client of an accepted connection. NULL: no room, or draining. If awaits_proxy_header,
 * the client has no quota until a filter reports its address.
 */
struct sl_client *sl_client_open(struct sl_core *c, struct sl_conn transport,
				 const struct sl_conn_info *info, bool awaits_proxy_header);
/* Starts the header time-out for the filters. */
void sl_client_await_filters(struct sl_client *cl);
/* Called by the timer. May free the client. */
void sl_client_timer(struct sl_client *cl);
/* Answers 408 if possible, then closes. */
void sl_client_time_out(struct sl_client *cl);
/* Returns the next client, or the first for NULL; NULL: no more. */
struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl);
/* Sends RST; frees the client. */
SL_COLD void sl_client_abort(struct sl_client *cl);
/*
 * Closes the connection once idle. One that has sent nothing yet, or is within its TLS handshake,
 * has a second for its first bytes. The request that they begin is answered.
 */
void sl_client_drain(struct sl_client *cl);

/* Continues reading input that waited for room. Must not be called during a loan. */
void sl_client_progress(struct sl_client *cl);
/* Restarts the phase's time-out after a delay by the gateway. */
void sl_client_restart_timeout(struct sl_client *cl);

/* Returns the client's stream. */
extern const struct sl_conn_ops sl_client_tcp_stream;
static inline struct sl_conn sl_client_stream(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_conn(cl->filter)
			    : (struct sl_conn){cl->kernel ? &sl_sock_stream : &sl_client_tcp_stream,
					       cl->conn};
}
/* Returns the connection below all filters. */
static inline struct sl_conn sl_client_transport(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_bottom(cl->filter)->below : sl_client_stream(cl);
}
/*
 * Limits what the client may send, or restores the usual limit. Returns true if this is a change.
 */
static inline bool sl_client_narrow(const struct sl_client *cl, bool narrow)
{
	struct sl_conn t = sl_client_transport(cl);

	return t.ops->narrow(t.self, narrow);
}
/* Returns the current index of its local address's listener; -1: removed by a reload. */
int sl_client_find_listener(const struct sl_client *cl);

/* Returns the current listener of a client or datagram. SL_NO_LISTENER: removed by a reload. */
enum { SL_NO_LISTENER = UINT16_MAX };
static inline uint16_t sl_client_listener(const struct sl_client *cl)
{
	const struct sl_udp_peer *from = cl->core->datagram_from;

	return sl_unlikely(cl->proto == SL_CLIENT_DATAGRAM && from) ? from->listener : cl->listener;
}

/* Reads addresses and TLS facts (conn_addr.c). All zero: the connection has ended. */
void sl_client_addrs(const struct sl_client *cl, struct sl_conn_info *out);

/* Cause of a time-out (client_timeout.c). */
enum sl_client_due {
	SL_CLIENT_DUE_NOT,
	SL_CLIENT_DUE_PHASE,
	SL_CLIENT_DUE_HEAD,   /* in any phase */
	SL_CLIENT_DUE_UNREAD, /* of bytes in TCP */
};
/* Returns the time in this phase, rounded down. */
uint64_t sl_client_waited_ms(const struct sl_client *cl);
void sl_client_arm(struct sl_client *cl);
/* Returns the expired time-out, if any. */
enum sl_client_due sl_client_due(const struct sl_client *cl);

static inline const struct sl_front_ops *sl_client_front(const struct sl_client *cl)
{
	return sl_client_fronts[cl->proto];
}

/* Tells the front to pull a reply or open a window. May free the exchange. */
static inline void sl_client_ready(struct sl_client *cl, struct sl_stream *st)
{
	sl_client_front(cl)->ready(cl->state, &cl->core->env, st);
}

/* Returns the address's quota, or the shared one of unproven addresses. */
static inline struct sl_addr_quota *sl_client_quota(const struct sl_client *cl)
{
	struct sl_addr_quotas *t = &cl->core->quotas;

	return cl->quota ? sl_mempool_at(&t->pool, cl->quota - 1) : &t->unproven;
}

/* Opens the client of all datagrams. It is on no list and never idle. */
void sl_client_open_datagrams(struct sl_client *cl, struct sl_core *c);
/* Closes its front and all its exchanges. */
void sl_client_close_datagrams(struct sl_client *cl);

#endif
