/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of a worker one small GET enters, over shared memory to a backend in a process of its
 * own and back: for tests/support/walk.py, which says what counts. Everything is built with
 * -finstrument-functions (make walk).
 *
 *   idle 1 4018f0     a burst without a request entered this function, at this depth
 *   get 1 4018f0      a burst with it, in order
 *
 * The connection has had requests before, and the batcher has learnt how long they take: the walk is
 * that of any further one.
 */
#include "core_bed.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sluice/backend.h"

#define UNSEEN __attribute__((no_instrument_function))

enum {
	CALLS_MAX = 1 << 22,
	WARM_UP = 100,
	SETTLE_TURNS = 10, /* for the rest of a request after its reply */
	IDLE_TURNS = 3000,
	REPLY_TURNS = 100,
	REPLY_WAITS = 10000,
	POLL_US = 100000,
	DIAL_TRIES = 400
};

static struct {
	const void *function;
	unsigned depth;
} calls[CALLS_MAX];
static unsigned call_cnt, depth;
static bool recording;
static _Atomic unsigned *served; /* polls of the backend that replied */

void __cyg_profile_func_enter(void *function, void *caller) UNSEEN;
void __cyg_profile_func_exit(void *function, void *caller) UNSEEN;

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	depth++;
	if (!recording || call_cnt == CALLS_MAX)
		return;
	calls[call_cnt].function = function;
	calls[call_cnt++].depth = depth;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function, (void)caller;
	depth--;
}

UNSEEN static void tell(const char *what)
{
	recording = false;
	bed_require(call_cnt < CALLS_MAX);
	for (unsigned i = 0; i < call_cnt; i++)
		printf("%s %u %lx\n", what, calls[i].depth, (unsigned long)calls[i].function);
	call_cnt = 0;
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = "hello\n", .body_len = 6});
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
	for (int n = 0; n >= 0;) {
		n = sl_backend_poll(b, POLL_US);
		if (n > 0)
			atomic_fetch_add(served, 1);
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

UNSEEN static void rest(void)
{
	for (unsigned i = 0; i < IDLE_TURNS; i++) {
		bed_turn(1000);
		bed_turn(SL_NS_PER_MS / 10);
	}
}

/* The reply is there before the worker looks again: how often it looks in vain says nothing. */
UNSEEN static void await_reply(unsigned before)
{
	for (unsigned i = 0; i < REPLY_WAITS && atomic_load(served) == before; i++)
		usleep(100);
}

UNSEEN static void get(void)
{
	static const char text[] = "GET /e HTTP/1.1\r\nHost: example.org\r\n\r\n";
	struct bed_client *cl = &bed.clients[0];
	unsigned before = atomic_load(served);

	cl->heard_len = 0;
	bed_segment(0, BED_ACK, text, sizeof(text) - 1);
	bed_turn(1000);
	for (unsigned i = 0; i < REPLY_TURNS && !cl->heard_len; i++) {
		await_reply(before);
		bed_turn(1000);
	}
	bed_require(cl->heard_len > 12 && memcmp(cl->heard, "HTTP/1.1 200", 12) == 0);
}

int main(void)
{
	char endpoint[64], *path = endpoint + strlen("shm://");
	pid_t pid;

	snprintf(endpoint, sizeof(endpoint), "shm:///tmp/sl-walk-%d.sock", (int)getpid());
	served = mmap(NULL, sizeof(*served), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	bed_require(served != MAP_FAILED);
	pid = start_backend(endpoint);
	bed_begin();
	dial(endpoint);
	bed_open(0);
	for (unsigned i = 0; i < WARM_UP; i++)
		get();
	for (unsigned i = 0; i < SETTLE_TURNS; i++)
		bed_turn(1000);
	recording = true;
	rest(); /* from what looks on for a while behind a request to what sleeps */
	tell("idle");
	recording = true;
	get();
	tell("get");
	bed_settle();
	bed_end();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	return 0;
}
