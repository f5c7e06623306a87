/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sdk/python/client/binding.h"
#include "base/clock.h"
#include "base/tlv.h"
#include "wire/rpc_wire.h"

enum { WAIT_NS = 100000000 };

static struct py_client *client_of(PyObject *self)
{
	return (struct py_client *)self;
}

PyObject *raise_errno(int error)
{
	errno = -error;
	return PyErr_SetFromErrno(PyExc_OSError);
}

struct sl_rpc_client *client_enter(PyObject *self)
{
	struct py_client *client = client_of(self);

	if (!client->c || client->closed) {
		PyErr_SetString(PyExc_ValueError, "the client is closed");
		return NULL;
	}
	client->users++;
	return client->c;
}

static void free_client(struct py_client *client)
{
	struct sl_rpc_client *c = client->c;
	PyThreadState *saved;

	client->c = NULL;
	if (!c)
		return;
	saved = PyEval_SaveThread();
	sl_rpc_client_close(c);
	PyEval_RestoreThread(saved);
}

void client_leave(PyObject *self)
{
	struct py_client *client = client_of(self);

	if (--client->users == 0 && client->closed)
		free_client(client);
}

static bool read_headers(struct py_call *call, PyObject *list)
{
	Py_ssize_t cnt = PyList_Size(list);

	if (cnt < 0)
		return false;
	call->headers = calloc((size_t)cnt + 1, sizeof(*call->headers));
	if (!call->headers) {
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < cnt; i++) {
		struct sl_header_arg *h = &call->headers[i];
		const char *value;
		Py_ssize_t len;

		if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sy#", &h->name, &value, &len))
			return false;
		h->value = value;
		h->value_len = (size_t)len;
	}
	call->args.headers = call->headers;
	call->args.header_cnt = (unsigned)cnt;
	return true;
}

bool call_read(struct py_call *call, PyObject *head)
{
	struct sl_rpc_call_args *a = &call->args;
	unsigned long long deadline_us;
	int idempotent, grpc;
	PyObject *headers;

	*call = (struct py_call){.args = {.size = sizeof(*a)}};
	if (!PyArg_ParseTuple(head, "szzzzObKpp", &a->path, &a->method, &a->query, &a->authority,
			      &a->content_type, &headers, &a->priority, &deadline_us, &idempotent,
			      &grpc) ||
	    !read_headers(call, headers)) {
		free(call->headers);
		return false;
	}
	a->deadline_us = deadline_us;
	a->idempotent = idempotent;
	a->grpc = grpc;
	return true;
}

struct batch {
	struct py_call call;
	unsigned cnt;
	Py_buffer *bodies;
	struct sl_rpc_call_args *args;
};

static void batch_free(struct batch *b)
{
	for (unsigned i = 0; b->bodies && i < b->cnt; i++)
		PyBuffer_Release(&b->bodies[i]);
	free(b->bodies);
	free(b->args);
	free(b->call.headers);
}

static bool read_bodies(struct batch *b, PyObject *list)
{
	Py_ssize_t cnt = PyList_Size(list);

	if (cnt < 0)
		return false;
	if (!cnt || cnt > SL_RPC_MAX_BATCH) {
		PyErr_Format(PyExc_ValueError, "bodies: found %zd; allowed: 1 to %d", cnt,
			     SL_RPC_MAX_BATCH);
		return false;
	}
	b->bodies = calloc((size_t)cnt, sizeof(*b->bodies));
	b->args = calloc((size_t)cnt, sizeof(*b->args));
	if (!b->bodies || !b->args) {
		PyErr_NoMemory();
		return false;
	}
	for (; b->cnt < (unsigned)cnt; b->cnt++) {
		Py_buffer *body = &b->bodies[b->cnt];

		if (PyObject_GetBuffer(PyList_GetItem(list, b->cnt), body, PyBUF_SIMPLE))
			return false;
		b->args[b->cnt] = b->call.args;
		b->args[b->cnt].body = body->buf;
		b->args[b->cnt].body_len = (size_t)body->len;
	}
	return true;
}

