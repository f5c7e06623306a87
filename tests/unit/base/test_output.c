/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to pipes and sockets that nothing reads: they return, and the other owners of the file keep its flags. */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "suite.h"

enum { PIPE_LEN = 4096, LIMIT = 1 << 20 };

/* Writes lines until one finds no room; returns the error. */
static ssize_t fill(int fd)
{
	ssize_t n = 0;

	for (size_t done = 0; n >= 0 && done < LIMIT; done += (size_t)n)
		n = sl_output_write(fd, "a line of some length\n", 22);
	return n;
}

static void make_pipe(int ends[2])
{
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(fcntl(ends[1], F_SETPIPE_SZ, PIPE_LEN), PIPE_LEN);
}

TEST(full_pipe_is_no_wait)
{
	char read_bytes[PIPE_LEN];
	int ends[2];

	make_pipe(ends);
	ck_assert_int_eq(fill(ends[1]), -EAGAIN);
	ck_assert_int_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_gt(read(ends[0], read_bytes, sizeof(read_bytes)), 0);
	ck_assert_int_eq(sl_output_write(ends[1], "x", 1), 1);
}

TEST(full_socket_is_no_wait)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	ck_assert_int_eq(fill(ends[1]), -EAGAIN);
	close(ends[0]);
	ck_assert_int_eq(fill(ends[1]), -EPIPE);
}

TEST(pipe_without_a_reader_is_no_signal)
{
	int ends[2];

	make_pipe(ends);
	close(ends[0]);
	ck_assert_int_eq(fill(ends[1]), -EPIPE);
	close(ends[1]);
	ck_assert_int_eq(fill(ends[1]), -EBADF);
}

/* In a child, whose standard error it becomes. */
static int status_of(void (*fn)(int fd), int fd)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		dup2(fd, STDERR_FILENO);
		sl_output_open();
		fn(fd);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void write_much(int shared)
{
	ssize_t n;

	/* Plain writes, as libraries make them, return too. */
	do
		n = write(STDERR_FILENO, "a line of some length\n", 22);
	while (n > 0);
	if (errno != EAGAIN || fill(STDERR_FILENO) != -EAGAIN)
		_exit(1);
	sl_output_line(STDERR_FILENO, "%s", "lost");
	if (fcntl(shared, F_GETFL) & O_NONBLOCK)
		_exit(2);
}

TEST(service_has_a_standard_error_of_its_own)
{
	int ends[2];

	make_pipe(ends);
	ck_assert_int_eq(status_of(write_much, ends[1]), 0);
}

static void write_to_nobody(int shared)
{
	(void)shared;
	if (write(STDERR_FILENO, "x", 1) != -1 || errno != EPIPE || fill(STDERR_FILENO) != -EPIPE)
		_exit(1);
	sl_output_text(STDERR_FILENO, "lost");
}

TEST(service_outlives_its_reader)
{
	int ends[2];

	make_pipe(ends);
	close(ends[0]);
	ck_assert_int_eq(status_of(write_to_nobody, ends[1]), 0);
}

TEST(closed_descriptors_are_filled)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		close(STDERR_FILENO);
		close(STDIN_FILENO);
		sl_output_fill();
		_exit(fcntl(STDIN_FILENO, F_GETFD) || fcntl(STDERR_FILENO, F_GETFD));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
