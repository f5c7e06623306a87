/* SPDX-License-Identifier: Apache-2.0 */
/* Wireup by datagrams with a known peer, by the path of the first connection only. */
#include "rc_bed.h"
#include <poll.h>
#include "base/clock.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/rc/wireup.h"
#include "suite.h"

static struct sl_psk secret;
static struct sockaddr_storage peer;
static struct wireup_request heard;
static uint8_t marked; /* the way's, by which it came */

/* --- a door there that grants --- */

static struct ud_qp here = {.qpn = 3, .mtu = UD_MTU_MAX};
static uint8_t slot[UD_MTU_MAX];
static struct wireup_reply welcome;
static bool answered;

static struct ud_qp *door_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			       uint32_t tx_cnt, int *rc)
{
	(void)l, (void)group, (void)rx_cnt, (void)tx_cnt;
	*rc = 0;
	return &here;
}

static uint8_t *door_slot(struct ud_qp *p)
{
	(void)p;
	return slot;
}

static void door_send(struct ud_qp *p, struct ibv_ah *way, uint32_t qpn, uint32_t len)
{
	struct wireup_transcript said;

	(void)p, (void)way, (void)qpn;
	ck_assert_uint_eq(len, sizeof(heard));
	memcpy(&heard, slot, sizeof(heard));
	said.request = heard;
	said.to = (struct wireup_target){.epoch = 9, .qpn = 5};
	ck_assert(wireup_verify(&secret, &said, WIREUP_REQUEST, heard.proof));
	said.reply = (struct wireup_reply){.magic = WIREUP_MAGIC,
					   .version = RC_WIRE_VERSION,
					   .verdict = RC_GRANTED,
					   .epoch = 9,
					   .number = heard.number,
					   .slots = heard.slots,
					   .bulk_len = heard.bulk_len,
					   .qpn = 77};
	wireup_sign(&secret, &said, WIREUP_REPLY, said.reply.proof);
	welcome = said.reply;
	answered = true;
}

static int door_ring(struct ud_qp *p)
{
	(void)p;
	return 0;
}

static int door_poll(struct ud_qp *p, struct ud_packet *packets, unsigned max)
{
	(void)p;
	if (!answered || !max)
		return 0;
	answered = false;
	packets[0] = (struct ud_packet){.bytes = (uint8_t *)&welcome, .len = sizeof(welcome)};
	return 1;
}

static int door_put_back(struct ud_qp *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p, (void)packets, (void)cnt;
	return 0;
}

static struct ibv_ah *door_way(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	(void)gid;
	marked = tos;
	return l->device;
}

static void door_way_gone(struct ibv_ah *ah)
{
	(void)ah;
}

static const struct rdma_device_ops device = {
	.open = door_open,
	.tx_buf = door_slot,
	.send = door_send,
	.flush = door_ring,
	.poll = door_poll,
	.repost = door_put_back,
	.ah_create = door_way,
	.ah_destroy = door_way_gone,
};

/* --- known peers --- */

/* The first connection, by that way. */
static void meet(const struct sl_rpc_rdma *by)
{
	set_up();
	rdma_device = &device;
	ck_assert_int_eq(rdma_parse_addr("192.0.2.9:7471", &peer), 0);
	fake.tos = by->tos;
	fake.addressed = true;
	fake_address(v->peer->id);
	v->port_num = v->peer->id->port_num;
	rc_peer_publish(v->peer, v->qp.qp,
			&(struct rc_peer_addr){.sa = peer,
					       .path = rdma_path_spec_of(by),
					       .epoch = 9,
					       .wireup_qpn = 5,
					       .slots = SLOTS,
					       .bulk_len = SL_RPC_MIN_BULK});
	ck_assert(v->peer->published);
}

static uint64_t series_to_peer(void)
{
	uint8_t series[AUTH_SENDER_ID_LEN];

	ck_assert_int_eq(auth_sender_id(&peer, series), 0);
	return auth_sender_id_word(series);
}

static struct rc_conn *dial(const struct sl_rpc_rdma *by)
{
	const struct sl_rpc_dial_options opt = {
		.rdma = *by, .bulk_ring_len = SL_RPC_MIN_BULK, .slots = SLOTS, .worker = GROUP};

	secret = sl_psk_of("of the tests", 12);
	return wireup_connect(&opt, &peer, &secret, UINT64_MAX / 4);
}