static bool batch_read(struct batch *b, PyObject *head, PyObject *bodies)
{
	*b = (struct batch){0};
	if (!call_read(&b->call, head))
		return false;
	if (read_bodies(b, bodies))
		return true;
	batch_free(b);
	return false;
}

static struct sl_span text_of(const char *text, size_t len)
{
	return sl_span_of(text ? text : "", len);
}

static bool add_header(PyObject *list, struct sl_span name, struct sl_span value)
{
	PyObject *pair = Py_BuildValue(
		"(NN)", PyUnicode_DecodeLatin1((const char *)name.ptr, (Py_ssize_t)name.len, NULL),
		PyBytes_FromStringAndSize((const char *)value.ptr, (Py_ssize_t)value.len));
	bool ok = pair && PyList_Append(list, pair) == 0;

	Py_XDECREF(pair);
	return ok;
}

static PyObject *header_list(const struct sl_rpc_call_reply *reply)
{
	struct sl_span rest = sl_span_of(reply->meta, reply->meta_len), value;
	PyObject *list = PyList_New(0);
	uint16_t tag;

	while (list && sl_tlv_next(&rest, &tag, &value)) {
		if ((tag != SL_META_HEADER && tag != SL_META_TRAILER) || !value.len ||
		    value.ptr[0] >= value.len)
			continue;
		if (!add_header(list, sl_span_of(value.ptr + 1, value.ptr[0]),
				sl_span_skip(value, 1u + value.ptr[0])))
			Py_CLEAR(list);
	}
	return list;
}

PyObject *reply_tuple(const struct sl_rpc_call_reply *r)
{
	struct sl_span type = text_of(r->content_type, r->content_type_len);
	struct sl_span message = text_of(r->grpc_message, r->grpc_message_len);
	PyObject *headers = header_list(r);

	if (!headers)
		return NULL;
	return Py_BuildValue(
		"(iHy#NHNNII)", r->error, r->status, r->body ? r->body : "",
		(Py_ssize_t)r->body_len,
		PyUnicode_DecodeLatin1((const char *)type.ptr, (Py_ssize_t)type.len, NULL),
		r->grpc_status,
		PyUnicode_DecodeUTF8((const char *)message.ptr, (Py_ssize_t)message.len, "replace"),
		headers, r->service_us, r->attempts);
}

/* Without memory for the reply, the event that was allocated with the call becomes its end. */
static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct py_event *pending = user_data, *e = event_of_reply(reply);
	struct py_queue *queue = pending->queue;

	(void)call;
	if (e) {
		e->token = pending->token;
		free(pending);
	} else {
		e = pending;
		e->end = true;
		e->reply = (struct sl_rpc_call_reply){.size = sizeof(e->reply), .error = -ENOMEM};
	}
	queue_put(queue, e);
}

static int batch_submit(struct sl_rpc_client *c, struct batch *b, struct py_queue *queue,
			uint64_t token, uint64_t *numbers)
{
	int rc = 0;

	for (unsigned i = 0; i < b->cnt; i++) {
		struct py_event *pending = calloc(1, sizeof(*pending));

		b->args[i].user_data = pending;
		b->args[i].on_end = on_end;
		if (!pending) {
			rc = -ENOMEM;
			continue;
		}
		pending->token = token + i;
		pending->queue = queue;
		sl_list_init(&pending->node);
	}
	rc = rc ? rc : sl_rpc_client_submit(c, b->args, b->cnt, numbers);
	for (unsigned i = 0; rc && i < b->cnt; i++)
		free(b->args[i].user_data);
	return rc;
}

static void cancel_all(struct sl_rpc_client *c, const uint64_t *numbers, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		sl_rpc_client_cancel(c, numbers[i]);
}

/* A signal handler that raises cancels the calls. Returns false then. */
static bool wait_for_ends(struct sl_rpc_client *c, struct py_queue *queue, const uint64_t *numbers,
			  struct py_event **ends, unsigned cnt)
{
	bool raised = false;

	for (unsigned n = 0; n < cnt;) {
		PyThreadState *saved = PyEval_SaveThread();
		struct py_event *e = queue_wait(queue, sl_now_ns() + WAIT_NS);

		PyEval_RestoreThread(saved);
		if (e) {
			ends[e->token] = e;
			n++;
		} else if (!raised && PyErr_CheckSignals()) {
			raised = true;
			cancel_all(c, numbers, cnt);
		}
	}
	return !raised;
}

