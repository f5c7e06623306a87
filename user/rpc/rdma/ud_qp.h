/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UD queue pair with its own buffers. The service thread allocates most of them once a poll finds
 * half of the first in use, or no send buffer is free.
 *
 *   tx: buffers in order; [done .. posted) the device's, [posted .. head) chained, then unused
 *   rx: posted, or lent to the caller of poll until reposted
 */
#ifndef SL_RPC_RDMA_UD_QP_H
#define SL_RPC_RDMA_UD_QP_H

#include "rpc/rdma/device.h"

/* See device.h. */
struct ud_qp *ud_qp_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			 uint32_t tx_cnt, int *rc);
void ud_qp_close(struct ud_qp *base);
uint8_t *ud_qp_tx_buf(struct ud_qp *base);
void ud_qp_send(struct ud_qp *base, struct ibv_ah *ah, uint32_t qpn, uint32_t len);
int ud_qp_flush(struct ud_qp *base);
int ud_qp_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max);
bool ud_qp_is_from(const struct ud_packet *p, const uint8_t gid[16]);
int ud_qp_repost(struct ud_qp *base, const struct ud_packet *packets, unsigned cnt);
bool ud_qp_arm(struct ud_qp *base);
void ud_qp_ack_event(struct ud_qp *base);

#endif
