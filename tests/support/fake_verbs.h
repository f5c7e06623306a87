/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device without hardware, for one test program: it defines the functions of libibverbs and
 * librdmacm that user/rpc/rdma calls, so that the program's own are linked. Nothing moves by
 * itself: work requests lie in their queue until the test says that the device has done them.
 *
 *   post_send -> fake_qp.sends -> fake_complete(): completions of those that asked for one
 *                              -> queue pair in error: each one left completes as flushed
 *   fake_arrive(): the oldest slot of the shared receive queue is filled, and completes
 */
#ifndef SL_TESTS_FAKE_VERBS_H
#define SL_TESTS_FAKE_VERBS_H

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "rpc/rdma/rc/rc_conn.h"

#undef ibv_reg_mr
#undef ibv_query_port

enum { FAKE_QUEUE = 32768, FAKE_SENDS = 1024, FAKE_EVENTS = 32 };

struct fake_cq {
	struct ibv_cq base;
	struct ibv_wc wc[FAKE_QUEUE];
	unsigned put, got;
	bool broken; /* polling it is an error */
};

struct fake_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	bool signalled, done;
	uint64_t to;       /* destination of a WRITE */
	uint32_t imm_data; /* immediate data, if any */
	unsigned sge_cnt;
	struct ibv_sge sge[RC_SGE_MAX];
};

/* Receives that wait for messages. */
struct fake_slots {
	uint64_t wr_id[FAKE_QUEUE];
	uint8_t *at[FAKE_QUEUE];
	unsigned put, got;
};

struct fake_qp {
	struct ibv_qp base;
	enum ibv_qp_state state;
	uint8_t rnr_timer;
	struct ibv_ah_attr way; /* destination that was set by hand */
	bool told;              /* last slot */
	struct fake_send sends[FAKE_SENDS];
	unsigned posted, done;
	struct fake_slots own; /* of a UD queue pair */
};

/* None is destroyed before the ids that it has. */
struct fake_channel {
	struct rdma_event_channel base;
	unsigned ids;
};

struct fake_srq {
	struct ibv_srq base;
	struct fake_slots slots;
};

/* Properties of the device, and what was done to it. */
static struct fake {
	struct ibv_context context;
	struct ibv_device device;
	struct ibv_comp_channel *bell;
	unsigned flush_after; /* polls of a send queue before a queue pair in error lets go */
	bool deaf;            /* it never does, and must be reset */
	unsigned errors, resets;
	_Atomic unsigned watches; /* a shared queue that runs short */
	unsigned registrations, deregistrations;
	unsigned registered_here, qps_here; /* within the test's thread */
	pthread_t self;
	size_t registered; /* bytes, now */
	unsigned pds, cqs, bells, qps, mws, srqs, srqs_made;
	uint32_t next_qpn, next_key;
	unsigned created_vectors[8];
	struct ibv_async_event events[FAKE_EVENTS];
	unsigned event_put, event_got, events_acked;
	_Atomic bool absent; /* taken away */
	bool forgotten;      /* the library is closed without ids and lists */
	_Atomic bool closed;
	_Atomic unsigned lists; /* open lists of devices */
	_Atomic bool moved;     /* the listener's address is another device's */
	_Atomic unsigned binds;
	_Atomic unsigned sends; /* messages without a WRITE */
	struct rdma_cm_id *_Atomic listening;
	_Atomic unsigned rejections;
	_Atomic unsigned accepts;
	bool alone; /* has no shared receive queues */
	bool mute;  /* does not tell when a queue pair in error has used its last slot */
	struct fake_qp *last_qp;
	unsigned steps, fail_at;            /* steps that may fail, and the one that does */
	_Atomic bool fails_qps;             /* there is no room for one more */
	_Atomic bool holds, held;           /* registrations of other threads; one of these */
	_Atomic bool mute_port, port_asked; /* does not say how a port is; and is being asked */
	unsigned gids_moved;                /* the GID table begins at this index */
	uint8_t gids[2][16];                /* of port 1, if has_gids */
	bool has_gids;
	unsigned queries; /* queries of ports, addresses and queue pairs */
	unsigned ids, channels;
	_Atomic enum rdma_port_space port_space; /* of the last id for SIDR */
	struct rdma_cm_event cm_event; /* the next one, of the channel whose fd is readable */
	const void *answer;            /* answer to a connect; NULL: no listener */
	uint8_t answer_len;
	uint8_t tos;
	enum ibv_port_state port_state;
	struct ibv_ah_attr ah;        /* the last address handle's */
	bool addressed;               /* ids are bound to the address that port 2 has */
	unsigned crowd;               /* so many ask the listening id, one behind the other */
	bool opens;                   /* memory windows, at once */
	unsigned opens_us;            /* time for which the processor is taken away then */
	struct ibv_sa_path_rec path;  /* path of ids with a resolved route, if it has an MTU */
	struct sockaddr_storage from; /* the source of the last connection; family 0: not said */
	struct ibv_pd pd;             /* of fake_path() */
	pthread_mutex_t lock;
} fake;

