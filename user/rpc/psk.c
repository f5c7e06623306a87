/* SPDX-License-Identifier: Apache-2.0 */
/* Deprecated SHA-256 functions: EVP would allocate for each MAC. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "rpc/psk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"

enum {
	BLOCK = 64, /* of SHA-256 */
	CACHED_FILES = 8,
	OLD_S = 2, /* no file system's clock is coarser */
};

struct psk_file {
	char path[PATH_MAX];
	struct stat st; /* when read; size 0: unused */
	uint64_t checked_ns;
	uid_t reader;
	struct sl_psk psk;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct psk_file *files;
static unsigned next_file;

static int refuse_file(const char *path, const char *what, struct sl_err *err)
{
	return sl_fail(err, -1, "key file %s: %s", path, what);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Compares a key file's state. A change of owner or mode changes st_ctim. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

static struct psk_file *find_file(const char *path)
{
	for (unsigned i = 0; files && i < CACHED_FILES; i++) {
		if (files[i].st.st_size && strcmp(files[i].path, path) == 0)
			return &files[i];
	}
	return NULL;
}

static bool is_unchanged(const struct psk_file *k)
{
	struct stat st;

	return stat(k->path, &st) == 0 && same_file(&k->st, &st) && k->reader == geteuid();
}

static bool lookup_file(struct sl_psk *s, const char *path)
{
	uint64_t now_ns = sl_now_ns();
	struct psk_file *k;

	pthread_mutex_lock(&lock);
	k = find_file(path);
	if (k && now_ns - k->checked_ns >= SL_PSK_CHECK_MS * SL_NS_PER_MS) {
		if (is_unchanged(k))
			k->checked_ns = now_ns;
		else
			k = NULL;
	}
	if (k)
		*s = k->psk;
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

static bool alloc_files(void)
{
	void *mem;

	if (files)
		return true;
	mem = mmap(NULL, CACHED_FILES * sizeof(*files), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return false;
	(void)madvise(mem, CACHED_FILES * sizeof(*files), MADV_DONTDUMP);
	files = mem;
	return true;
}

/* Caches a key, but no new file: it may change within the same tick. */
static void store_file(const struct sl_psk *s, const char *path, const struct stat *st)
{
	struct timespec now;
	struct psk_file *k;

	clock_gettime(CLOCK_REALTIME, &now);
	if (strlen(path) >= sizeof(k->path) || now.tv_sec - st->st_ctim.tv_sec < OLD_S)
		return;
	pthread_mutex_lock(&lock);
	if (alloc_files()) {
		k = find_file(path);
		if (!k)
			k = &files[next_file++ % CACHED_FILES];
		k->psk = *s;
		k->st = *st;
		k->checked_ns = sl_now_ns();
		k->reader = geteuid();
		memcpy(k->path, path, strlen(path) + 1);
	}
	pthread_mutex_unlock(&lock);
}

static int take_key(struct sl_psk *s, const char *path, const uint8_t *bytes, size_t len,
		    struct sl_err *err)
{
	const char *more = len > SL_KEY_MAX + strlen("\r\n") ? "more than " : "";
	char found[96];

	while (!*more && len && memchr("\r\n\t ", bytes[len - 1], 4))
		len--;
	if (!*more && len >= SL_KEY_MIN && len <= SL_KEY_MAX) {
		*s = sl_psk_of(bytes, len);
		return 0;
	}
	snprintf(found, sizeof(found), "found %s%zu bytes; allowed: %d to %d bytes of key", more,
		 *more ? (size_t)SL_KEY_MAX : len, SL_KEY_MIN, SL_KEY_MAX);
	return refuse_file(path, found, err);
}

static int read_file(struct sl_psk *s, const char *path, struct sl_err *err)
{
	uint8_t bytes[SL_KEY_MAX + sizeof("\r\n")];
	struct stat st;
	ssize_t n;
	int fd, rc;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse_file(path, strerror(errno), err);
	/* A user that can write the key can pose as any peer. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) ||
	    !(st.st_uid == 0 || st.st_uid == geteuid())) {
		close(fd);
		return refuse_file(
			path,
			"expected a file of root or this user that others cannot read and "
			"the group cannot write (chmod 640)",
			err);
	}
	n = read(fd, bytes, sizeof(bytes));
	close(fd);
	if (n < 0)
		return refuse_file(path, strerror(errno), err);
	rc = take_key(s, path, bytes, (size_t)n, err);
	if (!rc)
		store_file(s, path, &st);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return rc;
}

int sl_psk_read(struct sl_psk *s, const char *path, struct sl_err *err)
{
	if (!path)
		return sl_fail(
			err, -1,
			"an endpoint on the network needs a key file: both ends prove that they have the same key");
	return lookup_file(s, path) ? 0 : read_file(s, path, err);
}

void sl_psk_wipe(struct sl_psk *s)
{
	OPENSSL_cleanse(s, sizeof(*s));
}

static SHA256_CTX keyed_state(const uint8_t key[BLOCK], uint8_t pad)
{
	uint8_t block[BLOCK];
	SHA256_CTX c;

	for (unsigned i = 0; i < BLOCK; i++)
		block[i] = key[i] ^ pad;
	SHA256_Init(&c);
	SHA256_Update(&c, block, BLOCK);
	OPENSSL_cleanse(block, sizeof(block));
	return c;
}

struct sl_psk sl_psk_of(const void *bytes, size_t len)
{
	struct sl_psk s = {.len = len};
	uint8_t key[BLOCK] = {0};

	memcpy(s.bytes, bytes, len);
	if (len > BLOCK)
		SHA256(s.bytes, len, key);
	else
		memcpy(key, bytes, len);
	s.inner = keyed_state(key, 0x36);
	s.outer = keyed_state(key, 0x5c);
	OPENSSL_cleanse(key, sizeof(key));
	return s;
}

void sl_psk_mac(const struct sl_psk *s, const void *text, size_t len, uint8_t mac[SL_PSK_MAC_LEN])
{
	SHA256_CTX c = s->inner;

	SHA256_Update(&c, text, len);
	SHA256_Final(mac, &c);
	c = s->outer;
	SHA256_Update(&c, mac, SL_PSK_MAC_LEN);
	SHA256_Final(mac, &c);
}