static void change_gids(uint8_t port)
{
	async_event_dispatch(v->device,
			     &(struct ibv_async_event){.element = {.port_num = port},
						       .event_type = IBV_EVENT_GID_CHANGE});
}

static const struct sl_rpc_rdma ways[] = {
	{.port = 0},         {.source = "192.0.2.2"},      {.source = "192.0.2.3"},
	{.device = "fake0"}, {.device = "fake1"},          {.port = 2},
	{.tos = 104},        {.device = "fake0", .tos = 8}};

/* The path's traffic class is in its datagram and on its queue pair. */
TEST_EACH(a_peer_known_by_a_path_is_dialled_by_datagrams, SL_ARRAY_LEN(ways))
{
	const struct sl_rpc_rdma by = ways[_i];
	struct rc_conn *second;

	meet(&by);
	second = dial(&by);
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_eq(second->peer, v->peer);
	ck_assert_uint_eq(heard.tos, by.tos);
	ck_assert_uint_eq(auth_sender_id_word(heard.sender_id), series_to_peer());
	ck_assert_uint_eq(marked, by.tos);
	ck_assert_uint_eq(fake_qp(second)->way.grh.traffic_class, by.tos);
	second->base.ops->close(&second->base);
	tear_down();
}

TEST_EACH(a_peer_known_by_another_path_is_not, SL_ARRAY_LEN(ways))
{
	meet(&ways[_i]);
	for (int i = 0; i < (int)SL_ARRAY_LEN(ways); i++) {
		if (i != _i)
			ck_assert_ptr_null(dial(&ways[i]));
	}
	ck_assert_uint_eq(heard.magic, 0);
	tear_down();
}

/* The kernel is not asked again for the path of the first connection. */
TEST(the_path_to_a_known_peer_is_queried_once)
{
	struct rc_conn *second;
	unsigned queries;

	meet(&ways[0]);
	queries = fake.queries;
	second = dial(&ways[0]);
	ck_assert_ptr_nonnull(second);
	rc_conn_set_info(v, "");
	rc_conn_set_info(second, "");
	ck_assert_uint_eq(fake.queries, queries);
	ck_assert_str_eq(second->base.info, v->base.info);
	ck_assert_ptr_nonnull(strstr(second->base.info, " mtu 1024 RC"));
	ck_assert_uint_eq(second->packet_len, 1024);
	ck_assert_uint_eq(second->base.rate_bps, v->base.rate_bps);
	second->base.ops->close(&second->base);
	tear_down();
}

/* A change of the port's GID table: a known peer's address vector may be wrong, so the CM asks again. */
TEST(a_peer_is_dialled_by_the_cm_after_a_gid_change_of_its_port)
{
	struct rc_conn *second;

	meet(&ways[0]);
	change_gids(1);
	second = dial(&ways[0]);
	ck_assert_ptr_nonnull(second);
	change_gids(2);
	ck_assert(!v->peer->published);
	ck_assert_ptr_null(dial(&ways[0]));
	second->base.ops->close(&second->base);
	tear_down();
}

/* Its queue pair is kept for the others, in the domain of them all. */
TEST(the_first_one_may_end_before_the_others)
{
	struct rc_conn *second;
	unsigned pds;

	meet(&ways[0]);
	second = dial(&ways[0]);
	ck_assert_ptr_nonnull(second);
	pds = fake.pds;
	t->ops->close(t);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.pds, pds);
	v = second;
	t = &second->base;
	tear_down();
}

/* The connection manager says it, to another thread. */
static void say(enum rdma_cm_event_type event)
{
	fake.cm_event = (struct rdma_cm_event){.id = v->peer->id, .event = event};
	ck_assert_int_eq(eventfd_write(v->peer->cm->fd, 1), 0);
}

static void until_gone(struct rc_conn *of)
{
	uint64_t end_ns = sl_now_ns() + 3 * SL_NS_PER_SEC;

	while (of->base.ops->check(&of->base) == 0) {
		ck_assert_uint_lt(sl_now_ns(), end_ns);
		usleep(1000);
	}
}

/* The process has died; both connections hear it, also the one by wireup. */
static void disconnect(struct rc_conn *second)
{
	say(RDMA_CM_EVENT_DISCONNECTED);
	until_gone(v);
	while (!second->peer_state || !fake.disconnects)
		usleep(1000);
}

