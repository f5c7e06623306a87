/* SPDX-License-Identifier: Apache-2.0 */
/* A listener of RDMA connections: it outlives its device, and what who knocks may have of it. */
#include "verbs_bed.h"

#include <stdio.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "rpc/verbs/listener.h"
#include "suite.h"

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
	l = sl_verbs_listen(&opt, &err);
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
	uint64_t now_ns = sl_now_ns(), end_ns = now_ns + 20 * SL_NS_PER_SEC;

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
	uint64_t now_ns = sl_now_ns(), end_ns = now_ns + 20 * SL_NS_PER_SEC;
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

/* What the first peer will need is there before it comes. */
TEST(a_listener_makes_ahead_what_peers_need)
{
	struct sl_rpc_listener *l;
	uint64_t end_ns = sl_now_ns() + 20 * SL_NS_PER_SEC;
	size_t registered;
	unsigned qps;

	sl_verbs_settle();
	qps = fake.qps;
	registered = fake.registered;
	l = listen_fake();
	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	while (fake.qps < qps + VB_ENDS_READY || fake.registered == registered)
		wait_a_little(end_ns);
	l->ops->close(l);
}

static struct vb_dialled dialled(const char *whom)
{
	struct sockaddr_storage sa;

	ck_assert_int_eq(vb_address(whom, &sa), 0);
	return vb_dialled_of((struct sockaddr *)&sa);
}

static struct vb_request request_to(const char *whom, char first_of_key, uint32_t slots)
{
	static uint32_t number;
	char bytes[] = "0123456789abcdef";
	struct sl_secret key;
	struct vb_talk talk = {.dialled = dialled(whom),
			       .request = {.magic = VB_MAGIC,
					   .version = VB_VERSION,
					   .epoch = 7,
					   .slots = slots,
					   .bulk_len = SL_RPC_MIN_BULK,
					   .number = ++number}};

	bytes[0] = first_of_key;
	key = sl_secret_of(bytes, 16);
	vb_prove(&key, &talk, VB_REQUEST);
	return talk.request;
}

static struct vb_request request(char first_of_key, uint32_t slots)
{
	return request_to("192.0.2.1:7471", first_of_key, slots);
}

/* It is refused, and the device has not been asked for anything, not even for a while. */
static void refuse(struct sl_rpc_listener *l, const struct vb_request *rq, size_t len,
		   enum vb_verdict verdict)
{
	uint64_t end_ns = sl_now_ns() + 20 * SL_NS_PER_SEC, refused = l->refused;
	unsigned steps = fake.steps, qps = fake.qps, cqs = fake.cqs, ids = fake.ids;
	unsigned registrations = fake.registrations;

	fake_ask(rq, (uint8_t)len);
	while (l->refused == refused) {
		wait_a_little(end_ns);
		ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	}
	sl_verbs_settle();
	ck_assert_uint_eq(fake.rejection.verdict, verdict);
	ck_assert_uint_eq(fake.steps, steps);
	ck_assert_uint_eq(fake.qps, qps);
	ck_assert_uint_eq(fake.cqs, cqs);
	ck_assert_uint_eq(fake.registrations, registrations);
	ck_assert_uint_eq(fake.ids, ids);
}

/* Before who asks has proven the key nothing is made for it. */
TEST(who_is_refused_costs_no_resources)
{
	unsigned qps, steps;
	uint64_t end_ns = sl_now_ns() + 20 * SL_NS_PER_SEC;
	struct sl_rpc_listener *l;
	struct vb_request rq;

	sl_verbs_settle();
	qps = fake.qps;
	l = listen_fake();
	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	while (fake.qps < qps + VB_ENDS_READY)
		wait_a_little(end_ns);
	sl_verbs_settle();
	refuse(l, NULL, 0, VB_OTHER_VERSION);
	rq = request('0', SLOTS);
	refuse(l, &rq, sizeof(rq) - 1, VB_OTHER_VERSION);
	rq.magic++;
	refuse(l, &rq, sizeof(rq), VB_OTHER_VERSION);
	rq = request('0', SLOTS);
	rq.version--;
	refuse(l, &rq, sizeof(rq), VB_OTHER_VERSION);
	rq = request('1', SLOTS);
	refuse(l, &rq, sizeof(rq), VB_OTHER_KEY);
	rq = request('0', SLOTS);
	rq.slots /= 2;
	refuse(l, &rq, sizeof(rq), VB_OTHER_KEY);
	rq = request('0', SLOTS - 1);
	refuse(l, &rq, sizeof(rq), VB_BAD_SIZES);
	/* Who has proven it has something, and once. */
	rq = request('0', SLOTS);
	steps = fake.steps;
	fake_ask(&rq, sizeof(rq));
	while (!fake.accepts)
		wait_a_little(end_ns);
	sl_verbs_settle();
	ck_assert_uint_gt(fake.steps, steps);
	refuse(l, &rq, sizeof(rq), VB_OTHER_KEY);
	l->ops->close(l);
}

