/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice._backend: what the Python package `sluice` has in C, on sluice/backend.h alone and within
 * the stable ABI of Python 3.11. Everything here belongs to whoever has the GIL, which is given up
 * while a backend waits.
 *
 *   Backend (open requests) <--- Request (strong) <--- memoryview, NumPy arrays ... (exports)
 *
 * A request's bytes are the SDK's until its reply. A reply ends the memoryview that `body` gave;
 * while something else still looks at the bytes, an array for instance, the reply is held, and goes
 * when the last of these is gone: nobody ever reads freed memory.
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
	PyThreadState *thread; /* of who polls, while it waits */
	PyObject *raised;      /* by the handler, for who polls */
	bool polling;
	struct sl_list open;
	/* of streams, see stream.c */
	int stream_fd; /* readable: there are notes; -1: it takes no streams */
	pthread_mutex_t lock;
	struct note *notes, **notes_end; /* under the lock */
};

struct py_request {
	PyObject_HEAD struct sl_list node; /* of the backend's open ones */
	struct py_backend *backend;        /* strong */
	struct sl_request_view *view;      /* NULL once it was replied to */
	PyObject *body;       /* weak reference to the memoryview that was given out; or NULL */
	struct py_form *held; /* the reply that waits; or NULL */
	Py_ssize_t exports;
	struct ear *ear; /* of a stream */
	bool heard_end;  /* of it: its trailers are there, and stay as they are */
};

extern PyTypeObject *request_type;

bool request_type_add(PyObject *module);
PyObject *request_new(struct py_backend *backend, struct sl_request_view *view);
/* At the end of a backend: refused, or lost; false: somebody still looks at its bytes. */
bool request_abandon(struct py_request *rq);
/* It is over without a reply of its own. */
void request_fail(struct py_request *rq, enum sl_rpc_status status);

/* form.c */
/* The arguments of a reply, and references to the objects whose bytes they point to. */
struct py_form {
	struct sl_reply_args args;
	struct sl_header_arg *headers; /* NULL: most replies have none */
	PyObject *alive;               /* a list; NULL without keywords */
	PyObject *body;                /* of form_keep(); else NULL */
};

/* False, and an exception, or filled: form_end() then. `keywords` may be NULL. */
bool form_read(struct py_form *f, PyObject *keywords);
/* The same of an interim reply, which has its status and its headers. */
bool form_read_interim(struct py_form *f, PyObject *args, PyObject *keywords);
void form_end(struct py_form *f);
/*
 * Returns a copy with a body of its own, for form_free(); NULL and an exception if memory is missing.
 * Runs no Python code.
 */
struct py_form *form_keep(const struct py_form *f);
void form_free(struct py_form *f); /* NULL: nothing happens */

/* stream.c */
/* Into the options of a backend that takes streams; false: no descriptor. */
bool streams_open(struct py_backend *b, struct sl_backend_options *opt);
void streams_close(struct py_backend *b);
/* Of streams and others: sl_reply(), or sl_reply_error() with a status that is not SL_RPC_OK. */
int stream_reply(struct py_request *rq, const struct sl_reply_args *args,
		 enum sl_rpc_status status);
/* Its request is closed. */
void stream_close(struct py_request *rq);
/* Methods: Backend._stream_events(), Request._taken(length). */
PyObject *stream_events(PyObject *self, PyObject *unused);
PyObject *stream_taken(PyObject *self, PyObject *len);

/* Module functions: reply_rows(requests, array, **keywords), finish(requests). */
PyObject *reply_rows(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *finish(PyObject *module, PyObject *requests);

#endif
