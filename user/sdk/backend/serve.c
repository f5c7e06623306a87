/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"
#include "base/min.h"

enum {
	TICK_NS = 1000000,
	LOOK_NS = 100000000,
	SPIN_NS = SL_BE_SPIN_NS,
	AWAY_NS = 10000,
	EVENTS_MAX = 32,
	DRAIN_MS = 5000,
	ROUND_NS = 20000,
};

_Thread_local struct sl_backend *sl_be_polling;

static bool is_ending(const struct sl_backend *b)
{
	return atomic_load_explicit(&b->stop, memory_order_relaxed) ||
	       atomic_load_explicit(&b->quit, memory_order_relaxed);
}

typedef struct sl_transport *next_peer_fn(struct sl_rpc_listener *l, uint64_t now_ns);

static void take_peers(struct sl_backend *b, struct sl_rpc_listener *l, next_peer_fn *next)
{
	struct sl_transport *t;

	do {
		l->accept_limit = SL_BE_CHANNELS_MAX - b->channel_cnt;
		t = next(l, b->now_ns);
		if (t)
			sl_be_channel_add(b, t);
	} while (t);
}

static void accept_peers(struct sl_backend *b)
{
	for (unsigned i = 0; i < b->listener_cnt; i++)
		take_peers(b, b->listeners[i], b->listeners[i]->ops->accept);
}

static void glance_at_peers(struct sl_backend *b)
{
	for (unsigned i = 0; i < b->listener_cnt; i++) {
		if (b->listeners[i]->ops->poll_nonblock)
			take_peers(b, b->listeners[i], b->listeners[i]->ops->poll_nonblock);
	}
}

static void tick_channels(struct sl_backend *b)
{
	struct sl_list *at, *next;

	b->tick_ns = b->now_ns + TICK_NS;
	sl_be_stats_publish(b);
	sl_be_take_events(b, 0);
	if (b->now_ns >= b->look_ns) {
		b->look_ns = b->now_ns + LOOK_NS;
		sl_be_channels_look(b);
	}
	sl_list_for_each_safe (at, next, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up)
			sl_be_channel_tick(ch, b->now_ns);
		else
			sl_be_channel_reap(ch);
	}
	accept_peers(b); /* after reaping, which frees slots */
}

static void take_shared(struct sl_backend *b, bool again)
{
	struct channel *ch;

	if (again)
		sl_poll_groups_poll_nonblock(&b->poll_groups);
	else
		sl_poll_groups_poll(&b->poll_groups);
	while ((ch = sl_poll_groups_next_ready(&b->poll_groups)))
		sl_be_channel_wake(ch);
	b->stats.bad_messages += b->poll_groups.unmatched;
	b->poll_groups.unmatched = 0;
}

static unsigned poll_channels(struct sl_backend *b)
{
	uint64_t until_ns = b->now_ns + ROUND_NS;
	struct sl_list *at;
	unsigned sum = 0, n;

	for (;;) {
		take_shared(b, sum != 0);
		n = 0;
		sl_list_for_each (at, &b->channels) {
			struct channel *ch = sl_container_of(at, struct channel, node);
			int rc = ch->up ? sl_link_poll(&ch->link, b->now_ns) : 0;

			if (rc < 0)
				sl_be_channel_close(ch);
			else
				n += (unsigned)rc;
			ch->used |= rc > 0;
		}
		sum += n;
		if (n <= 1 || b->queue_cnt >= b->opt.max_batch)
			return sum;
		b->now_ns = sl_now_ns();
		if (b->now_ns >= until_ns)
			return sum;
	}
}

static bool is_short(struct client_share *share)
{
	size_t wanted = atomic_load(&share->wanted);

	if (!wanted)
		return false;
	if (!sl_be_reply_mem_left(share, wanted))
		return true;
	atomic_store(&share->wanted, 0);
	return false;
}

