/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "backend/internal.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"

enum {
	TICK_NS = 1000000, /* how often the kernel is asked about connections and peers */
	SPIN_NS = 50000,   /* about what a wake-up costs in a virtual machine */
	AWAY_NS = 10000,   /* longer than one look of somebody who polls as well */
	EVENTS_MAX = 32,
	BATCH_DEFAULT = 256,
	SLOTS = 256,
	BULK_DEFAULT = 4 << 20,
	DRAIN_MS = 5000,
	ROUND_NS = 20000, /* of taking requests before replies get their turn */
};

_Thread_local struct sl_backend *sl_be_polling;

static bool watch(struct sl_backend *b, int fd, void *ptr)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ptr};

	return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* One of the comma-separated endpoints. */
static int listen_on(struct sl_backend *b, const char *from, size_t len, char *err, size_t err_len)
{
	struct sl_rpc_listen_options opt = {
		.key_file = b->opt.key_file,
		.bulk_ring_len = b->opt.bulk_ring_len,
		.slots = SLOTS,
	};
	char endpoint[256];

	if (len >= sizeof(endpoint) || b->listener_cnt == SL_BE_LISTENERS_MAX) {
		snprintf(err, err_len, "listen: expected at most %d endpoints of at most %zu bytes",
			 SL_BE_LISTENERS_MAX, sizeof(endpoint) - 1);
		return -EINVAL;
	}
	memcpy(endpoint, from, len);
	endpoint[len] = '\0';
	b->listeners[b->listener_cnt] = sl_rpc_listen(endpoint, &opt, err, err_len);
	if (!b->listeners[b->listener_cnt])
		return -EINVAL;
	if (!watch(b, b->listeners[b->listener_cnt++]->fd, b)) {
		snprintf(err, err_len, "%s: epoll: %s", endpoint, strerror(errno));
		return -errno;
	}
	return 0;
}

static int listen_on_all(struct sl_backend *b, char *err, size_t err_len)
{
	const char *at = b->opt.listen;

	for (;;) {
		size_t len = strcspn(at, ",");
		int rc = listen_on(b, at, len, err, err_len);

		if (rc || !at[len])
			return rc;
		at += len + 1;
	}
}

static bool check_options(const struct sl_backend_options *o, char *err, size_t err_len)
{
	uint32_t bulk = o->bulk_ring_len;

	if (!o->listen || !o->handle)
		snprintf(err, err_len, "expected both `listen` and `handle` to be set");
	else if (o->max_batch > SL_RPC_MAX_BATCH)
		snprintf(err, err_len, "max_batch %u: expected at most %d", o->max_batch,
			 SL_RPC_MAX_BATCH);
	else if (bulk && (bulk < SL_RPC_MIN_BULK || bulk > SL_RPC_MAX_BULK || bulk & (bulk - 1)))
		snprintf(err, err_len, "bulk_ring_len %u: expected a power of two, %d to %d", bulk,
			 SL_RPC_MIN_BULK, SL_RPC_MAX_BULK);
	else
		return true;
	return false;
}

static struct sl_backend *backend_new(const struct sl_backend_options *opt)
{
	struct sl_backend *b = aligned_alloc(SL_CACHELINE, sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct sl_backend){.opt = *opt, .epoll_fd = -1, .wake_fd = -1};
	if (!b->opt.max_batch)
		b->opt.max_batch = BATCH_DEFAULT;
	if (!b->opt.bulk_ring_len)
		b->opt.bulk_ring_len = BULK_DEFAULT;
	sl_list_init(&b->channels);
	sl_list_init(&b->queue);
	sl_mem_init(&b->request_mem, SL_BE_REQUEST_MEM);
	sl_mem_init(&b->reply_mem, SL_BE_REPLY_MEM);
	if (sl_rand_bytes(&b->hash_key, sizeof(b->hash_key)))
		b->hash_key = sl_now_ns();
	b->hash_key |= 1;
	b->now_ns = sl_now_ns();
	return b;
}

struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len)
{
	struct sl_backend *b;

	if (!check_options(opt, err, err_len))
		return NULL;
	b = backend_new(opt);
	if (!b) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->epoll_fd < 0 || b->wake_fd < 0 || !watch(b, b->wake_fd, NULL)) {
		snprintf(err, err_len, "epoll, eventfd: %s", strerror(errno));
		goto fail;
	}
	if (!listen_on_all(b, err, err_len))
		return b;
