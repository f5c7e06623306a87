/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#ifndef CONNECT_BEFORE
#include "base/err.h"
#endif
#include "rpc/transport.h"
#include "sluice/backend.h"

enum {
	BODY = 64,
	TIMEOUT_MS = 5000,
	SLEEP_MS = 1,
	TRIES = 400,
	PAUSE_US = 5000,
	UMEM_LEN = 128 << 20,
};

const char *label;
int listening_fd = -1;
bool polling;
static struct sl_rpc_config cfg;
static struct sl_rpc_memory umem = {.len = UMEM_LEN};
static struct sl_rpc *rpc;
static struct sl_backend *backend;

_Noreturn void die(const char *what)
{
	fprintf(stderr, "connect: %s\n", what);
	_Exit(1);
}

/* --- the backend --- */

static void handle(void *arg, struct sl_batch *batch)
{
	const unsigned *handler_ms = arg;

	if (*handler_ms)
		usleep(*handler_ms * 1000);
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = batch->requests[i]->body,
						 .body_len = batch->requests[i]->body_len});
}

static void on_term(int sig)
{
	(void)sig;
	sl_backend_stop(backend); /* made for this: NOLINT(bugprone-signal-handler) */
}

void serve(const char *endpoint, unsigned handler_ms)
{
	const struct sl_backend_options opt = {.listen = endpoint,
					       .key_file = getenv("SL_RPC_KEY_FILE"),
					       .on_batch = handle,
#ifndef CONNECT_BEFORE /* its handlers had no thread of their own */
					       .inline_handler = polling,
#endif
					       .busy_poll = polling,
					       .arg = &handler_ms};
	char err[256];

	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend)
		die(err);
	signal(SIGTERM, on_term);
	if (listening_fd >= 0 && write(listening_fd, "", 1) != 1)
		die("nobody waits for this backend");
	sl_backend_run(backend);
	sl_backend_close(backend);
}

void serve_as_told(char **argv)
{
	polling = argv[4][0] == '1';
	serve(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
}

pid_t start_backend(const char *endpoint, unsigned handler_ms)
{
	pid_t pid = fork();
	char ms[16];

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(ms, sizeof(ms), "%u", handler_ms);
	execl("/proc/self/exe", "connect", "serve", endpoint, ms, polling ? "1" : "0", NULL);
	die("cannot start the backend");
}

void stop_backend(pid_t pid)
{
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

/* --- the gateway --- */

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	bool *answered = cookie;

	(void)app;
	*answered = r->last;
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	(void)app, (void)cookie, (void)why;
	die("a request failed");
}

/* run.sh compiles this file against an older commit too, where some functions have other arguments. */
#ifdef CONNECT_BEFORE
typedef struct sl_rpc_channel *of_channel;

static struct sl_transport *dial(const struct sl_rpc_dial_options *opt)
{
	char err[256];

	return sl_rpc_dial(opt, err, sizeof(err));
}

static void on_batch(void *app, of_channel which, uint64_t batch, uint32_t count,
		     uint32_t service_us, uint64_t sent_ns)
{
	(void)app, (void)which, (void)batch, (void)count, (void)service_us, (void)sent_ns;
}
#else
typedef void *of_channel;

static struct sl_transport *dial(const struct sl_rpc_dial_options *opt)
{
	struct sl_err err = SL_ERR(256);

	return sl_rpc_dial(opt, &err);
}

static void on_batch(void *app, of_channel which, const struct sl_rpc_batch_end *end)
{
	(void)app, (void)which, (void)end;
}
#endif

static void on_sent(void *app, of_channel which, uint64_t batch)
{
	(void)app, (void)which, (void)batch;
}

static void on_state(void *app, of_channel which, enum sl_rpc_state state)
{
	(void)app, (void)which, (void)state;
}

static const struct sl_rpc_ops ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch,
	.sent = on_sent,
	.state = on_state,
};

