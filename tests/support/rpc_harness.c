/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc_harness.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "rpc/poll_group.h"
#include "rpc/session.h"
#include "ud_sockets.h"

enum {
	MOVE_MS = 1000, /* time limit of a dial */
	SPIN_TURNS = 32,
	IDLE_US = 100,
};

unsigned harness_timeout_s(void)
{
	const char *text = getenv("SL_RPC_TIMEOUT_S");
	unsigned long s = text ? strtoul(text, NULL, 10) : 0;

	return s ? (unsigned)s : 60;
}

static unsigned divisor(void)
{
	const char *text = getenv("SL_RPC_PART");
	unsigned long part = text ? strtoul(text, NULL, 10) : 0;

	return part ? (unsigned)part : 1;
}

bool harness_emulated(void)
{
	return divisor() > 1;
}

unsigned harness_part(unsigned full)
{
	return (full + divisor() - 1) / divisor();
}

/* A backend that was killed leaves its socket file. */
static void harness_unlink(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/sl-rpc-test-%d.sock", (int)getpid());
	unlink(path);
}

/* "ud" or "ud-lossy". */
static bool is_ud(const char *at, size_t len)
{
	static const struct ud_faults none, some = {.lost = 1, .doubled = 2, .overtaken = 3};
	bool lossy = len == 8 && strncmp(at, "ud-lossy", 8) == 0;

	if (!lossy && !(len == 2 && strncmp(at, "ud", 2) == 0))
		return false;
	ud_sockets_use(lossy ? some : none);
	return true;
}

const char *endpoint_named(const char *at, size_t len)
{
	static _Thread_local char text[256];
	unsigned pid = (unsigned)getpid();

	if (len == 3 && strncmp(at, "shm", 3) == 0) {
		atexit(harness_unlink);
		snprintf(text, sizeof(text), "shm:///tmp/sl-rpc-test-%u.sock", pid);
	} else if ((len == 3 && strncmp(at, "tcp", 3) == 0) || is_ud(at, len)) {
		snprintf(text, sizeof(text), "%s://127.%u.%u.%u:7471",
			 *at == 't' ? "tcp" : "rdma+ud", 1 + (pid >> 16) % 250, pid >> 8 & 255,
			 pid & 255);
	} else {
		snprintf(text, sizeof(text), "%.*s", (int)len, at);
	}
	return text;
}

const char *harness_key(void)
{
	static const char key[] = "of the tests, for all of them";
	static char path[64];
	static int fd = -1;

	if (getenv("SL_RPC_KEY_FILE"))
		return getenv("SL_RPC_KEY_FILE");
	if (fd < 0) {
		fd = memfd_create("key", 0);
		if (fd < 0 || fchmod(fd, 0600) < 0 || write(fd, key, sizeof(key)) < 0)
			abort();
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	return path;
}

/* False: a link that begins there stays there. `first` may be what endpoint_of() has returned. */
static bool goes_on_by(const char *first, char other[120])
{
	const char *name = getenv("SL_RPC_GOES_ON");
	char begins[120];

	snprintf(begins, sizeof(begins), "%.119s", first);
	for (int i = 0; name && i < (int)endpoint_cnt(); i++) {
		if (strcmp(endpoint_of(i), begins) != 0)
			continue;
		snprintf(other, 120, "%.119s", endpoint_named(name, strlen(name)));
		return strcmp(other, endpoint_of(i)) != 0; /* and that is `first` again */
	}
	return false;
}

struct harness_order {
	harness_fn *fn;
	unsigned char arg[512];
};

static _Noreturn void harness_maker(int in, int out)
{
	struct harness_order order;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid == 0) {
			order.fn(order.arg);
			_exit(0);
		}
		if (write(out, &pid, sizeof(pid)) < 0)
			break;
	}
	_exit(0);
}

pid_t harness_spawn(harness_fn *fn, const void *arg, size_t len)
{
	static int to[2], from[2];
	static pid_t owner;
	struct harness_order order = {.fn = fn};
	pid_t pid;

	if (owner != getpid()) {
		ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
		ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
		owner = getpid();
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid) {
			close(to[1]);
			harness_maker(to[0], from[1]);
		}
		close(to[0]);
	}
	ck_assert_uint_le(len, sizeof(order.arg));
	memcpy(order.arg, arg, len);
	ck_assert_int_eq(write(to[1], &order, sizeof(order)), sizeof(order));
	ck_assert_int_eq(read(from[0], &pid, sizeof(pid)), sizeof(pid));
	ck_assert_int_gt(pid, 0);
	return pid;
}

