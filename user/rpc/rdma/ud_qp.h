/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UD queue pair with buffers. The service thread allocates most of them on demand.
 *
 *   tx: buffers in order; [done .. posted) the device's, [posted .. head) chained, then unused
 *   rx: posted, or lent to the caller of poll until reposted
 */
#ifndef SL_RPC_RDMA_UD_QP_H
#define SL_RPC_RDMA_UD_QP_H

#include "rpc/rdma/device.h"

/* Opens a UD queue pair (device.h). Returns NULL and -errno in *rc. */
struct ud_qp *ud_qp_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			 uint32_t tx_cnt, int *rc);
/* Closes the queue pair. */
void ud_qp_close(struct ud_qp *base);
/* Returns a buffer for ud_qp_send(); NULL: all in use. */
uint8_t *ud_qp_tx_buf(struct ud_qp *base);
/* Queues the buffer for ud_qp_flush(). */
void ud_qp_send(struct ud_qp *base, struct ibv_ah *ah, uint32_t qpn, uint32_t len);
/* Posts queued datagrams. Returns 0 or -EIO. */
int ud_qp_flush(struct ud_qp *base);
/* Receives up to `max` datagrams, reposted in order. Returns their number or -EIO. */
int ud_qp_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max);
/* Returns false if the GRH names another source. */
bool ud_qp_is_from(const struct ud_packet *p, const uint8_t gid[16]);
/* Gives receive buffers back. Returns 0 or -errno. */
int ud_qp_repost(struct ud_qp *base, const struct ud_packet *packets, unsigned cnt);
/* Requests an event. Returns false: poll again. */
bool ud_qp_arm(struct ud_qp *base);
/* Takes an event, if any. */
void ud_qp_ack_event(struct ud_qp *base);

#endif
