/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of RDMA only: keys and proofs, which need no device, and, with an rdma endpoint in
 * SL_RPC_ENDPOINTS, peers that do what only RDMA allows.
 */
#include "rpc_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include "base/check.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"
#include "suite.h"

static char key_path[64];

static void write_key(const char *bytes, size_t len, mode_t mode)
{
	int fd;

	snprintf(key_path, sizeof(key_path), "/tmp/sl-verbs-key-%d", (int)getpid());
	unlink(key_path);
	fd = open(key_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void remove_key(void)
{
	unlink(key_path);
}

/* Those of the endpoints that are reached by RDMA. */
static const char *rdma_endpoint(int nth)
{
	for (int i = 0; i < (int)endpoint_cnt(); i++)
		if (strncmp(endpoint_of(i), "rdma://", 7) == 0 && !nth--)
			return endpoint_of(i);
	return NULL;
}

static int rdma_cnt(void)
{
	int n = 0;

	while (rdma_endpoint(n))
		n++;
	return n;
}

/* --- without a device --- */

FIXTURE(NULL, remove_key)

TEST(a_key_file_is_its_owners_alone)
{
	static const mode_t writable[] = {0602, 0620, 0660, 0622};
	struct sl_psk s;
	struct sl_err err = SL_ERR(256);

	write_key("0123456789abcdef\r\n", 18, 0600);
	ck_assert_int_eq(sl_psk_read(&s, key_path, &err), 0);
	ck_assert_uint_eq(s.len, 16);
	write_key("0123456789abcde\n", 16, 0600);
	ck_assert_int_eq(sl_psk_read(&s, key_path, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "16 to 1024"));
	write_key("0123456789abcdef\n", 17, 0644);
	ck_assert_int_eq(sl_psk_read(&s, key_path, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "others cannot read"));
	for (unsigned i = 0; i < SL_ARRAY_LEN(writable); i++) {
		write_key("0123456789abcdef\n", 17, writable[i]);
		ck_assert_int_eq(sl_psk_read(&s, key_path, &err), -1);
		ck_assert_ptr_nonnull(strstr(err.text, "the group cannot write"));
	}
	write_key("0123456789abcdef\n", 17, 0640);
	ck_assert_int_eq(sl_psk_read(&s, key_path, &err), 0);
	ck_assert_int_eq(chown(key_path, 1234, 0), 0);
	ck_assert_int_eq(sl_psk_read(&s, key_path, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "of root or this user"));
	ck_assert_int_eq(sl_psk_read(&s, "/tmp", &err), -1);
	ck_assert_int_eq(sl_psk_read(&s, "/nonexistent/key", &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/key"));
	ck_assert_int_eq(sl_psk_read(&s, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "needs a key file"));
}

TEST(an_address_has_a_host_and_a_port)
{
	static const char *const bad[] = {
		"",       ":1",         "10.0.0.1",     "10.0.0.1:",      "host:12",
		"[::1:5", "10.0.0.1:x", "10.0.0.300:1", "10.0.0.1:65536", "10.0.0.1:-1"};
	const struct sockaddr_in dotted = {.sin_family = AF_INET,
					   .sin_port = htons(7471),
					   .sin_addr.s_addr = htonl(0x0a000001)};
	struct sockaddr_storage sa;
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_listen_options opt = {.bulk_ring_len = 1 << 20, .slots = 64};

	ck_assert_int_eq(rdma_parse_addr("10.0.0.1:7471", &sa), 0);
	ck_assert_int_eq(sa.ss_family, AF_INET);
	ck_assert_mem_eq(&sa, &dotted, sizeof(dotted));
	ck_assert_int_eq(rdma_parse_addr("[fd99::1]:7471", &sa), 0);
	ck_assert_int_eq(sa.ss_family, AF_INET6);
	for (unsigned i = 0; i < SL_ARRAY_LEN(bad); i++)
		ck_assert_msg(rdma_parse_addr(bad[i], &sa) != 0, "%s", bad[i]);
	ck_assert_ptr_null(sl_rpc_listen("rdma://nonsense", &opt, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "10.0.0.2:7471"));
	ck_assert_ptr_null(sl_rpc_listen("rdma://10.0.0.1:7471", &opt, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "key file"));
}

/* --- with one --- */

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = batch->requests[i]->body,
						 .body_len = batch->requests[i]->body_len});
}

static struct backend_proc start_echo(const char *endpoint)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint, .on_batch = echo});
}