struct sl_backend *harness_backend;

static void harness_stop(int sig)
{
	(void)sig;
	sl_backend_stop(harness_backend);
}

void backend_main(const void *arg)
{
	const struct backend_order *order = arg;
	struct sl_backend_options opt = order->opt;
	char err[256];

	alarm(3 * harness_timeout_s());
	opt.listen = order->listen;
	opt.key_file = harness_key();
	harness_backend = sl_backend_open(&opt, err, sizeof(err));
	if (!harness_backend) {
		fprintf(stderr, "backend: %s\n", err);
		_exit(3);
	}
	signal(SIGTERM, harness_stop);
	int rc = sl_backend_run(harness_backend);
	sl_backend_close(harness_backend);
	_exit(rc ? 4 : 0);
}

struct backend_proc backend_start(const struct sl_backend_options *opt)
{
	struct backend_order order = {.opt = *opt};
	char other[120];

	snprintf(order.listen, sizeof(order.listen), "%s", opt->listen);
	if (goes_on_by(opt->listen, other))
		snprintf(order.listen, sizeof(order.listen), "%s,%s", opt->listen, other);
	return (struct backend_proc){harness_spawn(backend_main, &order, sizeof(order))};
}

int backend_wait(struct backend_proc p)
{
	int status;

	ck_assert_int_eq(waitpid(p.pid, &status, 0), p.pid);
	return status;
}

void backend_term(struct backend_proc p)
{
	int status;

	kill(p.pid, SIGTERM);
	status = backend_wait(p);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "backend status %x", status);
}

void backend_pause(struct backend_proc p)
{
	int status;

	kill(p.pid, SIGSTOP);
	ck_assert_int_eq(waitpid(p.pid, &status, WUNTRACED), p.pid);
	ck_assert(WIFSTOPPED(status));
}

void backend_kill(struct backend_proc p)
{
	kill(p.pid, SIGKILL);
	backend_wait(p);
	harness_unlink(); /* its successor would look at a name so young for a second */
}

static void harness_shell(const void *command)
{
	execl("/bin/sh", "sh", "-c", command, NULL);
}

void harness_command(const char *variable)
{
	const char *command = getenv(variable);
	struct backend_proc p;

	if (!command)
		return;
	p.pid = harness_spawn(harness_shell, command, strlen(command) + 1);
	ck_assert_int_eq(backend_wait(p), 0);
}

int harness_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	if (t->poll_group)
		t->poll_group->ops->poll(t->poll_group);
	else if (t->ops->attach)
		(void)t->ops->check(t);
	return t->ops->poll(t, m, max);
}

static void gw_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct gateway *g = app;
	struct call *c = cookie;

	ck_assert(!c->done && !c->failed);
	c->parts++;
	if (r->first) {
		c->status = r->status;
		c->no_messages += r->no_message;
		c->compressed += r->compressed;
		c->meta_len = r->meta.len < sizeof(c->meta) ? r->meta.len : sizeof(c->meta);
		if (c->meta_len)
			memcpy(c->meta, r->meta.ptr, c->meta_len);
	}
	if (r->body.len) {
		ck_assert_uint_le(c->len + r->body.len, c->cap);
		memcpy(c->body + c->len, r->body.ptr, r->body.len);
	}
	c->len += r->body.len;
	c->service_us = r->service_us;
	c->together = r->together;
	/* It is taken at once. */
	sl_rpc_reply_kept(g->ch, c->id, 0);
	if (!r->last)
		return;
	c->messages++;
	if (r->more)
		return;
	c->done = true;
	c->done_seq = ++g->seq;
	g->done++;
}

static void gw_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	struct gateway *g = app;
	struct call *c = cookie;

	ck_assert(!c->done && !c->failed);
	c->failed = true;
	c->why = why;
	g->failed++;
}

static void gw_batch_done(void *app, void *app_data, const struct sl_rpc_batch_end *end)
{
	struct gateway *g = app;

	(void)app_data;
	g->batch_ends[g->batches_done++ % BATCH_ENDS] = *end;
	ck_assert_uint_le(g->batches_done, g->sent);
}

uint32_t gw_answered(const struct gateway *g, unsigned from, unsigned to)
{
	uint32_t sum = 0;

	for (unsigned i = from; i <= to; i++)
		sum += g->batch_ends[i % BATCH_ENDS].answered;
	return sum;
}

