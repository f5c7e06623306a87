/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/tlv.h"

struct client_call *sl_cl_call_find(struct sl_rpc_client *c, uint64_t number)
{
	uint32_t index = (uint32_t)number - 1;
	struct client_call *call = index < c->slot_cnt ? c->slots[index].call : NULL;

	return call && call->number == number ? call : NULL;
}

/* Lock held. */
static void take_slot(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;
	uint32_t index = c->first_free;
	struct client_slot *slot = &c->slots[index];

	c->first_free = slot->next_free;
	slot->call = call;
	call->number = (uint64_t)slot->generation << 32 | (index + 1);
	c->open_cnt++;
}

/* Lock held. */
static void put_slot(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;
	uint32_t index = (uint32_t)call->number - 1;
	struct client_slot *slot = &c->slots[index];

	slot->call = NULL;
	slot->generation++;
	slot->next_free = c->first_free;
	c->first_free = index;
	c->open_cnt--;
}

void sl_cl_call_unref(struct client_call *call)
{
	if (--call->refs)
		return;
	free(call->collected);
	free(call->head);
	free(call);
}

static void count_end(struct sl_rpc_client *c, int error)
{
	if (error)
		atomic_fetch_add(&c->count.failures, 1);
	else
		atomic_fetch_add(&c->count.replies, 1);
}

void sl_cl_call_end(struct client_call *call, int error)
{
	struct sl_rpc_client *c = call->client;

	sl_list_del(&call->node);
	sl_list_del(&call->turn);
	pthread_mutex_lock(&c->lock);
	call->ended = true;
	sl_list_del(&call->command);
	sl_cl_drop_pieces(&call->out);
	put_slot(call);
	pthread_mutex_unlock(&c->lock);
	count_end(c, error);
	call->reply.error = error;
	if (error)
		call->reply.body_len = 0;
	call->on_end(call->user_data, call->number, &call->reply);
	sl_cl_drop_pieces(&call->stored);
	sl_cl_call_unref(call);
}

static bool is_text(const void *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t ch = ((const uint8_t *)text)[i];

		if (ch == '\r' || ch == '\n' || ch == 0)
			return false;
	}
	return true;
}

static bool is_binary_name(const char *name, size_t len)
{
	return len > 4 && memcmp(name + len - 4, "-bin", 4) == 0;
}

static bool is_name(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (name[i] <= ' ' || name[i] == 0x7f || name[i] == ':' ||
		    (name[i] >= 'A' && name[i] <= 'Z'))
			return false;
	}
	return len && len <= UINT8_MAX;
}

static bool put_header(struct sl_tlv_writer *w, const struct sl_header_arg *h)
{
	size_t name_len = h->name ? strlen(h->name) : 0;
	uint8_t *to;

	if (!is_name(h->name, name_len) || h->trailer ||
	    !(is_binary_name(h->name, name_len) || is_text(h->value, h->value_len)))
		return false;
	if (h->value_len > UINT16_MAX) {
		w->full = true;
		return true;
	}
	to = sl_tlv_room(w, SL_META_HEADER, 1 + name_len + h->value_len);
	if (!to)
		return true;
	*to = (uint8_t)name_len;
	memcpy(to + 1, h->name, name_len);
	if (h->value_len)
		memcpy(to + 1 + name_len, h->value, h->value_len);
	return true;
}

static bool put_text(struct sl_tlv_writer *w, uint16_t tag, const char *text)
{
	if (!text)
		return true;
	sl_tlv_put(w, tag, sl_span_cstr(text));
	return is_text(text, strlen(text));
}

static int encode_meta(uint8_t *to, size_t room, const struct sl_rpc_call_args *a)
{
	struct sl_tlv_writer w = {.at = to, .end = to + room};
	const char *method = a->method ? a->method : "POST";
	bool ok = a->grpc || put_text(&w, SL_META_METHOD, method);

	if (a->grpc)
		sl_tlv_put_u16(&w, SL_META_PROTOCOL, SL_PROTO_GRPC);
	ok &= put_text(&w, SL_META_PATH, a->path);
	ok &= put_text(&w, SL_META_QUERY, a->query);
	ok &= put_text(&w, SL_META_CONTENT_TYPE, a->content_type);
	ok &= put_text(&w, SL_META_AUTHORITY, a->authority);
	if (a->deadline_us >= SL_RPC_TIME_MAX)
		sl_tlv_put_u64(&w, SL_META_BUDGET, a->deadline_us);
	for (unsigned i = 0; i < a->header_cnt; i++)
		ok &= put_header(&w, &a->headers[i]);
	if (!ok)
		return -EINVAL;
	return w.full ? -EMSGSIZE : (int)(w.at - to);
}