fail:
	sl_backend_close(b);
	return NULL;
}

static void accept_peers(struct sl_backend *b)
{
	struct sl_transport *t;

	for (unsigned i = 0; i < b->listener_cnt; i++) {
		while ((t = b->listeners[i]->ops->accept(b->listeners[i], b->now_ns)))
			sl_be_channel_add(b, t);
	}
}

static void tick(struct sl_backend *b)
{
	struct sl_list *at, *next;

	b->tick_ns = b->now_ns + TICK_NS;
	accept_peers(b);
	sl_list_for_each_safe (at, next, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up)
			sl_be_channel_tick(ch, b->now_ns);
		else
			sl_be_channel_reap(ch);
	}
}

static unsigned poll_channels_once(struct sl_backend *b)
{
	struct sl_list *at;
	unsigned n = 0;

	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);
		int rc = ch->up ? sl_link_poll(&ch->link, b->now_ns) : 0;

		if (rc < 0)
			sl_be_channel_close(ch);
		else
			n += (unsigned)rc;
	}
	return n;
}

/*
 * What has arrived, from all in turns: up to a batch, and not for long, or nobody is answered.
 * Behind a single message another look would most likely be in vain.
 */
static unsigned poll_channels(struct sl_backend *b)
{
	uint64_t until_ns = b->now_ns + ROUND_NS;
	unsigned sum = 0, n;

	for (;;) {
		n = poll_channels_once(b);
		sum += n;
		if (n <= 1 || b->queue_cnt >= b->opt.max_batch)
			return sum;
		b->now_ns = sl_now_ns();
		if (b->now_ns >= until_ns)
			return sum;
	}
}

/* One pass over everything; batches handled. */
static unsigned pass(struct sl_backend *b)
{
	unsigned n;

	if (b->now_ns >= b->tick_ns)
		tick(b);
	if (poll_channels(b))
		b->active_ns = b->now_ns;
	sl_be_replies_take(b);
	n = sl_be_batch_run(b);
	if (n)
		b->active_ns = b->now_ns;
	sl_be_flush(b);
	return n ? 1 : 0;
}

static void disarm(struct sl_backend *b)
{
	struct sl_list *at;

	atomic_store_explicit(&b->sleeping, false, memory_order_relaxed);
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up)
			ch->link.t->ops->disarm(ch->link.t);
	}
}

/* False: something has come meanwhile. */
static bool arm(struct sl_backend *b)
{
	struct sl_list *at;

	atomic_store_explicit(&b->sleeping, true, memory_order_relaxed);
	/* Pairs with the fence of wake(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (b->queue_cnt || atomic_load_explicit(&b->handed, memory_order_relaxed) ||
	    atomic_load_explicit(&b->stop, memory_order_relaxed))
		return false;
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up && (ch->replies || !sl_link_arm(&ch->link)))
			return false;
	}
	return true;
}

static void take_event(struct sl_backend *b, void *ptr)
{
	uint64_t bells;

	if (!ptr) {
		if (read(b->wake_fd, &bells, sizeof(bells)) < 0)
			return; /* taken already */
	} else if (ptr == b) {
		accept_peers(b);
	} else {
		struct channel *ch = ptr;

		(void)ch->link.t->ops->check(ch->link.t);
	}
}

static void sleep_until(struct sl_backend *b, uint64_t until_ns)
{
	struct epoll_event ev[EVENTS_MAX];
	uint64_t ns;
	int n = 0;

	for (unsigned i = 0; i < b->listener_cnt; i++) {
		uint64_t next = b->listeners[i]->ops->next_ns(b->listeners[i]);

		until_ns = next < until_ns ? next : until_ns;
	}
	ns = until_ns > b->now_ns ? until_ns - b->now_ns : 0;
	if (arm(b))
		n = epoll_wait(b->epoll_fd, ev, EVENTS_MAX,
			       (int)((ns + SL_NS_PER_MS - 1) / SL_NS_PER_MS));
	disarm(b);
	b->now_ns = sl_now_ns();
	for (int i = 0; i < n; i++)
		take_event(b, ev[i].data.ptr);
}

