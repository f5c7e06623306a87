/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener of RC connections and its dialers in one process: CREQ and CREP over sockets, queue
 * pairs of the fake device. An attacker beside them sees all datagrams, sends any, and lacks the
 * key. Messages on a queue pair move only when a test carries them.
 */
#ifndef TESTS_UNIT_RPC_RC_WIREUP_BED_H
#define TESTS_UNIT_RPC_RC_WIREUP_BED_H

#include "rc_bed.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/rc/rc_listener.h"
#include "suite.h"
#include "ud_sockets.h"
#include "until.h"

enum { SEEN_MAX = 256, RING = SL_RPC_MIN_BULK };

static char endpoint[64], key_path[64], said[256];
static struct sl_psk secret;
static struct rc_listener *listener;
static int enemy;
static unsigned dial_ms = UNTIL_S * 1000;

static struct seen {
	uint8_t bytes[256];
	uint32_t len, to;
} seen[SEEN_MAX];
static _Atomic unsigned seen_cnt;

static inline void look_on(const uint8_t *bytes, uint32_t len, uint32_t to_qpn)
{
	struct seen *s = &seen[seen_cnt % SEEN_MAX];

	ck_assert_uint_le(len, sizeof(s->bytes));
	memcpy(s->bytes, bytes, len);
	s->len = len;
	s->to = to_qpn;
	seen_cnt++;
}

/* The last datagram of that length. */
static inline const struct seen *last_seen(uint32_t len)
{
	for (unsigned i = seen_cnt; i--;) {
		if (seen[i % SEEN_MAX].len == len)
			return &seen[i % SEEN_MAX];
	}
	return NULL;
}

static inline void throw_at(const void *bytes, size_t len, uint32_t qpn)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)qpn)};

	ck_assert_int_eq(sendto(enemy, bytes, len, 0, (struct sockaddr *)&sa, sizeof(sa)),
			 (ssize_t)len);
}

/* The sockets, as a device whose queue pairs are the fake's. */
static struct rdma_device_ops bed_device;
static const struct rdma_device_ops *sockets;

static inline int bed_resolve(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	int rc = sockets->sidr_resolve(q, h, why);

	ck_assert(q->rc);
	h->local = fake_path().local;
	return rc;
}

static inline int bed_sidr_new(struct sidr_service **s, struct sockaddr_storage *sa, bool is_rc)
{
	int rc = sockets->sidr_new(s, sa, is_rc);

	ck_assert(is_rc);
	if (!rc)
		(*s)->local = fake_path().local;
	if (!rc)
		memcpy((*s)->local.gid, ud_sockets_gid, sizeof(ud_sockets_gid));
	return rc;
}

static inline struct sl_rpc_listener *try_to_listen(struct sl_err *err)
{
	const struct sl_rpc_listen_options opt = {
		.key_file = key_path, .slots = SLOTS, .bulk_ring_len = RING};

	return sl_rpc_listen(endpoint, &opt, err);
}

static inline void bed_up(void)
{
	unsigned pid = (unsigned)getpid();
	struct sl_err err = SL_ERR(256);
	int fd = memfd_create("key", 0);

	fake_start();
	fake.opens = true;
	memcpy(fake.gids[1], ud_sockets_gid, sizeof(fake.gids[1]));
	secret = sl_psk_of("of the tests, for all of them", 29);
	ck_assert_int_eq(write(fd, secret.bytes, secret.len), (ssize_t)secret.len);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	snprintf(key_path, sizeof(key_path), "/proc/self/fd/%d", fd);
	snprintf(endpoint, sizeof(endpoint), "rdma://127.%u.%u.%u:7471", 1 + (pid >> 16) % 250,
		 pid >> 8 & 255, pid & 255);
	ud_sockets_use((struct ud_faults){.lost = 0});
	sockets = rdma_device;
	bed_device = *sockets;
	bed_device.sidr_resolve = bed_resolve;
	bed_device.sidr_new = bed_sidr_new;
	rdma_device = &bed_device;
	ud_sockets_tap = look_on;
	enemy = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_ge(enemy, 0);
	listener = (struct rc_listener *)try_to_listen(&err);
	ck_assert_msg(listener != NULL, "%s", err.text);
}