static void check_served(const char *ep)
{
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("still"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&g, c.done);
	ck_assert_mem_eq(c.body, "still", 5);
	gw_until(&g, g.batches_done == 1);
	gw_close(&g);
}

TEST_EACH(another_key_is_refused, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_rpc_dial_options opt = {.endpoint = ep,
					  .key_file = key_path,
					  .bulk_ring_len = 64 << 10,
					  .slots = 64,
					  .timeout_ms = 5000};
	struct sl_err err = SL_ERR(256);

	write_key("not the key of this suite", 25, 0600);
	check_served(ep);
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_msg(strstr(err.text, "same key file") != NULL, "%s", err.text);
	check_served(ep);
	backend_term(p);
}

enum evil {
	OUTSIDE_RING,
	OTHER_RKEY,
	SHORT_HEADER,
	WRONG_LENGTH,
	TOO_LONG,
	FORGED_CREDIT,
	FORGED_LENGTH,
	FORGED_OFFSET,
	FORGED_ID,
	LONG_CONTROL,
	LARGE_IN_A_SLOT,
	LARGE_OF_NOTHING,
	LARGE_BEYOND_RING,
	LARGE_BUT_SHORT,
	LARGE_BUT_LONG,
	FLOOD,
	EVIL_CNT
};

enum { LARGE = 8 << 10 };

static int post_raw(struct rc_conn *v, enum ibv_wr_opcode op, uint32_t len, uint64_t at,
		    uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)v->tx_slots, .length = len, .lkey = v->ring_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op}, *bad;

	wr.wr.rdma.remote_addr = at;
	wr.wr.rdma.rkey = rkey;
	v->base.credits.sent += op == IBV_WR_SEND; /* the peer says what it has taken */
	return ibv_post_send(v->qp.qp, &wr, &bad);
}

/* A header at the ring's first place, and what announces a message of `said` bytes there. */
static void announce_raw(struct rc_conn *v, uint32_t said)
{
	struct ibv_sge sge = {.addr = (uintptr_t)v->tx_slots,
			      .length = sizeof(struct sl_rpc_header),
			      .lkey = v->ring_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htonl(said)},
			   *bad;

	wr.wr.rdma.remote_addr = v->peer_bulk;
	wr.wr.rdma.rkey = v->peer_rkey;
	v->base.credits.sent++;
	ck_assert_int_eq(ibv_post_send(v->qp.qp, &wr, &bad), 0);
}

/* A peer that says nothing for seconds is taken for dead: once a second it says that it is not. */
static bool is_due(uint64_t *spoke_ns)
{
	uint64_t now_ns = sl_now_ns();
	bool due = now_ns - *spoke_ns > SL_NS_PER_SEC;

	if (due)
		*spoke_ns = now_ns;
	return due;
}

static void speak(struct rc_conn *v)
{
	const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST};

	memcpy(v->tx_slots, &ping, sizeof(ping));
	post_raw(v, IBV_WR_SEND, sizeof(ping), 0, 0);
}

/* As long as the announcement says. */
static uint32_t said_of(enum evil evil)
{
	switch (evil) {
	case LARGE_OF_NOTHING: return 0;
	case LARGE_IN_A_SLOT: return SL_RPC_SLOT_SIZE;
	case LARGE_BEYOND_RING: return UINT32_MAX;
	default: return sizeof(struct sl_rpc_header) + LARGE;
	}
}

