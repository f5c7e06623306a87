/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about a silent connection: a listener tells a peer with the key, once per question,
 * whether it has the connection. No one else can tell that.
 */
#include "ud_bed.h"

struct question {
	uint32_t number;
	unsigned timeout_ms;
	enum sl_rpc_probe_result word;
};

static void *ask(void *arg)
{
	struct question *q = arg;
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = key_path,
					  .slots = SLOTS,
					  .timeout_ms = q->timeout_ms};

	q->word = sl_rpc_probe_peer(&opt, q->number);
	return NULL;
}

static enum sl_rpc_probe_result word_about(uint32_t number)
{
	struct question q = {.number = number, .timeout_ms = WAIT_S * 1000};
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, ask, &q), 0);
	until(nobody_comes() && pthread_tryjoin_np(thread, NULL) == 0);
	return q.word;
}

TEST(a_listener_answers_whether_a_connection_is_alive)
{
	uint32_t number;

	connect_both();
	number = sl_rpc_transport_number(both.gateway);
	ck_assert_uint_ne(number, 0);
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_ALIVE);
	ck_assert_int_eq(word_about(number + UD_CONNS), SL_RPC_PROBE_REMOVED);
	check_goes_on(1);
	both.backend->ops->close(both.backend);
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_REMOVED);
	both.gateway->ops->close(both.gateway);
}

TEST(an_ended_connection_is_not_alive)
{
	uint32_t number;

	connect_both();
	number = both.gateway->number;
	both.gateway->ops->close(both.gateway); /* it says so */
	until((take(both.backend), both.backend->ops->check(both.backend) != 0));
	ck_assert_int_eq(word_about(number), SL_RPC_PROBE_REMOVED);
	both.backend->ops->close(both.backend);
}

TEST(without_a_listener_there_is_no_answer)
{
	struct question q = {.number = 1, .timeout_ms = 500};

	listener->ops->close(listener);
	ask(&q);
	ck_assert_int_eq(q.word, SL_RPC_PROBE_REFUSED);
	set_up();
}

static struct sl_wireup_creq question_of(uint32_t number, uint32_t id, uint64_t epoch)
{
	struct sl_wireup_creq h = hello_of(number, id);

	h.flags = SL_HELLO_EP_CHECK;
	h.epoch = epoch;
	prove(&h);
	return h;
}

/* Another process may have given the number, too. */
TEST(a_connection_is_known_by_its_process_and_number)
{
	const uint64_t epochs[] = {sl_rpc_boot_epoch(), sl_rpc_boot_epoch() ^ 1};
	struct sl_wireup_crep a;

	connect_both();
	for (unsigned i = 0; i < 4; i++) {
		struct sl_wireup_creq h =
			question_of(1000 + i, both.gateway->number + i / 2, epochs[i % 2]);

		throw_at(&h, sizeof(h), door());
		ck_assert(answered(&a));
		ck_assert_uint_eq(a.verdict, i ? SL_WIREUP_EP_REMOVED : SL_WIREUP_EP_ALIVE);
	}
	check_goes_on(1);
	close_both();
}

TEST(questions_make_no_connections)
{
	struct sl_wireup_crep a;

	connect_both();
	for (uint32_t i = 0; i < 200; i++) {
		struct sl_wireup_creq h = question_of(i, i, 77);

		throw_at(&h, sizeof(h), door());
		ck_assert(answered(&a));
		ck_assert_uint_eq(a.verdict, SL_WIREUP_EP_REMOVED);
		ck_assert_uint_eq(a.id, 0);
	}
	ck_assert_uint_eq(listener->refused, 0);
	close_both();
	connect_both();
	check_goes_on(1);
	close_both();
}

TEST(a_question_is_answered_once_and_only_with_the_key)
{
	struct sl_wireup_creq h;
	uint8_t *bytes = (uint8_t *)&h;
	struct sl_wireup_crep a;

	connect_both();
	h = question_of(1, 5, 77);
	for (unsigned i = 0; i < sizeof(h); i++) {
		bytes[i] ^= 2;
		throw_at(&h, sizeof(h), door());
		bytes[i] ^= 2;
		ck_assert(!answered(&a));
	}
	throw_at(&h, sizeof(h), door());
	ck_assert(answered(&a));
	throw_at(&h, sizeof(h), door());
	ck_assert(!answered(&a));
	ck_assert_uint_eq(listener->refused, sizeof(h) + 1);
	close_both();
}

/* Where another one listens that has the same key; until it is closed, `listener` is that one. */
static struct sl_rpc_listener *listen_beside(void)
{
	struct sl_rpc_listen_options opt = {.key_file = key_path, .slots = SLOTS};
	struct sl_rpc_listener *before = listener;
	struct sl_err err = SL_ERR(256);

	endpoint[strlen(endpoint) - 1]++;
	listener = sl_rpc_listen(endpoint, &opt, &err);
	ck_assert_msg(listener != NULL, "%s", err.text);
	return before;
}

/* Returns the queue pair of the latest HELLO. */
static uint32_t latest_door(void)
{
	unsigned i = seen_cnt;

	while (seen[--i].len != sizeof(struct sl_wireup_creq)) {
	}
	return seen[i].to;
}

