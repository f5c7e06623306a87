/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection over the fake device, as most tests of the verbs transport want it: its owner's
 * memory is lent, requests go out, and the peer claims what it likes.
 */
#ifndef TESTS_UNIT_RPC_VERBS_BED_H
#define TESTS_UNIT_RPC_VERBS_BED_H

#include "fake_verbs.h"
#include "rpc/rdma/service_thread.h"

static inline struct rc_path fake_path(void)
{
	fake.pd.context = &fake.context;
	fake.has_gids = true;
	return (struct rc_path){.local = {.device = &fake.pd, .name = "fake0", .port = 1}};
}

/* One end, whose queue pair does not know another one yet. */
static inline struct rc_conn *fake_open(unsigned group, const struct rc_ring_sizes *g)
{
	const struct rc_path path = fake_path();
	struct rc_conn *v = rc_conn_new();

	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(rc_conn_open(v, &path, group, g), 0);
	return v;
}

/*
 * A connection of that group, as a dialer or acceptor has it once both ends are known. The peer has
 * granted all of a window already, and has the least itself.
 */
static inline struct rc_conn *fake_connect(unsigned group, uint32_t slots, uint32_t bulk_len)
{
	struct rc_ring_sizes g = {.slots = slots, .bulk_len = bulk_len};
	struct rc_conn *v = fake_open(group, &g);

	ck_assert_int_eq(rc_conn_to_rts(v, &(struct rc_qp_end){.qpn = 77}, 0, 1024), 0);
	ck_assert_int_eq(rc_conn_open_rings(v, &g), 0);
	v->base.credits.window = g.slots;
	rc_ifaces_schedule_refill();
	return v;
}

enum { SLOTS = 64, BULK = 1 << 20, BODY = 16 << 10, SMALL = 64, GROUP = 1 };

static _Alignas(4096) uint8_t memory[1 << 20]; /* the owner's, as the UMEM */

static struct rc_conn *v;
static struct sl_transport *t;

static inline void set_up(void)
{
	fake_start();
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	rc_conn_set_zcopy_mem(v, memory, sizeof(memory));
	ck_assert(!t->copies);
}

static inline void tear_down(void)
{
	t->ops->close(t);
	sl_rdma_wait_closed();
}

/* A request, its bytes at `from`. */
static inline int post_from(const uint8_t *from, uint32_t len, uint64_t cookie)
{
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
					.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
					.priority = SL_CLASS_NORMAL,
					.count = 1,
					.fragment_len = len,
					.total_or_offset = len};
	const struct sl_span span = sl_span_of(from, len);

	return t->ops->post(t, &h, &span, 1, cookie);
}

static inline void send_from(const uint8_t *from, uint32_t len, uint64_t cookie)
{
	ck_assert_int_eq(post_from(from, len, cookie), 0);
	t->ops->flush(t);
}

/* The peer says that it has consumed so many messages. */
static inline void claim(uint32_t consumed)
{
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
					.flags = SL_RPC_FIRST | SL_RPC_LAST,
					.total_or_offset = v->base.credits.window,
					.time_us = v->advertised,
					.consumed = consumed};
	struct sl_message m;

	ck_assert(fake_arrive(v, &h, sizeof(h)));
	ck_assert_int_eq(t->ops->poll(t, &m, 1), 0);
}

static inline unsigned sent(uint64_t *cookie)
{
	uint64_t cookies[4];
	unsigned n;

	t->ops->progress(t);
	n = t->ops->sent(t, cookies, 4);
	*cookie = n ? cookies[n - 1] : 0;
	return n;
}

#endif
