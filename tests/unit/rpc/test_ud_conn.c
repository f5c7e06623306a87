/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual connections from HELLO to end, over sockets instead of a device. An attacker beside them
 * sees everything, sends anything, and lacks the key.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include "rpc/poll_group.h"
#include "ud_bed.h"

/* The dialer's first datagram behind that ANSWER. */
static void say_first(const struct sl_wireup_crep *a)
{
	struct sl_ud_header first = {.magic = SL_UD_MAGIC,
				     .version = SL_UD_VERSION,
				     .kind = SL_UD_ACK,
				     .to = a->id,
				     .window = 1};
	struct ud_keys keys;

	ud_keys_derive(&secret, a, true, &keys);
	ud_mac_write(&keys.out, &first, sizeof(first), 0);
	throw_at(&first, sizeof(first), a->qpn);
}

TEST(a_repeated_hello_makes_one_connection)
{
	struct sl_transport *other = dialled(), *t;
	struct sl_wireup_creq first = hello_of(1, 5), again = hello_of(2, 5);
	struct sl_wireup_crep a, b;

	throw_at(&first, sizeof(first), door());
	ck_assert(answered(&a));
	throw_at(&again, sizeof(again), door());
	ck_assert(answered(&b));
	ck_assert_uint_eq(b.verdict, SL_WIREUP_GRANTED);
	say_first(&a);
	ck_assert_ptr_null(accepted());
	say_first(&b);
	t = accepted();
	ck_assert_ptr_nonnull(t);
	ck_assert_ptr_null(accepted());
	t->ops->close(t);
	other->ops->close(other);
}

/*
 * The dialler's first message confirms the connection to the listener; an empty one does so if
 * there is none soon.
 */
TEST(the_first_datagram_waits_a_moment_for_a_message)
{
	uint64_t before_ns, id = 0;

	both.gateway = dialled();
	before_ns = sl_now_ns();
	ck_assert_int_eq(both.gateway->ops->attach(both.gateway, &both), 0);
	ck_assert_uint_ge(((struct ud_conn *)both.gateway)->arq.ack_ns,
			  before_ns + UD_ACK_DELAY_NS);
	seen_cnt = 0;
	ck_assert_int_eq(post(both.gateway, 9, BODY), 0);
	ck_assert_uint_eq(seen_cnt, 1);
	until((both.backend = accepted()) != NULL);
	ck_assert_int_eq(both.backend->ops->attach(both.backend, &listener), 0);
	until(received(both.backend, &id));
	ck_assert_uint_eq(id, 9);
	close_both();
	connect_both(); /* and says nothing */
	close_both();
}

TEST(a_hello_is_taken_once)
{
	struct sl_wireup_crep a;

	connect_both();
	for (unsigned i = 0, cnt = seen_cnt; i < cnt; i++) {
		if (seen[i].len == sizeof(struct sl_wireup_creq))
			throw_at(seen[i].bytes, seen[i].len, door());
	}
	ck_assert(!answered(&a));
	ck_assert_uint_ge(listener->refused, 1);
	check_goes_on(1);
	close_both();
}

TEST(without_the_key_there_is_no_answer)
{
	struct sl_transport *other = dialled();
	struct sl_wireup_creq h = hello_of(1, 5);
	uint8_t *bytes = (uint8_t *)&h;
	struct sl_wireup_crep a;

	for (unsigned i = 0; i < sizeof(h); i++) {
		bytes[i] ^= 1;
		throw_at(&h, sizeof(h), door());
		bytes[i] ^= 1;
		throw_at(&h, i, door());
		ck_assert(!answered(&a));
	}
	ck_assert_uint_eq(listener->refused, 2 * sizeof(h));
	/* It was not taken for any of these. */
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	other->ops->close(other);
}