void gw_sent(void *app, void *app_data, uint64_t batch)
{
	struct gateway *g = app;

	(void)app_data, (void)batch;
	g->sent++;
}

static void gw_state(void *app, void *app_data, enum sl_rpc_state state)
{
	struct gateway *g = app;

	(void)app_data;
	g->downs += state == SL_RPC_DOWN;
	g->ups += state == SL_RPC_UP;
	g->drains += state == SL_RPC_DRAINING;
}

static void gw_interim(void *app, void *cookie, struct sl_span meta)
{
	const struct call *c = cookie;
	struct gateway *g = app;

	ck_assert(!c->done && !c->failed && !c->parts);
	g->interims++;
	g->interim_len = meta.len < sizeof(g->interim) ? meta.len : sizeof(g->interim);
	memcpy(g->interim, meta.ptr, g->interim_len);
}

static void gw_moved(void *app, void *app_data, bool gone_on)
{
	struct gw_ways *w = &((struct gateway *)app)->ways;

	(void)app_data;
	*(gone_on ? &w->moves : &w->stays) += 1;
	w->at ^= gone_on;
}

const struct sl_rpc_ops gw_ops = {
	.moved = gw_moved,
	.reply = gw_reply,
	.interim = gw_interim,
	.failed = gw_failed,
	.batch_done = gw_batch_done,
	.sent = gw_sent,
	.state = gw_state,
};

/* Connects for the link with that number. */
static struct sl_transport *dial_for(const char *endpoint, uint32_t slots, uint32_t bulk,
				     uint64_t link)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = harness_key(),
					  .bulk_ring_len = bulk,
					  .slots = slots,
					  .timeout_ms = 2000,
					  .link = link};
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_transport *t;
	struct sl_err err = SL_ERR(256);

	do {
		t = sl_rpc_dial(&opt, &err);
		if (!t)
			usleep(2000);
	} while (!t && sl_now_ns() < until);
	ck_assert_msg(t != NULL, "%s", err.text);
	return t;
}

struct sl_transport *gw_dial(const char *endpoint, uint32_t slots, uint32_t bulk)
{
	return dial_for(endpoint, slots, bulk, 0);
}

struct sl_transport *raw_dial(const char *endpoint, uint32_t slots, uint32_t bulk)
{
	static const char owner;
	struct sl_transport *t = gw_dial(endpoint, slots, bulk);

	if (t->ops->attach)
		ck_assert_int_eq(t->ops->attach(t, &owner), 0);
	return t;
}

/* --- links that go on, and back --- */

static void gw_plan(struct gateway *g, const char *endpoint, const struct sl_rpc_config *cfg)
{
	struct gw_ways *w = &g->ways;

	if (!goes_on_by(endpoint, w->to[1]))
		return;
	snprintf(w->to[0], sizeof(w->to[0]), "%.119s", endpoint);
	w->cfg = *cfg;
	w->link = sl_rpc_link_number();
	ck_assert_uint_ne(w->link, 0);
}

static unsigned move_after(void)
{
	const char *text = getenv("SL_RPC_MOVE_AFTER");

	return text ? (unsigned)strtoul(text, NULL, 10) : 1;
}

/* A backend that cannot be dialled now, since it stands still or has died, is tried again later. */
static void gw_go_on(struct gateway *g)
{
	struct gw_ways *w = &g->ways;
	struct sl_rpc_dial_options opt = {.endpoint = w->to[!w->at],
					  .key_file = harness_key(),
					  .bulk_ring_len = w->cfg.bulk_ring_len,
					  .slots = w->cfg.slots,
					  .timeout_ms = MOVE_MS,
					  .link = w->link,
					  .resumes = true};
	struct sl_rpc_traffic passed;
	struct sl_err err = SL_ERR(256);
	struct sl_transport *t;

	if (g->ch->state != SL_RPC_UP || g->ch->link.move || sl_now_ns() < w->next_ns)
		return;
	sl_rpc_channel_traffic(g->ch, &passed);
	if (passed.messages < w->passed + move_after())
		return;
	t = sl_rpc_dial(&opt, &err);
	if (t)
		w->offers += sl_rpc_adopt(g->ch, t, sl_now_ns()) == 0;
	else
		w->next_ns = sl_now_ns() + MOVE_MS * SL_NS_PER_MS;
	w->passed = passed.messages;
}

