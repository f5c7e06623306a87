/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole handshakes on tls_bed.h, with OpenSSL as the client; the test is the thread, and says how
 * long each step lay in its queue.
 *
 *   talk_client -> talk (handshake, a request, tickets) -> talk_leave
 */
#ifndef SL_TESTS_TLS_TALK_H
#define SL_TESTS_TLS_TALK_H

#include <check.h>
#include <openssl/ssl.h>

#include "tls_bed.h"

static SSL_CTX *talk_ctx;
static SSL_SESSION *talk_session; /* the last that a server gave */
static unsigned talk_tickets;     /* how many */
static uint64_t talk_hold_ns;     /* how long a step waits for its thread */

static inline int talk_keep(SSL *ssl, SSL_SESSION *s)
{
	(void)ssl;
	SSL_SESSION_free(talk_session);
	talk_session = s;
	talk_tickets++;
	return 1;
}

static inline void talk_start(void)
{
	bed_start();
	talk_hold_ns = 0;
	talk_tickets = 0;
	talk_ctx = SSL_CTX_new(TLS_client_method());
	ck_assert_ptr_nonnull(talk_ctx);
	SSL_CTX_set_session_cache_mode(talk_ctx,
				       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(talk_ctx, talk_keep);
}

static inline void talk_stop(void)
{
	SSL_SESSION_free(talk_session);
	talk_session = NULL;
	SSL_CTX_free(talk_ctx);
	bed_stop();
}

/* Does a handshake thread's work. */
static inline void talk_serve(void)
{
	while (bed.submitted_cnt) {
		struct sl_tls_hs *hs = bed.submitted[--bed.submitted_cnt];

		bed.now_ns += talk_hold_ns;
		sl_tls_hs_step(hs, bed.now_ns);
		sl_tls_result(bed.tls, hs);
	}
}

/* The client's bytes go over in pieces, and the server's back. True: there were some. */
static inline bool talk_exchange(SSL *ssl, struct bed_conn *b, size_t piece)
{
	char *bytes;
	size_t len = (size_t)BIO_get_mem_data(SSL_get_wbio(ssl), &bytes), sent = b->opened;

	for (size_t at = 0; at < len && b->filter && !b->closed;) {
		size_t n = len - at < piece ? len - at : piece;
		size_t used = bed_offer(b, (const uint8_t *)bytes + at, n, true);

		bed_require(used || bed.submitted_cnt);
		if (used < n)
			talk_serve();
		at += used;
	}
	talk_serve();
	sl_tls_flush(bed.tls);
	BIO_reset(SSL_get_wbio(ssl));
	b->opened = b->sent_len;
	BIO_write(SSL_get_rbio(ssl), b->sent + sent, (int)(b->sent_len - sent));
	return len || b->sent_len > sent;
}

static inline SSL *talk_client(const char *groups)
{
	SSL *ssl = SSL_new(talk_ctx);

	ck_assert_ptr_nonnull(ssl);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_connect_state(ssl);
	ck_assert_int_eq(SSL_set1_groups_list(ssl, groups), 1);
	return ssl;
}

/* The handshake to its end, one request, and what the front has of it. */
static inline void talk(SSL *ssl, struct bed_conn *b, size_t piece)
{
	static const char request[] = "request";
	char none[1];

	while (SSL_do_handshake(ssl) != 1)
		ck_assert(talk_exchange(ssl, b, piece));
	ck_assert_int_eq(SSL_write(ssl, request, sizeof(request)), sizeof(request));
	ck_assert(talk_exchange(ssl, b, piece));
	ck_assert_int_le(SSL_read(ssl, none, 1), 0); /* takes the tickets */
	ck_assert(b->opened_told);
	ck_assert_uint_eq(b->got_len, sizeof(request));
	ck_assert_mem_eq(b->got, request, sizeof(request));
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN); /* or its session would be given up */
}

static inline void talk_leave(SSL *ssl, struct bed_conn *b)
{
	SSL_free(ssl);
	b->filter->below_tells->closed(b->filter);
	bed_release(b);
}

#endif