/* The false field in the header of an otherwise valid message; the length that is really sent. */
static uint32_t forge(struct sl_rpc_header *h, enum evil evil)
{
	*h = (struct sl_rpc_header){.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
				    .flags = SL_RPC_FIRST | SL_RPC_LAST};
	if (evil == FORGED_OFFSET || evil == FORGED_ID) {
		h->version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST;
		h->flags = SL_RPC_BATCH | (evil == FORGED_ID ? SL_RPC_FIRST : 0);
		h->priority = SL_CLASS_NORMAL;
		h->count = 1;
		h->fragment_len = 64;
		h->total_or_offset = evil == FORGED_ID ? 64 : 1 << 30;
		h->id = (sl_rpc_boot_epoch() + (evil == FORGED_ID)) << 48 | 1;
		return sizeof(*h) + 64;
	}
	if (evil == LONG_CONTROL) {
		h->version_type = SL_RPC_VERSION << 4 | SL_RPC_CANCEL;
		h->count = LARGE / sizeof(uint64_t);
		h->fragment_len = LARGE;
	}
	if (evil == LARGE_IN_A_SLOT)
		h->fragment_len = RC_BODY_MAX; /* data of a PING, which is not read */
	if (evil >= LARGE_OF_NOTHING && evil <= LARGE_BUT_LONG) {
		h->version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST;
		h->flags |= SL_RPC_BATCH;
		h->priority = SL_CLASS_NORMAL;
		h->count = 1;
		h->id = sl_rpc_boot_epoch() << 48 | 1;
		h->fragment_len = said_of(evil) - (uint32_t)sizeof(*h);
		h->fragment_len += (uint32_t)(evil == LARGE_BUT_LONG) - (evil == LARGE_BUT_SHORT);
		h->total_or_offset = h->fragment_len;
	}
	if (evil == FORGED_CREDIT)
		h->consumed = 1000; /* acknowledges messages that were never sent */
	if (evil == FORGED_LENGTH)
		h->fragment_len = UINT32_MAX; /* acknowledges bytes in its ring */
	if (evil == WRONG_LENGTH)
		h->fragment_len = 100;
	return sizeof(*h);
}

static void do_evil(struct rc_conn *v, enum evil evil)
{
	struct sl_rpc_header h;
	uint32_t len = forge(&h, evil);

	memcpy(v->tx_slots, &h, sizeof(h));
	switch (evil) {
	case OUTSIDE_RING:
		post_raw(v, IBV_WR_RDMA_WRITE, 64, v->peer_bulk + v->base.credits.bulk_len - 32,
			 v->peer_rkey);
		break;
	case OTHER_RKEY:
		post_raw(v, IBV_WR_RDMA_WRITE, 64, v->peer_bulk, v->peer_rkey + 0x100);
		break;
	case SHORT_HEADER: post_raw(v, IBV_WR_SEND, len - 1, 0, 0); break;
	case WRONG_LENGTH: post_raw(v, IBV_WR_SEND, len + 99, 0, 0); break;
	case TOO_LONG: post_raw(v, IBV_WR_SEND, SL_RPC_SLOT_SIZE + 1, 0, 0); break;
	case LONG_CONTROL:
	case LARGE_OF_NOTHING:
	case LARGE_IN_A_SLOT:
	case LARGE_BEYOND_RING:
	case LARGE_BUT_SHORT:
	case LARGE_BUT_LONG: announce_raw(v, said_of(evil)); break;
	case FLOOD:
		/* Far more than its window, without ever reading an answer. */
		for (unsigned i = 0; i < 128 && !post_raw(v, IBV_WR_SEND, len, 0, 0); i++)
			;
		break;
	default: post_raw(v, IBV_WR_SEND, len, 0, 0);
	}
}

/* In one protection domain: the key of a neighbour's ring opens nothing. */
TEST_EACH(the_rkey_of_another_connection_opens_no_ring, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *neighbour = gw_dial(ep, 64, 64 << 10), *t = gw_dial(ep, 64, 64 << 10);
	struct rc_conn *victim = (struct rc_conn *)neighbour, *v = (struct rc_conn *)t;
	uint64_t spoke_ns = sl_now_ns();
	uint64_t until = spoke_ns + harness_timeout_s() * SL_NS_PER_SEC;

	post_raw(v, IBV_WR_RDMA_WRITE, 64, victim->peer_bulk, victim->peer_rkey);
	post_raw(v, IBV_WR_SEND, sizeof(struct sl_rpc_header), 0, 0);
	while (!v->gone) {
		struct sl_message m[4];

		(void)rc_check(t);
		(void)rc_poll(t, m, 4);
		rc_progress(t);
		if (is_due(&spoke_ns))
			speak(v);
		ck_assert_msg(sl_now_ns() < until, "the neighbour's ring is open");
	}
	(void)rc_check(neighbour);
	ck_assert(!victim->gone);
	sl_rpc_dial_drop(t);
	sl_rpc_dial_drop(neighbour);
	check_served(ep);
	backend_term(p);
}