void gw_open_ops(struct gateway *g, const char *endpoint, const struct sl_rpc_config *cfg,
		 const struct sl_rpc_ops *ops)
{
	*g = (struct gateway){.r = sl_rpc_create(cfg, NULL, ops, g)};
	ck_assert_ptr_nonnull(g->r);
	g->ch = sl_rpc_channel_add(g->r, "test", NULL);
	gw_plan(g, endpoint, cfg);
	ck_assert_int_eq(
		sl_rpc_adopt(g->ch,
			     dial_for(endpoint, cfg->slots, cfg->bulk_ring_len, g->ways.link),
			     sl_now_ns()),
		0);
}

void gw_open_with(struct gateway *g, const char *endpoint, const struct sl_rpc_config *cfg)
{
	gw_open_ops(g, endpoint, cfg, &gw_ops);
}

void gw_open(struct gateway *g, const char *endpoint)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	gw_open_with(g, endpoint, &cfg);
}

void gw_pause(struct gateway *g, unsigned n)
{
	g->idle_turns = n ? 0 : g->idle_turns + 1;
	if (g->idle_turns > SPIN_TURNS)
		usleep(IDLE_US);
	else if (!n)
		sched_yield();
}

void gw_turn(struct gateway *g)
{
	uint64_t now = sl_now_ns();

	gw_pause(g, sl_rpc_poll(g->r, now));
	sl_rpc_flush(g->r, now);
	if (g->ways.link)
		gw_go_on(g);
}

/* Nothing may be left: requests, batches, and after a moment all slots. */
static void gw_check_empty(struct gateway *g)
{
	struct sl_rpc_stats st;

	/* Slots are told with each tick. */
	usleep(2000);
	gw_turn(g);
	sl_rpc_channel_stats(g->ch, &st);
	ck_assert_uint_eq(st.outstanding, 0);
	ck_assert_uint_eq(g->sent, g->batches_done);
	if (sl_rpc_channel_state(g->ch) == SL_RPC_UP)
		ck_assert_uint_ge(st.slots_free, st.slots / 2 - 1);
}

/*
 * A link that is there has gone on, unless its backend does not listen there; but for the last time, and
 * for those that went down meanwhile.
 */
static void gw_check_moves(const struct gateway *g)
{
	const struct gw_ways *w = &g->ways;
	struct sl_rpc_traffic passed;

	if (!w->link || g->ch->state != SL_RPC_UP)
		return;
	sl_rpc_channel_traffic(g->ch, &passed);
	ck_assert(w->offers || w->next_ns || passed.messages < move_after());
	ck_assert_uint_ge(w->moves + w->stays + g->downs + 1, w->offers);
}

void gw_close(struct gateway *g)
{
	gw_check_empty(g);
	gw_check_moves(g);
	sl_rpc_destroy(g->r);
}

void call_init(struct call *c, size_t cap)
{
	*c = (struct call){.cap = cap};
	c->body = cap > sizeof(c->small) ? malloc(cap) : c->small;
}

void call_fini(struct call *c)
{
	if (c->body != c->small)
		free(c->body);
	c->body = NULL;
}

size_t put_meta(uint8_t *to, unsigned tag, const char *text)
{
	size_t len = strlen(text);

	sl_put_le16(to, (uint16_t)tag);
	sl_put_le16(to + 2, (uint16_t)len);
	memcpy(to + 4, text, len);
	return 4 + len;
}

int gw_send(struct gateway *g, struct call *c, struct sl_span meta, struct sl_span body,
	    uint32_t budget_us, enum sl_rpc_class class)
{
	struct sl_span spans[2] = {meta, body};
	struct sl_rpc_item it = {.cookie = c,
				 .spans = spans,
				 .span_cnt = 2,
				 .len = (uint32_t)body.len,
				 .meta_len = (uint16_t)meta.len,
				 .class = (uint8_t) class,
				 .budget_us = budget_us};
	uint64_t batch;
	int rc = sl_rpc_send(g->ch, &it, 1, sl_now_ns(), &batch);

	c->id = it.id;
	return rc;
}

void harness_sleep(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	ck_assert_msg(poll(&p, 1, 5000) == 1, "no wake-up within 5 s");
}

void gw_expect_one_answer(struct gateway *g)
{
	unsigned done = g->done;
	struct call c;

	call_init(&c, 8);
	ck_assert_int_eq(gw_send(g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			 0);
	gw_until(g, g->done == done + 1 && g->batches_done == g->sent);
}

void answer_here(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = "here", .body_len = 4});
}
