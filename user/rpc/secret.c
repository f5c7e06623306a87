/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *path, const char *what, struct sl_err *err)
{
	return sl_fail(err, -1, "key file %s: %s", path, what);
}

int sl_secret_read(struct sl_secret *s, const char *path, struct sl_err *err)
{
	struct stat st;
	ssize_t n;
	int fd;

	if (!path)
		return sl_fail(
			err, -1,
			"an endpoint on the network needs a key file: both ends prove that they have the same key");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse(path, strerror(errno), err);
	/* Who may write it may pose as any peer, as well as who may read it. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) ||
	    !(st.st_uid == 0 || st.st_uid == geteuid())) {
		close(fd);
		return refuse(path,
			      "expected a file of root's or our own that others may not read and "
			      "the group may not write (chmod 640)",
			      err);
	}
	n = read(fd, s->bytes, sizeof(s->bytes));
	close(fd);
	while (n > 0 && memchr("\r\n\t ", s->bytes[n - 1], 4))
		n--;
	s->len = n > 0 ? (size_t)n : 0;
	if (s->len < SL_KEY_MIN)
		return refuse(path, "expected 16 to 1024 bytes of key", err);
	return 0;
}

void sl_secret_wipe(struct sl_secret *s)
{
	OPENSSL_cleanse(s, sizeof(*s));
}

/* SHA-256's block. */
enum { BLOCK = 64 };

static EVP_MD *sha256;

static void fetch_sha256(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static int hash(EVP_MD_CTX *c, const uint8_t *first, size_t first_len, const void *second,
		size_t second_len, uint8_t out[SL_SECRET_MAC_LEN])
{
	return EVP_DigestInit_ex2(c, sha256, NULL) && EVP_DigestUpdate(c, first, first_len) &&
			       EVP_DigestUpdate(c, second, second_len) &&
			       EVP_DigestFinal_ex(c, out, NULL)
		       ? 0
		       : -EIO;
}

/* The key as a block, each byte of it changed by `pad`. */
static int keyed(EVP_MD_CTX *c, const uint8_t key[BLOCK], uint8_t pad, const void *text, size_t len,
		 uint8_t out[SL_SECRET_MAC_LEN])
{
	uint8_t block[BLOCK];
	int rc;

	for (unsigned i = 0; i < BLOCK; i++)
		block[i] = key[i] ^ pad;
	rc = hash(c, block, BLOCK, text, len, out);
	OPENSSL_cleanse(block, sizeof(block));
	return rc;
}

int sl_secret_mac(const struct sl_secret *s, const void *text, size_t len,
		  uint8_t mac[SL_SECRET_MAC_LEN])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint8_t key[BLOCK] = {0}, inner[SL_SECRET_MAC_LEN];
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	int rc = 0;

	(void)pthread_once(&once, fetch_sha256);
	if (!c || !sha256) {
		EVP_MD_CTX_free(c);
		return -EIO;
	}
	if (s->len > BLOCK)
		rc = hash(c, s->bytes, s->len, NULL, 0, key);
	else
		memcpy(key, s->bytes, s->len);
	if (!rc)
		rc = keyed(c, key, 0x36, text, len, inner);
	if (!rc)
		rc = keyed(c, key, 0x5c, inner, sizeof(inner), mac);
	OPENSSL_cleanse(key, sizeof(key));
	EVP_MD_CTX_free(c);
	return rc;
}