static PyObject *end_list(struct py_event **ends, unsigned cnt)
{
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; i < cnt && list; i++) {
		PyObject *reply = reply_tuple(&ends[i]->reply);

		if (!reply || PyList_Append(list, reply))
			Py_CLEAR(list);
		Py_XDECREF(reply);
	}
	return list;
}

static PyObject *call_and_wait(struct sl_rpc_client *c, struct batch *b)
{
	struct py_event *ends[SL_RPC_MAX_BATCH] = {NULL};
	uint64_t numbers[SL_RPC_MAX_BATCH];
	struct py_queue queue;
	PyObject *list = NULL;
	int rc;

	(void)queue_init(&queue, false);
	rc = batch_submit(c, b, &queue, 0, numbers);
	if (rc)
		raise_errno(rc);
	else if (wait_for_ends(c, &queue, numbers, ends, b->cnt))
		list = end_list(ends, b->cnt);
	for (unsigned i = 0; i < b->cnt; i++)
		free(ends[i]);
	queue_fini(&queue);
	return list;
}

static PyObject *py_call(PyObject *self, PyObject *given)
{
	PyObject *head, *bodies, *list = NULL;
	struct sl_rpc_client *c;
	struct batch b;

	if (!PyArg_ParseTuple(given, "OO:_call", &head, &bodies) || !batch_read(&b, head, bodies))
		return NULL;
	c = client_enter(self);
	if (c) {
		list = call_and_wait(c, &b);
		client_leave(self);
	}
	batch_free(&b);
	return list;
}

static PyObject *number_list(const uint64_t *numbers, unsigned cnt)
{
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; list && i < cnt; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);

		if (!number || PyList_Append(list, number))
			Py_CLEAR(list);
		Py_XDECREF(number);
	}
	return list;
}

/*
 * _submit(head, bodies, token): the i-th call ends with the event token + i. Returns their numbers.
 */
static PyObject *py_submit(PyObject *self, PyObject *given)
{
	uint64_t numbers[SL_RPC_MAX_BATCH];
	unsigned long long token;
	PyObject *head, *bodies, *list = NULL;
	struct sl_rpc_client *c;
	struct batch b;
	int rc;

	if (!PyArg_ParseTuple(given, "OOK:_submit", &head, &bodies, &token) ||
	    !batch_read(&b, head, bodies))
		return NULL;
	c = client_enter(self);
	if (c) {
		rc = batch_submit(c, &b, &client_of(self)->queue, token, numbers);
		client_leave(self);
		list = rc ? raise_errno(rc) : number_list(numbers, b.cnt);
	}
	batch_free(&b);
	return list;
}

static PyObject *py_take(PyObject *self, PyObject *unused)
{
	PyObject *list = PyList_New(0);
	struct py_event *e;

	(void)unused;
	while (list && (e = queue_take(&client_of(self)->queue))) {
		PyObject *pair =
			Py_BuildValue("(KN)", (unsigned long long)e->token, reply_tuple(&e->reply));

		free(e);
		if (!pair || PyList_Append(list, pair))
			Py_CLEAR(list);
		Py_XDECREF(pair);
	}
	return list;
}

static PyObject *py_cancel(PyObject *self, PyObject *number)
{
	unsigned long long call = PyLong_AsUnsignedLongLong(number);
	struct sl_rpc_client *c = PyErr_Occurred() ? NULL : client_enter(self);

	if (!c)
		return NULL;
	sl_rpc_client_cancel(c, call);
	client_leave(self);
	Py_RETURN_NONE;
}

static PyObject *py_fileno(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromLong(client_of(self)->queue.fd);
}

/* _wait_connected(ms): returns None, or the last error of connecting. */
static PyObject *py_wait(PyObject *self, PyObject *given)
{
	struct sl_rpc_client *c;
	PyThreadState *saved;
	char err[512] = "";
	unsigned ms;
	int rc;

	if (!PyArg_ParseTuple(given, "I:_wait_connected", &ms) || !(c = client_enter(self)))
		return NULL;
	saved = PyEval_SaveThread();
	rc = sl_rpc_client_wait_connected(c, ms, err, sizeof(err));
	PyEval_RestoreThread(saved);
	client_leave(self);
	if (rc)
		return PyUnicode_DecodeUTF8(err, (Py_ssize_t)strlen(err), "replace");
	Py_RETURN_NONE;
}

