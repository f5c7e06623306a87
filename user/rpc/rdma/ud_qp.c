/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ud_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/bytes.h"
#include "base/list.h"
#include "rpc/rdma/doorbell.h"
#include "rpc/rdma/mr_pool.h"
#include "rpc/rdma/service_thread.h"
#include "wire/rpc_wire.h"

enum {
	GRH = 40, /* precedes each received datagram */
	CHAIN = 32,
	FIRST_SHARE = 8, /* fraction of the buffers allocated at first, at least UD_POLL_MAX */
	RETRY_MS = 1000,
};

enum ud_qp_growth {
	GROWTH_NONE,
	GROWTH_WANTED,   /* requested from the service thread */
	GROWTH_MADE,     /* allocated, not used yet */
	GROWTH_POSTING,  /* send buffers are used; polls post receive buffers */
	GROWTH_COMPLETE, /* all are used; or the thread cannot be asked */
};

struct ud_qp_bufs {
	uint8_t *mem;
	size_t map_len;
	struct ibv_mr *mr;
	uint32_t rx_from, rx_cnt, tx_from, tx_cnt;
};

struct ud_qp_impl {
	struct ud_qp base;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_qp *qp;
	struct ud_qp_bufs first, rest;
	/* GROWTH_WANTED: changed by the service thread, otherwise by the owner. */
	_Atomic enum ud_qp_growth growth;
	uint64_t retry_ns; /* earliest next request after a failure; 0: none */
	pid_t pid;         /* process of owner and service thread */
	struct sl_list node;
	uint32_t rx_cnt, tx_cnt;
	uint32_t rx_max, tx_max;
	uint32_t head, posted, done;
	uint8_t port;
	bool armed;
	bool broken;
	struct ibv_send_wr chain[CHAIN];
	struct ibv_sge sges[CHAIN];
	uint32_t tx_slots[]; /* send buffer of a datagram, by number: [done .. done + tx_cnt) */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list qps = {&qps, &qps};
static const struct ud_qp_impl
	*growing_qp; /* must not be freed; a fork waits, too (rdma/service_thread.c) */
static pthread_cond_t grown = PTHREAD_COND_INITIALIZER;

static struct ud_qp_impl *impl_of(struct ud_qp *base)
{
	return (struct ud_qp_impl *)base;
}

struct ud_qp_buf {
	uint8_t *at;
	uint32_t lkey;
};

static struct ud_qp_buf rx_slot(const struct ud_qp_impl *p, uint32_t slot)
{
	const struct ud_qp_bufs *in = slot < p->first.rx_cnt ? &p->first : &p->rest;

	return (struct ud_qp_buf){in->mem + (size_t)(slot - in->rx_from) * (GRH + p->base.mtu),
				  in->mr->lkey};
}

static struct ud_qp_buf tx_slot(const struct ud_qp_impl *p, uint32_t number)
{
	uint32_t slot = p->tx_slots[number & (p->tx_max - 1)];
	const struct ud_qp_bufs *in = slot < p->first.tx_cnt ? &p->first : &p->rest;

