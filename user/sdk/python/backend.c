/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include "sdk/python/binding.h"

static struct py_backend *backend_of(PyObject *self)
{
	return (struct py_backend *)self;
}

static struct sl_backend *open_backend(PyObject *self)
{
	if (!backend_of(self)->b)
		PyErr_SetString(PyExc_ValueError, "the backend is closed");
	return backend_of(self)->b;
}

static PyObject *list_of(struct py_backend *self, const struct sl_batch *batch)
{
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; i < batch->count; i++) {
		PyObject *rq = list ? request_new(self, batch->requests[i]) : NULL;

		if (!rq || PyList_Append(list, rq)) {
			if (!rq)
				(void)sl_reply_error(batch->requests[i], SL_RPC_INTERNAL);
			Py_CLEAR(list);
		}
		Py_XDECREF(rq);
	}
	return list;
}

static void handle_batch(void *arg, struct sl_batch *batch)
{
	struct py_backend *self = arg;
	PyObject *list, *done, *type, *trace;

	PyEval_RestoreThread(self->thread);
	list = list_of(self, batch);
	done = list ? PyObject_CallMethod((PyObject *)self, "_handle", "(O)", list) : NULL;
	if (!done) {
		PyErr_Fetch(&type, &self->raised, &trace);
		PyErr_NormalizeException(&type, &self->raised, &trace);
		if (trace)
			PyException_SetTraceback(self->raised, trace);
		Py_XDECREF(type);
		Py_XDECREF(trace);
		sl_backend_stop(self->b);
	}
	Py_XDECREF(done);
	Py_XDECREF(list);
	self->thread = PyEval_SaveThread();
}

/* Calls `wait` without the GIL. Returns -1 with an exception. */
static int wait_for(PyObject *object, int (*wait)(struct sl_backend *, unsigned), unsigned wait_us)
{
	struct py_backend *self = backend_of(object);
	int rc;

	if (!open_backend(object))
		return -1;
	if (self->polling) {
		PyErr_SetString(PyExc_RuntimeError, "the backend is being polled already");
		return -1;
	}
	self->polling = true;
	self->thread = PyEval_SaveThread();
	rc = wait(self->b, wait_us);
	PyEval_RestoreThread(self->thread);
	self->polling = false;
	if (self->raised) {
		PyErr_SetObject((PyObject *)Py_TYPE(self->raised), self->raised);
		Py_CLEAR(self->raised);
		return -1;
	}
	if (rc >= 0)
		return rc;
	PyErr_Format(PyExc_OSError, "no I/O thread: %s", strerror(-rc));
	return -1;
}

static int run_to_end(struct sl_backend *b, unsigned unused)
{
	(void)unused;
	return sl_backend_run(b);
}

static PyObject *py_poll(PyObject *self, PyObject *args)
{
	unsigned wait_us = 0;
	int rc;

	if (!PyArg_ParseTuple(args, "|I:_poll", &wait_us))
		return NULL;
	rc = wait_for(self, sl_backend_poll, wait_us);
	return rc < 0 ? NULL : PyLong_FromLong(rc);
}

