/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "rpc/verbs/verbs.h"

enum {
	GRH = 40,   /* in front of each datagram that was received */
	CHAIN = 32, /* datagrams of one doorbell */
};

struct pair {
	struct ud_pair base;
	struct ibv_comp_channel *bell;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
	size_t map_len;
	uint32_t rx_cnt, tx_cnt; /* slots; tx_cnt is a power of two */
	uint32_t head, posted, done;
	uint8_t port;
	bool armed;
	bool broken; /* the device carries out nothing any more */
	struct ibv_send_wr chain[CHAIN];
	struct ibv_sge pieces[CHAIN];
};

static struct pair *pair_of(struct ud_pair *base)
{
	return (struct pair *)base;
}

static uint8_t *rx_slot(const struct pair *p, uint32_t slot)
{
	return p->mem + (size_t)slot * (GRH + p->base.mtu);
}

static uint8_t *tx_slot(const struct pair *p, uint32_t slot)
{
	return rx_slot(p, p->rx_cnt) + (size_t)(slot & (p->tx_cnt - 1)) * p->base.mtu;
}

static int post_receives(struct pair *p, const uint32_t *slots, unsigned cnt)
{
	SL_UNSET struct ibv_recv_wr wr[UD_POLL];
	SL_UNSET struct ibv_sge sge[UD_POLL];
	struct ibv_recv_wr *bad;

	for (unsigned i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)rx_slot(p, slots[i]),
					  .length = GRH + p->base.mtu,
					  .lkey = p->mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	return cnt && ibv_post_recv(p->qp, wr, &bad) ? -EIO : 0;
}

static int post_all_receives(struct pair *p)
{
	uint32_t slots[UD_POLL];
	int rc = 0;

	for (uint32_t at = 0; at < p->rx_cnt && !rc; at += UD_POLL) {
		for (uint32_t i = 0; i < UD_POLL; i++)
			slots[i] = at + i;
		rc = post_receives(p, slots, UD_POLL);
	}
	return rc;
}

static int make_ready(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = port, .qkey = SL_UD_QKEY};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 0};

	if (ibv_modify_qp(qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ||
	    ibv_modify_qp(qp, &rtr, IBV_QP_STATE) ||
	    ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN))
		return -EIO;
	return 0;
}

static int make_memory(struct pair *p, struct ibv_pd *pd)
{
	size_t len = (size_t)p->rx_cnt * (GRH + p->base.mtu) + (size_t)p->tx_cnt * p->base.mtu;

	p->mem = vb_map(len, vb_node_of(pd->context), &p->map_len);
	if (!p->mem)
		return -ENOMEM;
	p->mr = ibv_reg_mr(pd, p->mem, len, IBV_ACCESS_LOCAL_WRITE);
	return p->mr ? 0 : -ENOMEM;
}

static int make_queues(struct pair *p, struct ibv_pd *pd, int vector)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = p->tx_cnt,
						.max_recv_wr = p->rx_cnt,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	p->bell = ibv_create_comp_channel(pd->context);
	if (!p->bell || fcntl(p->bell->fd, F_SETFL, O_NONBLOCK) < 0)
		return -ENOMEM;
	p->rx_cq = ibv_create_cq(pd->context, (int)p->rx_cnt, NULL, p->bell, vector);
	p->tx_cq = ibv_create_cq(pd->context, (int)p->tx_cnt, NULL, NULL, vector);
	if (!p->rx_cq || !p->tx_cq)
		return -ENOMEM;
	attr.recv_cq = p->rx_cq;
	attr.send_cq = p->tx_cq;
	p->qp = ibv_create_qp(pd, &attr);
	return p->qp ? 0 : -ENOMEM;
}

static int open_pair(struct pair *p, const struct ud_local *l, unsigned group)
{
	struct ibv_pd *pd = l->device;
	struct ibv_port_attr attr;
	int rc;

	if (ibv_query_port(pd->context, l->port, &attr))
		return -EIO;
	p->port = l->port;
	p->base.mtu = 128U << attr.active_mtu;
	rc = p->base.mtu <= UD_MTU_MAX ? make_memory(p, pd) : -EIO;
	if (!rc)
		rc = make_queues(p, pd, vb_vector_of(pd->context, group));
	if (!rc)
		rc = make_ready(p->qp, l->port);
	return rc ? rc : post_all_receives(p);
}

struct ud_pair *ud_pair_open(const struct ud_local *l, unsigned group, uint32_t rx_cnt,
			     uint32_t tx_cnt, int *rc)
{
	struct pair *p = calloc(1, sizeof(*p));

	*rc = -ENOMEM;
	if (!p)
		return NULL;
	p->rx_cnt = rx_cnt;
	p->tx_cnt = tx_cnt;
	*rc = open_pair(p, l, group);
	if (*rc) {
		ud_pair_close(&p->base);
		return NULL;
	}
	p->base.fd = p->bell->fd;
	p->base.qpn = p->qp->qp_num;
	return &p->base;
}

