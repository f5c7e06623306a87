/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. The SDK's I/O thread, which never takes the GIL, queues notes for Python code:
 *
 *   I/O thread: on_open, on_data ... --> notes (under the lock), eventfd
 *   asyncio:    eventfd readable ------> stream_events() --> Request, bytes
 *
 * Both share struct stream. The request's `own` points to it, and is cleared under the lock before
 * a reply can free the request.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "sdk/python/binding.h"
#include "wire/rpc_wire.h"

enum { KEPT_MAX = 16 << 10 };

static size_t count_of(size_t len)
{
	return len > SL_RPC_MIN_COST ? len : SL_RPC_MIN_COST;
}

enum note_kind { NOTE_OPEN, NOTE_DATA, NOTE_END, NOTE_CANCEL, NOTE_WRITABLE, NOTE_CNT };

struct stream {
	struct sl_request_view *view;
	struct py_request *request; /* set by NOTE_OPEN */
	bool taken;
	/* protected by the lock */
	unsigned refs; /* notes, plus one for the request */
	size_t kept;
	bool paused;
	bool ended;
	struct note *spare;
};

struct note {
	struct note *next;
	struct stream *stream;
	enum note_kind kind;
	size_t len, left;
	char bytes[];
};

static void add_note(struct py_backend *b, struct stream *stream, struct note *n)
{
	static const uint64_t one = 1;
	bool was_empty = !b->notes;

	n->stream = stream;
	n->next = NULL;
	stream->refs++;
	*b->notes_end = n;
	b->notes_end = &n->next;
	if (was_empty && write(b->stream_fd, &one, sizeof(one)) < 0)
		return;
}

static void queue_note(struct py_backend *b, struct sl_request_view *view, enum note_kind kind,
		       const void *bytes, size_t len, size_t left)
{
	struct note *n = malloc(sizeof(*n) + len);
	struct stream *stream;

	pthread_mutex_lock(&b->lock);
	stream = view->own;
	if (stream && !n && !stream->ended) { /* no memory: cancelled */
		n = stream->spare;
		stream->spare = NULL;
		stream->ended = true;
		*n = (struct note){.kind = NOTE_CANCEL};
		add_note(b, stream, n);
		n = NULL;
	} else if (stream && !stream->ended) {
		*n = (struct note){.kind = kind, .len = len, .left = left};
		if (len)
			memcpy(n->bytes, bytes, len);
		stream->kept += kind == NOTE_DATA ? count_of(len) : 0;
		if (stream->kept >= KEPT_MAX && !stream->paused) {
			stream->paused = true;
			sl_stream_pause(view);
		}
		add_note(b, stream, n);
		n = NULL;
	}
	pthread_mutex_unlock(&b->lock);
	free(n);
}

static void on_open(void *arg, struct sl_request_view *view)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct note *n = malloc(sizeof(*n)), *spare = malloc(sizeof(*spare));
	struct py_backend *b = arg;

	if (!stream || !n || !spare) {
		free(stream);
		free(n);
		free(spare);
		(void)sl_reply_error(view, SL_RPC_REFUSED);
		return;
	}
	*stream = (struct stream){.view = view, .refs = 1, .spare = spare};
	*n = (struct note){.kind = NOTE_OPEN};
	view->own = stream;
	pthread_mutex_lock(&b->lock);
	add_note(b, stream, n);
	pthread_mutex_unlock(&b->lock);
}

static void on_data(void *arg, struct sl_request_view *view, const void *bytes, size_t len,
		    size_t left)
{
	queue_note(arg, view, NOTE_DATA, bytes, len, left);
}

static void on_end(void *arg, struct sl_request_view *view)
{
	queue_note(arg, view, NOTE_END, NULL, 0, 0);
}

static void on_cancel(void *arg, struct sl_request_view *view)
{
	queue_note(arg, view, NOTE_CANCEL, NULL, 0, 0);
}

static void on_writable(void *arg, struct sl_request_view *view)
{
	queue_note(arg, view, NOTE_WRITABLE, NULL, 0, 0);
}

static const struct sl_stream_ops stream_ops = {
	.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};

static void put_stream(struct py_backend *b, struct stream *stream, unsigned cnt)
{
	unsigned refs;

	pthread_mutex_lock(&b->lock);
	refs = stream->refs -= cnt;
	pthread_mutex_unlock(&b->lock);
	if (refs)
		return;
	free(stream->spare);
	free(stream);
}

static void drop_note(struct py_backend *b, struct note *n)
{
	put_stream(b, n->stream, n->kind == NOTE_OPEN && !n->stream->taken ? 2 : 1);
	free(n);
}

