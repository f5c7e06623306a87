/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "sdk/backend/internal.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"

enum { BATCH_DEFAULT = 256, SLOTS = 256, BULK_DEFAULT = 4 << 20 };

enum { RUN_WAIT_US = 1000000 };

static bool watch_fd(struct sl_backend *b, int fd, void *ptr)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ptr};

	return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static int listen_on_all(struct sl_backend *b, struct sl_err *err)
{
	const struct sl_rpc_memory mem = {b->opt.memory, b->opt.memory_len};
	struct sl_rpc_listen_options opt = {
		.key_file = b->opt.key_file,
		.bulk_ring_len = b->opt.bulk_ring_len,
		.slots = SLOTS,
		.mem = mem.addr ? &mem : NULL,
	};
	const char *at = b->opt.listen;
	char endpoint[256];

	for (;;) {
		size_t len = strcspn(at, ",");

		if (len >= sizeof(endpoint) || b->listener_cnt == SL_BE_LISTENERS_MAX)
			return sl_fail(err, -EINVAL,
				       "listen: expected at most %d endpoints of at most %zu bytes",
				       SL_BE_LISTENERS_MAX, sizeof(endpoint) - 1);
		memcpy(endpoint, at, len);
		endpoint[len] = '\0';
		b->listeners[b->listener_cnt] = sl_rpc_listen(endpoint, &opt, err);
		if (!b->listeners[b->listener_cnt])
			return -EINVAL;
		if (!watch_fd(b, b->listeners[b->listener_cnt++]->fd, b))
			return sl_fail(err, -errno, "%s: epoll: %s", endpoint, strerror(errno));
		if (!at[len])
			return 0;
		at += len + 1;
	}
}

static struct sl_backend *backend_new(const struct sl_backend_options *opt)
{
	struct client_share **shares = calloc(SL_BE_SHARES, sizeof(struct client_share *));
	struct sl_backend *b = shares ? aligned_alloc(SL_CACHELINE, sizeof(*b)) : NULL;

	if (!b) {
		free(shares);
		return NULL;
	}
	*b = (struct sl_backend){.opt = *opt, .epoll_fd = -1, .wake_fd = -1, .work_fd = -1};
	b->shares = shares;
	if (!b->opt.max_batch)
		b->opt.max_batch = BATCH_DEFAULT;
	if (!b->opt.bulk_ring_len)
		b->opt.bulk_ring_len = BULK_DEFAULT;
	sl_list_init(&b->channels);
	for (unsigned i = 0; i < SL_CLASS_CNT; i++)
		sl_list_init(&b->queue[i]);
	pthread_mutex_init(&b->stats_lock, NULL);
	sl_capped_init(&b->request_mem, SL_BE_REQUEST_MEM);
	sl_capped_init(&b->reply_mem, SL_BE_REPLY_MEM);
	if (sl_rand_bytes(&b->hash_key, sizeof(b->hash_key)))
		b->hash_key = sl_now_ns();
	b->hash_key |= 1;
	b->now_ns = sl_now_ns();
	return b;
}

struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *text, size_t len)
{
	struct sl_err *err = &(struct sl_err){text, len};
	uint32_t bulk = opt->bulk_ring_len;
	struct sl_backend *b;
	bool ok = false;

	if (sl_be_check_size(opt, opt->size, sizeof(*opt)))
		sl_err_set(err, "size %zu: expected 0 or %zu, and no unknown members", opt->size,
			   sizeof(*opt));
	else if (!opt->listen || !opt->on_batch)
		sl_err_set(err, "expected both `listen` and `handle` to be set");
	else if (!opt->place != !opt->unplace)
		sl_err_set(err, "expected both `place` and `unplace` to be set, or none");
	else if (opt->max_batch > SL_RPC_MAX_BATCH)
		sl_err_set(err, "max_batch %u: expected at most %d", opt->max_batch,
			   SL_RPC_MAX_BATCH);
	else if (bulk && (bulk < SL_RPC_MIN_BULK || bulk > SL_RPC_MAX_BULK || bulk & (bulk - 1)))
		sl_err_set(err, "bulk_ring_len %u: expected a power of two, %d to %d", bulk,
			   SL_RPC_MIN_BULK, SL_RPC_MAX_BULK);
	else
		ok = true;
	if (!ok)
		return NULL;
	b = backend_new(opt);
	if (!b) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b->work_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->epoll_fd < 0 || b->wake_fd < 0 || b->work_fd < 0 || !watch_fd(b, b->wake_fd, NULL)) {
		sl_err_set(err, "epoll, eventfd: %s", strerror(errno));
		goto fail;
	}
	if (!listen_on_all(b, err))
		return b;
