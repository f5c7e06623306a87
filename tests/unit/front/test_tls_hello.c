/* SPDX-License-Identifier: Apache-2.0 */
/* Before a thread has a ClientHello: what is seen in it, whose it is, and what is counted of it. */
#include <stdio.h>

#include "unit.h"
#include "front/proxy/proxy.h"
#include "suite.h"
#include "tls_talk.h"

FIXTURE(talk_start, talk_stop)

/* --- the peek for a ticket --- */

/* A client's first record, at most so long. */
static size_t hello_of(SSL *ssl, uint8_t *to, size_t max)
{
	char *bytes;
	size_t len;

	ck_assert_int_ne(SSL_do_handshake(ssl), 1);
	len = (size_t)BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
	ck_assert_uint_le(len, max);
	memcpy(to, bytes, len);
	return len;
}

/* Returns a client with the ticket of an earlier connection. */
static SSL *client_with_ticket(void)
{
	SSL *ssl = talk_client("X25519");
	struct bed_conn *b = bed_accept(0);

	talk(ssl, b, BED_SEGMENT);
	talk_leave(ssl, b);
	ssl = talk_client("X25519");
	ck_assert_int_eq(SSL_set_session(ssl, talk_session), 1);
	return ssl;
}

TEST(the_name_of_a_ticket_s_key_is_seen)
{
	SSL *ssl = client_with_ticket(), *other = talk_client("X25519");
	uint8_t hello[2048], name[16] = {0};
	const uint8_t *ticket;
	size_t ticket_len, len = hello_of(ssl, hello, sizeof(hello));

	SSL_SESSION_get0_ticket(talk_session, &ticket, &ticket_len);
	ck_assert(sl_tls_hello_ticket(sl_span_of(hello, len), name));
	ck_assert_mem_eq(name, ticket, sizeof(name));
	ck_assert(sl_tls_tickets_know(sl_tls_server_tickets(bed.server), name));
	name[0] ^= 1;
	ck_assert(!sl_tls_tickets_know(sl_tls_server_tickets(bed.server), name));
	len = hello_of(other, hello, sizeof(hello));
	ck_assert(!sl_tls_hello_ticket(sl_span_of(hello, len), name));
	SSL_free(ssl);
	SSL_free(other);
}

TEST(a_ticket_that_is_too_short_for_a_name_is_none)
{
	/* version and random, three empty lists, then pre_shared_key with an identity of 15 bytes */
	static const uint8_t bytes[72] = {
		22, 3, 1, 0, 67, 1, 0, 0, 63, 3, 3, [47] = 0, 23, 0, 41, 0, 19, 0, 17, 0, 15};
	uint8_t name[16];

	ck_assert(!sl_tls_hello_ticket(sl_span_of(flush_copy(bytes, sizeof(bytes)), sizeof(bytes)),
				       name));
}

/* Wherever it ends, and whatever its lengths say: nothing behind it is read. */
TEST(no_hello_leads_the_peek_beyond_its_end)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	SSL *ssl = client_with_ticket();
	uint8_t hello[2048], name[16];
	size_t len = hello_of(ssl, hello, sizeof(hello));
	uint8_t *at = flush_with_guard(len);

	for (size_t n = 0; n < len; n++) {
		memcpy(at + len - n, hello, n);
		unit_check(!sl_tls_hello_ticket(sl_span_of(at + len - n, n), name));
	}
	for (size_t i = 0; i < len; i++) {
		for (size_t v = 0; v < SL_ARRAY_LEN(values); v++) {
			memcpy(at, hello, len);
			at[i] = values[v];
			sl_tls_hello_ticket(sl_span_of(at, len), name);
		}
	}
	SSL_free(ssl);
}

/* --- whose it is --- */

/* TLS behind a balancer's header, as a worker stacks them; says hello for one of its clients. */
static void say_hello_for(struct sl_proxy_env *env, unsigned i, unsigned client)
{
	struct bed_conn *b = bed_reach(i);
	struct sl_conn_info info = {0};
	struct sl_filter *proxy = sl_proxy_open(env, (struct sl_conn){&bed_transport, b}), *tls;
	char header[64];

	ck_assert_ptr_nonnull(proxy);
	ck_assert(sl_tls_open_conn(bed.tls, sl_filter_conn(proxy), &info, &tls));
	tls->up = &bed_front;
	tls->user = b;
	tls->under = proxy;
	proxy->up = tls->below_tells;
	proxy->user = tls;
	b->filter = proxy;
	snprintf(header, sizeof(header), "PROXY TCP4 198.51.100.%u 203.0.113.1 4000 443\r\n",
		 client);
	bed_offer(b, (const uint8_t *)header, strlen(header), true);
	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	ck_assert(b->named);
}

