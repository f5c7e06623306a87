/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's loop over fake ports: how often it asks them for what costs a call of the kernel, and
 * what it learns of having polled. Its mailbox: nothing is lost that others put in.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "config/config.h"
#include "front/tls/tls.h"
#include "worker/worker.h"
#include "fake_port.h"
#include "suite.h"
#include "until.h"

enum { PORTS = 2, ROUNDS = 5, FRAME = 2048, TELLERS = 4, EACH = 5000 };

static const char config_text[] = "listener web { address = \"192.0.2.1\" port = 80 }\n"
				  "pool echo { backend a { endpoint = \"shm:///a\" } }\n"
				  "route \"/\" { pool = echo }\n"
				  "limits { frame_memory = 8m max_body = 1m }\n";

static struct sl_worker w;
static struct sl_fake_port ports[PORTS];
static struct sl_config *cfg;
static struct sl_core_maps maps;

static void set_up(void)
{
	struct sl_err err = SL_ERR(256);

	cfg = sl_config_parse(config_text, "test", &err);
	ck_assert_msg(cfg != NULL, "%s", err.text);
	ck_assert_int_eq(sl_worker_init(&w, cfg, 0, FRAME), 0);
	for (uint8_t i = 0; i < PORTS; i++) {
		sl_fake_port_init(&ports[i], &w.umem, i);
		w.ports[w.port_cnt++] = &ports[i].port;
	}
	static const struct sl_tls_config tls; /* no handshake threads */

	maps = (struct sl_core_maps){
		.service_cnt = 1,
		.hist = calloc(SL_STAGE_CNT, sizeof(*maps.hist)),
		.live = calloc(1, sizeof(*maps.live)),
	};
	maps.ctl = calloc(1, sizeof(*maps.ctl));
	ck_assert_int_eq(sl_worker_build(&w, cfg, &maps, &tls), 0);
}

static void tear_down(void)
{
	sl_worker_fini(&w);
	free(maps.hist);
	free(maps.live);
	free((void *)(uintptr_t)maps.ctl);
	sl_config_free(cfg);
}

/* Runs one round of the loop. */
static void round_once(void)
{
	ck_assert_int_eq(sl_worker_tell(&w, &(struct sl_worker_msg){.verb = SL_WORKER_STOP}), 0);
	w.stopping = false;
	sl_worker_run(&w);
}

FIXTURE(set_up, tear_down)

/* port.h promises it: with busy polling each flush is a system call. */
TEST(each_port_is_flushed_once_a_round)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		round_once();
	ck_assert_uint_eq(w.loops, ROUNDS);
	for (unsigned i = 0; i < PORTS; i++)
		ck_assert_uint_eq(ports[i].flush_cnt, ROUNDS);
}

/* Also if it cannot be woken. */
TEST(a_queued_message_is_the_workers)
{
	struct sl_worker_msg *m = calloc(1, sizeof(*m));
	int fd = w.wake_fd;

	m->verb = SL_WORKER_STOP;
	w.wake_fd = -1;
	ck_assert_int_eq(sl_worker_send(&w, m), 0);
	w.wake_fd = fd;
	sl_worker_run(&w);
	ck_assert_uint_eq(w.loops, 1);
}

static unsigned rx_request(struct sl_port *p, struct sl_frame **frames, unsigned max,
			   uint64_t now_ns)
{
	(void)p, (void)frames, (void)max, (void)now_ns;
	w.core.stats.requests++;
	return 0;
}

static void *tell_later(void *arg)
{
	(void)arg;
	usleep(1000);
	ck_assert_int_eq(sl_worker_tell(&w, &(struct sl_worker_msg){.verb = SL_WORKER_STOP}), 0);
	return NULL;
}

static void run_until_told(void)
{
	pthread_t teller;

	ck_assert_int_eq(pthread_create(&teller, NULL, tell_later, NULL), 0);
	w.stopping = false;
	sl_worker_run(&w);
	pthread_join(teller, NULL);
}

/* The cost of a sleep is known from its calls, without the time asleep. */
TEST(each_sleep_updates_the_wakeup_cost)
{
	enum { SLEEPS = 20, BESIDE_NS = 150000 };

	w.port_cnt = 0; /* a sleeper asks sockets what they have not sent, and these are none */
	sl_adaptive_poll_init(&w.poll, 0, true);
	w.poll.beside_ns = BESIDE_NS;
	until((run_until_told(), w.sleeps >= SLEEPS && w.poll.beside_ns < BESIDE_NS));
}

/* A round behind an idle time that was polled; what is found so often by now. */
static int32_t found_behind_poll(void)
{
	sl_adaptive_poll_init(&w.poll, 1, false);
	w.idle = sl_adaptive_poll_begin(&w.poll, false, 0);
	ck_assert(w.idle);
	round_once();
	ck_assert(!w.idle);
	return w.poll.kinds[false].found;
}

/* An ACK, or any other frame, could have waited. */
TEST(polling_is_worth_it_for_requests_only)
{
	static struct sl_port_ops ops;

	ck_assert(sl_fake_inject(&ports[0], "not for us, and of no known kind", 32, 1));
	ck_assert_int_lt(found_behind_poll(), SL_POLL_ONE_SLEEP);
	ops = *ports[0].port.ops;
	ops.rx_burst = rx_request;
	ports[0].port.ops = &ops;
	ck_assert_int_eq(found_behind_poll(), SL_POLL_ONE_SLEEP);
}

static void *tell_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < EACH; i++) {
		if (sl_worker_tell(&w, &(struct sl_worker_msg){.verb = SL_WORKER_DRAIN}) != 0)
			return &w;
	}
	return NULL;
}

TEST(messages_of_several_threads_all_arrive)
{
	pthread_t t[TELLERS];
	unsigned heard = 0;
	void *failed;

	for (unsigned i = 0; i < TELLERS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, tell_many, NULL), 0);
	/* More than the mailbox holds: they wait for room, and the worker for them. */
	while (heard < TELLERS * EACH)
		heard += sl_worker_read_mailbox(&w);
	for (unsigned i = 0; i < TELLERS; i++) {
		ck_assert_int_eq(pthread_join(t[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(sl_worker_read_mailbox(&w), 0);
	ck_assert(w.draining);
}

TEST(a_full_inbox_leaves_the_message_with_its_sender)
{
	struct sl_worker_msg *m;
	unsigned sent = 0;

	for (;;) {
		m = malloc(sizeof(*m));
		ck_assert_ptr_nonnull(m);
		*m = (struct sl_worker_msg){.verb = SL_WORKER_DRAIN};
		if (sl_worker_send(&w, m) != 0)
			break;
		sent++;
	}
	ck_assert_int_eq(sl_worker_send(&w, m), -EAGAIN);
	ck_assert_uint_eq(sl_worker_read_mailbox(&w), sent);
	ck_assert_int_eq(sl_worker_send(&w, m), 0);
	ck_assert_uint_eq(sl_worker_read_mailbox(&w), 1);
}