/*
 * Lets whoever shares the core have it while there is nothing to do. Somebody who then works for
 * long is better waited for asleep: a wake-up takes the core back, polling does not.
 */
static void spin(struct sl_backend *b)
{
	uint64_t before_ns = sl_now_ns();

	sched_yield();
	b->now_ns = sl_now_ns();
	if (b->now_ns - before_ns > AWAY_NS)
		b->active_ns = 0;
}

int sl_backend_poll(struct sl_backend *b, unsigned wait_us)
{
	struct sl_backend *outer = sl_be_polling;
	uint64_t until_ns;
	unsigned n;

	sl_be_polling = b;
	b->now_ns = sl_now_ns();
	until_ns = b->now_ns + wait_us * SL_NS_PER_US;
	for (;;) {
		n = pass(b);
		if (n || b->now_ns >= until_ns ||
		    atomic_load_explicit(&b->stop, memory_order_relaxed))
			break;
		if (b->opt.busy_poll)
			b->now_ns = sl_now_ns();
		else if (b->now_ns - b->active_ns < SPIN_NS)
			spin(b);
		else
			sleep_until(b, until_ns);
	}
	sl_be_polling = outer;
	return (int)n;
}

static void close_listeners(struct sl_backend *b)
{
	while (b->listener_cnt) {
		struct sl_rpc_listener *l = b->listeners[--b->listener_cnt];

		(void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
		l->ops->close(l);
	}
}

/* Every gateway has said that nothing follows, and everything is answered. */
static bool drained(const struct sl_backend *b)
{
	struct sl_list *at;

	if (b->open_cnt)
		return false;
	sl_list_for_each (at, &b->channels) {
		const struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up && (!ch->peer_goaway || ch->replies || !sl_link_idle(&ch->link)))
			return false;
	}
	return true;
}

static void drain(struct sl_backend *b)
{
	uint64_t until_ns = sl_now_ns() + DRAIN_MS * SL_NS_PER_MS;
	struct sl_list *at;

	close_listeners(b);
	sl_list_for_each (at, &b->channels)
		sl_container_of(at, struct channel, node)->link.goaway_due = true;
	atomic_store(&b->stop, false);
	while (!drained(b) && sl_now_ns() < until_ns && !atomic_load(&b->stop))
		sl_backend_poll(b, 1000);
}

int sl_backend_run(struct sl_backend *b)
{
	while (!atomic_load_explicit(&b->stop, memory_order_relaxed))
		sl_backend_poll(b, 1000000);
	drain(b);
	return 0;
}

void sl_backend_stop(struct sl_backend *b)
{
	static const uint64_t one = 1;
	int saved = errno;

	atomic_store(&b->stop, true);
	if (write(b->wake_fd, &one, sizeof(one)) < 0)
		errno = saved; /* it rings already */
}

/* What is open is refused, and that is sent; whoever still has such a request must not use it. */
static void refuse_open(struct sl_backend *b)
{
	struct sl_list *at, *rq, *next;

	sl_be_replies_take(b);
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		sl_list_for_each_safe (rq, next, &ch->open)
			sl_be_request_close(sl_container_of(rq, struct request, node),
					    SL_RPC_REFUSED);
	}
	sl_be_flush(b);
}

void sl_backend_close(struct sl_backend *b)
{
	struct sl_list *at, *next;

	if (!b)
		return;
	sl_be_polling = b;
	close_listeners(b);
	refuse_open(b);
	sl_list_for_each_safe (at, next, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		sl_be_channel_close(ch);
		sl_be_channel_reap(ch);
	}
	sl_be_polling = NULL;
	sl_rpc_settle();
	SL_CHECK(b->open_cnt == 0 && b->queue_cnt == 0 && b->channel_cnt == 0);
	SL_CHECK(b->request_mem.used == 0 && b->reply_mem.used == 0);
	SL_CHECK(atomic_load(&b->foreign_used) == 0);
	sl_mem_fini(&b->request_mem);
	sl_mem_fini(&b->reply_mem);
	if (b->wake_fd >= 0)
		close(b->wake_fd);
	if (b->epoll_fd >= 0)
		close(b->epoll_fd);
	free(b);
}

void sl_backend_stats(const struct sl_backend *b, struct sl_backend_stats *out)
{
	*out = b->stats;
	out->channels = b->channel_cnt;
	out->open_requests = b->open_cnt;
}
