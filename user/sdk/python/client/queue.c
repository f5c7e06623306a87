/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "sdk/python/client/binding.h"
#include "base/clock.h"

int queue_init(struct py_queue *q, bool has_fd)
{
	pthread_condattr_t monotonic;

	q->fd = has_fd ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	if (has_fd && q->fd < 0)
		return -errno;
	sl_list_init(&q->events);
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&q->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return 0;
}

void queue_fini(struct py_queue *q)
{
	struct py_event *e;

	while ((e = queue_take(q)))
		free(e);
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
	if (q->fd >= 0)
		close(q->fd);
}

static const char *moved(const char *text, const uint8_t *from, const uint8_t *to)
{
	return text ? (const char *)(to + ((const uint8_t *)text - from)) : NULL;
}

struct py_event *event_of_reply(const struct sl_rpc_call_reply *reply)
{
	struct py_event *e = malloc(sizeof(*e) + reply->meta_len + reply->body_len);

	if (!e)
		return NULL;
	*e = (struct py_event){.end = true, .reply = *reply};
	sl_list_init(&e->node);
	if (reply->meta_len)
		memcpy(e->bytes, reply->meta, reply->meta_len);
	if (reply->body_len)
		memcpy(e->bytes + reply->meta_len, reply->body, reply->body_len);
	e->reply.meta = e->bytes;
	e->reply.body = e->bytes + reply->meta_len;
	e->reply.content_type = moved(reply->content_type, reply->meta, e->bytes);
	e->reply.grpc_message = moved(reply->grpc_message, reply->meta, e->bytes);
	return e;
}

void queue_put(struct py_queue *q, struct py_event *e)
{
	static const uint64_t one = 1;
	ssize_t wrote = 0;
	bool first;

	pthread_mutex_lock(&q->lock);
	first = sl_list_empty(&q->events);
	sl_list_add_tail(&q->events, &e->node);
	pthread_cond_signal(&q->more);
	if (first && q->fd >= 0)
		wrote = write(q->fd, &one, sizeof(one));
	(void)wrote;
	pthread_mutex_unlock(&q->lock);
}

/* Lock held. */
static struct py_event *take(struct py_queue *q)
{
	struct sl_list *node = sl_list_pop_head(&q->events);
	uint64_t count;

	if (q->fd >= 0 && sl_list_empty(&q->events) && read(q->fd, &count, sizeof(count)) < 0)
		count = 0;
	return node ? sl_container_of(node, struct py_event, node) : NULL;
}

struct py_event *queue_take(struct py_queue *q)
{
	struct py_event *e;

	pthread_mutex_lock(&q->lock);
	e = take(q);
	pthread_mutex_unlock(&q->lock);
	return e;
}

struct py_event *queue_wait(struct py_queue *q, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	struct py_event *e;
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	while (sl_list_empty(&q->events) && !rc)
		rc = pthread_cond_timedwait(&q->more, &q->lock, &until);
	e = take(q);
	pthread_mutex_unlock(&q->lock);
	return e;
}
