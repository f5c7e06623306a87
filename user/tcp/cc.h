/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control: how cwnd grows and by how much a loss lowers it. Recovery itself (what is
 * lost, PRR) is the same for all and lives in recovery.c.
 */
#ifndef SL_TCP_CC_H
#define SL_TCP_CC_H

#include <stdint.h>

struct sl_tcp_conn;

struct sl_tcp_cc_ops {
	const char *name;
	/* Connection established, or slow start begins again after a timeout. */
	void (*start)(struct sl_tcp_conn *c);
	/* Bytes were acknowledged outside fast recovery while cwnd was the limit. */
	void (*acked)(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
	/* A loss: returns the new ssthresh; cwnd is still that of before. */
	uint32_t (*loss)(struct sl_tcp_conn *c);
	/* Fast recovery is over, cwnd is set; the union conn.cc is free again. */
	void (*recovered)(struct sl_tcp_conn *c);
};

extern const struct sl_tcp_cc_ops sl_tcp_cc_cubic;
extern const struct sl_tcp_cc_ops sl_tcp_cc_newreno;

/* Slow start with HyStart++ (RFC 9406), shared by both. */
void sl_tcp_slow_start_begin(struct sl_tcp_conn *c);
/*
 * Returns the bytes that are left for congestion avoidance. The union conn.cc is then that one's,
 * and zero when slow start has just ended.
 */
uint32_t sl_tcp_slow_start_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
/* It has no part in what follows; the union is zero. */
void sl_tcp_slow_start_end(struct sl_tcp_conn *c);

#endif
