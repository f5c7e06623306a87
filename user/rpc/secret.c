/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
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
