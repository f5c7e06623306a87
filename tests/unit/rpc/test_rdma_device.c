/* SPDX-License-Identifier: Apache-2.0 */
/* Requirements of virtual connections on a NIC, checked with a fake one. */
#include "fake_verbs.h"

#include <poll.h>
#include <sys/wait.h>
#include "rpc/rpc.h"
#include "rpc/rdma/device.h"
#include "rpc/rdma/sidr.h"
#include "suite.h"

enum { WAIT_MS = 20000 };

static struct sockaddr_storage sa;

static void set_up(void)
{
	fake_start();
	fake.addressed = true;
	ck_assert_int_eq(rdma_parse_addr("192.0.2.2:7471", &sa), 0);
}

static struct sidr_service *put_up(void)
{
	struct sidr_service *s;

	ck_assert_int_eq(rdma_device->sidr_new(&s, &sa, false), 0);
	return s;
}

FIXTURE(set_up, NULL)

TEST(a_way_marks_what_goes_there)
{
	const uint8_t gid[16] = {1, 2, 3};
	struct sidr_service *s = put_up();
	struct ibv_ah *way = rdma_device->ah_create(&s->local, gid, 104);

	ck_assert_ptr_nonnull(way);
	ck_assert_uint_eq(fake.ah.grh.traffic_class, 104);
	ck_assert_uint_eq(fake.ah.grh.sgid_index, 2);
	ck_assert_uint_eq(fake.ah.port_num, 2);
	ck_assert_mem_eq(fake.ah.grh.dgid.raw, gid, 16);
	rdma_device->ah_destroy(way);
	rdma_device->sidr_free(s);
}

TEST(an_address_handle_uses_the_present_index_of_its_gid)
{
	const uint8_t gid[16] = {1, 2, 3};
	struct sidr_service *s = put_up();
	struct ibv_ah *ah;

	fake.gids_moved = 3;
	ah = rdma_device->ah_create(&s->local, gid, 0);
	ck_assert_ptr_nonnull(ah);
	ck_assert_uint_eq(fake.ah.grh.sgid_index, 5);
	rdma_device->ah_destroy(ah);
	fake.gids_moved = 8; /* the address is gone */
	ck_assert_ptr_null(rdma_device->ah_create(&s->local, gid, 0));
	ck_assert_int_eq(errno, EADDRNOTAVAIL);
	rdma_device->sidr_free(s);
}

/* The interrupts of others have no part in it. */
TEST_EACH(bells_of_a_worker_are_of_its_interrupt, 4)
{
	struct sidr_service *s = put_up();
	int rc;
	struct ud_qp *p = rdma_device->open(&s->local, 4 + (unsigned)_i, 32, 32, &rc);

	ck_assert_ptr_nonnull(p);
	for (int vector = 0; vector < 4; vector++)
		ck_assert_uint_eq(fake.created_vectors[vector], vector == _i ? 2 : 0);
	rdma_device->close(p);
	rdma_device->sidr_free(s);
}

static void send_one(struct ud_qp *p)
{
	ck_assert_ptr_nonnull(rdma_device->tx_buf(p));
	rdma_device->send(p, NULL, 5, 100);
	ck_assert_int_eq(rdma_device->flush(p), 0);
}

