/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes with OpenSSL as the client. A client that sends early data has it skipped (RFC 8446
 * 4.2.10), and all that follows is received.
 */
#include "suite.h"
#include "tls_talk.h"

FIXTURE(talk_start, talk_stop)

static SSL *client_that_is_early(void)
{
	SSL *ssl = talk_client("X25519");
	struct bed_conn *b = bed_accept(0);

	talk(ssl, b, BED_SEGMENT);
	talk_leave(ssl, b);
	ssl = talk_client("X25519");
	ck_assert_uint_eq(SSL_SESSION_get_max_early_data(talk_session), 0);
	SSL_SESSION_set_max_early_data(talk_session, 1 << 20);
	ck_assert_int_eq(SSL_set_session(ssl, talk_session), 1);
	return ssl;
}

static void early(size_t len, size_t piece, const char *groups)
{
	SSL *ssl = client_that_is_early();
	char *bytes = calloc(1, len);
	struct bed_conn *b = bed_accept(1);
	size_t written, done = 0;

	ck_assert_int_eq(SSL_set1_groups_list(ssl, groups), 1);
	while (done < len) {
		size_t n = len - done < 4096 ? len - done : 4096;

		ck_assert_int_eq(SSL_write_early_data(ssl, bytes + done, n, &written), 1);
		done += written;
	}
	talk(ssl, b, piece);
	ck_assert_int_eq(SSL_get_early_data_status(ssl), SSL_EARLY_DATA_REJECTED);
	ck_assert(SSL_session_reused(ssl));
	talk_leave(ssl, b);
	free(bytes);
}

TEST(early_data_are_skipped_and_the_ticket_is_good)
{
	static const size_t lens[] = {1, 1000, 4096, 15000};

	for (size_t i = 0; i < SL_ARRAY_LEN(lens); i++) {
		early(lens[i], BED_SEGMENT, "X25519");
		early(lens[i], 100, "X25519");
	}
	ck_assert_uint_eq(bed.tls->stats.resumed, 2 * SL_ARRAY_LEN(lens));
}

TEST(early_data_before_a_second_hello_are_skipped_too)
{
	early(1, BED_SEGMENT, "P-521:X25519");
	early(15000, BED_SEGMENT, "P-521:X25519");
	ck_assert_uint_eq(bed.tls->stats.resumed, 2);
}

/* More than a ticket could have allowed is no accident. */
TEST(too_much_early_data_end_it)
{
	static const char bytes[4096];
	SSL *ssl = client_that_is_early();
	struct bed_conn *b = bed_accept(1);
	size_t written;

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(SSL_write_early_data(ssl, bytes, sizeof(bytes), &written), 1);
	talk_exchange(ssl, b, BED_SEGMENT);
	ck_assert(b->closed && !b->opened_told);
	ck_assert_uint_eq(b->got_len, 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.tls->hs), 0);
	SSL_free(ssl);
}