static inline void bed_down(void)
{
	if (listener)
		listener->base.ops->close(&listener->base);
	sl_rdma_wait_closed();
	close(enemy);
}

static inline struct sl_transport *accepted(void)
{
	return listener->base.ops->accept(&listener->base, sl_now_ns());
}

/* One turn of the listener, whose thread does not run. */
static inline void turn(void)
{
	wireup_listener_turn(&listener->wireup, sl_now_ns());
	ck_assert(wireup_listener_drain(&listener->wireup));
}

static inline unsigned pending_cnt(void)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < RC_PENDING_MAX; i++)
		cnt += listener->pending[i].conn != NULL;
	return cnt;
}

static inline struct rc_pending *first_pending(void)
{
	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		if (listener->pending[i].conn)
			return &listener->pending[i];
	}
	return NULL;
}

static inline struct sl_rpc_dial_options dial_options(void)
{
	return (struct sl_rpc_dial_options){.endpoint = endpoint,
					    .key_file = key_path,
					    .slots = SLOTS,
					    .bulk_ring_len = RING,
					    .link = 99,
					    .worker = GROUP,
					    .timeout_ms = dial_ms};
}

static inline void *dial(void *arg)
{
	struct sl_rpc_dial_options opt = dial_options();
	struct sl_err err = {said, sizeof(said)};

	(void)arg;
	said[0] = 0;
	return sl_rpc_dial(&opt, &err);
}

/* Dials while the listener takes turns. */
static inline struct rc_conn *try_to_dial(void)
{
	pthread_t thread;
	void *dialed = NULL;

	ck_assert_int_eq(pthread_create(&thread, NULL, dial, NULL), 0);
	until((turn(), pthread_tryjoin_np(thread, &dialed) == 0));
	return dialed;
}

/* The listener's queue pair for requests. */
static inline uint32_t door(void)
{
	turn();
	return listener->wireup.qp->qpn;
}

static inline void prove_to(struct sl_wireup_creq *h, uint64_t epoch, uint32_t qpn)
{
	struct wireup_target to = {.epoch = epoch, .qpn = qpn};

	memcpy(to.gid, ud_sockets_gid, sizeof(to.gid));
	wireup_creq_sign(&secret, h, &to);
}

static inline void prove(struct sl_wireup_creq *h)
{
	prove_to(h, sl_rpc_boot_epoch(), door());
}

/* A request of that host and queue pair. */
static inline struct sl_wireup_creq request_of(uint8_t host, uint32_t qpn)
{
	static uint32_t number;
	struct sl_wireup_creq h = {.magic = SL_WIREUP_MAGIC,
				   .version = SL_UD_VERSION,
				   .want = SL_WIREUP_RC,
				   .epoch = 9,
				   .number = ++number,
				   .answer_qpn = 9,
				   .gid = {[15] = host},
				   .slots = SLOTS,
				   .bulk_len = RING,
				   .mtu = UD_MTU_MAX,
				   .id = qpn,
				   .qpn = qpn};

	prove(&h);
	return h;
}

/* The reply to a request; magic 0: none. */
static inline struct sl_wireup_crep answer_to(const struct sl_wireup_creq *h)
{
	struct sl_wireup_crep a = {.magic = 0};
	unsigned before = seen_cnt;

	wireup_listener_handle(&listener->wireup, h);
	if (seen_cnt != before)
		memcpy(&a, last_seen(sizeof(a))->bytes, sizeof(a));
	ck_assert(!a.magic || wireup_crep_verify(&secret, h, &a));
	return a;
}

static inline bool is_granted(const struct sl_wireup_creq *h)
{
	struct sl_wireup_crep a = answer_to(h);

	return a.magic && a.verdict == SL_WIREUP_GRANTED;
}

#endif
