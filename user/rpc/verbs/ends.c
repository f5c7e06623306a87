/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/ends.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "rpc/verbs/verbs.h"

/*
 * Work requests besides one for each message: the first SEND and receive, and those of a message that
 * takes several WRITEs.
 */
enum { SPARE = 16 };

/* One that waits for a connection. */
struct unused {
	struct sl_list node;
	struct vb_end end;
};

int vb_vector_of(const struct ibv_context *device, unsigned group)
{
	unsigned number = group >= VB_GROUP_BACKEND ? (unsigned)getpid() : group;

	return device->num_comp_vectors > 1 ? (int)(number % (unsigned)device->num_comp_vectors)
					    : 0;
}

static int negative_errno(void)
{
	return errno > 0 ? -errno : -ENOMEM;
}

/* Inline where the device has it: asked for, then taken as granted. */
static int make_queue_pair(struct vb_end *e, const struct vb_place *place)
{
	struct ibv_device_attr device;
	struct ibv_qp_init_attr attr = {
		.send_cq = e->tx_cq,
		.recv_cq = e->rx_cq,
		.srq = place->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = e->slots + SPARE,
			.max_recv_wr = place->srq ? 0 : e->slots + SPARE,
			.max_send_sge = VB_SGE_MAX,
			.max_recv_sge = place->srq ? 0 : 1,
			.max_inline_data = VB_INLINE_WANT},
	};

	if (ibv_query_device(place->device, &device))
		return -EIO;
	if (device.max_sge < VB_SGE_MAX)
		attr.cap.max_send_sge = (uint32_t)device.max_sge;
	e->sge_max = attr.cap.max_send_sge;
	e->wr_max = attr.cap.max_send_wr - 2; /* beside what asks after the peer, and the last */
	e->qp = ibv_create_qp(place->pd, &attr);
	if (!e->qp) {
		attr.cap.max_inline_data = 0;
		e->qp = ibv_create_qp(place->pd, &attr);
	}
	e->inline_max = attr.cap.max_inline_data;
	return e->qp ? 0 : negative_errno();
}

int vb_end_make(struct vb_end *e, const struct vb_place *place, uint32_t slots)
{
	int cnt = (int)(slots + SPARE), rc;

	*e = (struct vb_end){.slots = slots, .shares = place->srq != NULL};
	errno = 0;
	e->bell = place->srq ? place->bell : ibv_create_comp_channel(place->device);
	if (e->bell)
		e->tx_cq = ibv_create_cq(place->device, cnt, NULL, e->bell, place->vector);
	if (e->tx_cq && place->srq)
		e->rx_cq = place->cq;
	else if (e->tx_cq)
		e->rx_cq = ibv_create_cq(place->device, cnt, NULL, e->bell, place->vector);
	rc = e->rx_cq ? make_queue_pair(e, place) : negative_errno();
	if (!rc && place->srq) {
		e->mw = ibv_alloc_mw(place->pd, IBV_MW_TYPE_2);
		rc = e->mw ? 0 : negative_errno();
	}
	if (rc)
		vb_end_free(e);
	return rc;
}

void vb_end_free(struct vb_end *e)
{
	if (e->mw)
		ibv_dealloc_mw(e->mw);
	if (e->qp)
		ibv_destroy_qp(e->qp);
	if (e->tx_cq)
		ibv_destroy_cq(e->tx_cq);
	if (e->rx_cq && !e->shares)
		ibv_destroy_cq(e->rx_cq);
	if (e->bell && !e->shares)
		ibv_destroy_comp_channel(e->bell);
	*e = (struct vb_end){.slots = 0};
}

void vb_ends_init(struct vb_ends *p, const struct vb_place *place)
{
	p->place = *place;
	p->unused_cnt = p->want = 0;
	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->unused);
}

/* With the lock: those that have another number of slots. */
static void free_others(struct vb_ends *p, uint32_t slots)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &p->unused) {
		struct unused *u = sl_container_of(at, struct unused, node);

		if (u->end.slots == slots)
			continue;
		sl_list_del(&u->node);
		p->unused_cnt--;
		vb_end_free(&u->end);
		free(u);
	}
}

void vb_ends_fini(struct vb_ends *p)
{
	free_others(p, 0);
	pthread_mutex_destroy(&p->lock);
}

int vb_ends_get(struct vb_ends *p, uint32_t slots, struct vb_end *e)
{
	struct unused *u = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&p->lock);
	sl_list_for_each (at, &p->unused) {
		u = sl_container_of(at, struct unused, node);
		if (u->end.slots == slots)
			break;
		u = NULL;
	}
	if (u) {
		sl_list_del(&u->node);
		p->unused_cnt--;
	}
	pthread_mutex_unlock(&p->lock);
	if (!u)
		return vb_end_make(e, &p->place, slots);
	*e = u->end;
	free(u);
	return 0;
}

void vb_ends_want(struct vb_ends *p, uint32_t slots)
{
	pthread_mutex_lock(&p->lock);
	p->want = slots;
	pthread_mutex_unlock(&p->lock);
}

void vb_ends_fill(struct vb_ends *p)
{
	pthread_mutex_lock(&p->lock);
	free_others(p, p->want);
	while (p->want && p->unused_cnt < VB_ENDS_READY) {
		struct unused *u = calloc(1, sizeof(*u));
		uint32_t slots = p->want;
		int rc = -ENOMEM;

		/* Without the lock while it lasts. */
		pthread_mutex_unlock(&p->lock);
		if (u)
			rc = vb_end_make(&u->end, &p->place, slots);
		pthread_mutex_lock(&p->lock);
		if (rc) {
			free(u);
			break;
		}
		sl_list_add_tail(&p->unused, &u->node);
		p->unused_cnt++;
	}
	pthread_mutex_unlock(&p->lock);
}
