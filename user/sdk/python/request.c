/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "sdk/python/binding.h"
#include "wire/rpc_wire.h"

enum { TLV_HEAD = 4 };

PyTypeObject *request_type;

static struct py_request *request_of(PyObject *self)
{
	return (struct py_request *)self;
}

static struct sl_request_view *open_view(PyObject *self)
{
	struct py_request *rq = request_of(self);

	if (rq->view && !rq->held)
		return rq->view;
	PyErr_SetString(PyExc_ValueError,
			"the request has been replied to, and its bytes are released: copy before "
			"the reply what is needed after it, as bytes(request.body)");
	return NULL;
}

static void close_request(struct py_request *rq)
{
	rq->view = NULL;
	stream_close(rq);
	sl_list_del(&rq->node);
	sl_list_init(&rq->node);
}

static PyObject *send_reply(struct py_request *rq, const struct sl_reply_args *args)
{
	int rc = stream_reply(rq, args, SL_RPC_OK);

	if ((rc == 0 && !args->more) || rc == -ECANCELED || rc == -ENOBUFS)
		close_request(rq);
	if (rc == 0)
		Py_RETURN_TRUE;
	if (rc == -ECANCELED)
		Py_RETURN_FALSE;
	if (rc == -EMSGSIZE)
		PyErr_Format(PyExc_ValueError,
			     "the reply is too long: %zu bytes and %u headers, expected at most %d "
			     "bytes, and %d bytes of headers",
			     args->body_len, args->header_cnt, SL_RPC_MAX_MESSAGE, SL_RPC_MAX_META);
	else if (rc == -EINVAL)
		PyErr_SetString(PyExc_ValueError,
				"status 101: the backend was not opened with `upgrades`");
	else if (rc == -EAGAIN)
		PyErr_SetString(PyExc_BlockingIOError,
				"the gateway reads too slowly: retry this part later");
	else
		PyErr_SetString(PyExc_OSError, "no memory for a reply; the request has ended");
	return NULL;
}

static PyObject *body_view(struct py_request *rq)
{
	PyObject *view = rq->body ? PyObject_CallNoArgs(rq->body) : NULL;

	if (view != Py_None)
		return view;
	Py_DECREF(view);
	return NULL;
}

static void release_body(struct py_request *rq)
{
	PyObject *view = body_view(rq), *done;

	if (view) {
		done = PyObject_CallMethod(view, "release", NULL);
		if (!done)
			PyErr_Clear();
		Py_XDECREF(done);
		Py_DECREF(view);
	}
	Py_CLEAR(rq->body);
}

/*
 * A last reply is sent once no object has a buffer of the request's bytes. A held one is copied:
 * the caller may reuse its array.
 */
static PyObject *reply_with(struct py_request *rq, const struct py_form *f)
{
	if (f->args.more || f->args.body_len > SL_RPC_MAX_MESSAGE)
		return open_view((PyObject *)rq) ? send_reply(rq, &f->args) : NULL;
	release_body(rq);
	if (!open_view((PyObject *)rq))
		return NULL;
	if (rq->exports == 0)
		return send_reply(rq, &f->args);
	rq->held = form_keep(f);
	if (!rq->held)
		return NULL;
	Py_RETURN_TRUE;
}

static int get_buffer(PyObject *self, Py_buffer *out, int flags)
{
	struct sl_request_view *v = open_view(self);

	if (!v) {
		PyErr_SetString(PyExc_BufferError,
				"the request has been replied to, and its bytes are released");
		return -1;
	}
	if (PyBuffer_FillInfo(out, self, (void *)(uintptr_t)v->body, (Py_ssize_t)v->body_len, 1,
			      flags))
		return -1;
	request_of(self)->exports++;
	return 0;
}

/* Sends a held reply with the last buffer's release. Runs no Python code before that. */
static void release_buffer(PyObject *self, Py_buffer *unused)
{
	PyObject *type, *value, *trace, *done;
	struct py_request *rq = request_of(self);
	struct py_form *held = rq->held;

	(void)unused;
	if (--rq->exports || !held)
		return;
	PyErr_Fetch(&type, &value, &trace);
	rq->held = NULL;
	done = send_reply(rq, &held->args);
	if (!done && rq->view) {
		(void)stream_reply(rq, NULL, SL_RPC_INTERNAL);
		close_request(rq);
	}
	if (!done)
		PyErr_WriteUnraisable(self);
	Py_XDECREF(done);
	form_free(held);
	PyErr_Restore(type, value, trace);
}

