/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/min.h"
#include "config/defaults.h"
#include "rpc/session.h"

enum {
	TIMER_TICK_NS = 65536,
	MEM_PER_REQUEST = 512,
	MEM_BASE = 32 << 20,
	EVENTS_MAX = 16,
	EVENT_TURNS = 16,  /* calls of epoll_wait */
	RESTING_EACH = 64, /* channels per tick */
};

void sl_rpc_config_default(struct sl_rpc_config *cfg)
{
	*cfg = (struct sl_rpc_config){
		.max_outstanding = SL_DEFAULT_MAX_EXCHANGES,
		.slots = 256,
		.ping_interval_ns = SL_NS_PER_SEC,
		.dead_after_ns = 10 * SL_NS_PER_SEC,
		.grace_ns = 100 * SL_NS_PER_MS,
	};
}

struct sl_rpc *sl_rpc_create(const struct sl_rpc_config *cfg, const struct sl_rpc_memory *mem,
			     const struct sl_rpc_ops *ops, void *app)
{
	struct sl_rpc *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->cfg = *cfg;
	r->next_ping_ns = r->round_ping_ns = UINT64_MAX;
	if (mem)
		r->mem_area = *mem;
	r->ops = ops;
	r->app = app;
	sl_list_init(&r->channels);
	sl_list_init(&r->awake);
	sl_wheel_init(&r->wheel, 0, TIMER_TICK_NS);
	sl_capped_init(&r->mem, MEM_BASE + (size_t)cfg->max_outstanding * MEM_PER_REQUEST);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		goto free_r;
	if (sl_outstanding_init(&r->out, cfg->max_outstanding))
		goto close_epoll;
	return r;
close_epoll:
	close(r->epoll_fd);
free_r:
	free(r);
	return NULL;
}

void sl_rpc_destroy(struct sl_rpc *r)
{
	struct sl_list *node;

	if (!r)
		return;
	/* An upcall looks at other channels: all go down before one is freed. */
	sl_list_for_each (node, &r->channels) {
		struct sl_rpc_channel *ch = sl_container_of(node, struct sl_rpc_channel, node);

		if (ch->state != SL_RPC_DOWN)
			sl_channel_down(ch, SL_RPC_FAIL_LOST);
	}
	while ((node = sl_list_pop_head(&r->channels)))
		free(sl_container_of(node, struct sl_rpc_channel, node));
	sl_rpc_wait_closed();
	SL_CHECK(r->out.used == 0 && r->mem.used == 0 && sl_wheel_count(&r->wheel) == 0);
	sl_outstanding_fini(&r->out);
	sl_capped_fini(&r->mem);
	close(r->epoll_fd);
	free(r);
}

struct sl_rpc_channel *sl_rpc_channel_new(const char *name, void *app_data)
{
	struct sl_rpc_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->app_data = app_data;
	sl_list_init(&ch->awake);
	snprintf(ch->name, sizeof(ch->name), "%s", name);
	sl_list_init(&ch->requests);
	sl_list_init(&ch->batches);
	sl_list_init(&ch->windows);
	sl_list_init(&ch->ended);
	return ch;
}

void sl_rpc_channel_free(struct sl_rpc_channel *ch)
{
	free(ch);
}

void sl_rpc_channel_join(struct sl_rpc *r, struct sl_rpc_channel *ch)
{
	ch->rpc = r;
	r->channel_cnt++;
	sl_list_add_tail(&r->channels, &ch->node);
}

struct sl_rpc_channel *sl_rpc_channel_add(struct sl_rpc *r, const char *name, void *app_data)
{
	struct sl_rpc_channel *ch = sl_rpc_channel_new(name, app_data);

	if (ch)
		sl_rpc_channel_join(r, ch);
	return ch;
}

void sl_rpc_channel_remove(struct sl_rpc_channel *ch)
{
	if (!SL_ENSURE(ch->state == SL_RPC_DOWN))
		sl_channel_down(ch, SL_RPC_FAIL_LOST);
	ch->rpc->channel_cnt--;
	ch->rpc->round = 0;
	sl_list_del(&ch->node);
	free(ch);
}