TEST(pending_connections_over_the_limit_are_refused_as_full)
{
	struct sl_transport *other = dialled();
	struct sl_wireup_crep a;
	unsigned granted = 0;

	for (uint32_t i = 0; i < 100; i++) {
		struct sl_wireup_creq h = hello_of(i, 1000 + i);

		h.gid[0] = (uint8_t)(1 + i / 16);
		prove(&h);
		throw_at(&h, sizeof(h), door());
		ck_assert(answered(&a));
		granted += a.verdict == SL_WIREUP_GRANTED;
		ck_assert_uint_eq(a.verdict, i < 63 ? SL_WIREUP_GRANTED : SL_WIREUP_FULL);
	}
	ck_assert_uint_eq(granted, 63); /* and the dialer above */
	other->ops->close(other);
}

static enum sl_wireup_verdict verdict_for(uint8_t host, uint32_t number, uint32_t id,
					  uint32_t flags)
{
	struct sl_wireup_creq h = hello_of(number, id);
	struct sl_wireup_crep a;

	h.gid[0] = host;
	h.flags = flags;
	prove(&h);
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	return a.verdict;
}

static enum sl_wireup_verdict verdict_on(uint32_t number, uint32_t id, uint32_t flags)
{
	return verdict_for(0, number, id, flags);
}

TEST(one_host_has_a_quarter_of_the_places_of_waiting_peers)
{
	struct sl_transport *other = dialled();

	for (uint32_t i = 0; i < 20; i++)
		ck_assert_uint_eq(verdict_for(1, i, 1000 + i, 0),
				  i < 16 ? SL_WIREUP_GRANTED : SL_WIREUP_FULL);
	ck_assert_uint_eq(verdict_for(2, 20, 5, 0), SL_WIREUP_GRANTED);
	ck_assert_uint_eq(verdict_for(1, 21, 1000, 0), SL_WIREUP_GRANTED); /* instead of its own */
	ck_assert_uint_eq(verdict_for(1, 22, 5, 0), SL_WIREUP_FULL); /* none of the other host */
	ck_assert_uint_eq(verdict_for(2, 23, 5, SL_HELLO_EP_CHECK), SL_WIREUP_EP_ALIVE);
	other->ops->close(other);
}

static bool is_from_first(const struct ud_packet *p, const uint8_t gid[16])
{
	(void)p;
	return gid[0] == 1;
}

/* A host gets an ANSWER only to its own HELLO, and counts per host are correct. */
TEST(a_hello_with_the_gid_of_another_host_is_ignored)
{
	const struct rdma_device_ops *before = rdma_device;
	struct rdma_device_ops with_heads = *rdma_device;
	struct sl_transport *other = dialled();
	struct sl_wireup_creq h = hello_of(1, 5);
	struct sl_wireup_crep a;

	with_heads.is_from = is_from_first;
	rdma_device = &with_heads;
	h.gid[0] = 2;
	prove(&h);
	throw_at(&h, sizeof(h), door());
	ck_assert_uint_eq(verdict_for(1, 2, 6, 0), SL_WIREUP_GRANTED);
	ck_assert(!answered(&a));
	rdma_device = before;
	/* Nor has its number been used up. */
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	other->ops->close(other);
}

/* One that was recorded before the backend was started again, at the same address. */
TEST(a_hello_is_for_one_process)
{
	struct wireup_target former = {.epoch = sl_rpc_boot_epoch() + 1};
	struct sl_transport *other = dialled();
	struct sl_wireup_creq h = hello_of(1, 5);
	struct sl_wireup_crep a;

	memcpy(former.gid, ud_sockets_gid, sizeof(former.gid));
	former.qpn = door();
	for (unsigned i = 0; i < 2; i++) {
		wireup_creq_sign(&secret, &h, &former);
		throw_at(&h, sizeof(h), door());
		ck_assert(!answered(&a));
		former.epoch = 0;
	}
	prove(&h);
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	other->ops->close(other);
}

static struct sl_wireup_creq last_hello(void)
{
	struct sl_wireup_creq h = {.magic = 0};

	for (unsigned i = 0; i < seen_cnt; i++) {
		if (seen[i].len == sizeof(h))
			memcpy(&h, seen[i].bytes, sizeof(h));
	}
	ck_assert_uint_eq(h.magic, SL_WIREUP_MAGIC);
	return h;
}