/*
 * For whom something cannot be made is told that there is no room, and leaves nothing, whether or not
 * its id can go from channel to channel.
 */
TEST_EACH(who_finds_no_room_leaves_nothing, 3)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct vb_request rq = request('0', SLOTS);
	uint64_t end_ns = sl_now_ns() + 20 * SL_NS_PER_SEC;
	unsigned ids = fake.ids, channels = fake.channels;

	fake.migrates = (unsigned)_i;
	fake.fails_qps = true;
	ck_assert_ptr_null(l->base.ops->accept(&l->base, sl_now_ns()));
	fake_ask(&rq, sizeof(rq));
	while (!l->refused)
		wait_a_little(end_ns);
	ck_assert_uint_eq(fake.rejection.verdict, VB_FULL);
	fake.fails_qps = false;
	sl_verbs_settle();
	ck_assert_uint_eq(fake.ids, ids);
	ck_assert_uint_eq(fake.channels, channels);
	l->base.ops->close(&l->base);
}

/* A request that another backend was sent is worth nothing here, as new as it may look. */
TEST(a_request_is_for_who_was_dialled)
{
	static const char *const others[] = {"192.0.2.2:7471", "192.0.2.1:7472",
					     "[2001:db8::1]:7471", "[::ffff:192.0.2.1]:7471"};
	struct sl_rpc_listener *l = listen_fake();

	ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	sl_verbs_settle();
	for (unsigned i = 0; i < SL_ARRAY_LEN(others); i++) {
		struct vb_request rq = request_to(others[i], '0', SLOTS);

		refuse(l, &rq, sizeof(rq), VB_OTHER_KEY);
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
static bool is_granted(struct sl_rpc_listener *l, const struct vb_request *rq)
{
	uint64_t end_ns = sl_now_ns() + 20 * SL_NS_PER_SEC;
	unsigned accepts = fake.accepts;
	uint64_t refused = l->refused;

	fake_ask(rq, sizeof(*rq));
	while (fake.accepts == accepts && l->refused == refused) {
		wait_a_little(end_ns);
		ck_assert_ptr_null(l->ops->accept(l, sl_now_ns()));
	}
	return fake.accepts != accepts;
}

/* Who listens at all addresses takes what says one of its device, which the kernel does not look at. */
TEST(a_wildcard_is_dialled_by_an_address_of_the_device)
{
	struct sl_rpc_listener *l;
	struct vb_request rq = request('0', SLOTS);

	address = "0.0.0.0:7471";
	l = listening();
	ck_assert_int_eq(vb_address("192.0.2.1:7471", &fake.here), 0);
	ck_assert(!is_granted(l, &rq));
	ck_assert_uint_eq(fake.rejection.verdict, VB_OTHER_KEY);
	fake.addressed = true;
	ck_assert(is_granted(l, &rq));
	l->ops->close(l);
}

/* One of that host. */
static bool is_accepted(struct sl_rpc_listener *l, uint8_t host)
{
	struct vb_request rq = request('0', SLOTS);
	bool granted;

	fake.asker = host;
	granted = is_granted(l, &rq);
	ck_assert(granted || fake.rejection.verdict == VB_FULL);
	return granted;
}

/* By the connection manager: however often it asks, others are taken. */
TEST(who_does_not_go_on_leaves_places_to_other_hosts)
{
	struct sl_rpc_listener *l = listening();
	unsigned places = 0;

	for (uint8_t host = 1; host <= VB_PENDING_MAX / VB_PENDING_OF_HOST; host++) {
		for (unsigned i = 0; i < VB_PENDING_OF_HOST; i++)
			places += is_accepted(l, host);
		ck_assert(!is_accepted(l, host));
		ck_assert_uint_eq(places, host * VB_PENDING_OF_HOST);
	}
	ck_assert(!is_accepted(l, 100)); /* there are no more */
	l->ops->close(l);
}

/* A host that was shut out of a desk is kept out for a while: by the connection manager, and below by the door. */
static void shun(struct vb_listener *l, uint8_t host, bool on)
{
	for (unsigned i = 0; i < VB_PENDING_MAX; i++) {
		struct vb_desk *d = l->pending[i].v ? l->pending[i].v->desk : NULL;

		if (!d)
			continue;
		/* By which the desk knows others of its host. */
		ck_assert(l->pending[i].v->has_come);
		ck_assert_mem_eq(l->pending[i].v->host, l->pending[i].host, sizeof(d->shunned));
		memset(d->shunned, 0, sizeof(d->shunned));
		d->shunned[15] = host;
		d->shunned_until_ns = on ? UINT64_MAX : 0;
	}
}

TEST(a_host_that_was_shut_out_comes_later)
{
	struct sl_rpc_listener *l = listening();

	ck_assert(is_accepted(l, 1));
	shun((struct vb_listener *)l, 1, true);
	ck_assert(!is_accepted(l, 1));
	ck_assert(is_accepted(l, 2));
	shun((struct vb_listener *)l, 1, false);
	ck_assert(is_accepted(l, 1));
	l->ops->close(l);
}

/* --- the door --- */

/* What a device does, time after time: a poll that fails, or finds nothing; and is it armed? */
static const struct {
	int polled;
	bool armed, stays;
} devices[] = {{-EIO, false, false}, {-EIO, true, false}, {0, false, false}, {0, true, true}};
static unsigned which, closed;

static int door_poll(struct ud_pair *p, struct ud_packet *packets, unsigned max)
{
	(void)p, (void)packets, (void)max;
	return devices[which].polled;
}

static bool door_arm(struct ud_pair *p)
{
	(void)p;
	return devices[which].armed;
}

static int door_ring(struct ud_pair *p)
{
	(void)p;
	return 0;
}

static void door_take_bell(struct ud_pair *p)
{
	(void)p;
}

static void door_close(struct ud_pair *p)
{
	(void)p;
	closed++;
}

static void nobody(void *arg, const struct vb_hello *h)
{
	(void)arg, (void)h;
	ck_abort_msg("nobody has knocked");
}

/* A device that has gone, of which a wildcard's listener hears nothing, keeps nobody awake. */
TEST_EACH(a_door_whose_device_can_no_more_is_closed, SL_ARRAY_LEN(devices))
{
	static const struct ud_device device = {.poll = door_poll,
						.arm = door_arm,
						.ring = door_ring,
						.take_bell = door_take_bell,
						.close = door_close};
	struct ud_pair pair = {.fd = -1};
	struct vb_door d = {.pair = &pair};

	which = (unsigned)_i;
	ud_device = &device;
	vb_door_look(&d, nobody, NULL);
	ck_assert(!d.more);
	ck_assert_int_eq(d.pair != NULL, devices[_i].stays);
	ck_assert_uint_eq(closed, !devices[_i].stays);
}

static unsigned doors;

static struct ud_pair *door_open(const struct ud_local *l, unsigned group, uint32_t rx_cnt,
				 uint32_t tx_cnt, int *rc)
{
	static struct ud_pair pair;

	(void)l, (void)group, (void)rx_cnt, (void)tx_cnt;
	pair.fd = eventfd(0, EFD_CLOEXEC);
	*rc = doors++ ? 0 : -ENOMEM;
	return *rc ? NULL : &pair;
}

/* For which there was no room: there is one for who comes next. */
TEST(a_door_that_cannot_be_opened_is_tried_again)
{
	static const struct ud_device device = {
		.open = door_open, .arm = door_arm, .close = door_close};
	struct vb_listener *l = (struct vb_listener *)listen_fake();

	ud_device = &device;
	fake.addressed = true;
	fake_address(v->leash->id);
	vb_listener_door(l, v->leash->id);
	ck_assert_ptr_null(l->door.pair);
	vb_listener_door(l, v->leash->id);
	ck_assert_ptr_nonnull(l->door.pair);
	ck_assert_ptr_eq(l->door_device, &fake.context);
	vb_listener_door(l, v->leash->id);
	ck_assert_uint_eq(doors, 2);
	l->base.ops->close(&l->base);
}

static struct vb_hello said_there = {.gid = {[15] = 7}};
static unsigned left, knocked;

static int one_hello(struct ud_pair *p, struct ud_packet *packets, unsigned max)
{
	(void)p, (void)max;
	packets[0] = (struct ud_packet){.bytes = (uint8_t *)&said_there, .len = sizeof(said_there)};
	return left ? (int)left-- : 0;
}

static int put_back_none(struct ud_pair *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p, (void)packets, (void)cnt;
	return 0;
}

static bool is_from_seven(const struct ud_packet *p, const uint8_t gid[16])
{
	(void)p;
	return gid[15] == 7;
}

static bool is_armed(struct ud_pair *p)
{
	(void)p;
	return true;
}

static void count_knock(void *arg, const struct vb_hello *h)
{
	(void)arg, (void)h;
	knocked++;
}

TEST(a_host_says_hello_at_a_door_for_itself_only)
{
	static const struct ud_device device = {.poll = one_hello,
						.put_back = put_back_none,
						.is_from = is_from_seven,
						.arm = is_armed,
						.ring = door_ring,
						.take_bell = door_take_bell};
	struct ud_pair pair = {.fd = -1};
	struct vb_door d = {.pair = &pair};

	ud_device = &device;
	left = 1;
	vb_door_look(&d, count_knock, NULL);
	ck_assert_uint_eq(knocked, 1);
	said_there.gid[15] = 8;
	left = 1;
	vb_door_look(&d, count_knock, NULL);
	ck_assert_uint_eq(knocked, 1);
}

static uint8_t *no_slot(struct ud_pair *p)
{
	(void)p;
	return NULL;
}

static struct vb_door_name door; /* that is meant */

/* What that host says at the door, of that queue pair; no answer to it arrives. */
static void say_hello_of(struct vb_listener *l, uint8_t host, uint32_t qpn)
{
	static const struct ud_device mute = {.slot = no_slot};
	static uint32_t number;
	struct vb_greetings said = {.to = door,
				    .hello = {.magic = VB_DOOR_MAGIC,
					      .version = VB_VERSION,
					      .epoch = 9,
					      .number = ++number,
					      .gid = {[15] = host},
					      .slots = SLOTS,
					      .bulk_len = SL_RPC_MIN_BULK,
					      .qpn = qpn}};

	ud_device = &mute;
	l->door_device = &fake.context;
	vb_greeting_prove(&l->secret, &said, VB_HELLO, said.hello.proof);
	vb_admit(l, &said.hello);
}

/* Of one more. */
static void say_hello(struct vb_listener *l, uint8_t host)
{
	static uint32_t qpn;

	say_hello_of(l, host, ++qpn);
}

static unsigned waiting(const struct vb_listener *l)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < VB_PENDING_MAX; i++)
		cnt += l->pending[i].v != NULL;
	return cnt;
}

