/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/async_event.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/list.h"
#include "rpc/rdma/service_thread.h"

enum {
	DRAIN_MAX = 16,
	DEVICES_MAX = 64,
};

struct device_source {
	struct service_source base;
	struct ibv_context *device; /* NULL: unused */
	pid_t pid;
};

struct port_watch {
	struct rdma_port base;
	struct ibv_context *device;
	int num;
	struct sl_list node;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list ports = {&ports, &ports};
static unsigned port_changes;
static struct device_source devices[DEVICES_MAX];
static struct async_event_handler *handlers;

void async_event_subscribe(struct async_event_handler *h)
{
	pthread_mutex_lock(&lock);
	if (!h->listed) {
		h->listed = true;
		h->next = handlers;
		handlers = h;
	}
	pthread_mutex_unlock(&lock);
}

static struct async_event_handler *first_handler(void)
{
	struct async_event_handler *first;

	pthread_mutex_lock(&lock);
	first = handlers;
	pthread_mutex_unlock(&lock);
	return first;
}

bool rdma_port_query_down(struct ibv_context *device, uint8_t port, pthread_mutex_t *held,
			  const unsigned *changes)
{
	struct ibv_port_attr attr;
	unsigned before;
	bool down;

	do {
		before = *changes;
		pthread_mutex_unlock(held);
		down = ibv_query_port(device, port, &attr) == 0 && attr.state == IBV_PORT_DOWN;
		pthread_mutex_lock(held);
	} while (*changes != before);
	return down;
}

static void set_port_down(const struct ibv_context *device, int port, bool down)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	port_changes++;
	sl_list_for_each (at, &ports) {
		struct port_watch *p = sl_container_of(at, struct port_watch, node);

		if (p->device != device || p->num != port)
			continue;
		p->base.down = down;
		(void)eventfd_write(p->base.fd, 1);
	}
	pthread_mutex_unlock(&lock);
}

struct rdma_port *rdma_port_watch(const struct rdma_local *local, int *rc)
{
	struct ibv_context *device = ((struct ibv_pd *)local->device)->context;
	struct port_watch *p = calloc(1, sizeof(*p));

	*rc = p ? async_event_add_device(device) : -ENOMEM;
	if (!*rc) {
		p->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		*rc = p->base.fd < 0 ? -errno : 0;
	}
	if (*rc) {
		free(p);
		return NULL;
	}
	p->device = device;
	p->num = local->port;
	pthread_mutex_lock(&lock);
	p->base.down = rdma_port_query_down(p->device, local->port, &lock, &port_changes);
	sl_list_add_tail(&ports, &p->node);
	pthread_mutex_unlock(&lock);
	return &p->base;
}

void rdma_port_unwatch(struct rdma_port *base)
{
	struct port_watch *p = (struct port_watch *)base;

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	pthread_mutex_unlock(&lock);
	close(p->base.fd);
	free(p);
}

/* Stops reading a removed device's events. The device comes back with another context. */
static void remove_device(struct device_source *s)
{
	service_source_remove(s->device->async_fd);
	pthread_mutex_lock(&lock);
	s->device = NULL;
	pthread_mutex_unlock(&lock);
}

void async_event_dispatch(struct ibv_context *device, const struct ibv_async_event *ev)
{
	if (ev->event_type == IBV_EVENT_PORT_ERR || ev->event_type == IBV_EVENT_PORT_ACTIVE)
		set_port_down(device, ev->element.port_num, ev->event_type == IBV_EVENT_PORT_ERR);
	for (struct async_event_handler *h = first_handler(); h; h = h->next)
		h->event(device, ev);
}

static void call_acked(struct ibv_context *device, enum ibv_event_type type)
{
	for (struct async_event_handler *h = first_handler(); h; h = h->next) {
		if (h->acked)
			h->acked(device, type);
	}
}

static void handle_device(struct service_source *base)
{
	struct device_source *s = (struct device_source *)base;
	struct ibv_context *device = s->device;
	struct ibv_async_event ev;

	for (int i = 0; i < DRAIN_MAX && ibv_get_async_event(device, &ev) == 0; i++) {
		bool fatal = ev.event_type == IBV_EVENT_DEVICE_FATAL;

		async_event_dispatch(device, &ev);
		ibv_ack_async_event(&ev);
		if (fatal)
			remove_device(s);
		call_acked(device, ev.event_type);
		if (fatal)
			return;
	}
}

static struct device_source *find_source(const struct ibv_context *device, pid_t pid)
{
	struct device_source *unused = NULL;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (devices[i].device == device && devices[i].pid == pid)
			return &devices[i];
		if (!devices[i].device || devices[i].pid != pid)
			unused = &devices[i];
	}
	return unused;
}

int async_event_add_device(struct ibv_context *device)
{
	struct device_source *s;
	pid_t pid = getpid();
	int rc;

	pthread_mutex_lock(&lock);
	s = find_source(device, pid);
	if (!s || (s->device == device && s->pid == pid)) {
		pthread_mutex_unlock(&lock);
		return s ? 0 : -ENOSPC;
	}
	*s = (struct device_source){.base.handle = handle_device, .device = device, .pid = pid};
	rc = service_source_add(&s->base, device->async_fd);
	if (rc)
		s->device = NULL;
	pthread_mutex_unlock(&lock);
	return rc;
}
