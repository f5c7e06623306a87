/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener of RDMA connections outlives its device; resources of peers before and after their
 * proof.
 */
#include "rc_bed.h"

#include <stdio.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "rpc/rdma/rc/rc_listener.h"
#include "suite.h"
#include "until.h"

FIXTURE(set_up, tear_down)

static const char *address = "192.0.2.1:7471";

static struct sl_rpc_listener *listen_fake(void)
{
	char path[] = "/tmp/sl-verbs-XXXXXX";
	struct sl_err err = SL_ERR(128);
	const struct sl_rpc_listen_options opt = {.address = address,
						  .key_file = path,
						  .slots = SLOTS,
						  .bulk_ring_len = SL_RPC_MIN_BULK};
	int fd = mkstemp(path);
	struct sl_rpc_listener *l;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "0123456789abcdef", 16), 16);
	l = sl_rc_listen(&opt, &err);
	close(fd);
	unlink(path);
	ck_assert_msg(l != NULL, "%s", err.text);
	return l;
}

static void wait_a_little(uint64_t end_ns)
{
	ck_assert_uint_lt(sl_now_ns(), end_ns);
	usleep(1000);
}

/* A backend outlives its device: it listens again once that is back, and asks now and then. */
TEST(a_listener_outlives_its_device)
{
	struct sl_rpc_listener *l = listen_fake();
	uint64_t now_ns = sl_now_ns(), end_ns = now_ns + UNTIL_S * SL_NS_PER_SEC;

	ck_assert_ptr_null(l->ops->accept(l, now_ns));
	ck_assert_uint_eq(l->ops->next_ns(l), UINT64_MAX);
	fake.absent = true;
	ck_assert_int_eq(eventfd_write(fake.listening->channel->fd, 1), 0);
	while (fake.binds < 4)
		wait_a_little(end_ns);
	ck_assert_ptr_null(fake.listening);
	fake.absent = false;
	while (!fake.listening)
		wait_a_little(end_ns);
	ck_assert_ptr_null(l->ops->accept(l, now_ns));
	l->ops->close(l);
}

/* As when two devices are bonded, and the other one takes over: it listens by that. */
TEST(a_listener_follows_its_address)
{
	struct sl_rpc_listener *l = listen_fake();
	uint64_t now_ns = sl_now_ns(), end_ns = now_ns + UNTIL_S * SL_NS_PER_SEC;
	unsigned binds = fake.binds;

	ck_assert_ptr_null(l->ops->accept(l, now_ns));
	fake.moved = true;
	ck_assert_int_eq(eventfd_write(fake.listening->channel->fd, 1), 0);
	while (fake.binds == binds || !fake.listening)
		wait_a_little(end_ns);
	ck_assert_uint_eq(fake.binds, binds + 1);
	ck_assert_ptr_null(l->ops->accept(l, now_ns));
	l->ops->close(l);
}

/* Objects for the first peer exist before it comes. */
TEST(a_listener_prepares_objects_for_peers)
{
	struct sl_rpc_listener *l;
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	size_t registered;
	unsigned qps;

	sl_rdma_wait_closed();
	qps = fake.qps;
	registered = fake.registered;
	l = listen_fake();
	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	while (fake.qps < qps + RC_QP_POOL_READY || fake.registered == registered)
		wait_a_little(end_ns);
	l->ops->close(l);
}

static struct auth_target dialled(const char *whom)
{
	struct sockaddr_storage sa;

	ck_assert_int_eq(rdma_parse_addr(whom, &sa), 0);
	return auth_target_of((struct sockaddr *)&sa);
}

static struct cm_request request_to(const char *whom, char first_of_key, uint32_t slots)
{
	static uint32_t number;
	char bytes[] = "0123456789abcdef";
	struct sl_psk key;
	struct cm_transcript talk = {.target = dialled(whom),
				     .request = {.magic = CM_MAGIC,
						 .version = RC_WIRE_VERSION,
						 .epoch = 7,
						 .slots = slots,
						 .bulk_len = SL_RPC_MIN_BULK,
						 .number = ++number}};

