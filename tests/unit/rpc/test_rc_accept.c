/* SPDX-License-Identifier: Apache-2.0 */
/* A listener of RC connections: what a request must prove, what it costs, and devices that go. */
#include "rc_wireup_bed.h"

#include <stdio.h>
#include <sys/wait.h>

FIXTURE(bed_up, bed_down)

/* --- what a request must prove --- */

/* Nothing is made for a peer before its proof, and a proof counts once. */
TEST(a_refused_request_costs_no_objects)
{
	struct sl_wireup_creq good = request_of(1, 5), h;
	unsigned qps, steps;

	sl_rdma_wait_closed();
	qps = fake.qps;
	steps = fake.steps;
	h = good;
	h.magic++;
	prove(&h);
	ck_assert(!answer_to(&h).magic);
	for (int by = -1; by <= 1; by += 2) { /* other versions */
		h = good;
		h.version = (uint8_t)(SL_UD_VERSION + by);
		prove(&h);
		ck_assert(!answer_to(&h).magic);
	}
	h = good;
	h.want = SL_WIREUP_UD;
	prove(&h);
	ck_assert(!answer_to(&h).magic);
	h = good;
	h.slots /= 2; /* changed under way */
	ck_assert(!answer_to(&h).magic);
	secret = sl_psk_of("of the tests, for all of then", 29); /* another key */
	h = good;
	prove(&h);
	secret = sl_psk_of("of the tests, for all of them", 29);
	ck_assert(!answer_to(&h).magic);
	ck_assert_uint_eq(listener->wireup.refused, 6);
	h = request_of(1, 5);
	h.slots--;
	prove(&h);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_BAD_SIZES);
	h = request_of(1, 5);
	h.bulk_len = 1;
	prove(&h);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_BAD_SIZES);
	h = request_of(1, 5);
	h.mtu = 255;
	prove(&h);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_BAD_SIZES);
	ck_assert_uint_eq(fake.qps, qps);
	ck_assert_uint_eq(fake.steps, steps);
	h = request_of(1, 5);
	ck_assert(is_granted(&h));
	ck_assert(!answer_to(&h).magic); /* a replay */
	ck_assert_uint_eq(pending_cnt(), 1);
}

/* Not for a former process, another queue pair or another host. */
TEST(a_request_is_valid_for_one_listener)
{
	struct sl_wireup_creq h = request_of(1, 5);
	struct wireup_target other = {.epoch = sl_rpc_boot_epoch(), .qpn = door()};

	prove_to(&h, sl_rpc_boot_epoch() + 1, door());
	ck_assert(!answer_to(&h).magic);
	prove_to(&h, sl_rpc_boot_epoch(), door() + 1);
	ck_assert(!answer_to(&h).magic);
	memcpy(other.gid, ud_sockets_gid, sizeof(other.gid));
	other.gid[15] ^= 1;
	wireup_creq_sign(&secret, &h, &other);
	ck_assert(!answer_to(&h).magic);
	ck_assert_uint_eq(pending_cnt(), 0);
	prove(&h);
	ck_assert(is_granted(&h));
}

static bool is_from_seven(const struct ud_packet *p, const uint8_t gid[16])
{
	(void)p;
	return gid[15] == 7;
}

TEST(a_request_comes_from_the_host_that_it_names)
{
	struct sl_wireup_creq of_seven = request_of(7, 5), of_eight = request_of(8, 6);

	bed_device.is_from = is_from_seven;
	throw_at(&of_eight, sizeof(of_eight), door());
	until((turn(), listener->wireup.refused));
	ck_assert_uint_eq(pending_cnt(), 0);
	throw_at(&of_seven, sizeof(of_seven), door());
	until((turn(), pending_cnt()));
}

