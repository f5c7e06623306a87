/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "sdk/client/internal.h"
#include "base/clock.h"

enum { RETRY_NS = 1000000 };

void sl_cl_drop_pieces(struct sl_list *pieces)
{
	struct sl_list *node;

	while ((node = sl_list_pop_head(pieces)))
		free(sl_container_of(node, struct client_piece, node));
}

static struct client_piece *first_piece(struct client_call *call)
{
	struct client_piece *piece;

	pthread_mutex_lock(&call->client->lock);
	piece = sl_list_first(&call->out, struct client_piece, node);
	pthread_mutex_unlock(&call->client->lock);
	/* The analyzer takes it for the one that was dropped before. */
	return piece; /* NOLINT(clang-analyzer-unix.Malloc) */
}

static bool drop_piece(struct client_call *call, struct client_piece *piece)
{
	struct sl_rpc_client *c = call->client;
	bool writable;

	pthread_mutex_lock(&c->lock);
	sl_list_del(&piece->node);
	call->out_len -= piece->len;
	writable = call->out_blocked && call->out_len < SL_CL_STREAM_OUT / 2;
	call->out_blocked &= !writable;
	pthread_mutex_unlock(&c->lock);
	free(piece);
	return writable;
}

static int send_end(struct client_call *call)
{
	const struct sl_rpc_part end = {.end = true};

	return sl_rpc_send_part(call->server->channel, call->rpc_id, &end,
				(enum sl_rpc_class)call->class, call->client->now_ns);
}

/* Returns 0 if the whole message was sent, -EAGAIN, or 1: no credit. */
static int send_message(struct client_call *call, struct client_piece *piece)
{
	struct sl_rpc_channel *ch = call->server->channel;
	uint32_t credit, left;
	int rc;

	do {
		struct sl_span span;
		struct sl_rpc_part part = {.spans = &span, .span_cnt = 1};

		credit = sl_rpc_part_credit(ch, call->rpc_id);
		if (!credit)
			return 1;
		left = piece->len - piece->taken;
		part.len = left < credit ? left : credit;
		part.rest = left - part.len;
		span = sl_span_of(piece->bytes + piece->taken, part.len);
		rc = sl_rpc_send_part(ch, call->rpc_id, &part, (enum sl_rpc_class)call->class,
				      call->client->now_ns);
		if (rc)
			return rc;
		call->parts_gone = true;
		piece->taken += part.len;
	} while (piece->taken < piece->len);
	return 0;
}

static void try_later(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;

	sl_list_del(&call->turn);
	sl_list_add_tail(&c->writable, &call->turn);
	if (c->retry_ns > c->now_ns + RETRY_NS)
		c->retry_ns = c->now_ns + RETRY_NS;
}

void sl_cl_send_parts(struct client_call *call)
{
	struct client_piece *piece;
	bool writable = false;
	int rc = 0;

	sl_list_del(&call->turn);
	while (!rc && (piece = first_piece(call))) {
		if ((piece->len || !piece->last) && (piece->taken < piece->len || !piece->len))
			rc = send_message(call, piece);
		if (!rc && piece->last)
			rc = send_end(call);
		if (!rc)
			writable |= drop_piece(call, piece);
	}
	if (rc == -EAGAIN)
		try_later(call);
	if (writable && call->on_writable)
		call->on_writable(call->user_data, call->number);
}
