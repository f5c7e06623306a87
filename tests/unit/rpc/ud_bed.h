/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener of virtual connections and its diallers, over sockets instead of a device. An attacker
 * beside them sees everything, sends anything, and lacks the key.
 */
#ifndef TESTS_UNIT_RPC_UD_BED_H
#define TESTS_UNIT_RPC_UD_BED_H

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/sendq.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/wireup.h"
#include "suite.h"
#include "ud_sockets.h"
#include "until.h"

enum {
	SLOTS = 256,
	SEEN_MAX = 256,
	BODY = 50,
	/* no datagram is as long as a HELLO or an ANSWER */ WAIT_S = 20
};

static char endpoint[64], key_path[64];
static char said[256]; /* when dialling failed */
static struct sl_rpc_rdma way;
static uint16_t worker;
static unsigned dial_ms = WAIT_S * 1000;
static struct sl_psk secret;
static struct sl_rpc_listener *listener;
static int enemy;

/* Datagrams that the attacker has seen. */
static struct seen {
	uint8_t bytes[UD_MTU_MAX];
	uint32_t len, to;
} seen[SEEN_MAX];
static unsigned seen_cnt;

static inline void look_on(const uint8_t *bytes, uint32_t len, uint32_t to_qpn)
{
	if (seen_cnt == SEEN_MAX)
		return;
	memcpy(seen[seen_cnt].bytes, bytes, len);
	seen[seen_cnt].len = len;
	seen[seen_cnt++].to = to_qpn;
}

static inline void throw_at(const void *bytes, uint32_t len, uint32_t qpn)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)qpn)};

	ck_assert_int_eq(sendto(enemy, bytes, len, 0, (struct sockaddr *)&sa, sizeof(sa)), len);
}

static inline void set_up(void)
{
	struct sl_rpc_listen_options opt = {.key_file = key_path, .slots = SLOTS};
	struct sl_err err = SL_ERR(256);
	int fd = memfd_create("key", 0);
	unsigned pid = (unsigned)getpid();

	secret = sl_psk_of("of the tests, for all of them", 29);
	ck_assert_int_eq(write(fd, secret.bytes, secret.len), (ssize_t)secret.len);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	snprintf(key_path, sizeof(key_path), "/proc/self/fd/%d", fd);
	snprintf(endpoint, sizeof(endpoint), "rdma+ud://127.%u.%u.%u:7471", 1 + (pid >> 16) % 250,
		 pid >> 8 & 255, pid & 255);
	ud_sockets_use((struct ud_faults){.lost = 0});
	ud_sockets_tap = look_on;
	enemy = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_ge(enemy, 0);
	listener = sl_rpc_listen(endpoint, &opt, &err);
	ck_assert_msg(listener != NULL, "%s", err.text);
}

static inline void tear_down(void)
{
	listener->ops->close(listener);
	close(enemy);
}

FIXTURE(set_up, tear_down)

/* --- both ends --- */

static inline void take(struct sl_transport *t)
{
	t->poll_group->ops->poll(t->poll_group);
}

static inline struct sl_transport *accepted(void)
{
	return listener->ops->accept(listener, sl_now_ns());
}

static inline bool nobody_comes(void)
{
	ck_assert_ptr_null(accepted());
	return true;
}

static inline void *dial(void *arg)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = key_path,
					  .slots = SLOTS,
					  .rdma = way,
					  .worker = worker,
					  .timeout_ms = dial_ms};
	struct sl_err err = {said, sizeof(said)};

	(void)arg;
	return sl_rpc_dial(&opt, &err);
}

static inline struct sl_transport *try_to_dial(void)
{
	pthread_t thread;
	void *t = NULL;

	ck_assert_int_eq(pthread_create(&thread, NULL, dial, NULL), 0);
	until(nobody_comes() && pthread_tryjoin_np(thread, &t) == 0);
	return t;
}

