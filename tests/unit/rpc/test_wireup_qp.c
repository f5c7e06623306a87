/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wireup queue pairs of diallers: hosts that do not answer delay few others, and devices come and
 * go.
 */
#include "rpc/rdma/wireup_qp.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "until.h"

enum { OF_DEVICE = 16, DOORS = 64, PAIRS = 1024, ALIVE = 1, DEAD = 2 };

struct pair {
	struct ud_qp base;
	uint32_t said_to; /* destination host without an answer yet */
};

static struct pair pairs[PAIRS];
static _Atomic unsigned opened, closed;
static _Atomic bool back;  /* hosts that were dead answer, too */
static _Atomic bool first; /* one that was greeted by the first door does, once */
static _Atomic bool fails; /* the device does */
static _Atomic bool slow;  /* it takes its time to open the next one */
static uint8_t slot[16];

static struct ud_qp *dev_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			      uint32_t tx_cnt, int *rc)
{
	struct pair *p = &pairs[opened++];

	(void)l, (void)group, (void)rx_cnt, (void)tx_cnt;
	while (slow)
		usleep(1000);
	p->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(p->base.fd, 0);
	*rc = 0;
	return &p->base;
}

static void dev_close(struct ud_qp *p)
{
	close(p->fd);
	closed++;
}

static uint8_t *dev_slot(struct ud_qp *p)
{
	(void)p;
	return slot;
}

static void dev_send(struct ud_qp *p, struct ibv_ah *way, uint32_t qpn, uint32_t len)
{
	(void)way, (void)len;
	((struct pair *)p)->said_to = qpn;
}

static int dev_ring(struct ud_qp *p)
{
	(void)p;
	return 0;
}

static int dev_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max)
{
	struct pair *p = (struct pair *)base;

	(void)max;
	if (fails)
		return -EIO;
	if (p->said_to != ALIVE && !(p->said_to == DEAD && back) &&
	    !(p == pairs && atomic_exchange(&first, false)))
		return 0;
	p->said_to = 0;
	packets[0] = (struct ud_packet){.len = 1};
	return 1;
}

static int dev_put_back(struct ud_qp *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p, (void)packets, (void)cnt;
	return 0;
}

static bool dev_arm(struct ud_qp *p)
{
	(void)p;
	return true;
}

static void dev_take_bell(struct ud_qp *p)
{
	eventfd_t cnt;

	(void)eventfd_read(p->fd, &cnt);
}

static void set_up(void)
{
	static const struct rdma_device_ops device = {.open = dev_open,
						      .close = dev_close,
						      .tx_buf = dev_slot,
						      .send = dev_send,
						      .flush = dev_ring,
						      .poll = dev_poll,
						      .repost = dev_put_back,
						      .arm = dev_arm,
						      .ack_event = dev_take_bell};

	rdma_device = &device;
}

FIXTURE(set_up, NULL)

/* --- connecting threads --- */

static int say(void *arg, const struct ud_qp *door, uint8_t *to)
{
	(void)arg, (void)door, (void)to;
	return 1;
}

static bool is_answer(void *arg, const struct ud_packet *p)
{
	(void)arg, (void)p;
	return true;
}

static int greet(void *device, uint32_t host, unsigned ms)
{
	const struct rdma_local l = {.device = device, .port = 1};

	return wireup_call_run(&(struct wireup_call){.local = &l,
						     .qpn = host,
						     .deadline_ns = sl_now_ns() + ms * SL_NS_PER_MS,
						     .build = say,
						     .is_reply = is_answer});
}

static char here, beside[200];

static void *greet_dead(void *arg)
{
	ck_assert_int_eq(greet(&here, DEAD, 20000), 0);
	return arg;
}

static void start(pthread_t *threads, unsigned cnt)
{
	unsigned before = opened;

	for (unsigned i = 0; i < cnt; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, greet_dead, NULL), 0);
	until((usleep(1000), opened == before + cnt));
}

/* Waiting threads get an answer then. */
static void finish(pthread_t *threads, unsigned cnt)
{
	back = true;
	for (unsigned i = 0; i < opened; i++)
		ck_assert_int_eq(eventfd_write(pairs[i].base.fd, 1), 0);
	for (unsigned i = 0; i < cnt; i++)
		pthread_join(threads[i], NULL);
}

TEST(hosts_that_do_not_answer_do_not_delay_others)
{
	pthread_t threads[OF_DEVICE - 1];

	start(threads, OF_DEVICE - 1);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	ck_assert_uint_eq(opened, OF_DEVICE);
	ck_assert_uint_eq(closed, 0);
	finish(threads, OF_DEVICE - 1);
}

TEST(wireup_queue_pairs_are_limited_per_device)
{
	pthread_t threads[OF_DEVICE];
	uint64_t began_ns;

	start(threads, OF_DEVICE);
	began_ns = sl_now_ns();
	ck_assert_int_eq(greet(&here, ALIVE, 6000), -EBUSY);
	ck_assert_uint_lt(sl_now_ns() - began_ns, 5900 * SL_NS_PER_MS);
	ck_assert_int_eq(greet(&beside[0], ALIVE, 20000), 0);
	ck_assert_uint_eq(opened, OF_DEVICE + 1);
	finish(threads, OF_DEVICE);
	ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	ck_assert_uint_eq(opened, OF_DEVICE + 1);
}

static void *let_one_go(void *arg)
{
	usleep(400000);
	first = true;
	ck_assert_int_eq(eventfd_write(pairs[0].base.fd, 1), 0);
	return arg;
}

/* Waiting for a wireup queue pair does not count against the host's time. */
TEST(waiting_for_a_queue_pair_does_not_use_the_hosts_time)
{
	pthread_t threads[OF_DEVICE], other;
	uint64_t began_ns;

	start(threads, OF_DEVICE);
	began_ns = sl_now_ns();
	ck_assert_int_eq(pthread_create(&other, NULL, let_one_go, NULL), 0);
	ck_assert_int_eq(greet(&here, DEAD, 4000), -ETIMEDOUT);
	ck_assert_uint_ge(sl_now_ns() - began_ns, 4300 * SL_NS_PER_MS);
	ck_assert_uint_eq(opened, OF_DEVICE);
	pthread_join(other, NULL);
	finish(threads, OF_DEVICE);
}

static void *greet_slowly(void *arg)
{
	slow = true;
	ck_assert_int_eq(greet(&beside[0], ALIVE, 20000), 0);
	return arg;
}

TEST(a_hanging_device_does_not_delay_others)
{
	pthread_t thread;

	ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, greet_slowly, NULL), 0);
	until(opened == 2);
	ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	slow = false;
	pthread_join(thread, NULL);
}

/* A new one may come each time, and those that have gone say nothing. */
TEST(doors_of_devices_that_went_make_room)
{
	for (unsigned i = 0; i < sizeof(beside); i++) {
		ck_assert_int_eq(greet(&beside[i], ALIVE, 20000), 0);
		ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	}
	ck_assert_uint_eq(opened, sizeof(beside) + 1);
	ck_assert_uint_eq(opened - closed, DOORS);
}

TEST(a_wireup_qp_whose_device_fails_is_made_anew)
{
	ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	fails = true;
	ck_assert_int_eq(greet(&here, ALIVE, 20000), -EIO);
	ck_assert_uint_eq(closed, 1);
	fails = false;
	ck_assert_int_eq(greet(&here, ALIVE, 20000), 0);
	ck_assert_uint_eq(opened, 2);
}
