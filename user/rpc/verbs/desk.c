/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: desk_take, vb_desk_pull -> take -> deliver -> notify. */
#include "rpc/verbs/desk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "rpc/verbs/budget.h"
#include "rpc/verbs/verbs.h"

enum {
	POLL = 16,
	POLLS = VB_HOME_SLOTS / POLL, /* of one take: then all slots have been seen */
	BELLS = 16,   /* of one look at the bell: of the queue, and of so many that wait for room */
	TRIES = 1000, /* before another thread has the processor */
	SHUN_MS = 1000,
};

/* Whose thread takes, and for the sake of which connection: that one is looked at behind it. */
struct taker {
	bool owns;
	const struct sl_verbs *for_whom;
};

static const struct taker owner = {.owns = true};

/* --- taking --- */

static bool try_take(struct vb_desk *d)
{
	return !atomic_flag_test_and_set_explicit(&d->taking, memory_order_acquire);
}

/* Whoever has it has it for moments, or has lost its processor. */
static void begin_take(struct vb_desk *d)
{
	for (unsigned i = 1; !try_take(d); i++) {
		if (i % TRIES == 0)
			sched_yield();
	}
}

static void end_take(struct vb_desk *d)
{
	atomic_flag_clear_explicit(&d->taking, memory_order_release);
}

static struct sl_verbs **bucket_of(struct vb_desk *d, uint32_t qpn)
{
	return &d->of[qpn % VB_DESK_BUCKETS];
}

static void stir(struct vb_desk *d, struct sl_verbs *v)
{
	if (sl_list_empty(&v->base.stirred))
		sl_list_add_tail(&d->hub.stirred, &v->base.stirred);
}

void vb_desk_tell(struct vb_desk *d, struct sl_verbs *v)
{
	if (atomic_exchange(&v->told, true))
		return;
	atomic_store(&d->told, true);
	(void)eventfd_write(d->wake, 1);
}

/* Whoever has it is to look, unless it is about to. */
static void notify(struct vb_desk *d, struct sl_verbs *v, const struct taker *by)
{
	if (v == by->for_whom)
		return;
	if (!v->attached)
		vb_wake_by_fd(v);
	else if (by->owns)
		stir(d, v);
	else
		vb_desk_tell(d, v);
}

static struct vb_arrival arrival_of(const struct ibv_wc *wc)
{
	struct vb_arrival a = {
		.slot = (uint32_t)wc->wr_id, .len = wc->byte_len, .how = VB_BY_OTHER};

	if (wc->status != IBV_WC_SUCCESS) {
		a.how = VB_FAILED;
	} else if (wc->opcode == IBV_WC_RECV) {
		a.how = VB_BY_SEND;
	} else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		a.how = VB_BY_WRITE;
		a.len = ntohl(wc->imm_data);
	}
	return a;
}

bool vb_inbox_put(struct vb_inbox *b, const struct ibv_wc *wc)
{
	uint32_t in = atomic_load_explicit(&b->in, memory_order_relaxed);

	if (in - atomic_load_explicit(&b->out, memory_order_acquire) >=
	    atomic_load_explicit(&b->limit, memory_order_relaxed))
		return false;
	b->of[in & (b->size - 1)] = arrival_of(wc);
	atomic_store_explicit(&b->in, in + 1, memory_order_release);
	return true;
}

static void end_flood(struct vb_desk *d, struct sl_verbs *v, const struct taker *by)
{
	if (v->flooded || v->leaving)
		return;
	v->flooded = true;
	(void)ibv_modify_qp(v->end.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
			    IBV_QP_STATE);
	notify(d, v, by);
}

/*
 * Its peer has sent more than its window allows: it takes no more of the slots that all share. Nor does
 * its host, by one connection after the other: what process a peer is of is only what it says.
 */
static void shut_out(struct vb_desk *d, struct sl_verbs *v, const struct taker *by)
{
	if (v->flooded)
		return; /* and all of its host are */
	end_flood(d, v, by);
	if (!v->has_come)
		return;
	memcpy(d->shunned, v->host, sizeof(d->shunned));
	d->shunned_until_ns = sl_now_ns() + SHUN_MS * SL_NS_PER_MS;
	for (unsigned i = 0; i < VB_DESK_BUCKETS; i++) {
		for (struct sl_verbs *other = d->of[i]; other; other = other->next) {
			if (!memcmp(other->host, v->host, sizeof(v->host)))
				end_flood(d, other, by);
		}
	}
}

static void deliver(struct vb_desk *d, const struct ibv_wc *wc, const struct taker *by)
{
	struct sl_verbs *v = *bucket_of(d, wc->qp_num);
	uint32_t slot = (uint32_t)wc->wr_id;

	while (v && v->qpn != wc->qp_num)
		v = v->next;
	if (sl_likely(v && vb_inbox_put(&v->inbox, wc))) {
		notify(d, v, by);
		return;
	}
	(void)vb_home_post(d->home, &slot, 1);
	if (v)
		shut_out(d, v, by);
}

