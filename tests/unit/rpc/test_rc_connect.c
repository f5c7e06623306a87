/* SPDX-License-Identifier: Apache-2.0 */
/* Dialing RC connections: both ends together, failures, replies that lie, and probes of peers. */
#include "rc_wireup_bed.h"

#include "rpc/rdma/async_event.h"

FIXTURE(bed_up, bed_down)

static unsigned queries;
static struct sl_rpc_rdma asked;

static int count_query(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	queries++;
	asked = *q->rdma;
	return bed_resolve(q, h, why);
}

/* The client's first message reaches the listener's end. */
static void carry_ack(struct rc_conn *client, struct rc_conn *server)
{
	const struct fake_qp *qp = fake_qp(client);
	const struct fake_send *s = &qp->sends[(qp->posted - 1) % FAKE_SENDS];

	ck_assert_int_eq(s->opcode, IBV_WR_SEND);
	ck_assert_uint_eq(s->sge[0].length, SL_PSK_MAC_LEN);
	ck_assert(fake_arrive(server, (const void *)(uintptr_t)s->sge[0].addr, s->sge[0].length));
	fake_complete(client, UINT32_MAX);
}

static struct ends {
	struct rc_conn *client, *server;
} both;

static void connect_both(void)
{
	both.client = try_to_dial();
	ck_assert_msg(both.client != NULL, "%s", said);
	both.server = first_pending()->conn;
	carry_ack(both.client, both.server);
	ck_assert_int_eq(rc_conn_poll_ack(both.server), 1);
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), 0);
	first_pending()->conn = NULL;
	listener->base.unaccepted--;
}

static void close_both(void)
{
	both.client->base.ops->close(&both.client->base);
	both.server->base.ops->close(&both.server->base);
	sl_rdma_wait_closed();
}

TEST(both_ends_know_each_other)
{
	connect_both();
	ck_assert_int_eq(fake_qp(both.client)->state, IBV_QPS_RTS);
	ck_assert_int_eq(fake_qp(both.server)->state, IBV_QPS_RTS);
	ck_assert_uint_eq(both.client->peer_bulk, (uintptr_t)both.server->rx_bulk);
	ck_assert_uint_eq(both.server->peer_bulk, (uintptr_t)both.client->rx_bulk);
	ck_assert_uint_eq(both.client->peer_rkey, both.server->rkey);
	ck_assert_uint_eq(both.server->peer_rkey, both.client->rkey);
	ck_assert_uint_eq(both.client->base.peer_epoch, sl_rpc_boot_epoch());
	ck_assert_uint_eq(both.server->base.peer_epoch, sl_rpc_boot_epoch());
	ck_assert_uint_eq(both.server->base.link, 99);
	ck_assert_uint_eq(both.server->base.peer_worker, GROUP);
	ck_assert_uint_ne(both.client->base.number, 0);
	ck_assert_ptr_nonnull(strstr(both.client->base.info, " mtu 4096 RC, 64 shared slots"));
	close_both();
}

/* A ring that the backend makes smaller begins where the request said. */
TEST(a_smaller_ring_begins_at_the_same_address)
{
	struct sl_rpc_dial_options opt = dial_options();

	listener->max_sizes.slots = SLOTS / 2;
	connect_both();
	ck_assert_uint_eq(both.client->mask, SLOTS / 2 - 1);
	ck_assert_uint_eq(both.client->bulk_len, opt.bulk_ring_len);
	close_both();
}

/* The listener's queue pair is asked for once per path, until a GID table changes. */
TEST(a_listener_is_found_once_per_path)
{
	bed_device.sidr_resolve = count_query;
	connect_both();
	close_both();
	connect_both();
	close_both();
	ck_assert_uint_eq(queries, 1);
	async_event_dispatch(&fake.context,
			     &(struct ibv_async_event){.event_type = IBV_EVENT_GID_CHANGE});
	connect_both();
	close_both();
	ck_assert_uint_eq(queries, 2);
}