enum sl_rpc_state sl_rpc_channel_state(const struct sl_rpc_channel *ch)
{
	return ch->state;
}

bool sl_rpc_channel_port_down(const struct sl_rpc_channel *ch)
{
	return ch->port_down;
}

static int resume_on(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns)
{
	int rc = ch->state == SL_RPC_UP ? sl_channel_watch_transport(ch, t) : -EINVAL;

	if (rc)
		return rc;
	if (sl_link_migrate(&ch->link, t, now_ns)) {
		sl_poll_groups_unwatch(&ch->rpc->poll_groups, ch->rpc->epoll_fd, t);
		return -EINVAL;
	}
	sl_channel_wake(ch);
	return 0;
}

static int start_on(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns)
{
	struct sl_rpc *r = ch->rpc;
	int rc = ch->state == SL_RPC_DOWN ? sl_channel_watch_transport(ch, t) : -EINVAL;

	if (rc)
		return rc;
	ch->link = (struct sl_link){
		.ops = &sl_channel_link_ops,
		.ctx = ch,
		.mem = &r->mem,
		.scratch = &r->scratch,
		.tx_ports = &r->tx_ports,
		.takes = SL_RPC_RESPONSE,
		.alive = {.silence_ns = r->cfg.ping_interval_ns,
			  .interval_ns = r->cfg.ping_interval_ns},
	};
	sl_link_init(&ch->link, t, now_ns, r->cfg.one_class);
	ch->asked_ns = 0;
	sl_channel_copy_stats(ch);
	ch->state = SL_RPC_UP;
	ch->port_down = t->port_down;
	ch->leaving = ch->ends = false;
	ch->drained_ns = 0;
	ch->used = true;
	sl_list_add_tail(&r->awake, &ch->awake);
	r->next_ping_ns = sl_min_ns(r->next_ping_ns, ch->link.alive.next_ns);
	r->round_ping_ns = sl_min_ns(r->round_ping_ns, ch->link.alive.next_ns);
	ch->link.unheard = t->number != 0;
	r->ops->state(r->app, ch->app_data, ch->state);
	return 0;
}

int sl_rpc_adopt(struct sl_rpc_channel *ch, struct sl_transport *t, uint64_t now_ns)
{
	int rc = t->resumes ? resume_on(ch, t, now_ns) : start_on(ch, t, now_ns);

	if (rc && t->resumes)
		sl_channel_report_move(ch, false);
	if (rc)
		sl_rpc_dial_drop(t);
	return rc;
}

void sl_rpc_peer_removed(struct sl_rpc_channel *ch, uint32_t number)
{
	struct sl_link *l = &ch->link;

	if (ch->state == SL_RPC_DOWN || !number || l->t->number != number || l->error)
		return;
	l->error = -ECONNRESET;
	ch->stats.peer_restarts++;
	sl_channel_wake(ch);
}

static void on_timer(void *arg, struct sl_timer *t)
{
	struct sl_pending *p = sl_container_of(t, struct sl_pending, timer);

	(void)arg;
	sl_channel_timeout(p->channel, p);
}

/* An upcall may wake other channels, but rests only its own. */
#define for_each_awake(r, at, next, ch)                                                            \
	sl_list_for_each_safe (at, next, &(r)->awake)                                              \
		if ((ch = sl_container_of(at, struct sl_rpc_channel, awake)))

static unsigned take_events(struct sl_rpc *r)
{
	SL_UNINIT struct epoll_event ev[EVENTS_MAX];
	unsigned sum = 0;
	int n, turns = 0;

	do {
		n = epoll_wait(r->epoll_fd, ev, EVENTS_MAX, 0);
		for (int i = 0; i < n; i++) {
			struct sl_rpc_channel *ch = ev[i].data.ptr;

			sum++;
			if (sl_poll_groups_handle_event(&r->poll_groups, ch))
				continue;
			sl_link_check(&ch->link);
			sl_channel_wake(ch);
		}
	} while (n == EVENTS_MAX && ++turns < EVENT_TURNS);
	return sum;
}

