/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the RPC between two processes: rpc MODE [ENDPOINT]
 *
 *   rtt       64-byte round trips, both sides polling, pinned to two processors
 *   rate      requests per second of one core, batches of 32
 *   idle      CPU use of a backend and a gateway that wait for events
 *   priority  64-byte latency-class requests while 1 MiB messages saturate the channel, with
 *             classes and with one FIFO
 *
 * Rows are name<TAB>value<TAB>unit.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/hist.h"
#include "rpc/rpc.h"
#include "sluice/backend.h"

enum { BATCH = 32, BULK_LEN = 1 << 20, BULK_DEPTH = 16, SECONDS = 2, PAIRS = 7, PAIR_MS = 500 };

struct gateway {
	struct sl_rpc *r;
	struct sl_rpc_channel *ch;
	uint64_t done, bulk_done, bulk_bytes, bulk_sent;
	unsigned bulk_out;
	uint64_t urgent_sent_ns;
	struct sl_hist_fine *urgent;
	bool urgent_out;
};

static const char *endpoint = "shm:///tmp/sl-bench-rpc.sock";
static struct sl_backend *backend;
static uint8_t payload[BULK_LEN];
static int bulk_cookie, urgent_cookie;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "rpc: %s\n", what);
	_Exit(1);
}

/* --- backend process --- */

static void handle(void *arg, struct sl_batch *batch)
{
	const size_t *most = arg;

	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		size_t len = rq->body_len < *most ? rq->body_len : *most;

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = len});
	}
}

static void on_term(int sig)
{
	(void)sig;
	sl_backend_stop(backend); /* made for this: NOLINT(bugprone-signal-handler) */
}

/* Two different processors where there are two; asked for before anything is pinned. */
static unsigned cpus[2];

static void choose_cpus(void)
{
	for (unsigned i = 0; i < 2; i++) {
		int cpu = sl_cpu_nth(i % sl_cpu_count());

		cpus[i] = cpu < 0 ? 0 : (unsigned)cpu;
	}
}

static void pin(unsigned n)
{
	(void)sl_cpu_pin(cpus[n]);
}

static pid_t start_backend(bool busy_poll, size_t reply_most)
{
	struct sl_backend_options opt = {
		.listen = endpoint, .handle = handle, .arg = &reply_most, .busy_poll = busy_poll};
	pid_t pid = fork();
	char err[256];

	if (pid)
		return pid;
	pin(1);
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend)
		die(err);
	signal(SIGTERM, on_term);
	sl_backend_run(backend);
	sl_backend_close(backend);
	_Exit(0);
}

static void stop_backend(pid_t pid)
{
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

/* --- gateway --- */

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct gateway *g = app;

	if (!r->last)
		return;
	g->done++;
	if (cookie == &urgent_cookie) {
		sl_hist_fine_add(g->urgent, sl_now_ns() - g->urgent_sent_ns);
		g->urgent_out = false;
	} else if (cookie == &bulk_cookie) {
		g->bulk_done++;
		g->bulk_out--;
	}
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	(void)app, (void)cookie, (void)why;
	die("request failed");
}

static void on_batch(void *app, struct sl_rpc_channel *ch, uint64_t batch, uint32_t count,
		     uint32_t service_us, uint64_t sent_ns)
{
	(void)app, (void)ch, (void)batch, (void)count, (void)service_us, (void)sent_ns;
}

static void on_sent(void *app, struct sl_rpc_channel *ch, uint64_t batch)
{
	(void)app, (void)ch, (void)batch;
}

static void on_state(void *app, struct sl_rpc_channel *ch, enum sl_rpc_state state)
{
	(void)app, (void)ch, (void)state;
}

static const struct sl_rpc_ops ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch,
	.sent = on_sent,
	.state = on_state,
};

static void open_gateway(struct gateway *g, bool one_class)
{
	struct sl_rpc_config cfg;
	struct sl_transport *t = NULL;
	char err[256];

	pin(0);
	*g = (struct gateway){.urgent_out = false};
	sl_rpc_config_default(&cfg);
	cfg.one_class = one_class;
	g->r = sl_rpc_create(&cfg, NULL, &ops, g);
	g->ch = sl_rpc_channel_add(g->r, "bench", NULL);
	for (int i = 0; i < 1000 && !t; i++) {
		t = sl_rpc_dial(&(struct sl_rpc_dial_options){.endpoint = endpoint,
							      .bulk_ring_len = cfg.bulk_ring_len,
							      .slots = cfg.slots,
							      .timeout_ms = 1000},
				err, sizeof(err));
		if (!t)
			usleep(5000);
	}
	if (!t)
		die(err);
	sl_rpc_adopt(g->ch, t, sl_now_ns());
}