/* One beside the connection manager's, with nothing under way; v is that. */
static struct rc_conn *join(void)
{
	struct rc_conn *second;

	meet(&ways[0]);
	second = dial(&ways[0]);
	ck_assert_ptr_nonnull(second);
	fake_complete(second, UINT32_MAX);
	ck_assert(second->base.ops->arm(&second->base, false));
	return second;
}

static void leave(struct rc_conn *second)
{
	second->base.ops->close(&second->base);
	tear_down();
}

static unsigned under_way(struct rc_conn *of)
{
	return fake_qp(of)->posted - fake_qp(of)->done;
}

/*
 * The connection manager reports the peer's death, which can be forged. It ends the connection that
 * it has made, and others only if the peer's device does not answer.
 */
TEST_EACH(a_cm_disconnect_probes_the_other_connections, 2)
{
	struct rc_conn *second = join();
	const struct fake_send *asked;

	disconnect(second);
	ck_assert_ptr_null(dial(&ways[0])); /* no connection joins any more */
	ck_assert_int_eq(second->base.ops->check(&second->base), 0);
	ck_assert_uint_eq(under_way(second), 1);
	asked = &fake_qp(second)->sends[fake_qp(second)->done % FAKE_SENDS];
	ck_assert_int_eq(asked->opcode, IBV_WR_RDMA_WRITE);
	ck_assert_uint_eq(asked->sge_cnt, 0);
	if (_i) {
		until_gone(second);
	} else {
		fake_complete(second, 1); /* as what a process leaves behind does for a while */
		say(RDMA_CM_EVENT_TIMEWAIT_EXIT); /* the event that follows */
		usleep(300 * 1000);
		ck_assert_int_eq(second->base.ops->check(&second->base), 0);
		ck_assert_uint_eq(under_way(second), 1);
		fake_complete(second, 1);
		usleep(1100 * 1000);
		ck_assert_int_eq(second->base.ops->check(&second->base), 0);
		ck_assert(second->base.ops->arm(&second->base, false));
		ck_assert_uint_eq(under_way(second), 0);
	}
	leave(second);
}

/* A sleeping owner is woken to probe its peer, and waits for the answer as for room. */
TEST(a_sleeping_owner_probes_its_peer)
{
	struct rc_conn *second = join();
	struct pollfd p = {.fd = second->base.fd, .events = POLLIN};

	say(RDMA_CM_EVENT_DISCONNECTED);
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	ck_assert(second->base.ops->arm(&second->base, false));
	ck_assert_uint_eq(under_way(second), 1);
	ck_assert(second->tx_armed);
	leave(second);
}

/* While its port is down it is not asked, and what was asked is waited for. */
TEST_EACH(a_peer_that_cannot_be_probed_is_waited_for, 2)
{
	struct rc_conn *second = join();

	second->port_down = _i == 0;
	disconnect(second);
	ck_assert_int_eq(second->base.ops->check(&second->base), 0);
	ck_assert_uint_eq(under_way(second), (unsigned)_i);
	second->port_down = true;
	ck_assert_int_eq(second->base.ops->check(&second->base), 0);
	usleep(1100 * 1000);
	second->port_down = false;
	ck_assert_int_eq(second->base.ops->check(&second->base), 0);
	until_gone(second);
	leave(second);
}

/* A report about the device is true: all connections end. */
TEST(a_device_that_is_taken_away_ends_all)
{
	struct rc_conn *second = join();

	say(RDMA_CM_EVENT_DEVICE_REMOVAL);
	until_gone(v);
	until_gone(second);
	ck_assert_uint_eq(under_way(second), 0);
	leave(second);
}

/* An acceptor gives a peer that is marked otherwise no connection of these marks. */
TEST(an_accepted_peer_is_known_by_its_traffic_class)
{
	const uint8_t gid[16] = {0};
	const struct rc_peer_addr k = {.epoch = 9, .wireup_qpn = 5};
	struct rc_peer *l;

	meet(&(struct sl_rpc_rdma){.tos = 0});
	rc_peer_unpublish(v->peer);
	fake.tos = 104;
	rc_peer_publish(v->peer, v->qp.qp, &k);
	ck_assert_ptr_null(rc_peer_find_by_gid(v->device, 9, gid, 0));
	l = rc_peer_find_by_gid(v->device, 9, gid, 104);
	ck_assert_ptr_eq(l, v->peer);
	l->refs--;
	tear_down();
}