	bytes[0] = first_of_key;
	key = sl_psk_of(bytes, 16);
	auth_sign(&key, &talk, CM_REQUEST);
	return talk.request;
}

static struct cm_request request(char first_of_key, uint32_t slots)
{
	return request_to("192.0.2.1:7471", first_of_key, slots);
}

/* It is refused, and the device has not been asked for anything, not even for a while. */
static void refuse(struct sl_rpc_listener *l, const struct cm_request *rq, size_t len,
		   enum rc_verdict verdict)
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC, refused = l->refused;
	unsigned steps = fake.steps, qps = fake.qps, cqs = fake.cqs, ids = fake.ids;
	unsigned registrations = fake.registrations;

	fake_ask(rq, (uint8_t)len);
	while (l->refused == refused) {
		wait_a_little(end_ns);
		ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	}
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.rejection.verdict, verdict);
	ck_assert_uint_eq(fake.steps, steps);
	ck_assert_uint_eq(fake.qps, qps);
	ck_assert_uint_eq(fake.cqs, cqs);
	ck_assert_uint_eq(fake.registrations, registrations);
	ck_assert_uint_eq(fake.ids, ids);
}

/* Nothing is allocated for a peer before it has proven the key. */
TEST(a_refused_peer_costs_no_resources)
{
	unsigned qps, steps;
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	struct sl_rpc_listener *l;
	struct cm_request rq;

	sl_rdma_wait_closed();
	qps = fake.qps;
	l = listen_fake();
	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	while (fake.qps < qps + RC_QP_POOL_READY)
		wait_a_little(end_ns);
	sl_rdma_wait_closed();
	refuse(l, NULL, 0, RC_OTHER_VERSION);
	rq = request('0', SLOTS);
	refuse(l, &rq, sizeof(rq) - 1, RC_OTHER_VERSION);
	rq.magic++;
	refuse(l, &rq, sizeof(rq), RC_OTHER_VERSION);
	rq = request('0', SLOTS);
	rq.version--;
	refuse(l, &rq, sizeof(rq), RC_OTHER_VERSION);
	rq = request('1', SLOTS);
	refuse(l, &rq, sizeof(rq), RC_OTHER_KEY);
	rq = request('0', SLOTS);
	rq.slots /= 2;
	refuse(l, &rq, sizeof(rq), RC_OTHER_KEY);
	rq = request('0', SLOTS - 1);
	refuse(l, &rq, sizeof(rq), RC_BAD_SIZES);
	/* A proven peer gets its resources once. */
	rq = request('0', SLOTS);
	steps = fake.steps;
	fake_ask(&rq, sizeof(rq));
	while (!fake.accepts)
		wait_a_little(end_ns);
	sl_rdma_wait_closed();
	ck_assert_uint_gt(fake.steps, steps);
	refuse(l, &rq, sizeof(rq), RC_OTHER_KEY);
	l->ops->close(l);
}

/*
 * A peer whose objects cannot be created is told that there is no room, and leaves nothing behind.
 * Its id may be movable between channels or not.
 */
TEST_EACH(a_peer_that_finds_no_room_leaves_nothing, 3)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct cm_request rq = request('0', SLOTS);
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	unsigned ids = fake.ids, channels = fake.channels;

	fake.migrates = (unsigned)_i;
	fake.fails_qps = true;
	ck_assert_ptr_null(l->base.ops->accept(&l->base, sl_now_ns()));
	fake_ask(&rq, sizeof(rq));
	while (!l->refused)
		wait_a_little(end_ns);
	ck_assert_uint_eq(fake.rejection.verdict, RC_FULL);
	fake.fails_qps = false;
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.ids, ids);
	ck_assert_uint_eq(fake.channels, channels);
	l->base.ops->close(&l->base);
}

