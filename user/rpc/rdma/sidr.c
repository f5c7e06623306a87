/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/sidr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/path.h"

enum {
	DEVICES_MAX = 16,
	BACKLOG = 1024,
	REQUESTS_MAX = 4, /* queries per call: each costs the serving thread some system calls */
};

struct sidr_service_cm {
	struct sidr_service base;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
};

struct sidr_call {
	const struct sidr_query *q;
	struct rdma_cm_id *id;
	struct sidr_result *result;
	const char **why;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pd_entry {
	struct ibv_pd *pd;
	struct pd_entry *previous;
} * pds[DEVICES_MAX];

/* The CM closes its context when the device goes, while ours may be in use. */
static struct pd_entry *open_pd(struct ibv_device *device)
{
	struct pd_entry *d = calloc(1, sizeof(*d));
	struct ibv_context *own = d ? ibv_open_device(device) : NULL;

	if (own)
		d->pd = ibv_alloc_pd(own);
	if (d && d->pd)
		return d;
	if (own)
		ibv_close_device(own);
	free(d);
	return NULL;
}

static struct pd_entry **pd_slot_of(struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (!pds[i] || !strcmp(ibv_get_device_name(pds[i]->pd->context->device), name))
			return &pds[i];
	}
	return NULL;
}

/* The one of a removed device is kept for its users. */
static struct ibv_pd *pd_of(struct ibv_device *device)
{
	struct pd_entry **slot, *d = NULL;

	pthread_mutex_lock(&lock);
	slot = pd_slot_of(device);
	if (slot && *slot && (*slot)->pd->context->device == device) {
		d = *slot;
	} else if (slot && (d = open_pd(device))) {
		d->previous = *slot;
		*slot = d;
	}
	pthread_mutex_unlock(&lock);
	return d ? d->pd : NULL;
}

static int gid_index_of(struct ibv_context *device, uint8_t port, const uint8_t gid[16])
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr attr;

	if (ibv_query_port(device, port, &attr))
		return -EIO;
	for (int i = 0; i < attr.gid_tbl_len && i <= UINT8_MAX; i++) {
		if (ibv_query_gid_ex(device, port, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type != IBV_GID_TYPE_ROCE_V1 && !memcmp(entry.gid.raw, gid, 16))
			return i;
	}
	return -EADDRNOTAVAIL;
}

static int fill_local(struct rdma_local *l, const struct rdma_cm_id *id)
{
	int index;

	memcpy(l->gid, id->route.addr.addr.ibaddr.sgid.raw, sizeof(l->gid));
	l->port = id->port_num;
	index = gid_index_of(id->verbs, l->port, l->gid);
	if (index < 0)
		return index;
	l->gid_index = (uint8_t)index;
	l->name = ibv_get_device_name(id->verbs->device);
	l->device = pd_of(id->verbs->device);
	return l->device ? 0 : -ENOMEM;
}

/* Also reads the device's events, which the kernel would accumulate. */
int rdma_local_of_id(struct rdma_local *l, const struct rdma_cm_id *id)
{
	int rc = fill_local(l, id);

	return rc ? rc : async_event_add_device(((struct ibv_pd *)l->device)->context);
}