/* Whether this is the step that fails. */
static inline bool fake_fails(void)
{
	errno = ENOSPC;
	return ++fake.steps == fake.fail_at;
}

/* A context that the library has closed must not be used. */
static inline void fake_is_open(void)
{
	ck_assert_msg(!fake.closed, "the device's context has been closed");
}

static inline void fake_close_unused(void)
{
	fake.closed |= fake.forgotten && !fake.ids && !fake.lists;
}

static inline struct fake_qp *fake_qp(struct rc_conn *v)
{
	return (struct fake_qp *)v->qp.qp;
}

static inline void fake_push(struct ibv_cq *base, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)base;

	ck_assert_uint_lt(cq->put - cq->got, FAKE_QUEUE);
	cq->wc[cq->put++ % FAKE_QUEUE] = *wc;
}

static inline void fake_finish(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct fake_send *s = &qp->sends[qp->done++ % FAKE_SENDS];

	s->done = true;
	if (s->signalled || status != IBV_WC_SUCCESS)
		fake_push(qp->base.send_cq, &(struct ibv_wc){.wr_id = s->wr_id,
							     .status = status,
							     .qp_num = qp->base.qp_num});
}

/* The device carries out the next `cnt` work requests; all, if so many there are not. */
static inline void fake_complete(struct rc_conn *v, unsigned cnt)
{
	struct fake_qp *qp = fake_qp(v);

	for (; cnt && qp->done != qp->posted; cnt--)
		fake_finish(qp, IBV_WC_SUCCESS);
}

/* Whether the device may still read those bytes for this queue pair. */
static inline bool fake_reads(struct rc_conn *v, const void *from, size_t len)
{
	const struct fake_qp *qp = fake_qp(v);
	uintptr_t at = (uintptr_t)from;

	if (qp->state == IBV_QPS_RESET)
		return false;
	for (unsigned i = qp->done; i != qp->posted; i++) {
		const struct fake_send *s = &qp->sends[i % FAKE_SENDS];

		for (unsigned k = 0; k < s->sge_cnt; k++) {
			if (s->sge[k].addr < at + len && at < s->sge[k].addr + s->sge[k].length)
				return true;
		}
	}
	return false;
}

static inline struct fake_slots *fake_slots(struct rc_conn *v)
{
	return &((struct fake_srq *)rc_iface_srq(v->iface))->slots;
}

/* Something takes the oldest slot, with `len` bytes in it. False: there is none. */
static inline bool fake_take_slot(struct rc_conn *v, struct ibv_wc wc, const void *bytes,
				  uint32_t len)
{
	struct fake_slots *s = fake_slots(v);
	bool any;

	pthread_mutex_lock(&fake.lock);
	any = s->put != s->got;
	if (any && len)
		memcpy(s->at[s->got % FAKE_QUEUE], bytes, len);
	if (any)
		wc.wr_id = s->wr_id[s->got++ % FAKE_QUEUE];
	pthread_mutex_unlock(&fake.lock);
	wc.status = IBV_WC_SUCCESS;
	wc.qp_num = v->qp.qp->qp_num;
	if (any)
		fake_push(v->qp.rx_cq, &wc);
	return any;
}

/* A message of the peer. False: no slot. */
static inline bool fake_arrive(struct rc_conn *v, const void *bytes, uint32_t len)
{
	return fake_take_slot(v, (struct ibv_wc){.opcode = IBV_WC_RECV, .byte_len = len}, bytes,
			      len);
}