/* From that host: who comes by the door has been met already. */
static struct sl_verbs *meet(uint8_t host)
{
	struct sl_verbs *met = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);

	fake.addressed = true;
	fake_address(met->leash->id);
	vb_leash_share(met->leash, met->end.qp, &(struct vb_known){.epoch = 9, .door = 5});
	ck_assert(met->leash->shared);
	met->leash->known.way.ah_attr.grh.dgid.raw[15] = host;
	met->leash->id->route.addr.addr.ibaddr.dgid.raw[15] = host;
	door.epoch = sl_rpc_boot_epoch();
	return met;
}

/* The same at the door, of a listener whose thread does not run; and who comes otherwise is taken. */
TEST(who_does_not_go_on_at_the_door_leaves_places_to_other_hosts)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct sl_verbs *met[] = {meet(1), meet(2), meet(3)};
	const uint8_t gid[16] = {[15] = 1};

	fake.opens = true;
	for (uint8_t host = 1; host <= SL_ARRAY_LEN(met); host++) {
		unsigned most = host * VB_PENDING_OF_HOST;

		for (unsigned i = 0; i < 2 * VB_PENDING_OF_HOST; i++)
			say_hello(l, host);
		ck_assert_uint_eq(waiting(l),
				  most < VB_PENDING_BY_DOOR ? most : VB_PENDING_BY_DOOR);
	}
	ck_assert_ptr_nonnull(vb_pending_place(l, gid, false));
	for (unsigned i = 0; i < SL_ARRAY_LEN(met); i++)
		met[i]->base.ops->close(&met[i]->base);
	l->base.ops->close(&l->base);
}