void open_gateway(void)
{
	umem.addr = mmap(NULL, UMEM_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	sl_rpc_config_default(&cfg);
	/* A thousand connections that say each second that they are there are too much for an emulated machine. */
	cfg.ping_interval_ns = 4 * SL_NS_PER_SEC;
	rpc = umem.addr == MAP_FAILED ? NULL : sl_rpc_create(&cfg, &umem, &ops, NULL);
	if (!rpc)
		die("no memory");
}

void close_gateway(void)
{
	sl_rpc_destroy(rpc);
}

struct sl_rpc_channel *add_channel(void)
{
	struct sl_rpc_channel *ch = sl_rpc_channel_add(rpc, "bench", NULL);

	if (!ch)
		die("no memory");
	return ch;
}

/* soft-RoCE runs on the same CPUs: pure spinning may delay it until the next clock tick. */
void turn(void)
{
	uint64_t now_ns = sl_now_ns();
	unsigned n = sl_rpc_poll(rpc, now_ns);
	struct epoll_event ev;

	sl_rpc_flush(rpc, now_ns);
	if (n || polling || !sl_rpc_arm(rpc))
		return;
	(void)epoll_wait(sl_rpc_fd(rpc), &ev, 1, SLEEP_MS);
#ifdef CONNECT_BEFORE /* it asked all of them for what has come */
	sl_rpc_disarm(rpc);
#else
	sl_rpc_disarm(rpc, true);
#endif
}

struct sl_transport *dial_to(const char *endpoint)
{
	const struct sl_rpc_dial_options opt = {.endpoint = endpoint,
						.key_file = getenv("SL_RPC_KEY_FILE"),
						.mem = &umem,
						.bulk_ring_len = cfg.bulk_ring_len,
						.slots = cfg.slots,
						.timeout_ms = TIMEOUT_MS};

	return dial(&opt);
}

void ask(struct sl_rpc_channel *ch, bool *answered)
{
	struct sl_span span = sl_span_of(umem.addr, BODY);
	struct sl_rpc_item item = {.cookie = answered, .spans = &span, .span_cnt = 1, .len = BODY};
	uint64_t batch;

	*answered = false;
#ifdef CONNECT_BEFORE /* a class was the whole batch's */
	if (sl_rpc_send(ch, &item, 1, SL_CLASS_NORMAL, sl_now_ns(), &batch))
#else
	item.class = SL_CLASS_NORMAL;
	if (sl_rpc_send(ch, &item, 1, sl_now_ns(), &batch))
#endif
		die("cannot send");
}

void request(struct sl_rpc_channel *ch)
{
	bool answered;

	ask(ch, &answered);
	while (!answered)
		turn();
}

/* Returns 0 if there is no listener yet. */
static double try_connect(struct sl_rpc_channel *ch, const char *endpoint)
{
	uint64_t start = sl_now_ns();
	struct sl_transport *t = dial_to(endpoint);

	if (!t)
		return 0;
	if (sl_rpc_adopt(ch, t, sl_now_ns()))
		die("cannot adopt a connection");
	request(ch);
	return us_since(start);
}

double connect_channel(struct sl_rpc_channel *ch, const char *endpoint)
{
	for (unsigned i = 0; i < TRIES; i++) {
		double us = try_connect(ch, endpoint);

		if (us > 0)
			return us;
		usleep(PAUSE_US);
	}
	die("the backend does not come up");
}

void end_channels(struct sl_rpc_channel **chs, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		sl_rpc_channel_drain(chs[i]);
	for (unsigned i = 0; i < cnt; i++) {
		while (sl_rpc_channel_state(chs[i]) != SL_RPC_DOWN)
			turn();
	}
	sl_rpc_wait_closed();
}

/* --- rows --- */

void row(const char *name, double value, const char *unit)
{
	printf("%s_%s\t%.1f\t%s\n", label, name, value, unit);
}

double us_since(uint64_t from_ns)
{
	return (double)(sl_now_ns() - from_ns) / 1000;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *v, unsigned cnt)
{
	qsort(v, cnt, sizeof(*v), by_value);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

double percentile(double *v, unsigned cnt, unsigned percent)
{
	qsort(v, cnt, sizeof(*v), by_value);
	return v[(cnt - 1) * percent / 100];
}

double pinned_kib(pid_t pid)
{
	char path[64], line[128];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "VmPin:", 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	}
	if (f)
		fclose(f);
	if (kib < 0)
		die("no VmPin");
	return (double)kib;
}