/* A reply that comes back is no request. */
TEST(a_reflected_reply_is_refused)
{
	const struct sl_wireup_creq h = request_of(1, 5);
	struct sl_wireup_crep a = answer_to(&h);
	uint8_t padded[sizeof(h)] = {0};

	memcpy(padded, &a, sizeof(a));
	throw_at(&a, sizeof(a), door());
	throw_at(padded, sizeof(padded), door());
	until((turn(), listener->wireup.refused == 2));
	ck_assert_uint_eq(pending_cnt(), 1);
}

/* Only a client that has got the reply can prove it; a proof holds for one connection. */
TEST(a_first_message_proves_the_reply_of_its_connection)
{
	const struct sl_wireup_creq h[] = {request_of(1, 5), request_of(1, 6)};
	struct sl_wireup_crep a[2];
	struct rc_pending *p;

	for (unsigned i = 0; i < 2; i++)
		a[i] = answer_to(&h[i]);
	for (p = listener->pending; !p->conn || p->creq.qpn != 5;)
		p++;
	ck_assert_int_eq(rc_pending_confirm(listener, p), -EACCES);
	wireup_derive(&secret, &a[1], WIREUP_ACK, p->conn->ack);
	ck_assert_int_eq(rc_pending_confirm(listener, p), -EACCES);
	wireup_derive(&secret, &a[0], WIREUP_KEYS, p->conn->ack);
	ck_assert_int_eq(rc_pending_confirm(listener, p), -EACCES);
	wireup_derive(&secret, &a[0], WIREUP_ACK, p->conn->ack);
	for (unsigned i = 0; i < SL_PSK_MAC_LEN; i++) {
		p->conn->ack[i] ^= 1;
		ck_assert_int_eq(rc_pending_confirm(listener, p), -EACCES);
		p->conn->ack[i] ^= 1;
	}
	ck_assert_int_eq(rc_pending_confirm(listener, p), 0);
}

/* The filter forgets a sender after REPLAY_SENDERS others. */
TEST(a_replayed_request_that_is_forgotten_cannot_be_proven)
{
	const struct sl_wireup_creq h = request_of(1, 5);
	struct sl_wireup_crep a = answer_to(&h), b;
	uint8_t ack[SL_PSK_MAC_LEN];

	wireup_derive(&secret, &a, WIREUP_ACK, ack);
	memcpy(first_pending()->conn->ack, ack, sizeof(ack));
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), 0);
	first_pending()->conn->base.ops->close(&first_pending()->conn->base);
	first_pending()->conn = NULL;
	for (uint64_t i = 1; i <= REPLAY_SENDERS; i++) {
		struct sl_wireup_creq other = request_of(2, 6);

		other.flags = SL_HELLO_EP_CHECK;
		memcpy(other.sender_id, &i, sizeof(i));
		prove(&other);
		ck_assert_uint_eq(answer_to(&other).verdict, SL_WIREUP_EP_REMOVED);
	}
	b = answer_to(&h);
	ck_assert_uint_eq(b.verdict, SL_WIREUP_GRANTED);
	memcpy(first_pending()->conn->ack, ack, sizeof(ack));
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), -EACCES);
}

/* --- a client that repeats its request --- */

/* It gets another reply for the same connection, which proves the latest request. */
TEST(a_repeated_request_has_the_same_connection)
{
	struct sl_wireup_creq h = request_of(1, 77), next;
	struct sl_wireup_crep a = answer_to(&h), b;
	unsigned qps = fake.qps;

	next = request_of(1, 77);
	b = answer_to(&next);
	ck_assert_uint_eq(b.verdict, SL_WIREUP_GRANTED);
	ck_assert_uint_eq(b.qpn, a.qpn);
	ck_assert_uint_eq(b.psn, a.psn);
	ck_assert_uint_eq(b.rkey, a.rkey);
	ck_assert_mem_ne(b.proof, a.proof, sizeof(a.proof));
	ck_assert_uint_eq(pending_cnt(), 1);
	ck_assert_uint_eq(fake.qps, qps);
	wireup_derive(&secret, &a, WIREUP_ACK, first_pending()->conn->ack);
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), -EACCES);
	wireup_derive(&secret, &b, WIREUP_ACK, first_pending()->conn->ack);
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), 0);
}