/* A cached listener that has moved is found again. */
TEST(a_listener_that_has_moved_is_found_again)
{
	struct sl_err err = SL_ERR(128);

	bed_device.sidr_resolve = count_query;
	connect_both();
	close_both();
	listener->base.ops->close(&listener->base);
	listener = (struct rc_listener *)try_to_listen(&err);
	ck_assert_msg(listener != NULL, "%s", err.text);
	connect_both();
	close_both();
	ck_assert_uint_eq(queries, 2);
}

/* A listener that answers after all tries makes one connection, and the dialer gets that one. */
TEST(a_slow_listener_makes_one_connection)
{
	struct rc_pending *p;
	void *client = NULL;
	pthread_t thread;

	bed_device.sidr_resolve = count_query;
	connect_both();
	close_both();
	ck_assert_int_eq(pthread_create(&thread, NULL, dial, NULL), 0);
	until(queries == 2);
	until((turn(), pthread_tryjoin_np(thread, &client) == 0));
	ck_assert_msg(client != NULL, "%s", said);
	ck_assert_uint_eq(pending_cnt(), 1);
	p = first_pending();
	ck_assert_uint_eq(p->creq.qpn, ((struct rc_conn *)client)->qp.qp->qp_num);
	((struct sl_transport *)client)->ops->close(client);
	sl_rdma_wait_closed();
}

/* A connection passes through the listener's own thread, too. */
TEST(the_listener_accepts_by_its_thread)
{
	struct sl_transport *server;
	struct rc_pending *p;
	void *client = NULL;
	pthread_t thread;

	ck_assert_ptr_null(accepted());
	ck_assert_int_eq(pthread_create(&thread, NULL, dial, NULL), 0);
	until(pthread_tryjoin_np(thread, &client) == 0);
	ck_assert_msg(client != NULL, "%s", said);
	p = first_pending();
	carry_ack(client, p->conn);
	ck_assert_int_eq(eventfd_write(listener->wake, 1), 0);
	until((server = accepted()) != NULL);
	ck_assert_uint_eq(server->link, 99);
	server->ops->close(server);
	((struct sl_transport *)client)->ops->close(client);
	sl_rdma_wait_closed();
}

/* --- failures --- */

static struct {
	unsigned pds, cqs, bells, qps, mws;
} before;

static void make_ahead(void)
{
	unsigned steps = fake.steps, fail_at = fake.fail_at;

	fake.fail_at = 0;
	rc_ifaces_schedule_refill();
	sl_rdma_wait_closed();
	fake.steps = steps;
	fake.fail_at = fail_at;
}

static void dial_in_vain(const char *meaning)
{
	make_ahead();
	before.pds = fake.pds, before.cqs = fake.cqs, before.bells = fake.bells;
	before.qps = fake.qps, before.mws = fake.mws;
	ck_assert_ptr_null(try_to_dial());
	ck_assert_msg(strstr(said, meaning) != NULL, "%s", said);
	ck_assert_ptr_nonnull(strstr(said, endpoint));
	sl_rdma_wait_closed();
	make_ahead();
	ck_assert_uint_eq(fake.qps, before.qps);
	ck_assert_uint_eq(fake.mws, before.mws);
	ck_assert_uint_eq(fake.cqs, before.cqs);
	ck_assert_uint_eq(fake.bells, before.bells);
	ck_assert_uint_eq(fake.pds, before.pds);
}

TEST(another_key_is_named)
{
	connect_both(); /* shared objects exist from now on */
	close_both();
	listener->wireup.psk = sl_psk_of("of the tests, for all of then", 29);
	dial_ms = 1000;
	dial_in_vain("give both ends the same key file");
	ck_assert_uint_eq(pending_cnt(), 0);
	ck_assert_uint_gt(listener->wireup.refused, 0);
}

TEST(a_device_without_shared_queues_names_the_other_scheme)
{
	fake.alone = true;
	ck_assert_ptr_null(try_to_dial());
	ck_assert_ptr_nonnull(strstr(said, "use rdma+ud://"));
	fake.alone = false;
}

/* What the listener replies instead, with or without a proof of its own; the last one of each. */
static struct sl_wireup_crep lie;
static bool proves;