/* A dialled connection without an owner. */
static inline struct sl_transport *dialled(void)
{
	struct sl_transport *t = try_to_dial();

	ck_assert_ptr_nonnull(t);
	return t;
}

static struct ends {
	struct sl_transport *gateway, *backend;
} both;

static inline void connect_both(void)
{
	both.gateway = dialled();
	ck_assert_int_eq(both.gateway->ops->attach(both.gateway, &both), 0);
	until((take(both.gateway), both.backend = accepted()));
	ck_assert_int_eq(both.backend->ops->attach(both.backend, &listener), 0);
}

static inline void close_both(void)
{
	both.gateway->ops->close(both.gateway);
	both.backend->ops->close(both.backend);
}

static inline int post(struct sl_transport *t, uint64_t id, uint32_t len)
{
	static uint8_t zeros[UD_BULK_MAX];
	struct sl_span body = sl_span_of(zeros, len);
	struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
				  .flags = SL_RPC_FIRST | SL_RPC_LAST,
				  .count = 1,
				  .fragment_len = len,
				  .total_or_offset = len,
				  .id = id};
	int rc = t->ops->post(t, &h, &body, 1, 0);

	t->ops->flush(t);
	return rc;
}

/* How many messages there are now; the last one's number. */
static inline unsigned received(struct sl_transport *t, uint64_t *id)
{
	struct sl_message m[8];
	unsigned sum = 0;
	int n;

	take(t);
	while ((n = t->ops->poll(t, m, 8)) > 0) {
		*id = m[n - 1].header.id;
		for (int i = 0; i < n; i++)
			t->ops->release(t, &m[i]);
		sum += (unsigned)n;
	}
	ck_assert_int_eq(n, 0);
	t->ops->flush(t);
	return sum;
}

static inline bool nothing_comes(struct sl_transport *t)
{
	uint64_t id;

	ck_assert_uint_eq(received(t, &id), 0);
	return true;
}

/* The next message is that one, and there is no other. */
static inline void check_goes_on(uint64_t id)
{
	unsigned n = 0;
	uint64_t last = 0;

	ck_assert_int_eq(post(both.gateway, id, BODY), 0);
	until((take(both.gateway), n += received(both.backend, &last), n));
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(last, id);
	ck_assert_int_eq(both.backend->ops->check(both.backend), 0);
}

/* --- new peers --- */

/* Where HELLOs go: the first one that was seen. */
static inline uint32_t door(void)
{
	for (unsigned i = 0; i < seen_cnt; i++) {
		if (seen[i].len == sizeof(struct sl_wireup_creq))
			return seen[i].to;
	}
	ck_abort_msg("no HELLO");
}

static inline void prove(struct sl_wireup_creq *h)
{
	struct wireup_target to = {.epoch = sl_rpc_boot_epoch(), .qpn = door()};

	memcpy(to.gid, ud_sockets_gid, sizeof(to.gid));
	wireup_creq_sign(&secret, h, &to);
}

static inline struct sl_wireup_creq hello_of(uint32_t number, uint32_t id)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t len = sizeof(sa);
	struct sl_wireup_creq h = {.magic = SL_WIREUP_MAGIC,
				   .version = SL_UD_VERSION,
				   .want = SL_WIREUP_UD,
				   .epoch = 77,
				   .number = number,
				   .slots = SLOTS,
				   .id = id,
				   .mtu = UD_MTU_MAX};

	/* Gives the attacker's socket a port. */
	throw_at("", 1, 9);
	ck_assert_int_eq(getsockname(enemy, (struct sockaddr *)&sa, &len), 0);
	h.answer_qpn = ntohs(sa.sin_port);
	prove(&h);
	return h;
}

/* The listener has seen what was thrown at its door; what it says to that. */
static inline bool answered(struct sl_wireup_crep *a)
{
	ck_assert_ptr_null(accepted());
	return recv(enemy, a, sizeof(*a), MSG_DONTWAIT) == (ssize_t)sizeof(*a);
}

#endif
