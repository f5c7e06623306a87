/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forged datagrams, at the highest rate of their sender, to the UD queue pair of a backend. Its
 * other connections must go on. Round-trip times are printed beside those of the same flood to
 * another process on the same processors. SL_RPC_BESIDE is the endpoint of those connections.
 */
#define HARNESS_ENDPOINTS "ud"
#include <glob.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include "rpc/session.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/rc/rc_conn.h"
#include "rpc_harness.h"
#include "suite.h"

enum {
	TURNS = 6,   /* the flood goes elsewhere, and here */
	ASKED = 100, /* round trips meanwhile */
	FORGED_LEN = 256,
};

/* Seen by all processes. */
static struct shared {
	_Atomic uint32_t sink, to; /* queue pairs; to: that of the flood, 0: it rests */
	uint32_t id;               /* the backend's number of the connection */
	_Atomic uint64_t sent, sunk,
		bad; /* bad: datagrams that belong to no connection, as the backend counts them */
	char endpoint[120];
} * shared;

static void answer_and_tell(void *arg, struct sl_batch *batch)
{
	struct sl_backend_stats st = {.size = sizeof(st)};

	sl_backend_stats(harness_backend, &st);
	shared->bad = st.bad_messages;
	answer_here(arg, batch);
}

static const char *endpoint_beside(void)
{
	const char *name = getenv("SL_RPC_BESIDE");

	return endpoint_named(name ? name : "tcp", name ? strlen(name) : 3);
}

/* --- the flooding process and the second victim --- */

static void be_bounded(struct sockaddr_storage *sa)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(3 * harness_timeout_s());
	if (rdma_parse_addr(strstr(shared->endpoint, "://") + 3, sa))
		_exit(3);
}

/* Right but for its seal: every other one to a connection that there is. */
static uint32_t forge(uint8_t *to, uint32_t number)
{
	const struct sl_ud_header h = {.magic = SL_UD_MAGIC,
				       .version = SL_UD_VERSION,
				       .to = shared->id + number % 2,
				       .seq = number,
				       .len = FORGED_LEN - sizeof(h)};

	memset(to, 0x5a, FORGED_LEN);
	memcpy(to, &h, sizeof(h));
	return FORGED_LEN;
}

static void send_some(struct ud_qp *pair, struct ibv_ah *way, uint32_t qpn)
{
	uint32_t n = 0;
	uint8_t *slot;

	for (; n < UD_POLL_MAX && (slot = rdma_device->tx_buf(pair)); n++)
		rdma_device->send(pair, way, qpn, forge(slot, n));
	(void)rdma_device->flush(pair);
	shared->sent += n;
	if (!n)
		sched_yield();
}

static void flood(const void *arg)
{
	struct sockaddr_storage sa;
	const struct sl_rpc_rdma any = {.port = 0};
	const struct sidr_query q = {
		.sa = &sa, .rdma = &any, .deadline_ns = sl_now_ns() + 10 * SL_NS_PER_SEC};
	const char *why = NULL;
	struct ud_qp *pair;
	struct sidr_result host;
	struct ibv_ah *way;
	int rc;

	(void)arg;
	be_bounded(&sa);
	if (rdma_device->sidr_resolve(&q, &host, &why))
		_exit(4);
	pair = rdma_device->open(&host.local, 0, UD_POLL_MAX, UD_IFACE_TX, &rc);
	way = rdma_device->ah_create(&host.local, host.gid, 0);
	if (!pair || !way)
		_exit(5);
	for (;;) {
		uint32_t qpn = shared->to;

		if (qpn)
			send_some(pair, way, qpn);
		else
			usleep(1000);
	}
}

/* At the backend's end: takes what comes, as that does, and that is all. */
static void sink(const void *arg)
{
	SL_UNINIT struct ud_packet packets[UD_POLL_MAX];
	struct sockaddr_storage sa;
	struct ud_qp *pair;
	struct sidr_service *sign;
	int rc, n;

	(void)arg;
	be_bounded(&sa);
	((struct sockaddr_in *)&sa)->sin_port = 0;
	if (rdma_device->sidr_new(&sign, &sa, false))
		_exit(4);
	pair = rdma_device->open(&sign->local, RDMA_GROUP_BACKEND, UD_IFACE_RX, UD_IFACE_TX, &rc);
	if (!pair)
		_exit(5);
	shared->sink = pair->qpn;
	for (;;) {
		n = rdma_device->poll(pair, packets, UD_POLL_MAX);
		if (n < 0 || rdma_device->repost(pair, packets, (unsigned)n))
			_exit(6);
		shared->sunk += (unsigned)n;
		if (!n)
			usleep(200);
	}
}

