/* SPDX-License-Identifier: Apache-2.0 */
/* Slow hosts and devices: which connections wait for them, and which do not. */
#include "ud_bed.h"

#include <dlfcn.h>
#include <sys/wait.h>

static struct rdma_device_ops slow; /* and what it is like otherwise */
static const struct rdma_device_ops *before;

static void slow_down(void)
{
	before = rdma_device;
	slow = *rdma_device;
	rdma_device = &slow;
}

/* --- hosts that are not there --- */

enum { AWAY = 66 };
static pthread_mutex_t resolver = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned resolved;

/* Hosts there need an answer of the network first. */
static struct ibv_ah *way_when_resolved(const struct rdma_local *l, const uint8_t gid[16],
					uint8_t tos)
{
	(void)tos;
	if (gid[0] == AWAY) {
		pthread_mutex_lock(&resolver);
		pthread_mutex_unlock(&resolver);
		resolved++;
	}
	return l->device;
}

static bool is_near(const struct rdma_local *l, const uint8_t gid[16])
{
	(void)l;
	return gid[0] != AWAY;
}

/* A HELLO from there, and whether it was answered. */
static bool hello_from(uint32_t number, uint8_t net, uint8_t host)
{
	struct sl_wireup_creq h = hello_of(number, 1000 + number);
	struct sl_wireup_crep a;

	h.gid[0] = net;
	h.gid[1] = host;
	prove(&h);
	throw_at(&h, sizeof(h), door());
	return answered(&a) && a.verdict == SL_WIREUP_GRANTED;
}

static void resolve_first(void)
{
	slow_down();
	slow.ah_create = way_when_resolved;
	slow.neigh_resolved = is_near;
}

/* A peer with the key can name any host as its own. */
TEST(an_absent_host_delays_no_others)
{
	struct sl_transport *other;
	uint32_t number = 8;

	connect_both();
	resolve_first();
	pthread_mutex_lock(&resolver);
	ck_assert(!hello_from(1, AWAY, 1));
	/* Established connections, known peers, and questions of other threads. */
	check_goes_on(1);
	ck_assert(hello_from(2, 0, 0));
	other = dialled();
	ah_cache_put(
		ah_cache_get(&((struct ud_conn *)other)->ah_entry->local, (uint8_t[16]){5}, 0));
	/* A host of whose way the device knows needs no thread. */
	ck_assert(hello_from(7, 5, 1));
	/* One at a time is waited for: the next one says HELLO again. */
	ck_assert(!hello_from(3, AWAY, 2));
	ck_assert(!hello_from(4, AWAY, 1));
	pthread_mutex_unlock(&resolver);
	until(hello_from(number++, AWAY, 1));
	until(hello_from(number++, AWAY, 2));
	ck_assert_uint_eq(resolved, 2);
	check_goes_on(2);
	other->ops->close(other);
	close_both();
	rdma_device = before;
}

/* They are there, but take their time to say so. */
static struct ibv_ah *way_when_slow(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	(void)tos;
	if (gid[0] == AWAY)
		usleep(10000);
	return l->device;
}

static _Atomic unsigned waits;

/* Counts the waits that a slow host has ended. */
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *end)
{
	int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
	int rc;

	*(void **)&wait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
	rc = wait(cond, mutex, clock, end);
	waits += rc == 0;
	return rc;
}

TEST(hosts_that_are_slow_take_no_more_time_when_they_are_many)
{
	enum { HOSTS = 64, WAITS = 4 }; /* in each 250 ms: 25 ms, 10 ms at a time */
	struct sl_wireup_crep a;
	uint64_t began_ns;
	uint32_t number = 1;

	connect_both();
	resolve_first();
	slow.ah_create = way_when_slow;
	until(hello_from(number++, AWAY, 0));
	for (unsigned i = 0; i < HOSTS; i++, number++) {
		struct sl_wireup_creq h = hello_of(number, 1000 + number);

		h.gid[0] = AWAY;
		h.gid[1] = (uint8_t)(1 + i);
		prove(&h);
		throw_at(&h, sizeof(h), door());
	}
	began_ns = sl_now_ns();
	waits = 0;
	(void)answered(&a);
	ck_assert_uint_le(waits, WAITS * (2 + (sl_now_ns() - began_ns) / (250 * SL_NS_PER_MS)));
	until(hello_from(number++, AWAY, HOSTS));
	close_both();
	rdma_device = before;
}

