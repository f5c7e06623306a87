/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/sidr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/path.h"
#include "rpc/transport.h"

enum {
	DEVICES_MAX = 16,
	BACKLOG = 1024,
	REQUESTS_MAX = 4, /* queries per call: each costs system calls */
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
	pid_t pid;
	struct pd_entry *previous;
} * pds[DEVICES_MAX];

/*
 * Opens the device and a protection domain. The CM closes its own context when the device goes. A
 * forked child opens another one, and shares no events with its parent.
 */
static struct pd_entry *open_pd(struct ibv_device *device)
{
	struct pd_entry *d = calloc(1, sizeof(*d));
	struct ibv_context *own = d ? ibv_open_device(device) : NULL;

	if (own)
		d->pd = ibv_alloc_pd(own);
	if (d)
		d->pid = getpid();
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

static struct ibv_pd *pd_of(struct ibv_device *device)
{
	struct pd_entry **slot, *d = NULL;

	pthread_mutex_lock(&lock);
	slot = pd_slot_of(device);
	if (slot && *slot && (*slot)->pid == getpid() && (*slot)->pd->context->device == device) {
		d = *slot;
	} else if (slot && (d = open_pd(device))) {
		d->previous = *slot;
		*slot = d;
	}
	pthread_mutex_unlock(&lock);
	return d ? d->pd : NULL;
}

static int fill_local(struct rdma_local *l, const struct rdma_cm_id *id)
{
	int index;

	memcpy(l->gid, id->route.addr.addr.ibaddr.sgid.raw, sizeof(l->gid));
	l->port = id->port_num;
	index = rdma_gid_index(id->verbs, l->port, l->gid);
	if (index < 0)
		return index;
	l->name = ibv_get_device_name(id->verbs->device);
	l->device = pd_of(id->verbs->device);
	return l->device ? 0 : -ENOMEM;
}

/*
 * Makes a bound id for SIDR, or returns NULL and errno. RC and UD listeners of one address have
 * different port spaces; only rdma_create_ep() makes an id for datagrams in another one than
 * RDMA_PS_UDP.
 */
static struct rdma_cm_id *create_id(struct rdma_event_channel *cm, bool rc,
				    const struct sockaddr_storage *sa)
{
	struct sockaddr_storage from = *sa;
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE,
				      .ai_family = sa->ss_family,
				      .ai_qp_type = IBV_QPT_UD,
				      .ai_port_space = rc ? RDMA_PS_IB : RDMA_PS_UDP,
				      .ai_src_len = sa->ss_family == AF_INET
							    ? sizeof(struct sockaddr_in)
							    : sizeof(struct sockaddr_in6),
				      .ai_src_addr = (struct sockaddr *)&from};

	struct rdma_cm_id *id;
	int err;

	if (rdma_create_ep(&id, &hints, NULL, NULL))
		return NULL;
	if (rdma_migrate_id(id, cm) == 0)
		return id;
	err = errno;
	rdma_destroy_ep(id);
	errno = err;
	return NULL;
}