/* Such a peer breaks its own channel; the others are served. */
TEST_EACH(an_evil_peer_breaks_its_own_channel_only, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);

	for (enum evil evil = 0; evil < EVIL_CNT; evil++) {
		struct sl_transport *t = gw_dial(ep, 64, 64 << 10);
		struct rc_conn *v = (struct rc_conn *)t;
		uint64_t spoke_ns = sl_now_ns();
		uint64_t until = spoke_ns + harness_timeout_s() * SL_NS_PER_SEC;

		do_evil(v, evil);
		while (!v->gone && evil != FLOOD) {
			struct sl_message m[4];

			(void)rc_check(t);
			(void)rc_poll(t, m, 4);
			rc_progress(t);
			if (is_due(&spoke_ns))
				speak(v);
			ck_assert_msg(sl_now_ns() < until, "evil %d goes unnoticed", evil);
		}
		check_served(ep);
		v->gone = true; /* no last words */
		t->ops->close(t);
	}
	check_served(ep);
	backend_term(p);
}

/* --- many connections, one receive queue --- */

enum { CROWD_MAX = 1024, SLOTS = 256 }; /* a backend takes no more of either */

/* The driver's counter of messages without a receive slot. */
static unsigned long rnr_cnt(void)
{
	static const char *const names[] = {"rcvd_rnr_err", "send_rnr_err"};
	unsigned long sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		char path[128], text[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/infiniband/rxe%u/ports/1/hw_counters/%s",
			 i / 2, names[i % 2]);
		f = fopen(path, "re");
		ck_assert_msg(f != NULL, "%s", path);
		ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
		fclose(f);
		sum += strtoul(text, NULL, 10);
	}
	return sum;
}

/* Both ends of a connection in this process. */
struct pair {
	const char *endpoint;
	struct sl_transport *dialer, *acceptor;
};

static void *dial_pair(void *arg)
{
	struct pair *p = arg;

	p->dialer = gw_dial(p->endpoint, 64, SL_RPC_MIN_BULK);
	return NULL;
}

static struct sl_rpc_listener *listen_here(const char *ep)
{
	const struct sl_rpc_listen_options opt = {
		.key_file = harness_key(), .slots = 64, .bulk_ring_len = SL_RPC_MIN_BULK};
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_listener *l = sl_rpc_listen(ep, &opt, &err);

	ck_assert_msg(l != NULL, "%s", err.text);
	return l;
}

static struct pair connect_pair(struct sl_rpc_listener *l, const char *ep)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct pair pair = {.endpoint = ep};
	pthread_t dialer;

	ck_assert_int_eq(pthread_create(&dialer, NULL, dial_pair, &pair), 0);
	while (!(pair.acceptor = l->ops->accept(l, sl_now_ns()))) {
		ck_assert_uint_lt(sl_now_ns(), until);
		sched_yield();
	}
	ck_assert_int_eq(pthread_join(dialer, NULL), 0);
	return pair;
}

static void drop_pair(struct pair *pair)
{
	sl_rpc_dial_drop(pair->dialer);
	sl_rpc_dial_drop(pair->acceptor);
}

/* A peer that serves others for long does not prevent connections. */
TEST_EACH(connecting_needs_no_time_of_the_accepting_thread, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	struct pair pair = {.endpoint = ep};
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	dial_pair(&pair);
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	pair.acceptor = l->ops->accept(l, sl_now_ns());
	ck_assert_ptr_nonnull(pair.acceptor);
	drop_pair(&pair);
	l->ops->close(l);
}

static struct ibv_qp_attr attributes(struct sl_transport *t, int mask)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(((struct rc_conn *)t)->qp.qp, &attr, mask, &init), 0);
	return attr;
}

/* The connection manager would set 655 ms, and retry for ever. */
TEST_EACH(retries_are_short_and_few, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	struct pair pair = connect_pair(l, ep);
	struct sl_transport *ends[] = {pair.dialer, pair.acceptor};

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_attr attr =
			attributes(ends[i], IBV_QP_MIN_RNR_TIMER | IBV_QP_RNR_RETRY);

		ck_assert_uint_eq(attr.min_rnr_timer, RC_RNR_TIMER);
		ck_assert_uint_eq(attr.rnr_retry, RC_RNR_RETRIES);
	}
	drop_pair(&pair);
	l->ops->close(l);
}

/* Some, as many as its own queue takes. */
static void flood(struct rc_conn *v)
{
	for (unsigned i = 0; i < 16; i++)
		(void)post_raw(v, IBV_WR_SEND, sizeof(struct sl_rpc_header), 0, 0);
	rc_progress(&v->base);
}