/* A request that another backend was sent is worth nothing here, as new as it may look. */
TEST(a_request_is_for_the_dialled_address)
{
	static const char *const others[] = {"192.0.2.2:7471", "192.0.2.1:7472",
					     "[2001:db8::1]:7471", "[::ffff:192.0.2.1]:7471"};
	struct sl_rpc_listener *l = listen_fake();

	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	sl_rdma_wait_closed();
	for (unsigned i = 0; i < SL_ARRAY_LEN(others); i++) {
		struct cm_request rq = request_to(others[i], '0', SLOTS);

		refuse(l, &rq, sizeof(rq), RC_OTHER_KEY);
	}
	l->ops->close(l);
}

/* --- a host that begins, and does not go on --- */

static struct sl_rpc_listener *listening(void)
{
	struct sl_rpc_listener *l = listen_fake();

	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	return l;
}

/* Whether that request is granted, as the connection manager is told. */
static bool is_granted(struct sl_rpc_listener *l, const struct cm_request *rq)
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	unsigned accepts = fake.accepts;
	uint64_t refused = l->refused;

	fake_ask(rq, sizeof(*rq));
	while (fake.accepts == accepts && l->refused == refused) {
		wait_a_little(end_ns);
		ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	}
	return fake.accepts != accepts;
}

/*
 * A wildcard listener takes requests for an address of its device, which the kernel does not check.
 */
TEST(a_wildcard_is_dialled_by_an_address_of_the_device)
{
	struct sl_rpc_listener *l;
	struct cm_request rq = request('0', SLOTS);

	address = "0.0.0.0:7471";
	l = listening();
	ck_assert_int_eq(rdma_parse_addr("192.0.2.1:7471", &fake.here), 0);
	ck_assert(!is_granted(l, &rq));
	ck_assert_uint_eq(fake.rejection.verdict, RC_OTHER_KEY);
	fake.addressed = true;
	ck_assert(is_granted(l, &rq));
	l->ops->close(l);
}

/* One of that host. */
static bool is_accepted(struct sl_rpc_listener *l, uint8_t host)
{
	struct cm_request rq = request('0', SLOTS);
	bool granted;

	fake.asker = host;
	granted = is_granted(l, &rq);
	ck_assert(granted || fake.rejection.verdict == RC_FULL);
	return granted;
}

/* Requests by the connection manager: others are accepted despite any number of them. */
TEST(unfinished_requests_leave_places_to_other_hosts)
{
	struct sl_rpc_listener *l = listening();
	unsigned places = 0;

	for (uint8_t host = 1; host <= RC_PENDING_MAX / RC_PENDING_PER_HOST; host++) {
		for (unsigned i = 0; i < RC_PENDING_PER_HOST; i++)
			places += is_accepted(l, host);
		ck_assert(!is_accepted(l, host));
		ck_assert_uint_eq(places, host * RC_PENDING_PER_HOST);
	}
	ck_assert(!is_accepted(l, 100)); /* there are no more */
	l->ops->close(l);
}

/* A host that was shut out of a desk is kept out for a while: by the connection manager, and below by the door. */
static void block_host(struct rc_listener *l, uint8_t host, bool on)
{
	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		struct rc_rx_cq *d = l->pending[i].conn ? l->pending[i].conn->rx_cq : NULL;

		if (!d)
			continue;
		/* The rx_cq finds other connections of its host by this. */
		ck_assert(l->pending[i].conn->is_inbound);
		ck_assert_mem_eq(l->pending[i].conn->host, l->pending[i].host,
				 sizeof(d->blocked_host));
		memset(d->blocked_host, 0, sizeof(d->blocked_host));
		d->blocked_host[15] = host;
		d->blocked_until_ns = on ? UINT64_MAX : 0;
	}
}

TEST(a_host_that_was_shut_out_comes_later)
{
	struct sl_rpc_listener *l = listening();

	ck_assert(is_accepted(l, 1));
	block_host((struct rc_listener *)l, 1, true);
	ck_assert(!is_accepted(l, 1));
	ck_assert(is_accepted(l, 2));
	block_host((struct rc_listener *)l, 1, false);
	ck_assert(is_accepted(l, 1));
	l->ops->close(l);
}

/* --- the door --- */

