/* SPDX-License-Identifier: Apache-2.0 */
/* Where a ticket is good, and where it is not: workers, configurations, gateways, hours. */
#include "suite.h"
#include "tls_talk.h"

enum { MINUTE_S = 60, HOUR_S = 3600, KEY = 80 };

static char dir[] = "/tmp/sl-tls-ticket-XXXXXX", pem[64], key[64], shared[64];
static struct sl_cfg_file files[3] = {{pem, 1}, {key, 1}, {shared, 1}};
static struct sl_tls *workers[2];

static void set_up(void)
{
	talk_start();
	bed_require(mkdtemp(dir));
	snprintf(pem, sizeof(pem), "%s/pem", dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	snprintf(shared, sizeof(shared), "%s/shared", dir);
	bed_write_pair(pem, key);
	workers[0] = bed.tls;
	workers[1] = bed_worker();
}

static void tear_down(void)
{
	ck_assert_uint_eq(sl_mempool_used(&workers[1]->conns) + sl_mempool_used(&workers[1]->hs),
			  0);
	sl_tls_destroy(workers[1]);
	bed.tls = workers[0];
	talk_stop();
	unlink(pem);
	unlink(key);
	unlink(shared);
	rmdir(dir);
}

FIXTURE(set_up, tear_down)

/* Keys of a file: one for each letter, the first seals. */
static void write_keys(const char *letters)
{
	FILE *f = fopen(shared, "w");

	bed_require(f);
	for (; *letters; letters++) {
		for (int i = 0; i < KEY; i++)
			fputc(*letters + i, f);
	}
	bed_require(fclose(f) == 0 && chmod(shared, 0600) == 0);
}

/* A gateway of its own, or one that has the keys of the file. */
static struct sl_tls_server *gateway(bool of_file)
{
	struct sl_cfg_tls cfg = {.handshake_threads = 1,
				 .certificates = &files[0],
				 .keys = &files[1],
				 .certificate_cnt = 1,
				 .key_cnt = 1};
	struct conf_diags mistakes = {.file = "test"};
	struct sl_tls_tickets *own = sl_tls_tickets_new();
	struct sl_tls_server *s;

	if (of_file)
		cfg.ticket_keys = files[2];
	s = sl_tls_server_new(&cfg, own, &mistakes);
	ck_assert_ptr_nonnull(s);
	sl_tls_tickets_put(own);
	return s;
}

/* Both workers' listener from now on. */
static void serve_with(struct sl_tls_server *s)
{
	struct sl_cfg_listener listener = {.tls_server = s};
	struct sl_config cfg = {.listeners = &listener, .listener_cnt = 1};

	for (unsigned i = 0; i < SL_ARRAY_LEN(workers); i++)
		sl_tls_set_listeners(workers[i], &cfg);
	sl_tls_server_put(s);
}

/* A connection to a worker with the last ticket; whether it was good. Leaves the next ticket. */
static bool resumes(unsigned worker)
{
	SSL *ssl = talk_client("X25519");
	struct bed_conn *b;
	bool reused;

	bed.tls = workers[worker];
	b = bed_accept(0);
	if (talk_session)
		ck_assert_int_eq(SSL_set_session(ssl, talk_session), 1);
	talk(ssl, b, BED_SEGMENT);
	reused = SSL_session_reused(ssl);
	talk_leave(ssl, b);
	return reused;
}

static void pass_s(unsigned seconds)
{
	bed.now_ns += seconds * UINT64_C(1000000000);
}

TEST(a_ticket_of_one_worker_is_good_at_another_and_after_a_reload)
{
	struct sl_cfg_tls tls = {.handshake_threads = 1,
				 .certificates = &files[0],
				 .keys = &files[1],
				 .certificate_cnt = 1,
				 .key_cnt = 1};
	struct sl_cfg_listener listener = {.tls = &tls};
	struct sl_config cfg = {.listeners = &listener, .listener_cnt = 1};
	struct sl_err err = SL_ERR(256);

	for (unsigned edition = 0; edition < 2; edition++) {
		bed_write_pair(pem, key);
		ck_assert_msg(sl_tls_load(&cfg, &err) == 0, "%s", err.text);
		for (unsigned i = 0; i < SL_ARRAY_LEN(workers); i++)
			sl_tls_set_listeners(workers[i], &cfg);
		cfg.release[0](&cfg);
		ck_assert(resumes(edition) == (edition == 1));
		ck_assert(resumes(!edition));
		ck_assert(resumes(edition));
	}
	ck_assert_uint_eq(workers[0]->stats.full, 1);
	ck_assert_uint_eq(workers[0]->stats.resumed, 2);
	ck_assert_uint_eq(workers[1]->stats.full, 0);
	ck_assert_uint_eq(workers[1]->stats.resumed, 3);
}

TEST(gateways_with_a_file_of_keys_take_each_other_s_tickets)
{
	write_keys("a");
	serve_with(gateway(true));
	ck_assert(!resumes(0));
	serve_with(gateway(true));
	ck_assert(resumes(1));
	serve_with(gateway(false)); /* one that does not know the file */
	ck_assert(!resumes(0));
	serve_with(gateway(false));
	ck_assert(!resumes(0));
}

/* As an operator changes them: the new one goes in behind, then in front, then the old one goes. */
TEST(the_first_key_of_a_file_seals_and_the_others_open)
{
	static const struct {
		const char *keys;
		bool good;
	} steps[] = {{"a", false}, {"ab", true}, {"ba", true}, {"b", true}, {"a", false}};

	for (unsigned i = 0; i < SL_ARRAY_LEN(steps); i++) {
		write_keys(steps[i].keys);
		serve_with(gateway(true));
		ck_assert_msg(resumes(i & 1) == steps[i].good, "%s", steps[i].keys);
	}
	write_keys("ba");
	serve_with(gateway(true));
	ck_assert(resumes(0)); /* a ticket of "a", and for it one of "b" */
	write_keys("b");
	serve_with(gateway(true));
	ck_assert(resumes(0));
	pass_s(100 * HOUR_S);
	ck_assert(resumes(0)); /* those of a file do not rotate */
}

TEST(a_handshake_gives_one_ticket)
{
	serve_with(gateway(false));
	ck_assert(!resumes(0));
	ck_assert_uint_eq(talk_tickets, 1);
	ck_assert(resumes(0));
	ck_assert_uint_eq(talk_tickets, 2);
}

TEST(own_keys_last_for_the_hour_and_the_one_behind_it)
{
	static const unsigned minutes[] = {58, 61, 119, 122};
	SSL_SESSION *first;

	serve_with(gateway(false));
	ck_assert(!resumes(0));
	first = SSL_SESSION_dup(talk_session);
	for (unsigned i = 0; i < SL_ARRAY_LEN(minutes); i++) {
		pass_s((minutes[i] - (i ? minutes[i - 1] : 0)) * MINUTE_S);
		talk_keep(NULL, SSL_SESSION_dup(first)); /* one is good for OpenSSL once */
		ck_assert_msg(resumes(i & 1) == (minutes[i] < 2 * 60), "%u min", minutes[i]);
	}
	SSL_SESSION_free(first);
	ck_assert(resumes(0)); /* the ticket that was given instead */
}

TEST(a_key_unused_for_two_hours_opens_nothing)
{
	serve_with(gateway(false));
	ck_assert(!resumes(0));
	pass_s(2 * HOUR_S);
	ck_assert(!resumes(0));
	ck_assert(resumes(1));
}

/* Clients that show no ticket twice would resume every second time only. */
TEST(a_client_with_a_ticket_gets_the_next)
{
	const uint8_t *first, *next;
	size_t first_len, next_len;
	SSL_SESSION *shown;

	serve_with(gateway(false));
	ck_assert(!resumes(0));
	shown = SSL_SESSION_dup(talk_session);
	ck_assert(resumes(0));
	SSL_SESSION_get0_ticket(shown, &first, &first_len);
	SSL_SESSION_get0_ticket(talk_session, &next, &next_len);
	ck_assert(first_len != next_len || memcmp(first, next, next_len) != 0);
	ck_assert(SSL_SESSION_is_resumable(talk_session));
	SSL_SESSION_free(shown);
}

TEST(a_ticket_that_was_changed_is_none)
{
	serve_with(gateway(false));
	ck_assert(!resumes(0));
	for (unsigned i = 0; i < 4; i++) {
		const uint8_t *ticket;
		size_t len;

		SSL_SESSION_get0_ticket(talk_session, &ticket, &len);
		ck_assert_uint_gt(len, 64);
		/* name, IV, state, HMAC */
		((uint8_t *)(uintptr_t)ticket)[(size_t[]){3, 20, 60, len - 1}[i]] ^= 1;
		ck_assert_msg(!resumes(i & 1), "part %u", i);
		ck_assert(resumes(0));
	}
}

/* --- what a thread was waited for --- */

TEST(the_time_in_the_queue_is_that_of_all_steps)
{
	struct sl_tls_stats *stats[2] = {&workers[0]->stats, &workers[1]->stats};

	serve_with(gateway(false));
	talk_hold_ns = 5000000;
	ck_assert(!resumes(0));
	ck_assert_uint_eq(stats[0]->steps, 2); /* the hello, and Finished */
	ck_assert_uint_eq(stats[0]->waited_ns, 2 * talk_hold_ns);
	talk_hold_ns = 70;
	ck_assert(resumes(1));
	ck_assert_uint_eq(stats[1]->steps, 2);
	ck_assert_uint_eq(stats[1]->waited_ns, 2 * talk_hold_ns);
	ck_assert_uint_eq(stats[0]->steps, 2);
	ck_assert_uint_eq(stats[0]->full + stats[1]->resumed, 2);
}

TEST(a_client_that_leaves_between_two_steps_has_waited_once)
{
	SSL *ssl = talk_client("X25519");
	struct bed_conn *b = bed_accept(0);

	talk_hold_ns = 5000000;
	ck_assert_int_ne(SSL_do_handshake(ssl), 1);
	ck_assert(talk_exchange(ssl, b, BED_SEGMENT)); /* the hello, and what answers it */
	b->filter->below_tells->closed(b->filter);
	ck_assert_uint_eq(bed.submitted_cnt, 1); /* the memory, which a thread has to free */
	bed.now_ns += talk_hold_ns;
	sl_tls_hs_end(bed.submitted[0]);
	sl_tls_result(bed.tls, bed.submitted[--bed.submitted_cnt]);
	ck_assert_uint_eq(bed.tls->stats.steps, 1);
	ck_assert_uint_eq(bed.tls->stats.waited_ns, talk_hold_ns);
	ck_assert_uint_eq(bed.tls->stats.full, 0);
	SSL_free(ssl);
}