static void tell_requests(struct channel *ch)
{
	struct sl_backend *b = ch->b;
	struct sl_list *at;

	sl_list_for_each (at, &ch->open) {
		struct request *rq = sl_container_of(at, struct request, node);
		size_t wanted, least;

		if (rq->state != REQUEST_HANDLED || !atomic_load(&rq->blocked))
			continue;
		if (is_short(rq->share)) {
			wanted = atomic_load(&rq->share->wanted);
			least = atomic_load(&ch->wanted);
			if (!least || wanted < least)
				atomic_store(&ch->wanted, wanted);
			ch->want_ns = b->now_ns + SL_BE_WANT_NS;
		} else if (atomic_exchange(&rq->blocked, false) && !atomic_load(&rq->gone) &&
			   !atomic_load(&rq->over)) {
			sl_be_upcall(rq, b->opt.on_writable);
		}
	}
}

static bool has_room_again(const struct channel *ch)
{
	size_t wanted = atomic_load_explicit(&ch->wanted, memory_order_acquire);

	return (atomic_load_explicit(&ch->blocked, memory_order_acquire) &&
		atomic_load_explicit(&ch->unsent, memory_order_relaxed) < SL_BE_UNSENT_MEM / 2) ||
	       (wanted && ch->b->now_ns >= ch->want_ns && sl_be_channel_mem_left(ch, wanted));
}

static void tell_writable(struct sl_backend *b)
{
	struct sl_list *at;

	if (sl_unlikely(atomic_load_explicit(&b->full, memory_order_relaxed)) &&
	    atomic_exchange(&b->full, false))
		sl_be_channels_wake_blocked(b);
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (sl_likely(!has_room_again(ch)))
			continue;
		/* Reset before checking: requests that block later set them again. */
		atomic_store(&ch->wanted, 0);
		atomic_store(&ch->blocked, false);
		tell_requests(ch);
	}
}

static void note_pass(struct sl_backend *b)
{
	uint64_t since_ns = b->now_ns - b->pass_ns;

	if (b->pass_ns && since_ns > LOOK_NS)
		b->away_ns += since_ns - LOOK_NS;
	b->pass_ns = b->now_ns;
}

/* Before refusals. A drained gateway may return, and is told again. */
static void tell_away(struct sl_backend *b)
{
	struct sl_list *at;

	b->told_away = sl_be_away(b);
	sl_be_channels_wake(b);
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		ch->link.away = (uint8_t)b->told_away;
		if (ch->up)
			sl_link_flush(&ch->link, b->now_ns);
	}
}

static unsigned run_pass(struct sl_backend *b)
{
	struct sl_list *at;
	unsigned n;

	note_pass(b);
	if (b->now_ns >= b->tick_ns)
		tick_channels(b);
	if (sl_unlikely(sl_be_away(b) != b->told_away))
		tell_away(b);
	glance_at_peers(b);
	if (poll_channels(b))
		b->active_ns = b->now_ns;
	tell_writable(b);
	if (sl_be_streams_take(b))
		b->active_ns = b->now_ns;
	if (sl_be_replies_take(b))
		b->active_ns = b->now_ns;
	sl_list_for_each (at, &b->channels)
		sl_be_replies_relieve(sl_container_of(at, struct channel, node));
	n = b->opt.inline_handler ? sl_be_batch_run(b) : sl_be_batch_offer(b);
	if (n)
		b->active_ns = b->now_ns;
	sl_be_flush(b);
	return n ? 1 : 0;
}

void sl_be_disarm(struct sl_backend *b)
{
	struct sl_list *at;

	atomic_store_explicit(&b->sleeping, false, memory_order_relaxed);
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up)
			sl_link_disarm(&ch->link);
	}
}

bool sl_be_arm(struct sl_backend *b)
{
	struct sl_list *at;

	atomic_store_explicit(&b->sleeping, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if ((b->queue_cnt && (b->opt.inline_handler ||
			      atomic_load_explicit(&b->turn, memory_order_relaxed) == TURN_IO)) ||
	    atomic_load_explicit(&b->handed, memory_order_relaxed) ||
	    atomic_load_explicit(&b->resumed, memory_order_relaxed) || b->resumed_next ||
	    atomic_load_explicit(&b->full, memory_order_relaxed) || is_ending(b) ||
	    sl_be_away(b) != b->told_away)
		return false;
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (has_room_again(ch) || (ch->up && (ch->classes || !sl_link_arm(&ch->link))))
			return false;
	}
	return sl_poll_groups_arm(&b->poll_groups);
}

