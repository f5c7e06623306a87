/* SPDX-License-Identifier: Apache-2.0 */
/* Of one that grows: poll, slot -> want_more; grow_pair, of another thread; poll -> take_more. */
#include "rpc/ud/pair.h"

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
#include "rpc/verbs/verbs.h"

enum {
	GRH = 40,        /* in front of each datagram that was received */
	CHAIN = 32,      /* datagrams of one doorbell */
	SHARE = 8,       /* of its slots it has one in so many at first, and UD_POLL at the least */
	AGAIN_MS = 1000, /* after there was no memory */
};

/* Of what it may have. */
enum growth {
	SMALL,  /* the first slots only */
	WANTED, /* the rest is to be made */
	MADE,   /* and is there, which its owner has not taken yet */
	TAKEN,  /* it has sent slots, and those to receive are posted, poll by poll */
	WHOLE,  /* or no thread: it stays as it is */
};

/* Slots to receive into, and those to send from behind them: of either kind from that one on. */
struct part {
	uint8_t *mem;
	size_t map_len;
	struct ibv_mr *mr;
	uint32_t rx_from, rx_cnt, tx_from, tx_cnt;
};

struct pair {
	struct ud_pair base;
	struct ibv_comp_channel *bell;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_qp *qp;
	struct part first, rest;
	/* WANTED: the other thread's to change, else the owner's. */
	_Atomic enum growth growth;
	uint64_t again_ns; /* SMALL: not before that; 0: at any time */
	pid_t pid;         /* of the process of these two threads */
	struct sl_list node;
	uint32_t rx_cnt, tx_cnt; /* slots that it uses */
	uint32_t rx_max, tx_max; /* and may have */
	uint32_t head, posted, done;
	uint8_t port;
	bool armed;
	bool broken; /* the device carries out nothing any more */
	struct ibv_send_wr chain[CHAIN];
	struct ibv_sge pieces[CHAIN];
	uint32_t tx_slots[]; /* by number of the datagram: [done .. done + tx_cnt) */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list pairs = {&pairs, &pairs};
static const struct pair *growing; /* it is not freed meanwhile, and a fork waits (verbs/close.c) */
static pthread_cond_t grown = PTHREAD_COND_INITIALIZER;

static struct pair *pair_of(struct ud_pair *base)
{
	return (struct pair *)base;
}

/* --- slots --- */

struct slot {
	uint8_t *at;
	uint32_t lkey;
};

static struct slot rx_slot(const struct pair *p, uint32_t slot)
{
	const struct part *in = slot < p->first.rx_cnt ? &p->first : &p->rest;

	return (struct slot){in->mem + (size_t)(slot - in->rx_from) * (GRH + p->base.mtu),
			     in->mr->lkey};
}

/* Of the datagram of that number. */
static struct slot tx_slot(const struct pair *p, uint32_t number)
{
	uint32_t slot = p->tx_slots[number & (p->tx_max - 1)];
	const struct part *in = slot < p->first.tx_cnt ? &p->first : &p->rest;

	return (struct slot){in->mem + (size_t)in->rx_cnt * (GRH + p->base.mtu) +
				     (size_t)(slot - in->tx_from) * p->base.mtu,
			     in->mr->lkey};
}

/* The next ones have been carried out: their slots are for those that come last. */
static void finish_sends(struct pair *p, uint32_t cnt)
{
	for (uint32_t mask = p->tx_max - 1; cnt; cnt--, p->done++)
		p->tx_slots[(p->done + p->tx_cnt) & mask] = p->tx_slots[p->done & mask];
}

static void add_send_slots(struct pair *p, const struct part *of)
{
	for (uint32_t i = 0; i < of->tx_cnt; i++)
		p->tx_slots[(p->done + p->tx_cnt++) & (p->tx_max - 1)] = of->tx_from + i;
}

static int post_receives(struct pair *p, const uint32_t *slots, unsigned cnt)
{
	SL_UNINIT struct ibv_recv_wr wr[UD_POLL];
	SL_UNINIT struct ibv_sge sge[UD_POLL];
	struct ibv_recv_wr *bad;

	for (unsigned i = 0; i < cnt; i++) {
		struct slot slot = rx_slot(p, slots[i]);

		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)slot.at, .length = GRH + p->base.mtu, .lkey = slot.lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	return cnt && ibv_post_recv(p->qp, wr, &bad) ? -EIO : 0;
}

static int post_some_receives(struct pair *p, uint32_t from)
{
	uint32_t slots[UD_POLL];

	for (uint32_t i = 0; i < UD_POLL; i++)
		slots[i] = from + i;
	return post_receives(p, slots, UD_POLL);
}

static int post_all_receives(struct pair *p)
{
	int rc = 0;

	for (uint32_t at = 0; at < p->rx_cnt && !rc; at += UD_POLL)
		rc = post_some_receives(p, at);
	return rc;
}

/* --- more of them --- */

static int make_part(const struct pair *p, struct part *part)
{
	struct ibv_pd *pd = p->qp->pd;
	size_t len =
		(size_t)part->rx_cnt * (GRH + p->base.mtu) + (size_t)part->tx_cnt * p->base.mtu;

	part->mem = vb_map(len, vb_node_of(pd->context), &part->map_len);
	if (part->mem)
		part->mr = ibv_reg_mr(pd, part->mem, len, IBV_ACCESS_LOCAL_WRITE);
	return part->mr ? 0 : -ENOMEM;
}

static void free_part(struct part *part)
{
	if (part->mr)
		ibv_dereg_mr(part->mr);
	if (part->mem)
		munmap(part->mem, part->map_len);
	*part = (struct part){.mem = NULL};
}

static void want_more(struct pair *p)
{
	if (p->growth != SMALL || (p->again_ns && sl_now_ns() < p->again_ns))
		return;
	p->growth = WANTED;
	if (vb_async_grow())
		p->growth = WHOLE;
}

static void grow_pair(struct pair *p)
{
	struct part rest = p->rest;

	if (make_part(p, &rest)) {
		free_part(&rest);
		p->again_ns = sl_now_ns() + AGAIN_MS * SL_NS_PER_MS;
		p->growth = SMALL;
		return;
	}
	p->rest = rest;
	p->growth = MADE;
}

/* A child has the pairs of its parent, and no use for them. */
static struct pair *that_wants(pid_t pid)
{
	struct sl_list *at;