/* Each backend hears the epoch of the gateway's process. */
TEST(a_host_that_knows_an_epoch_uses_up_none_of_its_numbers)
{
	struct sl_transport *first = dialled(), *second;
	struct sl_wireup_creq said_first = last_hello(), liar = hello_of(1U << 30, 5);
	struct sl_wireup_crep a;

	liar.epoch = said_first.epoch;
	liar.sender_id[0] = 1;
	prove(&liar);
	throw_at(&liar, sizeof(liar), door());
	ck_assert(answered(&a));
	dial_ms = 1000;
	second = dialled();
	ck_assert_mem_eq(last_hello().sender_id, said_first.sender_id, sizeof(liar.sender_id));
	ck_assert_mem_ne(last_hello().nonce, said_first.nonce, sizeof(liar.nonce));
	/* And its own are taken once. */
	liar.number = last_hello().number;
	memcpy(liar.sender_id, said_first.sender_id, sizeof(liar.sender_id));
	prove(&liar);
	throw_at(&liar, sizeof(liar), door());
	ck_assert(!answered(&a));
	first->ops->close(first);
	second->ops->close(second);
}

/* Those that are granted count, until they are handed over; what a link goes on by does not. */
TEST(no_connection_is_granted_beyond_the_owners_room)
{
	struct sl_transport *other = dialled(), *t;
	struct sl_wireup_creq h = hello_of(10, 50);
	struct sl_wireup_crep a;

	listener->accept_limit = 3;
	ck_assert_int_eq(verdict_on(1, 5, 0), SL_WIREUP_GRANTED);
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	ck_assert_int_eq(a.verdict, SL_WIREUP_GRANTED);
	ck_assert_int_eq(verdict_on(3, 7, 0), SL_WIREUP_FULL);
	ck_assert_int_eq(verdict_on(4, 8, SL_HELLO_RESUME), SL_WIREUP_GRANTED);
	ck_assert_int_eq(verdict_on(5, 5, 0), SL_WIREUP_GRANTED); /* instead of its former one */
	ck_assert_int_eq(verdict_on(11, 9, 0), SL_WIREUP_FULL);
	ck_assert_uint_eq(listener->refused, 2);
	say_first(&a);
	until((t = accepted()) != NULL);
	ck_assert_uint_eq(listener->unaccepted, 2);
	listener->accept_limit = 2; /* its owner has it now */
	ck_assert_int_eq(verdict_on(12, 10, 0), SL_WIREUP_FULL);
	listener->accept_limit = 3;
	ck_assert_int_eq(verdict_on(13, 10, 0), SL_WIREUP_GRANTED);
	t->ops->close(t);
	other->ops->close(other);
}

TEST(a_broken_client_qp_is_replaced_for_the_next_dial)
{
	struct sl_transport *first = dialled(), *t;

	ud_sockets_break = true;
	ck_assert_ptr_null(try_to_dial());
	ud_sockets_break = false;
	t = dialled();
	t->ops->close(t);
	first->ops->close(first);
}

/* --- an owner that is busy --- */

static struct sl_transport *glanced(void)
{
	return listener->ops->poll_nonblock(listener, sl_now_ns());
}

static bool nobody_is_seen(void)
{
	ck_assert_ptr_null(glanced());
	return true;
}

/* These are calls of the kernel. */
static unsigned calls;

static bool count_arm(struct ud_qp *p)
{
	(void)p;
	calls++;
	return true;
}

static void count_bell(struct ud_qp *p)
{
	(void)p;
	calls++;
}

static int count_question(struct sidr_service *s, uint32_t qpn)
{
	(void)s, (void)qpn;
	calls++;
	return 0;
}

