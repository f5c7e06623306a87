/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the connection bench: echo backends in processes of their own, and a gateway's end
 * of the RPC with frame memory of the product's size. A failure ends the program. Also compiled
 * against an older commit (CONNECT_BEFORE): it uses only what both have.
 */
#ifndef BENCH_CONNECT_ENDS_H
#define BENCH_CONNECT_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "rpc/rpc.h"

_Noreturn void die(const char *what);

/* Neither this end nor the backends that are started meanwhile ever sleep. */
extern bool polling;

/* Where serve() writes a byte once it listens; -1: nowhere. */
extern int listening_fd;
/* Serves there until SIGTERM; its handler takes so long for each batch. */
void serve(const char *endpoint, unsigned handler_ms);
/* The same in a process of its own; main() has to hand `serve ENDPOINT MS POLLING` to serve_as_told(). */
void serve_as_told(char **argv);
pid_t start_backend(const char *endpoint, unsigned handler_ms);
void stop_backend(pid_t pid);

void open_gateway(void);
void close_gateway(void);
struct sl_rpc_channel *add_channel(void);
/* Progress, and a short sleep if there is none, unless it polls. */
void turn(void);
/* Any thread. Returns NULL if there is no listener. */
struct sl_transport *dial_to(const char *endpoint);
/* Sends a request; the flag is set when it is answered. */
void ask(struct sl_rpc_channel *ch, bool *answered);
/* The same, and waits for that. */
void request(struct sl_rpc_channel *ch);
/* Microseconds until the backend's first reply on that channel; it may be about to listen. */
double connect_channel(struct sl_rpc_channel *ch, const char *endpoint);
void end_channels(struct sl_rpc_channel **chs, unsigned cnt);

void row(const char *name, double value, const char *unit);
double us_since(uint64_t from_ns);
/* Sorts. */
double median(double *v, unsigned cnt);
double percentile(double *v, unsigned cnt, unsigned percent);
/* Locked memory of a process, in KiB. */
double pinned_kib(pid_t pid);

extern const char *label; /* label of rows */

#endif
