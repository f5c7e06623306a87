/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams, which have no connection, through a whole core. */
#include "core/client.h"
#include "core_talk.h"
#include "sluice/datagram.h"
#include "suite.h"

enum { SERVICE = 7 };

static void ask(const char *payload)
{
	struct sl_net_listener l = {
		.at.port_be = htobe16(PKT_OUR_PORT), .at.family = 4, .protocol = PKT_UDP};
	uint8_t bytes[256] = {0};
	struct sl_datagram_request rq = {.magic = SL_DATAGRAM_MAGIC,
					 .version = SL_DATAGRAM_VERSION_1,
					 .type = SL_DATAGRAM_REQUEST,
					 .service = SERVICE,
					 .id = 1,
					 .payload_len = (uint16_t)strlen(payload)};
	struct pkt_spec s = {.protocol = PKT_UDP,
			     .sport = PKT_PEER_PORT,
			     .payload = bytes,
			     .payload_len = sizeof(bytes)};
	struct pkt p;

	memcpy(bytes, &rq, sizeof(rq));
	memcpy(bytes + sizeof(rq), payload, strlen(payload));
	memcpy(l.at.addr, pkt_our_ip4, 4);
	ck_assert_int_eq(sl_net_set_listeners(&bed.net, &l, 1), 0);
	pkt_build(&p, &s);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	bed_turns(3);
}

FIXTURE(set_up, tear_down)

/* Also on a route whose requests are passed on as they come: there is no window to be narrowed. */
TEST_EACH(a_datagram_is_answered, 2)
{
	if (_i)
		stream();
	ask("hello");
	bed_turn(20 * SL_NS_PER_SEC);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert(memmem(other()->taken, other()->taken_len, "hello", 5));
	reply(other()->ids[0], 0, "yes");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* Anybody's name may be on it: it waits for no backend, where streams of connections do. */
TEST(a_datagram_for_a_stream_s_route_is_refused_while_no_backend_is_up)
{
	stream();
	bed.cfg->pools[1].batch.policy = SL_POLICY_DIRECT;
	other()->broken = -ENOTCONN;
	bed_turns(3);
	ask("hello");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_BACKEND), 1);
}

/* All datagrams share one part of a full queue, also in the pool of the copies. */
TEST(copy_of_a_datagram_is_unproven_too)
{
	static struct sl_cfg_route_pools pools = {
		.split.pool = -1, .mirror = {.pool = 0, .share = 1, .max_body = 1000}};
	unsigned copies = 0;

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		if (bed.cfg->routes[i].datagram_service == SERVICE)
			bed.cfg->routes[i].pools = &pools;
	}
	ask("hello");
	ck_assert_uint_eq(bed.core.stats.mirrored, 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct sl_exchange *x = sl_mempool_at(&bed.core.exchanges, i);

		copies += x->client->proto == SL_CLIENT_MIRROR;
		ck_assert(x->item.unproven);
	}
	ck_assert_uint_eq(copies, 1);
}
