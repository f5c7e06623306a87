/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling over the fake device: what each failure leaves behind, and what a person is told. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/rpc.h"
#include "rpc/rdma/auth.h"
#include "suite.h"
#include "rc_bed.h"

static char said[256];
static const char *address = "192.0.2.1:7471";
static struct sl_rpc_rdma way;
static uint16_t worker = GROUP;

/* All that is made ahead is there. */
static void make_ahead(void)
{
	unsigned steps = fake.steps, fail_at = fake.fail_at;

	fake.fail_at = 0;
	rc_ifaces_schedule_refill();
	sl_rdma_wait_closed();
	fake.steps = steps;
	fake.fail_at = fail_at;
}

/* Fails as the device and the answer are now; what there was before is there. */
static void dial_in_vain(void)
{
	char key[] = "/tmp/sl-verbs-XXXXXX";
	struct sl_rpc_dial_options opt = {.key_file = key,
					  .rdma = way,
					  .bulk_ring_len = SL_RPC_MIN_BULK,
					  .slots = SLOTS,
					  .timeout_ms = 5000,
					  .worker = worker};
	unsigned pds, cqs, bells, qps, mws, ids = fake.ids, channels = fake.channels;
	struct sl_err err = {said, sizeof(said)};
	struct sl_transport *dialled;
	int fd = mkstemp(key);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "0123456789abcdef", 16), 16);
	close(fd);
	make_ahead();
	pds = fake.pds, cqs = fake.cqs, bells = fake.bells, qps = fake.qps, mws = fake.mws;
	said[0] = 0;
	dialled = sl_rc_dial(&opt, address, &err);
	unlink(key);
	ck_assert_ptr_null(dialled);
	ck_assert_ptr_nonnull(strstr(said, address));
	sl_rdma_wait_closed();
	make_ahead();
	ck_assert_uint_eq(fake.qps, qps);
	ck_assert_uint_eq(fake.mws, mws);
	ck_assert_uint_eq(fake.cqs, cqs);
	ck_assert_uint_eq(fake.bells, bells);
	ck_assert_uint_eq(fake.pds, pds);
	ck_assert_uint_eq(fake.ids, ids);
	ck_assert_uint_eq(fake.channels, channels);
}

static void fail_each_step(unsigned least)
{
	unsigned steps;

	dial_in_vain(); /* shared objects exist from now on */
	fake.steps = 0;
	dial_in_vain();
	ck_assert_ptr_nonnull(strstr(said, "connection refused"));
	steps = fake.steps;
	ck_assert_uint_ge(steps, least);
	for (unsigned n = 1; n <= steps; n++) {
		fake.steps = 0;
		fake.fail_at = n;
		dial_in_vain();
	}
	fake.fail_at = 0;
}

FIXTURE(set_up, tear_down)

TEST(each_step_that_fails_leaves_nothing_open)
{
	fail_each_step(5);
}

/* A worker without an rc_iface, which has each object made for itself. */
TEST(each_step_that_fails_without_shared_queues_leaves_nothing_open)
{
	fake.alone = true;
	worker = GROUP + 1;
	fail_each_step(10);
}

TEST(each_answer_of_a_backend_has_its_meaning)
{
	static const struct {
		struct cm_reply answer;
		uint8_t len;
		const char *meaning;
	} cases[] = {
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION - 1},
		 sizeof(struct cm_reply),
		 "older release"},
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION + 1},
		 sizeof(struct cm_reply),
		 "newer release"},
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION, .verdict = RC_FULL},
		 sizeof(struct cm_reply),
		 "as many connections"},
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION, .verdict = RC_OTHER_KEY},
		 sizeof(struct cm_reply),
		 "another key"},
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION, .verdict = RC_GRANTED},
		 sizeof(struct cm_reply),
		 "another key"},
		{{.magic = CM_MAGIC, .version = RC_WIRE_VERSION - 1},
		 sizeof(struct cm_reply) - 1,
		 "not a sluice HELLO"},
		{{.magic = CM_MAGIC ^ 1, .version = RC_WIRE_VERSION - 1},
		 sizeof(struct cm_reply),
		 "not a sluice HELLO"},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		fake.answer = &cases[i].answer;
		fake.answer_len = cases[i].len;
		dial_in_vain();
		ck_assert_msg(strstr(said, cases[i].meaning) != NULL, "case %zu: %s", i, said);
	}
}

