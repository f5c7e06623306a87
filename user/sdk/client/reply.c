/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/tlv.h"

enum { COLLECT_MIN = 4096 };

static bool read_number(struct sl_span v, uint16_t *out)
{
	*out = v.len == 2 ? sl_get_le16(v.ptr) : 0;
	return v.len == 2;
}

static bool read_field(struct sl_rpc_call_reply *r, uint16_t tag, struct sl_span v)
{
	switch (tag) {
	case SL_META_STATUS:
		return read_number(v, &r->status) && r->status >= 101 && r->status <= 599;
	case SL_META_GRPC_STATUS: return read_number(v, &r->grpc_status);
	case SL_META_CONTENT_TYPE:
		r->content_type = (const char *)v.ptr;
		r->content_type_len = (uint16_t)v.len;
		return true;
	case SL_META_GRPC_MESSAGE:
		r->grpc_message = (const char *)v.ptr;
		r->grpc_message_len = (uint16_t)v.len;
		return true;
	case SL_META_HEADER:
	case SL_META_TRAILER: return v.len && v.len > v.ptr[0];
	default: return true;
	}
}

static bool read_meta(struct sl_rpc_call_reply *r, const uint8_t *meta, size_t len)
{
	struct sl_span rest = sl_span_of(meta, len), value;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &value)) {
		if (!read_field(r, tag, value))
			return false;
	}
	return rest.len == 0;
}

static bool find_header(struct sl_span rest, struct sl_span name, struct sl_span *found)
{
	struct sl_span value;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &value)) {
		if ((tag != SL_META_HEADER && tag != SL_META_TRAILER) || !value.len ||
		    value.ptr[0] >= value.len ||
		    !sl_span_eq(sl_span_of(value.ptr + 1, value.ptr[0]), name))
			continue;
		*found = sl_span_skip(value, 1u + value.ptr[0]);
		return true;
	}
	return false;
}

bool sl_rpc_call_reply_header(const struct sl_rpc_call_reply *reply, const char *name,
			      const char **value, size_t *value_len)
{
	struct sl_span found;

	if (!find_header(sl_span_of(reply->meta, reply->meta_len), sl_span_cstr(name), &found))
		return false;
	*value = (const char *)found.ptr;
	*value_len = found.len;
	return true;
}

static bool add_meta(struct client_call *call, struct sl_span meta)
{
	struct sl_rpc_call_reply *r = &call->reply;
	size_t len = r->meta_len + meta.len;
	uint8_t *all;

	if (!meta.len)
		return true;
	if (len > 2 * (size_t)SL_RPC_MAX_META)
		return false;
	all = malloc(len);
	if (!all)
		return false;
	if (r->meta_len)
		memcpy(all, r->meta, r->meta_len);
	memcpy(all + r->meta_len, meta.ptr, meta.len);
	free(call->head);
	call->head = all;
	r->meta = all;
	r->meta_len = len;
	return read_meta(r, all, len);
}

static int collect(struct client_call *call, struct sl_span bytes)
{
	size_t len = call->reply.body_len + bytes.len, cap = call->collected_cap;
	uint8_t *more;

	if (len > call->client->opt.max_reply)
		return -EMSGSIZE;
	if (len > cap) {
		cap = cap * 2 > COLLECT_MIN ? cap * 2 : COLLECT_MIN;
		cap = cap < len ? len : cap;
		more = realloc(call->collected, cap);
		if (!more)
			return -ENOMEM;
		call->collected = more;
		call->collected_cap = cap;
	}
	if (bytes.len)
		memcpy(call->collected + call->reply.body_len, bytes.ptr, bytes.len);
	call->reply.body = call->collected;
	call->reply.body_len = len;
	return 0;
}

static int store(struct client_call *call, const void *bytes, size_t len, uint64_t left)
{
	struct client_piece *piece = malloc(sizeof(*piece) + len);

	if (!piece)
		return -ENOMEM;
	*piece = (struct client_piece){.len = (uint32_t)len, .left = left};
	sl_list_init(&piece->node);
	if (len)
		memcpy(piece->bytes, bytes, len);
	sl_list_add_tail(&call->stored, &piece->node);
	call->stored_len += len;
	return 0;
}

/* Returns NULL without memory. */
static const void *copy_bytes(struct sl_rpc_client *c, struct sl_span bytes)
{
	if (bytes.len > c->scratch_cap) {
		uint8_t *more = realloc(c->scratch, bytes.len);

		if (!more)
			return NULL;
		c->scratch = more;
		c->scratch_cap = bytes.len;
	}
	if (bytes.len)
		memcpy(c->scratch, bytes.ptr, bytes.len);
	return c->scratch;
}

static int take_body(struct client_call *call, const struct sl_rpc_reply *r, uint64_t left)
{
	const void *bytes;

	if (!call->on_data)
		return collect(call, r->body);
	if (r->no_message || (!r->body.len && !(r->first && r->last && call->stream)))
		return 0;
	if (call->paused || !sl_list_empty(&call->stored))
		return store(call, r->body.ptr, r->body.len, left);
	bytes = copy_bytes(call->client, r->body);
	if (!bytes && r->body.len)
		return -ENOMEM;
	call->on_data(call->user_data, call->number, &call->reply, bytes, r->body.len, left);
	return 0;
}

void sl_cl_resume(struct client_call *call)
{
	struct sl_list *node;

	while (!call->paused && (node = sl_list_pop_head(&call->stored))) {
		struct client_piece *piece = sl_container_of(node, struct client_piece, node);

		call->stored_len -= piece->len;
		call->on_data(call->user_data, call->number, &call->reply, piece->bytes, piece->len,
			      piece->left);
		free(piece);
	}
	if (call->state == CALL_REPLIED)
		sl_cl_call_end(call, 0);
	else if (call->state == CALL_SENT)
		sl_rpc_reply_kept(call->server->channel, call->rpc_id, call->stored_len);
}