/* A peer that finds no slot ends, whatever the reason: here all its messages are lost. */
TEST_EACH(message_without_a_receive_slot_ends_its_connection, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct pair pair = connect_pair(l, ep);
	struct rc_conn *acceptor = (struct rc_conn *)pair.acceptor;
	struct sl_message m;
	int rc;

	/*
	 * A peer is not ended early that reads messages which arrived while this thread did not
	 * run.
	 */
	acceptor->rx_fifo.limit = UINT32_MAX;
	do {
		struct rc_rx_comp a;

		flood((struct rc_conn *)pair.dialer);
		rc_poll_rx(acceptor);
		while (rc_rx_fifo_pop(&acceptor->rx_fifo, &a))
			;
		rc = rc_poll(pair.dialer, &m, 1);
		ck_assert_uint_lt(sl_now_ns(), until);
	} while (rc >= 0);
	ck_assert_int_eq(rc, -ENOBUFS);
	drop_pair(&pair);
	l->ops->close(l);
}

static int post_ping(struct sl_transport *t)
{
	const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST};

	return t->ops->post(t, &ping, NULL, 0, 0);
}

static void fill_window(struct sl_transport *t)
{
	while (post_ping(t) == 0)
		;
	t->ops->flush(t);
}

static void take_messages(struct sl_transport *t)
{
	struct sl_message m[4];
	int n = t->ops->poll(t, m, 4);

	ck_assert_int_ge(n, 0);
	for (int i = 0; i < n; i++)
		t->ops->release(t, &m[i]);
}

static void stay_alive(struct sl_transport **t, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		take_messages(t[i]);
		ck_assert_int_eq(post_ping(t[i]), 0);
		t[i]->ops->flush(t[i]);
	}
}

/* In the peer's slots. */
static void await_arrival(struct sl_transport *t)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (((struct rc_conn *)t)->signaled) {
		t->ops->progress(t);
		ck_assert_int_eq(t->ops->check(t), 0);
		ck_assert_uint_lt(sl_now_ns(), until);
	}
}

/* The peer has taken them: a CREDIT comes for half a window. */
static void await_credit(struct sl_transport *t)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (t->credits.sent - t->credits.acked > t->credits.window / 2) {
		take_messages(t);
		ck_assert_uint_lt(sl_now_ns(), until);
	}
}

/* A peer that exceeds its window while the backend does not poll is ended by another thread. */
TEST_EACH(flooding_peer_takes_no_slot_from_others, rdma_cnt())
{
	enum { CNT = 4 };
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct pair pairs[CNT];
	struct sl_message m;
	int rc;

	for (unsigned i = 0; i < CNT; i++)
		pairs[i] = connect_pair(l, ep);
	/* As if it had come from another host than they. */
	((struct rc_conn *)pairs[0].acceptor)->path.gid[0] ^= 1;
	do {
		flood((struct rc_conn *)pairs[0].dialer);
		rc = rc_poll(pairs[0].dialer, &m, 1);
		ck_assert_uint_lt(sl_now_ns(), until);
	} while (rc >= 0);
	for (unsigned i = 1; i < CNT; i++) {
		ck_assert_int_eq(post_ping(pairs[i].dialer), 0);
		pairs[i].dialer->ops->flush(pairs[i].dialer);
		await_arrival(pairs[i].dialer);
	}
	ck_assert_int_eq(rc_poll(pairs[0].acceptor, &m, 1), -EPROTO);
	for (unsigned i = 0; i < CNT; i++)
		drop_pair(&pairs[i]);
	l->ops->close(l);
}

FIXTURE(NULL, NULL)

/* SL_RPC_CROWD: up to as many as a backend takes, where there is memory for it. */
static unsigned crowd_cnt(void)
{
	const char *text = getenv("SL_RPC_CROWD");
	unsigned cnt = text ? (unsigned)atoi(text) : 256;

	ck_assert_uint_le(cnt, CROWD_MAX);
	return cnt;
}

/*
 * Many gateways, all with full windows, while the backend does not poll. Each has a window, of the
 * same size for early and late peers as long as no peer uses it. Memory is that of the shared
 * receive queue, and no message meets an empty queue.
 */