/* Nobody comes to it any more. */
static void end_all(struct vb_desk *d, const struct taker *by)
{
	vb_home_spoil(d->home);
	for (unsigned i = 0; i < VB_DESK_BUCKETS; i++) {
		for (struct sl_verbs *v = d->of[i]; v; v = v->next) {
			if (!v->gone)
				notify(d, v, by);
			v->gone = v->broken = true;
		}
	}
}

/* All that is there. */
static void take(struct vb_desk *d, const struct taker *by)
{
	SL_UNINIT struct ibv_wc wc[POLL];
	int n = POLL;

	for (unsigned i = 0; i < POLLS && n == POLL; i++) {
		n = ibv_poll_cq(d->cq, POLL, wc);
		for (int k = 0; k < n; k++)
			deliver(d, &wc[k], by);
	}
	if (sl_unlikely(n < 0))
		end_all(d, by);
}

/* Asking is a system call: one that has been asked for and not taken need not be asked for again. */
static bool ask_bell(struct vb_desk *d)
{
	d->asked = d->asked || ibv_req_notify_cq(d->cq, 0) == 0;
	return d->asked;
}

/* False: it has nothing to say. */
static bool take_bell(struct vb_desk *d, const struct taker *by)
{
	struct sl_verbs *v;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(d->bell, &cq, &context))
		return false;
	v = cq->cq_context;
	if (cq == d->cq) {
		d->asked = false;
	} else if (v) {
		v->tx_armed = false;
		notify(d, v, by);
	}
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* --- the owner --- */

/* Those that other threads tell of. */
static void look_at_told(struct vb_desk *d)
{
	atomic_store(&d->told, false);
	for (unsigned i = 0; i < VB_DESK_BUCKETS; i++) {
		for (struct sl_verbs *v = d->of[i]; v; v = v->next) {
			if (v->attached && atomic_exchange(&v->told, false))
				stir(d, v);
		}
	}
}

static void desk_take(struct sl_hub *hub)
{
	struct vb_desk *d = (struct vb_desk *)hub;

	if (!try_take(d))
		return;
	if (sl_unlikely(atomic_load_explicit(&d->told, memory_order_relaxed)))
		look_at_told(d);
	take(d, &owner);
	end_take(d);
}

static bool desk_arm(struct sl_hub *hub)
{
	struct vb_desk *d = (struct vb_desk *)hub;
	bool dry;

	begin_take(d);
	dry = ask_bell(d);
	take(d, &owner); /* what came before the bell was asked for rings none */
	dry = dry && sl_list_empty(&hub->stirred);
	end_take(d);
	return dry && !atomic_load(&d->told);
}

static void desk_check(struct sl_hub *hub)
{
	struct vb_desk *d = (struct vb_desk *)hub;
	eventfd_t many;

	(void)eventfd_read(d->wake, &many);
	begin_take(d);
	for (unsigned i = 0; i < BELLS && take_bell(d, &owner) && d->asked; i++)
		;
	/* The owner asks again before it sleeps. Others that sleep on it would wait for that. */
	if (d->entered != d->attached)
		(void)ask_bell(d);
	end_take(d);
}

static const struct sl_hub_ops desk_ops = {
	.take = desk_take,
	.arm = desk_arm,
	.check = desk_check,
};

bool vb_desk_attach(struct vb_desk *d, struct sl_verbs *v, const void *owned_by)
{
	bool is_free;

	begin_take(d);
	is_free = !d->owner || d->owner == owned_by;
	if (is_free) {
		d->owner = owned_by;
		d->attached++;
		v->attached = true;
		v->base.hub = &d->hub;
		stir(d, v); /* for what has come already */
	}
	end_take(d);
	return is_free;
}

void vb_desk_detach(struct vb_desk *d, struct sl_verbs *v)
{
	begin_take(d);
	sl_list_del(&v->base.stirred);
	v->attached = false;
	if (!--d->attached)
		d->owner = NULL;
	end_take(d);
}

/* --- other threads --- */

void vb_desk_pull(struct vb_desk *d, const struct sl_verbs *v)
{
	begin_take(d);
	take(d, &(struct taker){.for_whom = v});
	end_take(d);
}

bool vb_desk_sleep(struct vb_desk *d, const struct sl_verbs *v)
{
	bool asked;

	begin_take(d);
	asked = ask_bell(d);
	take(d, &(struct taker){.for_whom = v});
	end_take(d);
	return asked;
}

static void count(struct sl_verbs *v, struct vb_budget *b, bool idle, struct vb_wants *wants)
{
	uint32_t held = v->held, in = v->inbox.in;
	bool spent = atomic_exchange(&v->spent, false);

	/* Its peer keeps to a smaller one since. */
	if (held == v->allowed && held < v->window) {
		vb_budget_lower(b, v->window, held);
		v->window = held;
	}
	v->wants = vb_window_wants(v->window, v->mask + 1, in - v->seen, spent);
	if (idle && !spent)
		v->wants = vb_window_needs(v->wants, in - v->seen_idle);
	v->seen = in;
	if (idle)
		v->seen_idle = in;
	vb_wants_add(wants, v->wants);
}