static int check_args(const struct sl_rpc_call_args *a)
{
	if (a->priority >= SL_CLASS_CNT || !a->on_end || (a->body_len && !a->body) ||
	    (a->header_cnt && !a->headers) || (a->stream && (a->body_len || !a->on_data)))
		return -EINVAL;
	return a->body_len > SL_RPC_MAX_MESSAGE ? -EMSGSIZE : 0;
}

static uint64_t after_us(uint64_t now_ns, uint64_t us)
{
	return us && us < (UINT64_MAX - now_ns) / SL_NS_PER_US ? now_ns + us * SL_NS_PER_US
							       : UINT64_MAX;
}

static struct client_call *fill_call(struct client_call *call, struct sl_rpc_client *c,
				     const struct sl_rpc_call_args *a, size_t meta_len)
{
	uint64_t now_ns = sl_now_ns();

	*call = (struct client_call){
		.client = c,
		.refs = 1,
		.class = a->priority ? a->priority : SL_CLASS_NORMAL,
		.grpc = a->grpc,
		.idempotent = a->idempotent,
		.stream = a->stream,
		.deadline_ns = after_us(now_ns, a->deadline_us),
		.give_up_ns = now_ns + c->opt.connect_timeout_ms * SL_NS_PER_MS,
		.reply = {.size = sizeof(call->reply)},
		.user_data = a->user_data,
		.on_data = a->on_data,
		.on_writable = a->on_writable,
		.on_end = a->on_end,
		.meta_len = (uint16_t)meta_len,
		.body_len = (uint32_t)a->body_len,
	};
	sl_list_init(&call->node);
	sl_list_init(&call->command);
	sl_list_init(&call->turn);
	sl_list_init(&call->out);
	sl_list_init(&call->stored);
	if (a->body_len)
		memcpy(call->bytes + meta_len, a->body, a->body_len);
	return call;
}

static int new_call(struct sl_rpc_client *c, const void *given, struct client_call **out)
{
	SL_UNINIT uint8_t meta[SL_RPC_MAX_ASKED];
	struct sl_rpc_call_args a;
	struct client_call *call;
	int rc = sl_cl_copy_struct(&a, sizeof(a), sizeof(a), given);

	if (rc || (rc = check_args(&a)))
		return rc;
	rc = encode_meta(meta, sizeof(meta), &a);
	if (rc < 0)
		return rc;
	call = malloc(sizeof(*call) + (size_t)rc + a.body_len);
	if (!call)
		return -ENOMEM;
	*out = fill_call(call, c, &a, (size_t)rc);
	if (rc)
		memcpy(call->bytes, meta, (size_t)rc);
	return 0;
}

static int add_calls(struct sl_rpc_client *c, struct sl_list *calls, unsigned cnt,
		     uint64_t *numbers)
{
	struct sl_list *at;
	unsigned i = 0;

	pthread_mutex_lock(&c->lock);
	if (c->closing || c->slot_cnt - c->open_cnt < cnt) {
		pthread_mutex_unlock(&c->lock);
		return c->closing ? -ESHUTDOWN : -EAGAIN;
	}
	sl_list_for_each (at, calls) {
		struct client_call *call = sl_container_of(at, struct client_call, node);

		take_slot(call);
		call->grouped = i > 0;
		if (numbers)
			numbers[i] = call->number;
		i++;
	}
	sl_list_splice_tail(&c->submitted, calls);
	sl_cl_wake(c);
	pthread_mutex_unlock(&c->lock);
	atomic_fetch_add(&c->count.calls, cnt);
	return 0;
}