static unsigned take_shared(struct sl_rpc *r, bool is_tick)
{
	struct sl_rpc_channel *ch;
	unsigned sum = 0;

	if (is_tick || r->out.used)
		sl_poll_groups_poll(&r->poll_groups);
	else
		sl_poll_groups_poll_nonblock(&r->poll_groups);
	for (; (ch = sl_poll_groups_next_ready(&r->poll_groups)); sum++)
		sl_channel_wake(ch);
	return sum;
}

/* Returns true to go on polling. Without a poll group, a doorbell costs the peer a system call. */
static bool is_going_on(const struct sl_rpc_channel *ch)
{
	return (ch->outstanding && !ch->link.t->poll_group) || sl_channel_closes_when_idle(ch) ||
	       !sl_list_empty(&ch->ended) || sl_link_has_work(&ch->link);
}

static void tick_awake(struct sl_rpc *r, uint64_t now_ns)
{
	struct sl_rpc_channel *ch;
	struct sl_list *at, *next;

	for_each_awake(r, at, next, ch)
	{
		sl_channel_tick(ch, now_ns);
		if (!ch->used && !is_going_on(ch) && sl_link_arm(&ch->link))
			sl_list_del(&ch->awake);
		ch->used = false;
	}
}

static void tick_resting(struct sl_rpc *r, uint64_t now_ns)
{
	for (unsigned i = 0; i < RESTING_EACH && i < r->channel_cnt; i++) {
		struct sl_rpc_channel *ch =
			sl_list_first(&r->channels, struct sl_rpc_channel, node);

		sl_list_del(&ch->node);
		sl_list_add_tail(&r->channels, &ch->node);
		if (ch->state != SL_RPC_DOWN && sl_list_empty(&ch->awake)) {
			sl_channel_tick(ch, now_ns);
			if (is_going_on(ch))
				sl_channel_wake(ch);
		}
		if (ch->state != SL_RPC_DOWN)
			r->round_ping_ns = sl_min_ns(r->round_ping_ns, ch->link.alive.next_ns);
		if (++r->round < r->channel_cnt)
			continue;
		r->next_ping_ns = r->round_ping_ns;
		r->round_ping_ns = UINT64_MAX;
		r->round = 0;
	}
}

static void tick(struct sl_rpc *r, uint64_t now_ns)
{
	r->check_ns = now_ns + SL_SESSION_CHECK_NS;
	tick_awake(r, now_ns);
	tick_resting(r, now_ns);
}

unsigned sl_rpc_poll(struct sl_rpc *r, uint64_t now_ns)
{
	struct sl_rpc_channel *ch;
	struct sl_list *at, *next;
	bool is_tick = now_ns >= r->check_ns;
	unsigned n = 0, bells = 0;

	r->now_ns = now_ns;
	if (is_tick)
		bells = take_events(r);
	bells += take_shared(r, is_tick);
	/* Events taken here neither end the sleep nor ring again. */
	if (r->armed)
		n += bells;
	for_each_awake(r, at, next, ch)
	{
		n += sl_channel_poll(ch, now_ns);
	}
	if (is_tick)
		tick(r, now_ns);
	sl_wheel_advance(&r->wheel, now_ns, on_timer, r, SL_SESSION_TIMERS_MAX);
	return n;
}

void sl_rpc_flush(struct sl_rpc *r, uint64_t now_ns)
{
	struct sl_rpc_channel *ch;
	struct sl_list *at, *next;

	for_each_awake(r, at, next, ch)
	{
		sl_link_flush(&ch->link, now_ns);
		if (!sl_list_empty(&ch->ended))
			sl_channel_report_sent(ch);
	}
}

uint32_t sl_rpc_asked(const struct sl_rpc *r)
{
	return r->out.used;
}