static int send_batch(struct gateway *g, void *cookie, size_t len, unsigned cnt,
		      enum sl_rpc_class class)
{
	struct sl_span span = sl_span_of(payload, len);
	struct sl_rpc_item items[BATCH];
	uint64_t batch;

	for (unsigned i = 0; i < cnt; i++)
		items[i] = (struct sl_rpc_item){
			.cookie = cookie, .spans = &span, .span_cnt = 1, .len = (uint32_t)len};
	return sl_rpc_send(g->ch, items, cnt, class, sl_now_ns(), &batch);
}

static unsigned turn(struct gateway *g)
{
	uint64_t now = sl_now_ns();
	unsigned n = sl_rpc_poll(g->r, now);

	sl_rpc_flush(g->r, now);
	return n;
}

static void bench_rtt(void)
{
	enum { WARM = 10000, ROUNDS = 200000 };
	struct sl_hist_fine h;
	struct gateway g;
	pid_t pid = start_backend(true, 64);

	open_gateway(&g, false);
	sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS);
	for (unsigned i = 0; i < WARM + ROUNDS; i++) {
		uint64_t start = sl_now_ns(), n = g.done;

		if (send_batch(&g, NULL, 64, 1, SL_CLASS_LATENCY))
			die("send failed");
		sl_rpc_flush(g.r, start);
		while (g.done == n)
			sl_rpc_poll(g.r, start);
		if (i >= WARM)
			sl_hist_fine_add(&h, sl_now_ns() - start);
	}
	printf("shm_rtt_64B_p50\t%.3f\tus\n", (double)sl_hist_fine_quantile(&h, 0.5) / 1e3);
	printf("shm_rtt_64B_p99\t%.3f\tus\n", (double)sl_hist_fine_quantile(&h, 0.99) / 1e3);
	sl_hist_fine_fini(&h);
	sl_rpc_destroy(g.r);
	stop_backend(pid);
}