int sl_rpc_client_submit(struct sl_rpc_client *c, const struct sl_rpc_call_args *args, unsigned cnt,
			 uint64_t *numbers)
{
	struct sl_list calls = SL_LIST_INIT(calls), *node;
	struct client_call *call = NULL;
	int rc = cnt && cnt <= SL_RPC_MAX_BATCH ? 0 : -EINVAL;

	for (unsigned i = 0; !rc && i < cnt; i++) {
		rc = new_call(c, (const char *)args + i * args->size, &call);
		if (!rc)
			sl_list_add_tail(&calls, &call->node);
	}
	if (!rc)
		rc = add_calls(c, &calls, cnt, numbers);
	while (rc && (node = sl_list_pop_head(&calls)))
		sl_cl_call_unref(sl_container_of(node, struct client_call, node));
	return rc;
}

/* Lock held. */
static void command(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;

	if (sl_list_empty(&call->command))
		sl_list_add_tail(&c->commands, &call->command);
	sl_cl_wake(c);
}

void sl_rpc_client_cancel(struct sl_rpc_client *c, uint64_t number)
{
	struct client_call *call;

	pthread_mutex_lock(&c->lock);
	call = sl_cl_call_find(c, number);
	if (call) {
		call->cancel = true;
		command(call);
	}
	pthread_mutex_unlock(&c->lock);
}

static void set_pause(struct sl_rpc_client *c, uint64_t number, bool pause)
{
	struct client_call *call;

	pthread_mutex_lock(&c->lock);
	call = sl_cl_call_find(c, number);
	if (call && call->pause != pause) {
		call->pause = pause;
		command(call);
	}
	pthread_mutex_unlock(&c->lock);
}

void sl_rpc_stream_pause(struct sl_rpc_client *c, uint64_t number)
{
	set_pause(c, number, true);
}

void sl_rpc_stream_resume(struct sl_rpc_client *c, uint64_t number)
{
	set_pause(c, number, false);
}

static int check_send(const struct client_call *call)
{
	if (!call || !call->stream || call->out_ended)
		return -EPIPE;
	return call->out_len < SL_CL_STREAM_OUT ? 0 : -EAGAIN;
}

int sl_rpc_stream_send(struct sl_rpc_client *c, uint64_t number, const void *bytes, size_t len,
		       bool last)
{
	struct client_piece *piece;
	struct client_call *call;
	int rc;

	if (len > SL_RPC_MAX_MESSAGE)
		return -EMSGSIZE;
	piece = malloc(sizeof(*piece) + len);
	if (!piece)
		return -ENOMEM;
	*piece = (struct client_piece){.len = (uint32_t)len, .last = last};
	sl_list_init(&piece->node);
	if (len)
		memcpy(piece->bytes, bytes, len);
	pthread_mutex_lock(&c->lock);
	call = sl_cl_call_find(c, number);
	rc = check_send(call);
	if (!rc) {
		sl_list_add_tail(&call->out, &piece->node);
		call->out_len += piece->len;
		call->out_ended = last;
		call->write = true;
		command(call);
	} else if (rc == -EAGAIN) {
		call->out_blocked = true;
	}
	pthread_mutex_unlock(&c->lock);
	if (rc)
		free(piece);
	return rc;
}

static void cancel_call(struct client_call *call)
{
	if (call->state == CALL_SENT) {
		sl_rpc_cancel(call->server->channel, call->rpc_id);
		sl_cl_call_unsend(call);
	}
	sl_cl_call_end(call, -ECANCELED);
}

static void carry_out(struct client_call *call, bool cancel, bool write, bool pause)
{
	bool resume = call->paused && !pause;

	call->paused = pause;
	if (cancel) {
		cancel_call(call);
		return;
	}
	if (write && call->state == CALL_SENT)
		sl_cl_send_parts(call);
	if (resume)
		sl_cl_resume(call);
}

static unsigned take_submitted(struct sl_rpc_client *c)
{
	struct sl_list *node;
	unsigned n = 0;

	for (; (node = sl_list_pop_head(&c->submitted)); n++)
		sl_cl_wait(sl_container_of(node, struct client_call, node));
	return n;
}

unsigned sl_cl_take_commands(struct sl_rpc_client *c)
{
	struct sl_list *node;
	unsigned n;

	pthread_mutex_lock(&c->lock);
	n = take_submitted(c);
	while ((node = sl_list_pop_head(&c->commands))) {
		struct client_call *call = sl_container_of(node, struct client_call, command);
		bool cancel = call->cancel, write = call->write, pause = call->pause;

		call->write = false;
		pthread_mutex_unlock(&c->lock);
		carry_out(call, cancel, write, pause);
		pthread_mutex_lock(&c->lock);
		n++;
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}
