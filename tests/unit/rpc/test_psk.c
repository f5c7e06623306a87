/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that two ends have: what proves it, held against RFC 4231 and against OpenSSL's HMAC, and when
 * its file is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "rpc/psk.h"
#include "suite.h"

static struct sl_psk secret_of(uint8_t byte, size_t len)
{
	uint8_t bytes[SL_KEY_MAX];

	memset(bytes, byte, len);
	return sl_psk_of(bytes, len);
}

/* RFC 4231, 4.2 and 4.7: a key shorter than a block, and one that is longer. */
TEST(the_vectors_of_the_rfc_hold)
{
	static const char long_text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	static const uint8_t of_short[] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
					   0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
					   0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
					   0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
	static const uint8_t of_long[] = {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f,
					  0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
					  0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14,
					  0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
	struct sl_psk s = secret_of(0x0b, 20);
	uint8_t mac[SL_PSK_MAC_LEN];

	sl_psk_mac(&s, "Hi There", 8, mac);
	ck_assert_mem_eq(mac, of_short, sizeof(mac));
	s = secret_of(0xaa, 131);
	sl_psk_mac(&s, long_text, strlen(long_text), mac);
	ck_assert_mem_eq(mac, of_long, sizeof(mac));
}

TEST(every_length_of_key_agrees_with_the_library)
{
	static const size_t lens[] = {SL_KEY_MIN, 63, 64, 65, SL_KEY_MAX};
	uint8_t text[200], mac[SL_PSK_MAC_LEN], want[SL_PSK_MAC_LEN];
	unsigned want_len;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < SL_ARRAY_LEN(lens); i++) {
		struct sl_psk s = secret_of((uint8_t)(0x30 + i), lens[i]);

		for (size_t len = 0; len <= sizeof(text); len += 25) {
			ck_assert_ptr_nonnull(HMAC(EVP_sha256(), s.bytes, (int)s.len, text, len,
						   want, &want_len));
			sl_psk_mac(&s, text, len, mac);
			ck_assert_mem_eq(mac, want, sizeof(mac));
		}
	}
}

/* --- its file --- */

static const char first_key[] = "sixteen bytes of", other_key[] = "sixteen bytes, a";
static char path[64];
static unsigned opened;
static bool is_another; /* account, that may not read it */

/* In the place of the C library's, as open() is. */
uid_t geteuid(void)
{
	return (uid_t)syscall(SYS_geteuid) + is_another;
}

int open(const char *at, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	opened++;
	if (is_another) {
		errno = EACCES;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, at, flags, mode);
}

/* So is this: of the monotonic clock, which stands still unless a test turns it. */
static uint64_t turned_ns;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(1 + turned_ns / SL_NS_PER_SEC);
	ts->tv_nsec = (long)(turned_ns % SL_NS_PER_SEC);
	return 0;
}

static void write_key(const char *key)
{
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fputs(key, f) < 0, 0);
	ck_assert_int_eq(fclose(f), 0);
}

static void make_file(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/sluice-key-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	write_key(first_key);
}

static void remove_file(void)
{
	unlink(path);
}

/* The key that is read, NULL if none is, and whether its file was opened for that. */
static void check_read(const char *key, unsigned opens)
{
	struct sl_err err = SL_ERR(256);
	struct sl_psk s;
	unsigned before = opened;
	int rc = sl_psk_read(&s, path, &err);

	ck_assert_int_eq(rc, key ? 0 : -1);
	if (key) {
		ck_assert_uint_eq(s.len, strlen(key));
		ck_assert_mem_eq(s.bytes, key, s.len);
	}
	ck_assert_uint_eq(opened - before, opens);
}

FIXTURE(make_file, remove_file);

/* The longest key may end its line; a longer one is not cut. */
TEST(a_longer_file_is_refused)
{
	static const struct {
		size_t len;
		const char *end;
		bool ok;
	} files[] = {
		{SL_KEY_MAX, "", true},      {SL_KEY_MAX, "\r\n", true},
		{SL_KEY_MAX + 1, "", false}, {SL_KEY_MAX + 1, "\n", false},
		{SL_KEY_MAX + 3, "", false}, {4 * SL_KEY_MAX, "\n", false},
		{SL_KEY_MIN, "", true},      {SL_KEY_MIN - 1, "\n", false},
	};
	static char key[4 * SL_KEY_MAX + 3];

	for (unsigned i = 0; i < SL_ARRAY_LEN(files); i++) {
		struct sl_err err = SL_ERR(256);
		struct sl_psk s;

		memset(key, 'k', files[i].len);
		strcpy(key + files[i].len, files[i].end);
		write_key(key);
		ck_assert_int_eq(sl_psk_read(&s, path, &err), files[i].ok ? 0 : -1);
		if (files[i].ok)
			ck_assert_uint_eq(s.len, files[i].len);
		else
			ck_assert_ptr_nonnull(strstr(err.text, "allowed: 16 to 1024 bytes"));
	}
}