/* Repeated behaviour of a device: a poll that fails or finds nothing, and whether it is armed. */
static const struct {
	int polled;
	bool armed, stays;
} devices[] = {{-EIO, false, false}, {-EIO, true, false}, {0, false, false}, {0, true, true}};
static unsigned which, closed;

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

static int door_ring(struct ud_qp *p)
{
	(void)p;
	return 0;
}

static void door_take_bell(struct ud_qp *p)
{
	(void)p;
}

static void door_close(struct ud_qp *p)
{
	(void)p;
	closed++;
}

static void nobody(void *arg, const struct wireup_request *h)
{
	(void)arg, (void)h;
	ck_abort_msg("nobody has knocked");
}

/* A removed device, of which a wildcard listener is not notified, keeps no thread awake. */
TEST_EACH(a_wireup_listener_whose_device_fails_is_closed, SL_ARRAY_LEN(devices))
{
	static const struct rdma_device_ops device = {.poll = door_poll,
						      .arm = door_arm,
						      .flush = door_ring,
						      .ack_event = door_take_bell,
						      .close = door_close};
	struct ud_qp pair = {.fd = -1};
	struct wireup_listener d = {.qp = &pair};

	which = (unsigned)_i;
	rdma_device = &device;
	wireup_listener_poll(&d, nobody, NULL);
	ck_assert(!d.more);
	ck_assert_int_eq(d.qp != NULL, devices[_i].stays);
	ck_assert_uint_eq(closed, !devices[_i].stays);
}

static unsigned doors;

static struct ud_qp *door_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			       uint32_t tx_cnt, int *rc)
{
	static struct ud_qp pair;

	(void)l, (void)group, (void)rx_cnt, (void)tx_cnt;
	pair.fd = eventfd(0, EFD_CLOEXEC);
	*rc = doors++ ? 0 : -ENOMEM;
	return *rc ? NULL : &pair;
}

/* There was no room before; now there is for the next one. */
TEST(a_wireup_listener_that_failed_to_open_is_tried_again)
{
	static const struct rdma_device_ops device = {
		.open = door_open, .arm = door_arm, .close = door_close};
	struct rc_listener *l = (struct rc_listener *)listen_fake();

	rdma_device = &device;
	fake.addressed = true;
	fake_address(v->peer->id);
	rc_listener_open_wireup(l, v->peer->id);
	ck_assert_ptr_null(l->wireup.qp);
	rc_listener_open_wireup(l, v->peer->id);
	ck_assert_ptr_nonnull(l->wireup.qp);
	ck_assert_ptr_eq(l->wireup_device, &fake.context);
	rc_listener_open_wireup(l, v->peer->id);
	ck_assert_uint_eq(doors, 2);
	l->base.ops->close(&l->base);
}

static struct wireup_request said_there = {.gid = {[15] = 7}};
static unsigned left, knocked;

static int one_hello(struct ud_qp *p, struct ud_packet *packets, unsigned max)
{
	(void)p, (void)max;
	packets[0] = (struct ud_packet){.bytes = (uint8_t *)&said_there, .len = sizeof(said_there)};
	return left ? (int)left-- : 0;
}

static int put_back_none(struct ud_qp *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p, (void)packets, (void)cnt;
	return 0;
}

static bool is_from_seven(const struct ud_packet *p, const uint8_t gid[16])
{
	(void)p;
	return gid[15] == 7;
}

static bool is_armed(struct ud_qp *p)
{
	(void)p;
	return true;
}

static void count_knock(void *arg, const struct wireup_request *h)
{
	(void)arg, (void)h;
	knocked++;
}

TEST(a_wireup_hello_holds_for_its_own_source_host_only)
{
	static const struct rdma_device_ops device = {.poll = one_hello,
						      .repost = put_back_none,
						      .is_from = is_from_seven,
						      .arm = is_armed,
						      .flush = door_ring,
						      .ack_event = door_take_bell};
	struct ud_qp pair = {.fd = -1};
	struct wireup_listener d = {.qp = &pair};

	rdma_device = &device;
	left = 1;
	wireup_listener_poll(&d, count_knock, NULL);
	ck_assert_uint_eq(knocked, 1);
	said_there.gid[15] = 8;
	left = 1;
	wireup_listener_poll(&d, count_knock, NULL);
	ck_assert_uint_eq(knocked, 1);
}