static PyObject *get_body(PyObject *self, void *unused)
{
	struct py_request *rq = request_of(self);
	PyObject *view;

	(void)unused;
	if (!open_view(self))
		return NULL;
	view = body_view(rq);
	if (view) {
		PyObject *len = PyObject_GetAttrString(view, "nbytes"); /* fails if released */

		Py_XDECREF(len);
		if (len)
			return view;
		Py_DECREF(view);
		PyErr_Clear();
	}
	Py_CLEAR(rq->body);
	view = PyMemoryView_FromObject(self);
	rq->body = view ? PyWeakref_NewRef(view, NULL) : NULL;
	return rq->body ? view : NULL;
}

/* Invalid UTF-8 becomes surrogates. The error handler gets a copy, as it can reply. */
static PyObject *text_of(const char *ptr, size_t len)
{
	PyObject *str = PyUnicode_DecodeUTF8(ptr ? ptr : "", (Py_ssize_t)len, "strict"), *copy;

	if (str || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
		return str;
	PyErr_Clear();
	copy = PyBytes_FromStringAndSize(ptr, (Py_ssize_t)len);
	if (copy)
		str = PyUnicode_FromEncodedObject(copy, "utf-8", "surrogateescape");
	Py_XDECREF(copy);
	return str;
}

#define TEXT_GETTER(field)                                                                         \
	static PyObject *get_##field(PyObject *self, void *unused)                                 \
	{                                                                                          \
		struct sl_request_view *v = open_view(self);                                       \
                                                                                                   \
		(void)unused;                                                                      \
		return v ? text_of(v->field, v->field##_len) : NULL;                               \
	}
TEXT_GETTER(method)
TEXT_GETTER(path)
TEXT_GETTER(query)
TEXT_GETTER(content_type)

#define NUMBER_GETTER(field)                                                                       \
	static PyObject *get_##field(PyObject *self, void *unused)                                 \
	{                                                                                          \
		struct sl_request_view *v = open_view(self);                                       \
                                                                                                   \
		(void)unused;                                                                      \
		return v ? PyLong_FromUnsignedLongLong(v->field) : NULL;                           \
	}
NUMBER_GETTER(protocol)
NUMBER_GETTER(priority)
NUMBER_GETTER(budget_us)
NUMBER_GETTER(arrived_ns)

static PyObject *get_idempotent(PyObject *self, void *unused)
{
	struct sl_request_view *v = open_view(self);

	(void)unused;
	return v ? PyBool_FromLong(v->idempotent) : NULL;
}

static PyObject *get_expect_continue(PyObject *self, void *unused)
{
	struct sl_request_view *v = open_view(self);

	(void)unused;
	return v ? PyBool_FromLong(v->expect_continue) : NULL;
}

static PyObject *get_expects(PyObject *self, void *unused)
{
	if (PyErr_WarnEx(PyExc_DeprecationWarning,
			 "Request.expects is deprecated; use Request.expect_continue", 1))
		return NULL;
	return get_expect_continue(self, unused);
}

static PyObject *get_is_open(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(request_of(self)->view && !request_of(self)->held);
}

static PyObject *get_cancelled(PyObject *self, void *unused)
{
	struct sl_request_view *v = open_view(self);

	(void)unused;
	return v ? PyBool_FromLong(sl_request_cancelled(v)) : NULL;
}

/* Returns a list of pairs. Reads a copy: allocations can run a finalizer that replies. */
static PyObject *list_fields(const uint8_t *meta, size_t meta_len, unsigned want)
{
	PyObject *copy = PyBytes_FromStringAndSize((const char *)meta, (Py_ssize_t)meta_len);
	PyObject *list = copy ? PyList_New(0) : NULL;
	const char *bytes = list ? PyBytes_AsString(copy) : NULL;
	size_t at = 0;

	while (list && at + TLV_HEAD <= meta_len) {
		const uint8_t *p = (const uint8_t *)bytes + at;
		unsigned tag = p[0] | (unsigned)p[1] << 8, len = p[2] | (unsigned)p[3] << 8;
		const char *name = (const char *)p + TLV_HEAD + 1;

		at += TLV_HEAD + len;
		if (at > meta_len)
			break;
		if (tag == want && len && p[TLV_HEAD] < len) {
			unsigned name_len = p[TLV_HEAD];
			PyObject *pair =
				Py_BuildValue("(NN)", text_of(name, name_len),
					      text_of(name + name_len, len - 1 - name_len));

			if (!pair || PyList_Append(list, pair))
				Py_CLEAR(list);
			Py_XDECREF(pair);
		}
	}
	Py_XDECREF(copy);
	return list;
}

static PyObject *get_headers(PyObject *self, void *unused)
{
	struct sl_request_view *v = open_view(self);

	(void)unused;
	return v ? list_fields(v->meta, v->meta_len, SL_META_HEADER) : NULL;
}

static PyObject *get_trailers(PyObject *self, void *unused)
{
	struct sl_request_view *v = open_view(self);

	(void)unused;
	if (!v)
		return NULL;
	return list_fields(v->trailers, request_of(self)->has_trailers ? v->trailers_len : 0,
			   SL_META_TRAILER);
}

static PyObject *request_header(PyObject *self, PyObject *args)
{
	PyObject *otherwise = Py_None;
	const char *name, *value;
	struct sl_request_view *v;
	size_t len;

	if (!PyArg_ParseTuple(args, "s|O:header", &name, &otherwise) || !(v = open_view(self)))
		return NULL;
	if (sl_request_header(v, name, &value, &len))
		return text_of(value, len);
	Py_INCREF(otherwise);
	return otherwise;
}

static PyObject *send_continue(PyObject *self, PyObject *unused)
{
	struct sl_request_view *v = open_view(self);
	int rc = v ? sl_stream_send_continue(v) : 0;

	(void)unused;
	if (!v)
		return NULL;
	if (rc == -EAGAIN)
		PyErr_SetString(PyExc_BlockingIOError, "no memory now");
	else if (rc)
		PyErr_SetString(PyExc_ValueError,
				"the client does not wait, or was already answered");
	if (rc)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *reply_interim(PyObject *self, PyObject *args, PyObject *keywords)
{
	struct sl_request_view *v;
	struct py_form f;
	int rc;

	if (!open_view(self) || !form_read_interim(&f, args, keywords))
		return NULL;
	v = open_view(self); /* reading the headers can run Python code */
	rc = v ? sl_reply_interim(v, &f.args) : 0;
	form_end(&f);
	if (!v)
		return NULL;
	if (rc == 0)
		Py_RETURN_NONE;
	if (rc == -EMSGSIZE)
		PyErr_Format(PyExc_ValueError,
			     "the headers are too long: expected at most %d bytes",
			     SL_RPC_MAX_META);
	else if (rc == -EINVAL)
		PyErr_Format(PyExc_ValueError,
			     "expected before the reply has begun, and at most %d of them",
			     SL_RPC_MAX_INTERIM);
	else
		PyErr_SetString(PyExc_BlockingIOError,
				"no memory for an interim reply: retry it later");
	return NULL;
}

static PyObject *request_reply(PyObject *self, PyObject *args, PyObject *keywords)
{
	struct py_request *rq = request_of(self);
	PyObject *body = NULL, *done = NULL, *own;
	struct sl_request_view *v;
	Py_buffer bytes = {0};
	struct py_form f;
	bool is_own;

	if (!open_view(self) || !PyArg_ParseTuple(args, "|O:reply", &body) ||
	    !form_read(&f, keywords))
		return NULL;
	own = body_view(rq);
	is_own = own && own == body;
	Py_XDECREF(own);
	if (!body || is_own || !PyObject_GetBuffer(body, &bytes, PyBUF_C_CONTIGUOUS)) {
		v = open_view(self);
		/* The reply releases the memoryview of `body`: no buffer is taken. */
		f.args.body = v && is_own ? v->body : bytes.buf;
		f.args.body_len = v && is_own ? v->body_len : (size_t)bytes.len;
		done = v ? reply_with(rq, &f) : NULL;
	}
	if (bytes.obj)
		PyBuffer_Release(&bytes);
	form_end(&f);
	return done;
}

PyObject *reply_rows(PyObject *module, PyObject *args, PyObject *keywords)
{
	PyObject *requests, *array, *rq, *done;
	Py_buffer rows;
	struct py_form f;
	Py_ssize_t count;
	bool ok;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O:reply", &PyList_Type, &requests, &array) ||
	    PyObject_GetBuffer(array, &rows, PyBUF_C_CONTIGUOUS))
		return NULL;
	count = PyList_Size(requests);
	ok = rows.ndim >= 1 && rows.shape && rows.shape[0] == count;
	if (!ok)
		PyErr_Format(PyExc_ValueError,
			     "a reply to a batch: expected an array of %zd rows, "
			     "found %d dimensions and %zd rows",
			     count, rows.ndim, rows.ndim && rows.shape ? rows.shape[0] : 0);
	ok = ok && form_read(&f, keywords);
	if (ok) {
		f.args.body_len = count ? (size_t)(rows.len / count) : 0;
		for (Py_ssize_t i = 0; ok && i < count; i++) {
			f.args.body = (const char *)rows.buf + (size_t)i * f.args.body_len;
			rq = Py_XNewRef(PyList_GetItem(requests, i));
			ok = rq && PyObject_TypeCheck(rq, request_type);
			if (rq && !ok)
				PyErr_SetString(PyExc_TypeError, "expected a list of requests");
			done = ok ? reply_with(request_of(rq), &f) : NULL;
			ok = done != NULL;
			Py_XDECREF(done);
			Py_XDECREF(rq);
		}
		form_end(&f);
	}
	PyBuffer_Release(&rows);
	if (!ok)
		return NULL;
	Py_RETURN_NONE;
}

static bool finish_one(struct py_request *rq)
{
	struct py_form f = {.args = {.status = 500}};
	PyObject *done;

	if (!rq->view || rq->held)
		return false;
	done = reply_with(rq, &f);
	if (!done)
		PyErr_WriteUnraisable((PyObject *)rq);
	Py_XDECREF(done);
	return true;
}

/* Returns (requests answered with 500, held replies). */
PyObject *finish(PyObject *module, PyObject *requests)
{
	unsigned left = 0, held = 0;

	(void)module;
	for (Py_ssize_t i = 0; i < PyList_Size(requests); i++) {
		PyObject *item = Py_NewRef(PyList_GetItem(requests, i));

		if (PyObject_TypeCheck(item, request_type)) {
			left += finish_one(request_of(item));
			held += request_of(item)->held != NULL;
		}
		Py_DECREF(item);
	}
	return Py_BuildValue("(II)", left, held);
}

bool request_abandon(struct py_request *rq)
{
	release_body(rq);
	if (rq->exports)
		return false;
	/* It may have been executed, so it is retried elsewhere only if idempotent. */
	if (rq->view)
		request_fail(rq, rq->view->idempotent ? SL_RPC_REFUSED : SL_RPC_LOST);
	return true;
}

void request_fail(struct py_request *rq, enum sl_rpc_status status)
{
	release_body(rq);
	if (!rq->view)
		return;
	(void)stream_reply(rq, NULL, status);
	close_request(rq);
}

static PyObject *request_fail_op(PyObject *self, PyObject *unused)
{
	(void)unused;
	request_fail(request_of(self), SL_RPC_INTERNAL);
	Py_RETURN_NONE;
}

static void request_dealloc(PyObject *self)
{
	struct py_request *rq = request_of(self);
	PyTypeObject *type = Py_TYPE(self);

	if (rq->view) {
		(void)stream_reply(rq, &(struct sl_reply_args){.status = 500}, SL_RPC_OK);
		close_request(rq);
		PySys_WriteStderr("sluice: a request was dropped without a reply: 500\n");
	}
	Py_XDECREF(rq->body);
	form_free(rq->held);
	Py_XDECREF((PyObject *)rq->backend);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF((PyObject *)type);
}

PyObject *request_new(struct py_backend *backend, struct sl_request_view *view)
{
	struct py_request *rq = request_of(PyType_GenericAlloc(request_type, 0));

	if (!rq)
		return NULL;
	Py_INCREF((PyObject *)backend);
	rq->backend = backend;
	rq->view = view;
	sl_list_add_tail(&backend->open, &rq->node);
	return (PyObject *)rq;
}

static PyGetSetDef accessors[] = {
	{"body", get_body, NULL,
	 "The body, a read-only memoryview without a copy; valid until the reply.", NULL},
	{"method", get_method, NULL, "The HTTP method; empty for gRPC and datagrams.", NULL},
	{"path", get_path, NULL, "The path after the route's prefix; gRPC: \"Service/Method\".",
	 NULL},
	{"query", get_query, NULL, "Query string after the question mark, as received.", NULL},
	{"content_type", get_content_type, NULL, "The content type; empty if there is none.", NULL},
	{"headers", get_headers, NULL,
	 "Forwarded headers, a list of (name, value), names in lower case.", NULL},
	{"trailers", get_trailers, NULL, "Trailers of a stream that has ended, like headers.",
	 NULL},
	{"protocol", get_protocol, NULL, "Number of the client's protocol.", NULL},
	{"priority", get_priority, NULL, "Priority class; 1 is the most urgent.", NULL},
	{"budget_us", get_budget_us, NULL,
	 "Microseconds to the deadline when it was sent; 0: none.", NULL},
	{"arrived_ns", get_arrived_ns, NULL, "Time of arrival, as time.monotonic_ns().", NULL},
	{"idempotent", get_idempotent, NULL, "True if the request may be executed twice.", NULL},
	{"expects", get_expects, NULL, "Former name of expect_continue.", NULL},
	{"expect_continue", get_expect_continue, NULL,
	 "Stream: the client waits for 100 (Continue).", NULL},
	{"is_open", get_is_open, NULL, "True until the reply.", NULL},
	{"cancelled", get_cancelled, NULL, "True if the client has gone.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
	{"header", request_header, METH_VARARGS,
	 "header($self, name, default=None, /)\n--\n\nThe value of a forwarded header; the name in lower case."},
	{"reply", (PyCFunction)(void (*)(void))request_reply, METH_VARARGS | METH_KEYWORDS,
	 "reply($self, body=b'', /, *, status=200, content_type=None, headers=None, trailers=None, grpc_status=0,"
	 " grpc_message=None, more=False, no_message=False)\n--\n\n"
	 "Replies with a C-contiguous buffer. `more`: further parts follow.\n"
	 "`no_message`: not a gRPC message. Returns False if the client has gone."},
	{"reply_interim", (PyCFunction)(void (*)(void))reply_interim, METH_VARARGS | METH_KEYWORDS,
	 "reply_interim($self, *, status=103, headers=None)\n--\n\n"
	 "Sends an interim reply, up to eight times; status 102 to 199.\n"
	 "Dropped for gRPC, HTTP/1.0 and clients that do not read."},
	{"_send_continue", send_continue, METH_NOARGS, "Lets the client send the body."},
	{"_taken", stream_taken, METH_O, "Reports that N bytes were read."},
	{"_fail", request_fail_op, METH_NOARGS, "Ends the request with an error."},
	{NULL, NULL, 0, NULL},
};

bool request_type_add(PyObject *module)
{
	static PyType_Slot slots[] = {
		{Py_tp_doc, "One request. Its attributes are valid until the reply."},
		{Py_tp_getset, accessors},
		{Py_tp_methods, methods},
		{Py_tp_dealloc, request_dealloc},
		{Py_bf_getbuffer, get_buffer},
		{Py_bf_releasebuffer, release_buffer},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "sluice.Request",
		.basicsize = sizeof(struct py_request),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	request_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return request_type &&
	       PyModule_AddObjectRef(module, "Request", (PyObject *)request_type) == 0;
}