/* Otherwise a recorded answer could end a connection, redirect one, or use up places. */
TEST(a_question_is_valid_for_one_listener)
{
	struct sl_rpc_listener *before;
	struct sl_transport *other;
	unsigned told, copied = 0;

	connect_both();
	ck_assert_int_eq(word_about(both.gateway->number), SL_RPC_PROBE_ALIVE);
	told = seen_cnt;
	before = listen_beside();
	other = dialled();
	for (unsigned i = 0; i < told; i++) {
		if (seen[i].len != sizeof(struct sl_wireup_creq))
			continue;
		throw_at(seen[i].bytes, seen[i].len, latest_door());
		copied++;
	}
	told = seen_cnt;
	ck_assert_uint_ge(copied, 2); /* more if an answer was late */
	ck_assert(nobody_comes());
	ck_assert_uint_eq(listener->refused, copied);
	ck_assert_uint_eq(listener->unaccepted, 1); /* `other` */
	ck_assert_uint_eq(seen_cnt, told);
	other->ops->close(other);
	listener->ops->close(listener);
	listener = before;
	check_goes_on(1);
	close_both();
}

/* --- in the place of the listener --- */

/* Answers SIDR requests with the attacker's queue pair. */
static int put_up_sign(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(7471)};
	char host[64];
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	ck_assert_int_eq(sscanf(endpoint, "rdma+ud://%63[0-9.]", host), 1);
	ck_assert_int_eq(inet_pton(AF_INET, host, &sa.sin_addr), 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void point_to_enemy(int sign)
{
	struct sockaddr_in from, at;
	socklen_t len = sizeof(from), at_len = sizeof(at);
	struct ud_sockets_reply reply = {.epoch = 77};
	char byte;

	if (recvfrom(sign, &byte, 1, 0, (struct sockaddr *)&from, &len) != 1)
		return;
	throw_at("", 1, 9); /* gives the socket a port */
	ck_assert_int_eq(getsockname(enemy, (struct sockaddr *)&at, &at_len), 0);
	reply.qpn = ntohs(at.sin_port);
	(void)!sendto(sign, &reply, sizeof(reply), 0, (struct sockaddr *)&from, len);
}

/* Answers each HELLO with all of these while `asks` runs, which begins once SIDR is answered. */
static void answer_with(void *(*asks)(void *), void *arg, void **ret,
			const struct sl_wireup_crep *as, unsigned cnt, bool proven)
{
	int sign = put_up_sign();
	struct sl_wireup_creq h;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, asks, arg), 0);
	while (pthread_tryjoin_np(thread, ret)) {
		point_to_enemy(sign);
		if (recv(enemy, &h, sizeof(h), MSG_DONTWAIT) != (ssize_t)sizeof(h))
			continue;
		for (unsigned i = 0; i < cnt; i++) {
			struct sl_wireup_crep a = as[i];

			throw_at(&a, sizeof(a), h.answer_qpn); /* as it was recorded */
			a.number = h.number;
			if (proven)
				wireup_crep_sign(&secret, &h, &a);
			throw_at(&a, sizeof(a), h.answer_qpn);
		}
	}
	close(sign);
}

static unsigned recorded_answers(struct sl_wireup_crep *to, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seen_cnt && n < max; i++) {
		if (seen[i].len == sizeof(*to))
			memcpy(&to[n++], seen[i].bytes, sizeof(*to));
	}
	return n;
}

TEST(no_other_host_can_end_a_connection)
{
	struct question q = {.timeout_ms = 400};
	struct sl_wireup_crep answers[8];
	unsigned cnt;

	connect_both();
	q.number = both.gateway->number;
	ck_assert_int_eq(word_about(q.number + UD_CONNS), SL_RPC_PROBE_REMOVED);
	both.backend->ops->close(both.backend);
	ck_assert_int_eq(word_about(q.number), SL_RPC_PROBE_REMOVED);
	cnt = recorded_answers(answers, 8);
	ck_assert_uint_ge(cnt, 3); /* more if an answer was late */
	listener->ops->close(listener);
	/* The first has granted it. */
	answer_with(ask, &q, NULL, answers + 1, cnt - 1, false);
	ck_assert_int_eq(q.word, SL_RPC_PROBE_NONE);
	both.gateway->ops->close(both.gateway);
	set_up();
}

/* An answer to a question is none to a connect, and the reverse. */
TEST(an_answer_fits_its_question)
{
	static const struct sl_wireup_crep granted = {.magic = SL_WIREUP_MAGIC,
						      .version = SL_UD_VERSION,
						      .verdict = SL_WIREUP_GRANTED,
						      .slots = SLOTS,
						      .id = 1,
						      .mtu = SL_UD_MTU_MIN,
						      .qpn = 1};
	struct sl_wireup_crep reset = granted;
	struct question q = {.timeout_ms = 400, .number = 1};
	void *t;

	listener->ops->close(listener);
	reset.verdict = SL_WIREUP_EP_REMOVED;
	answer_with(dial, NULL, &t, &reset, 1, true);
	ck_assert_ptr_null(t);
	answer_with(ask, &q, NULL, &granted, 1, true);
	ck_assert_int_eq(q.word, SL_RPC_PROBE_NONE);
	q.timeout_ms = WAIT_S * 1000; /* this one is waited for */
	answer_with(ask, &q, NULL, &reset, 1, true);
	ck_assert_int_eq(q.word, SL_RPC_PROBE_REMOVED);
	set_up();
}
