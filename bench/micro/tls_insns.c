/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions per record in each direction, from TCP to the front and back, and of the two steps
 * of a handshake. AES-128-GCM, ECDSA with P-256, X25519. valgrind's CPU has no AVX-512; newer CPUs
 * need fewer for the ciphers.
 */
#include <openssl/ssl.h>

#include "bench.h"
#include "callgrind.h"
#include "tls_bed.h"

enum { WARM = 4, COUNTED = 32 };

static void count(bool on)
{
	if (on)
		CALLGRIND_TOGGLE_COLLECT;
}

/* --- records --- */

static void receive_record(struct bed_conn *b, size_t len, bool on)
{
	static uint8_t bytes[SL_TLS_PLAIN_MAX], record[SL_TLS_CIPHER_MAX + 64];
	size_t all = bed_seal(b, SL_TLS_DATA, bytes, len, record);

	b->got_len = 0;
	for (size_t at = 0; at < all; at += BED_SEGMENT) {
		struct sl_frame *f = sl_frame_get(&bed.umem, SL_FRAME_HELD, 0);
		struct sl_chunk chunk = {.ptr = f->data, .frame = f};

		chunk.len = all - at < BED_SEGMENT ? all - at : BED_SEGMENT;
		f->len = (uint16_t)chunk.len;
		memcpy(f->data, record + at, chunk.len);
		count(on);
		bed_require(b->filter->below_tells->input(b->filter, &chunk) > 0);
		count(on);
		if (chunk.frame)
			sl_frame_put(&bed.umem, chunk.frame);
	}
	bed_require(b->got_len == len);
}

static void send_record(struct bed_conn *b, size_t len, bool on)
{
	static uint8_t bytes[SL_TLS_PLAIN_MAX];

	b->sent_len = 0;
	b->room = BED_KEEP;
	count(on);
	bed_require(b->filter->offers->write(b->filter, bytes, len) == len);
	sl_tls_flush(bed.tls);
	count(on);
}

/* --- handshakes --- */

static SSL_CTX *ctx;
static SSL_SESSION *session;

static int keep(SSL *ssl, SSL_SESSION *s)
{
	(void)ssl;
	SSL_SESSION_free(session);
	session = s;
	return 1;
}

static void serve(bool on)
{
	while (bed.submitted_cnt) {
		struct sl_tls_hs *hs = bed.submitted[--bed.submitted_cnt];

		count(on);
		sl_tls_hs_step(hs, bed.now_ns);
		count(on);
		sl_tls_result(bed.tls, hs);
	}
}

static void shake_hands(bool resume, bool on)
{
	SSL *ssl = SSL_new(ctx);
	struct bed_conn *b = bed_accept(0);
	char *bytes, none[1];

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_connect_state(ssl);
	SSL_set1_groups_list(ssl, "X25519");
	if (resume)
		bed_require(session && SSL_set_session(ssl, session) == 1);
	while (!b->opened_told) {
		size_t len;

		SSL_do_handshake(ssl);
		len = (size_t)BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
		bed_feed(b, (const uint8_t *)bytes, len, BED_SEGMENT, NULL);
		BIO_reset(SSL_get_wbio(ssl));
		serve(on);
		BIO_write(SSL_get_rbio(ssl), b->sent + b->opened, (int)(b->sent_len - b->opened));
		b->opened = b->sent_len;
	}
	SSL_read(ssl, none, 1); /* takes the tickets */
	bed_require(SSL_session_reused(ssl) == resume);
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN); /* or its session would be given up */
	SSL_free(ssl);
	b->filter->below_tells->closed(b->filter);
	bed_release(b);
}

/* --- rows --- */

static const struct scenario {
	const char *name;
	size_t received, sent;
	bool resume;
} scenarios[] = {
	{"tls_record_received_100", 100, 0, false},
	{"tls_record_received_1400", 1400, 0, false},
	{"tls_record_received_16384", 16384, 0, false},
	{"tls_record_sent_100", 0, 100, false},
	{"tls_record_sent_1400", 0, 1400, false},
	{"tls_handshake_full", 0, 0, false},
	{"tls_handshake_resumed", 0, 0, true},
};

/* Under valgrind. */
static void run(const struct scenario *s)
{
	struct bed_conn *b = &bed.conns[1];

	bed_start();
	ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep);
	if (s->received || s->sent)
		(void)bed_open(1);
	if (s->resume)
		shake_hands(false, false);
	for (unsigned i = 0; i < WARM + COUNTED; i++) {
		bool on = i >= WARM;

		if (s->received)
			receive_record(b, s->received, on);
		else if (s->sent)
			send_record(b, s->sent, on);
		else
			shake_hands(s->resume, on);
	}
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		double insns;

		if (argc > 1) {
			if (strcmp(s->name, argv[1]) == 0)
				run(s);
			continue;
		}
		insns = bench_insns(argv[0], s->name, "");
		if (insns <= 0)
			return 1;
		bench_row(s->name, insns / COUNTED, "instructions");
	}
	return 0;
}
