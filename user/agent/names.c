/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpu.h"
#include "sandbox/sandbox.h"

struct agent_names {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct sl_list asked, answers;
	struct agent_query *current;
	int fd;
	bool started;
	bool ended; /* the thread frees this struct */
};

void agent_names_resolve(struct agent_query *q, bool numeric)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = numeric ? AI_NUMERICHOST : 0},
			*found = NULL;
	char port[8];
	int rc;

	q->cnt = 0;
	q->error[0] = 0;
	snprintf(port, sizeof(port), "%u", q->port);
	rc = getaddrinfo(q->host, port, &hints, &found);
	if (rc) {
		snprintf(q->error, sizeof(q->error), "%s", gai_strerror(rc));
		return;
	}
	for (struct addrinfo *at = found; at && q->cnt < AGENT_ADDRESSES_MAX; at = at->ai_next) {
		if (at->ai_addrlen > sizeof(q->addrs[0]))
			continue;
		memset(&q->addrs[q->cnt], 0, sizeof(q->addrs[0]));
		memcpy(&q->addrs[q->cnt], at->ai_addr, at->ai_addrlen);
		q->lens[q->cnt++] = at->ai_addrlen;
	}
	freeaddrinfo(found);
}

static void free_names(struct agent_names *n)
{
	pthread_cond_destroy(&n->wake);
	pthread_mutex_destroy(&n->lock);
	if (n->fd >= 0)
		close(n->fd);
	free(n);
}

static void look_up(struct agent_names *n, struct agent_query *q)
{
	static const uint64_t one = 1;
	struct agent_query copy = {.port = q->port};
	char host[256];

	snprintf(host, sizeof(host), "%s", q->host);
	copy.host = host;
	n->current = q;
	pthread_mutex_unlock(&n->lock);
	agent_names_resolve(&copy, false);
	pthread_mutex_lock(&n->lock);
	if (!n->current)
		return;
	n->current = NULL;
	memcpy(q->error, copy.error, sizeof(q->error));
	memcpy(q->addrs, copy.addrs, sizeof(q->addrs));
	memcpy(q->lens, copy.lens, sizeof(q->lens));
	q->cnt = copy.cnt;
	sl_list_add_tail(&n->answers, &q->link);
	if (write(n->fd, &one, sizeof(one)) < 0)
		return;
}

static void *thread_main(void *arg)
{
	struct agent_names *n = arg;

	sl_thread_name_set("names");
	sl_sandbox_thread(SL_THREAD_AGENT);
	pthread_mutex_lock(&n->lock);
	while (!n->ended) {
		struct sl_list *next = sl_list_pop_head(&n->asked);

		if (next)
			look_up(n, sl_container_of(next, struct agent_query, link));
		else
			pthread_cond_wait(&n->wake, &n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	free_names(n);
	return NULL;
}

struct agent_names *agent_names_new(void)
{
	struct agent_names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->wake, NULL);
	sl_list_init(&n->asked);
	sl_list_init(&n->answers);
	n->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (n->fd >= 0)
		return n;
	free_names(n);
	return NULL;
}

int agent_names_start(struct agent_names *n)
{
	pthread_t thread;
	int rc = n->started ? 0 : sl_thread_start(&thread, thread_main, n);

	if (rc || n->started)
		return rc;
	pthread_detach(thread);
	n->started = true;
	return 0;
}

void agent_names_free(struct agent_names *n)
{
	if (!n)
		return;
	if (!n->started) {
		free_names(n);
		return;
	}
	pthread_mutex_lock(&n->lock);
	n->ended = true;
	n->current = NULL;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}

int agent_names_fd(const struct agent_names *n)
{
	return n->fd;
}

void agent_names_ask(struct agent_names *n, struct agent_query *q)
{
	if (q->asked)
		return;
	q->asked = true;
	pthread_mutex_lock(&n->lock);
	sl_list_add_tail(&n->asked, &q->link);
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}

struct agent_query *agent_names_take(struct agent_names *n)
{
	struct agent_query *q = NULL;
	struct sl_list *next;
	uint64_t cnt;

	pthread_mutex_lock(&n->lock);
	next = sl_list_pop_head(&n->answers);
	if (next)
		q = sl_container_of(next, struct agent_query, link);
	else if (read(n->fd, &cnt, sizeof(cnt)) < 0)
		cnt = 0;
	pthread_mutex_unlock(&n->lock);
	if (q)
		q->asked = false;
	return q;
}

void agent_names_forget(struct agent_names *n, struct agent_query *q)
{
	pthread_mutex_lock(&n->lock);
	if (n->current == q)
		n->current = NULL;
	else if (q->asked)
		sl_list_del(&q->link);
	q->asked = false;
	pthread_mutex_unlock(&n->lock);
}
