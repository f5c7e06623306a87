/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it takes until a backend that was not connected has served its first request, and what each
 * further connection pins: connect LABEL ENDPOINT
 *
 *   first   the first connection of a process on a device: it makes what the others share
 *   cold    each further one, while those before stay
 *   again   the last one ends, and its backend comes back
 *   prepared  the same, when both ends have had time to make ahead what they need
 *   hot     a round trip on a connection that is there
 *   pin     locked memory per further connection, at the gateway and at the backend
 *
 * The gateway has frame memory of the product's size. Rows are LABEL_name<TAB>value<TAB>unit.
 * SL_RPC_KEY_FILE names the key. It is also built with the sources of an older commit (run.sh): it
 * uses nothing but what both have.
 */
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
#include "rpc/rpc.h"
#include "rpc/transport.h"
#include "sluice/backend.h"

enum {
	CHANNELS = 8,
	AGAIN = 8,
	HOT = 400,
	BODY = 64,
	TIMEOUT_MS = 5000,
	SLEEP_MS = 1,
	TRIES = 400,
	PAUSE_US = 5000,
	PREPARE_US = 200000,
	UMEM_LEN = 128 << 20,
};

static const char *label, *endpoint;
static struct sl_rpc_config cfg;
static struct sl_rpc_memory umem = {.len = UMEM_LEN};
static struct sl_rpc *rpc;
static struct sl_rpc_channel *channels[CHANNELS];
static unsigned replies;
static struct sl_backend *backend;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "connect: %s\n", what);
	_Exit(1);
}

/* --- the backend, a process of its own --- */

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
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

static void serve(void)
{
	const struct sl_backend_options opt = {
		.listen = endpoint, .key_file = getenv("SL_RPC_KEY_FILE"), .handle = handle};
	char err[256];

	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend)
		die(err);
	signal(SIGTERM, on_term);
	sl_backend_run(backend);
	sl_backend_close(backend);
}

static pid_t start_backend(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl("/proc/self/exe", "connect", "serve", endpoint, NULL);
	die("cannot start the backend");
}

/* --- the gateway --- */

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	(void)app, (void)cookie;
	replies += r->last;
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	(void)app, (void)cookie, (void)why;
	die("a request failed");
}

/* run.sh compiles this file against an older commit too, where some functions have other arguments. */
#ifdef CONNECT_BEFORE
typedef struct sl_rpc_channel *of_channel;

static void disarm(struct sl_rpc *r)
{
	sl_rpc_disarm(r);
}

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

static void disarm(struct sl_rpc *r)
{
	sl_rpc_disarm(r, true);
}

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

/* soft-RoCE works on the same processors: whoever only spins makes it wait for the clock. */
static void turn(void)
{
	uint64_t now_ns = sl_now_ns();
	unsigned n = sl_rpc_poll(rpc, now_ns);
	struct epoll_event ev;

	sl_rpc_flush(rpc, now_ns);
	if (n || !sl_rpc_arm(rpc))
		return;
	(void)epoll_wait(sl_rpc_fd(rpc), &ev, 1, SLEEP_MS);
	disarm(rpc);
}

static void request(struct sl_rpc_channel *ch)
{
	struct sl_span span = sl_span_of(umem.addr, BODY);
	struct sl_rpc_item item = {.spans = &span, .span_cnt = 1, .len = BODY};
	unsigned before = replies;
	uint64_t batch;

#ifdef CONNECT_BEFORE /* a class was the whole batch's */
	if (sl_rpc_send(ch, &item, 1, SL_CLASS_NORMAL, sl_now_ns(), &batch))
#else
	item.class = SL_CLASS_NORMAL;
	if (sl_rpc_send(ch, &item, 1, sl_now_ns(), &batch))
#endif
		die("cannot send");
	while (replies == before)
		turn();
}

static double us_since(uint64_t from_ns)
{
	return (double)(sl_now_ns() - from_ns) / 1000;
}

