/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include "sdk/python/binding.h"

enum { HEADERS_MAX = SL_RPC_MAX_FIELDS };

static bool is_token(const char *name, Py_ssize_t len)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (Py_ssize_t i = 0; i < len; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(marks, c))))
			return false;
	}
	return len > 0;
}

/* RFC 9110 5.5: no NUL, CR or LF. */
static bool is_value(const char *value, Py_ssize_t len)
{
	for (Py_ssize_t i = 0; i < len; i++)
		if (value[i] == 0 || value[i] == '\r' || value[i] == '\n')
			return false;
	return true;
}

static bool point_header(struct py_form *f, struct sl_header_arg *h, PyObject *name,
			 PyObject *value)
{
	PyObject *lower = PyObject_CallMethod(name, "lower", NULL);
	Py_ssize_t name_len, len;
	bool ok;

	ok = lower && PyList_Append(f->alive, lower) == 0 && PyList_Append(f->alive, value) == 0;
	Py_XDECREF(lower);
	if (!ok)
		return false;
	h->name = PyUnicode_AsUTF8AndSize(lower, &name_len);
	if (!h->name)
		return false;
	if (PyBytes_Check(value))
		ok = PyBytes_AsStringAndSize(value, (char **)(uintptr_t)&h->value, &len) == 0;
	else
		ok = (h->value = PyUnicode_AsUTF8AndSize(value, &len)) != NULL;
	if (!ok)
		return false;
	h->value_len = (size_t)len;
	if (!is_token(h->name, name_len)) {
		PyErr_Format(PyExc_ValueError, "header name %R: expected a token of RFC 9110",
			     name);
		return false;
	}
	if (!is_value(h->value, len)) {
		PyErr_Format(PyExc_ValueError, "header %U: found NUL or a line end in its value %R",
			     lower, value);
		return false;
	}
	return true;
}

static bool add_header(struct py_form *f, PyObject *pair, bool trailer)
{
	struct sl_header_arg *h;
	PyObject *fixed, *name, *value;
	bool ok;

	if (f->args.header_cnt == HEADERS_MAX) {
		PyErr_Format(PyExc_ValueError, "expected at most %d headers", HEADERS_MAX);
		return false;
	}
	fixed = PySequence_Tuple(pair);
	if (!fixed)
		return false;
	h = &f->headers[f->args.header_cnt];
	ok = PyArg_ParseTuple(fixed, "UO;expected pairs of a header's name and its value", &name,
			      &value) &&
	     point_header(f, h, name, value);
	Py_DECREF(fixed);
	if (!ok)
		return false;
	h->trailer = trailer;
	f->args.header_cnt++;
	return true;
}

static bool add_headers(struct py_form *f, PyObject *headers, bool trailer)
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
	/* Converting names and values can run Python code that changes the list. */
	for (Py_ssize_t i = 0; ok && i < PyList_Size(pairs); i++) {
		PyObject *pair = Py_NewRef(PyList_GetItem(pairs, i));

		ok = add_header(f, pair, trailer);
		Py_DECREF(pair);
	}
	Py_DECREF(pairs);
	return ok;
}

void form_end(struct py_form *f)
{
	PyMem_Free(f->headers);
	Py_CLEAR(f->alive);
	Py_CLEAR(f->body);
}

struct py_form *form_keep(const struct py_form *f)
{
	size_t headers_len = f->args.header_cnt * sizeof(*f->headers);
	struct py_form *kept = PyMem_Calloc(1, sizeof(*kept));

	if (!kept)
		goto no_memory;
	kept->args = f->args;
	kept->alive = Py_XNewRef(f->alive);
	kept->headers = headers_len ? PyMem_Malloc(headers_len) : NULL;
	if (headers_len && !kept->headers)
		goto no_memory;
	if (headers_len)
		memcpy(kept->headers, f->headers, headers_len);
	kept->args.headers = kept->headers;
	kept->body = PyBytes_FromStringAndSize(f->args.body, (Py_ssize_t)f->args.body_len);
	if (!kept->body)
		goto no_memory;
	kept->args.body = PyBytes_AsString(kept->body);
	return kept;
no_memory:
	form_free(kept);
	PyErr_NoMemory();
	return NULL;
}

void form_free(struct py_form *f)
{
	if (!f)
		return;
	form_end(f);
	PyMem_Free(f);
}

bool form_read(struct py_form *f, PyObject *keywords)
{
	static char *names[] = {"status",   "content_type", "headers",
				"trailers", "grpc_status",  "grpc_message",
				"more",     "no_message",   NULL};
	PyObject *none, *values, *headers = NULL, *trailers = NULL;
	int status = 200, grpc = 0, more = 0, no_message = 0;
	bool ok, is_known;

	*f = (struct py_form){.args = {.status = 200}};
	if (!keywords)
		return true;
	none = PyTuple_New(0);
	f->alive = PyList_New(0);
	ok = none && f->alive &&
	     PyArg_ParseTupleAndKeywords(none, keywords, "|$izOOizpp:reply", names, &status,
					 &f->args.content_type, &headers, &trailers, &grpc,
					 &f->args.grpc_message, &more, &no_message);
	Py_XDECREF(none);
	values = ok ? PyDict_Values(keywords) : NULL;
	ok = values && PyList_Append(f->alive, values) == 0;
	Py_XDECREF(values);
	is_known = (status >= 200 && status <= 599) || (status == 101 && more);
	if (ok && (!is_known || grpc < 0 || grpc > UINT16_MAX)) {
		PyErr_Format(PyExc_ValueError,
			     "status %d, grpc_status %d: expected 200 to 599, or 101 with `more`, "
			     "and 0 or more",
			     status, grpc);
		ok = false;
	}
	if (ok && f->args.content_type &&
	    !is_value(f->args.content_type, (Py_ssize_t)strlen(f->args.content_type))) {
		PyErr_SetString(PyExc_ValueError, "content_type: found a line end");
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

bool form_read_interim(struct py_form *f, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"status", "headers", NULL};
	PyObject *headers = NULL;
	int status = 103;
	bool ok;

	*f = (struct py_form){0};
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
