/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/leash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rpc/ud/sidr.h"
#include "rpc/verbs/verbs.h"

enum { EVENTS_MAX = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all}; /* that are shared */

struct vb_leash *vb_leash_new(struct rdma_cm_id *id, struct rdma_event_channel *cm)
{
	struct vb_leash *l = calloc(1, sizeof(*l));

	if (l)
		*l = (struct vb_leash){.id = id, .cm = cm, .refs = 1, .pid = getpid()};
	return l;
}

void vb_leash_drop(struct vb_leash *l)
{
	free(l);
}

int vb_leash_watch(struct vb_leash *l)
{
	int rc = vb_async_watch(l);

	l->watched = rc == 0;
	return rc;
}

/* With the lock. */
static void hide(struct vb_leash *l)
{
	if (l->shared)
		sl_list_del(&l->node);
	l->shared = false;
}

void vb_leash_share(struct vb_leash *l, struct ibv_qp *qp, const struct vb_known *k)
{
	struct ibv_qp_init_attr init;

	l->known = *k;
	if (!k->door || ibv_query_qp(qp, &l->known.way, IBV_QP_AV | IBV_QP_PATH_MTU, &init) ||
	    ud_sidr_local(&l->known.local, l->id))
		return;
	pthread_mutex_lock(&lock);
	if (!l->gone && !l->shared) {
		sl_list_add_tail(&all, &l->node);
		l->shared = true;
	}
	pthread_mutex_unlock(&lock);
}

void vb_leash_unshare(struct vb_leash *l)
{
	pthread_mutex_lock(&lock);
	hide(l);
	pthread_mutex_unlock(&lock);
}

static bool leads_to(const struct vb_leash *l, const struct sockaddr_storage *sa,
		     const struct vb_way *asked)
{
	return l->pid == getpid() && memcmp(&l->known.sa, sa, sizeof(*sa)) == 0 &&
	       memcmp(&l->known.asked, asked, sizeof(*asked)) == 0;
}

struct vb_leash *vb_leash_to(const struct sockaddr_storage *sa, const struct vb_way *asked)
{
	struct vb_leash *found = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct vb_leash *l = sl_container_of(at, struct vb_leash, node);

		if (!found && leads_to(l, sa, asked)) {
			found = l;
			found->refs++;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

struct vb_leash *vb_leash_of(const struct ibv_context *device, uint64_t epoch,
			     const uint8_t gid[16], uint8_t tos)
{
	struct vb_leash *found = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct vb_leash *l = sl_container_of(at, struct vb_leash, node);

		if (!found && l->pid == getpid() && l->known.epoch == epoch &&
		    l->known.sa.ss_family == AF_UNSPEC && l->id->verbs == device &&
		    l->known.way.ah_attr.grh.traffic_class == tos &&
		    memcmp(l->known.way.ah_attr.grh.dgid.raw, gid, 16) == 0) {
			found = l;
			found->refs++;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void vb_leash_take(struct vb_leash *l)
{
	struct rdma_cm_event *ev;
	bool gone = false, doubted = false;

	for (int i = 0; i < EVENTS_MAX; i++) {
		if (rdma_get_cm_event(l->cm, &ev)) {
			/* Not to be read by this thread (doorbell.c): an end, most likely. */
			gone |= errno == EACCES;
			break;
		}
		switch (ev->event) {
		/* What makes it say so is not authenticated. */
		case RDMA_CM_EVENT_DISCONNECTED: doubted = true; break;
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED: gone = true; break;
		default: break;
		}
		rdma_ack_cm_event(ev);
	}
	if (!gone && !doubted)
		return;
	l->gone = true;
	vb_leash_unshare(l);
	if (gone) {
		vb_events_end(l);
		return;
	}
	vb_events_doubt(l);
	/* Is answered, so that the other end hears of it as well, if that lives. */
	(void)rdma_disconnect(l->id);
}

void vb_leash_end(struct vb_leash *l)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = l->refs == 1;
	if (last)
		hide(l);
	pthread_mutex_unlock(&lock);
	if (last)
		(void)rdma_disconnect(l->id);
}

bool vb_leash_keeps(struct vb_leash *l, const struct ibv_qp *qp)
{
	bool keeps;

	if (l->id->qp != qp)
		return false;
	pthread_mutex_lock(&lock);
	keeps = l->refs > 1;
	if (!keeps)
		hide(l);
	pthread_mutex_unlock(&lock);
	return keeps;
}

void vb_leash_park(struct vb_leash *l, struct sl_verbs *v)
{
	if (!l->id->qp || v->end.qp != l->id->qp)
		return;
	v->end.qp->qp_context = NULL;
	vb_home_lower(v->home, v->window, SL_RPC_MIN_SLOTS);
	l->end = v->end;
	l->home = v->home;
	v->end = (struct vb_end){.slots = 0};
	v->home = NULL;
	v->pd = NULL; /* the home's */
}

void vb_leash_put(struct vb_leash *l)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --l->refs == 0;
	if (last)
		hide(l);
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	if (l->watched)
		vb_async_unwatch(l);
	l->id->qp = NULL;
	vb_end_free(&l->end);
	if (l->home)
		vb_home_leave(l->home, SL_RPC_MIN_SLOTS);
	rdma_destroy_id(l->id);
	rdma_destroy_event_channel(l->cm);
	free(l);
}
