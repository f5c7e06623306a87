/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions, and misses of the first-level caches, of a worker for a small GET, from frame to
 * frame. The backend is a process of its own behind shared memory. callgrind counts them, so they
 * do not depend on the machine's load. One request at a time, and as many as the bed has clients in
 * one burst. Turns without work do not count.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <valgrind/callgrind.h>

static _Bool counting;
static inline void toggle(void)
{
	if (counting)
		CALLGRIND_TOGGLE_COLLECT;
}
#define BED_ENTER() toggle()
#define BED_LEAVE() toggle()

#include "bench.h"
#include "core_bed.h"
#include "sluice/backend.h"

enum { WARM_UP = 200, ROUNDS = 500, POLL_US = 100000, DIAL_TRIES = 400, REPLY_WAITS = 100000 };

static _Atomic unsigned *served; /* replies under way */
static unsigned handled;

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = "hello\n", .body_len = 6});
	handled += batch->count;
}

static pid_t start_backend(const char *endpoint)
{
	struct sl_backend_options opt = {
		.listen = endpoint, .on_batch = handle, .inline_handler = true};
	struct sl_backend *b;
	char err[256];
	pid_t pid = fork();

	bed_require(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	b = sl_backend_open(&opt, err, sizeof(err));
	if (!b)
		bed_failed(err, __LINE__);
	while (sl_backend_poll(b, POLL_US) >= 0) {
		atomic_fetch_add(served, handled);
		handled = 0;
	}
	_Exit(1);
}

static void dial(const char *endpoint)
{
	struct sl_rpc_memory mem = {.addr = bed.umem.area, .len = bed.umem.area_len};
	struct sl_rpc_dial_options opt = {.endpoint = endpoint, .mem = &mem, .timeout_ms = 5000};
	struct sl_transport *t = NULL;
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_config rpc;

	sl_rpc_config_default(&rpc);
	opt.slots = rpc.slots;
	opt.bulk_ring_len = rpc.bulk_ring_len;
	for (unsigned i = 0; i < DIAL_TRIES && !t; i++) {
		usleep(50000);
		t = sl_rpc_dial(&opt, &err);
	}
	if (!t)
		bed_failed(err.text, __LINE__);
	sl_backend_ref_adopt(bed.core.wcfg->pools[0].backends[0], t);
}

static bool all_heard(unsigned clients)
{
	for (unsigned i = 0; i < clients; i++) {
		if (!bed.clients[i].heard_len)
			return false;
	}
	return true;
}

/* Returns true if the backend has answered all that was sent to it. */
static bool all_sent_are_served(struct sl_batcher *b, unsigned until)
{
	return atomic_load(served) == until - sl_batcher_queue_len(b);
}

/* Waits as a worker does: until its next timer if the backend has nothing to do. */
static void await_replies(unsigned until)
{
	struct sl_batcher *b = bed.core.wcfg->pools[0].pool->batcher;
	unsigned waits = 0;

	while (atomic_load(served) != until) {
		uint64_t next_ns = sl_core_next_ns(&bed.core);

		bed_require(waits++ < REPLY_WAITS);
		if (!all_sent_are_served(b, until))
			usleep(20);
		else
			bed_turn(next_ns > bed.now_ns ? next_ns - bed.now_ns : 1000);
	}
}

/* A turn with the requests, those that send the rest, and one each with replies and their ACKs. */
static void get(unsigned clients)
{
	static const char text[] = "GET /e HTTP/1.1\r\nHost: example.org\r\n\r\n";
	unsigned until = atomic_load(served) + clients;

	for (unsigned i = 0; i < clients; i++) {
		bed.clients[i].heard_len = 0;
		bed_segment(i, BED_ACK, text, sizeof(text) - 1);
	}
	bed_turn(1000);
	await_replies(until);
	bed_turn(1000);
	bed_turn(1000);
	bed_require(all_heard(clients));
	bed_require(memcmp(bed.clients[0].heard, "HTTP/1.1 200", 12) == 0);
}

static void run(unsigned clients)
{
	char endpoint[64], *path = endpoint + strlen("shm://");
	pid_t pid;

	snprintf(endpoint, sizeof(endpoint), "shm:///tmp/sl-insns-%d.sock", (int)getpid());
	served = mmap(NULL, sizeof(*served), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	bed_require(served != MAP_FAILED);
	pid = start_backend(endpoint);
	bed_begin();
	dial(endpoint);
	for (unsigned i = 0; i < clients; i++)
		bed_open(i);
	for (unsigned i = 0; i < WARM_UP; i++)
		get(clients);
	counting = true;
	for (unsigned i = 0; i < ROUNDS; i++)
		get(clients);
	counting = false;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
}

/* Returns the child's counts: instructions, I1 and D1 misses. */
static bool count(const char *self, const char *clients, double counts[3])
{
	char file[] = "/tmp/sl-insns-XXXXXX", option[64], line[256];
	double rd, wr, rd_miss, wr_miss;
	int fd = mkstemp(file), status = -1;
	bool found = false;
	FILE *out;
	pid_t pid;

	snprintf(option, sizeof(option), "--callgrind-out-file=%s", file);
	pid = fork();
	if (pid == 0) {
		execlp("valgrind", "valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
		       "--cache-sim=yes", option, self, clients, (char *)NULL);
		fprintf(stderr, "request_insns: valgrind is not installed: make deps\n");
		_exit(127);
	}
	waitpid(pid, &status, 0);
	out = fdopen(fd, "r");
	while (status == 0 && out && fgets(line, sizeof(line), out)) {
		if (sscanf(line, "totals: %lf %lf %lf %lf %lf %lf", &counts[0], &rd, &wr,
			   &counts[1], &rd_miss, &wr_miss) == 6) {
			counts[2] = rd_miss + wr_miss;
			found = true;
		}
	}
	if (out)
		fclose(out);
	unlink(file);
	return found;
}

int main(int argc, char **argv)
{
	static const char *const what[] = {"instructions", "i1_misses", "d1_misses"};
	static const char *const clients[] = {"1", "8"};

	if (argc == 2) {
		run((unsigned)atoi(argv[1]));
		return 0;
	}
	for (unsigned i = 0; i < SL_ARRAY_LEN(clients); i++) {
		double counts[3] = {0};

		if (!count(argv[0], clients[i], counts))
			return 1;
		for (unsigned k = 0; k < SL_ARRAY_LEN(what); k++) {
			char name[64];

			snprintf(name, sizeof(name), "request_of_%s_%s", clients[i], what[k]);
			bench_row(name, counts[k] / ROUNDS / atoi(clients[i]), "a request");
		}
	}
	return 0;
}