	sl_list_for_each (at, &pairs) {
		struct pair *p = sl_container_of(at, struct pair, node);

		if (p->growth == WANTED && p->pid == pid)
			return p;
	}
	return NULL;
}

void ud_pairs_grow(void)
{
	pid_t pid = getpid();
	struct pair *p;

	pthread_mutex_lock(&lock);
	while ((p = that_wants(pid))) {
		growing = p;
		pthread_mutex_unlock(&lock);
		grow_pair(p);
		pthread_mutex_lock(&lock);
		growing = NULL;
		pthread_cond_broadcast(&grown);
	}
	pthread_mutex_unlock(&lock);
}

static int take_more(struct pair *p)
{
	int rc;

	if (p->growth == MADE) {
		add_send_slots(p, &p->rest);
		p->growth = TAKEN;
	}
	if (p->rx_cnt == p->rx_max) {
		p->growth = WHOLE;
		return 0;
	}
	rc = post_some_receives(p, p->rx_cnt);
	p->rx_cnt += UD_POLL;
	return rc;
}

/* With what a poll has found; half of what is posted is much. */
static int see_to_growth(struct pair *p, unsigned found)
{
	if (p->growth == MADE || p->growth == TAKEN)
		return take_more(p);
	if (2 * found >= p->rx_cnt)
		want_more(p);
	return 0;
}

/* --- a pair --- */

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

static uint32_t first_of(uint32_t cnt)
{
	uint32_t first = (cnt / SHARE + UD_POLL - 1) / UD_POLL * UD_POLL;

	return cnt < UD_POLL ? cnt : first;
}

static void share_out(struct pair *p, uint32_t rx_cnt, uint32_t tx_cnt)
{
	p->rx_max = rx_cnt;
	p->tx_max = tx_cnt;
	p->first.rx_cnt = first_of(rx_cnt);
	p->first.tx_cnt = first_of(tx_cnt);
	p->rest = (struct part){.rx_from = p->first.rx_cnt,
				.tx_from = p->first.tx_cnt,
				.rx_cnt = rx_cnt - p->first.rx_cnt,
				.tx_cnt = tx_cnt - p->first.tx_cnt};
	p->growth = p->rest.rx_cnt + p->rest.tx_cnt ? SMALL : WHOLE;
}

/* Queues do not grow. */
static int make_queues(struct pair *p, struct ibv_pd *pd, int vector)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = p->tx_max,
						.max_recv_wr = p->rx_max,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	p->bell = ibv_create_comp_channel(pd->context);
	if (!p->bell || fcntl(p->bell->fd, F_SETFL, O_NONBLOCK) < 0)
		return -ENOMEM;
	p->rx_cq = ibv_create_cq(pd->context, (int)p->rx_max, NULL, p->bell, vector);
	p->tx_cq = ibv_create_cq(pd->context, (int)p->tx_max, NULL, NULL, vector);
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
	rc = p->base.mtu <= UD_MTU_MAX ? make_queues(p, pd, vb_vector_of(pd->context, group))
				       : -EIO;
	if (!rc)
		rc = make_part(p, &p->first);
	if (!rc)
		rc = make_ready(p->qp, l->port);
	if (rc)
		return rc;
	p->rx_cnt = p->first.rx_cnt;
	add_send_slots(p, &p->first);
	return post_all_receives(p);
}

