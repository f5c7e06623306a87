/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice._client: C part of sluice.Client, based on sluice/client.h and the stable ABI of Python
 * 3.11. The GIL is released while a thread waits. Callbacks run without it and queue events for
 * Python.
 */
#ifndef SL_SDK_PYTHON_CLIENT_BINDING_H
#define SL_SDK_PYTHON_CLIENT_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <pthread.h>
#include <stdbool.h>
#include "base/list.h"
#include "sluice/client.h"

/* The descriptor is readable while the queue is not empty. */
struct py_queue {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct sl_list events;
	int fd; /* -1: none */
};

/* An end of a call, with its reply, or bytes of a stream. */
struct py_event {
	struct sl_list node;
	uint64_t token;
	struct py_queue *queue; /* of a call that has not ended */
	bool end;
	size_t left;
	struct sl_rpc_call_reply reply; /* views point into `bytes` */
	size_t len;                     /* stream only */
	uint8_t bytes[];
};

struct py_client {
	PyObject_HEAD struct sl_rpc_client *c;
	struct py_queue queue;
	unsigned users; /* threads that wait without the GIL */
	bool closed;    /* the last user frees */
	bool ready;
};

struct py_call {
	struct sl_rpc_call_args args;
	struct sl_header_arg *headers; /* owned */
};

/* queue.c. Returns 0 or -errno. `has_fd`: an eventfd for asyncio. */
int queue_init(struct py_queue *q, bool has_fd);
/* Frees the queue and its events. */
void queue_fini(struct py_queue *q);
/* Returns a copy; NULL without memory. */
struct py_event *event_of_reply(const struct sl_rpc_call_reply *reply);
/* Appends an event. Any thread. */
void queue_put(struct py_queue *q, struct py_event *e);
/* Takes an event, for free(). Returns NULL if there is none. */
struct py_event *queue_take(struct py_queue *q);
/* Takes an event, waiting until `until_ns` at most; NULL then. Called without the GIL. */
struct py_event *queue_wait(struct py_queue *q, uint64_t until_ns);

/* client.c */
/* Returns the open client, or NULL with an exception. */
struct sl_rpc_client *client_enter(PyObject *self);
/* After client_enter(), with the GIL. */
void client_leave(PyObject *self);
/*
 * Reads (path, method, query, authority, content_type, headers, priority, deadline_us, idempotent,
 * grpc). Returns false with an exception.
 */
bool call_read(struct py_call *call, PyObject *head);
/* (error, status, body, content_type, grpc_status, grpc_message, headers, service_us, attempts) */
PyObject *reply_tuple(const struct sl_rpc_call_reply *reply);
/* Sets an OSError. Returns NULL. */
PyObject *raise_errno(int error);

/* stream.c: type Stream. */
PyObject *stream_type_new(void);

#endif