	return (struct ud_qp_buf){in->mem + (size_t)in->rx_cnt * (GRH + p->base.mtu) +
					  (size_t)(slot - in->tx_from) * p->base.mtu,
				  in->mr->lkey};
}

static void complete_sends(struct ud_qp_impl *p, uint32_t cnt)
{
	for (uint32_t mask = p->tx_max - 1; cnt; cnt--, p->done++)
		p->tx_slots[(p->done + p->tx_cnt) & mask] = p->tx_slots[p->done & mask];
}

static void add_tx_bufs(struct ud_qp_impl *p, const struct ud_qp_bufs *of)
{
	for (uint32_t i = 0; i < of->tx_cnt; i++)
		p->tx_slots[(p->done + p->tx_cnt++) & (p->tx_max - 1)] = of->tx_from + i;
}

static int post_receives(struct ud_qp_impl *p, const uint32_t *slots, unsigned cnt)
{
	SL_UNINIT struct ibv_recv_wr wr[UD_POLL_MAX];
	SL_UNINIT struct ibv_sge sge[UD_POLL_MAX];
	struct ibv_recv_wr *bad;

	for (unsigned i = 0; i < cnt; i++) {
		struct ud_qp_buf slot = rx_slot(p, slots[i]);

		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)slot.at, .length = GRH + p->base.mtu, .lkey = slot.lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	return cnt && ibv_post_recv(p->qp, wr, &bad) ? -EIO : 0;
}

static int post_batch(struct ud_qp_impl *p, uint32_t from)
{
	uint32_t slots[UD_POLL_MAX];

	for (uint32_t i = 0; i < UD_POLL_MAX; i++)
		slots[i] = from + i;
	return post_receives(p, slots, UD_POLL_MAX);
}

static int post_all(struct ud_qp_impl *p)
{
	int rc = 0;

	for (uint32_t at = 0; at < p->rx_cnt && !rc; at += UD_POLL_MAX)
		rc = post_batch(p, at);
	return rc;
}

static int alloc_bufs(const struct ud_qp_impl *p, struct ud_qp_bufs *bufs)
{
	struct ibv_pd *pd = p->qp->pd;
	size_t len =
		(size_t)bufs->rx_cnt * (GRH + p->base.mtu) + (size_t)bufs->tx_cnt * p->base.mtu;

	bufs->mem = mr_map(len, rdma_numa_node(pd->context), &bufs->map_len);
	if (bufs->mem)
		bufs->mr = ibv_reg_mr(pd, bufs->mem, len, IBV_ACCESS_LOCAL_WRITE);
	return bufs->mr ? 0 : -ENOMEM;
}

static void free_bufs(struct ud_qp_bufs *bufs)
{
	if (bufs->mr)
		ibv_dereg_mr(bufs->mr);
	if (bufs->mem)
		munmap(bufs->mem, bufs->map_len);
	*bufs = (struct ud_qp_bufs){.mem = NULL};
}

static void grow_qp(struct ud_qp_impl *p)
{
	struct ud_qp_bufs rest = p->rest;

	if (alloc_bufs(p, &rest)) {
		free_bufs(&rest);
		p->retry_ns = sl_now_ns() + RETRY_MS * SL_NS_PER_MS;
		p->growth = GROWTH_NONE;
		return;
	}
	p->rest = rest;
	p->growth = GROWTH_MADE;
}

static struct ud_qp_impl *find_wanting(pid_t pid)
{
	struct sl_list *at;

	sl_list_for_each (at, &qps) {
		struct ud_qp_impl *p = sl_container_of(at, struct ud_qp_impl, node);

		if (p->growth == GROWTH_WANTED && p->pid == pid)
			return p;
	}
	return NULL;
}

/* Adds buffers to busy queue pairs; their close waits. */
static uint64_t grow_qps(uint64_t now_ns)
{
	pid_t pid = getpid();
	struct ud_qp_impl *p;

	(void)now_ns;
	pthread_mutex_lock(&lock);
	while ((p = find_wanting(pid))) {
		growing_qp = p;
		pthread_mutex_unlock(&lock);
		grow_qp(p);
		pthread_mutex_lock(&lock);
		growing_qp = NULL;
		pthread_cond_broadcast(&grown);
	}
	pthread_mutex_unlock(&lock);
	return UINT64_MAX;
}

static void request_growth(struct ud_qp_impl *p)
{
	static struct service_task task = {.run = grow_qps};

	if (p->growth != GROWTH_NONE || (p->retry_ns && sl_now_ns() < p->retry_ns))
		return;
	p->growth = GROWTH_WANTED;
	if (service_task_schedule(&task, SERVICE_NOW))
		p->growth = GROWTH_COMPLETE;
}

static int post_more(struct ud_qp_impl *p)
{
	int rc;

	if (p->growth == GROWTH_MADE) {
		add_tx_bufs(p, &p->rest);
		p->growth = GROWTH_POSTING;
	}
	if (p->rx_cnt == p->rx_max) {
		p->growth = GROWTH_COMPLETE;
		return 0;
	}
	rc = post_batch(p, p->rx_cnt);
	p->rx_cnt += UD_POLL_MAX;
	return rc;
}

static int check_growth(struct ud_qp_impl *p, unsigned found)
{
	if (p->growth == GROWTH_MADE || p->growth == GROWTH_POSTING)
		return post_more(p);
	if (2 * found >= p->rx_cnt)
		request_growth(p);
	return 0;
}

static int to_rts(struct ibv_qp *qp, uint8_t port)
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

static uint32_t first_share(uint32_t cnt)
{
	uint32_t first = (cnt / FIRST_SHARE + UD_POLL_MAX - 1) / UD_POLL_MAX * UD_POLL_MAX;

	return cnt < UD_POLL_MAX ? cnt : first;
}

static void split_bufs(struct ud_qp_impl *p, uint32_t rx_cnt, uint32_t tx_cnt)
{
	p->rx_max = rx_cnt;
	p->tx_max = tx_cnt;
	p->first.rx_cnt = first_share(rx_cnt);
	p->first.tx_cnt = first_share(tx_cnt);
	p->rest = (struct ud_qp_bufs){.rx_from = p->first.rx_cnt,
				      .tx_from = p->first.tx_cnt,
				      .rx_cnt = rx_cnt - p->first.rx_cnt,
				      .tx_cnt = tx_cnt - p->first.tx_cnt};
	p->growth = p->rest.rx_cnt + p->rest.tx_cnt ? GROWTH_NONE : GROWTH_COMPLETE;
}

static int create_queues(struct ud_qp_impl *p, struct ibv_pd *pd, int vector)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = p->tx_max,
						.max_recv_wr = p->rx_max,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	p->comp_channel = ibv_create_comp_channel(pd->context);
	if (!p->comp_channel || fcntl(p->comp_channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -ENOMEM;
	p->rx_cq = ibv_create_cq(pd->context, (int)p->rx_max, NULL, p->comp_channel, vector);
	p->tx_cq = ibv_create_cq(pd->context, (int)p->tx_max, NULL, NULL, vector);
	if (!p->rx_cq || !p->tx_cq)
		return -ENOMEM;
	attr.recv_cq = p->rx_cq;
	attr.send_cq = p->tx_cq;
	p->qp = ibv_create_qp(pd, &attr);
	return p->qp ? 0 : -ENOMEM;
}

static int open_qp(struct ud_qp_impl *p, const struct rdma_local *l, unsigned group)
{
	struct ibv_pd *pd = l->device;
	struct ibv_port_attr attr;
	int rc;

	if (ibv_query_port(pd->context, l->port, &attr))
		return -EIO;
	p->port = l->port;
	p->base.mtu = 128U << attr.active_mtu;
	rc = p->base.mtu <= UD_MTU_MAX ? create_queues(p, pd, rdma_comp_vector(pd->context, group))
				       : -EIO;
	if (!rc)
		rc = alloc_bufs(p, &p->first);
	if (!rc)
		rc = to_rts(p->qp, l->port);
	if (rc)
		return rc;
	p->rx_cnt = p->first.rx_cnt;
	add_tx_bufs(p, &p->first);
	return post_all(p);
}

struct ud_qp *ud_qp_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			 uint32_t tx_cnt, int *rc)
{
	struct ud_qp_impl *p = calloc(1, sizeof(*p) + tx_cnt * sizeof(p->tx_slots[0]));