static void send_lie(struct ud_qp *p, struct ibv_ah *ah, uint32_t qpn, uint32_t len)
{
	uint8_t *to = sockets->tx_buf(p);
	struct sl_wireup_creq h;
	struct sl_wireup_crep a;

	if (len == sizeof(a)) {
		memcpy(&a, to, sizeof(a));
		memcpy(&h, last_seen(sizeof(h))->bytes, sizeof(h));
		lie.magic = a.magic;
		lie.version = a.version;
		lie.number = a.number;
		lie.epoch = a.epoch;
		if (proves)
			wireup_crep_sign(&secret, &h, &lie);
		memcpy(to, &lie, sizeof(lie));
	}
	sockets->send(p, ah, qpn, len);
}

TEST(each_reply_has_its_meaning)
{
	const struct sl_wireup_crep granted = {.slots = SLOTS, .bulk_len = RING, .mtu = 4096};
	struct {
		struct sl_wireup_crep reply;
		const char *meaning;
	} cases[] = {{{.verdict = SL_WIREUP_FULL}, "as many connections"},
		     {{.verdict = SL_WIREUP_BAD_SIZES}, "does not grant these sizes"},
		     {{.verdict = SL_WIREUP_EP_REMOVED}, "not a sluice HELLO"},
		     {{.verdict = 99}, "not a sluice HELLO"},
		     {granted, "not a sluice HELLO"},
		     {granted, "not a sluice HELLO"},
		     {granted, "not a sluice HELLO"},
		     {granted, "not a sluice HELLO"}};

	cases[4].reply.slots = 2 * SLOTS;
	cases[5].reply.bulk_len = 2 * RING;
	cases[6].reply.mtu = 255;
	cases[7].reply.mtu = 8192;
	bed_device.send = send_lie;
	proves = true;
	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		lie = cases[i].reply;
		ck_assert_ptr_null(try_to_dial());
		ck_assert_msg(strstr(said, cases[i].meaning) != NULL, "case %zu: %s", i, said);
	}
}

/* --- the attacker's replies --- */

/*
 * Runs a thread while the listener answers SIDR only, and the attacker each CREQ. Returns its
 * result.
 */
static void *run_beside(void *(*run)(void *), void *arg,
			void (*answer)(const struct sl_wireup_creq *h))
{
	struct sl_wireup_creq h;
	void *result = NULL;
	pthread_t thread;
	unsigned at;

	turn(); /* the queue pair is open */
	at = seen_cnt;
	dial_ms = 1000; /* a cached listener is asked for 350 ms */
	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
	while (pthread_tryjoin_np(thread, &result)) {
		wireup_listener_turn(&listener->wireup, sl_now_ns());
		for (; at != seen_cnt; at++) {
			ck_assert_uint_eq(seen[at % SEEN_MAX].len, sizeof(h));
			memcpy(&h, seen[at % SEEN_MAX].bytes, sizeof(h));
			answer(&h);
		}
		usleep(100);
	}
	return result;
}

/* A request that comes back; padded or cut, too. */
static void reflect(const struct sl_wireup_creq *h)
{
	throw_at(h, sizeof(*h), h->answer_qpn);
	throw_at(h, sizeof(struct sl_wireup_crep), h->answer_qpn);
}

static struct sl_wireup_crep recorded;

/* The reply to an earlier request, as it was and for this one's number. */
static void replay(const struct sl_wireup_creq *h)
{
	struct sl_wireup_crep a = recorded;

	throw_at(&a, sizeof(a), h->answer_qpn);
	a.number = h->number;
	throw_at(&a, sizeof(a), h->answer_qpn);
}

static void grant_without_key(const struct sl_wireup_creq *h)
{
	struct sl_wireup_crep a = {.magic = SL_WIREUP_MAGIC,
				   .version = SL_UD_VERSION,
				   .epoch = sl_rpc_boot_epoch(),
				   .number = h->number,
				   .slots = h->slots,
				   .bulk_len = h->bulk_len,
				   .mtu = h->mtu,
				   .qpn = 1};

	throw_at(&a, sizeof(a), h->answer_qpn);
	memcpy(a.proof, h->proof, sizeof(a.proof));
	throw_at(&a, sizeof(a), h->answer_qpn);
}

