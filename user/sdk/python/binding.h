/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice._backend: C part of the Python package `sluice`, based on sluice/backend.h and the stable
 * ABI of Python 3.11. The GIL protects everything; it is released while a backend waits.
 *
 *   Backend (open requests) <--- Request (strong) <--- memoryview, NumPy arrays ... (exports)
 *
 * A reply releases the memoryview of `body`. It is held while other objects have its buffers:
 * Python never reads freed memory.
 */
#ifndef SL_SDK_PYTHON_BINDING_H
#define SL_SDK_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include "base/list.h"
#include "sluice/backend.h"

struct py_backend {
	PyObject_HEAD struct sl_backend *b;
	PyThreadState *thread;
	PyObject *raised; /* exception of the handler */
	bool polling;
	struct sl_list open;
	int stream_fd; /* -1: no streams */
	pthread_mutex_t lock;
	struct note *notes, **notes_end; /* protected by `lock` */
};

struct py_request {
	PyObject_HEAD struct sl_list node; /* in `open` of the backend */
	struct py_backend *backend;        /* strong */
	struct sl_request_view *view;      /* NULL after the reply */
	PyObject *body;                    /* weak reference to the memoryview of `body`, or NULL */
	struct py_form *held;
	Py_ssize_t exports;
	struct stream *stream;
	bool has_trailers; /* complete */
};

extern PyTypeObject *request_type;

/* Adds the type Request. Returns false with an exception. */
bool request_type_add(PyObject *module);
/* Returns a new Request; NULL with an exception. */
PyObject *request_new(struct py_backend *backend, struct sl_request_view *view);
/* Ends a request of a closed backend. False: its bytes are in use. */
bool request_abandon(struct py_request *rq);
/* Replies with a status, unless answered. */
void request_fail(struct py_request *rq, enum sl_rpc_status status);

/* form.c. Owns references to the bytes' objects. */
struct py_form {
	struct sl_reply_args args;
	struct sl_header_arg *headers; /* NULL: none */
	PyObject *alive;
	PyObject *body; /* set by form_keep(); otherwise NULL */
};

/* `keywords` may be NULL. Returns false with an exception, or true; then call form_end(). */
bool form_read(struct py_form *f, PyObject *keywords);
/* Same for an interim reply. */
bool form_read_interim(struct py_form *f, PyObject *args, PyObject *keywords);
/* Drops the references. */
void form_end(struct py_form *f);
/* Copies a form and its body. Returns NULL with an exception. Runs no Python code. */
struct py_form *form_keep(const struct py_form *f);
/* Frees a kept form, or NULL. */
void form_free(struct py_form *f);

/* stream.c. Sets opt->on_stream. Returns false without a descriptor. */
bool streams_open(struct py_backend *b, struct sl_backend_options *opt);
/* Frees what is left, after sl_backend_close(). */
void streams_close(struct py_backend *b);
/* Replies, also to requests without stream. Returns 0 or -errno. */
int stream_reply(struct py_request *rq, const struct sl_reply_args *args,
		 enum sl_rpc_status status);
/* Drops the stream of a request, if any. */
void stream_close(struct py_request *rq);
/* Backend._stream_events(), Request._taken(length). */
PyObject *stream_events(PyObject *self, PyObject *unused);
PyObject *stream_taken(PyObject *self, PyObject *len);

/* reply_rows(requests, array, **keywords), finish(requests). */
PyObject *reply_rows(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *finish(PyObject *module, PyObject *requests);

#endif