/* A WRITE of the peer, to the ring at `at`, that says `imm` of itself. False: no slot. */
static inline bool fake_write(struct rc_conn *v, uint32_t at, const void *bytes, uint32_t len,
			      uint32_t imm)
{
	memcpy(v->rx_bulk + at, bytes, len);
	return fake_take_slot(v,
			      (struct ibv_wc){.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
					      .byte_len = len,
					      .imm_data = htonl(imm)},
			      NULL, 0);
}

/* Another thread takes it. */
static inline void fake_event(const struct ibv_async_event *ev)
{
	pthread_mutex_lock(&fake.lock);
	fake.events[fake.event_put++ % FAKE_EVENTS] = *ev;
	pthread_mutex_unlock(&fake.lock);
	ck_assert_int_eq(eventfd_write(fake.context.async_fd, 1), 0);
}

/* --- the device's own operations --- */

static inline int op_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)base;
	int n = 0;

	if (cq->broken)
		return -1;
	for (; n < max && cq->got != cq->put; n++)
		wc[n] = cq->wc[cq->got++ % FAKE_QUEUE];
	return n;
}

static struct fake_qp *fake_failing; /* in error, with work that is not flushed yet */

static inline int op_poll_send_cq(struct ibv_cq *base, int max, struct ibv_wc *wc)
{
	struct fake_qp *qp = fake_failing;

	if (qp && qp->base.send_cq == base && !fake.deaf) {
		if (fake.flush_after) {
			fake.flush_after--;
			return op_poll_cq(base, max, wc);
		}
		while (qp->done != qp->posted)
			fake_finish(qp, IBV_WC_WR_FLUSH_ERR);
	}
	return op_poll_cq(base, max, wc);
}

static inline int op_req_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return fake_fails() ? ENOSPC : 0;
}

static inline int op_post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
			       struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)base;

	for (; wr; wr = wr->next) {
		struct fake_send *s = &qp->sends[qp->posted++ % FAKE_SENDS];

		*bad = wr;
		ck_assert_uint_le(qp->posted - qp->done, FAKE_SENDS);
		fake.sends += wr->opcode == IBV_WR_SEND;
		*s = (struct fake_send){.wr_id = wr->wr_id,
					.opcode = wr->opcode,
					.signalled = wr->send_flags & IBV_SEND_SIGNALED};
		if (wr->opcode == IBV_WR_BIND_MW && fake.opens) {
			fake_finish(qp, IBV_WC_SUCCESS);
			usleep(fake.opens_us);
		}
		if (wr->opcode == IBV_WR_BIND_MW)
			continue;
		s->to = wr->wr.rdma.remote_addr;
		s->imm_data = wr->imm_data;
		s->sge_cnt = (unsigned)wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			s->sge[i] = wr->sg_list[i];
	}
	return 0;
}

static inline int fake_put(struct fake_slots *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		*bad = wr;
		s->wr_id[s->put % FAKE_QUEUE] = wr->wr_id;
		s->at[s->put++ % FAKE_QUEUE] = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	}
	return 0;
}

static inline int op_post_srq(struct ibv_srq *base, struct ibv_recv_wr *wr,
			      struct ibv_recv_wr **bad)
{
	int rc;

	pthread_mutex_lock(&fake.lock); /* any thread posts */
	rc = fake_put(&((struct fake_srq *)base)->slots, wr, bad);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static inline int op_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad)
{
	return fake_put(&((struct fake_qp *)base)->own, wr, bad);
}

static inline struct ibv_mw *op_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	*mw = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type, .rkey = 0x100};
	fake.mws++;
	return mw;
}

static inline int op_dealloc_mw(struct ibv_mw *mw)
{
	fake_is_open();
	fake.mws--;
	free(mw);
	return 0;
}

/* --- libibverbs --- */

