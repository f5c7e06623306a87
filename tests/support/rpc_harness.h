/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Harness of the RPC suite: a backend in a process of its own, a gateway's session in this one.
 *
 * SL_RPC_ENDPOINTS lists the endpoints of the suite, separated by commas: "shm", "tcp", "ud",
 * "ud-lossy", or whole ones like "rdma://10.0.0.1:7471". Each test runs once for each. ud: virtual
 * connections over sockets instead of a device (ud_sockets.h).
 *
 * SL_RPC_KEY_FILE  key of rdma endpoints; the others have one by themselves
 * SL_RPC_CUT, SL_RPC_MEND  commands that cut and mend a cable between both ends, if there is one
 * SL_RPC_GOES_ON  another endpoint: each link of gw_open() migrates to it, and back, and so on,
 *                 after every SL_RPC_MOVE_AFTER messages [1], both ways together
 * SL_RPC_PART   divisor of repetitions and of long bodies, for emulated machines
 */
#ifndef SL_TESTS_RPC_HARNESS_H
#define SL_TESTS_RPC_HARNESS_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "rpc/rpc.h"
#include "rpc/transport.h"
#include "sluice/backend.h"

/*
 * Endpoints if SL_RPC_ENDPOINTS is not set; or those that a program defines before it includes
 * this.
 */
#ifndef HARNESS_ENDPOINTS
#define HARNESS_ENDPOINTS "shm,tcp,ud"
#endif

/*
 * Until something that should happen counts as lost: SL_RPC_TIMEOUT_S, more on emulated machines.
 */
unsigned harness_timeout_s(void);

/* True on an emulated machine. */
bool harness_emulated(void);
/* Returns the part of `full` repetitions or bytes to run on this machine; at least 1. */
unsigned harness_part(unsigned full);

static inline const char *endpoint_list(void)
{
	const char *list = getenv("SL_RPC_ENDPOINTS");

	return list ? list : HARNESS_ENDPOINTS;
}

static inline unsigned endpoint_cnt(void)
{
	const char *list = endpoint_list();
	unsigned n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/*
 * "shm": a path, "tcp", "ud": an address of this process; or what it is. The thread's, until its next
 * call.
 */
const char *endpoint_named(const char *at, size_t len);

/* The i-th of the list. */
static inline const char *endpoint_of(int i)
{
	const char *at = endpoint_list();

	while (i--)
		at = strchr(at, ',') + 1;
	return endpoint_named(at, strcspn(at, ","));
}

/* A file that needs no clearing away; the same key in each process. */
const char *harness_key(void);

/* --- processes ---
 *
 * One that has opened an RDMA device must not fork: descriptors, and the events that come by them,
 * would be both processes'. So before anything is opened there is a fork that opens nothing, and
 * makes this process's further children.
 */

typedef void harness_fn(const void *arg);

/* fn runs in a new process, with a copy of the argument. */
pid_t harness_spawn(harness_fn *fn, const void *arg, size_t len);

struct backend_proc {
	pid_t pid;
};

struct backend_order {
	struct sl_backend_options opt;
	char listen[256];
};

extern struct sl_backend *harness_backend;

/* A handler: "here" to everything. */
void answer_here(void *arg, struct sl_batch *batch);
void backend_main(const void *arg);
struct backend_proc backend_start(const struct sl_backend_options *opt);
int backend_wait(struct backend_proc p);
void backend_term(struct backend_proc p);
/* A stop takes its time: until this returns, the backend could still read what it is not to see. */
void backend_pause(struct backend_proc p);
void backend_kill(struct backend_proc p);
/* The command of that variable, if there is one. */
void harness_command(const char *variable);
/* Polls like an owner without an epoll that reports events. */
int harness_poll(struct sl_transport *t, struct sl_message *m, unsigned max);

/* --- gateway --- */

struct call {
	uint8_t *body; /* reply so far */
	size_t len, cap;
	unsigned parts, messages, no_messages, compressed;
	uint8_t status;
	bool done, failed;
	enum sl_rpc_failure why;
	uint32_t service_us, together;
	uint64_t id, done_seq;
	uint8_t meta[512], small[64];
	size_t meta_len;
};

enum { BATCH_ENDS = 256 };

/* Transports of a link. */
struct gw_ways {
	char to[2][120]; /* its first endpoint, and the other one */
	struct sl_rpc_config cfg;
	uint64_t link;    /* 0: it stays where it is */
	uint64_t passed;  /* messages, when it was last made to go on */
	uint64_t next_ns; /* not before that */
	unsigned at;      /* the index in `to` */
	unsigned offers, moves,
		stays; /* attempts; those that have ended in the one way, and the other */
};

struct gateway {
	struct sl_rpc *r;
	struct sl_rpc_channel *ch;
	struct gw_ways ways;
	unsigned idle_turns; /* since the last one with input */
	unsigned done, failed, batches_done, sent, downs, ups, drains;
	unsigned interims; /* replies, and the metadata of the last one */
	uint8_t interim[512];
	size_t interim_len;
	struct sl_rpc_batch_end batch_ends[BATCH_ENDS]; /* the last of them */
	uint64_t seq;
};

/* Requests of the batches from..to that were answered. */
uint32_t gw_answered(const struct gateway *g, unsigned from, unsigned to);
void gw_sent(void *app, void *app_data, uint64_t batch);

extern const struct sl_rpc_ops gw_ops;

/* Dials until the backend is there. */
struct sl_transport *gw_dial(const char *endpoint, uint32_t slots, uint32_t bulk);
/* The same for one that no session will have: the test owns it. */
struct sl_transport *raw_dial(const char *endpoint, uint32_t slots, uint32_t bulk);
void gw_open_ops(struct gateway *g, const char *endpoint, const struct sl_rpc_config *cfg,
		 const struct sl_rpc_ops *ops);
void gw_open_with(struct gateway *g, const char *endpoint, const struct sl_rpc_config *cfg);
void gw_open(struct gateway *g, const char *endpoint);
void gw_turn(struct gateway *g);
/* Yields after a turn with `n` messages; sleeps a moment if no input came for many turns. */
void gw_pause(struct gateway *g, unsigned n);

#define gw_until(g, cond)                                                                          \
	do {                                                                                       \
		uint64_t until_ = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;               \
		while (!(cond)) {                                                                  \
			gw_turn(g);                                                                \
			ck_assert_msg(sl_now_ns() < until_, "no end: " #cond);                     \
		}                                                                                  \
	} while (0)

void gw_close(struct gateway *g);
void call_init(struct call *c, size_t cap);
void call_fini(struct call *c);
size_t put_meta(uint8_t *to, unsigned tag, const char *text);
/* One request with a path and a body, in a batch of its own; the bytes must stay. */
int gw_send(struct gateway *g, struct call *c, struct sl_span meta, struct sl_span body,
	    uint32_t budget_us, enum sl_rpc_class class);
/* One request, and its answer. */
void gw_expect_one_answer(struct gateway *g);
/* Waits for an event; one that never comes is a failure. */
void harness_sleep(int fd);

#endif