/* What was said at another process' door, or another door, opens none here. */
TEST(a_hello_is_for_one_door)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct sl_verbs *met = meet(1);

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

TEST(a_host_that_was_shut_out_comes_by_the_door_later)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct sl_verbs *met[] = {meet(1), meet(2)};

	fake.opens = true;
	say_hello(l, 1);
	shun(l, 1, true);
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 1);
	say_hello(l, 2);
	ck_assert_uint_eq(waiting(l), 2);
	shun(l, 1, false);
	say_hello(l, 1);
	ck_assert_uint_eq(waiting(l), 3);
	for (unsigned i = 0; i < SL_ARRAY_LEN(met); i++)
		met[i]->base.ops->close(&met[i]->base);
	l->base.ops->close(&l->base);
}

/*
 * Who has missed the answer says HELLO again, of the same queue pair. The former connection goes without a
 * word: the next one's peer would hear that, or anybody whose queue pair has been named.
 */
TEST(who_says_hello_again_hears_nothing_of_the_former)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct sl_verbs *met = meet(1);
	unsigned sends;

	fake.opens = true;
	sends = fake.sends;
	for (unsigned i = 0; i < 3; i++)
		say_hello_of(l, 1, 77);
	ck_assert_uint_eq(waiting(l), 1);
	l->base.ops->close(&l->base);
	sl_verbs_settle();
	ck_assert_uint_eq(fake.sends, sends);
	met->base.ops->close(&met->base);
}

