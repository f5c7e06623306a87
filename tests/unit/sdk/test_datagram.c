/* SPDX-License-Identifier: Apache-2.0 */
/* The datagram client: its bytes, against the gateway's own parser, and its life over loopback. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "sdk/datagram/wire.h"
#include "front/datagram/datagram.h"
#include "suite.h"

enum { SECOND_US = 1000000, MANY = 8 };

static int gateway; /* a socket that plays one */
static char port[8];
static struct sockaddr_in client_at;
static struct sl_datagram_client *client;

static struct {
	unsigned cnt;
	struct sl_datagram_answer last;
	char payload[2048];
} done;

static void on_done(void *arg, const struct sl_datagram_answer *a)
{
	(void)arg;
	done.cnt++;
	done.last = *a;
	ck_assert_uint_lt(a->payload_len, sizeof(done.payload));
	if (a->payload_len)
		memcpy(done.payload, a->payload, a->payload_len);
	done.payload[a->payload_len] = 0;
}

static struct sl_datagram_client *open_with(unsigned max, uint32_t retry_us)
{
	struct sl_datagram_client_options o = {
		.host = "127.0.0.1", .port = port, .max_in_flight = max, .retry_us = retry_us};
	char err[200];
	struct sl_datagram_client *c = sl_datagram_client_open(&o, err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	return c;
}

static void setup(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	gateway = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_ge(gateway, 0);
	ck_assert_int_eq(bind(gateway, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(getsockname(gateway, (struct sockaddr *)&a, &len), 0);
	snprintf(port, sizeof(port), "%u", ntohs(a.sin_port));
	memset(&done, 0, sizeof(done));
	client = open_with(0, 20 * SECOND_US);
}

static void teardown(void)
{
	sl_datagram_client_close(client);
	close(gateway);
}

static struct sl_datagram_call call_of(const char *payload)
{
	return (struct sl_datagram_call){.service = 7,
					 .payload = payload,
					 .payload_len = strlen(payload),
					 .wait_us = 10 * SECOND_US,
					 .done = on_done};
}

static uint64_t send_one(const char *payload)
{
	struct sl_datagram_call call = call_of(payload);
	uint64_t id;

	ck_assert_int_eq(sl_datagram_client_send(client, &call, &id), 0);
	return id;
}

/* Parses an arrived datagram as the gateway does. */
static struct sl_datagram arrived(void)
{
	static uint8_t buf[65536];
	struct sl_datagram d;
	socklen_t len = sizeof(client_at);
	ssize_t n = recvfrom(gateway, buf, sizeof(buf), 0, (struct sockaddr *)&client_at, &len);

	ck_assert_int_eq(sl_datagram_parse(sl_span_of(buf, (size_t)n), &d), SL_DATAGRAM_IS_REQUEST);
	return d;
}

static bool more_arrives(int ms)
{
	struct pollfd p = {.fd = gateway, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static void reply_bytes(int fd, const void *bytes, size_t len)
{
	ck_assert_int_eq(
		sendto(fd, bytes, len, 0, (struct sockaddr *)&client_at, sizeof(client_at)),
		(ssize_t)len);
}

static size_t reply_to(const struct sl_datagram *d, enum sl_datagram_status status,
		       const char *payload, uint8_t *to)
{
	struct sl_span p = sl_span_cstr(payload);

	sl_datagram_format(d, &status, 200, 42, 65507, &p, to);
	if (p.len)
		memcpy(to + SL_DATAGRAM_HEAD, p.ptr, p.len);
	return SL_DATAGRAM_HEAD + p.len;
}

static void reply(const struct sl_datagram *d, enum sl_datagram_status status, const char *payload)
{
	uint8_t bytes[2048];

	reply_bytes(gateway, bytes, reply_to(d, status, payload, bytes));
}

FIXTURE(setup, teardown)

TEST(a_request_is_encoded_byte_by_byte)
{
	static const uint8_t want[] = {'S', 'L', 'D', 'G', 1,   1,   7,   0, 8, 7, 6,
				       5,   4,   3,   2,   1,   16,  39,  0, 0, 3, 0,
				       2,   0,   'k', 'n', 'n', 'h', 'i', 0, 0, 0, 0};
	struct sl_datagram_call call = call_of("hi");
	uint8_t to[100];
	struct sl_datagram d;

	call.method = "knn";
	call.method_len = 3;
	call.deadline_us = 10000;
	memset(to, 0xff, sizeof(to));
	ck_assert_uint_eq(sl_datagram_encode(&call, 0x0102030405060708, to, sizeof(to)), 29);
	ck_assert_int_eq(memcmp(to, want, 29), 0);
	ck_assert_uint_eq(to[29], 0xff);
	call.reply_len = 9; /* 33 bytes: 4 of padding */
	ck_assert_uint_eq(sl_datagram_encode(&call, 0x0102030405060708, to, sizeof(to)), 33);
	ck_assert_int_eq(memcmp(to, want, 33), 0);
	ck_assert_uint_eq(to[33], 0xff);
	ck_assert_int_eq(sl_datagram_parse(sl_span_of(to, 33), &d), SL_DATAGRAM_IS_REQUEST);
	ck_assert(sl_span_eq(d.method, sl_span_str("knn")) &&
		  sl_span_eq(d.payload, sl_span_str("hi")));
	ck_assert_uint_eq(d.reply_max, 33);
	/* padding gives way to what the path takes, the request does not */
	call.reply_len = SIZE_MAX;
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 40), 40);
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 29), 29);
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 28), 0);
	call.payload_len = SIZE_MAX;
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 40), 0);
	call.method_len = SIZE_MAX;
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 40), 0);
	ck_assert_uint_eq(sl_datagram_encode(&call, 1, to, 23), 0);
	sl_datagram_set_deadline(to, 5);
	ck_assert_uint_eq(sl_get_le32(to + 16), 5);
}

