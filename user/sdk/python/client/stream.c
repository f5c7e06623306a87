/* SPDX-License-Identifier: Apache-2.0 */
/* Type Stream: a call with messages both ways. Until on_end the library shares its state. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "sdk/python/client/binding.h"
#include "base/clock.h"

enum { QUEUED_MAX = 256 << 10, WAIT_NS = 100000000 };

struct stream_state {
	_Atomic unsigned refs;
	struct py_queue queue;
	struct sl_rpc_client *c;
	uint64_t call;
	_Atomic size_t queued;
	_Atomic bool paused, ended, writable;
};

struct py_stream {
	PyObject_HEAD PyObject *client; /* strong */
	struct stream_state *state;
	bool over;
};

static struct stream_state *state_of(PyObject *self)
{
	return ((struct py_stream *)self)->state;
}

static void state_unref(struct stream_state *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	queue_fini(&s->queue);
	free(s);
}

static void on_data(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
		    const void *bytes, size_t len, size_t left)
{
	struct stream_state *s = user_data;
	struct py_event *e = malloc(sizeof(*e) + len);

	(void)reply;
	if (!e) {
		sl_rpc_client_cancel(s->c, call);
		return;
	}
	*e = (struct py_event){.len = len, .left = left};
	sl_list_init(&e->node);
	if (len)
		memcpy(e->bytes, bytes, len);
	if (atomic_fetch_add(&s->queued, len) + len > QUEUED_MAX &&
	    !atomic_exchange(&s->paused, true))
		sl_rpc_stream_pause(s->c, call);
	queue_put(&s->queue, e);
}

static void on_writable(void *user_data, uint64_t call)
{
	struct stream_state *s = user_data;

	(void)call;
	pthread_mutex_lock(&s->queue.lock);
	atomic_store(&s->writable, true);
	pthread_cond_broadcast(&s->queue.more);
	pthread_mutex_unlock(&s->queue.lock);
}

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct stream_state *s = user_data;
	struct py_event *e = event_of_reply(reply);

	(void)call;
	atomic_store(&s->ended, true);
	if (e)
		queue_put(&s->queue, e);
	on_writable(s, call);
	state_unref(s);
}

static struct stream_state *state_new(void)
{
	struct stream_state *s = calloc(1, sizeof(*s));

	if (s && queue_init(&s->queue, true) == 0) {
		s->refs = 1;
		return s;
	}
	free(s);
	PyErr_NoMemory();
	return NULL;
}

static int stream_init(PyObject *self, PyObject *args, PyObject *keywords)
{
	struct py_stream *stream = (struct py_stream *)self;
	PyObject *client, *head;
	struct sl_rpc_client *c;
	struct stream_state *s;
	struct py_call call;
	int rc;

	(void)keywords;
	if (stream->state) {
		PyErr_SetString(PyExc_RuntimeError, "the stream is open already");
		return -1;
	}
	if (!PyArg_ParseTuple(args, "OO:Stream", &client, &head) || !call_read(&call, head))
		return -1;
	s = state_new();
	c = s ? client_enter(client) : NULL;
	if (!c) {
		free(call.headers);
		if (s)
			state_unref(s);
		return -1;
	}
	s->refs = 2;
	s->c = c;
	stream->state = s;
	stream->client = Py_NewRef(client);
	call.args.stream = true;
	call.args.user_data = s;
	call.args.on_data = on_data;
	call.args.on_writable = on_writable;
	call.args.on_end = on_end;
	rc = sl_rpc_client_submit(c, &call.args, 1, &s->call);
	client_leave(client);
	free(call.headers);
	if (!rc)
		return 0;
	state_unref(s);
	raise_errno(rc);
	return -1;
}

static void wait_writable(struct stream_state *s)
{
	uint64_t until_ns = sl_now_ns() + WAIT_NS;
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};

	pthread_mutex_lock(&s->queue.lock);
	while (!atomic_load(&s->writable) && !atomic_load(&s->ended)) {
		if (pthread_cond_timedwait(&s->queue.more, &s->queue.lock, &until))
			break;
	}
	pthread_mutex_unlock(&s->queue.lock);
}

