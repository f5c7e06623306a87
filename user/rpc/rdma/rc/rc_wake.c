/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include "rpc/rdma/rc/rc_conn.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int always_ready_fd = -1;

int rc_wake_open(void)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (always_ready_fd < 0)
		always_ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (always_ready_fd < 0)
		rc = -errno;
	pthread_mutex_unlock(&lock);
	return rc;
}

void rc_wake_fd(const struct rc_conn *conn)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = always_ready_fd};

	if (conn->base.fd >= 0)
		(void)epoll_ctl(conn->base.fd, EPOLL_CTL_ADD, always_ready_fd, &ev);
}

bool rc_wake_ack(const struct rc_conn *conn, int fd)
{
	if (fd != always_ready_fd)
		return false;
	(void)epoll_ctl(conn->base.fd, EPOLL_CTL_DEL, fd, NULL);
	return true;
}
