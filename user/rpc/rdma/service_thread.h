/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background thread of RDMA: handles descriptors, and runs tasks that may block.
 *
 *   any thread: service_task_schedule --due--> run() --> due again, or not
 *               service_source_add --readable--> handle()
 *
 * Any thread. A forked child loses schedule and sources. Sources and tasks belong to the caller;
 * tasks are static.
 */
#ifndef SL_RPC_RDMA_SERVICE_THREAD_H
#define SL_RPC_RDMA_SERVICE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

enum { SERVICE_NOW = 1 };

struct service_source {
	void (*handle)(struct service_source *s);
};

struct service_task {
	/* Returns when the task is due again; UINT64_MAX: when scheduled. */
	uint64_t (*run)(uint64_t now_ns);
	void (*in_child)(void); /* after a fork; may be NULL */
	bool awaited;           /* by sl_rdma_wait_closed() */
	/* used by service_thread.c */
	bool listed, running;
	uint64_t due_ns; /* 0: not due */
	struct service_task *next;
};

/* Starts the thread unless it runs. Returns 0 or -errno. */
int service_thread_start(void);
/* Lets the task run at `at_ns` or earlier; SERVICE_NOW: at once. Returns 0 or -errno. */
int service_task_schedule(struct service_task *task, uint64_t at_ns);
/* Calls `handle` while the descriptor, made nonblocking, is readable. Returns 0 or -errno. */
int service_source_add(struct service_source *s, int fd);
/* Removes the descriptor. Its source must be unused then. */
void service_source_remove(int fd);
/* Delays fork() until service_work_end(). Does not nest. */
void service_work_begin(void);
/* Lets fork() go on. */
void service_work_end(void);
/* Waits until no awaited task is due or runs. */
void sl_rdma_wait_closed(void);

#endif