/* A context of the caller's own. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *own = malloc(sizeof(*own));

	*own = fake.context;
	own->device = device;
	own->async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return own;
}

int ibv_close_device(struct ibv_context *own)
{
	close(own->async_fd);
	free(own);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	*ah = (struct ibv_ah){.context = pd->context, .pd = pd};
	fake.ah = *attr;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
					 .max_srq = fake.alone ? 0 : 16,
					 .max_srq_wr = FAKE_QUEUE,
					 .max_cqe = FAKE_QUEUE,
					 .phys_port_cnt = 2,
					 .max_sge = RC_SGE_MAX};
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	(void)context, (void)port;
	fake.queries++;
	attr->state = fake.port_state;
	while (fake.mute_port) {
		fake.port_asked = true;
		usleep(100);
	}
	attr->active_mtu = IBV_MTU_4096;
	attr->active_speed = 32;
	attr->active_width = 2;
	attr->max_msg_sz = 1 << 30;
	attr->gid_tbl_len = 8;
	return 0;
}

/* The second of two ports has addresses: RoCE v1, link-local, and usable ones. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t len)
{
	static const struct {
		const char *text;
		uint32_t type;
	} gids[] = {{"::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V1},
		    {"fe80::1", IBV_GID_TYPE_ROCE_V2},
		    {"::ffff:192.0.2.2", IBV_GID_TYPE_ROCE_V2},
		    {"2001:db8::2", IBV_GID_TYPE_ROCE_V2}};

	(void)context, (void)flags, (void)len;
	index -= fake.gids_moved;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	if (port == 1 && fake.has_gids && index < SL_ARRAY_LEN(fake.gids)) {
		memcpy(entry->gid.raw, fake.gids[index], sizeof(fake.gids[index]));
		return 0;
	}
	if (port != 2 || index >= SL_ARRAY_LEN(gids))
		return ENODATA;
	entry->gid_type = gids[index].type;
	return inet_pton(AF_INET6, gids[index].text, entry->gid.raw) == 1 ? 0 : EINVAL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = fake_fails() ? NULL : calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->context = context;
	fake.pds++;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	fake_is_open();
	fake.pds--;
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				unsigned int access)
{
	struct ibv_mr *mr = fake_fails() ? NULL : calloc(1, sizeof(*mr));

	(void)iova, (void)access;
	while (fake.holds && !pthread_equal(fake.self, pthread_self())) {
		fake.held = true;
		usleep(100);
	}
	fake.held = false;
	if (!mr)
		return NULL;
	*mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = len};
	mr->lkey = mr->rkey = ++fake.next_key;
	fake.registrations++;
	fake.registered_here += pthread_equal(fake.self, pthread_self()) != 0;
	fake.registered += len;
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	fake_is_open();
	fake.deregistrations++;
	fake.registered -= mr->length;
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *c = fake_fails() ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->context = context;
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fake.bells++;
	return c;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	fake_is_open();
	close(c->fd);
	fake.bells--;
	free(c);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *bell, int vector)
{
	struct fake_cq *cq = fake_fails() ? NULL : calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->base = (struct ibv_cq){
		.context = context, .channel = bell, .cq_context = cq_context, .cqe = cqe};
	fake.created_vectors[vector % 8]++;
	fake.cqs++;
	return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	fake_is_open();
	fake.cqs--;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **cq, void **context)
{
	(void)c, (void)cq, (void)context;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int cnt)
{
	(void)cq, (void)cnt;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq = fake_fails() ? NULL : calloc(1, sizeof(*srq));

	if (!srq)
		return NULL;
	srq->base = (struct ibv_srq){
		.context = pd->context, .pd = pd, .srq_context = attr->srq_context};
	fake.srqs++;
	fake.srqs_made++;
	return &srq->base;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	ck_assert_int_eq(mask, IBV_SRQ_LIMIT);
	ck_assert_uint_gt(attr->srq_limit, 0);
	fake.watches++;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	fake_is_open();
	fake.srqs--;
	free(srq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = fake_fails() || fake.fails_qps ? NULL : calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->base = (struct ibv_qp){.context = pd->context,
				   .qp_context = attr->qp_context,
				   .pd = pd,
				   .send_cq = attr->send_cq,
				   .recv_cq = attr->recv_cq,
				   .srq = attr->srq,
				   .qp_num = ++fake.next_qpn};
	attr->cap.max_inline_data = 0;
	qp->state = IBV_QPS_INIT;
	fake.last_qp = qp;
	fake.qps++;
	fake.qps_here += pthread_equal(fake.self, pthread_self()) != 0;
	return &qp->base;
}

/* Unread events end with the object that they name. */
static inline void fake_forget(const struct ibv_qp *qp)
{
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = fake.event_got; i != fake.event_put; i++) {
		if (fake.events[i % FAKE_EVENTS].element.qp == qp)
			fake.events[i % FAKE_EVENTS].event_type = IBV_EVENT_CLIENT_REREGISTER;
	}
	pthread_mutex_unlock(&fake.lock);
}