/* --- a series of numbers --- */

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage sa;

	ck_assert_int_eq(vb_address(text, &sa), 0);
	return sa;
}

static uint64_t series_to(const char *text)
{
	struct sockaddr_storage sa = address_of(text);
	uint8_t series[VB_SERIES_LEN];

	ck_assert_int_eq(vb_series_to(&sa, series), 0);
	return vb_series_of(series);
}

enum { FAR = 0x7ffffff0 }; /* as far ahead as a number may be */

/* A backend is told of its own only; and a child of none that its parent has. */
TEST(each_acceptor_is_told_of_another_series)
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

static struct vb_request request_of(uint64_t series, uint32_t number)
{
	struct sl_secret key = sl_secret_of("0123456789abcdef", 16);
	struct vb_talk talk = {.dialled = dialled(address), .request = request('0', SLOTS)};

	memcpy(talk.request.series, &series, sizeof(series));
	talk.request.number = number;
	vb_prove(&key, &talk, VB_REQUEST);
	return talk.request;
}

/* One that has the key, and has heard which process that is, asks in its name. */
TEST(the_numbers_of_a_process_are_its_own)
{
	struct sl_rpc_listener *l = listening();
	const struct vb_request own[] = {request_of(1234, 5), request_of(1234, 6)};
	const struct vb_request others = request_of(4321, FAR);

	ck_assert_uint_eq(own[0].epoch, others.epoch);
	ck_assert(is_granted(l, &own[0]));
	ck_assert(is_granted(l, &others));
	ck_assert(is_granted(l, &own[1]));
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(!is_granted(l, &own[i])); /* each once */
		ck_assert_uint_eq(fake.rejection.verdict, VB_OTHER_KEY);
	}
	l->ops->close(l);
}

static void say_hello_as(struct vb_listener *l, uint64_t series, uint32_t number, uint32_t qpn)
{
	struct vb_greetings said = {.to = door,
				    .hello = {.magic = VB_DOOR_MAGIC,
					      .version = VB_VERSION,
					      .epoch = 9,
					      .number = number,
					      .gid = {[15] = 1},
					      .slots = SLOTS,
					      .bulk_len = SL_RPC_MIN_BULK,
					      .qpn = qpn}};

	memcpy(said.hello.series, &series, sizeof(series));
	vb_greeting_prove(&l->secret, &said, VB_HELLO, said.hello.proof);
	vb_admit(l, &said.hello);
}

/* The same at the door; nor does another one's HELLO take the place of one of the same queue pair. */
TEST(the_numbers_of_a_process_are_its_own_at_the_door)
{
	struct vb_listener *l = (struct vb_listener *)listen_fake();
	struct sl_verbs *met = meet(1);

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