fail:
	sl_backend_close(b);
	return NULL;
}

static bool enter_poll(struct sl_backend *b)
{
	return !sl_be_is_io_thread(b) &&
	       !atomic_exchange_explicit(&b->entered, true, memory_order_acquire);
}

static void leave_poll(struct sl_backend *b)
{
	atomic_store_explicit(&b->entered, false, memory_order_release);
}

static void end_prepared(struct sl_backend *b)
{
	if (b->prepared)
		sl_backend_disarm(b);
	b->prepared = false;
}

int sl_backend_prepare(struct sl_backend *b, uint64_t *timeout_us)
{
	int rc;

	if (!enter_poll(b))
		return -EDEADLK;
	end_prepared(b);
	rc = sl_backend_arm(b);
	if (rc >= 0) {
		b->prepared = true;
		*timeout_us = rc ? sl_be_sleep_us(b) : 0;
	}
	leave_poll(b);
	return rc < 0 ? rc : 0;
}

int sl_backend_poll(struct sl_backend *b, unsigned wait_us)
{
	int n;

	if (!enter_poll(b))
		return -EDEADLK;
	end_prepared(b);
	n = b->opt.inline_handler ? (int)sl_be_serve(b, wait_us) : sl_be_handle_wait(b, wait_us);
	leave_poll(b);
	return n;
}

int sl_backend_run(struct sl_backend *b)
{
	int rc = 0;

	if (!enter_poll(b))
		return -EDEADLK;
	if (b->opt.inline_handler) {
		while (!atomic_load_explicit(&b->stop, memory_order_relaxed))
			sl_be_serve(b, RUN_WAIT_US);
		sl_be_drain(b);
	} else {
		do
			rc = sl_be_handle_wait(b, RUN_WAIT_US);
		while (rc >= 0 && !sl_be_io_ended(b));
	}
	leave_poll(b);
	return rc < 0 ? rc : 0;
}

static void take_all(struct sl_backend *b)
{
	while (sl_be_replies_take(b))
		;
}

static void answer_requests(struct channel *ch)
{
	struct sl_list *at;

	sl_list_for_each (at, &ch->open) {
		struct request *rq = sl_container_of(at, struct request, node);
		bool is_new = rq->state == REQUEST_ARRIVING || rq->state == REQUEST_QUEUED;

		if (!atomic_exchange(&rq->gone, true) && ch->up)
			(void)sl_be_answer(ch, rq->id, rq->class,
					   is_new ? SL_RPC_REFUSED : sl_be_unanswered(rq));
	}
}

static void free_requests(struct channel *ch)
{
	while (!sl_list_empty(&ch->open)) {
		sl_be_request_free(sl_list_first(&ch->open, struct request, node));
		take_all(ch->b);
	}
}

void sl_backend_close(struct sl_backend *b)
{
	struct sl_list *at, *next;

	if (!b)
		return;
	sl_be_io_join(b);
	sl_be_polling = b;
	sl_be_close_listeners(b);
	take_all(b);
	sl_list_for_each (at, &b->channels)
		answer_requests(sl_container_of(at, struct channel, node));
	sl_be_flush(b);
	sl_list_for_each (at, &b->channels)
		sl_be_channel_close(sl_container_of(at, struct channel, node));
	/* Requests are invalid from here on. */
	take_all(b);
	sl_list_for_each_safe (at, next, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		free_requests(ch);
		sl_be_channel_reap(ch);
	}
	sl_be_polling = NULL;
	sl_rpc_wait_closed();
	SL_CHECK(b->open_cnt == 0 && b->queue_cnt == 0 && b->channel_cnt == 0);
	SL_CHECK(b->request_mem.used == 0 && b->reply_mem.used == 0);
	SL_CHECK(atomic_load(&b->foreign_used) == 0);
	sl_capped_fini(&b->request_mem);
	sl_capped_fini(&b->reply_mem);
	if (b->wake_fd >= 0)
		close(b->wake_fd);
	if (b->work_fd >= 0)
		close(b->work_fd);
	if (b->epoll_fd >= 0)
		close(b->epoll_fd);
	pthread_mutex_destroy(&b->stats_lock);
	free(b->shares);
	free(b);
}

void sl_backend_ready(struct sl_backend *b, bool ready)
{
	atomic_store_explicit(&b->unready, !ready, memory_order_relaxed);
	sl_be_wake(b);
}

void sl_backend_leave(struct sl_backend *b, bool leave)
{
	atomic_store_explicit(&b->leaves, leave, memory_order_relaxed);
	sl_be_wake(b);
}