int ibv_destroy_qp(struct ibv_qp *base)
{
	fake_is_open();
	fake_forget(base);
	if (fake_failing == (struct fake_qp *)base)
		fake_failing = NULL;
	free(base);
	fake.qps--;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)base;

	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_AV)
		qp->way = attr->ah_attr;
	if (!(mask & IBV_QP_STATE))
		return 0;
	qp->state = attr->qp_state;
	if (qp->state == IBV_QPS_ERR) {
		fake.errors++;
		fake_failing = qp;
		if (!fake.mute && !qp->told)
			fake_event(&(struct ibv_async_event){
				.element = {.qp = base},
				.event_type = IBV_EVENT_QP_LAST_WQE_REACHED});
		qp->told |= !fake.mute;
	}
	if (qp->state == IBV_QPS_RESET)
		fake.resets++;
	return 0;
}

int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp = (struct fake_qp *)base;
	bool knows_way = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS;

	(void)mask, (void)init;
	fake.queries++;
	*attr = (struct ibv_qp_attr){.qp_state = qp->state,
				     .path_mtu = knows_way ? IBV_MTU_1024 : IBV_MTU_256,
				     .ah_attr.grh.traffic_class = fake.tos,
				     .min_rnr_timer = qp->rnr_timer};
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *ev)
{
	eventfd_t many;
	bool got;

	(void)eventfd_read(context->async_fd, &many);
	pthread_mutex_lock(&fake.lock);
	got = fake.event_got != fake.event_put;
	if (got)
		*ev = fake.events[fake.event_got++ % FAKE_EVENTS];
	pthread_mutex_unlock(&fake.lock);
	errno = EAGAIN;
	return got ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
	fake.events_acked++;
}

/* --- librdmacm --- */

struct ibv_context **rdma_get_devices(int *cnt)
{
	struct ibv_context **all = calloc(2, sizeof(*all));

	all[0] = &fake.context;
	fake.lists++;
	if (cnt)
		*cnt = 1;
	return all;
}

void rdma_free_devices(struct ibv_context **all)
{
	free(all);
	fake.lists--;
	fake_close_unused();
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	(void)id, (void)level, (void)len;
	if (name == RDMA_OPTION_ID_TOS)
		fake.tos = *(const uint8_t *)value;
	return 0;
}

/* NULL: it goes. */
static inline void fake_move(struct rdma_cm_id *id, struct rdma_event_channel *to)
{
	if (id->channel)
		((struct fake_channel *)id->channel)->ids--;
	if (to)
		((struct fake_channel *)to)->ids++;
	id->channel = to;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	fake_move(id, NULL);
	if (fake.listening == id)
		fake.listening = NULL;
	fake.ids--;
	free(id);
	fake_close_unused();
	return 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *c = fake_fails() ? NULL : calloc(1, sizeof(struct fake_channel));

	if (!c)
		return NULL;
	fake.channels++;
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return c;
}

void rdma_destroy_event_channel(struct rdma_event_channel *c)
{
	ck_assert_uint_eq(((struct fake_channel *)c)->ids, 0);
	fake.channels--;
	close(c->fd);
	free(c);
}

int rdma_create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	(void)context, (void)ps;
	if (fake_fails())
		return -1;
	fake.ids++;
	*id = calloc(1, sizeof(**id));
	fake_move(*id, c);
	return 0;
}

/* A call's event happens at once. */
static inline int fake_happens(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	if (fake_fails())
		return -1;
	fake.cm_event = (struct rdma_cm_event){.id = id, .event = type};
	return eventfd_write(id->channel->fd, 1);
}

