/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/wireup_qp.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"

enum {
	RX_BUFS = 64,
	TX_BUFS = 16,
	QPS_MAX = 64,
	QPS_PER_DEVICE = 16,
	WAIT_MS = 50,    /* first time-out of a request; doubled each time */
	SPIN_NS = 50000, /* busy-polls before sleeping */
};

struct wireup_qp_entry {
	struct rdma_local local;
	struct ud_qp *qp; /* NULL: made by the thread that takes the entry */
	bool taken;
	uint64_t last_used; /* LRU clock; 0: no queue pair */
};

/* Protects the table, except entries that are taken. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct wireup_qp_entry entries[QPS_MAX];
static uint64_t lru_clock;
static pid_t owner; /* process that made the queue pairs */

/* A forked child has no buffers of its parent's queue pairs, and leaves them alone. Lock held. */
static void forget_parents(void)
{
	if (owner == getpid())
		return;
	memset(entries, 0, sizeof(entries));
	pthread_cond_init(&freed, NULL);
	owner = getpid();
}

static int remaining_ms(const struct wireup_call *call)
{
	uint64_t now = sl_now_ns();

	return now < call->deadline_ns ? (int)((call->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

static struct wireup_qp_entry *find_entry(const struct rdma_local *l)
{
	struct wireup_qp_entry *found = NULL;
	unsigned taken = 0;

	for (unsigned i = 0; i < QPS_MAX; i++) {
		struct wireup_qp_entry *entry = &entries[i];
		bool same_local = rdma_local_same(&entry->local, l);

		taken += entry->taken && same_local;
		if (entry->taken)
			continue;
		if (entry->last_used && same_local)
			return entry;
		if (!found || entry->last_used < found->last_used)
			found = entry;
	}
	return taken < QPS_PER_DEVICE ? found : NULL;
}

static struct wireup_qp_entry *take_entry(const struct rdma_local *l, uint64_t until_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				       .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	struct ud_qp *evicted = NULL;
	struct wireup_qp_entry *entry;

	pthread_mutex_lock(&lock);
	forget_parents();
	while (!(entry = find_entry(l)) &&
	       pthread_cond_clockwait(&freed, &lock, CLOCK_MONOTONIC, &until) == 0) {
	}
	if (entry && !rdma_local_same(&entry->local, l)) {
		evicted = entry->qp;
		entry->qp = NULL;
		entry->local = *l;
	}
	if (entry)
		entry->taken = true;
	pthread_mutex_unlock(&lock);
	if (evicted)
		rdma_device->close(evicted);
	return entry;
}

static void release_entry(struct wireup_qp_entry *entry)
{
	pthread_mutex_lock(&lock);
	entry->taken = false;
	entry->last_used = entry->qp ? ++lru_clock : 0;
	pthread_cond_broadcast(&freed);
	pthread_mutex_unlock(&lock);
}

static int send_request(const struct wireup_call *call, struct ud_qp *qp)
{
	uint8_t *to = rdma_device->tx_buf(qp);
	int len = to ? call->build(call->arg, qp, to) : -EAGAIN;

	if (len < 0)
		return len;
	rdma_device->send(qp, call->ah, call->qpn, (uint32_t)len);
	return rdma_device->flush(qp);
}

static int poll_reply(const struct wireup_call *call, struct ud_qp *qp)
{
	struct ud_packet packets[UD_POLL_MAX];
	int n = rdma_device->poll(qp, packets, UD_POLL_MAX);
	int found = 0;

	for (int i = 0; i < n && !found; i++)
		found = call->is_reply(call->arg, &packets[i]);
	if (n < 0 || rdma_device->repost(qp, packets, (unsigned)n))
		return -EIO;
	return found;
}

static int await_reply(const struct wireup_call *call, struct ud_qp *qp, int wait_ms)
{
	uint64_t sent_ns = sl_now_ns(), until_ns = sent_ns + (uint64_t)wait_ms * SL_NS_PER_MS;
	struct pollfd p = {.fd = qp->fd, .events = POLLIN};

	for (;;) {
		int rc = poll_reply(call, qp);
		uint64_t now_ns = sl_now_ns();

		if (rc)
			return rc < 0 ? rc : 0;
		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (now_ns - sent_ns < SPIN_NS || !rdma_device->arm(qp))
			continue;
		if (poll(&p, 1, (int)((until_ns - now_ns) / SL_NS_PER_MS) + 1) > 0)
			rdma_device->ack_event(qp);
	}
}

static int run_on_entry(const struct wireup_call *call, struct wireup_qp_entry *entry)
{
	int rc, wait_ms = WAIT_MS;

	if (!entry->qp)
		entry->qp =
			rdma_device->open(call->local, RDMA_GROUP_BACKEND, RX_BUFS, TX_BUFS, &rc);
	if (!entry->qp)
		return rc;
	rc = -ETIMEDOUT;
	for (unsigned i = 0;
	     rc == -ETIMEDOUT && remaining_ms(call) && (!call->tries || i < call->tries); i++) {
		rc = send_request(call, entry->qp);
		if (!rc && !i && call->overlap)
			call->overlap(call->arg);
		if (!rc)
			rc = await_reply(call, entry->qp,
					 wait_ms < remaining_ms(call) ? wait_ms
								      : remaining_ms(call));
		wait_ms *= 2;
	}
	if (rc == -EIO) {
		rdma_device->close(entry->qp);
		entry->qp = NULL;
	}
	return rc;
}

int wireup_call_run(const struct wireup_call *call)
{
	uint64_t began_ns = sl_now_ns();
	uint64_t budget_ns = call->deadline_ns > began_ns ? call->deadline_ns - began_ns : 0;
	struct wireup_qp_entry *entry = take_entry(call->local, began_ns + budget_ns / 2);
	struct wireup_call adjusted = *call;
	int rc;

	if (!entry)
		return -EBUSY;
	adjusted.deadline_ns += sl_now_ns() - began_ns;
	rc = run_on_entry(&adjusted, entry);
	release_entry(entry);
	return rc;
}
