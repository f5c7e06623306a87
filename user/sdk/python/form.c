/* SPDX-License-Identifier: Apache-2.0 */
/* The keywords of a reply as the arguments of sl_reply(), or sl_reply_interim(). Read from the bottom. */
#include "sdk/python/binding.h"

enum { HEADERS_MAX = 128 };

static bool add_header(struct form *f, PyObject *pair, bool trailer)
{
	PyObject *name, *value, *lower;
	struct sl_header_arg *h;
	Py_ssize_t len;
	bool ok;

	if (!PyArg_ParseTuple(pair, "UO;expected pairs of a header's name and its value", &name,
			      &value))
		return false;
	if (f->args.header_cnt == HEADERS_MAX) {
		PyErr_Format(PyExc_ValueError, "expected at most %d headers", HEADERS_MAX);
		return false;
	}
	lower = PyObject_CallMethod(name, "lower", NULL);
	if (!lower)
		return false;
	ok = PyList_Append(f->alive, lower) == 0 && PyList_Append(f->alive, value) == 0;
	Py_DECREF(lower);
	if (!ok)
		return false;
	h = &f->headers[f->args.header_cnt];
	h->name = PyUnicode_AsUTF8AndSize(lower, NULL);
	if (PyBytes_Check(value))
		ok = PyBytes_AsStringAndSize(value, (char **)(uintptr_t)&h->value, &len) == 0;
	else
		ok = (h->value = PyUnicode_AsUTF8AndSize(value, &len)) != NULL;
	if (!ok || !h->name)
		return false;
	h->value_len = (size_t)len;
	h->trailer = trailer;
	f->args.header_cnt++;
	return true;
}

static bool add_headers(struct form *f, PyObject *headers, bool trailer)
{
	PyObject *pairs;
	bool ok = true;

	if (!headers || headers == Py_None)
		return true;
	if (!f->headers)
		f->headers = PyMem_Calloc(HEADERS_MAX, sizeof(*f->headers));
	if (!f->headers) {
		PyErr_NoMemory();
		return false;
	}
	f->args.headers = f->headers;
	pairs = PyMapping_Check(headers) && !PyList_Check(headers) && !PyTuple_Check(headers)
			? PyMapping_Items(headers)
			: PySequence_List(headers);
	if (!pairs || PyList_Append(f->alive, pairs)) {
		Py_XDECREF(pairs);
		return false;
	}
	for (Py_ssize_t i = 0; ok && i < PyList_Size(pairs); i++)
		ok = add_header(f, PyList_GetItem(pairs, i), trailer);
	Py_DECREF(pairs);
	return ok;
}

void form_end(struct form *f)
{
	PyMem_Free(f->headers);
	Py_CLEAR(f->alive);
}

bool form_read(struct form *f, PyObject *keywords)
{
	static char *names[] = {"status",   "content_type", "headers",
				"trailers", "grpc_status",  "grpc_message",
				"more",     "no_message",   NULL};
	PyObject *none, *headers = NULL, *trailers = NULL;
	int status = 200, grpc = 0, more = 0, no_message = 0;
	bool ok, is_known;

	*f = (struct form){.args = {.status = 200}};
	if (!keywords)
		return true;
	none = PyTuple_New(0);
	f->alive = PyList_New(0);
	ok = none && f->alive &&
	     PyArg_ParseTupleAndKeywords(none, keywords, "|$izOOizpp:reply", names, &status,
					 &f->args.content_type, &headers, &trailers, &grpc,
					 &f->args.grpc_message, &more, &no_message);
	Py_XDECREF(none);
	is_known = (status >= 200 && status <= 599) || (status == 101 && more);
	if (ok && (!is_known || grpc < 0 || grpc > UINT16_MAX)) {
		PyErr_Format(PyExc_ValueError,
			     "status %d, grpc_status %d: expected 200 to 599, or 101 with `more`, "
			     "and 0 or more",
			     status, grpc);
		ok = false;
	}
	ok = ok && add_headers(f, headers, false) && add_headers(f, trailers, true);
	f->args.status = (uint16_t)status;
	f->args.grpc_status = (uint16_t)grpc;
	f->args.more = more;
	f->args.no_message = no_message;
	if (!ok)
		form_end(f);
	return ok;
}

bool form_read_interim(struct form *f, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"status", "headers", NULL};
	PyObject *headers = NULL;
	int status = 103;
	bool ok;

	*f = (struct form){0};
	f->alive = PyList_New(0);
	ok = f->alive && PyArg_ParseTupleAndKeywords(args, keywords, "|$iO:reply_interim", names,
						     &status, &headers);
	if (ok && (status < 102 || status > 199)) {
		PyErr_Format(PyExc_ValueError, "status %d: expected 102 to 199", status);
		ok = false;
	}
	ok = ok && add_headers(f, headers, false);
	f->args.status = (uint16_t)status;
	if (!ok)
		form_end(f);
	return ok;
}
