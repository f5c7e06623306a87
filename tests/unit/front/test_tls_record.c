/* SPDX-License-Identifier: Apache-2.0 */
/* Records and keys of TLS 1.3: the traces of RFC 8448 section 3, and what must not be opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/tls/record.h"
#include "suite.h"

enum { ROOM = SL_TLS_PLAIN_MAX + 512 };

static struct sl_tls_ciphers *ciphers;

static void set_up(void)
{
	ciphers = sl_tls_ciphers_new();
	ck_assert_ptr_nonnull(ciphers);
}

static void tear_down(void)
{
	sl_tls_ciphers_free(ciphers);
}

FIXTURE(set_up, tear_down)

static size_t unhex(const char *text, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	for (int used; sscanf(text, " %2x%n", &byte, &used) == 1; text += used)
		out[n++] = (uint8_t)byte;
	return n;
}

static struct sl_tls_dir dir_of(enum sl_tls_suite suite, const char *secret, uint64_t seq)
{
	struct sl_tls_dir d = {.suite = (uint8_t)suite};

	ck_assert_uint_eq(unhex(secret, d.secret), sl_tls_secret_len(suite));
	ck_assert(sl_tls_dir_derive(&d, seq));
	return d;
}

static void check_hex(const uint8_t *found, size_t len, const char *expected)
{
	uint8_t want[ROOM];

	ck_assert_uint_eq(unhex(expected, want), len);
	ck_assert_mem_eq(found, want, len);
}

static const char client_secret[] =
	"9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
static const char server_secret[] =
	"a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";
static const char data[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
			   "202122232425262728292a2b2c2d2e2f3031";

TEST(keys_are_those_of_rfc_8448)
{
	struct sl_tls_dir s = dir_of(SL_TLS_AES_128_GCM_SHA256, server_secret, 0);
	struct sl_tls_dir c = dir_of(SL_TLS_AES_128_GCM_SHA256, client_secret, 0);

	check_hex(s.key, 16, "9f02283b6c9c07efc26bb9f2ac92e356");
	check_hex(s.iv, 12, "cf782b88dd83549aadf1e984");
	check_hex(c.key, 16, "17422dda596ed5d9acd890e3c63f5051");
	check_hex(c.iv, 12, "5b78923dee08579033e523d9");
}

TEST(a_record_is_sealed_as_in_rfc_8448)
{
	struct sl_tls_dir s = dir_of(SL_TLS_AES_128_GCM_SHA256, server_secret, 1);
	uint8_t rec[ROOM];
	size_t len = unhex(data, rec + SL_TLS_HEAD);

	len = sl_tls_seal(ciphers, &s, SL_TLS_DATA, rec, len);
	check_hex(rec, len,
		  "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6df"
		  "fc602dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d");
	ck_assert_uint_eq(s.seq, 2);
	rec[SL_TLS_HEAD] = 1; /* close_notify */
	rec[SL_TLS_HEAD + 1] = 0;
	len = sl_tls_seal(ciphers, &s, SL_TLS_ALERT, rec, 2);
	check_hex(rec, len, "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9");
}

/* However its bytes lie, down to one in each piece. */
TEST(a_record_is_opened_as_in_rfc_8448_wherever_its_pieces_lie)
{
	uint8_t rec[ROOM], want[64];
	struct sl_tls_piece pieces[67];
	size_t want_len = unhex(data, want);

	for (size_t step = 1; step <= 67; step++) {
		struct sl_tls_dir c = dir_of(SL_TLS_AES_128_GCM_SHA256, client_secret, 0);
		unsigned cnt = 0;
		size_t len = unhex("1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab"
				   "3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3d"
				   "eae63aeebb21694915e4",
				   rec);

		for (size_t at = SL_TLS_HEAD; at < len; at += step)
			pieces[cnt++] =
				(struct sl_tls_piece){rec + at, len - at < step ? len - at : step};
		ck_assert(sl_tls_open(ciphers, &c, rec, pieces, cnt));
		ck_assert_mem_eq(rec + SL_TLS_HEAD, want, want_len);
		ck_assert_uint_eq(rec[SL_TLS_HEAD + want_len], SL_TLS_DATA);
		ck_assert_uint_eq(c.seq, 1);
	}
}

static const char long_secret[] = "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
				  "303132333435363738393a3b3c3d3e3f";

static struct sl_tls_dir any_dir(enum sl_tls_suite suite)
{
	char text[2 * SL_TLS_SECRET_MAX + 1];

	memcpy(text, long_secret, sizeof(text) - 1);
	text[2 * sl_tls_secret_len(suite)] = 0;
	return dir_of(suite, text, 0);
}

static bool open_all(struct sl_tls_dir *d, uint8_t *rec, size_t len)
{
	struct sl_tls_piece piece = {rec + SL_TLS_HEAD, len - SL_TLS_HEAD};

	return sl_tls_open(ciphers, d, rec, &piece, 1);
}

