/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of devices, read by the service thread, and the state of watched ports. Any
 * thread.
 */
#ifndef SL_RPC_RDMA_ASYNC_EVENT_H
#define SL_RPC_RDMA_ASYNC_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include "rpc/rdma/device.h"

/* Called by the service thread. */
struct async_event_handler {
	/*
	 * Called before the event is acknowledged, for which its object's destruction waits: take
	 * no lock held then.
	 */
	void (*event)(struct ibv_context *device, const struct ibv_async_event *ev);
	/* Called after that. IBV_EVENT_DEVICE_FATAL: the device has gone. May be NULL. */
	void (*acked)(struct ibv_context *device, enum ibv_event_type type);
	/* used by async_event.c */
	bool listed;
	struct async_event_handler *next;
};

/* Adds a static handler, once. */
void async_event_subscribe(struct async_event_handler *h);
/* Passes an event to ports and handlers. Service thread, and tests. */
void async_event_dispatch(struct ibv_context *device, const struct ibv_async_event *ev);
/* Lets the service thread read the device's events. Returns 0 or -errno. */
int async_event_add_device(struct ibv_context *device);

/*
 * Asks the device if the port is down. Unlocks the held *lock meanwhile; asks again if *changes has
 * changed.
 */
bool rdma_port_query_down(struct ibv_context *device, uint8_t port, pthread_mutex_t *lock,
			  const unsigned *changes);

/* Watches a port's state. Returns NULL and -errno in *rc. */
struct rdma_port *rdma_port_watch(const struct rdma_local *l, int *rc);
/* Ends the watch. */
void rdma_port_unwatch(struct rdma_port *p);

#endif