void sl_be_take_events(struct sl_backend *b, int wait_ms)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(b->epoll_fd, ev, EVENTS_MAX, wait_ms);
	bool has_peers = false;
	uint64_t bells;

	b->now_ns = sl_now_ns();
	for (int i = 0; i < n; i++) {
		void *ptr = ev[i].data.ptr;
		struct channel *ch = ptr;

		if (ptr == b)
			has_peers = true;
		else if (ch && !sl_poll_groups_handle_event(&b->poll_groups, ptr))
			sl_link_check(&ch->link);
		else if (!ch && read(b->wake_fd, &bells, sizeof(bells)) < 0)
			continue;
	}
	/* Last: an accepted transport may close another one that an event refers to. */
	if (has_peers)
		accept_peers(b);
}

static uint64_t listeners_due_ns(const struct sl_backend *b, uint64_t until_ns)
{
	for (unsigned i = 0; i < b->listener_cnt; i++) {
		uint64_t next = b->listeners[i]->ops->next_ns(b->listeners[i]);

		until_ns = sl_min_ns(until_ns, next);
	}
	return until_ns;
}

uint64_t sl_be_sleep_us(const struct sl_backend *b)
{
	uint64_t now_ns = sl_now_ns(), due_ns;

	if (!b->opt.inline_handler)
		return UINT64_MAX; /* the I/O thread has the timers */
	due_ns = listeners_due_ns(b, now_ns + SL_NS_PER_SEC);
	return due_ns > now_ns ? (due_ns - now_ns + SL_NS_PER_US - 1) / SL_NS_PER_US : 0;
}

static void sleep_until(struct sl_backend *b, uint64_t until_ns)
{
	uint64_t ns;
	int wait_ms = 0;

	until_ns = listeners_due_ns(b, until_ns);
	ns = until_ns > b->now_ns ? until_ns - b->now_ns : 0;
	sl_be_stats_publish(b);
	if (sl_be_arm(b))
		wait_ms = (int)((ns + SL_NS_PER_MS - 1) / SL_NS_PER_MS);
	sl_be_take_events(b, wait_ms);
	sl_be_disarm(b);
}

unsigned sl_be_serve(struct sl_backend *b, unsigned wait_us)
{
	struct sl_backend *outer = sl_be_polling;
	uint64_t upcalls = b->upcalls, until_ns;
	unsigned n;

	sl_be_polling = b;
	b->now_ns = sl_now_ns();
	until_ns = b->now_ns + wait_us * SL_NS_PER_US;
	for (;;) {
		n = run_pass(b);
		if (((n || b->upcalls != upcalls) && b->opt.inline_handler) ||
		    b->now_ns >= until_ns || is_ending(b))
			break;
		if (b->opt.busy_poll && b->opt.inline_handler) {
			b->now_ns = sl_now_ns();
		} else if (b->opt.busy_poll || b->now_ns - b->active_ns < SPIN_NS) {
			uint64_t before_ns = sl_now_ns();

			/* Unlike polling, a wake-up preempts other threads. */
			sched_yield();
			b->now_ns = sl_now_ns();
			if (b->now_ns - before_ns > AWAY_NS)
				b->active_ns = 0;
		} else {
			sleep_until(b, until_ns);
		}
	}
	sl_be_polling = outer;
	return n;
}

void sl_be_close_listeners(struct sl_backend *b)
{
	sl_be_channels_wake(b);
	while (b->listener_cnt) {
		struct sl_rpc_listener *l = b->listeners[--b->listener_cnt];

		(void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
		b->stats.refused += l->refused;
		l->ops->close(l);
	}
}

static bool is_drained(const struct sl_backend *b)
{
	struct sl_list *at;

	if (b->open_cnt)
		return false;
	sl_list_for_each (at, &b->channels) {
		const struct channel *ch = sl_container_of(at, struct channel, node);

		if (ch->up && (!ch->peer_goaway || ch->classes || !sl_link_idle(&ch->link)))
			return false;
	}
	return true;
}

void sl_be_drain(struct sl_backend *b)
{
	uint64_t until_ns = sl_now_ns() + DRAIN_MS * SL_NS_PER_MS;

	sl_be_close_listeners(b);
	tell_away(b);
	atomic_store(&b->stop, false);
	while (!is_drained(b) && sl_now_ns() < until_ns && !is_ending(b))
		sl_be_serve(b, 1000);
}