TEST(a_new_connection_is_seen_without_blocking)
{
	struct sl_transport *other = dialled(), *t;
	struct sl_wireup_creq h = hello_of(1, 5);
	const struct rdma_device_ops *before = rdma_device;
	struct rdma_device_ops counting = *before;
	struct sl_wireup_crep a;

	counting.arm = count_arm;
	counting.ack_event = count_bell;
	counting.sidr_reply = count_question;
	rdma_device = &counting;
	throw_at(&h, sizeof(h), door());
	until(nobody_is_seen() && recv(enemy, &a, sizeof(a), MSG_DONTWAIT) > 0);
	say_first(&a);
	until((t = glanced()) != NULL);
	ck_assert_uint_eq(t->peer_epoch, h.epoch);
	ck_assert_ptr_null(glanced());
	ck_assert_uint_eq(calls, 0);
	rdma_device = before;
	t->ops->close(t);
	other->ops->close(other);
}

static bool rings(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* A connection of the same ud_iface wakes it; without a watched one the listener must. */
TEST(an_owner_that_is_woken_anyway_is_not_woken_twice)
{
	struct sl_poll_groups hubs = {.cnt = 0};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct sl_wireup_creq h;
	struct sl_transport *t;
	struct sl_wireup_crep a;

	both.gateway = dialled();
	h = hello_of(1, 5);
	ck_assert_int_eq(both.gateway->ops->attach(both.gateway, &both), 0);
	until((take(both.gateway), both.backend = accepted()));
	ck_assert_int_eq(sl_poll_groups_watch(&hubs, fd, both.backend, &both), 0);
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	ck_assert_uint_ne(listener->ops->next_ns(listener), 0);
	say_first(&a);
	until(rings(fd));
	ck_assert(!rings(listener->fd));
	t = glanced();
	ck_assert_ptr_nonnull(t);
	t->ops->close(t);
	while (recv(enemy, &a, sizeof(a), MSG_DONTWAIT) > 0) /* BYE */
		;

	h = hello_of(2, 6);
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	sl_poll_groups_unwatch(&hubs, fd, both.backend);
	ck_assert_uint_eq(listener->ops->next_ns(listener), 0);
	ck_assert(nobody_comes());
	ck_assert_uint_ne(listener->ops->next_ns(listener), 0);
	say_first(&a);
	until(rings(listener->fd));
	t = accepted();
	ck_assert_ptr_nonnull(t);
	ck_assert(nobody_comes());
	ck_assert(!rings(listener->fd));
	t->ops->close(t);
	close(fd);
	close_both();
}

static void change_key(const char *to)
{
	int fd = open(key_path, O_WRONLY | O_CLOEXEC);

	ck_assert_int_eq(pwrite(fd, to, secret.len, 0), (ssize_t)secret.len);
	close(fd);
}

/*
 * Dials once more. Returns true if the listener answers, false if it does not know the key. A dial on
 * a machine that stands still can end earlier, with another message: it is repeated.
 */
static bool has_former_key(unsigned timeout_ms)
{
	struct sl_transport *t;

	dial_ms = timeout_ms;
	do
		t = try_to_dial();
	while (!t && !strstr(said, "the same key file"));
	if (t)
		t->ops->close(t);
	return t != NULL;
}

/* A machine that stands still may use up the moment, but not each time. */
TEST(a_dialer_has_a_changed_key_after_a_moment)
{
	bool had_former_key = false;
	struct sl_transport *first;

	for (unsigned i = 0; i < 4 && !had_former_key; i++) {
		usleep(2100 * 1000); /* a file that is new is read each time */
		first = dialled();
		change_key("of the tests, for few of them");
		had_former_key = has_former_key(WAIT_S * 1000);
		usleep(SL_PSK_CHECK_MS * 1000);
		ck_assert(!has_former_key(500));
		change_key((const char *)secret.bytes);
		ck_assert(has_former_key(WAIT_S * 1000));
		first->ops->close(first);
	}
	ck_assert(had_former_key);
}

static unsigned answers(void)
{
	struct sl_wireup_crep a;
	unsigned cnt = 0;

	while (recv(enemy, &a, sizeof(a), MSG_DONTWAIT) == (ssize_t)sizeof(a))
		cnt++;
	return cnt;
}

/* A flood of HELLOs takes little more than it takes of an owner that sleeps. */
TEST(between_two_accepts_glances_take_few_hellos)
{
	struct sl_transport *other = dialled();

	ck_assert_ptr_null(accepted());
	for (uint32_t i = 0; i < 200; i++) {
		struct sl_wireup_creq h = hello_of(i, 1000 + i);

		throw_at(&h, sizeof(h), door());
	}
	for (unsigned i = 0; i < 100; i++)
		ck_assert_ptr_null(glanced());
	ck_assert_uint_eq(answers(), 16);
	ck_assert_ptr_null(accepted());
	ck_assert_uint_eq(answers(), 64);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_ptr_null(glanced());
	ck_assert_uint_eq(answers(), 16);
	other->ops->close(other);
}

/* --- forged datagrams --- */

static unsigned of_connection(unsigned i)
{
	return seen[i].len >= sizeof(struct sl_ud_header) &&
	       seen[i].len != sizeof(struct sl_wireup_creq) &&
	       seen[i].len != sizeof(struct sl_wireup_crep);
}

TEST(a_datagram_with_one_bit_changed_carries_out_nothing)
{
	uint64_t id;
	unsigned thrown = 0, n = 0;
	struct seen one;

	connect_both();
	seen_cnt = 0;
	ck_assert_int_eq(post(both.gateway, 1, BODY), 0);
	one = seen[0]; /* it is on its way, and not taken yet */
	for (unsigned bit = 0; bit < 8 * one.len; bit++, thrown++) {
		one.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
		throw_at(one.bytes, one.len, one.to);
		one.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	for (unsigned len = 0; len < one.len; len++, thrown++)
		throw_at(one.bytes, len, one.to);
	until((n += received(both.backend, &id),
	       both.backend->bad_mac + both.backend->poll_group->unmatched >= thrown && n));
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(both.backend->bad_mac + both.backend->poll_group->unmatched, thrown);
	ck_assert_uint_gt(both.backend->bad_mac, thrown / 2);
	ck_assert_uint_eq(id, 1);
	check_goes_on(2);
	close_both();
}

TEST(a_replayed_request_is_carried_out_once)
{
	unsigned cnt;

	connect_both();
	for (unsigned i = 1; i <= 20; i++)
		check_goes_on(i);
	cnt = seen_cnt;
	for (unsigned i = 0; i < cnt; i++) {
		if (of_connection(i))
			throw_at(seen[i].bytes, seen[i].len, seen[i].to);
	}
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) &&
	      both.backend->duplicates >= 20);
	check_goes_on(21);
	close_both();
}