TEST(each_malformed_reply_is_refused)
{
	static const struct {
		unsigned at;
		uint8_t byte;
		bool ok;
	} cases[] = {
		{0, 's', false}, {3, 0, false}, {4, 2, false},   {5, 1, false},
		{5, 3, false},   {6, 3, false}, /* an error with a payload */
		{6, 9, false},   {7, 1, false}, {22, 4, false},  {22, 6, false},
		{23, 1, false},  {8, 9, true},  {16, 255, true}, {20, 0, true},
	};
	struct sl_datagram d = {.id = 0x1122334455667788, .reply_max = 100};
	struct sl_datagram_answer a;
	uint8_t bytes[100], broken[100];
	size_t len = reply_to(&d, SL_DATAGRAM_OK, "hello", bytes);

	ck_assert(sl_datagram_decode(sl_span_of(bytes, len), &a));
	ck_assert_uint_eq(a.id, d.id);
	ck_assert_int_eq(a.status, SL_DATAGRAM_OK);
	ck_assert_uint_eq(a.code, 200);
	ck_assert_uint_eq(a.service_us, 42);
	ck_assert(sl_span_eq(sl_span_of(a.payload, a.payload_len), sl_span_str("hello")));
	for (size_t n = 0; n < len; n++)
		ck_assert(!sl_datagram_decode(sl_span_of(bytes, n), &a));
	ck_assert(!sl_datagram_decode(sl_span_of(bytes, len + 1), &a));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(broken, bytes, sizeof(broken));
		broken[cases[i].at] = cases[i].byte;
		ck_assert_msg(sl_datagram_decode(sl_span_of(broken, len), &a) == cases[i].ok,
			      "case %u", i);
	}
	/* a status that there is not */
	len = reply_to(&d, (enum sl_datagram_status)(SL_DATAGRAM_INTERNAL + 1), "", bytes);
	ck_assert(!sl_datagram_decode(sl_span_of(bytes, len), &a));
	/* every error as the gateway writes it; from another version only the one about that */
	for (int s = SL_DATAGRAM_VERSION; s <= SL_DATAGRAM_INTERNAL; s++) {
		len = reply_to(&d, (enum sl_datagram_status)s, "", bytes);
		ck_assert(sl_datagram_decode(sl_span_of(bytes, len), &a));
		ck_assert_int_eq(a.status, s);
		ck_assert_uint_eq(a.payload_len, 0);
		ck_assert_str_ne(sl_datagram_status_name(s), "unknown status");
		bytes[4] = 9;
		ck_assert_int_eq(sl_datagram_decode(sl_span_of(bytes, len), &a),
				 s == SL_DATAGRAM_VERSION);
	}
}

