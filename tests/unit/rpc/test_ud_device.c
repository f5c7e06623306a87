/* SPDX-License-Identifier: Apache-2.0 */
/* What virtual connections ask of a NIC, asked of one that is made up. */
#include "fake_verbs.h"

#include <poll.h>
#include "rpc/rpc.h"
#include "rpc/ud/device.h"
#include "suite.h"

enum { WAIT_MS = 20000 };

static struct sockaddr_storage sa;

static void set_up(void)
{
	fake_start();
	fake.addressed = true;
	ck_assert_int_eq(vb_address("192.0.2.2:7471", &sa), 0);
}

static struct ud_sign *put_up(void)
{
	struct ud_sign *s;

	ck_assert_int_eq(ud_device->sign_new(&s, &sa), 0);
	return s;
}

FIXTURE(set_up, NULL)

TEST(a_way_marks_what_goes_there)
{
	const uint8_t gid[16] = {1, 2, 3};
	struct ud_sign *s = put_up();
	void *way = ud_device->way_new(&s->local, gid, 104);

	ck_assert_ptr_nonnull(way);
	ck_assert_uint_eq(fake.ah.grh.traffic_class, 104);
	ck_assert_uint_eq(fake.ah.grh.sgid_index, s->local.gid_index);
	ck_assert_uint_eq(fake.ah.port_num, 2);
	ck_assert_mem_eq(fake.ah.grh.dgid.raw, gid, 16);
	ud_device->way_free(way);
	ud_device->sign_free(s);
}

/* The interrupts of others have no part in it. */
TEST_EACH(bells_of_a_worker_are_of_its_interrupt, 4)
{
	struct ud_sign *s = put_up();
	int rc;
	struct ud_pair *p = ud_device->open(&s->local, 4 + (unsigned)_i, 32, 32, &rc);

	ck_assert_ptr_nonnull(p);
	for (int vector = 0; vector < 4; vector++)
		ck_assert_uint_eq(fake.created_vectors[vector], vector == _i ? 2 : 0);
	ud_device->close(p);
	ud_device->sign_free(s);
}

static void send_one(struct ud_pair *p)
{
	ck_assert_ptr_nonnull(ud_device->slot(p));
	ud_device->send(p, NULL, 5, 100);
	ck_assert_int_eq(ud_device->ring(p), 0);
}