TEST(replayed_datagrams_of_a_former_connection_are_unmatched)
{
	unsigned cnt;
	uint64_t strays = 0;

	connect_both();
	check_goes_on(1);
	cnt = seen_cnt;
	close_both();
	connect_both();
	for (unsigned i = 0; i < cnt; i++) {
		if (of_connection(i)) {
			throw_at(seen[i].bytes, seen[i].len, seen[i].to);
			strays += seen[i].to ==
				  ((struct ud_iface *)both.backend->poll_group)->qp->qpn;
		}
	}
	ck_assert_uint_ge(strays, 2);
	until(nothing_comes(both.backend) && both.backend->poll_group->unmatched >= strays);
	ck_assert_uint_eq(both.backend->bad_mac, 0);
	check_goes_on(2);
	close_both();
}

static uint32_t qpn_of(const struct sl_transport *t)
{
	return ((struct ud_iface *)t->poll_group)->qp->qpn;
}

/* Each direction has a key, even if both ends have the same number. */
TEST(a_reflected_datagram_is_refused)
{
	uint64_t thrown = 0;
	unsigned cnt;

	connect_both();
	check_goes_on(1);
	cnt = seen_cnt;
	for (unsigned i = 0; i < cnt; i++) {
		struct ud_conn *from =
			(struct ud_conn *)(seen[i].to == qpn_of(both.backend) ? both.gateway
									      : both.backend);
		struct sl_ud_header h;

		if (!of_connection(i))
			continue;
		memcpy(&h, seen[i].bytes, sizeof(h));
		h.to = from->id;
		memcpy(seen[i].bytes, &h, sizeof(h));
		ud_mac_write(&from->keys.out, seen[i].bytes, seen[i].len, h.seq);
		throw_at(seen[i].bytes, seen[i].len, qpn_of(&from->base));
		thrown++;
	}
	ck_assert_uint_ge(thrown, 2);
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) &&
	      both.backend->bad_mac + both.gateway->bad_mac >= thrown);
	ck_assert_uint_eq(both.backend->bad_mac + both.gateway->bad_mac, thrown);
	check_goes_on(2);
	close_both();
}