TEST(a_request_has_its_reply)
{
	struct sl_datagram_call call = call_of("ping");
	struct sl_datagram d;
	uint64_t id;

	call.reply_len = 300;
	call.deadline_us = 3 * SECOND_US;
	ck_assert_int_eq(sl_datagram_client_wait_ms(client), -1);
	ck_assert_int_eq(sl_datagram_client_send(client, &call, &id), 0);
	ck_assert_int_gt(sl_datagram_client_wait_ms(client), 0);
	d = arrived();
	ck_assert_uint_eq(d.id, id);
	ck_assert_uint_eq(d.service, 7);
	ck_assert_uint_eq(d.deadline_us, 3 * SECOND_US);
	ck_assert_uint_eq(d.reply_max, SL_DATAGRAM_HEAD + 300);
	ck_assert(sl_span_eq(d.payload, sl_span_str("ping")));
	ck_assert_int_eq(sl_datagram_client_poll(client, 0), 0);
	reply(&d, SL_DATAGRAM_OK, "pong");
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_uint_eq(done.cnt, 1);
	ck_assert_int_eq(done.last.status, SL_DATAGRAM_OK);
	ck_assert_uint_eq(done.last.code, 200);
	ck_assert_uint_eq(done.last.service_us, 42);
	ck_assert_uint_eq(done.last.retries, 0);
	ck_assert_str_eq(done.payload, "pong");
	/* a second one comes too late */
	reply(&d, SL_DATAGRAM_OK, "pong");
	send_one("next");
	ck_assert_int_eq(sl_datagram_client_poll(client, 20), 0);
	ck_assert_uint_eq(done.cnt, 1);
	d = arrived();
	ck_assert_uint_ne(d.id, id);
	reply(&d, SL_DATAGRAM_OVERLOADED, "");
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_int_eq(done.last.status, SL_DATAGRAM_OVERLOADED);
}

TEST(a_retry_repeats_the_request_with_the_time_left)
{
	struct sl_datagram_call call = call_of("ping");
	struct sl_datagram first, again;
	struct sl_datagram_client_stats s;

	sl_datagram_client_close(client);
	client = open_with(0, 20000);
	call.deadline_us = 5 * SECOND_US;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	first = arrived();
	while (!more_arrives(0))
		ck_assert_int_eq(sl_datagram_client_poll(client, 5), 0);
	again = arrived();
	ck_assert_uint_eq(again.id, first.id);
	ck_assert(sl_span_eq(again.payload, sl_span_str("ping")));
	/* the time that has gone by is gone */
	ck_assert_uint_gt(again.deadline_us, 0);
	ck_assert_uint_le(again.deadline_us, 5 * SECOND_US - 20000);
	reply(&again, SL_DATAGRAM_OK, "pong");
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_int_eq(done.last.status, SL_DATAGRAM_OK);
	ck_assert_uint_ge(done.last.retries, 1);
	sl_datagram_client_stats(client, &s);
	ck_assert_uint_eq(s.sent, 1);
	ck_assert_uint_eq(s.retried, done.last.retries);
	ck_assert_uint_eq(s.answered, 1);
}

TEST(the_patience_doubles_from_try_to_try)
{
	struct sl_datagram_call call = call_of("ping");

	sl_datagram_client_close(client);
	client = open_with(0, 10000);
	call.wait_us = 200000; /* at 10, 30, 70, 150 ms at the earliest */
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_int_eq(done.last.status, -ETIMEDOUT);
	ck_assert_uint_ge(done.last.retries, 1);
	ck_assert_uint_le(done.last.retries, 4);
	ck_assert_uint_ge(done.last.waited_ns, 200000000);
}