TEST_EACH(each_of_a_crowd_has_a_window, rdma_cnt())
{
	static struct sl_transport *t[CROWD_MAX];
	const unsigned crowd = crowd_cnt();
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	uint64_t spoke_ns = sl_now_ns();
	unsigned long rnr;

	for (unsigned i = 0; i < crowd; i++) {
		if (is_due(&spoke_ns))
			stay_alive(t, i);
		t[i] = gw_dial(ep, 64, SL_RPC_MIN_BULK);
		ck_assert_uint_eq(t[i]->credits.window, SL_RPC_MIN_SLOTS);
		ck_assert_ptr_nonnull(strstr(t[i]->info, " shared slots"));
	}
	rnr = rnr_cnt();
	backend_pause(p);
	for (unsigned i = 0; i < crowd; i++)
		fill_window(t[i]);
	for (unsigned i = 0; i < crowd; i++) {
		await_arrival(t[i]);
		/* The last two slots are for CREDITs. */
		ck_assert_uint_eq(t[i]->credits.sent - t[i]->credits.acked,
				  t[i]->credits.window - 2);
	}
	kill(p.pid, SIGCONT);
	for (unsigned i = 0; i < crowd; i++)
		await_credit(t[i]);
	ck_assert_uint_eq(rnr_cnt(), rnr);
	for (unsigned i = 0; i < crowd; i++)
		sl_rpc_dial_drop(t[i]);
	sl_rpc_wait_closed();
	check_served(ep);
	backend_term(p);
}

/*
 * Takes `cnt` messages, one after the other, and then releases them all; nothing is flushed then.
 */
static void take_and_release(struct sl_transport *t, unsigned cnt)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_message m[SL_RPC_MIN_SLOTS];

	for (unsigned i = 0; i < cnt; i++) {
		ck_assert_int_eq(post_ping(t), 0);
		t->ops->flush(t);
		while (t->ops->poll(t, &m[i], 1) == 0)
			ck_assert_uint_lt(sl_now_ns(), until);
	}
	for (unsigned i = 0; i < cnt; i++)
		t->ops->release(t, &m[i]);
}

/* Few slots are told as free before they are, many not; behind the doorbell none is missing. */
TEST_EACH(few_slots_are_advertised_before_they_are_posted, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *t = gw_dial(ep, SLOTS, SL_RPC_MIN_BULK);
	const struct rc_conn *v = (struct rc_conn *)t;

	/* So few that no window is used up: then CREDITs that move it would come as well. */
	for (unsigned cnt = 1; cnt < SL_RPC_MIN_SLOTS / 2; cnt++) {
		take_and_release(t, cnt);
		ck_assert_uint_eq(v->released - v->reposted, cnt);
		ck_assert_int_eq(post_ping(t), 0);
		ck_assert_uint_eq(t->credits.advertised, v->released);
		ck_assert_uint_eq(v->released - v->reposted, cnt > SRQ_CREDITS_EARLY ? 0 : cnt);
		t->ops->flush(t);
		ck_assert_uint_eq(v->reposted, v->released);
	}
	sl_rpc_dial_drop(t);
	check_served(ep);
	backend_term(p);
}

/* Keeps the peer as busy as its window lets it, for some time. */
static void use(struct sl_transport *t)
{
	fill_window(t);
	take_messages(t);
}

/* Until its window, or what the backend may send, is that large, or small. */
static void use_until(struct sl_transport *t, uint32_t window)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (t->credits.window != window) {
		use(t);
		ck_assert_msg(sl_now_ns() < until, "of %u slots there are %u", window,
			      t->credits.window);
	}
}

/* As one that is used up to the last slot has. */
static struct sl_transport *dial_whole(const char *ep)
{
	struct sl_transport *t = gw_dial(ep, SLOTS, SL_RPC_MIN_BULK);

	use_until(t, SLOTS);
	await_credit(t);
	return t;
}

/*
 * A peer that uses its window gets a larger one, early or late; a peer that does not, or no longer,
 * gets the smallest.
 */
TEST_EACH(windows_go_to_connections_that_use_them, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *early = gw_dial(ep, SLOTS, SL_RPC_MIN_BULK), *late;
	uint64_t spoke_ns = sl_now_ns();
	uint64_t until = spoke_ns + harness_timeout_s() * SL_NS_PER_SEC;

	use_until(early, SLOTS);
	late = gw_dial(ep, SLOTS, SL_RPC_MIN_BULK);
	ck_assert_uint_eq(late->credits.window, SL_RPC_MIN_SLOTS);
	use_until(late, SLOTS);
	while (early->credits.window != SL_RPC_MIN_SLOTS) {
		use(late);
		take_messages(early);
		early->ops->flush(early);
		if (is_due(&spoke_ns))
			stay_alive(&early, 1);
		ck_assert_msg(sl_now_ns() < until, "it has %u", early->credits.window);
	}
	ck_assert_uint_eq(late->credits.window, SLOTS);
	use_until(early, SLOTS);
	sl_rpc_dial_drop(early);
	sl_rpc_dial_drop(late);
	check_served(ep);
	backend_term(p);
}

