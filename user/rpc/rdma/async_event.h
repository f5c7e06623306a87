/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of devices: the service thread reads them, and calls the handlers.
 * The state of watched ports is kept here. Any thread.
 */
#ifndef SL_RPC_RDMA_ASYNC_EVENT_H
#define SL_RPC_RDMA_ASYNC_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include "rpc/rdma/device.h"

/* The service thread calls both members. */
struct async_event_handler {
	/*
	 * Called before the event is acknowledged. The event's object lives until then, and
	 * destroying it waits. So this function takes no lock that is held while one is destroyed.
	 */
	void (*event)(struct ibv_context *device, const struct ibv_async_event *ev);
	/* Called after that. IBV_EVENT_DEVICE_FATAL: the device has gone. May be NULL. */
	void (*acked)(struct ibv_context *device, enum ibv_event_type type);
	/* used by async_event.c */
	bool listed;
	struct async_event_handler *next;
};

/* Adds a static handler; does nothing if it is there. */
void async_event_subscribe(struct async_event_handler *h);
/* Calls the handlers, and marks watched ports. */
void async_event_dispatch(struct ibv_context *device, const struct ibv_async_event *ev);
/* Reads events of that device from now on. Returns 0 or -errno. */
int async_event_add_device(struct ibv_context *device);

/*
 * Returns true if the port is down. Releases *lock, which is held, during the query: a hanging
 * device must not stop others. Queries again if *changes has changed meanwhile.
 */
bool rdma_port_query_down(struct ibv_context *device, uint8_t port, pthread_mutex_t *lock,
			  const unsigned *changes);

/* Members of rdma_device_ibv (device.h). */
struct rdma_port *rdma_port_watch(const struct rdma_local *l, int *rc);
void rdma_port_unwatch(struct rdma_port *p);

#endif