/* The thread that makes a way is the parent's. */
TEST(a_child_that_is_forked_meanwhile_makes_ways_of_its_own)
{
	const struct rdma_local here = {.device = &slow, .port = 1};
	uint32_t number = 2;
	int status;
	pid_t child;

	connect_both();
	resolve_first();
	pthread_mutex_lock(&resolver);
	ck_assert(!hello_from(1, AWAY, 1));
	child = fork();
	if (child == 0) {
		uint64_t until_ns = sl_now_ns() + WAIT_S * SL_NS_PER_SEC;

		pthread_mutex_unlock(&resolver);
		while (!ah_cache_get_nowait(&here, (uint8_t[16]){AWAY, 2}, 0) &&
		       sl_now_ns() < until_ns) {
		}
		_exit(sl_now_ns() < until_ns ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	pthread_mutex_unlock(&resolver);
	until(hello_from(number++, AWAY, 1));
	close_both();
	rdma_device = before;
}

/* --- a device that takes its time --- */

enum { HANGS_MS = 60000 };
static _Atomic bool hangs, hung;

static void hang(void)
{
	uint64_t until_ns = sl_now_ns() + HANGS_MS * SL_NS_PER_MS;

	while (hangs && sl_now_ns() < until_ns) {
		hung = true;
		usleep(1000);
	}
	hung = hangs = false;
}

static struct ud_qp *open_slowly(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
				 uint32_t tx_cnt, int *rc)
{
	hang();
	return before->open(l, group, rx_cnt, tx_cnt, rc);
}

static void close_slowly(struct ud_qp *p)
{
	hang();
	before->close(p);
}

static void *prepare_one(void *local)
{
	uint32_t mtu = 0;

	ck_assert_int_eq(ud_iface_prepare(local, 7, &mtu), 0);
	ck_assert_uint_eq(mtu, ud_sockets_mtu);
	return NULL;
}

static void *put_one(void *hall)
{
	ud_iface_put(hall);
	return NULL;
}

/* A thread creates a ud_iface there, or (1) closes one. */
TEST_EACH(a_hanging_device_does_not_stop_others_from_connecting, 2)
{
	struct ends first;
	struct ud_iface *h;
	struct rdma_local at;
	pthread_t thread;
	int rc;

	connect_both();
	first = both;
	at = ((struct ud_conn *)both.gateway)->iface->local;
	h = ud_iface_new(&at, 0, &rc);
	ck_assert_ptr_nonnull(h);
	h->refs = 1;
	slow_down();
	slow.open = open_slowly;
	slow.close = close_slowly;
	hangs = true;
	ck_assert_int_eq(
		pthread_create(&thread, NULL, _i ? put_one : prepare_one, _i ? (void *)h : &at), 0);
	until(hung);
	connect_both();
	check_goes_on(1);
	close_both();
	both = first;
	close_both();
	ck_assert(hung);
	hangs = false;
	pthread_join(thread, NULL);
	if (!_i)
		ud_iface_put(h);
	rdma_device = before;
}

static _Atomic unsigned halls_made;

static struct ud_qp *open_and_count(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
				    uint32_t tx_cnt, int *rc)
{
	halls_made++;
	usleep(20000);
	return before->open(l, group, rx_cnt, tx_cnt, rc);
}

/* However many dial at once when there is none yet. */
TEST(an_interface_of_a_worker_is_made_once)
{
	pthread_t threads[16];
	struct rdma_local at;

	connect_both();
	at = ((struct ud_conn *)both.gateway)->iface->local;
	slow_down();
	slow.open = open_and_count;
	for (unsigned i = 0; i < SL_ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, prepare_one, &at), 0);
	for (unsigned i = 0; i < SL_ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(halls_made, 1);
	close_both();
	rdma_device = before;
}
