/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_LEN = 1024, WAIT_MS = 100 };

enum kind {
	ANYTHING, /* not opened again */
	DIRECT,   /* write() does not block */
	SOCKET,
};

static enum kind kinds[STDERR_FILENO + 1];

void sl_output_fill(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* without O_CLOEXEC */
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static bool open_again(int fd)
{
	static const char *const paths[] = {"/proc/self/fd/0", "/proc/self/fd/1",
					    "/proc/self/fd/2"};
	int again = open(paths[fd], O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool ok = again >= 0 && dup2(again, fd) == fd;

	if (again >= 0)
		close(again);
	return ok;
}

void sl_output_open(void)
{
	struct stat st;

	signal(SIGPIPE, SIG_IGN);
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
		kinds[fd] = ANYTHING;
		if (fstat(fd, &st) != 0)
			continue;
		if (S_ISSOCK(st.st_mode))
			kinds[fd] = SOCKET;
		else if (S_ISREG(st.st_mode))
			kinds[fd] = DIRECT;
		else if ((S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) && open_again(fd))
			kinds[fd] = DIRECT;
	}
}

static ssize_t write_bytes(int fd, const void *bytes, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	ssize_t n = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0 || errno != ENOTSOCK)
		return n;
	/* A writable pipe takes at least PIPE_BUF bytes. */
	if (poll(&p, 1, 0) >= 0 && !(p.revents & POLLOUT)) {
		errno = p.revents & POLLERR ? EPIPE : p.revents & POLLNVAL ? EBADF : EAGAIN;
		return -1;
	}
	if (p.revents & POLLERR) { /* no reader: avoids SIGPIPE */
		errno = EPIPE;
		return -1;
	}
	return write(fd, bytes, len < PIPE_BUF ? len : PIPE_BUF);
}

ssize_t sl_output_write(int fd, const void *bytes, size_t len)
{
	enum kind kind = fd >= 0 && fd <= STDERR_FILENO ? kinds[fd] : ANYTHING;
	ssize_t n;

	do {
		if (kind == DIRECT)
			n = write(fd, bytes, len);
		else if (kind == SOCKET)
			n = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			n = write_bytes(fd, bytes, len);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Returns false without room in time. After a failed call the next one does not wait. */
static bool write_in_time(int fd, const char *bytes, size_t len)
{
	static _Atomic bool stuck;
	size_t done = 0;

	while (done < len) {
		ssize_t n = sl_output_write(fd, bytes + done, len - done);
		struct pollfd p = {.fd = fd, .events = POLLOUT};

		if (n > 0)
			done += (size_t)n;
		else if (n != -EAGAIN || stuck || poll(&p, 1, WAIT_MS) != 1)
			break;
	}
	stuck = done < len;
	return !stuck;
}

void sl_output_text(int fd, const char *text)
{
	size_t len = strlen(text);

	if (write_in_time(fd, text, len) && (!len || text[len - 1] != '\n'))
		(void)write_in_time(fd, "\n", 1);
}

void sl_output_line(int fd, const char *fmt, ...)
{
	char line[LINE_MAX_LEN + 1];
	size_t len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, LINE_MAX_LEN, fmt, ap);
	va_end(ap);
	len = n < 0 ? 0 : n < LINE_MAX_LEN ? (size_t)n : LINE_MAX_LEN - 1;
	line[len++] = '\n';
	(void)write_in_time(fd, line, len);
}