/* It is found by what comes back of its receives, or (1) of what was sent. */
TEST_EACH(a_pair_that_the_device_gives_up_begins_anew, 2)
{
	enum { RX = UD_POLL, TX = 32 };
	struct ud_sign *s = put_up();
	struct ud_packet packets[UD_POLL];
	int rc;
	struct ud_pair *p = ud_device->open(&s->local, 0, RX, TX, &rc);
	struct fake_qp *qp = fake.last_qp;
	uint32_t qpn = p->qpn;

	for (unsigned i = 0; i < TX; i++)
		send_one(p);
	ck_assert_ptr_null(ud_device->slot(p));
	ck_assert(ud_device->arm(p) || ud_device->arm(p));
	if (_i)
		fake_finish(qp, IBV_WC_LOC_QP_OP_ERR);
	else
		fake_push(qp->base.recv_cq, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
	qp->state = IBV_QPS_ERR;
	if (!_i)
		ck_assert_int_eq(ud_device->poll(p, packets, UD_POLL), 0);
	ck_assert(!ud_device->arm(p));
	ck_assert_int_eq(ud_device->poll(p, packets, UD_POLL), 0);
	ck_assert_uint_eq(fake.resets, 1);
	ck_assert_int_eq(qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(p->qpn, qpn);
	ck_assert_uint_eq(qp->own.put, 2 * RX);
	qp->done = qp->posted; /* the fake keeps what was there before */
	for (unsigned i = 0; i < TX; i++)
		send_one(p);
	ck_assert_int_eq(ud_device->poll(p, packets, UD_POLL), 0);
	ck_assert_uint_eq(fake.resets, 1);
	ck_assert(ud_device->arm(p) || ud_device->arm(p));
	ud_device->close(p);
	ud_device->sign_free(s);
}

TEST(a_sign_says_when_its_device_has_gone)
{
	struct ud_sign *s = put_up();

	ck_assert_int_eq(ud_device->sign_answer(s, 7), 0);
	fake.absent = true;
	ck_assert_int_eq(ud_device->sign_answer(s, 7), -ENODEV);
	ud_device->sign_free(s);
	ck_assert_int_lt(ud_device->sign_new(&s, &sa), 0);
	ck_assert_ptr_null(s);
	fake.absent = false;
	ud_device->sign_free(put_up());
	ck_assert_uint_eq(fake.ids + fake.channels, 0);
}

static int told(struct ud_sign *s, enum rdma_cm_event_type type)
{
	fake.cm_event = (struct rdma_cm_event){.id = fake.listening, .event = type};
	ck_assert_int_eq(eventfd_write(s->fd, 1), 0);
	return ud_device->sign_answer(s, 7);
}

TEST(a_sign_says_when_its_address_may_have_moved)
{
	struct ud_sign *s = put_up();

	ck_assert_int_eq(told(s, RDMA_CM_EVENT_ADDR_CHANGE), -EADDRNOTAVAIL);
	ck_assert_int_eq(told(s, RDMA_CM_EVENT_MULTICAST_ERROR), 0);
	ud_device->sign_free(s);
}

/* Who asks is answered, and its id goes. */
TEST(who_asks_is_answered)
{
	struct ud_sign *s = put_up();

	fake_ask(NULL, 0);
	ck_assert_int_eq(ud_device->sign_answer(s, 7), 0);
	ck_assert_uint_eq(fake.accepts, 1);
	ck_assert_uint_eq(fake.ids, 1);
	ud_device->sign_free(s);
}

/* However many they are, whoever answers them has other things to do. */
TEST(a_crowd_that_asks_is_answered_a_few_at_a_time)
{
	enum { CROWD = 10, TURN = 4 };
	struct ud_sign *s = put_up();

	fake.crowd = CROWD;
	for (unsigned before = 0; before < CROWD; before = fake.accepts) {
		ck_assert_int_eq(ud_device->sign_answer(s, 7), 0);
		ck_assert_uint_gt(fake.accepts, before);
		ck_assert_uint_le(fake.accepts, before + TURN);
	}
	ck_assert_uint_eq(fake.accepts, CROWD);
	ck_assert_uint_eq(fake.ids, 1);
	ud_device->sign_free(s);
}

/* A device that comes back by its name is another one, and nothing of the former one is used there. */
TEST(a_device_that_comes_back_is_another_one)
{
	struct ibv_device again = fake.device;
	struct ud_sign *before = put_up(), *same = put_up(), *after;
	const struct ibv_pd *pd = before->local.device;

	ck_assert_ptr_eq(same->local.device, pd);
	ck_assert_ptr_ne(pd->context, &fake.context); /* which is closed when the device goes */
	fake.context.device = &again;
	after = put_up();
	ck_assert_ptr_ne(after->local.device, pd);
	ck_assert(!ud_local_same(&after->local, &before->local));
	ck_assert_ptr_eq(((struct ibv_pd *)after->local.device)->context->device, &again);
	ck_assert_uint_eq(fake.pds, 2);
	ud_device->sign_free(before);
	ud_device->sign_free(same);
	ud_device->sign_free(after);
}

/* The device's own thread hears it; by a context of our own, which is another one than others have. */
static void tell_port(const struct ud_sign *s, enum ibv_event_type type, int port)
{
	const struct ibv_pd *pd = s->local.device;

	fake_event(&(struct ibv_async_event){.element = {.port_num = port}, .event_type = type});
	ck_assert_int_eq(eventfd_write(pd->context->async_fd, 1), 0);
}

static bool has_event(const struct ud_port *p, int wait_ms)
{
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	eventfd_t cnt;

	return poll(&fd, 1, wait_ms) == 1 && eventfd_read(p->fd, &cnt) == 0;
}

TEST(who_watches_a_port_is_told_of_it)
{
	struct ud_sign *s = put_up();
	struct ud_local other = s->local;
	struct ud_port *p, *of_other;
	int rc;

	other.port = 1;
	p = ud_device->watch(&s->local, &rc);
	of_other = ud_device->watch(&other, &rc);
	ck_assert(p && of_other);
	ck_assert(!p->down && !has_event(p, 0));
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && p->down);
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && p->down);
	ck_assert(!has_event(of_other, 0) && !of_other->down);
	tell_port(s, IBV_EVENT_PORT_ACTIVE, s->local.port);
	ck_assert(has_event(p, WAIT_MS) && !p->down);
	ud_device->unwatch(p);
	tell_port(s, IBV_EVENT_PORT_ERR, s->local.port); /* nobody's */
	tell_port(s, IBV_EVENT_PORT_ERR, 1);
	ck_assert(has_event(of_other, WAIT_MS) && of_other->down);
	ud_device->unwatch(of_other);
	ud_device->sign_free(s);
}

TEST(who_comes_later_finds_a_port_as_it_is)
{
	struct ud_sign *s = put_up();
	struct ud_port *p;
	int rc;

	fake.port_state = IBV_PORT_DOWN;
	p = ud_device->watch(&s->local, &rc);
	ck_assert(p && p->down);
	ud_device->unwatch(p);
	fake.port_state = IBV_PORT_ACTIVE;
	p = ud_device->watch(&s->local, &rc);
	ck_assert(p && !p->down);
	ud_device->unwatch(p);
	ud_device->sign_free(s);
}

static const struct {
	uint8_t path;
	uint32_t mtu;
} ways[] = {{0, 0}, {IBV_MTU_1024, 1024}, {IBV_MTU_4096, 4096}, {6, 0}, {63, 0}};

TEST_EACH(the_way_tells_how_long_its_packets_are, SL_ARRAY_LEN(ways))
{
	const struct sl_rpc_rdma rdma = {.tos = 104};
	const struct ud_question q = {.sa = &sa, .rdma = &rdma, .deadline_ns = UINT64_MAX / 4};
	const struct vb_answer answer = {.magic = 0};
	const char *why = NULL;
	struct ud_host h;

	fake.answer = &answer;
	fake.path.mtu = ways[_i].path;
	ck_assert_int_eq(ud_device->ask(&q, &h, &why), 0);
	ck_assert_uint_eq(h.mtu, ways[_i].mtu);
	ck_assert_uint_eq(fake.tos, 104);
}
