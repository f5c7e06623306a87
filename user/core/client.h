/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection: TCP below, a front above, time-outs beside. An idle one holds this struct,
 * a TCP connection and nothing else.
 */
#ifndef SL_CORE_CLIENT_H
#define SL_CORE_CLIENT_H

#include "core/exchange.h"

/* What is waited for; each has its time-out in the configuration. */
enum sl_client_phase {
	SL_CLIENT_IDLE,  /* for a next request */
	SL_CLIENT_HEAD,  /* for the rest of a head; from its first byte (slowloris) */
	SL_CLIENT_BODY,  /* for more of a body */
	SL_CLIENT_WAIT,  /* for a backend: deadlines of the exchanges apply */
	SL_CLIENT_SEND,  /* for the client to read */
	SL_CLIENT_RESET, /* to be aborted by its timer, now */
};

struct sl_client {
	struct sl_core *core;
	struct sl_tcp_conn *conn;         /* NULL while the connection is being taken down */
	const struct sl_front_ops *front; /* NULL until the first bytes told which */
	struct sl_list link;              /* core->client_list */
	struct sl_timer timer;
	uint64_t phase_ns;
	uint32_t fair_addr; /* hash of the source address */
	uint16_t streams;   /* exchanges under way */
	uint16_t reading;   /* of them, those whose body is not complete */
	uint8_t phase;
	uint8_t first_len;
	uint8_t first[4]; /* bytes that came before the protocol was known */
	bool paused : 1;  /* TCP keeps bytes that the front did not take */
	bool blocked : 1; /* TCP did not take all bytes of a reply */
	bool closing : 1;
	bool in_input : 1;
	uint64_t state[SL_FRONT_STATE_SIZE / 8];
};

extern const struct sl_tcp_ops sl_client_tcp_ops;
extern const struct sl_host_ops sl_client_host_ops;

void sl_client_timer(struct sl_client *cl);
/* RST; frees it. */
void sl_client_abort(struct sl_client *cl);
void sl_client_drain(struct sl_client *cl);

#endif