static PyObject *py_stats(PyObject *self, PyObject *unused)
{
	struct sl_rpc_client_stats s = {.size = sizeof(s)};
	struct sl_rpc_client *c = client_enter(self);

	(void)unused;
	if (!c)
		return NULL;
	sl_rpc_client_stats(c, &s);
	client_leave(self);
	return Py_BuildValue("{sKsKsKsKsKsKsIsIsI}", "calls", s.calls, "replies", s.replies,
			     "failures", s.failures, "retries", s.retries, "connects", s.connects,
			     "connect_errors", s.connect_errors, "open_calls", s.open_calls,
			     "servers", s.servers, "servers_connected", s.servers_connected);
}

static PyObject *py_close(PyObject *self, PyObject *unused)
{
	struct py_client *client = client_of(self);

	(void)unused;
	client->closed = true;
	if (!client->users)
		free_client(client);
	Py_RETURN_NONE;
}

static int client_init(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"endpoints", "members_file", "key_file",    "connect_timeout_ms",
				"max_calls", "max_reply",    "listen_user", NULL};
	struct sl_rpc_client_options opt = {.size = sizeof(opt)};
	struct py_client *client = client_of(self);
	unsigned long long max_reply = 0;
	char err[512];

	if (client->ready) {
		PyErr_SetString(PyExc_RuntimeError, "the client is open already");
		return -1;
	}
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zzzIIKI:Client", names, &opt.endpoints,
					 &opt.members_file, &opt.key_file, &opt.connect_timeout_ms,
					 &opt.max_calls, &max_reply, &opt.listen_user))
		return -1;
	opt.max_reply = max_reply;
	if (queue_init(&client->queue, true)) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	client->ready = true;
	client->c = sl_rpc_client_open(&opt, err, sizeof(err));
	if (client->c)
		return 0;
	PyErr_SetString(PyExc_OSError, err);
	return -1;
}

static void client_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	free_client(client_of(self));
	if (client_of(self)->ready)
		queue_fini(&client_of(self)->queue);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
	{"_call", py_call, METH_VARARGS, "Makes calls and waits for their ends."},
	{"_submit", py_submit, METH_VARARGS, "Begins calls."},
	{"_take", py_take, METH_NOARGS, "Returns the ends of submitted calls."},
	{"_cancel", py_cancel, METH_O, "Cancels a call."},
	{"_wait_connected", py_wait, METH_VARARGS, "Waits for a server."},
	{"_fileno", py_fileno, METH_NOARGS,
	 "Returns the descriptor that is readable if there is something to _take()."},
	{"stats", py_stats, METH_NOARGS, "Returns the counters as a dict."},
	{"close", py_close, METH_NOARGS, "Ends all calls and frees the client."},
	{NULL, NULL, 0, NULL},
};

static PyObject *client_type_new(void)
{
	static PyType_Slot slots[] = {
		{Py_tp_doc, "Base class of sluice.Client."},
		{Py_tp_new, PyType_GenericNew},
		{Py_tp_init, client_init},
		{Py_tp_methods, methods},
		{Py_tp_dealloc, client_dealloc},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "sluice._client.Client",
		.basicsize = sizeof(struct py_client),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = slots,
	};

	return PyType_FromSpec(&spec);
}

static int add_type(PyObject *module, const char *name, PyObject *type)
{
	int rc = type ? PyModule_AddObjectRef(module, name, type) : -1;

	Py_XDECREF(type);
	return rc;
}

PyMODINIT_FUNC PyInit__client(void);

PyMODINIT_FUNC PyInit__client(void)
{
	static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, .m_name = "sluice._client",
					 .m_size = -1};
	PyObject *module = PyModule_Create(&def);

	if (module && (add_type(module, "Client", client_type_new()) ||
		       add_type(module, "Stream", stream_type_new())))
		Py_CLEAR(module);
	return module;
}