int stream_reply(struct py_request *rq, const struct sl_reply_args *args, enum sl_rpc_status status)
{
	struct py_backend *b = rq->backend;
	struct stream *stream = rq->stream;
	int rc;

	if (!stream)
		return status ? sl_reply_error(rq->view, status) : sl_reply(rq->view, args);
	pthread_mutex_lock(&b->lock);
	rq->view->own = NULL;
	rc = status ? sl_reply_error(rq->view, status) : sl_reply(rq->view, args);
	if (!status &&
	    ((rc == 0 && args->more) || rc == -EAGAIN || rc == -EMSGSIZE || rc == -EINVAL))
		rq->view->own = stream;
	pthread_mutex_unlock(&b->lock);
	return rc;
}

void stream_close(struct py_request *rq)
{
	if (!rq->stream)
		return;
	rq->stream->request = NULL;
	put_stream(rq->backend, rq->stream, 1);
	rq->stream = NULL;
}

/* Returns (kind, Request, bytes or None, rest of the message), or NULL with an exception. */
static PyObject *event_of(struct py_backend *b, struct note *n)
{
	static const char *const kinds[NOTE_CNT] = {"open", "data", "end", "cancel", "writable"};
	struct stream *stream = n->stream;
	PyObject *rq, *event;

	if (n->kind != NOTE_OPEN) {
		rq = Py_XNewRef((PyObject *)stream->request);
	} else if ((rq = request_new(b, stream->view))) {
		stream->taken = true;
		stream->request = (struct py_request *)rq;
		stream->request->stream = stream;
	} else {
		pthread_mutex_lock(&b->lock);
		stream->view->own = NULL;
		(void)sl_reply_error(stream->view, SL_RPC_INTERNAL);
		pthread_mutex_unlock(&b->lock);
	}
	if (!rq)
		return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
	if (n->kind == NOTE_END)
		stream->request->has_trailers = true;
	if (n->kind == NOTE_CANCEL)
		request_fail((struct py_request *)rq, SL_RPC_CANCELLED);
	event = n->kind == NOTE_DATA ? Py_BuildValue("(sNy#n)", kinds[n->kind], rq, n->bytes,
						     (Py_ssize_t)n->len, (Py_ssize_t)n->left)
				     : Py_BuildValue("(sNOi)", kinds[n->kind], rq, Py_None, 0);
	return event;
}

static struct note *take_notes(struct py_backend *b)
{
	struct note *n;
	uint64_t rung;

	pthread_mutex_lock(&b->lock);
	if (read(b->stream_fd, &rung, sizeof(rung)) < 0)
		rung = 0;
	n = b->notes;
	b->notes = NULL;
	b->notes_end = &b->notes;
	pthread_mutex_unlock(&b->lock);
	return n;
}

PyObject *stream_events(PyObject *self, PyObject *unused)
{
	struct py_backend *b = (struct py_backend *)self;
	PyObject *list = PyList_New(0);
	struct note *next;

	(void)unused;
	for (struct note *n = take_notes(b); n; n = next) {
		PyObject *event = list ? event_of(b, n) : NULL;

		next = n->next;
		if (!event || (event != Py_None && PyList_Append(list, event)))
			Py_CLEAR(list);
		Py_XDECREF(event);
		drop_note(b, n);
	}
	return list;
}

PyObject *stream_taken(PyObject *self, PyObject *len)
{
	struct py_request *rq = (struct py_request *)self;
	size_t n = PyLong_AsSize_t(len);

	if (PyErr_Occurred())
		return NULL;
	n = count_of(n);
	if (rq->stream) {
		pthread_mutex_lock(&rq->backend->lock);
		rq->stream->kept -= n < rq->stream->kept ? n : rq->stream->kept;
		if (rq->stream->paused && rq->stream->kept < KEPT_MAX) {
			rq->stream->paused = false;
			sl_stream_resume(rq->view);
		}
		pthread_mutex_unlock(&rq->backend->lock);
	}
	Py_RETURN_NONE;
}

bool streams_open(struct py_backend *b, struct sl_backend_options *opt)
{
	b->notes_end = &b->notes;
	b->stream_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (b->stream_fd < 0)
		return false;
	pthread_mutex_init(&b->lock, NULL);
	opt->on_stream = &stream_ops;
	opt->on_writable = on_writable;
	return true;
}

void streams_close(struct py_backend *b)
{
	struct note *next;

	if (b->stream_fd < 0)
		return;
	for (struct note *n = take_notes(b); n; n = next) {
		next = n->next;
		drop_note(b, n);
	}
	close(b->stream_fd);
	b->stream_fd = -1;
	pthread_mutex_destroy(&b->lock);
}