static PyObject *py_drain(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (wait_for(self, run_to_end, 0) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *py_fd(PyObject *self, PyObject *unused)
{
	(void)unused;
	return open_backend(self) ? PyLong_FromLong(sl_backend_fd(backend_of(self)->b)) : NULL;
}

static PyObject *py_stream_fd(PyObject *self, PyObject *unused)
{
	(void)unused;
	return open_backend(self) ? PyLong_FromLong(backend_of(self)->stream_fd) : NULL;
}

static PyObject *py_arm(PyObject *self, PyObject *unused)
{
	int rc = open_backend(self) ? sl_backend_arm(backend_of(self)->b) : -EBADF;

	(void)unused;
	if (rc >= 0)
		return PyBool_FromLong(rc);
	return PyErr_Occurred() ? NULL
				: PyErr_Format(PyExc_OSError, "no I/O thread: %s", strerror(-rc));
}

static PyObject *py_disarm(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (!open_backend(self))
		return NULL;
	sl_backend_disarm(backend_of(self)->b);
	Py_RETURN_NONE;
}

static PyObject *py_stop(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (backend_of(self)->b)
		sl_backend_stop(backend_of(self)->b);
	Py_RETURN_NONE;
}

static PyObject *py_ready(PyObject *self, PyObject *ready)
{
	int is = PyObject_IsTrue(ready);

	if (is < 0 || !open_backend(self))
		return NULL;
	sl_backend_ready(backend_of(self)->b, is);
	Py_RETURN_NONE;
}

static PyObject *py_stats(PyObject *self, PyObject *unused)
{
	struct sl_backend_stats s = {.size = sizeof(s)};

	(void)unused;
	if (!open_backend(self))
		return NULL;
	sl_backend_stats(backend_of(self)->b, &s);
	return Py_BuildValue("{sKsKsKsKsKsKsKsIsIsI}", "requests", s.requests, "batches", s.batches,
			     "replies", s.replies, "cancelled", s.cancelled, "expired", s.expired,
			     "bad_messages", s.bad_messages, "refused", s.refused, "channels",
			     s.channels, "open_requests", s.open_requests, "largest_batch",
			     s.largest_batch);
}

static bool close_backend(struct py_backend *self)
{
	struct sl_backend *b = self->b;
	struct sl_list *at, *next;
	PyThreadState *saved;
	bool free = true;

	sl_list_for_each_safe (at, next, &self->open)
		free = request_abandon(sl_container_of(at, struct py_request, node)) && free;
	if (!free)
		return false;
	self->b = NULL;
	saved = PyEval_SaveThread();
	sl_backend_close(b);
	PyEval_RestoreThread(saved);
	streams_close(self);
	return true;
}

static PyObject *py_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (backend_of(self)->polling)
		return PyErr_Format(PyExc_RuntimeError,
				    "the backend is being polled: stop() it first");
	if (backend_of(self)->b && !close_backend(backend_of(self)))
		return PyErr_Format(
			PyExc_BufferError,
			"an array still looks at the bytes of a request: drop it first");
	Py_RETURN_NONE;
}

static int backend_init(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"listen",        "max_batch", "key_file", "busy_poll",
				"bulk_ring_len", "streams",   "upgrades", NULL};
	struct sl_backend_options opt = {.on_batch = handle_batch, .arg = self};
	int busy = 0, streams = 0, upgrades = 0;
	char err[256];

	if (backend_of(self)->b) {
		PyErr_SetString(PyExc_RuntimeError, "the backend is open already");
		return -1;
	}
	sl_list_init(&backend_of(self)->open);
	backend_of(self)->stream_fd = -1;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$IzpIpp:Backend", names, &opt.listen,
					 &opt.max_batch, &opt.key_file, &busy, &opt.bulk_ring_len,
					 &streams, &upgrades))
		return -1;
	if (streams && !streams_open(backend_of(self), &opt)) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	opt.busy_poll = busy;
	opt.upgrades = upgrades;
	backend_of(self)->b = sl_backend_open(&opt, err, sizeof(err));
	if (backend_of(self)->b)
		return 0;
	streams_close(backend_of(self));
	PyErr_SetString(PyExc_OSError, err);
	return -1;
}

static void backend_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	/* Requests hold references to the backend, so none is open. */
	if (backend_of(self)->b)
		(void)close_backend(backend_of(self));
	Py_XDECREF(backend_of(self)->raised);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
	{"_poll", py_poll, METH_VARARGS,
	 "Waits up to N microseconds for a batch and handles it. Returns the number of batches."},
	{"_drain", py_drain, METH_NOARGS, "Answers pending requests after stop()."},
	{"_arm", py_arm, METH_NOARGS,
	 "Prepares a sleep on fileno(). Returns False if there is work."},
	{"_disarm", py_disarm, METH_NOARGS, "Ends that sleep."},
	{"fileno", py_fd, METH_NOARGS,
	 "Returns the descriptor that is readable when there is work."},
	{"_stream_fd", py_stream_fd, METH_NOARGS,
	 "Returns a descriptor that is readable if there are _stream_events()."},
	{"_stream_events", stream_events, METH_NOARGS,
	 "Returns events of streams: (kind, request, bytes, bytes of the message to follow)."},
	{"stop", py_stop, METH_NOARGS,
	 "Refuses new requests and answers pending ones. Any thread."},
	{"ready", py_ready, METH_O, "False: gateways use other backends, until True."},
	{"stats", py_stats, METH_NOARGS, "Returns the counters as a dict."},
	{"close", py_close, METH_NOARGS, "Ends open requests and frees everything."},
	{NULL, NULL, 0, NULL},
};

PyMODINIT_FUNC PyInit__backend(void);

PyMODINIT_FUNC PyInit__backend(void)
{
	static PyType_Slot slots[] = {
		{Py_tp_doc, "Base class of sluice.Backend."},
		{Py_tp_new, PyType_GenericNew},
		{Py_tp_init, backend_init},
		{Py_tp_methods, methods},
		{Py_tp_dealloc, backend_dealloc},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "sluice._backend.Backend",
		.basicsize = sizeof(struct py_backend),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = slots,
	};
	static PyMethodDef functions[] = {
		{"reply_rows", (PyCFunction)(void (*)(void))reply_rows,
		 METH_VARARGS | METH_KEYWORDS,
		 "Replies to each request of a list with a row of an array."},
		{"finish", finish, METH_O,
		 "Ends requests without a reply. Returns (requests, held replies)."},
		{NULL, NULL, 0, NULL},
	};
	static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, .m_name = "sluice._backend",
					 .m_size = -1, .m_methods = functions};
	PyObject *module = PyModule_Create(&def), *type;

	if (!module)
		return NULL;
	type = request_type_add(module) ? PyType_FromSpec(&spec) : NULL;
	if (!type || PyModule_AddObjectRef(module, "Backend", type))
		Py_CLEAR(module);
	Py_XDECREF(type);
	return module;
}