static uint8_t *no_slot(struct ud_qp *p)
{
	(void)p;
	return NULL;
}

static struct wireup_target door; /* the wireup queue pair meant */

/* A HELLO of that host and queue pair; no answer arrives. */
static void say_hello_of(struct rc_listener *l, uint8_t host, uint32_t qpn)
{
	static const struct rdma_device_ops mute = {.tx_buf = no_slot};
	static uint32_t number;
	struct wireup_transcript said = {.to = door,
					 .request = {.magic = WIREUP_MAGIC,
						     .version = RC_WIRE_VERSION,
						     .epoch = 9,
						     .number = ++number,
						     .gid = {[15] = host},
						     .slots = SLOTS,
						     .bulk_len = SL_RPC_MIN_BULK,
						     .qpn = qpn}};

	rdma_device = &mute;
	l->wireup_device = &fake.context;
	wireup_sign(&l->psk, &said, WIREUP_REQUEST, said.request.proof);
	wireup_handle_request(l, &said.request);
}

/* A HELLO of a further queue pair. */
static void say_hello(struct rc_listener *l, uint8_t host)
{
	static uint32_t qpn;

	say_hello_of(l, host, ++qpn);
}

static unsigned waiting(const struct rc_listener *l)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < RC_PENDING_MAX; i++)
		cnt += l->pending[i].conn != NULL;
	return cnt;
}

/* A connection of that host, which makes it known to the wireup listener. */
static struct rc_conn *meet(uint8_t host)
{
	struct rc_conn *met = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);

	fake.addressed = true;
	fake_address(met->peer->id);
	rc_peer_publish(met->peer, met->qp.qp, &(struct rc_peer_addr){.epoch = 9, .wireup_qpn = 5});
	ck_assert(met->peer->published);
	met->peer->addr.qp_attr.ah_attr.grh.dgid.raw[15] = host;
	met->peer->id->route.addr.addr.ibaddr.dgid.raw[15] = host;
	door.epoch = sl_rpc_boot_epoch();
	return met;
}

/* The same by wireup, at a listener whose thread does not run; other requests are accepted. */
TEST(unfinished_wireups_leave_places_to_other_hosts)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct rc_conn *met[] = {meet(1), meet(2), meet(3)};
	const uint8_t gid[16] = {[15] = 1};

	fake.opens = true;
	for (uint8_t host = 1; host <= SL_ARRAY_LEN(met); host++) {
		unsigned most = host * RC_PENDING_PER_HOST;

		for (unsigned i = 0; i < 2 * RC_PENDING_PER_HOST; i++)
			say_hello(l, host);
		ck_assert_uint_eq(waiting(l),
				  most < RC_PENDING_BY_WIREUP ? most : RC_PENDING_BY_WIREUP);
	}
	ck_assert_ptr_nonnull(rc_pending_alloc(l, gid, false));
	for (unsigned i = 0; i < SL_ARRAY_LEN(met); i++)
		met[i]->base.ops->close(&met[i]->base);
	l->base.ops->close(&l->base);
}

/* A HELLO for another process's wireup queue pair, or another one, gets nothing here. */
TEST(a_hello_is_valid_for_one_wireup_listener)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct rc_conn *met = meet(1);

	fake.opens = true;
	door.epoch++;
	say_hello(l, 1);
	door.epoch--;
	door.qpn = 1;
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 0);
	door.qpn = 0;
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 1);
	met->base.ops->close(&met->base);
	l->base.ops->close(&l->base);
}

TEST(a_blocked_host_connects_by_wireup_after_its_block)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct rc_conn *met[] = {meet(1), meet(2)};

	fake.opens = true;
	say_hello(l, 1);
	block_host(l, 1, true);
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 1);
	say_hello(l, 2);
	ck_assert_uint_eq(waiting(l), 2);
	block_host(l, 1, false);
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 3);
	for (unsigned i = 0; i < SL_ARRAY_LEN(met); i++)
		met[i]->base.ops->close(&met[i]->base);
	l->base.ops->close(&l->base);
}

