/* SPDX-License-Identifier: Apache-2.0 */
/* Dialers of a connection manager without threads, for workers that do not run. */
#ifndef TEST_DIAL_BED_H
#define TEST_DIAL_BED_H

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/dial_impl.h"
#include "rpc/session.h"
#include "suite.h"

enum { WORKERS = 16, MANY = 1024 };
#define MS UINT64_C(1000000)

static struct sl_worker workers[WORKERS];
static struct sl_backend_ref *members[MANY][WORKERS];
static struct sl_dialer *dialers[MANY];
static struct sl_conn_mgr *cm;
static struct sl_prng prng;
static uint64_t now_ns;

static inline void set_up(void)
{
	for (unsigned w = 0; w < WORKERS; w++)
		workers[w].index = w;
	cm = sl_conn_mgr_create(workers, WORKERS);
	sl_prng_seed(&prng, 1);
	now_ns = 1000 * MS;
}

static inline void make_backends(unsigned i, enum sl_backend_state link)
{
	for (unsigned w = 0; w < WORKERS; w++) {
		members[i][w] = calloc(1, sizeof(struct sl_backend_ref) + 1);
		members[i][w]->channel = calloc(1, sizeof(struct sl_rpc_channel));
		members[i][w]->channel->state = SL_RPC_UP;
		sl_backend_ref_set_state(members[i][w], link);
	}
}

/* Creates what sl_dialer_add() does, without threads. */
static inline void add(unsigned i, enum sl_backend_state link, uint64_t due_ns)
{
	size_t each = sizeof(struct worker_link) + sizeof(struct link_snapshot);
	struct sl_dialer *d = calloc(1, sizeof(*d) + WORKERS * each);

	make_backends(i, link);
	dialers[i] = d;
	d->mgr = cm;
	d->pool_name = strdup("pool");
	d->backend.name = strdup("b");
	d->due_ns = due_ns;
	d->seen = (struct link_snapshot *)&d->workers[WORKERS];
	for (unsigned w = 0; w < WORKERS; w++) {
		d->seen[w].backend = d->workers[w].backend = members[i][w];
		atomic_store(&d->workers[w].used, true);
	}
	sl_list_add_tail(&cm->dialers, &d->node);
	sl_list_init(&d->bootstrap_node);
	cm->dialer_cnt++;
	ck_assert_int_eq(sl_dial_timer_reserve(cm, cm->dialer_cnt), 0);
	sl_dial_timer_update(d, now_ns);
}

static inline void add_all(unsigned cnt, enum sl_backend_state link)
{
	for (unsigned i = 0; i < cnt; i++)
		add(i, link, sl_prng_below(&prng, 2000) * MS);
	cm->update_cnt = 0;
}

static inline void tear_down(void)
{
	sl_conn_mgr_destroy(cm);
	for (unsigned i = 0; i < MANY; i++) {
		for (unsigned w = 0; w < WORKERS && members[i][w]; w++) {
			ck_assert(atomic_load(&members[i][w]->released));
			free(members[i][w]->channel);
			free(members[i][w]);
		}
	}
}

#endif