/* As to an interface of port 2. */
static inline void fake_address(struct rdma_cm_id *id)
{
	if (!fake.addressed)
		return;
	id->port_num = 2;
	ck_assert_int_eq(
		inet_pton(AF_INET6, "::ffff:192.0.2.2", id->route.addr.addr.ibaddr.sgid.raw), 1);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	(void)timeout_ms;
	memcpy(&id->route.addr.dst_addr, to,
	       to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	(void)from;
	id->verbs = &fake.context;
	id->port_num = 1;
	fake_address(id);
	return fake_happens(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	id->route.path_rec = &fake.path;
	id->route.num_paths = fake.path.mtu ? 1 : 0;
	return fake_happens(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* SIDR: the peer answers, or nothing listens there. */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int rc = fake_happens(id, fake.answer ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_REJECTED);

	(void)param;
	fake.cm_event.param.ud.private_data = fake.answer;
	fake.cm_event.param.ud.private_data_len = fake.answer_len;
	return rc;
}

/* A bound id. */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	static const uint8_t any[16];
	const struct sockaddr_in *in = (const struct sockaddr_in *)res->ai_src_addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)res->ai_src_addr;
	bool is_any = res->ai_family == AF_INET ? !in->sin_addr.s_addr
						: !memcmp(&in6->sin6_addr, any, sizeof(any));

	(void)pd, (void)attr;
	ck_assert_int_eq(res->ai_flags, RAI_PASSIVE);
	ck_assert_int_eq(res->ai_qp_type, IBV_QPT_UD);
	if (fake.absent) {
		errno = ENODEV;
		return -1;
	}
	if (rdma_create_id(rdma_create_event_channel(), id, NULL, 0))
		return -1;
	fake.port_space = (enum rdma_port_space)res->ai_port_space;
	fake.from = (struct sockaddr_storage){0};
	memcpy(&fake.from, res->ai_src_addr, res->ai_src_len);
	if (is_any)
		return 0;
	(*id)->verbs = &fake.context;
	fake_address(*id);
	fake.binds++;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	fake.listening = id;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *answer, uint8_t len)
{
	(void)id, (void)answer, (void)len;
	fake.rejections++;
	return 0;
}

/* The id leaves a channel of its own. */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *to)
{
	struct rdma_event_channel *own = id->channel;

	if (fake_fails())
		return -1;
	fake_move(id, to);
	rdma_destroy_event_channel(own);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id, (void)param;
	fake.accepts++;
	return 0;
}

/* A client asks the listening id for a connection. */
static inline void fake_ask(const void *request, uint8_t len)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	fake_move(id, fake.listening->channel);
	id->verbs = &fake.context;
	id->port_num = 1;
	fake_address(id);
	fake.ids++;
	fake.cm_event = (struct rdma_cm_event){
		.id = id,
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
		.param.conn = {.private_data = len ? request : NULL, .private_data_len = len}};
	ck_assert_int_eq(eventfd_write(id->channel->fd, 1), 0);
}

/* Begun events happen now; or the listening id's device is removed or has lost its address. */
int rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **ev)
{
	static struct rdma_cm_event of_listener;
	bool listens = fake.listening && fake.listening->channel == c;
	eventfd_t told;

	if (listens && fake.crowd) {
		fake.crowd--;
		fake_ask(NULL, 0);
	}
	if (eventfd_read(c->fd, &told) == 0) {
		*ev = &fake.cm_event;
		return 0;
	}
	if (listens && atomic_exchange(&fake.moved, false)) {
		of_listener.event = RDMA_CM_EVENT_ADDR_CHANGE;
	} else if (listens && fake.absent) {
		of_listener.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
	} else {
		errno = EAGAIN;
		return -1;
	}
	of_listener.id = fake.listening;
	*ev = &of_listener;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	(void)ev;
	return 0;
}

/* --- set-up --- */

static inline void fake_start(void)
{
	memset(&fake, 0, sizeof(fake));
	pthread_mutex_init(&fake.lock, NULL);
	fake.self = pthread_self();
	fake.port_state = IBV_PORT_ACTIVE;
	fake.context = (struct ibv_context){
		.device = &fake.device,
		.ops = {.poll_cq = op_poll_send_cq,
			.req_notify_cq = op_req_notify,
			.post_send = op_post_send,
			.post_srq_recv = op_post_srq,
			.post_recv = op_post_recv,
			.alloc_mw = op_alloc_mw,
			.dealloc_mw = op_dealloc_mw},
		.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.num_comp_vectors = 4,
	};
	ck_assert_int_ge(fake.context.async_fd, 0);
	strcpy(fake.device.name, "fake0");
}

#endif
