/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include "sdk/client/internal.h"

struct client_wait {
	_Atomic unsigned left;
	sem_t done;
};

struct client_result {
	struct sl_rpc_call_reply reply;
	struct client_wait *wait;
	uint8_t *bytes; /* metadata, body */
};

static struct client_result *result_of(struct sl_rpc_call_reply *reply)
{
	return sl_container_of(reply, struct client_result, reply);
}

void sl_rpc_call_reply_free(struct sl_rpc_call_reply *reply)
{
	if (!reply)
		return;
	free(result_of(reply)->bytes);
	free(result_of(reply));
}

static const char *moved(const char *text, const uint8_t *from, const uint8_t *to)
{
	return text ? (const char *)(to + ((const uint8_t *)text - from)) : NULL;
}

static void copy_reply(struct client_result *result, const struct sl_rpc_call_reply *r)
{
	struct sl_rpc_call_reply *to = &result->reply;

	*to = *r;
	result->bytes = malloc(r->meta_len + r->body_len + 1);
	if (!result->bytes) {
		*to = (struct sl_rpc_call_reply){.size = sizeof(*to), .error = -ENOMEM};
		return;
	}
	if (r->meta_len)
		memcpy(result->bytes, r->meta, r->meta_len);
	if (r->body_len)
		memcpy(result->bytes + r->meta_len, r->body, r->body_len);
	to->meta = result->bytes;
	to->body = result->bytes + r->meta_len;
	to->content_type = moved(r->content_type, r->meta, result->bytes);
	to->grpc_message = moved(r->grpc_message, r->meta, result->bytes);
}

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct client_result *result = user_data;
	struct client_wait *wait = result->wait;

	(void)call;
	copy_reply(result, reply);
	if (atomic_fetch_sub(&wait->left, 1) == 1)
		sem_post(&wait->done);
}

static bool is_done(void *arg)
{
	return atomic_load(&((struct client_wait *)arg)->left) == 0;
}

static void wait_for_end(struct sl_rpc_client *c, struct client_wait *wait)
{
	if (c->opt.own_loop)
		(void)sl_cl_run_until(c, is_done, wait, UINT64_MAX);
	while (sem_wait(&wait->done) && errno == EINTR)
		;
}

/* Returns false within a callback, where waiting would never end. */
static bool may_wait(const struct sl_rpc_client *c)
{
	return !sl_cl_in_loop(c) &&
	       !(c->opt.own_loop && atomic_load(&((struct sl_rpc_client *)(uintptr_t)c)->looper));
}

static void free_replies(struct sl_rpc_call_reply **replies, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		sl_rpc_call_reply_free(replies[i]);
		replies[i] = NULL;
	}
}

static int make_results(const struct sl_rpc_call_args *given, struct sl_rpc_call_args *args,
			unsigned cnt, struct sl_rpc_call_reply **replies, struct client_wait *wait)
{
	for (unsigned i = 0; i < cnt; i++) {
		const void *from = (const char *)given + i * given->size;
		struct client_result *result;
		int rc = sl_cl_copy_struct(&args[i], sizeof(args[i]), sizeof(args[i]), from);

		if (rc || args[i].stream)
			return rc ? rc : -EINVAL;
		result = calloc(1, sizeof(*result));
		if (!result)
			return -ENOMEM;
		result->wait = wait;
		replies[i] = &result->reply;
		args[i].size = sizeof(args[i]);
		args[i].user_data = result;
		args[i].on_end = on_end;
		args[i].on_data = NULL;
		args[i].on_writable = NULL;
	}
	return 0;
}

int sl_rpc_client_call_batch(struct sl_rpc_client *c, const struct sl_rpc_call_args *given,
			     unsigned cnt, struct sl_rpc_call_reply **replies)
{
	struct client_wait wait = {.left = cnt};
	struct sl_rpc_call_args one, *args;
	int rc;

	if (!cnt || cnt > SL_RPC_MAX_BATCH)
		return -EINVAL;
	if (!may_wait(c))
		return -EDEADLK;
	args = cnt == 1 ? &one : malloc(cnt * sizeof(*args));
	if (!args)
		return -ENOMEM;
	memset(replies, 0, cnt * sizeof(*replies));
	sem_init(&wait.done, 0, 0);
	rc = make_results(given, args, cnt, replies, &wait);
	if (!rc)
		rc = sl_rpc_client_submit(c, args, cnt, NULL);
	if (!rc)
		wait_for_end(c, &wait);
	else
		free_replies(replies, cnt);
	sem_destroy(&wait.done);
	if (args != &one)
		free(args);
	return rc;
}

int sl_rpc_client_call(struct sl_rpc_client *c, const struct sl_rpc_call_args *args,
		       struct sl_rpc_call_reply **reply)
{
	int rc = sl_rpc_client_call_batch(c, args, 1, reply);

	if (!rc && (*reply)->error) {
		rc = (*reply)->error;
		free_replies(reply, 1);
	}
	return rc;
}