/* One that was overtaken on its way changes nothing. */
TEST(an_overtaken_request_changes_nothing)
{
	struct sl_wireup_creq early = request_of(1, 77), late = request_of(1, 77);
	struct sl_wireup_crep a = answer_to(&late);

	ck_assert_uint_eq(a.verdict, SL_WIREUP_GRANTED);
	ck_assert(!is_granted(&early));
	ck_assert_uint_eq(pending_cnt(), 1);
	wireup_derive(&secret, &a, WIREUP_ACK, first_pending()->conn->ack);
	ck_assert_int_eq(rc_pending_confirm(listener, first_pending()), 0);
}

/*
 * The same queue pair number with another ring is a new connection. The former one ends without a
 * BYE: the new one's peer would get it, or any host whose queue pair was named.
 */
TEST(a_new_request_of_a_queue_pair_ends_the_former_silently)
{
	struct sl_wireup_creq h = request_of(1, 77);
	struct sl_wireup_crep a = answer_to(&h), b;
	unsigned sends = fake.sends;

	h = request_of(1, 77);
	h.rkey++;
	prove(&h);
	b = answer_to(&h);
	ck_assert_uint_eq(b.verdict, SL_WIREUP_GRANTED);
	ck_assert_uint_ne(b.qpn, a.qpn);
	ck_assert_uint_eq(pending_cnt(), 1);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.sends, sends);
}

/* --- limits --- */

/* A flood of authentic requests is bounded, and leaves places to other hosts. */
TEST(unfinished_requests_leave_places_to_other_hosts)
{
	struct sl_wireup_creq h;
	uint32_t qpn = 100;

	for (uint8_t host = 1; host <= 6; host++) {
		unsigned most = host * RC_PENDING_PER_HOST;

		for (unsigned i = 0; i < 2 * RC_PENDING_PER_HOST; i++) {
			h = request_of(host, ++qpn);
			(void)answer_to(&h);
		}
		ck_assert_uint_eq(pending_cnt(), most < RC_PENDING_MAX ? most : RC_PENDING_MAX);
	}
	ck_assert_uint_eq(answer_to(&(struct sl_wireup_creq){0}).magic, 0);
	h = request_of(9, 9);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_FULL);
}

/* A host that was blocked for a flood on its queue pairs is refused meanwhile. */
TEST(a_blocked_host_connects_after_its_block)
{
	struct sl_wireup_creq h = request_of(1, 5);
	struct rc_rx_cq *cq;

	ck_assert(is_granted(&h));
	cq = first_pending()->conn->rx_cq;
	ck_assert(first_pending()->conn->is_inbound);
	memset(cq->blocked_host, 0, sizeof(cq->blocked_host));
	cq->blocked_host[15] = 1;
	cq->blocked_until_ns = UINT64_MAX;
	h = request_of(1, 6);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_FULL);
	h = request_of(2, 6);
	ck_assert(is_granted(&h));
	cq->blocked_until_ns = 0;
	h = request_of(1, 6);
	ck_assert(is_granted(&h));
}

/* A thread that gets the processor after its time-out looks once more. */
TEST(a_ring_that_opens_late_is_open)
{
	const struct sl_wireup_creq h = request_of(1, 5);

	fake.opens_us = 150 * 1000;
	ck_assert(is_granted(&h));
}