/*
 * A peer that breaks its channel with the first of many messages leaves no slot of its peer behind.
 */
TEST_EACH(a_broken_channel_leaves_no_slots_behind, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);

	for (unsigned round = 0; round < 60; round++) {
		struct sl_transport *t = dial_whole(ep);

		backend_pause(p);
		do_evil((struct rc_conn *)t, SHORT_HEADER);
		fill_window(t);
		await_arrival(t);
		sl_rpc_dial_drop(t);
		kill(p.pid, SIGCONT);
	}
	check_served(ep);
	backend_term(p);
}

/* Until all are closed, none of which hears that its last words have arrived. */
static uint64_t time_close(struct sl_transport **t, unsigned cnt, uint64_t *closed_ns)
{
	uint64_t begun;

	for (unsigned i = 0; i < cnt; i++) {
		fill_window(t[i]);
		((struct rc_conn *)t[i])->signaled++;
	}
	begun = sl_now_ns();
	for (unsigned i = 0; i < cnt; i++)
		t[i]->ops->close(t[i]);
	*closed_ns = sl_now_ns() - begun;
	sl_rpc_wait_closed();
	return sl_now_ns() - begun;
}

/* close() hands over to another thread, where all waits overlap, so that no caller is delayed. */
TEST_EACH(closing_does_not_block_the_caller, rdma_cnt())
{
	enum { CNT = 20 };
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *t[CNT];
	uint64_t of_one, of_all, closed;

	t[0] = gw_dial(ep, 64, SL_RPC_MIN_BULK);
	of_one = time_close(t, 1, &closed);
	for (unsigned i = 0; i < CNT; i++)
		t[i] = gw_dial(ep, 64, SL_RPC_MIN_BULK);
	of_all = time_close(t, CNT, &closed);
	ck_assert_uint_lt(closed, CNT / 2 * of_one);
	ck_assert_uint_lt(of_all, CNT / 2 * of_one);
	check_served(ep);
	backend_term(p);
}

/* --- several connections --- */

/* A ping goes from one end to the other. */
static void check_carries(struct sl_transport *from, struct sl_transport *to)
{
	const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST};
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_message m;
	int n;

	ck_assert_int_eq(from->ops->post(from, &ping, NULL, 0, 0), 0);
	from->ops->flush(from);
	while ((n = to->ops->poll(to, &m, 1)) == 0)
		ck_assert_uint_lt(sl_now_ns(), until);
	ck_assert_int_eq(n, 1);
	ck_assert_uint_eq(m.header.version_type & 15, SL_RPC_PING);
	to->ops->release(to, &m);
}

static void check_pair(struct pair *pair)
{
	check_carries(pair->dialer, pair->acceptor);
	check_carries(pair->acceptor, pair->dialer);
}

/* Milliseconds until it is known there that the other end is gone. */
static unsigned ms_until_gone(struct sl_transport *t)
{
	uint64_t begun_ns = sl_now_ns();
	struct sl_message m;

	while (t->ops->check(t) == 0 && t->ops->poll(t, &m, 1) == 0) {
		ck_assert_uint_lt(sl_now_ns() - begun_ns, harness_timeout_s() * SL_NS_PER_SEC);
		usleep(1000);
	}
	return (unsigned)((sl_now_ns() - begun_ns) / SL_NS_PER_MS);
}

/* The device gives up after this time without an answer; a caller is informed long before. */
enum { UNTOLD_MS = 3500 };

/* No connection has a part in how long the others live. */
TEST_EACH(connections_of_two_processes_end_apart, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	struct pair first = connect_pair(l, ep), second = connect_pair(l, ep), third;

	check_pair(&first);
	check_pair(&second);
	drop_pair(&first);
	sl_rpc_wait_closed();
	check_pair(&second);
	third = connect_pair(l, ep);
	check_pair(&third);
	check_pair(&second);
	drop_pair(&second);
	drop_pair(&third);
	sl_rpc_wait_closed();
	first = connect_pair(l, ep);
	check_pair(&first);
	drop_pair(&first);
	l->ops->close(l);
}