	*rc = -ENOMEM;
	if (!p)
		return NULL;
	p->pid = getpid();
	sl_list_init(&p->node);
	split_bufs(p, rx_cnt, tx_cnt);
	*rc = open_qp(p, l, group);
	if (*rc) {
		ud_qp_close(&p->base);
		return NULL;
	}
	p->base.fd = p->comp_channel->fd;
	p->base.qpn = p->qp->qp_num;
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&qps, &p->node);
	pthread_mutex_unlock(&lock);
	return &p->base;
}

void ud_qp_close(struct ud_qp *base)
{
	struct ud_qp_impl *p = impl_of(base);

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	while (growing_qp == p)
		pthread_cond_wait(&grown, &lock);
	pthread_mutex_unlock(&lock);
	if (p->qp)
		ibv_destroy_qp(p->qp);
	if (p->rx_cq)
		ibv_destroy_cq(p->rx_cq);
	if (p->tx_cq)
		ibv_destroy_cq(p->tx_cq);
	if (p->comp_channel)
		ibv_destroy_comp_channel(p->comp_channel);
	free_bufs(&p->first);
	free_bufs(&p->rest);
	free(p);
}

static void reap_sends(struct ud_qp_impl *p)
{
	SL_UNINIT struct ibv_wc wc[UD_POLL_MAX];
	int n = ibv_poll_cq(p->tx_cq, UD_POLL_MAX, wc);

	complete_sends(p, n > 0 ? (uint32_t)n : 0);
	for (int i = 0; i < n; i++)
		p->broken |= wc[i].status != IBV_WC_SUCCESS;
}

static int reset_qp(struct ud_qp_impl *p)
{
	SL_UNINIT struct ibv_wc wc[UD_POLL_MAX];
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	int rc;

	if (ibv_modify_qp(p->qp, &reset, IBV_QP_STATE))
		return -EIO;
	while (ibv_poll_cq(p->tx_cq, UD_POLL_MAX, wc) > 0)
		;
	while (ibv_poll_cq(p->rx_cq, UD_POLL_MAX, wc) > 0)
		;
	complete_sends(p, p->head - p->done);
	p->posted = p->head;
	p->base.unflushed = p->broken = false;
	rc = to_rts(p->qp, p->port);
	return rc ? rc : post_all(p);
}