void vb_desk_count(struct vb_desk *d, struct vb_budget *b, bool idle, struct vb_wants *wants)
{
	begin_take(d);
	for (unsigned i = 0; i < VB_DESK_BUCKETS; i++) {
		for (struct sl_verbs *v = d->of[i]; v; v = v->next)
			count(v, b, idle, wants);
	}
	end_take(d);
}

bool vb_desk_shuns(struct vb_desk *d, const uint8_t host[16])
{
	bool shuns;

	begin_take(d);
	shuns = sl_now_ns() < d->shunned_until_ns && !memcmp(d->shunned, host, sizeof(d->shunned));
	end_take(d);
	return shuns;
}

/* One that is about to move is left alone. */
static bool move(struct sl_verbs *v, struct vb_budget *b, uint32_t posted, uint32_t level)
{
	uint32_t to = v->wants < level ? v->wants : level;

	if (!to || v->allowed != v->window || v->held != v->window)
		return false;
	if (to > v->window)
		v->window = to = vb_budget_raise(b, posted, v->window, to);
	if (to == v->allowed)
		return false;
	v->allowed = to;
	return true;
}

bool vb_desk_move(struct vb_desk *d, struct vb_budget *b, uint32_t posted, uint32_t level)
{
	static const struct taker nobody = {.owns = false};
	bool any = false;

	begin_take(d);
	for (unsigned i = 0; i < VB_DESK_BUCKETS; i++) {
		for (struct sl_verbs *v = d->of[i]; v; v = v->next) {
			if (!move(v, b, posted, level))
				continue;
			any = true;
			notify(d, v, &nobody);
		}
	}
	end_take(d);
	return any;
}

/* It has rung for all: so it is asked for again, for whoever sleeps. */
void vb_desk_rang(struct vb_desk *d, const struct sl_verbs *v)
{
	const struct taker by = {.for_whom = v};

	begin_take(d);
	for (unsigned i = 0; i < BELLS && take_bell(d, &by); i++)
		;
	(void)ask_bell(d);
	take(d, &by);
	end_take(d);
}

/* Of what is in the queue now, what bears its number was for one that is gone. */
void vb_desk_enter(struct vb_desk *d, struct sl_verbs *v)
{
	struct sl_verbs **at;

	v->qpn = v->end.qp->qp_num;
	at = bucket_of(d, v->qpn);
	begin_take(d);
	take(d, &(struct taker){.for_whom = v});
	v->next = *at;
	*at = v;
	v->desk = d;
	d->entered++;
	end_take(d);
}

/* A driver may forget completions of a queue pair that goes. */
void vb_desk_part(struct vb_desk *d, struct sl_verbs *v)
{
	begin_take(d);
	v->leaving = true;
	v->end.tx_cq->cq_context = NULL;
	take(d, &(struct taker){.for_whom = v});
	end_take(d);
}

void vb_desk_leave(struct vb_desk *d, struct sl_verbs *v)
{
	struct sl_verbs **at;

	begin_take(d);
	take(d, &(struct taker){.for_whom = v});
	for (at = bucket_of(d, v->qpn); *at != v; at = &(*at)->next)
		;
	*at = v->next;
	v->desk = NULL;
	d->entered--;
	end_take(d);
}

/* --- life --- */

static int open_events(struct vb_desk *d)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int flags = fcntl(d->bell->fd, F_GETFL);

	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->hub.fd = epoll_create1(EPOLL_CLOEXEC);
	if (flags < 0 || fcntl(d->bell->fd, F_SETFL, flags | O_NONBLOCK) < 0 || d->wake < 0 ||
	    d->hub.fd < 0 || epoll_ctl(d->hub.fd, EPOLL_CTL_ADD, d->wake, &ev) < 0 ||
	    epoll_ctl(d->hub.fd, EPOLL_CTL_ADD, d->bell->fd, &ev) < 0)
		return errno > 0 ? -errno : -EIO;
	return 0;
}

int vb_desk_init(struct vb_desk *d, struct vb_home *home, struct ibv_context *device, int vector,
		 uint32_t slots)
{
	int rc;

	*d = (struct vb_desk){.hub = {.ops = &desk_ops, .fd = -1},
			      .home = home,
			      .wake = -1,
			      .taking = ATOMIC_FLAG_INIT};
	sl_list_init(&d->hub.stirred);
	errno = 0;
	d->bell = ibv_create_comp_channel(device);
	if (d->bell)
		d->cq = ibv_create_cq(device, (int)slots, NULL, d->bell, vector);
	if (d->bell && d->cq)
		rc = open_events(d);
	else
		rc = errno > 0 ? -errno : -ENOMEM;
	if (rc)
		vb_desk_fini(d);
	return rc;
}

void vb_desk_fini(struct vb_desk *d)
{
	if (d->hub.fd >= 0)
		close(d->hub.fd);
	if (d->wake >= 0)
		close(d->wake);
	if (d->cq)
		ibv_destroy_cq(d->cq);
	if (d->bell)
		ibv_destroy_comp_channel(d->bell);
	d->hub.fd = d->wake = -1;
	d->cq = NULL;
	d->bell = NULL;
}