static int open_service(struct sidr_service_cm *s, struct sockaddr_storage *sa)
{
	int flags;

	s->cm = rdma_create_event_channel();
	if (!s->cm)
		return -ENODEV;
	flags = fcntl(s->cm->fd, F_GETFL);
	if (flags < 0 || fcntl(s->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	if (rdma_create_id(s->cm, &s->id, NULL, RDMA_PS_UDP)) {
		s->id = NULL;
		return -errno;
	}
	if (rdma_bind_addr(s->id, (struct sockaddr *)sa) || rdma_listen(s->id, BACKLOG))
		return -errno;
	s->base.fd = s->cm->fd;
	/* A wildcard has no device. Events are read once the port is watched. */
	return s->id->verbs ? fill_local(&s->base.local, s->id) : -EADDRNOTAVAIL;
}

int sidr_service_new(struct sidr_service **service, struct sockaddr_storage *sa)
{
	struct sidr_service_cm *s = calloc(1, sizeof(*s));
	int rc = s ? open_service(s, sa) : -ENOMEM;

	if (rc && s)
		sidr_service_free(&s->base);
	*service = rc ? NULL : &s->base;
	return rc;
}

void sidr_service_free(struct sidr_service *base)
{
	struct sidr_service_cm *s = (struct sidr_service_cm *)base;

	if (s->id)
		rdma_destroy_id(s->id);
	if (s->cm)
		rdma_destroy_event_channel(s->cm);
	free(s);
}

int sidr_service_reply(struct sidr_service *base, uint32_t qpn)
{
	const struct sidr_service_cm *s = (const struct sidr_service_cm *)base;
	struct rdma_conn_param param = {.qp_num = qpn};
	struct rdma_cm_event *ev;
	int rc = 0;

	for (unsigned i = 0; i < REQUESTS_MAX && !rc && rdma_get_cm_event(s->cm, &ev) == 0; i++) {
		struct rdma_cm_id *id = ev->id;
		bool is_request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;

		if (id == s->id && ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			rc = -ENODEV;
		if (id == s->id && ev->event == RDMA_CM_EVENT_ADDR_CHANGE)
			rc = -EADDRNOTAVAIL;

		rdma_ack_cm_event(ev);
		if (!is_request)
			continue;
		(void)rdma_accept(id, &param);
		(void)rdma_destroy_id(id);
	}
	return rc;
}

static int remaining_ms(const struct sidr_call *a)
{
	uint64_t now = sl_now_ns();

	return now < a->q->deadline_ns ? (int)((a->q->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

static int cm_event_error(struct sidr_call *a, const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		*a->why = "no RDMA device has a route there: see `rdma link` and `ip route get`";
		return -ENETUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (ev->status == -ETIMEDOUT)
			return -ETIMEDOUT;
		*a->why = "connection refused: is the backend running?";
		return -ECONNREFUSED;
	default: return -ECONNRESET;
	}
}

static int await_cm_event(struct sidr_call *a, enum rdma_cm_event_type expected)
{
	struct pollfd p = {.fd = a->id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int rc, n;

	do {
		n = poll(&p, 1, remaining_ms(a));
		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0)
			n = rdma_get_cm_event(a->id->channel, &ev);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return -errno;
	rc = ev->event == expected ? 0 : cm_event_error(a, ev);
	if (!rc && expected == RDMA_CM_EVENT_ESTABLISHED) {
		a->result->qpn = ev->param.ud.qp_num;
		memcpy(a->result->gid, ev->param.ud.ah_attr.grh.dgid.raw, sizeof(a->result->gid));
	}
	rdma_ack_cm_event(ev);
	return rc;
}

/* May be less than the port's MTU, e.g. behind a tunnel or with a VLAN. */
static uint32_t path_mtu(const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;
	bool known =
		id->route.num_paths > 0 && path->mtu >= IBV_MTU_256 && path->mtu <= IBV_MTU_4096;

	return known ? 128U << path->mtu : 0;
}

static int run_call(struct sidr_call *a)
{
	struct sockaddr_storage sa = *a->q->sa;
	struct rdma_conn_param param = {.qp_num = 0};
	int rc = rdma_path_resolve(a->q->rdma, a->id, &sa, remaining_ms(a));

	if (rc == -ENODEV)
		*a->why = "no such RDMA device: see `rdma link`";
	if (!rc)
		rc = await_cm_event(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!rc && !rdma_path_matches(a->q->rdma, a->id)) {
		*a->why = "the route uses another device or port than configured: see `ip "
			  "route get`";
		rc = -ENETUNREACH;
	}
	if (!rc && rdma_resolve_route(a->id, remaining_ms(a)))
		rc = -errno;
	if (!rc)
		rc = await_cm_event(a, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!rc)
		rc = rdma_local_of_id(&a->result->local, a->id);
	if (!rc)
		a->result->mtu = path_mtu(a->id);
	if (!rc && rdma_connect(a->id, &param))
		rc = -errno;
	return rc ? rc : await_cm_event(a, RDMA_CM_EVENT_ESTABLISHED);
}

int sidr_resolve(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	struct sidr_call a = {.q = q, .result = h, .why = why};
	int rc;

	if (!cm) {
		*why = "this host has no RDMA: load the driver of its NIC, or rdma_rxe and "
		       "rdma_ucm";
		return -ENODEV;
	}
	if (rdma_create_id(cm, &a.id, NULL, RDMA_PS_UDP)) {
		rc = -errno;
	} else {
		rc = run_call(&a);
		rdma_destroy_id(a.id);
	}
	rdma_destroy_event_channel(cm);
	return rc;
}