/* All that is there is old by now. */
static void grow_old(void)
{
	usleep(2100 * 1000);
}

/* The file is checked again. */
static void wait_for_look(void)
{
	turned_ns += SL_PSK_CHECK_MS * SL_NS_PER_MS;
}

TEST(a_new_file_is_read_each_time)
{
	check_read(first_key, 1);
	check_read(first_key, 1);
	write_key(other_key); /* as long, and perhaps within the same tick */
	check_read(other_key, 1);
}

TEST(a_file_that_stays_as_it_is_is_read_once)
{
	grow_old();
	check_read(first_key, 1);
	check_read(first_key, 0);
	for (unsigned i = 0; i < 3; i++) {
		wait_for_look();
		check_read(first_key, 0);
	}
}

TEST(a_file_that_changes_is_read_again)
{
	char beside[sizeof(path) + 8];

	grow_old();
	check_read(first_key, 1);
	write_key(other_key);
	wait_for_look();
	check_read(other_key, 1);
	/* Another one in its place, as old as it was. */
	snprintf(beside, sizeof(beside), "%s.new", path);
	ck_assert_int_eq(rename(path, beside), 0);
	write_key(first_key);
	ck_assert_int_eq(chmod(path, 0600), 0);
	check_read(first_key, 1);
	ck_assert_int_eq(rename(beside, path), 0);
	check_read(other_key, 1);
}

/* Each look, not each dial, begins the time anew. */
TEST(a_change_counts_from_the_next_look_on)
{
	grow_old();
	check_read(first_key, 1);
	wait_for_look();
	check_read(first_key, 0);
	write_key(other_key);
	turned_ns += SL_PSK_CHECK_MS * SL_NS_PER_MS / 2;
	check_read(first_key, 0);
	turned_ns += SL_PSK_CHECK_MS * SL_NS_PER_MS / 2 - 1;
	check_read(first_key, 0);
	turned_ns++;
	check_read(other_key, 1);
	check_read(other_key, 1); /* it is new */
	grow_old();
	check_read(other_key, 1);
	check_read(other_key, 0);
}

TEST(access_to_the_file_is_checked_again)
{
	grow_old();
	check_read(first_key, 1);
	check_read(first_key, 0);
	ck_assert_int_eq(chmod(path, 0604), 0);
	wait_for_look();
	check_read(NULL, 1);
	ck_assert_int_eq(chmod(path, 0600), 0);
	check_read(first_key, 1);
	ck_assert_int_eq(unlink(path), 0);
	check_read(NULL, 1);
}

/* A key that one user has read is not another's, and stays the first one's. */
TEST(a_process_with_another_user_reads_the_file_again)
{
	grow_old();
	check_read(first_key, 1);
	is_another = true;
	wait_for_look();
	check_read(NULL, 1);
	is_another = false;
	check_read(first_key, 0);
}

/* More files than are remembered: each gives its own key. */
TEST(many_files_are_not_mixed_up)
{
	enum { FILES = 12 };
	char names[FILES][sizeof(path)], key[40];
	struct sl_psk s;
	struct sl_err err = SL_ERR(256);

	remove_file();
	for (unsigned i = 0; i < FILES; i++) {
		make_file();
		memcpy(names[i], path, sizeof(path));
		snprintf(key, sizeof(key), "the key of file %u", i);
		write_key(key);
	}
	grow_old();
	for (unsigned i = 0; i < 3 * FILES; i++) {
		ck_assert_int_eq(sl_psk_read(&s, names[i % FILES], &err), 0);
		snprintf(key, sizeof(key), "the key of file %u", i % FILES);
		ck_assert_uint_eq(s.len, strlen(key));
		ck_assert_mem_eq(s.bytes, key, s.len);
	}
	for (unsigned i = 0; i < FILES; i++)
		unlink(names[i]);
}
