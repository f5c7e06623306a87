/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Unix sockets: living, dead, and of a process that is about to listen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/stale_socket.h"
#include "suite.h"

static char folder[] = "/tmp/sl-stale-XXXXXX";
static struct sockaddr_un at = {.sun_family = AF_UNIX};

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", folder);
}

static void tear_down(void)
{
	unlink(at.sun_path);
	rmdir(folder);
}

FIXTURE(set_up, tear_down)

static int bind_socket(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

TEST(name_of_a_dead_process_is_stale)
{
	close(bind_socket(SOCK_STREAM));
	ck_assert(sl_socket_is_stale(&at, SOCK_STREAM));
}

TEST(socket_that_listens_is_not_stale)
{
	int fd = bind_socket(SOCK_STREAM);

	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert(!sl_socket_is_stale(&at, SOCK_STREAM));
	close(fd);
}

TEST(socket_of_another_type_is_not_stale)
{
	int fd = bind_socket(SOCK_SEQPACKET);

	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert(!sl_socket_is_stale(&at, SOCK_STREAM));
	close(fd);
}

TEST(other_files_are_not_stale_sockets)
{
	ck_assert(!sl_socket_is_stale(&at, SOCK_STREAM));
	ck_assert_int_eq(mkdir(at.sun_path, 0700), 0);
	ck_assert(!sl_socket_is_stale(&at, SOCK_STREAM));
	rmdir(at.sun_path);
}

static int soon_fd = -1;

/* Replaces that of libc: a socket listens when it is looked at for the second time. */
int usleep(useconds_t us)
{
	(void)us;
	return soon_fd < 0 ? 0 : listen(soon_fd, 1);
}

/* Another process may look between bind() and listen(). */
TEST(socket_that_is_about_to_listen_is_not_stale)
{
	soon_fd = bind_socket(SOCK_STREAM);
	ck_assert(!sl_socket_is_stale(&at, SOCK_STREAM));
	close(soon_fd);
	soon_fd = -1;
}