/* It is found by what comes back of its receives, or (1) of what was sent. */
TEST_EACH(a_pair_that_the_device_gives_up_begins_anew, 2)
{
	enum { RX = UD_POLL_MAX, TX = 32 };
	struct sidr_service *s = put_up();
	struct ud_packet packets[UD_POLL_MAX];
	int rc;
	struct ud_qp *p = rdma_device->open(&s->local, 0, RX, TX, &rc);
	struct fake_qp *qp = fake.last_qp;
	uint32_t qpn = p->qpn;

	for (unsigned i = 0; i < TX; i++)
		send_one(p);
	ck_assert_ptr_null(rdma_device->tx_buf(p));
	ck_assert(rdma_device->arm(p) || rdma_device->arm(p));
	if (_i)
		fake_finish(qp, IBV_WC_LOC_QP_OP_ERR);
	else
		fake_push(qp->base.recv_cq, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
	qp->state = IBV_QPS_ERR;
	if (!_i)
		ck_assert_int_eq(rdma_device->poll(p, packets, UD_POLL_MAX), 0);
	ck_assert(!rdma_device->arm(p));
	ck_assert_int_eq(rdma_device->poll(p, packets, UD_POLL_MAX), 0);
	ck_assert_uint_eq(fake.resets, 1);
	ck_assert_int_eq(qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(p->qpn, qpn);
	ck_assert_uint_eq(qp->own.put, 2 * RX);
	qp->done = qp->posted; /* the fake keeps what was there before */
	for (unsigned i = 0; i < TX; i++)
		send_one(p);
	ck_assert_int_eq(rdma_device->poll(p, packets, UD_POLL_MAX), 0);
	ck_assert_uint_eq(fake.resets, 1);
	ck_assert(rdma_device->arm(p) || rdma_device->arm(p));
	rdma_device->close(p);
	rdma_device->sidr_free(s);
}

TEST(a_sidr_service_reports_a_removed_device)
{
	struct sidr_service *s = put_up();

	ck_assert_int_eq(rdma_device->sidr_reply(s, 7), 0);
	fake.absent = true;
	ck_assert_int_eq(rdma_device->sidr_reply(s, 7), -ENODEV);
	rdma_device->sidr_free(s);
	ck_assert_int_lt(rdma_device->sidr_new(&s, &sa, false), 0);
	ck_assert_ptr_null(s);
	fake.absent = false;
	rdma_device->sidr_free(put_up());
	ck_assert_uint_eq(fake.ids + fake.channels, 0);
}

static int told(struct sidr_service *s, enum rdma_cm_event_type type)
{
	fake.cm_event = (struct rdma_cm_event){.id = fake.listening, .event = type};
	ck_assert_int_eq(eventfd_write(s->fd, 1), 0);
	return rdma_device->sidr_reply(s, 7);
}

TEST(a_sidr_service_reports_an_address_change)
{
	struct sidr_service *s = put_up();

	ck_assert_int_eq(told(s, RDMA_CM_EVENT_ADDR_CHANGE), -EADDRNOTAVAIL);
	ck_assert_int_eq(told(s, RDMA_CM_EVENT_MULTICAST_ERROR), 0);
	rdma_device->sidr_free(s);
}

/* A SIDR request is answered, and its id is destroyed. */
TEST(a_sidr_request_is_answered)
{
	struct sidr_service *s = put_up();

	fake_ask(NULL, 0);
	ck_assert_int_eq(rdma_device->sidr_reply(s, 7), 0);
	ck_assert_uint_eq(fake.accepts, 1);
	ck_assert_uint_eq(fake.ids, 1);
	rdma_device->sidr_free(s);
}

/* The answering thread has other work, so it answers a few at a time. */
TEST(many_sidr_requests_are_answered_a_few_at_a_time)
{
	enum { CROWD = 10, TURN = 4 };
	struct sidr_service *s = put_up();

	fake.crowd = CROWD;
	for (unsigned before = 0; before < CROWD; before = fake.accepts) {
		ck_assert_int_eq(rdma_device->sidr_reply(s, 7), 0);
		ck_assert_uint_gt(fake.accepts, before);
		ck_assert_uint_le(fake.accepts, before + TURN);
	}
	ck_assert_uint_eq(fake.accepts, CROWD);
	ck_assert_uint_eq(fake.ids, 1);
	rdma_device->sidr_free(s);
}

/* A device that comes back by its name is another one, and nothing of the former one is used there. */
TEST(a_device_that_comes_back_is_another_one)
{
	struct ibv_device again = fake.device;
	struct sidr_service *before = put_up(), *same = put_up(), *after;
	const struct ibv_pd *pd = before->local.device;

	ck_assert_ptr_eq(same->local.device, pd);
	ck_assert_ptr_ne(pd->context, &fake.context); /* closed together with the device */
	fake.context.device = &again;
	after = put_up();
	ck_assert_ptr_ne(after->local.device, pd);
	ck_assert(!rdma_local_same(&after->local, &before->local));
	ck_assert_ptr_eq(((struct ibv_pd *)after->local.device)->context->device, &again);
	ck_assert_uint_eq(fake.pds, 2);
	rdma_device->sidr_free(before);
	rdma_device->sidr_free(same);
	rdma_device->sidr_free(after);
}

/* A child shares neither protection domain nor events with its parent, also if the parent listened. */
TEST(a_forked_process_opens_its_own_device)
{
	struct sidr_service *s = put_up(), *own;
	const void *pd = s->local.device;
	int status;
	pid_t child = fork();

	if (!child) {
		own = put_up();
		_exit(own->local.device != pd && rdma_device->sidr_local(s) == 0 &&
				      s->local.device == own->local.device
			      ? 0
			      : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(rdma_device->sidr_local(s), 0);
	ck_assert_ptr_eq(s->local.device, pd);
	rdma_device->sidr_free(s);
}

/* The device's own thread hears it; by a context of our own, which is another one than others have. */
static void tell_port(const struct sidr_service *s, enum ibv_event_type type, int port)
{
	const struct ibv_pd *pd = s->local.device;

	fake_event(&(struct ibv_async_event){.element = {.port_num = port}, .event_type = type});
	ck_assert_int_eq(eventfd_write(pd->context->async_fd, 1), 0);
}

static bool has_event(const struct rdma_port *p, int wait_ms)
{
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	eventfd_t cnt;

	return poll(&fd, 1, wait_ms) == 1 && eventfd_read(p->fd, &cnt) == 0;
}

TEST(a_watcher_is_told_of_its_port)
{
	struct sidr_service *s = put_up();
	struct rdma_local other = s->local;
	struct rdma_port *p, *of_other;
	int rc;

	other.port = 1;
	p = rdma_device->port_watch(&s->local, &rc);
	of_other = rdma_device->port_watch(&other, &rc);
	ck_assert(p && of_other);
	ck_assert(!p->down && !has_event(p, 0));
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && p->down);
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && p->down);
	ck_assert(!has_event(of_other, 0) && !of_other->down);
	tell_port(s, IBV_EVENT_PORT_ACTIVE, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && !p->down);
	rdma_device->port_unwatch(p);
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port); /* of no device */
	tell_port(s, IBV_EVENT_PORT_ERR, 1);
	ck_assert(has_event(of_other, WAIT_MS) && of_other->down);
	rdma_device->port_unwatch(of_other);
	rdma_device->sidr_free(s);
}

TEST(a_later_watcher_finds_the_ports_state)
{
	struct sidr_service *s = put_up();
	struct rdma_port *p;
	int rc;

	fake.port_state = IBV_PORT_DOWN;
	p = rdma_device->port_watch(&s->local, &rc);
	ck_assert(p && p->down);
	rdma_device->port_unwatch(p);
	fake.port_state = IBV_PORT_ACTIVE;
	p = rdma_device->port_watch(&s->local, &rc);
	ck_assert(p && !p->down);
	rdma_device->port_unwatch(p);
	rdma_device->sidr_free(s);
}

static struct sidr_identity answer_of(uint8_t version)
{
	return (struct sidr_identity){
		.magic = SL_WIREUP_MAGIC, .version = version, .epoch = 0x123456789abcdef};
}

/* Ends of two releases say so at once; nothing else is taken for a backend. */
TEST(a_sidr_reply_has_the_version_and_epoch_of_the_process)
{
	const struct sl_rpc_rdma rdma = {.tos = 0};
	const struct sidr_query q = {.sa = &sa, .rdma = &rdma, .deadline_ns = UINT64_MAX / 4};
	static const struct {
		uint8_t version, len;
		const char *why;
	} cases[] = {{SL_UD_VERSION, sizeof(struct sidr_identity), NULL},
		     {SL_UD_VERSION - 1, sizeof(struct sidr_identity), "older release"},
		     {SL_UD_VERSION + 1, sizeof(struct sidr_identity), "newer release"},
		     {SL_UD_VERSION, sizeof(struct sidr_identity) - 1, "not of a sluice"},
		     {SL_UD_VERSION, 0, "not of a sluice"}};

	for (unsigned i = 0; i < SL_ARRAY_LEN(cases); i++) {
		const struct sidr_identity answer = answer_of(cases[i].version);
		struct sidr_result h = {.epoch = 5};
		const char *why = NULL;

		fake.answer = &answer;
		fake.answer_len = cases[i].len;
		ck_assert_int_eq(rdma_device->sidr_resolve(&q, &h, &why),
				 cases[i].why ? -EPROTO : 0);
		ck_assert(!cases[i].why == !why);
		ck_assert(!why || strstr(why, cases[i].why));
		ck_assert_uint_eq(h.epoch, why ? 5 : answer.epoch);
	}
	ck_assert_uint_eq(fake.ids + fake.channels, 0);
}

/* Listeners of both kinds at one address do not collide. */
TEST_EACH(each_kind_of_listener_has_a_port_space, 2)
{
	const struct sl_rpc_rdma rdma = {.tos = 0};
	const struct sidr_query q = {
		.sa = &sa, .rdma = &rdma, .deadline_ns = UINT64_MAX / 4, .rc = _i};
	const struct sidr_identity answer = answer_of(SL_UD_VERSION);
	struct sidr_service *s;
	struct sidr_result h;
	const char *why = NULL;

	ck_assert_int_eq(rdma_device->sidr_new(&s, &sa, _i), 0);
	ck_assert_int_eq(fake.port_space, _i ? RDMA_PS_IB : RDMA_PS_UDP);
	rdma_device->sidr_free(s);
	fake.answer = &answer;
	fake.answer_len = sizeof(answer);
	ck_assert_int_eq(rdma_device->sidr_resolve(&q, &h, &why), 0);
	ck_assert_int_eq(fake.port_space, _i ? RDMA_PS_IB : RDMA_PS_UDP);
}

/* A listener whose queue pair is not open yet sends clients away. */
TEST(a_sidr_request_without_a_queue_pair_is_refused)
{
	struct sidr_service *s = put_up();

	fake_ask(NULL, 0);
	ck_assert_int_eq(rdma_device->sidr_reply(s, 0), 0);
	ck_assert_uint_eq(fake.accepts, 0);
	ck_assert_uint_eq(fake.rejections, 1);
	ck_assert_uint_eq(fake.ids, 1);
	rdma_device->sidr_free(s);
}

static const char *source_text(char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&fake.from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&fake.from;

	if (in->sin_family == AF_INET6)
		return inet_ntop(AF_INET6, &in6->sin6_addr, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET, &in->sin_addr, text, INET6_ADDRSTRLEN);
}

/* The device's way is by port 1, its addresses are port 2's: what was asked for, or nothing. */
TEST(the_path_is_the_configured_one)
{
	static const struct {
		const char *address;
		struct sl_rpc_rdma way;
		const char *source, *meaning;
	} cases[] = {
		{"192.0.2.9:1", {.tos = 0}, "0.0.0.0", "connection refused"},
		{"192.0.2.9:1", {.tos = 104}, "0.0.0.0", "connection refused"},
		{"192.0.2.9:1", {.source = "192.0.2.3"}, "192.0.2.3", "connection refused"},
		{"[2001:db8::9]:1", {.source = "2001:db8::3"}, "2001:db8::3", "connection refused"},
		{"[2001:db8::9]:1", {.source = "192.0.2.3"}, NULL, "no such source"},
		{"192.0.2.9:1", {.device = "fake0"}, "192.0.2.2", "connection refused"},
		{"[2001:db8::9]:1", {.device = "fake0"}, "2001:db8::2", "connection refused"},
		{"192.0.2.9:1", {.device = "fake0", .port = 1}, NULL, "no such source"},
		{"192.0.2.9:1", {.device = "fake0", .port = 2}, "192.0.2.2", "connection refused"},
		{"192.0.2.9:1", {.port = 1}, "0.0.0.0", "another device or port"},
		{"192.0.2.9:1", {.device = "fake1"}, NULL, "no such RDMA device"},
		{"192.0.2.9:1",
		 {.device = "fake1", .source = "192.0.2.3"},
		 "192.0.2.3",
		 "another device or port"},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		struct sockaddr_storage to;
		const struct sidr_query q = {
			.sa = &to, .rdma = &cases[i].way, .deadline_ns = UINT64_MAX / 4};
		char text[INET6_ADDRSTRLEN];
		struct sidr_result h;
		const char *why = "";

		ck_assert_int_eq(rdma_parse_addr(cases[i].address, &to), 0);
		fake.tos = 0;
		ck_assert_int_lt(rdma_device->sidr_resolve(&q, &h, &why), 0);
		ck_assert_msg(strstr(why, cases[i].meaning) != NULL, "case %zu: %s", i, why);
		if (!cases[i].source)
			continue;
		ck_assert_msg(strcmp(source_text(text), cases[i].source) == 0, "case %zu: %s", i,
			      text);
		ck_assert_uint_eq(fake.tos, cases[i].way.tos);
	}
	ck_assert_uint_eq(fake.ids + fake.channels, 0);
}

static const struct {
	uint8_t path;
	uint32_t mtu;
} ways[] = {{0, 0}, {IBV_MTU_1024, 1024}, {IBV_MTU_4096, 4096}, {6, 0}, {63, 0}};

TEST_EACH(path_mtu_gives_the_packet_length, SL_ARRAY_LEN(ways))
{
	const struct sl_rpc_rdma rdma = {.tos = 104};
	const struct sidr_query q = {.sa = &sa, .rdma = &rdma, .deadline_ns = UINT64_MAX / 4};
	const struct sidr_identity answer = answer_of(SL_UD_VERSION);
	const char *why = NULL;
	struct sidr_result h;

	fake.answer = &answer;
	fake.answer_len = sizeof(answer);
	fake.path.mtu = ways[_i].path;
	ck_assert_int_eq(rdma_device->sidr_resolve(&q, &h, &why), 0);
	ck_assert_uint_eq(h.mtu, ways[_i].mtu);
	ck_assert_uint_eq(fake.tos, 104);
}