/* Slices are counted in packets: a wrong packet size cuts large messages into small ones. */
TEST_EACH(packet_length_of_each_end_equals_its_path_mtu, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	struct pair first = connect_pair(l, ep), second = connect_pair(l, ep);
	struct sl_transport *ends[] = {first.dialer, first.acceptor, second.dialer,
				       second.acceptor};

	for (unsigned i = 0; i < 4; i++) {
		struct ibv_qp_attr attr = attributes(ends[i], IBV_QP_PATH_MTU);

		ck_assert_uint_eq(((struct rc_conn *)ends[i])->packet_len, 128u << attr.path_mtu);
		ck_assert_uint_eq(ends[i]->slice_min, ends[0]->slice_min);
	}
	drop_pair(&first);
	drop_pair(&second);
	l->ops->close(l);
}

/* Closing one of several connections informs the peer of that one. */
TEST_EACH(closing_one_of_several_connections_informs_its_peer, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct sl_rpc_listener *l = listen_here(ep);
	struct pair pairs[3];

	for (unsigned i = 0; i < 3; i++)
		pairs[i] = connect_pair(l, ep);
	sl_rpc_dial_drop(pairs[1].dialer);
	ck_assert_uint_lt(ms_until_gone(pairs[1].acceptor), UNTOLD_MS);
	sl_rpc_dial_drop(pairs[1].acceptor);
	sl_rpc_dial_drop(pairs[0].acceptor);
	ck_assert_uint_lt(ms_until_gone(pairs[0].dialer), UNTOLD_MS);
	sl_rpc_dial_drop(pairs[0].dialer);
	check_pair(&pairs[2]);
	drop_pair(&pairs[2]);
	l->ops->close(l);
}

static enum sl_rpc_probe_result word_about(const char *ep, uint32_t number)
{
	const struct sl_rpc_dial_options opt = {
		.endpoint = ep, .key_file = harness_key(), .slots = 64, .timeout_ms = 20000};

	return sl_rpc_probe_peer(&opt, number);
}

/* A process that was killed, and the next one, say that a connection is gone. */
TEST_EACH(a_killed_process_is_missed_by_probes, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *t = gw_dial(ep, 64, SL_RPC_MIN_BULK);
	uint32_t number = t->number;

	ck_assert_uint_ne(number, 0);
	ck_assert_int_eq(word_about(ep, number), SL_RPC_PROBE_ALIVE);
	ck_assert_int_eq(word_about(ep, number + 1), SL_RPC_PROBE_REMOVED);
	backend_kill(p);
	ck_assert_int_eq(word_about(ep, number), SL_RPC_PROBE_REFUSED);
	p = start_echo(ep);
	check_served(ep);
	ck_assert_int_eq(word_about(ep, number), SL_RPC_PROBE_REMOVED);
	sl_rpc_dial_drop(t);
	backend_term(p);
}

TEST_EACH(a_restarted_peer_is_dialled_again, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep);
	struct sl_transport *t = gw_dial(ep, 64, SL_RPC_MIN_BULK);

	for (unsigned i = 0; i < 3; i++) {
		backend_kill(p);
		p = start_echo(ep);
		check_served(ep);
		check_served(ep);
	}
	sl_rpc_dial_drop(t);
	backend_term(p);
}

/* --- forks --- */

static void open_and_drop(const char *ep)
{
	sl_rpc_dial_drop(gw_dial(ep, 64, SL_RPC_MIN_BULK));
	sl_rpc_wait_closed();
}

/* A process that has closed connections, and so has a thread that closes them, may fork. */
TEST_EACH(a_process_that_has_closed_connections_may_fork, rdma_cnt())
{
	const char *ep = rdma_endpoint(_i);
	struct backend_proc p = start_echo(ep), child;

	open_and_drop(ep);
	for (unsigned i = 0; i < 5; i++) {
		child.pid = fork();
		ck_assert_int_ge(child.pid, 0);
		if (!child.pid) {
			signal(SIGALRM, SIG_DFL);
			alarm(harness_timeout_s());
			for (unsigned n = 0; n < 3; n++)
				open_and_drop(ep);
			_exit(0);
		}
		ck_assert_int_eq(backend_wait(child), 0);
		open_and_drop(ep);
	}
	backend_term(p);
}
