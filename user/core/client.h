/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection: a byte stream below (front/conn.h), a front above, time-outs beside. An idle
 * one on plain TCP holds this struct, a TCP connection with its places in two tables, and nothing
 * else: SL_CLIENT_IDLE_BYTES.
 */
#ifndef SL_CORE_CLIENT_H
#define SL_CORE_CLIENT_H

#include "core/exchange.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "tcp/conn.h"

/* What is waited for; each has its time-out in the configuration. */
enum sl_client_phase {
	SL_CLIENT_IDLE,  /* for a next request */
	SL_CLIENT_HEAD,  /* for the rest of a head; from its first byte (slowloris) */
	SL_CLIENT_BODY,  /* for more of a body */
	SL_CLIENT_WAIT,  /* for a backend: deadlines of the exchanges apply */
	SL_CLIENT_SEND,  /* for the client to read */
	SL_CLIENT_RESET, /* to be aborted by its timer, now */
};

/* Who speaks on it; unknown until its first bytes told. */
enum sl_client_proto { SL_CLIENT_NEW, SL_CLIENT_HTTP1, SL_CLIENT_H2, SL_CLIENT_DATAGRAM };

struct sl_client {
	struct sl_core *core;
	union {
		struct sl_tcp_conn
			*conn; /* NULL: datagrams, or the connection is being taken down */
		struct sl_filter *filter; /* `filtered`: the topmost */
	};
	struct sl_timer timer;
	uint32_t next, prev; /* in core->client_head; index + 1, 0: none */
	uint32_t phase_ms;   /* since when, modulo 2^32 */
	uint32_t quota; /* of its address: index + 1; 0: unproven, of datagrams, or not told yet */
	uint16_t streams;      /* exchanges under way */
	uint16_t reading;      /* of them, those whose body is not complete */
	uint16_t listener;     /* that it came in by; of datagrams each has its own */
	uint8_t phase : 3;     /* enum sl_client_phase */
	uint8_t proto : 2;     /* enum sl_client_proto */
	uint8_t first_len : 3; /* bytes in `first` */
	bool paused : 1;       /* the stream keeps bytes that the front did not take */
	bool blocked : 1;      /* the stream did not take all bytes of a reply */
	bool closing : 1;
	bool filtered : 1;
	union {
		uint64_t state[SL_FRONT_STATE_SIZE / 8];
		uint8_t first[4]; /* what came before the protocol was known */
	};
};
SL_ASSERT_SIZE(struct sl_client, 2 * SL_CACHELINE);
_Static_assert(offsetof(struct sl_client, state) == SL_CACHELINE, "the front has its own line");

enum {
	/* Pools keep nothing beside their objects; the tables count at their emptiest. */
	SL_CLIENT_IDLE_BYTES = sizeof(struct sl_client) + sizeof(struct sl_tcp_conn) +
			       SL_FLOW_BYTES_MAX + SL_HANDOVER_FLOW_BYTES_MAX,
};
_Static_assert(SL_CLIENT_IDLE_BYTES <= 512, "the aim for an idle connection, all layers");

extern const struct sl_tcp_ops sl_client_tcp_ops;  /* transport.c */
extern const struct sl_conn_user sl_client_events; /* what the stream below tells a client */
extern const struct sl_front_ops *const sl_client_fronts[]; /* by enum sl_client_proto */

/* What a front asks of its client, as in struct sl_front_cb. */
size_t sl_client_write(void *conn, const void *bytes, size_t len);
bool sl_client_write_head(void *conn, const void *bytes, size_t len);
size_t sl_client_room(void *conn);
void sl_client_later(void *conn);
bool sl_client_hold(void *conn, int32_t frames);
void sl_client_close(void *conn, bool at_once);

/*
 * A client on an accepted connection. NULL: there is no room, or the worker drains. `awaits_proxy_header`: who it
 * is will be told by a filter, and it has no account until then.
 */
struct sl_client *sl_client_open(struct sl_core *c, struct sl_tcp_conn *conn,
				 const struct sl_conn_info *info, bool awaits_proxy_header);
/* Its filters have something to say first: waited for as a head is. */
void sl_client_await_filters(struct sl_client *cl);
void sl_client_timer(struct sl_client *cl);
/* It was too slow with a head or body: told if that can be, then closed. */
void sl_client_time_out(struct sl_client *cl);
/* The one behind cl, or the first for NULL; NULL at the end. */
struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl);
/* RST; frees it. */
SL_COLD void sl_client_abort(struct sl_client *cl);
void sl_client_drain(struct sl_client *cl);

/* A reply may have left: input that waited for that goes on. Not from within a loan. */
void sl_client_progress(struct sl_client *cl);
/* Nobody can blame it for what it sends or does not: its time begins anew. */
void sl_client_restart_timeout(struct sl_client *cl);

/* The stream that it uses, and the connection at the bottom of it. */
extern const struct sl_conn_ops sl_client_tcp_stream;
static inline struct sl_conn sl_client_stream(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_conn(cl->filter)
			    : (struct sl_conn){&sl_client_tcp_stream, cl->conn};
}
static inline struct sl_tcp_conn *sl_client_tcp(const struct sl_client *cl)
{
	return cl->filtered ? sl_filter_bottom(cl->filter)->below.self : cl->conn;
}

/*
 * The listener that what it says came in by: index in the configuration that is in force.
 * SL_NO_LISTENER, which is none's: it has gone in a reload.
 */
enum { SL_NO_LISTENER = UINT16_MAX };
static inline uint16_t sl_client_listener(const struct sl_client *cl)
{
	const struct sl_udp_peer *from = cl->core->datagram_from;

	return sl_unlikely(cl->proto == SL_CLIENT_DATAGRAM && from) ? from->listener : cl->listener;
}

/* conn_addr.c: who is at its ends; all zero: nobody any more. */
void sl_client_addrs(const struct sl_client *cl, struct sl_conn_info *out);

/* client_timeout.c: for how long it has been in its phase; sets its timer; what it is late with. */
enum sl_client_due {
	SL_CLIENT_DUE_NOT,
	SL_CLIENT_DUE_PHASE,
	SL_CLIENT_DUE_HEAD,   /* whatever the phase waits for */
	SL_CLIENT_DUE_UNREAD, /* with taking what TCP has for it */
};
uint64_t sl_client_waited_ms(const struct sl_client *cl);
void sl_client_arm(struct sl_client *cl);
enum sl_client_due sl_client_due(const struct sl_client *cl);

static inline const struct sl_front_ops *sl_client_front(const struct sl_client *cl)
{
	return sl_client_fronts[cl->proto];
}

/* There is something to pull, or a window to open; the exchange may be gone afterwards. */
static inline void sl_client_ready(struct sl_client *cl, struct sl_stream *st)
{
	sl_client_front(cl)->ready(cl->state, &cl->core->env, st);
}

static inline struct sl_addr_quota *sl_client_quota(const struct sl_client *cl)
{
	struct sl_addr_quotas *t = &cl->core->quotas;

	return cl->quota ? sl_mempool_at(&t->pool, cl->quota - 1) : &t->unproven;
}

/* The client that stands for all who send datagrams; on no list, never idle. */
void sl_client_open_datagrams(struct sl_client *cl, struct sl_core *c);
void sl_client_close_datagrams(struct sl_client *cl);

#endif
