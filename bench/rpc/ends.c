/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/wakeup_cost.h"
#include "ends.h"
#include "sluice/backend.h"

enum { REPLY_MAX = 64, DIAL_TRIES = 400, DIAL_PAUSE_US = 5000 };

const char *bench_endpoint, *bench_key_file, *bench_transport;
bool bench_slow;
uint8_t *bench_payload;

static struct sl_backend *backend;
static int cookies[BENCH_KINDS];
/* Two different processors where there are two; asked for before anything is pinned. */
static unsigned cpus[2];
static cpu_set_t allowed;

_Noreturn void bench_die(const char *what)
{
	fprintf(stderr, "rpc: %s\n", what);
	_Exit(1);
}

void bench_init(const char *endpoint)
{
	bench_endpoint = endpoint;
	bench_slow = strncmp(endpoint, "rdma:", 5) == 0;
	bench_transport = bench_slow ? "verbs" : strncmp(endpoint, "tcp:", 4) == 0 ? "tcp" : "shm";
	bench_key_file = strncmp(endpoint, "shm:", 4) ? getenv("SL_RPC_KEY_FILE") : NULL;
	(void)sched_getaffinity(0, sizeof(allowed), &allowed);
	for (unsigned i = 0; i < 2; i++) {
		int cpu = sl_cpu_nth(i % sl_cpu_count());

		cpus[i] = cpu < 0 ? 0 : (unsigned)cpu;
	}
	bench_payload = mmap(NULL, BENCH_BULK_LEN, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bench_payload == MAP_FAILED)
		bench_die("no memory");
	memset(bench_payload, 1, BENCH_BULK_LEN);
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		size_t len = rq->body_len < REPLY_MAX ? rq->body_len : REPLY_MAX;

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = len});
	}
}

static void on_term(int sig)
{
	(void)sig;
	sl_backend_stop(backend); /* made for this: NOLINT(bugprone-signal-handler) */
}

/* Its handler runs between two messages; SL_BENCH_THREADS=1: on a thread beside the I/O thread. */
static void serve(bool busy_poll)
{
	struct sl_backend_options opt = {.listen = bench_endpoint,
					 .key_file = bench_key_file,
					 .on_batch = handle,
					 .busy_poll = busy_poll,
					 .inline_handler = !getenv("SL_BENCH_THREADS")};
	char err[256];

	(void)sl_cpu_pin(cpus[1]);
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend)
		bench_die(err);
	signal(SIGTERM, on_term);
	sl_backend_run(backend);
	sl_backend_close(backend);
}

void bench_serve_polling(void)
{
	serve(true);
}

void bench_serve_sleeping(void)
{
	serve(false);
}

/* A program of its own: a fork of one that has opened RDMA devices would share them. */
pid_t bench_backend_start(bool busy_poll)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sched_setaffinity(0, sizeof(allowed), &allowed);
	execl("/proc/self/exe", "rpc", busy_poll ? "serve-polling" : "serve-sleeping",
	      bench_endpoint, NULL);
	bench_die("cannot start the backend");
}

void bench_backend_stop(pid_t pid)
{
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct bench_gateway *g = app;
	enum bench_kind kind = (enum bench_kind)((int *)cookie - cookies);

	if (!r->last)
		return;
	g->done[kind]++;
	if (kind == BENCH_URGENT && g->urgent)
		sl_hist_fine_add(g->urgent, sl_now_ns() - g->urgent_sent_ns);
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	static const char *const texts[] = {
		[SL_RPC_FAIL_DOWN] = "request failed: channel lost before it left",
		[SL_RPC_FAIL_LOST] = "request failed: channel lost",
		[SL_RPC_FAIL_TIMEOUT] = "request failed: no reply in time",
		[SL_RPC_FAIL_PROTOCOL] = "request failed: protocol error",
	};

	(void)app, (void)cookie;
	bench_die(texts[why]);
}

static void on_batch(void *app, void *app_data, const struct sl_rpc_batch_end *end)
{
	(void)app, (void)app_data, (void)end;
}

static void on_sent(void *app, void *app_data, uint64_t batch)
{
	(void)app, (void)app_data, (void)batch;
}

static void on_state(void *app, void *app_data, enum sl_rpc_state state)
{
	(void)app, (void)app_data, (void)state;
}

static const struct sl_rpc_ops ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch,
	.sent = on_sent,
	.state = on_state,
};

static struct sl_transport *dial(const struct sl_rpc_dial_options *opt)
{
	struct sl_transport *t = NULL;
	struct sl_err err = SL_ERR(256);

	for (int i = 0; i < DIAL_TRIES && !t; i++) {
		t = sl_rpc_dial(opt, &err);
		if (!t)
			usleep(DIAL_PAUSE_US);
	}
	if (!t)
		bench_die(err.text);
	return t;
}

void bench_dial(struct bench_gateway *g, unsigned channel_cnt)
{
	struct sl_rpc_memory mem = {.addr = bench_payload, .len = BENCH_BULK_LEN};
	struct sl_rpc_dial_options opt = {.endpoint = bench_endpoint,
					  .key_file = bench_key_file,
					  .mem = &mem,
					  .bulk_ring_len = g->bulk_len,
					  .slots = g->slots,
					  .timeout_ms = 5000};

	while (g->channel_cnt < channel_cnt) {
		struct sl_rpc_channel *ch = sl_rpc_channel_add(g->r, "bench", NULL);

		if (!ch || sl_rpc_adopt(ch, dial(&opt), sl_now_ns()))
			bench_die("cannot add a channel");
		g->ch[g->channel_cnt++] = ch;
		bench_turn(g);
	}
}