/* Each backend is told its own sender id, each time. */
TEST(requests_carry_the_sender_id_of_their_target)
{
	static const char *const addresses[] = {"192.0.2.1:7471", "192.0.2.1:7471",
						"192.0.2.2:7471"};
	struct cm_request of[SL_ARRAY_LEN(addresses)];

	for (size_t i = 0; i < SL_ARRAY_LEN(addresses); i++) {
		struct sockaddr_storage sa;
		uint8_t series[AUTH_SENDER_ID_LEN];

		address = addresses[i];
		dial_in_vain();
		of[i] = fake.asked;
		ck_assert_int_eq(rdma_parse_addr(address, &sa), 0);
		ck_assert_int_eq(auth_sender_id(&sa, series), 0);
		ck_assert_mem_eq(of[i].sender_id, series, sizeof(series));
	}
	ck_assert_mem_eq(of[1].sender_id, of[0].sender_id, AUTH_SENDER_ID_LEN);
	ck_assert_uint_eq(of[1].number, of[0].number + 1);
	ck_assert_mem_ne(of[2].sender_id, of[0].sender_id, AUTH_SENDER_ID_LEN);
	ck_assert_uint_eq(of[2].epoch, of[0].epoch);
}

/* The proof is valid for the dialled address only, not for another host with the key. */
TEST(a_request_proves_its_destination)
{
	static const char *const addresses[] = {"192.0.2.1:7471", "[2001:db8::9]:7471",
						"192.0.2.1:7472"};
	struct sl_psk key = sl_psk_of("0123456789abcdef", 16);

	for (size_t i = 0; i < SL_ARRAY_LEN(addresses); i++) {
		address = addresses[i];
		dial_in_vain();
		for (size_t k = 0; k < SL_ARRAY_LEN(addresses); k++) {
			struct cm_transcript talk = {.request = fake.asked};
			struct sockaddr_storage sa;

			ck_assert_int_eq(rdma_parse_addr(addresses[k], &sa), 0);
			talk.target = auth_target_of((struct sockaddr *)&sa);
			ck_assert_int_eq(auth_verify(&key, &talk, CM_REQUEST), i == k);
		}
	}
}

static const char *source_text(char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&fake.from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&fake.from;

	if (!in->sin_family)
		return "";
	if (in->sin_family == AF_INET)
		return inet_ntop(AF_INET, &in->sin_addr, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, &in6->sin6_addr, text, INET6_ADDRSTRLEN);
}

/* The device's way is by port 1, its addresses are port 2's: what was asked for, or nothing. */
TEST(the_way_is_the_configured_one)
{
	static const struct {
		const char *address;
		struct sl_rpc_rdma way;
		const char *source, *meaning;
	} cases[] = {
		{"192.0.2.9:1", {.tos = 0}, "", "connection refused"},
		{"192.0.2.9:1", {.tos = 104}, "", "connection refused"},
		{"192.0.2.9:1", {.source = "192.0.2.3"}, "192.0.2.3", "connection refused"},
		{"[2001:db8::9]:1", {.source = "2001:db8::3"}, "2001:db8::3", "connection refused"},
		{"[2001:db8::9]:1", {.source = "192.0.2.3"}, "", "no such source"},
		{"192.0.2.9:1", {.device = "fake0"}, "192.0.2.2", "connection refused"},
		{"[2001:db8::9]:1", {.device = "fake0"}, "2001:db8::2", "connection refused"},
		{"192.0.2.9:1", {.device = "fake0", .port = 1}, "", "no such source"},
		{"192.0.2.9:1", {.device = "fake0", .port = 2}, "192.0.2.2", "another device or"},
		{"192.0.2.9:1", {.port = 2}, "", "another device or port"},
		{"192.0.2.9:1", {.device = "fake1"}, "", "no such RDMA device"},
		{"192.0.2.9:1",
		 {.device = "fake1", .source = "192.0.2.3"},
		 "192.0.2.3",
		 "another device or port"},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		char text[INET6_ADDRSTRLEN];

		address = cases[i].address;
		way = cases[i].way;
		fake.tos = 0;
		fake.from = (struct sockaddr_storage){0};
		dial_in_vain();
		ck_assert_msg(strstr(said, cases[i].meaning) != NULL, "case %zu: %s", i, said);
		ck_assert_msg(strcmp(source_text(text), cases[i].source) == 0, "case %zu", i);
		ck_assert_uint_eq(fake.tos, way.tos);
	}
}