uint8_t *ud_qp_tx_buf(struct ud_qp *base)
{
	struct ud_qp_impl *p = impl_of(base);

	if (p->head - p->posted == CHAIN && ud_qp_flush(base))
		return NULL;
	if (p->head - p->done == p->tx_cnt)
		reap_sends(p);
	if (p->head - p->done < p->tx_cnt)
		return tx_slot(p, p->head).at;
	request_growth(p);
	return NULL;
}

void ud_qp_send(struct ud_qp *base, struct ibv_ah *ah, uint32_t qpn, uint32_t len)
{
	struct ud_qp_impl *p = impl_of(base);
	uint32_t n = p->head - p->posted;
	struct ud_qp_buf from = tx_slot(p, p->head);

	p->sges[n] = (struct ibv_sge){.addr = (uintptr_t)from.at, .length = len, .lkey = from.lkey};
	p->chain[n] = (struct ibv_send_wr){
		.sg_list = &p->sges[n],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = SL_UD_QKEY}};
	if (n)
		p->chain[n - 1].next = &p->chain[n];
	p->head++;
	base->unflushed = true;
}

int ud_qp_flush(struct ud_qp *base)
{
	struct ud_qp_impl *p = impl_of(base);

	if (p->head == p->posted)
		return 0;
	if (rdma_post_chain(p->qp, p->chain))
		return -EIO;
	p->posted = p->head;
	base->unflushed = false;
	return 0;
}

static bool is_length_error(enum ibv_wc_status status)
{
	return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_GENERAL_ERR;
}

static struct ud_packet packet_of(const struct ud_qp_impl *p, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;

	return (struct ud_packet){.bytes = rx_slot(p, slot).at + GRH,
				  .len = wc->byte_len > GRH ? wc->byte_len - GRH : 0,
				  .slot = slot,
				  .qpn = wc->src_qp,
				  .has_grh = wc->wc_flags & IBV_WC_GRH};
}

int ud_qp_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max)
{
	struct ud_qp_impl *p = impl_of(base);
	SL_UNINIT struct ibv_wc wc[UD_POLL_MAX];
	SL_UNINIT uint32_t lost[UD_POLL_MAX];
	unsigned lost_cnt = 0;
	int n, good = 0;

	if (sl_unlikely(p->broken) && reset_qp(p))
		return -EIO;
	n = ibv_poll_cq(p->rx_cq, max < UD_POLL_MAX ? (int)max : UD_POLL_MAX, wc);
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS)
			packets[good++] = packet_of(p, &wc[i]);
		else if (is_length_error(wc[i].status))
			lost[lost_cnt++] = (uint32_t)wc[i].wr_id;
		else
			p->broken = true;
	}
	if (sl_unlikely(lost_cnt) && post_receives(p, lost, lost_cnt))
		p->broken = true;
	if (sl_unlikely(p->growth != GROWTH_COMPLETE) && n >= 0 && check_growth(p, (unsigned)n))
		return -EIO;
	return n < 0 ? -EIO : good;
}

/* A RoCEv2 IPv4 header lies in the second half of the GRH (IBTA annex 17). */
bool ud_qp_is_from(const struct ud_packet *p, const uint8_t gid[16])
{
	const uint8_t *head = p->bytes - GRH;

	if (!p->has_grh)
		return true;
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid))
		return head[20] >> 4 == 4 && memcmp(head + 32, gid + 12, 4) == 0;
	return head[0] >> 4 == 6 && memcmp(head + 8, gid, 16) == 0;
}

int ud_qp_repost(struct ud_qp *base, const struct ud_packet *packets, unsigned cnt)
{
	SL_UNINIT uint32_t slots[UD_POLL_MAX];

	for (unsigned i = 0; i < cnt; i++)
		slots[i] = packets[i].slot;
	return post_receives(impl_of(base), slots, cnt);
}

bool ud_qp_arm(struct ud_qp *base)
{
	struct ud_qp_impl *p = impl_of(base);

	if (p->head != p->done)
		reap_sends(p);
	if (p->broken)
		return false;
	if (p->armed)
		return true;
	/* Earlier datagrams cause no event: poll once more. */
	p->armed = ibv_req_notify_cq(p->rx_cq, 0) == 0;
	return false;
}

void ud_qp_ack_event(struct ud_qp *base)
{
	struct ud_qp_impl *p = impl_of(base);
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(p->comp_channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	p->armed = false;
}