struct ud_pair *ud_pair_open(const struct ud_local *l, unsigned group, uint32_t rx_cnt,
			     uint32_t tx_cnt, int *rc)
{
	struct pair *p = calloc(1, sizeof(*p) + tx_cnt * sizeof(p->tx_slots[0]));

	*rc = -ENOMEM;
	if (!p)
		return NULL;
	p->pid = getpid();
	sl_list_init(&p->node);
	share_out(p, rx_cnt, tx_cnt);
	*rc = open_pair(p, l, group);
	if (*rc) {
		ud_pair_close(&p->base);
		return NULL;
	}
	p->base.fd = p->bell->fd;
	p->base.qpn = p->qp->qp_num;
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&pairs, &p->node);
	pthread_mutex_unlock(&lock);
	return &p->base;
}

void ud_pair_close(struct ud_pair *base)
{
	struct pair *p = pair_of(base);

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	while (growing == p)
		pthread_cond_wait(&grown, &lock);
	pthread_mutex_unlock(&lock);
	if (p->qp)
		ibv_destroy_qp(p->qp);
	if (p->rx_cq)
		ibv_destroy_cq(p->rx_cq);
	if (p->tx_cq)
		ibv_destroy_cq(p->tx_cq);
	if (p->bell)
		ibv_destroy_comp_channel(p->bell);
	free_part(&p->first);
	free_part(&p->rest);
	free(p);
}

static void reap(struct pair *p)
{
	SL_UNINIT struct ibv_wc wc[UD_POLL];
	int n = ibv_poll_cq(p->tx_cq, UD_POLL, wc);

	/* One that failed is like one that was lost. */
	finish_sends(p, n > 0 ? (uint32_t)n : 0);
	for (int i = 0; i < n; i++)
		p->broken |= wc[i].status != IBV_WC_SUCCESS;
}

/*
 * A device that could not send, as when its interface had just gone down, gives up the queue pair. What
 * it had is lost, as on a wire; the number stays.
 */
static int begin_anew(struct pair *p)
{
	SL_UNINIT struct ibv_wc wc[UD_POLL];
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	int rc;

	if (ibv_modify_qp(p->qp, &reset, IBV_QP_STATE))
		return -EIO;
	while (ibv_poll_cq(p->tx_cq, UD_POLL, wc) > 0)
		;
	while (ibv_poll_cq(p->rx_cq, UD_POLL, wc) > 0)
		;
	finish_sends(p, p->head - p->done);
	p->posted = p->head;
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
	if (p->head - p->done < p->tx_cnt)
		return tx_slot(p, p->head).at;
	want_more(p);
	return NULL;
}

void ud_pair_send(struct ud_pair *base, void *way, uint32_t qpn, uint32_t len)
{
	struct pair *p = pair_of(base);
	uint32_t n = p->head - p->posted;
	struct slot from = tx_slot(p, p->head);

	p->pieces[n] =
		(struct ibv_sge){.addr = (uintptr_t)from.at, .length = len, .lkey = from.lkey};
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

/* A datagram is too long for its slot, as anybody may send one. */
static bool is_lost(enum ibv_wc_status status)
{
	return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_GENERAL_ERR;
}

static struct ud_packet packet_of(const struct pair *p, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;

	return (struct ud_packet){.bytes = rx_slot(p, slot).at + GRH,
				  .len = wc->byte_len > GRH ? wc->byte_len - GRH : 0,
				  .slot = slot,
				  .qpn = wc->src_qp,
				  .has_head = wc->wc_flags & IBV_WC_GRH};
}

int ud_pair_poll(struct ud_pair *base, struct ud_packet *packets, unsigned max)
{
	struct pair *p = pair_of(base);
	SL_UNINIT struct ibv_wc wc[UD_POLL];
	SL_UNINIT uint32_t lost[UD_POLL];
	unsigned lost_cnt = 0;
	int n, good = 0;

	if (sl_unlikely(p->broken) && begin_anew(p))
		return -EIO;
	n = ibv_poll_cq(p->rx_cq, max < UD_POLL ? (int)max : UD_POLL, wc);
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS)
			packets[good++] = packet_of(p, &wc[i]);
		else if (is_lost(wc[i].status))
			lost[lost_cnt++] = (uint32_t)wc[i].wr_id;
		else
			p->broken = true;
	}
	/* A device that has given up the queue pair for that flushes the slots, too. */
	if (sl_unlikely(lost_cnt) && post_receives(p, lost, lost_cnt))
		p->broken = true;
	if (sl_unlikely(p->growth != WHOLE) && n >= 0 && see_to_growth(p, (unsigned)n))
		return -EIO;
	return n < 0 ? -EIO : good;
}

/* RoCEv2 by IPv4 has its header in the latter half (IBTA annex 17). */
bool ud_pair_is_from(const struct ud_packet *p, const uint8_t gid[16])
{
	const uint8_t *head = p->bytes - GRH;

	if (!p->has_head)
		return true;
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid))
		return head[20] >> 4 == 4 && memcmp(head + 32, gid + 12, 4) == 0;
	return head[0] >> 4 == 6 && memcmp(head + 8, gid, 16) == 0;
}

int ud_pair_put_back(struct ud_pair *base, const struct ud_packet *packets, unsigned cnt)
{
	SL_UNINIT uint32_t slots[UD_POLL];

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
