/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of the RPC's benches: a backend in a process of its own, and a gateway in this one,
 * each on a processor of its own. Both are what the product has, with its default settings; what a
 * bench changes stands in its options.
 */
#ifndef BENCH_RPC_ENDS_H
#define BENCH_RPC_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/clock.h"
#include "base/hist.h"
#include "worker/adaptive_poll.h"
#include "rpc/rpc.h"

enum {
	BENCH_BATCH = 32,
	BENCH_BULK_LEN = 1 << 20,
	BENCH_CHANNELS_MAX = 256,
};

enum bench_kind { BENCH_PLAIN, BENCH_URGENT, BENCH_BULK, BENCH_KINDS };

/*
 * Where the backend listens ("shm:///path", "rdma://addr:port" or "tcp://addr:port"), its key
 * unless it is shm, and a prefix of rows.
 */
extern const char *bench_endpoint, *bench_key_file, *bench_transport;
/* Shared memory moves bytes a hundred times faster than soft-RoCE in an emulated machine. */
extern bool bench_slow;

/* Registered memory in place of a gateway's UMEM: BENCH_BULK_LEN bytes. */
extern uint8_t *bench_payload;

struct bench_gateway {
	struct sl_rpc *r;
	struct sl_rpc_channel *ch[BENCH_CHANNELS_MAX];
	unsigned channel_cnt;
	uint64_t sent[BENCH_KINDS], done[BENCH_KINDS];
	uint64_t urgent_sent_ns;
	struct sl_hist_fine *urgent; /* latencies of BENCH_URGENT, one at a time; NULL: none */
	uint64_t ran_ns;             /* last turn that found something, or last send */
	bool idle;                   /* a turn since found nothing */
	uint32_t slots, bulk_len;    /* 0: the defaults */
	bool one_class;
};

_Noreturn void bench_die(const char *what);
void bench_init(const char *endpoint);

/* Replies repeat the request's body, up to 64 bytes. */
pid_t bench_backend_start(bool busy_poll);
void bench_backend_stop(pid_t pid);

void bench_open(struct bench_gateway *g, unsigned channel_cnt);
/* More channels, to the same backend. */
void bench_dial(struct bench_gateway *g, unsigned channel_cnt);
void bench_close(struct bench_gateway *g);

/* One batch of cnt requests of len bytes each. False: no room now. */
bool bench_send(struct bench_gateway *g, unsigned channel, enum bench_kind kind, size_t len,
		unsigned cnt);
/* Poll and flush; messages received. */
unsigned bench_turn(struct bench_gateway *g);
void bench_await(struct bench_gateway *g);
static inline uint64_t bench_out(const struct bench_gateway *g, enum bench_kind kind)
{
	return g->sent[kind] - g->done[kind];
}

/*
 * A worker's wait point: polls as long as its policy says, then arms, looks once more, and sleeps
 * until until_ns at most. Returns the number of messages.
 */
unsigned bench_turn_or_sleep(struct bench_gateway *g, struct sl_adaptive_poll *spin,
			     uint64_t until_ns);
/* As a worker has it; what a wake-up costs is measured once. */
struct sl_adaptive_poll bench_hybrid(void);

/* Processor time of a process so far; 0: this one. */
uint64_t bench_cpu_ns(pid_t pid);

double bench_median(double *v, unsigned cnt);
void bench_row(const char *name, double value, const char *unit);
void bench_quantile(const char *name, struct sl_hist_fine *h, double q);

/* Functions for bench_backend_start(). */
void bench_serve_polling(void);
void bench_serve_sleeping(void);

/* The benches. */
void bench_rtt(void);
void bench_rtt_hybrid(void);
void bench_rate(void);
void bench_bulk(void);
void bench_idle(void);
void bench_priority(void);
void bench_alone(void);
void bench_polling(void);

#endif