/* A peer whose objects cannot be created is told so, and leaves nothing behind. */
TEST(a_peer_that_finds_no_room_leaves_nothing)
{
	struct sl_wireup_creq h = request_of(1, 5);
	unsigned qps;

	sl_rdma_wait_closed();
	qps = fake.qps;
	for (unsigned i = 0; i <= qps; i++) { /* those made ahead are used first */
		fake.fails_qps = true;
		h = request_of((uint8_t)i, i);
		if (answer_to(&h).verdict == SL_WIREUP_FULL)
			break;
	}
	ck_assert_uint_eq(answer_to(&h).magic, 0);
	fake.fails_qps = false;
	ck_assert_uint_le(pending_cnt(), RC_QP_POOL_READY);
	sl_rdma_wait_closed();
	h = request_of(99, 99);
	ck_assert(is_granted(&h));
}

TEST(a_full_owner_takes_only_migrating_links)
{
	struct sl_wireup_creq h = request_of(1, 5);

	listener->base.accept_limit = 0;
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_FULL);
	h = request_of(1, 5);
	h.flags = SL_HELLO_RESUME;
	prove(&h);
	ck_assert(is_granted(&h));
}

/* The path that the client names is that of the queue pair, too. */
TEST(a_queue_pair_has_the_path_of_its_request)
{
	struct sl_wireup_creq h = request_of(6, 5);
	const struct fake_qp *qp;
	struct sl_wireup_crep a;

	h.tos = 104;
	h.sl = 3;
	h.mtu = 1500;
	prove(&h);
	a = answer_to(&h);
	ck_assert_uint_eq(a.verdict, SL_WIREUP_GRANTED);
	ck_assert_uint_eq(a.mtu, 1500);
	qp = fake_qp(first_pending()->conn);
	ck_assert_uint_eq(qp->way.grh.traffic_class, 104);
	ck_assert_uint_eq(qp->way.sl, 3);
	ck_assert_uint_eq(qp->way.grh.dgid.raw[15], 6);
	ck_assert_uint_eq(first_pending()->conn->packet_len, 1024);
}

TEST(a_queue_pair_uses_the_present_index_of_its_gid)
{
	struct sl_wireup_creq h = request_of(6, 5);

	fake.gids_moved = 3;
	ck_assert(is_granted(&h));
	ck_assert_uint_eq(fake_qp(first_pending()->conn)->way.grh.sgid_index, 4);
	fake.gids_moved = 8; /* the address is gone */
	h = request_of(6, 7);
	ck_assert_uint_eq(answer_to(&h).verdict, SL_WIREUP_FULL);
}

/* --- numbers --- */

enum { FAR = 0x7ffffff0 }; /* as far ahead as a number may be */

static bool is_granted_as(uint64_t series, uint32_t number, uint32_t qpn)
{
	struct sl_wireup_creq h = request_of(1, qpn);

	memcpy(h.sender_id, &series, sizeof(series));
	h.number = number;
	prove(&h);
	return is_granted(&h);
}

/* Another holder of the key can neither use up numbers nor replace a connection. */
TEST(the_numbers_of_a_process_are_its_own)
{
	ck_assert(is_granted_as(1234, 5, 77));
	ck_assert(is_granted_as(4321, FAR, 77));
	ck_assert_uint_eq(pending_cnt(), 2);
	ck_assert(is_granted_as(1234, 6, 78));
	ck_assert(!is_granted_as(1234, 6, 79)); /* once */
	ck_assert_uint_eq(pending_cnt(), 3);
}

static uint64_t series_to(const char *text)
{
	uint8_t series[SL_WIREUP_SENDER_ID_LEN];
	struct sockaddr_storage sa;

	ck_assert_int_eq(rdma_parse_addr(text, &sa), 0);
	ck_assert_int_eq(auth_sender_id(&sa, series), 0);
	return auth_sender_id_word(series);
}