/* ... but not beyond a second: the gateway remembers replies for ten. */
TEST(the_patience_ends_at_a_second)
{
	struct sl_datagram_call call = call_of("ping");
	struct sl_datagram_client_stats s;

	sl_datagram_client_close(client);
	client = open_with(0, 600000);
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	do {
		ck_assert_int_eq(sl_datagram_client_poll(client, 10), 0);
		sl_datagram_client_stats(client, &s);
	} while (s.retried < 2);
	ck_assert_int_le(sl_datagram_client_wait_ms(client), 1200);
}

TEST(datagrams_from_other_addresses_are_ignored)
{
	uint8_t bytes[2048];
	struct sl_datagram d, other;
	struct sl_datagram_client_stats s;
	size_t len;
	int stranger = socket(AF_INET, SOCK_DGRAM, 0);

	send_one("ping");
	d = arrived();
	len = reply_to(&d, SL_DATAGRAM_OK, "x", bytes);
	reply_bytes(stranger, bytes, len); /* not from where it was sent to */
	close(stranger);
	reply_bytes(gateway, bytes, len - 1);
	reply_bytes(gateway, "", 0);
	memset(bytes + len, 0, sizeof(bytes) - len);
	reply_bytes(gateway, bytes, len + 1);
	reply_bytes(gateway, bytes, sizeof(bytes));
	other = d;
	other.id ^= 1ull << 63;
	reply(&other, SL_DATAGRAM_OK, "x");
	other.id = d.id ^ 1; /* a slot where nothing is */
	reply(&other, SL_DATAGRAM_OK, "x");
	other.id = d.id | 0xffff; /* a slot that there is not */
	reply(&other, SL_DATAGRAM_OK, "x");
	other.id = 0;
	reply(&other, SL_DATAGRAM_OK, "x");
	ck_assert_int_eq(sl_datagram_client_poll(client, 20), 0);
	sl_datagram_client_stats(client, &s);
	ck_assert_uint_eq(s.ignored, 8);
	ck_assert_uint_eq(done.cnt, 0);
	reply(&d, SL_DATAGRAM_OK, "");
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_uint_eq(done.last.payload_len, 0);
}

/* Answered in another order; as many as asked for, no more; `done` sends the next. */
TEST(replies_come_in_any_order)
{
	struct sl_datagram d[MANY];
	struct sl_datagram_call call = call_of("more");
	char payload[MANY][4];
	uint64_t id;

	sl_datagram_client_close(client);
	client = open_with(MANY, 20 * SECOND_US);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(payload[i], sizeof(payload[i]), "%u", i);
		id = send_one(payload[i]);
		d[i] = arrived();
		ck_assert_uint_eq(d[i].id, id);
	}
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), -EAGAIN);
	for (unsigned i = MANY; i-- > 0;) {
		reply(&d[i], SL_DATAGRAM_OK, payload[i]);
		ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
		ck_assert_uint_eq(done.last.id, d[i].id);
		ck_assert_str_eq(done.payload, payload[i]);
	}
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 0); /* at once */
}

static void on_done_send(void *arg, const struct sl_datagram_answer *a)
{
	struct sl_datagram_call *next = arg;

	on_done(NULL, a);
	if (done.cnt < 3)
		ck_assert_int_eq(sl_datagram_client_send(client, next, NULL), 0);
}

TEST(the_upcall_may_send_the_next)
{
	struct sl_datagram_call call = call_of("again");

	sl_datagram_client_close(client);
	client = open_with(1, 20 * SECOND_US);
	call.done = on_done_send;
	call.arg = &call;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct sl_datagram d = arrived();

		reply(&d, SL_DATAGRAM_OK, "");
		ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	}
	ck_assert_uint_eq(done.cnt, 3);
	/* also from time-outs */
	done.cnt = 0;
	call.wait_us = 1;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	while (done.cnt < 3)
		ck_assert_int_ge(sl_datagram_client_poll(client, -1), 0);
	ck_assert_int_eq(done.last.status, -ETIMEDOUT);
}

