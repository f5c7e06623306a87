/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/qp_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "rpc/rdma/rc/rc_conn.h"

/* Work requests beyond one per message. */
enum { SPARE_WRS = 16 };

struct rc_qp_spare {
	struct sl_list node;
	struct rc_qp qp;
};

static int negative_errno(void)
{
	return errno > 0 ? -errno : -ENOMEM;
}

static int create_qp(struct rc_qp *e, const struct rc_qp_attr *qp_attr)
{
	struct ibv_device_attr device;
	struct ibv_qp_init_attr attr = {
		.send_cq = e->tx_cq,
		.recv_cq = e->rx_cq,
		.srq = qp_attr->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = e->slots + SPARE_WRS,
			.max_send_sge = RC_SGE_MAX,
			.max_inline_data = RC_INLINE_WANT},
	};

	if (ibv_query_device(qp_attr->device, &device))
		return -EIO;
	if (device.max_sge < RC_SGE_MAX)
		attr.cap.max_send_sge = (uint32_t)device.max_sge;
	e->sge_max = attr.cap.max_send_sge;
	e->wr_max = attr.cap.max_send_wr - 2; /* less the probe and the last SEND */
	e->qp = ibv_create_qp(qp_attr->pd, &attr);
	if (!e->qp) {
		attr.cap.max_inline_data = 0;
		e->qp = ibv_create_qp(qp_attr->pd, &attr);
	}
	e->inline_max = attr.cap.max_inline_data;
	return e->qp ? 0 : negative_errno();
}

int rc_qp_create(struct rc_qp *e, const struct rc_qp_attr *qp_attr, uint32_t slots)
{
	int cnt = (int)(slots + SPARE_WRS), rc;

	*e = (struct rc_qp){.slots = slots, .rx_cq = qp_attr->cq};
	errno = 0;
	e->tx_cq =
		ibv_create_cq(qp_attr->device, cnt, NULL, qp_attr->comp_channel, qp_attr->vector);
	rc = e->tx_cq ? create_qp(e, qp_attr) : negative_errno();
	if (!rc) {
		e->mw = ibv_alloc_mw(qp_attr->pd, IBV_MW_TYPE_2);
		rc = e->mw ? 0 : negative_errno();
	}
	if (rc)
		rc_qp_destroy(e);
	return rc;
}

void rc_qp_destroy(struct rc_qp *e)
{
	if (e->mw)
		ibv_dealloc_mw(e->mw);
	if (e->qp)
		ibv_destroy_qp(e->qp);
	if (e->tx_cq)
		ibv_destroy_cq(e->tx_cq);
	*e = (struct rc_qp){.slots = 0};
}

void rc_qp_pool_init(struct rc_qp_pool *p, const struct rc_qp_attr *qp_attr)
{
	p->attr = *qp_attr;
	p->spare_cnt = p->refill_slots = 0;
	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->spare);
}

static void free_other_sizes(struct rc_qp_pool *p, uint32_t slots)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &p->spare) {
		struct rc_qp_spare *u = sl_container_of(at, struct rc_qp_spare, node);

		if (u->qp.slots == slots)
			continue;
		sl_list_del(&u->node);
		p->spare_cnt--;
		rc_qp_destroy(&u->qp);
		free(u);
	}
}

void rc_qp_pool_fini(struct rc_qp_pool *p)
{
	free_other_sizes(p, 0);
	pthread_mutex_destroy(&p->lock);
}

int rc_qp_pool_get(struct rc_qp_pool *p, uint32_t slots, struct rc_qp *e)
{
	struct rc_qp_spare *u = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&p->lock);
	sl_list_for_each (at, &p->spare) {
		u = sl_container_of(at, struct rc_qp_spare, node);
		if (u->qp.slots == slots)
			break;
		u = NULL;
	}
	if (u) {
		sl_list_del(&u->node);
		p->spare_cnt--;
	}
	pthread_mutex_unlock(&p->lock);
	if (!u)
		return rc_qp_create(e, &p->attr, slots);
	*e = u->qp;
	free(u);
	return 0;
}

void rc_qp_pool_request(struct rc_qp_pool *p, uint32_t slots)
{
	pthread_mutex_lock(&p->lock);
	p->refill_slots = slots;
	pthread_mutex_unlock(&p->lock);
}

void rc_qp_pool_refill(struct rc_qp_pool *p)
{
	pthread_mutex_lock(&p->lock);
	free_other_sizes(p, p->refill_slots);
	while (p->refill_slots && p->spare_cnt < RC_QP_POOL_READY) {
		struct rc_qp_spare *u = calloc(1, sizeof(*u));
		uint32_t slots = p->refill_slots;
		int rc = -ENOMEM;

		pthread_mutex_unlock(&p->lock);
		if (u)
			rc = rc_qp_create(&u->qp, &p->attr, slots);
		pthread_mutex_lock(&p->lock);
		if (rc) {
			free(u);
			break;
		}
		sl_list_add_tail(&p->spare, &u->node);
		p->spare_cnt++;
	}
	pthread_mutex_unlock(&p->lock);
}