TEST(sealed_records_open_with_each_suite_and_length)
{
	static const size_t lens[] = {0, 1, 15, 16, 17, 1400, SL_TLS_PLAIN_MAX};
	static uint8_t rec[ROOM];

	for (unsigned s = 0; s < SL_TLS_SUITE_CNT; s++) {
		struct sl_tls_dir out = any_dir(s), in = any_dir(s);

		for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			memset(rec + SL_TLS_HEAD, (int)('a' + i), lens[i]);
			size_t len = sl_tls_seal(ciphers, &out, SL_TLS_DATA, rec, lens[i]);

			ck_assert_uint_eq(len, lens[i] + SL_TLS_OVERHEAD);
			ck_assert(open_all(&in, rec, len));
			for (size_t k = 0; k < lens[i]; k++)
				ck_assert(rec[SL_TLS_HEAD + k] == 'a' + i);
			ck_assert_uint_eq(rec[SL_TLS_HEAD + lens[i]], SL_TLS_DATA);
		}
	}
}

/* Each bit of a record is protected, and its place in the order of records. */
TEST(a_changed_record_is_not_opened)
{
	uint8_t good[64], rec[64];

	for (unsigned s = 0; s < SL_TLS_SUITE_CNT; s++) {
		struct sl_tls_dir out = any_dir(s), in = any_dir(s);
		size_t len;

		memset(good, 'x', sizeof(good));
		len = sl_tls_seal(ciphers, &out, SL_TLS_DATA, good, 16);
		for (size_t bit = 0; bit < len * 8; bit++) {
			memcpy(rec, good, len);
			rec[bit / 8] ^= (uint8_t)(1 << bit % 8);
			ck_assert(!open_all(&in, rec, len));
		}
		ck_assert_uint_eq(in.seq, 0);
		in.seq = 1;
		memcpy(rec, good, len);
		ck_assert(!open_all(&in, rec, len));
		in.seq = 0;
		memcpy(rec, good, len);
		ck_assert(open_all(&in, rec, len));
	}
}

TEST(a_record_too_short_for_a_tag_is_not_opened)
{
	struct sl_tls_dir in = any_dir(SL_TLS_AES_128_GCM_SHA256);
	uint8_t rec[SL_TLS_HEAD + SL_TLS_TAG] = {0};

	for (size_t len = SL_TLS_HEAD; len <= sizeof(rec); len++)
		ck_assert(!open_all(&in, rec, len));
}

/* More connections than the table has room for, in turn: each finds its own key again. */
TEST(many_connections_share_the_table_of_ciphers)
{
	enum { MANY = 2000 };
	struct sl_tls_dir *out = calloc(MANY, sizeof(*out)), *in = calloc(MANY, sizeof(*in));
	uint8_t rec[64];

	for (unsigned i = 0; i < MANY; i++) {
		memset(out[i].secret, (int)i, 32);
		out[i].secret[1] = (uint8_t)(i >> 8);
		out[i].suite = (uint8_t)(i % SL_TLS_SUITE_CNT);
		ck_assert(sl_tls_dir_derive(&out[i], 0));
		in[i] = out[i];
	}
	for (unsigned k = 0; k < 3 * MANY; k++) {
		unsigned i = k * 7 % MANY;

		memset(rec + SL_TLS_HEAD, (int)k, 8);
		ck_assert(
			open_all(&in[i], rec, sl_tls_seal(ciphers, &out[i], SL_TLS_DATA, rec, 8)));
		ck_assert_uint_eq(rec[SL_TLS_HEAD + 7], (uint8_t)k);
	}
	free(out);
	free(in);
}

TEST(an_update_changes_the_key_and_begins_to_count_anew)
{
	for (unsigned s = 0; s < SL_TLS_SUITE_CNT; s++) {
		struct sl_tls_dir out = any_dir(s), in = any_dir(s), old = any_dir(s);
		uint8_t rec[64] = {0}, copy[64];
		size_t len = sl_tls_seal(ciphers, &out, SL_TLS_DATA, rec, 4);

		ck_assert(open_all(&in, rec, len));
		ck_assert(sl_tls_dir_update(ciphers, &out) && sl_tls_dir_update(ciphers, &in));
		ck_assert_mem_ne(out.key, old.key, 16);
		ck_assert_uint_eq(out.seq, 0);
		len = sl_tls_seal(ciphers, &out, SL_TLS_DATA, rec, 4);
		memcpy(copy, rec, len);
		ck_assert(!open_all(&old, copy, len));
		ck_assert(open_all(&in, rec, len));
	}
}

TEST(wiped_keys_are_gone)
{
	struct sl_tls_dir d = any_dir(SL_TLS_AES_256_GCM_SHA384), zero = {0}, again;
	uint8_t rec[64] = {0};

	sl_tls_seal(ciphers, &d, SL_TLS_DATA, rec, 4);
	sl_tls_dir_wipe(ciphers, &d);
	ck_assert_mem_eq(&d, &zero, sizeof(d));
	/* Another connection at the same place in memory has its own key. */
	again = any_dir(SL_TLS_CHACHA20_POLY1305_SHA256);
	d = any_dir(SL_TLS_CHACHA20_POLY1305_SHA256);
	ck_assert(open_all(&again, rec, sl_tls_seal(ciphers, &d, SL_TLS_DATA, rec, 4)));
}