void bench_open(struct bench_gateway *g, unsigned channel_cnt)
{
	struct sl_rpc_memory mem = {.addr = bench_payload, .len = BENCH_BULK_LEN};
	struct sl_rpc_config cfg;

	(void)sl_cpu_pin(cpus[0]);
	sl_rpc_config_default(&cfg);
	cfg.one_class = g->one_class;
	if (!g->slots)
		g->slots = cfg.slots;
	if (!g->bulk_len)
		g->bulk_len = cfg.bulk_ring_len;
	g->r = sl_rpc_create(&cfg, &mem, &ops, g);
	if (!g->r)
		bench_die("no memory");
	bench_dial(g, channel_cnt);
}

void bench_close(struct bench_gateway *g)
{
	bench_await(g);
	sl_rpc_destroy(g->r);
}

bool bench_send(struct bench_gateway *g, unsigned channel, enum bench_kind kind, size_t len,
		unsigned cnt)
{
	static const enum sl_rpc_class class_of[BENCH_KINDS] = {[BENCH_PLAIN] = SL_CLASS_NORMAL,
								[BENCH_URGENT] = SL_CLASS_LATENCY,
								[BENCH_BULK] = SL_CLASS_BULK};
	struct sl_span span = sl_span_of(bench_payload, len);
	SL_UNINIT struct sl_rpc_item items[BENCH_BATCH];
	uint64_t batch, now_ns = sl_now_ns();

	for (unsigned i = 0; i < cnt; i++)
		items[i] = (struct sl_rpc_item){.cookie = &cookies[kind],
						.spans = &span,
						.span_cnt = 1,
						.class = (uint8_t)class_of[kind],
						.len = (uint32_t)len};
	if (kind == BENCH_URGENT)
		g->urgent_sent_ns = now_ns;
	if (sl_rpc_send(g->ch[channel], items, cnt, now_ns, &batch))
		return false;
	g->sent[kind] += cnt;
	g->ran_ns = now_ns; /* waiting begins here */
	return true;
}

unsigned bench_turn(struct bench_gateway *g)
{
	uint64_t now_ns = sl_now_ns();
	unsigned n = sl_rpc_poll(g->r, now_ns);

	sl_rpc_flush(g->r, now_ns);
	if (n)
		g->ran_ns = now_ns;
	return n;
}

void bench_await(struct bench_gateway *g)
{
	for (unsigned kind = 0; kind < BENCH_KINDS; kind++) {
		while (bench_out(g, kind))
			bench_turn(g);
	}
}

struct sl_adaptive_poll bench_hybrid(void)
{
	static uint64_t wake_ns;
	struct sl_adaptive_poll spin;

	if (!wake_ns)
		wake_ns = sl_wakeup_cost_ns((int)cpus[0]);
	sl_adaptive_poll_init(&spin, wake_ns, false);
	return spin;
}

static bool asked(const struct bench_gateway *g)
{
	for (unsigned kind = 0; kind < BENCH_KINDS; kind++) {
		if (bench_out(g, kind))
			return true;
	}
	return false;
}

unsigned bench_turn_or_sleep(struct bench_gateway *g, struct sl_adaptive_poll *spin,
			     uint64_t until_ns)
{
	struct pollfd p = {.fd = sl_rpc_fd(g->r), .events = POLLIN};
	struct timespec ts;
	uint64_t from_ns, now_ns, next_ns, idle_ns, ran_ns = g->ran_ns, asleep_ns = 0;
	bool waits = asked(g);
	unsigned n = bench_turn(g);

	now_ns = sl_now_ns();
	idle_ns = now_ns - ran_ns;
	if (n) {
		if (g->idle)
			sl_adaptive_poll_end(spin, true, idle_ns);
		g->idle = false;
		return n;
	}
	if (!g->idle)
		sl_adaptive_poll_begin(spin, waits ? SL_POLL_REPLIES : SL_POLL_CLIENTS, idle_ns);
	g->idle = true;
	if (sl_adaptive_poll_on(spin, idle_ns))
		return 0;
	sl_adaptive_poll_end(spin, false, idle_ns);
	g->idle = false;
	from_ns = now_ns;
	if (sl_rpc_arm(g->r) && !(n = bench_turn(g))) {
		uint64_t woken_ns;
		bool rang;

		next_ns = sl_rpc_next_ns(g->r);
		next_ns = next_ns < until_ns ? next_ns : until_ns;
		now_ns = sl_now_ns();
		next_ns = next_ns > now_ns ? next_ns - now_ns : 0;
		ts = (struct timespec){.tv_sec = (time_t)(next_ns / SL_NS_PER_SEC),
				       .tv_nsec = (long)(next_ns % SL_NS_PER_SEC)};
		rang = ppoll(&p, 1, &ts, NULL) > 0;
		woken_ns = sl_now_ns();
		asleep_ns = woken_ns - now_ns;
		if (rang)
			g->ran_ns = woken_ns;
	}
	sl_rpc_disarm(g->r, true);
	if (asleep_ns)
		sl_adaptive_poll_slept(spin, sl_now_ns() - from_ns - asleep_ns);
	return n;
}

uint64_t bench_cpu_ns(pid_t pid)
{
	clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
	struct timespec ts = {.tv_sec = 0};

	if (pid && clock_getcpuclockid(pid, &clock))
		return 0;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, unsigned cnt)
{
	qsort(v, cnt, sizeof(*v), by_value);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

void bench_row(const char *name, double value, const char *unit)
{
	printf("%s_%s\t%.*f\t%s\n", bench_transport, name,
	       value < 10     ? 3
	       : value < 1000 ? 1
			      : 0,
	       value, unit);
}

void bench_quantile(const char *name, struct sl_hist_fine *h, double q)
{
	bench_row(name, (double)sl_hist_fine_quantile(h, q) / 1e3, "us");
}