TEST_EACH(a_reply_of_an_attacker_connects_nothing, 3)
{
	void (*const attacks[])(const struct sl_wireup_creq *h) = {reflect, replay,
								   grant_without_key};

	connect_both();
	memcpy(&recorded, last_seen(sizeof(recorded))->bytes, sizeof(recorded));
	ck_assert_ptr_null(run_beside(dial, NULL, attacks[_i]));
	ck_assert_ptr_nonnull(strstr(said, "same key file"));
	close_both();
}

/* --- liveness --- */

static void *ask(void *number)
{
	struct sl_rpc_dial_options opt = dial_options();

	return (void *)(uintptr_t)sl_rpc_probe_peer(&opt, (uint32_t)(uintptr_t)number);
}

static enum sl_rpc_probe_result word_about(uint32_t number)
{
	pthread_t thread;
	void *word;

	ck_assert_int_eq(pthread_create(&thread, NULL, ask, (void *)(uintptr_t)number), 0);
	until((turn(), pthread_tryjoin_np(thread, &word) == 0));
	return (enum sl_rpc_probe_result)(uintptr_t)word;
}

TEST(a_peer_says_which_connections_it_has)
{
	uint32_t number;

	connect_both();
	number = both.client->base.number;
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_ALIVE);
	ck_assert_int_eq(word_about(number + 1000), SL_RPC_PROBE_REMOVED);
	ck_assert_uint_eq(pending_cnt(), 0); /* a question makes none */
	both.server->gone = true;
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_REMOVED);
	close_both();
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_REMOVED);
}

/* The question is about the asking process and its host. */
TEST(a_connection_belongs_to_its_process_and_host)
{
	connect_both();
	ck_assert(
		rc_conns_has(sl_rpc_boot_epoch(), both.server->path.gid, both.client->base.number));
	ck_assert(!rc_conns_has(sl_rpc_boot_epoch() + 1, both.server->path.gid,
				both.client->base.number));
	ck_assert(!rc_conns_has(sl_rpc_boot_epoch(), (uint8_t[16]){9}, both.client->base.number));
	close_both();
}

static void remove_without_key(const struct sl_wireup_creq *h)
{
	struct sl_wireup_crep a = recorded;

	throw_at(&a, sizeof(a), h->answer_qpn); /* a true one, to an earlier question */
	a.number = h->number;
	throw_at(&a, sizeof(a), h->answer_qpn);
	memset(a.proof, 0, sizeof(a.proof));
	throw_at(&a, sizeof(a), h->answer_qpn);
}

/* Only an end with the key can say that a connection is gone, and only to this question. */
TEST(a_forged_end_of_a_connection_is_ignored)
{
	void *word;

	connect_both();
	ck_assert_int_eq(word_about(both.client->base.number + 1000), SL_RPC_PROBE_REMOVED);
	memcpy(&recorded, last_seen(sizeof(recorded))->bytes, sizeof(recorded));
	ck_assert_uint_eq(recorded.verdict, SL_WIREUP_EP_REMOVED);
	word = run_beside(ask, (void *)(uintptr_t)both.client->base.number, remove_without_key);
	ck_assert_int_eq((int)(uintptr_t)word, SL_RPC_PROBE_NONE);
	close_both();
}

/* Silence is the time since which an acknowledgement is owed; a port that is down owes none. */
TEST(an_unacknowledged_message_is_silence)
{
	connect_both();
	v = both.client;
	t = &v->base;
	v->base.credits.window = SLOTS;
	ck_assert(t->ops->arm(t, false));
	ck_assert_uint_eq(t->silent_ns, 0);
	send_from(memory, SMALL, 0);
	ck_assert(t->ops->arm(t, false));
	ck_assert_uint_ne(t->silent_ns, 0);
	ck_assert(v->tx_armed); /* the acknowledgement wakes the owner */
	fake_complete(v, UINT32_MAX);
	t->ops->progress(t);
	ck_assert_uint_eq(t->silent_ns, 0);
	send_from(memory, SMALL, 0);
	v->port_down = true;
	(void)t->ops->arm(t, false);
	ck_assert_uint_eq(t->silent_ns, 0);
	close_both();
}