/*
 * A peer that missed the answer repeats its HELLO with the same queue pair. The former connection
 * ends without a BYE: the new one's peer would get it, or any host whose queue pair was named.
 */
TEST(a_repeated_hello_closes_the_former_connection_silently)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct rc_conn *met = meet(1);
	unsigned sends;

	fake.opens = true;
	sends = fake.sends;
	for (unsigned i = 0; i < 3; i++)
		say_hello_of(l, 1, 77);
	ck_assert_uint_eq(waiting(l), 1);
	l->base.ops->close(&l->base);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.sends, sends);
	met->base.ops->close(&met->base);
}

/* --- a series of numbers --- */

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage sa;

	ck_assert_int_eq(rdma_parse_addr(text, &sa), 0);
	return sa;
}

static uint64_t series_to(const char *text)
{
	struct sockaddr_storage sa = address_of(text);
	uint8_t series[AUTH_SENDER_ID_LEN];

	ck_assert_int_eq(auth_sender_id(&sa, series), 0);
	return auth_sender_id_word(series);
}

enum { FAR = 0x7ffffff0 }; /* as far ahead as a number may be */

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

static struct cm_request request_of(uint64_t series, uint32_t number)
{
	struct sl_psk key = sl_psk_of("0123456789abcdef", 16);
	struct cm_transcript talk = {.target = dialled(address), .request = request('0', SLOTS)};

	memcpy(talk.request.sender_id, &series, sizeof(series));
	talk.request.number = number;
	auth_sign(&key, &talk, CM_REQUEST);
	return talk.request;
}

/* One that has the key, and has heard which process that is, asks in its name. */
TEST(the_numbers_of_a_process_are_its_own)
{
	struct sl_rpc_listener *l = listening();
	const struct cm_request own[] = {request_of(1234, 5), request_of(1234, 6)};
	const struct cm_request others = request_of(4321, FAR);

	ck_assert_uint_eq(own[0].epoch, others.epoch);
	ck_assert(is_granted(l, &own[0]));
	ck_assert(is_granted(l, &others));
	ck_assert(is_granted(l, &own[1]));
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(!is_granted(l, &own[i])); /* each once */
		ck_assert_uint_eq(fake.rejection.verdict, RC_OTHER_KEY);
	}
	l->ops->close(l);
}

static void say_hello_as(struct rc_listener *l, uint64_t series, uint32_t number, uint32_t qpn)
{
	struct wireup_transcript said = {.to = door,
					 .request = {.magic = WIREUP_MAGIC,
						     .version = RC_WIRE_VERSION,
						     .epoch = 9,
						     .number = number,
						     .gid = {[15] = 1},
						     .slots = SLOTS,
						     .bulk_len = SL_RPC_MIN_BULK,
						     .qpn = qpn}};

	memcpy(said.request.sender_id, &series, sizeof(series));
	wireup_sign(&l->psk, &said, WIREUP_REQUEST, said.request.proof);
	wireup_handle_request(l, &said.request);
}

/* The same at the door; nor does another one's HELLO take the place of one of the same queue pair. */
TEST(the_wireup_numbers_of_a_process_are_its_own)
{
	struct rc_listener *l = (struct rc_listener *)listen_fake();
	struct rc_conn *met = meet(1);

	fake.opens = true;
	say_hello(l, 1);
	say_hello_as(l, 1234, 5, 77);
	ck_assert_uint_eq(waiting(l), 2);
	say_hello_as(l, 4321, FAR, 77);
	ck_assert_uint_eq(waiting(l), 3);
	say_hello_as(l, 1234, 6, 78);
	ck_assert_uint_eq(waiting(l), 4);
	say_hello_as(l, 1234, 6, 79);
	ck_assert_uint_eq(waiting(l), 4); /* once */
	met->base.ops->close(&met->base);
	l->base.ops->close(&l->base);
}
