/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/sidr.h"
#include "rpc/rdma/rc/rc_conn.h"

enum { EVENTS_MAX = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all}; /* published peers */

struct rc_peer *rc_peer_new(struct rdma_cm_id *id, struct rdma_event_channel *cm)
{
	struct rc_peer *peer = calloc(1, sizeof(*peer));

	if (peer)
		*peer = (struct rc_peer){.id = id, .cm = cm, .refs = 1, .pid = getpid()};
	return peer;
}

void rc_peer_drop(struct rc_peer *peer)
{
	free(peer);
}

/* Lock held. */
static void unpublish_locked(struct rc_peer *peer)
{
	if (peer->published)
		sl_list_del(&peer->node);
	peer->published = false;
}

/* Further connections then begin with the CM, which resolves the path again. */
static void handle_device_event(struct ibv_context *device, const struct ibv_async_event *ev)
{
	struct sl_list *at, *next;

	if (ev->event_type != IBV_EVENT_GID_CHANGE)
		return;
	pthread_mutex_lock(&lock);
	sl_list_for_each_safe (at, next, &all) {
		struct rc_peer *peer = sl_container_of(at, struct rc_peer, node);

		if (peer->id->verbs->device == device->device &&
		    peer->id->port_num == ev->element.port_num)
			unpublish_locked(peer);
	}
	pthread_mutex_unlock(&lock);
}

void rc_peer_publish(struct rc_peer *peer, struct ibv_qp *qp, const struct rc_peer_addr *k)
{
	static struct async_event_handler handler = {.event = handle_device_event};
	struct ibv_qp_init_attr init;

	async_event_subscribe(&handler);
	peer->addr = *k;
	if (!k->wireup_qpn ||
	    ibv_query_qp(qp, &peer->addr.qp_attr, IBV_QP_AV | IBV_QP_PATH_MTU, &init) ||
	    rdma_local_of_id(&peer->addr.local, peer->id))
		return;
	pthread_mutex_lock(&lock);
	if (!peer->gone && !peer->published) {
		sl_list_add_tail(&all, &peer->node);
		peer->published = true;
	}
	pthread_mutex_unlock(&lock);
}

void rc_peer_unpublish(struct rc_peer *peer)
{
	pthread_mutex_lock(&lock);
	unpublish_locked(peer);
	pthread_mutex_unlock(&lock);
}

static bool matches_addr(const struct rc_peer *peer, const struct sockaddr_storage *sa,
			 const struct rdma_path_spec *path)
{
	return peer->pid == getpid() && memcmp(&peer->addr.sa, sa, sizeof(*sa)) == 0 &&
	       memcmp(&peer->addr.path, path, sizeof(*path)) == 0;
}

struct rc_peer *rc_peer_find_by_addr(const struct sockaddr_storage *sa,
				     const struct rdma_path_spec *path)
{
	struct rc_peer *found = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_peer *peer = sl_container_of(at, struct rc_peer, node);

		if (!found && matches_addr(peer, sa, path)) {
			found = peer;
			found->refs++;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

struct rc_peer *rc_peer_find_by_gid(const struct ibv_context *device, uint64_t epoch,
				    const uint8_t gid[16], uint8_t tos)
{
	struct rc_peer *found = NULL;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_peer *peer = sl_container_of(at, struct rc_peer, node);

		if (!found && peer->pid == getpid() && peer->addr.epoch == epoch &&
		    peer->addr.sa.ss_family == AF_UNSPEC && peer->id->verbs == device &&
		    peer->addr.qp_attr.ah_attr.grh.traffic_class == tos &&
		    memcmp(peer->addr.qp_attr.ah_attr.grh.dgid.raw, gid, 16) == 0) {
			found = peer;
			found->refs++;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* A disconnect makes the peer suspect, other events end its connections. */
static void handle_cm_events(struct service_source *source)
{
	struct rc_peer *peer = sl_container_of(source, struct rc_peer, source);
	struct rdma_cm_event *ev;
	bool gone = false, suspect = false;

	for (int i = 0; i < EVENTS_MAX; i++) {
		if (rdma_get_cm_event(peer->cm, &ev)) {
			/* This thread may not read it (doorbell.c): most likely the end. */
			gone |= errno == EACCES;
			break;
		}
		switch (ev->event) {
		/* not authenticated */
		case RDMA_CM_EVENT_DISCONNECTED: suspect = true; break;
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED: gone = true; break;
		default: break;
		}
		rdma_ack_cm_event(ev);
	}
	if (!gone && !suspect)
		return;
	peer->gone = true;
	rc_peer_unpublish(peer);
	if (gone) {
		rc_conns_fail_of_peer(peer);
		return;
	}
	rc_conns_suspect_peer(peer);
	/* Answers the disconnect, so that a living peer learns of it. */
	(void)rdma_disconnect(peer->id);
}

int rc_peer_watch(struct rc_peer *peer)
{
	int rc;

	peer->source.handle = handle_cm_events;
	rc = service_source_add(&peer->source, peer->cm->fd);
	peer->watched = rc == 0;
	return rc;
}

void rc_peer_disconnect_last(struct rc_peer *peer)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = peer->refs == 1;
	if (last)
		unpublish_locked(peer);
	pthread_mutex_unlock(&lock);
	if (last)
		(void)rdma_disconnect(peer->id);
}

bool rc_peer_needs_qp(struct rc_peer *peer, const struct ibv_qp *qp)
{
	bool needed;

	if (peer->id->qp != qp)
		return false;
	pthread_mutex_lock(&lock);
	needed = peer->refs > 1;
	if (!needed)
		unpublish_locked(peer);
	pthread_mutex_unlock(&lock);
	return needed;
}

void rc_peer_park_qp(struct rc_peer *peer, struct rc_conn *conn)
{
	if (!peer->id->qp || conn->qp.qp != peer->id->qp)
		return;
	conn->qp.qp->qp_context = NULL;
	rc_iface_lower_window(conn->iface, conn->window, SL_RPC_MIN_SLOTS);
	peer->qp = conn->qp;
	peer->iface = conn->iface;
	conn->qp = (struct rc_qp){.slots = 0};
	conn->iface = NULL;
	conn->pd = NULL; /* belongs to the interface */
}

void rc_peer_put(struct rc_peer *peer)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --peer->refs == 0;
	if (last)
		unpublish_locked(peer);
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	if (peer->watched)
		service_source_remove(peer->cm->fd);
	peer->id->qp = NULL;
	rc_qp_destroy(&peer->qp);
	if (peer->iface)
		rc_iface_leave(peer->iface, SL_RPC_MIN_SLOTS);
	rdma_destroy_id(peer->id);
	rdma_destroy_event_channel(peer->cm);
	free(peer);
}