static void await(const _Atomic uint64_t *what, uint64_t least)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (*what < least) {
		usleep(100);
		ck_assert_msg(sl_now_ns() < until_ns, "no flood: %lu", (unsigned long)*what);
	}
}

/* --- what it costs the others --- */

/* Messages of reliable connections that found no receive slot, over all devices. */
static unsigned long count_no_slots(void)
{
	unsigned long sum = 0;
	glob_t found;

	if (glob("/sys/class/infiniband/*/ports/1/hw_counters/*rnr_err", 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");
		unsigned long n = 0;

		ck_assert(f && fscanf(f, "%lu", &n) == 1);
		fclose(f);
		sum += n;
	}
	globfree(&found);
	return sum;
}

/* `idle` is polled meanwhile: a backend ends a channel that is silent for 5 s, which a slow machine takes. */
static uint64_t ask_in_flood(struct gateway *g, struct gateway *idle, uint32_t qpn)
{
	uint64_t began_ns;

	shared->to = qpn;
	await(&shared->sent, shared->sent + 4 * UD_IFACE_RX);
	began_ns = sl_now_ns();
	for (unsigned i = 0; i < ASKED; i++) {
		gw_expect_one_answer(g);
		gw_turn(idle);
	}
	shared->to = 0;
	return sl_now_ns() - began_ns;
}

TEST_EACH(a_flood_of_datagrams_leaves_other_connections_alone, endpoint_cnt())
{
	uint64_t elsewhere_ns = 0, here_ns = 0, bad;
	struct gateway other, flooded;
	const struct ud_conn *c;
	struct backend_proc p, by, from;
	unsigned long no_slots;
	char beside[120], listen[256];
	const unsigned turns = harness_emulated() ? TURNS / 3 : TURNS;

	snprintf(beside, sizeof(beside), "%.119s", endpoint_beside());
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	snprintf(shared->endpoint, sizeof(shared->endpoint), "%.119s", endpoint_of(_i));
	snprintf(listen, sizeof(listen), "%s,%s", shared->endpoint, beside);
	p = backend_start(
		&(struct sl_backend_options){.listen = listen, .on_batch = answer_and_tell});
	gw_open(&flooded, shared->endpoint);
	gw_open(&other, beside);
	gw_expect_one_answer(&flooded);
	c = (const struct ud_conn *)flooded.ch->link.t;
	shared->id = c->peer_id;
	by.pid = harness_spawn(sink, "", 1);
	from.pid = harness_spawn(flood, "", 1);
	while (!shared->sink)
		usleep(1000);
	gw_expect_one_answer(&other);
	bad = shared->bad;
	no_slots = count_no_slots();
	for (unsigned i = 0; i < turns; i++) {
		elsewhere_ns += ask_in_flood(&other, &flooded, shared->sink);
		gw_expect_one_answer(&flooded);
		here_ns += ask_in_flood(&other, &flooded, c->qpn);
		gw_expect_one_answer(&flooded);
	}
	gw_expect_one_answer(&other);
	printf("round trips: %.1f us beside a flood elsewhere, %.1f beside one here; of %lu, %lu taken "
	       "elsewhere, %lu bad here\n",
	       (double)elsewhere_ns / (turns * ASKED * 1e3),
	       (double)here_ns / (turns * ASKED * 1e3), (unsigned long)shared->sent,
	       (unsigned long)shared->sunk, (unsigned long)(shared->bad - bad));
	/* Both have had a flood to take. */
	ck_assert_uint_gt(shared->sunk, turns * UD_IFACE_RX);
	ck_assert_uint_gt(shared->bad - bad, turns * UD_IFACE_RX / 2);
	ck_assert_uint_eq(other.downs + flooded.downs, 0);
	ck_assert_uint_eq(count_no_slots(), no_slots);
	gw_close(&other);
	gw_close(&flooded);
	backend_kill(by);
	backend_kill(from);
	backend_term(p);
}