TEST(a_flood_of_noise_does_not_stop_a_connection)
{
	struct sl_prng rng;
	uint8_t noise[256];

	connect_both();
	sl_prng_seed(&rng, 5);
	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)sl_prng_below(&rng, 256);
		throw_at(noise, (uint32_t)sl_prng_below(&rng, sizeof(noise)),
			 i % 2 ? door() : ((struct ud_iface *)both.backend->poll_group)->qp->qpn);
		if (i % 100 == 0)
			check_goes_on(i + 1);
		if (i % 10 == 0)
			ck_assert_ptr_null(accepted());
	}
	ck_assert_uint_ge(listener->refused, 1);
	ck_assert_uint_ge(both.backend->poll_group->unmatched, 1);
	close_both();
}

/* --- sizes --- */

TEST(an_interface_takes_no_connection_with_datagrams_over_its_mtu)
{
	struct sl_transport *t = dialled();
	struct ud_iface *h;
	int rc;

	/* The port's MTU is another one when its owner gets a hall. */
	ud_sockets_mtu = 1024;
	h = ud_iface_new(&((struct ud_conn *)t)->ah_entry->local, 0, &rc);
	ck_assert_ptr_nonnull(h);
	h->refs = 1;
	ck_assert_int_eq(ud_conn_attach_iface((struct ud_conn *)t, h), -EMSGSIZE);
	ck_assert_ptr_null(t->poll_group);
	t->ops->close(t);
	ud_iface_put(h);
}

TEST(both_ends_agree_on_the_shorter_datagrams)
{
	ud_sockets_mtu = 2048;
	connect_both();
	ck_assert_uint_eq(((struct ud_conn *)both.gateway)->arq.payload,
			  2048 - sizeof(struct sl_ud_header));
	ck_assert_uint_eq(((struct ud_conn *)both.backend)->arq.payload,
			  2048 - sizeof(struct sl_ud_header));
	check_goes_on(1);
	close_both();
}

TEST(small_messages_take_bytes_of_the_window_and_not_datagrams)
{
	uint64_t id = 0;
	unsigned n = 0, posted = 0;

	connect_both();
	while (posted < 200 && post(both.gateway, posted + 1, BODY) == 0)
		posted++;
	ck_assert_uint_eq(posted, 200);
	until((take(both.gateway), both.gateway->ops->flush(both.gateway),
	       n += received(both.backend, &id), n == posted));
	ck_assert_uint_eq(id, posted);
	close_both();
}

TEST(long_messages_leave_room_for_urgent_ones)
{
	uint32_t window;
	uint64_t id;
	unsigned n = 0, posted = 0;

	connect_both();
	while ((window = both.gateway->ops->window(both.gateway)) >= SL_SENDQ_SLICE_MIN) {
		ck_assert_int_eq(post(both.gateway, ++posted, window), 0);
		ck_assert_uint_lt(posted, 100);
	}
	ck_assert_uint_ge(posted, 2);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(post(both.gateway, ++posted, BODY), 0);
	until((take(both.gateway), both.gateway->ops->flush(both.gateway),
	       n += received(both.backend, &id), n == posted));
	close_both();
}

/* --- peers that have the key, and lie --- */

/* As many as go. */
static uint32_t post_credits(struct sl_transport *t)
{
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
					.flags = SL_RPC_FIRST | SL_RPC_LAST};
	uint32_t posted = 0;

	do
		t->credits.acked = t->credits.sent; /* whatever the peer has room for */
	while (t->ops->post(t, &h, NULL, 0, 0) == 0 && ++posted);
	t->ops->flush(t);
	return posted;
}