void ud_pair_close(struct ud_pair *base)
{
	struct pair *p = pair_of(base);

	if (p->qp)
		ibv_destroy_qp(p->qp);
	if (p->rx_cq)
		ibv_destroy_cq(p->rx_cq);
	if (p->tx_cq)
		ibv_destroy_cq(p->tx_cq);
	if (p->bell)
		ibv_destroy_comp_channel(p->bell);
	if (p->mr)
		ibv_dereg_mr(p->mr);
	if (p->mem)
		munmap(p->mem, p->map_len);
	free(p);
}

static void reap(struct pair *p)
{
	SL_UNSET struct ibv_wc wc[UD_POLL];
	int n = ibv_poll_cq(p->tx_cq, UD_POLL, wc);

	/* One that failed is like one that was lost. */
	p->done += n > 0 ? (uint32_t)n : 0;
	for (int i = 0; i < n; i++)
		p->broken |= wc[i].status != IBV_WC_SUCCESS;
}

/*
 * A device that could not send, as when its interface had just gone down, gives up the queue pair. What
 * it had is lost, as on a wire; the number stays.
 */
static int begin_anew(struct pair *p)
{
	SL_UNSET struct ibv_wc wc[UD_POLL];
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	int rc;

	if (ibv_modify_qp(p->qp, &reset, IBV_QP_STATE))
		return -EIO;
	while (ibv_poll_cq(p->tx_cq, UD_POLL, wc) > 0)
		;
	while (ibv_poll_cq(p->rx_cq, UD_POLL, wc) > 0)
		;
	p->posted = p->done = p->head;
	p->base.unrung = p->broken = false;
	rc = make_ready(p->qp, p->port);
	return rc ? rc : post_all_receives(p);
}

uint8_t *ud_pair_slot(struct ud_pair *base)
{
	struct pair *p = pair_of(base);

	if (p->head - p->posted == CHAIN && ud_pair_ring(base))
		return NULL;
	if (p->head - p->done == p->tx_cnt)
		reap(p);
	return p->head - p->done < p->tx_cnt ? tx_slot(p, p->head) : NULL;
}

void ud_pair_send(struct ud_pair *base, void *way, uint32_t qpn, uint32_t len)
{
	struct pair *p = pair_of(base);
	uint32_t n = p->head - p->posted;

	p->pieces[n] = (struct ibv_sge){
		.addr = (uintptr_t)tx_slot(p, p->head), .length = len, .lkey = p->mr->lkey};
	p->chain[n] = (struct ibv_send_wr){
		.sg_list = &p->pieces[n],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = way, .remote_qpn = qpn, .remote_qkey = SL_UD_QKEY}};
	if (n)
		p->chain[n - 1].next = &p->chain[n];
	p->head++;
	base->unrung = true;
}

int ud_pair_ring(struct ud_pair *base)
{
	struct pair *p = pair_of(base);

	if (p->head == p->posted)
		return 0;
	if (vb_post_chain(p->qp, p->chain))
		return -EIO;
	p->posted = p->head;
	base->unrung = false;
	return 0;
}

int ud_pair_poll(struct ud_pair *base, struct ud_packet *packets, unsigned max)
{
	struct pair *p = pair_of(base);
	SL_UNSET struct ibv_wc wc[UD_POLL];
	int n, good = 0;

	if (sl_unlikely(p->broken) && begin_anew(p))
		return -EIO;
	n = ibv_poll_cq(p->rx_cq, max < UD_POLL ? (int)max : UD_POLL, wc);
	for (int i = 0; i < n; i++) {
		uint32_t slot = (uint32_t)wc[i].wr_id;

		p->broken |= wc[i].status != IBV_WC_SUCCESS;
		if (wc[i].status != IBV_WC_SUCCESS)
			continue;
		packets[good++] =
			(struct ud_packet){.bytes = rx_slot(p, slot) + GRH,
					   .len = wc[i].byte_len > GRH ? wc[i].byte_len - GRH : 0,
					   .slot = slot,
					   .qpn = wc[i].src_qp};
	}
	return n < 0 ? -EIO : good;
}

int ud_pair_put_back(struct ud_pair *base, const struct ud_packet *packets, unsigned cnt)
{
	SL_UNSET uint32_t slots[UD_POLL];

	for (unsigned i = 0; i < cnt; i++)
		slots[i] = packets[i].slot;
	return post_receives(pair_of(base), slots, cnt);
}

bool ud_pair_arm(struct ud_pair *base)
{
	struct pair *p = pair_of(base);

	if (p->head != p->done)
		reap(p);
	if (p->broken)
		return false;
	if (p->armed)
		return true;
	/* What came before the request rings no bell: look again, once. */
	p->armed = ibv_req_notify_cq(p->rx_cq, 0) == 0;
	return false;
}

void ud_pair_take_bell(struct ud_pair *base)
{
	struct pair *p = pair_of(base);
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(p->bell, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	p->armed = false;
}