static void bench_rate(void)
{
	struct gateway g;
	pid_t pid = start_backend(true, 64);
	uint64_t sent = 0, start, end, cpu;
	struct timespec ts;

	open_gateway(&g, false);
	start = sl_now_ns();
	end = start + SECONDS * SL_NS_PER_SEC;
	while (sl_now_ns() < end) {
		while (sent - g.done < 8 * BATCH) {
			if (send_batch(&g, NULL, 64, BATCH, SL_CLASS_NORMAL))
				break;
			sent += BATCH;
		}
		turn(&g);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	cpu = (uint64_t)ts.tv_sec * SL_NS_PER_SEC + (uint64_t)ts.tv_nsec;
	printf("shm_requests_batch32\t%.0f\trequests/s per core\n",
	       (double)g.done * 1e9 / (double)(cpu < end - start ? cpu : end - start));
	while (g.done < sent)
		turn(&g);
	sl_rpc_destroy(g.r);
	stop_backend(pid);
}

static double cpu_seconds(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* The gateway's wait point, as a worker has it: poll, arm, sleep. */
static void event_turn(struct gateway *g, uint64_t until_ns)
{
	struct epoll_event ev;
	uint64_t now, next;

	if (turn(g) || !sl_rpc_arm(g->r))
		return;
	now = sl_now_ns();
	next = sl_rpc_next_ns(g->r);
	next = next < until_ns ? next : until_ns;
	if (next > now)
		(void)epoll_wait(sl_rpc_fd(g->r), &ev, 1, (int)((next - now) / 1000000 + 1));
	sl_rpc_disarm(g->r);
}

static void bench_idle(void)
{
	struct gateway g;
	pid_t pid = start_backend(false, 64);
	struct sl_hist_fine h;
	double before, wall = SECONDS;
	uint64_t until;

	open_gateway(&g, false);
	sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS);
	before = cpu_seconds(RUSAGE_SELF);
	until = sl_now_ns() + SECONDS * SL_NS_PER_SEC;
	while (sl_now_ns() < until)
		event_turn(&g, until);
	printf("shm_idle_cpu_gateway\t%.3f\t%%\n",
	       100 * (cpu_seconds(RUSAGE_SELF) - before) / wall);
	/* And it wakes up: one request now and then. */
	for (int i = 0; i < 200; i++) {
		uint64_t n = g.done, start;

		usleep(1000);
		start = sl_now_ns();
		if (send_batch(&g, NULL, 64, 1, SL_CLASS_LATENCY))
			die("send failed");
		while (g.done == n)
			event_turn(&g, UINT64_MAX);
		sl_hist_fine_add(&h, sl_now_ns() - start);
	}
	printf("shm_rtt_64B_events_p50\t%.1f\tus\n", (double)sl_hist_fine_quantile(&h, 0.5) / 1e3);
	sl_hist_fine_fini(&h);
	sl_rpc_destroy(g.r);
	before = cpu_seconds(RUSAGE_CHILDREN);
	stop_backend(pid);
	/* Start-up and those 200 requests included. */
	printf("shm_idle_cpu_backend\t%.3f\t%%\n",
	       100 * (cpu_seconds(RUSAGE_CHILDREN) - before) / wall);
}

struct priority_result {
	double p50_us, p99_us, bulk_mbs, cpu_per_gb;
};

static struct priority_result run_priority(bool one_class)
{
	struct priority_result res;
	struct sl_hist_fine h;
	struct gateway g;
	pid_t pid = start_backend(true, 64);
	uint64_t start, end, now, next;
	double cpu;

	open_gateway(&g, one_class);
	sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS);
	g.urgent = &h;
	cpu = cpu_seconds(RUSAGE_SELF);
	start = next = sl_now_ns();
	end = start + PAIR_MS * SL_NS_PER_MS;
	while ((now = sl_now_ns()) < end) {
		while (g.bulk_out < BULK_DEPTH &&
		       !send_batch(&g, &bulk_cookie, BULK_LEN, 1, SL_CLASS_BULK))
			g.bulk_out++;
		if (!g.urgent_out && now >= next) {
			next = now + 200 * SL_NS_PER_US;
			g.urgent_sent_ns = now;
			g.urgent_out = !send_batch(&g, &urgent_cookie, 64, 1, SL_CLASS_LATENCY);
		}
		turn(&g);
	}
	cpu = cpu_seconds(RUSAGE_SELF) - cpu;
	res.p50_us = (double)sl_hist_fine_quantile(&h, 0.5) / 1e3;
	res.p99_us = (double)sl_hist_fine_quantile(&h, 0.99) / 1e3;
	res.bulk_mbs = (double)g.bulk_done * BULK_LEN / 1e3 / PAIR_MS;
	res.cpu_per_gb = cpu / ((double)g.bulk_done * BULK_LEN / 1e9);
	while (g.bulk_out || g.urgent_out)
		turn(&g);
	sl_hist_fine_fini(&h);
	sl_rpc_destroy(g.r);
	stop_backend(pid);
	return res;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, PAIRS, sizeof(*v), by_value);
	return v[PAIRS / 2];
}

/* In turns, and medians of each: the machine's mood changes more than the difference is. */
static void bench_priority(void)
{
	static const char *const name[] = {"fifo", "classes"};
	double p50[2][PAIRS], p99[2][PAIRS], bulk[2][PAIRS], cpu[2][PAIRS];
	double urgent_ratio[PAIRS], bulk_ratio[PAIRS];

	for (unsigned i = 0; i < PAIRS; i++) {
		for (unsigned classes = 0; classes < 2; classes++) {
			struct priority_result r = run_priority(!classes);

			p50[classes][i] = r.p50_us;
			p99[classes][i] = r.p99_us;
			bulk[classes][i] = r.bulk_mbs;
			cpu[classes][i] = r.cpu_per_gb;
		}
		urgent_ratio[i] = p99[0][i] / p99[1][i];
		bulk_ratio[i] = bulk[1][i] / bulk[0][i];
	}
	for (unsigned k = 0; k < 2; k++) {
		printf("urgent_p50_%s\t%.1f\tus\n", name[k], median(p50[k]));
		printf("urgent_p99_%s\t%.1f\tus\n", name[k], median(p99[k]));
		printf("bulk_%s\t%.0f\tMB/s\n", name[k], median(bulk[k]));
		printf("cpu_%s\t%.3f\ts/GB\n", name[k], median(cpu[k]));
	}
	printf("ratio urgent_p99_fifo_over_classes %.2f\n", median(urgent_ratio));
	printf("ratio bulk_classes_over_fifo %.3f\n", median(bulk_ratio));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"rtt", bench_rtt},
		     {"rate", bench_rate},
		     {"idle", bench_idle},
		     {"priority", bench_priority}};

	if (argc > 2)
		endpoint = argv[2];
	choose_cpus();
	memset(payload, 1, sizeof(payload)); /* pages of its own */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			return 0;
		}
	}
	fputs("Usage: rpc rtt|rate|idle|priority [ENDPOINT]\n", stderr);
	return 2;
}