static int open_service(struct sidr_service_cm *s, struct sockaddr_storage *sa, bool rc)
{
	int flags;

	s->cm = rdma_create_event_channel();
	if (!s->cm)
		return -ENODEV;
	flags = fcntl(s->cm->fd, F_GETFL);
	if (flags < 0 || fcntl(s->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	s->id = create_id(s->cm, rc, sa);
	if (!s->id)
		return errno ? -errno : -EIO;
	if (rdma_listen(s->id, BACKLOG))
		return -errno;
	s->base.fd = s->cm->fd;
	return s->id->verbs ? fill_local(&s->base.local, s->id) : -EADDRNOTAVAIL;
}

int sidr_service_new(struct sidr_service **service, struct sockaddr_storage *sa, bool rc)
{
	struct sidr_service_cm *s = calloc(1, sizeof(*s));
	int err = s ? open_service(s, sa, rc) : -ENOMEM;

	if (err && s)
		sidr_service_free(&s->base);
	*service = err ? NULL : &s->base;
	return err;
}

int sidr_service_local(struct sidr_service *base)
{
	return fill_local(&base->local, ((struct sidr_service_cm *)base)->id);
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
	const struct sidr_identity identity = {
		.magic = SL_WIREUP_MAGIC, .version = SL_UD_VERSION, .epoch = sl_rpc_boot_epoch()};
	struct rdma_conn_param param = {
		.qp_num = qpn, .private_data = &identity, .private_data_len = sizeof(identity)};
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
		(void)(qpn ? rdma_accept(id, &param) : rdma_reject(id, NULL, 0));
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

static int read_reply(struct sidr_call *a, const struct rdma_ud_param *ud)
{
	struct sidr_identity peer = {.magic = 0};

	if (ud->private_data && ud->private_data_len >= sizeof(peer))
		memcpy(&peer, ud->private_data, sizeof(peer));
	if (peer.magic != SL_WIREUP_MAGIC)
		*a->why = "the answer is not of a sluice backend";
	else if (peer.version < SL_UD_VERSION)
		*a->why =
			"refused: the backend is of an older release: build both from one release";
	else if (peer.version > SL_UD_VERSION)
		*a->why = "refused: the backend is of a newer release: build both from one release";
	if (*a->why)
		return -EPROTO;
	a->result->qpn = ud->qp_num;
	a->result->sl = ud->ah_attr.sl;
	a->result->epoch = peer.epoch;
	memcpy(a->result->gid, ud->ah_attr.grh.dgid.raw, sizeof(a->result->gid));
	return 0;
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
	if (!rc && expected == RDMA_CM_EVENT_ESTABLISHED)
		rc = read_reply(a, &ev->param.ud);
	rdma_ack_cm_event(ev);
	return rc;
}

static uint32_t path_mtu(const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;
	bool known =
		id->route.num_paths > 0 && path->mtu >= IBV_MTU_256 && path->mtu <= IBV_MTU_4096;

	return known ? 128U << path->mtu : 0;
}

static int resolve_path(struct sidr_call *a, struct sockaddr_storage *from)
{
	struct sockaddr_storage to = *a->q->sa;
	int rc = rdma_path_resolve(a->q->rdma, a->id, from, &to, remaining_ms(a));

	if (!rc)
		rc = await_cm_event(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!rc && !rdma_path_matches(a->q->rdma, a->id)) {
		*a->why = "the route uses another device or port than configured: see `ip "
			  "route get`";
		rc = -ENETUNREACH;
	}
	if (!rc && rdma_resolve_route(a->id, remaining_ms(a)))
		rc = -errno;
	return rc ? rc : await_cm_event(a, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* Also reads the device's events, which the kernel would accumulate. */
static int ask(struct sidr_call *a)
{
	struct rdma_conn_param param = {.qp_num = 0};
	struct rdma_local *local = &a->result->local;
	int rc = fill_local(local, a->id);

	if (!rc)
		rc = async_event_add_device(((struct ibv_pd *)local->device)->context);
	if (rc)
		return rc;
	a->result->mtu = path_mtu(a->id);
	if (rdma_connect(a->id, &param))
		return -errno;
	return await_cm_event(a, RDMA_CM_EVENT_ESTABLISHED);
}

static int run_call(struct sidr_call *a, struct rdma_event_channel *cm)
{
	struct sockaddr_storage from;
	int rc = rdma_path_source(a->q->rdma, a->q->sa->ss_family, &from);

	if (!rc && !(a->id = create_id(cm, a->q->rc, &from)))
		rc = errno ? -errno : -EIO;
	if (rc == -ENODEV)
		*a->why = "no such RDMA device: see `rdma link`";
	if (rc == -EADDRNOTAVAIL)
		*a->why = "no such source: see `ip address`, and `rdma link` for the device's";
	if (!a->id)
		return rc;
	rc = resolve_path(a, &from);
	return rc ? rc : ask(a);
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
	rc = run_call(&a, cm);
	if (a.id)
		rdma_destroy_id(a.id);
	rdma_destroy_event_channel(cm);
	return rc;
}