static int error_of(enum sl_rpc_status status)
{
	switch (status) {
	case SL_RPC_OK: return 0;
	case SL_RPC_REFUSED: return -EBUSY;
	case SL_RPC_EXPIRED: return -ETIMEDOUT;
	case SL_RPC_BAD_REQUEST: return -EBADMSG;
	case SL_RPC_NO_METHOD:
	case SL_RPC_COMPRESSED: return -ENOSYS;
	case SL_RPC_TOO_LARGE: return -EMSGSIZE;
	case SL_RPC_LOST:
	case SL_RPC_UNANSWERED: return -ECONNRESET;
	default: return -EREMOTEIO;
	}
}

/* `open`: a hostile server has announced more. */
static void end_refused(struct client_call *call, enum sl_rpc_status status, bool open)
{
	if (open)
		sl_rpc_cancel(call->server->channel, call->rpc_id);
	if (status == SL_RPC_REFUSED || status == SL_RPC_UNANSWERED) {
		sl_cl_retry_or_end(call, status == SL_RPC_UNANSWERED, error_of(status));
		return;
	}
	sl_cl_call_unsend(call);
	sl_cl_call_end(call, error_of(status));
}

static void give_up(struct client_call *call, bool last, int error)
{
	if (!last)
		sl_rpc_cancel(call->server->channel, call->rpc_id);
	sl_cl_call_unsend(call);
	sl_cl_call_end(call, error);
}

static void end_replied(struct client_call *call)
{
	sl_cl_call_unsend(call);
	if (sl_list_empty(&call->stored)) {
		sl_cl_call_end(call, 0);
		return;
	}
	call->state = CALL_REPLIED;
}

static void take_whole(struct client_call *call, const struct sl_rpc_reply *r)
{
	struct sl_rpc_call_reply *reply = &call->reply;
	int rc = 0;

	reply->meta = r->meta.ptr;
	reply->meta_len = r->meta.len;
	if (!read_meta(reply, r->meta.ptr, r->meta.len))
		rc = -EPROTO;
	else if (call->on_data)
		rc = take_body(call, r, 0);
	else if (r->body.len > call->client->opt.max_reply)
		rc = -EMSGSIZE;
	else if (!(reply->body = copy_bytes(call->client, r->body)) && r->body.len)
		rc = -ENOMEM;
	else
		reply->body_len = r->body.len;
	sl_cl_call_unsend(call);
	sl_cl_call_end(call, rc);
}

static void take_part(struct client_call *call, const struct sl_rpc_reply *r)
{
	bool ends = r->last && !r->more;
	int rc = 0;

	call->message_left = r->first ? r->total_len : call->message_left;
	call->message_left -= r->body.len < call->message_left ? r->body.len : call->message_left;
	if (!add_meta(call, r->meta))
		rc = -EPROTO;
	if (!rc)
		rc = take_body(call, r, call->message_left);
	if (rc)
		give_up(call, ends, rc);
	else if (ends)
		end_replied(call);
	else
		sl_rpc_reply_kept(call->server->channel, call->rpc_id, call->stored_len);
}

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct client_call *call = cookie;
	bool begins = !call->begun, ends = r->last && !r->more;

	(void)app;
	if (r->status != SL_RPC_OK) {
		end_refused(call, (enum sl_rpc_status)r->status, !ends);
		return;
	}
	call->begun = true;
	call->reply.service_us = r->service_us;
	if (begins)
		call->reply.status = call->grpc ? 0 : 200;
	if (begins && ends && r->first && !call->paused)
		take_whole(call, r);
	else
		take_part(call, r);
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	struct client_call *call = cookie;

	(void)app;
	switch (why) {
	case SL_RPC_FAIL_DOWN: sl_cl_retry_or_end(call, false, -EHOSTUNREACH); break;
	case SL_RPC_FAIL_LOST: sl_cl_retry_or_end(call, true, -ECONNRESET); break;
	case SL_RPC_FAIL_PROTOCOL: sl_cl_retry_or_end(call, true, -EPROTO); break;
	case SL_RPC_FAIL_TIMEOUT:
		sl_cl_call_unsend(call);
		sl_cl_call_end(call, -ETIMEDOUT);
		break;
	}
}

static void on_batch_done(void *app, void *app_data, const struct sl_rpc_batch_end *end)
{
	(void)app, (void)app_data, (void)end;
}

static void on_sent(void *app, void *app_data, uint64_t batch)
{
	(void)app;
	sl_cl_flight_end(app_data, batch);
}

static void on_state(void *app, void *app_data, enum sl_rpc_state state)
{
	(void)app;
	sl_cl_server_state(app_data, state);
}

static void on_credit(void *app, void *cookie)
{
	struct sl_rpc_client *c = app;
	struct client_call *call = cookie;

	sl_list_del(&call->turn);
	sl_list_add_tail(&c->writable, &call->turn);
}

static void on_go_on(void *app, void *cookie)
{
	(void)app, (void)cookie;
}

static void on_interim(void *app, void *cookie, struct sl_span meta)
{
	(void)app, (void)cookie, (void)meta; /* may be dropped */
}

const struct sl_rpc_ops sl_cl_rpc_ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch_done,
	.sent = on_sent,
	.state = on_state,
	.credit = on_credit,
	.go_on = on_go_on,
	.interim = on_interim,
};
