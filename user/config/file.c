/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"

static int check_kind(const struct stat *st, struct sl_err *why)
{
	const char *kind = S_ISDIR(st->st_mode)    ? "a folder"
			   : S_ISFIFO(st->st_mode) ? "a FIFO"
			   : S_ISSOCK(st->st_mode) ? "a socket"
						   : "a device";

	return S_ISREG(st->st_mode) ? 0 : sl_fail(why, -1, "%s; allowed: a regular file", kind);
}

/* SUDO_UID has called sudo(8), and so can be root. */
static bool has_called_sudo(uid_t owner)
{
	const char *caller = getenv("SUDO_UID");
	uint64_t uid;

	return caller && sl_parse_u64(sl_span_cstr(caller), &uid) == 0 && uid == owner;
}

/* The file names the backends that get all requests. */
static int check_owner(const struct stat *st, struct sl_err *why)
{
	if (st->st_uid != 0 && st->st_uid != geteuid() && !has_called_sudo(st->st_uid))
		return sl_fail(why, -1,
			       "a file of account %u; allowed: one of root's, or of the account "
			       "that reads it",
			       st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return sl_fail(why, -1,
			       "a file that %s may write (mode %o); allowed: one that only its "
			       "owner may write (chmod go-w)",
			       st->st_mode & S_IWOTH ? "others" : "its group", st->st_mode & 07777);
	return 0;
}

static int check_file(int fd, bool any_owner, struct conf_file_id *id, struct sl_err *why)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return sl_fail(why, -1,
			       "no readable file (%s); allowed: one that this account can read",
			       strerror(errno));
	*id = (struct conf_file_id){st.st_dev, st.st_ino};
	if (check_kind(&st, why) != 0)
		return -1;
	return any_owner ? 0 : check_owner(&st, why);
}

static int read_all(int fd, char *text, size_t limit, size_t *len)
{
	*len = 0;
	while (*len <= limit) {
		ssize_t n = read(fd, text + *len, limit + 1 - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		*len += (size_t)n;
	}
	return 0;
}

char *conf_file_read(const char *path, size_t limit, bool any_owner, struct conf_file_id *id,
		     struct sl_err *why)
{
	/* A FIFO without a writer would block the open. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	size_t len;

	if (fd < 0) {
		sl_err_set(why, "no readable file (%s); allowed: one that this account can read",
			   strerror(errno));
		return NULL;
	}
	if (check_file(fd, any_owner, id, why) == 0) {
		text = malloc(limit + 2);
		if (!text)
			sl_err_set(why, "too little memory; allowed: more");
	}
	if (text && read_all(fd, text, limit, &len) != 0) {
		sl_err_set(why, "no readable file (%s); allowed: one that this account can read",
			   strerror(errno));
	} else if (text && (len > limit || memchr(text, 0, len))) {
		sl_err_set(why, "%s; allowed: a text of at most 4 MiB in all",
			   len > limit ? "a larger file" : "a NUL byte");
	} else if (text) {
		text[len] = 0;
		close(fd);
		return text;
	}
	close(fd);
	free(text);
	return NULL;
}