/* A look takes some of them, and none is forgotten because there is nothing else. */
TEST(credits_without_end_are_taken_a_few_at_a_time)
{
	enum { AT_A_TIME = 8, MOST = 4 * AT_A_TIME };
	struct sl_message m[AT_A_TIME];
	uint32_t posted = 0, before;
	const struct ud_arq *f;

	connect_both();
	f = &((struct ud_conn *)both.backend)->arq;
	/* Until it keeps as many as it ever does. */
	until((posted += post_credits(both.gateway), take(both.backend), take(both.gateway),
	       f->next - f->base == f->window));
	do {
		before = both.backend->credits.consumed;
		ck_assert_int_eq(both.backend->ops->poll(both.backend, m, AT_A_TIME), 0);
		ck_assert_uint_le(both.backend->credits.consumed - before, MOST);
	} while (!both.backend->ops->arm(both.backend, false));
	ck_assert_uint_eq(f->ooo_bits, 0);
	until((take(both.gateway), take(both.backend),
	       both.backend->ops->poll(both.backend, m, AT_A_TIME) == 0 &&
		       both.backend->credits.consumed == posted));
	close_both();
}

/* Its earlier messages count; nothing behind them does. */
TEST(nothing_is_taken_from_a_peer_after_an_impossible_datagram)
{
	struct ud_arq *liars;
	struct sl_message m[8];

	connect_both();
	liars = &((struct ud_conn *)both.gateway)->arq;
	check_goes_on(1);
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) && ud_arq_idle(liars));
	ck_assert_int_eq(post(both.gateway, 2, BODY), 0);
	liars->next += 1000; /* claims to have what was never sent */
	ck_assert_int_eq(post(both.gateway, 3, BODY), 0);
	liars->next -= 1000;
	until((take(both.backend), both.backend->ops->check(both.backend) == -EPROTO));
	ck_assert_int_eq(post(both.gateway, 4, BODY), 0);
	for (unsigned i = 0; i < 50; i++) {
		usleep(1000);
		take(both.gateway); /* sends it again */
		take(both.backend);
	}
	ck_assert_int_eq(both.backend->ops->poll(both.backend, m, 8), 1);
	ck_assert_uint_eq(m[0].header.id, 2);
	both.backend->ops->release(both.backend, &m[0]);
	/* An answer to that tells why it fails, before the next poll. */
	ck_assert_int_eq(post(both.backend, 5, BODY), -EPROTO);
	ck_assert_int_eq(both.backend->ops->poll(both.backend, m, 8), -EPROTO);
	close_both();
}

static size_t memory_of(const struct sl_transport *t)
{
	return ((const struct ud_iface *)t->poll_group)->mem.used;
}

/* Only connections with messages under way have the memory for them, at both ends. */
TEST(an_idle_connection_has_no_memory_for_messages_under_way)
{
	uint64_t id = 0;

	connect_both();
	for (unsigned i = 1; i <= 100; i++)
		check_goes_on(i);
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) &&
	      !memory_of(both.gateway) && !memory_of(both.backend));
	ck_assert_int_eq(post(both.gateway, 101, UD_BULK_MAX / 2), 0);
	ck_assert_uint_ge(memory_of(both.gateway), UD_TX_BYTES / 2);
	until((take(both.gateway), take(both.backend), memory_of(both.backend)));
	ck_assert_uint_ge(memory_of(both.backend), UD_RX_BYTES);
	until(received(both.backend, &id));
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) &&
	      !memory_of(both.gateway) && !memory_of(both.backend));
	close_both();
}

TEST(a_closed_connection_is_noticed_at_once)
{
	connect_both();
	check_goes_on(1);
	both.gateway->ops->close(both.gateway);
	until((take(both.backend), both.backend->ops->check(both.backend) == -ENOTCONN));
	both.backend->ops->close(both.backend);
}