uint64_t sl_rpc_next_ns(const struct sl_rpc *r)
{
	uint64_t next_ns = sl_wheel_next_ns(&r->wheel), ping_ns;
	const struct sl_rpc_channel *ch;
	struct sl_list *at, *next;

	/* Ticks send PINGs. */
	ping_ns = r->next_ping_ns > r->check_ns ? r->next_ping_ns : r->check_ns;
	next_ns = sl_min_ns(next_ns, ping_ns);
	for_each_awake(r, at, next, ch)
	{
		/* A tick ends draining channels, a poll broken ones. */
		if ((sl_channel_closes_when_idle(ch) || ch->link.error) && r->check_ns < next_ns)
			next_ns = r->check_ns;
		if (sl_link_next_ns(&ch->link) < next_ns)
			next_ns = sl_link_next_ns(&ch->link);
	}
	return next_ns;
}

int sl_rpc_fd(const struct sl_rpc *r)
{
	return r->epoll_fd;
}

bool sl_rpc_arm(struct sl_rpc *r)
{
	struct sl_rpc_channel *ch;
	struct sl_list *at, *next;

	r->armed = true;
	for_each_awake(r, at, next, ch)
	{
		if (!sl_list_empty(&ch->ended) || !sl_link_arm(&ch->link)) {
			sl_rpc_disarm(r, true);
			return false;
		}
	}
	if (sl_poll_groups_arm(&r->poll_groups))
		return true;
	sl_rpc_disarm(r, true);
	return false;
}

void sl_rpc_disarm(struct sl_rpc *r, bool rang)
{
	struct sl_rpc_channel *ch;
	struct sl_list *at, *next;

	r->armed = false;
	for_each_awake(r, at, next, ch)
	{
		sl_link_disarm(&ch->link);
	}
	if (rang)
		(void)take_events(r);
}

uint64_t sl_rpc_unmatched(const struct sl_rpc *r)
{
	return r->poll_groups.unmatched;
}

uint64_t sl_rpc_channel_silent_ns(const struct sl_rpc_channel *ch)
{
	/* A draining peer may have given up its address, and may be computing. */
	return ch->state == SL_RPC_UP ? ch->seen.silent_ns : 0;
}

void sl_rpc_channel_traffic(const struct sl_rpc_channel *ch, struct sl_rpc_traffic *out)
{
	const struct sl_link_stats *now = &ch->link.stats, *past = &ch->past;
	uint64_t up = ch->state != SL_RPC_DOWN;

	out->messages = past->messages_sent + past->messages_received +
			up * (now->messages_sent + now->messages_received);
	out->bytes = past->bytes_sent + past->bytes_received +
		     up * (now->bytes_sent + now->bytes_received);
	out->waits = past->stalls + up * now->stalls;
}

void sl_rpc_channel_stats(const struct sl_rpc_channel *ch, struct sl_rpc_stats *out)
{
	const struct sl_link_stats *now = &ch->link.stats;
	bool up = ch->state != SL_RPC_DOWN;

	*out = ch->stats;
	out->messages_sent = ch->past.messages_sent + (up ? now->messages_sent : 0);
	out->messages_received = ch->past.messages_received + (up ? now->messages_received : 0);
	out->bytes_sent = ch->past.bytes_sent + (up ? now->bytes_sent : 0);
	out->bytes_received = ch->past.bytes_received + (up ? now->bytes_received : 0);
	out->credit_stalls = ch->past.stalls + (up ? now->stalls : 0);
	out->doorbells = ch->past_doorbells + (up ? ch->seen.doorbells : 0);
	out->outstanding = ch->outstanding;
	if (up) {
		out->datagrams_retransmitted += ch->seen.retransmitted;
		out->datagrams_duplicate += ch->seen.duplicates;
		out->datagrams_bad_mac += ch->seen.bad_mac;
		out->slots = ch->seen.slots;
		out->slots_free = ch->seen.slots_free;
	}
}