/* Else the clients of a balancer would have one client's share of the handshakes. */
TEST(a_handshake_behind_a_balancer_is_its_client_s)
{
	uint64_t headers = 0, malformed = 0;
	struct sl_proxy_env env;

	ck_assert_int_eq(sl_proxy_env_init(&env, 4, &headers, &malformed), 0);
	for (unsigned i = 0; i < 4; i++)
		say_hello_for(&env, i, i ? i : 1); /* 1, 1, 2, 3 */
	ck_assert_uint_eq(headers, 4);
	ck_assert_uint_eq(bed.submitted_cnt, 4);
	ck_assert_uint_eq(bed.submitted[0]->bucket, bed.submitted[1]->bucket);
	ck_assert_uint_ne(bed.submitted[0]->bucket, bed.submitted[2]->bucket);
	ck_assert_uint_ne(bed.submitted[2]->bucket, bed.submitted[3]->bucket);
	for (unsigned i = 0; i < 4; i++)
		bed.conns[i].filter->below_tells->closed(bed.conns[i].filter);
	ck_assert_uint_eq(sl_mempool_used(&env.filters), 0);
	sl_proxy_env_fini(&env);
}

/* --- what is counted --- */

static void ck_waiting(uint32_t handshakes, uint32_t queued)
{
	struct sl_tls_stats s;

	sl_tls_stats(bed.tls, &s);
	ck_assert_uint_eq(s.handshakes, handshakes);
	ck_assert_uint_eq(s.queued, queued);
	ck_assert_uint_eq(sl_tls_queued(bed.tls), queued);
}

TEST(waits_for_a_thread_are_counted)
{
	SSL *ssl[3];

	ck_waiting(0, 0);
	for (unsigned i = 0; i < SL_ARRAY_LEN(ssl); i++) {
		uint8_t hello[2048];
		size_t len;

		bed_accept(i);
		ck_waiting(i, i);
		ssl[i] = talk_client("X25519");
		len = hello_of(ssl[i], hello, sizeof(hello));
		bed_offer(&bed.conns[i], hello, len, true);
		ck_waiting(i + 1, i + 1);
	}
	talk_serve();
	ck_waiting(3, 0); /* it is the clients' turn */
	ck_assert_uint_eq(bed.tls->stats.steps, 3);
	for (unsigned i = 0; i < SL_ARRAY_LEN(ssl); i++) {
		bed.conns[i].filter->below_tells->closed(bed.conns[i].filter);
		ck_waiting(3 - i, 1); /* a thread frees what it has of it */
		sl_tls_hs_end(bed.submitted[0]);
		sl_tls_result(bed.tls, bed.submitted[--bed.submitted_cnt]);
		ck_waiting(2 - i, 0);
		SSL_free(ssl[i]);
	}
	ck_assert_uint_eq(bed.tls->stats.steps, 3);
}

TEST(each_alert_is_counted_by_its_name)
{
	for (unsigned end = SL_TLS_END_VERSION; end < SL_TLS_END_OTHER; end++)
		ck_assert_uint_eq(sl_tls_end_of(sl_tls_alert_of((enum sl_tls_end)end)), end);
	for (uint8_t alert = 43; alert <= 46; alert++) /* RFC 8446 6: of certificates */
		ck_assert_uint_eq(sl_tls_end_of(alert),
				  alert == 45 ? SL_TLS_END_EXPIRED : SL_TLS_END_BAD_CERTIFICATE);
	ck_assert_uint_eq(sl_tls_end_of(255), SL_TLS_END_OTHER);
	ck_assert_uint_eq(sl_tls_end_of(90), SL_TLS_END_OTHER);
}

/* Whole records that are no hello: the thread finds out, the client hears it, it is counted. */
TEST(a_hello_that_cannot_be_read_ends_it)
{
	struct bed_conn *b = bed_accept(0);

	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	talk_serve();
	ck_assert(b->closed);
	ck_assert_uint_eq(b->sent[0], SL_TLS_ALERT);
	ck_assert_uint_eq(b->sent[SL_TLS_HEAD + 1], sl_tls_alert_of(SL_TLS_END_DECODE));
	ck_assert_uint_eq(bed.tls->stats.ends[SL_TLS_END_DECODE], 1);
	ck_waiting(0, 0);
}

/* The Finished message proves the peer's identity: each bit counts. */
TEST(a_finished_that_was_changed_ends_it)
{
	SSL *ssl = talk_client("X25519");
	struct bed_conn *b = bed_accept(0);
	char *bytes;
	size_t len;

	ck_assert_int_ne(SSL_do_handshake(ssl), 1);
	ck_assert(talk_exchange(ssl, b, BED_SEGMENT));
	ck_assert_int_eq(SSL_do_handshake(ssl), 1);
	len = (size_t)BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
	bytes[len - 1] ^= 1;
	talk_exchange(ssl, b, BED_SEGMENT);
	ck_assert(b->closed && !b->opened_told);
	ck_assert_uint_eq(bed.tls->stats.ends[SL_TLS_END_BAD_RECORD], 1);
	ck_assert_uint_eq(bed.tls->stats.full, 0);
	SSL_free(ssl);
}