/* Microseconds until the backend's first reply on that channel; 0: nobody listens yet. */
static double try_connect(struct sl_rpc_channel *ch)
{
	const struct sl_rpc_dial_options opt = {.endpoint = endpoint,
						.key_file = getenv("SL_RPC_KEY_FILE"),
						.mem = &umem,
						.bulk_ring_len = cfg.bulk_ring_len,
						.slots = cfg.slots,
						.timeout_ms = TIMEOUT_MS};
	uint64_t start = sl_now_ns();
	struct sl_transport *t = dial(&opt);

	if (!t)
		return 0;
	if (sl_rpc_adopt(ch, t, sl_now_ns()))
		die("cannot adopt a connection");
	request(ch);
	return us_since(start);
}

static double connect_channel(struct sl_rpc_channel *ch)
{
	for (unsigned i = 0; i < TRIES; i++) {
		double us = try_connect(ch);

		if (us > 0)
			return us;
		usleep(PAUSE_US);
	}
	die("the backend does not come up");
}

static void end_channel(struct sl_rpc_channel *ch)
{
	sl_rpc_channel_drain(ch);
	while (sl_rpc_channel_state(ch) != SL_RPC_DOWN)
		turn();
	sl_rpc_settle();
}

/* --- rows --- */

static void row(const char *name, double value, const char *unit)
{
	printf("%s_%s\t%.1f\t%s\n", label, name, value, unit);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned cnt)
{
	qsort(v, cnt, sizeof(*v), by_value);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

/* Locked memory of a process, in KiB. */
static double pinned_kib(pid_t pid)
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

/* The last one ends, and its backend comes back after a while. */
static double measure_return(unsigned pause_us)
{
	double us[AGAIN];

	for (unsigned i = 0; i < AGAIN; i++) {
		end_channel(channels[CHANNELS - 1]);
		usleep(pause_us);
		us[i] = connect_channel(channels[CHANNELS - 1]);
	}
	return median(us, AGAIN);
}

static void measure_connecting(pid_t peer)
{
	double us[CHANNELS], here, there;

	row("first", connect_channel(channels[0]), "us");
	here = pinned_kib(getpid());
	there = pinned_kib(peer);
	for (unsigned i = 1; i < CHANNELS; i++)
		us[i - 1] = connect_channel(channels[i]);
	row("cold", median(us, CHANNELS - 1), "us");
	row("pin_gateway", (pinned_kib(getpid()) - here) / (CHANNELS - 1), "KiB");
	row("pin_backend", (pinned_kib(peer) - there) / (CHANNELS - 1), "KiB");
	row("again", measure_return(0), "us");
	row("prepared", measure_return(PREPARE_US), "us");
}

static void measure_hot(void)
{
	double us[HOT];

	for (unsigned i = 0; i < HOT; i++) {
		uint64_t start = sl_now_ns();

		request(channels[0]);
		us[i] = us_since(start);
	}
	row("hot_rtt", median(us, HOT), "us");
}

int main(int argc, char **argv)
{
	pid_t peer;

	if (argc != 3) {
		fputs("Usage: connect LABEL ENDPOINT\n", stderr);
		return 2;
	}
	label = argv[1];
	endpoint = argv[2];
	if (strcmp(label, "serve") == 0) {
		serve();
		return 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	peer = start_backend();
	umem.addr = mmap(NULL, UMEM_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	sl_rpc_config_default(&cfg);
	rpc = umem.addr == MAP_FAILED ? NULL : sl_rpc_create(&cfg, &umem, &ops, NULL);
	if (!rpc)
		die("no memory");
	for (unsigned i = 0; i < CHANNELS; i++) {
		channels[i] = sl_rpc_channel_add(rpc, "bench", NULL);
		if (!channels[i])
			die("no memory");
	}
	measure_connecting(peer);
	measure_hot();
	sl_rpc_destroy(rpc);
	kill(peer, SIGTERM);
	waitpid(peer, NULL, 0);
	return 0;
}