/* _send(bytes, last): returns False if 64 KiB wait already. */
static PyObject *py_send(PyObject *self, PyObject *args)
{
	struct stream_state *s = state_of(self);
	struct sl_rpc_client *c;
	Py_buffer bytes;
	int last, rc;

	if (!PyArg_ParseTuple(args, "y*p:_send", &bytes, &last))
		return NULL;
	c = client_enter(((struct py_stream *)self)->client);
	if (!c) {
		PyBuffer_Release(&bytes);
		return NULL;
	}
	atomic_store(&s->writable, false);
	rc = sl_rpc_stream_send(c, s->call, bytes.buf, (size_t)bytes.len, last);
	client_leave(((struct py_stream *)self)->client);
	PyBuffer_Release(&bytes);
	if (rc && rc != -EAGAIN)
		return raise_errno(rc);
	return PyBool_FromLong(rc == 0);
}

static PyObject *py_wait_writable(PyObject *self, PyObject *unused)
{
	PyThreadState *saved = PyEval_SaveThread();

	(void)unused;
	wait_writable(state_of(self));
	PyEval_RestoreThread(saved);
	if (PyErr_CheckSignals())
		return NULL;
	Py_RETURN_NONE;
}

static void taken(PyObject *self, size_t len)
{
	struct stream_state *s = state_of(self);
	struct py_client *client = (struct py_client *)((struct py_stream *)self)->client;

	if (atomic_fetch_sub(&s->queued, len) - len < QUEUED_MAX / 2 && client->c &&
	    atomic_exchange(&s->paused, false))
		sl_rpc_stream_resume(client->c, s->call);
}

static PyObject *event_object(PyObject *self, struct py_event *e)
{
	PyObject *object;

	if (e->end) {
		((struct py_stream *)self)->over = true;
		object = reply_tuple(&e->reply);
	} else {
		taken(self, e->len);
		object = Py_BuildValue("(y#n)", e->bytes, (Py_ssize_t)e->len, (Py_ssize_t)e->left);
	}
	free(e);
	return object;
}

static PyObject *py_next(PyObject *self, PyObject *wait)
{
	struct stream_state *s = state_of(self);
	int waits = PyObject_IsTrue(wait);
	struct py_event *e = NULL;

	while (!e && waits > 0 && !((struct py_stream *)self)->over) {
		PyThreadState *saved = PyEval_SaveThread();

		e = queue_wait(&s->queue, sl_now_ns() + WAIT_NS);
		PyEval_RestoreThread(saved);
		if (!e && PyErr_CheckSignals())
			return NULL;
	}
	e = e ? e : queue_take(&s->queue);
	if (e)
		return event_object(self, e);
	Py_RETURN_NONE;
}

static PyObject *py_fileno(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromLong(state_of(self)->queue.fd);
}

static void cancel(PyObject *self)
{
	struct py_client *client = (struct py_client *)((struct py_stream *)self)->client;

	if (client && client->c && !atomic_load(&state_of(self)->ended))
		sl_rpc_client_cancel(client->c, state_of(self)->call);
}

static PyObject *py_cancel(PyObject *self, PyObject *unused)
{
	(void)unused;
	cancel(self);
	Py_RETURN_NONE;
}

static void stream_dealloc(PyObject *self)
{
	struct py_stream *stream = (struct py_stream *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (stream->state) {
		cancel(self);
		state_unref(stream->state);
	}
	Py_XDECREF(stream->client);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
	{"_send", py_send, METH_VARARGS, "Sends a message."},
	{"_wait_writable", py_wait_writable, METH_NOARGS, "Waits for room, at most 0.1 s."},
	{"_next", py_next, METH_O, "Returns the next event."},
	{"_fileno", py_fileno, METH_NOARGS, "Returns a descriptor, readable if there is an event."},
	{"cancel", py_cancel, METH_NOARGS, "Cancels the call."},
	{NULL, NULL, 0, NULL},
};

PyObject *stream_type_new(void)
{
	static PyType_Slot slots[] = {
		{Py_tp_doc, "Base class of sluice.ClientStream."},
		{Py_tp_new, PyType_GenericNew},
		{Py_tp_init, stream_init},
		{Py_tp_methods, methods},
		{Py_tp_dealloc, stream_dealloc},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "sluice._client.Stream",
		.basicsize = sizeof(struct py_stream),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = slots,
	};

	return PyType_FromSpec(&spec);
}
