/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rpc/rdma/rc/rc_conn.h"

/* One eventfd each: Linux limits how many epoll instances watch one. */
int rc_wake_open(struct rc_conn *conn)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = 0;

	conn->wake = -1;
	conn->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (conn->base.fd < 0)
		return -errno;
	conn->wake = ev.data.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (conn->wake < 0 || epoll_ctl(conn->base.fd, EPOLL_CTL_ADD, conn->wake, &ev) < 0)
		rc = -errno;
	return rc;
}

void rc_wake_close(struct rc_conn *conn)
{
	if (conn->base.fd < 0)
		return;
	close(conn->base.fd);
	if (conn->wake >= 0)
		close(conn->wake);
	conn->base.fd = conn->wake = -1;
}

void rc_wake_fd(const struct rc_conn *conn)
{
	if (conn->base.fd >= 0)
		(void)eventfd_write(conn->wake, 1);
}

bool rc_wake_ack(const struct rc_conn *conn, int fd)
{
	eventfd_t many;

	return fd == conn->wake && eventfd_read(fd, &many) == 0;
}