TEST(a_cancelled_or_closed_call_ends_once)
{
	struct sl_datagram_call call = call_of("ping");
	struct sl_datagram d;
	uint64_t id = send_one("ping");

	d = arrived();
	ck_assert(sl_datagram_client_cancel(client, id));
	ck_assert(!sl_datagram_client_cancel(client, id));
	reply(&d, SL_DATAGRAM_OK, "");
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 0);
	ck_assert_uint_eq(done.cnt, 0);
	send_one("ping");
	sl_datagram_client_close(client);
	ck_assert_uint_eq(done.cnt, 1);
	ck_assert_int_eq(done.last.status, -ECANCELED);
	client = open_with(0, 0);
	/* without a listener the kernel reports an error, which is no verdict */
	close(gateway);
	call.wait_us = 500000;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	ck_assert_int_eq(sl_datagram_client_poll(client, -1), 1);
	ck_assert_int_eq(done.last.status, -ETIMEDOUT);
	ck_assert_uint_ge(done.last.retries, 1);
	gateway = socket(AF_INET, SOCK_DGRAM, 0);
}

static void on_done_send_in_vain(void *arg, const struct sl_datagram_answer *a)
{
	on_done(NULL, a);
	ck_assert_int_eq(sl_datagram_client_send(client, arg, NULL), -EAGAIN);
}

TEST(nothing_is_sent_from_within_close)
{
	struct sl_datagram_call call = call_of("ping");

	call.done = on_done_send_in_vain;
	call.arg = &call;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	sl_datagram_client_close(client);
	ck_assert_uint_eq(done.cnt, 3);
	client = NULL;
	sl_datagram_client_close(client);
}

/* Ask, answered by a child. */
TEST(a_question_waits_for_its_answer)
{
	struct sl_datagram_call call = call_of("ping");
	struct sl_datagram_answer a;
	char buf[3];
	pid_t pid = fork();

	if (pid == 0) {
		struct sl_datagram d = arrived();

		reply(&d, SL_DATAGRAM_OK, "pong");
		_exit(0);
	}
	call.done = NULL;
	call.reply_len = 10;
	ck_assert_int_eq(sl_datagram_client_ask(client, &call, &a, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(a.payload_len, sizeof(buf));
	ck_assert_int_eq(memcmp(buf, "pon", 3), 0);
	call.service = 0;
	ck_assert_int_eq(sl_datagram_client_ask(client, &call, &a, buf, sizeof(buf)), -EINVAL);
}

TEST(impossible_calls_are_refused)
{
	static char big[65507];
	struct sl_datagram_client_options o = {.host = "127.0.0.1", .port = port};
	struct sl_datagram_call call = call_of("ping");
	char err[200] = "";

	call.done = NULL;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), -EINVAL);
	call.done = on_done;
	call.payload = big;
	call.payload_len = sl_datagram_client_max_payload(client, 0);
	ck_assert_uint_eq(call.payload_len, 9000 - SL_DATAGRAM_HEAD);
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), 0);
	call.payload_len++;
	ck_assert_int_eq(sl_datagram_client_send(client, &call, NULL), -EMSGSIZE);
	o.max_in_flight = 65537;
	ck_assert_ptr_null(sl_datagram_client_open(&o, err, sizeof(err)));
	ck_assert_str_ne(err, "");
	o.max_in_flight = 0;
	o.datagram_max = 507;
	ck_assert_ptr_null(sl_datagram_client_open(&o, err, sizeof(err)));
	o.datagram_max = 0;
	o.host = "256.1.1.1.1";
	ck_assert_ptr_null(sl_datagram_client_open(&o, err, sizeof(err)));
	o.host = NULL;
	ck_assert_ptr_null(sl_datagram_client_open(&o, err, sizeof(err)));
}
