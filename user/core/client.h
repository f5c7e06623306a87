/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection: TCP below, a front above, time-outs beside. An idle one holds this struct,
 * a TCP connection with its places in two tables, and nothing else: SL_CLIENT_IDLE_BYTES.
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
enum sl_client_proto { SL_CLIENT_NEW, SL_CLIENT_HTTP1, SL_CLIENT_H2 };

struct sl_client {
	struct sl_core *core;
	struct sl_tcp_conn *conn; /* NULL while the connection is being taken down */
	struct sl_timer timer;
	uint32_t next, prev; /* in core->client_head; index + 1, 0: none */
	uint32_t phase_ms;   /* since when, modulo 2^32 */
	uint32_t fair_addr;  /* hash of the source address */
	uint16_t streams;    /* exchanges under way */
	uint16_t reading;    /* of them, those whose body is not complete */
	uint8_t phase;
	uint8_t proto;     /* enum sl_client_proto */
	uint8_t first_len; /* bytes in `first` */
	bool paused : 1;   /* TCP keeps bytes that the front did not take */
	bool blocked : 1;  /* TCP did not take all bytes of a reply */
	bool closing : 1;
	bool in_input : 1;
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

extern const struct sl_tcp_ops sl_client_tcp_ops;
extern const struct sl_host_ops sl_client_host_ops;

void sl_client_timer(struct sl_client *cl);
/* The one behind cl, or the first for NULL; NULL at the end. */
struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl);
/* RST; frees it. */
void sl_client_abort(struct sl_client *cl);
void sl_client_drain(struct sl_client *cl);

#endif