/* A backend is told of its own only; and a child of none that its parent has. */
TEST(each_listener_address_has_its_own_sender_id)
{
	uint64_t here = series_to("192.0.2.1:7471");
	int status;
	pid_t pid;

	ck_assert_uint_eq(series_to("192.0.2.1:7471"), here);
	ck_assert_uint_ne(series_to("192.0.2.1:7472"), here);
	ck_assert_uint_ne(series_to("192.0.2.2:7471"), here);
	ck_assert_uint_ne(series_to("[2001:db8::1]:7471"), here);
	pid = fork();
	if (!pid)
		_exit(series_to("192.0.2.1:7471") == here);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* --- devices --- */

static int move_local(struct sidr_service *s)
{
	s->local.port = 7;
	return 0;
}

/* A program may listen, fork, and accept in the child, which has opened the device itself. */
TEST(a_listener_opens_its_queue_pair_where_its_process_is)
{
	bed_device.sidr_local = move_local;
	ck_assert_uint_ne(listener->wireup.sidr->local.port, 7);
	turn();
	ck_assert_uint_eq(listener->wireup.local.port, 7);
}

/* A backend outlives its device: it listens again once that is back, and asks now and then. */
TEST(a_listener_outlives_its_device)
{
	uint64_t start_ns = sl_now_ns();

	turn();
	ud_sockets_seat = UD_NOWHERE;
	ud_sockets_sign = -ENODEV;
	wireup_listener_turn(&listener->wireup, start_ns);
	ck_assert_ptr_null(listener->wireup.qp);
	ck_assert_ptr_null(listener->wireup.sidr);
	for (unsigned i = 0; i < 20; i++)
		wireup_listener_turn(&listener->wireup, wireup_listener_next_ns(&listener->wireup));
	ck_assert_uint_ge(listener->wireup.retry_ns, start_ns + 10 * SL_NS_PER_SEC);
	ck_assert_uint_le(listener->wireup.retry_ms, 1000);
	ud_sockets_seat = 0;
	wireup_listener_turn(&listener->wireup, wireup_listener_next_ns(&listener->wireup));
	ck_assert_ptr_nonnull(listener->wireup.qp);
	ck_assert_uint_eq(wireup_listener_next_ns(&listener->wireup), UINT64_MAX);
}

/* Repeated behaviour of a device: a poll that fails or finds nothing, and whether it is armed. */
static const struct {
	int polled;
	bool armed, stays;
} devices[] = {{-EIO, false, false}, {-EIO, true, false}, {0, false, false}, {0, true, true}};
static unsigned which;

static int door_poll(struct ud_qp *p, struct ud_packet *packets, unsigned max)
{
	(void)p, (void)packets, (void)max;
	return devices[which].polled;
}

static bool door_arm(struct ud_qp *p)
{
	(void)p;
	return devices[which].armed;
}

/* A failed device keeps no thread awake. */
TEST_EACH(a_queue_pair_that_fails_is_found, SL_ARRAY_LEN(devices))
{
	turn();
	which = (unsigned)_i;
	bed_device.poll = door_poll;
	bed_device.arm = door_arm;
	ck_assert_int_eq(wireup_listener_drain(&listener->wireup), devices[_i].stays);
	ck_assert(!listener->wireup.more);
	if (devices[_i].stays)
		return;
	wireup_listener_fail(&listener->wireup, 1000);
	ck_assert_ptr_null(listener->wireup.qp);
	ck_assert_uint_ge(wireup_listener_next_ns(&listener->wireup), SL_NS_PER_SEC);
}

/* Objects for the first peer exist before it comes. */
TEST(a_listener_prepares_objects_for_peers)
{
	unsigned qps = fake.qps;

	ck_assert_ptr_null(accepted());
	until(fake.qps >= qps + RC_QP_POOL_READY && fake.registered);
}

TEST(a_device_without_shared_queues_is_refused)
{
	struct sl_err err = SL_ERR(256);

	listener->base.ops->close(&listener->base);
	fake.alone = true;
	listener = (struct rc_listener *)try_to_listen(&err);
	ck_assert_ptr_null(listener);
	ck_assert_ptr_nonnull(strstr(err.text, "use rdma+ud://"));
}
