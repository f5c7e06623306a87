/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/backend.h"

enum { BATCH_MAX = 256 };

static void start_call(struct origin_server *s, struct sl_request_view *rq, bool stream)
{
	if (s->told_unready || !origin_call_new(s, rq, stream))
		(void)sl_reply_error(rq, SL_RPC_REFUSED);
}

static void on_batch(void *arg, struct sl_batch *batch)
{
	for (unsigned i = 0; i < batch->count; i++)
		start_call(arg, batch->requests[i], false);
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	start_call(arg, rq, true);
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg;
	if (rq->own)
		origin_call_data(rq->own, bytes, len, left);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		origin_call_data_end(rq->own);
}

static void on_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		origin_call_fail(rq->own, SL_RPC_CANCELLED);
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	struct origin_call *call = rq->own;

	(void)arg;
	if (call && call->conn)
		origin_conn_resume(call);
}

void origin_backend_callbacks(struct sl_backend_options *o, struct origin_server *s)
{
	static const struct sl_stream_ops on_stream = {.on_open = on_open,
						       .on_data = on_data,
						       .on_end = on_end,
						       .on_cancel = on_cancelled};

	o->on_batch = on_batch;
	o->arg = s;
	o->max_batch = BATCH_MAX;
	o->inline_handler = true;
	o->on_cancel = on_cancelled;
	o->on_writable = on_writable;
	o->on_stream = &on_stream;
	o->upgrades = true;
	o->compressed = s->proto == &origin_h2; /* HTTP/1.1 has no messages */
}
