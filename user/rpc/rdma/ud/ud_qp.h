/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair for datagrams, with slots of its own to receive into and to send from: what it takes does
 * not grow with those who use it. It begins with a bufs of them, as registering memory is most of what it
 * takes to make one. Once a poll finds something in half of these, or none is left to send from, the rest
 * is made, by the thread that hears of devices (rdma/async_event.c), and taken by the next polls. These are
 * the members of rdma_device_ibv (device.h).
 *
 *   tx: slots in turn; [done .. posted) are the device's, [posted .. head) chained, behind it unused
 *   rx: each slot is in the receive queue, or of whoever polled it until put back
 */
#ifndef SL_RPC_RDMA_UD_QP_H
#define SL_RPC_RDMA_UD_QP_H

#include "rpc/rdma/device.h"

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

/* The rest of those who want it. Blocks, as does meanwhile who closes one of these; one thread calls it. */
void ud_qps_grow(void);

#endif
