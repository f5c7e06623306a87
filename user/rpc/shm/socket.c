/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rpc/shm/socket.h"

int sl_shm_address(const char *path, struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= sizeof(sa->sun_path))
		return -ENAMETOOLONG;
	memcpy(sa->sun_path, path, strlen(path) + 1);
	return 0;
}

union rights {
	struct cmsghdr header;
	char buf[CMSG_SPACE(sizeof(int))];
};

int sl_shm_hello_send(int sock, const struct sl_rpc_hello *h, int memfd)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)h, .iov_len = sizeof(*h)};
	union rights control = {.buf = {0}};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (memfd >= 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &memfd, sizeof(memfd));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int sl_shm_hello_recv(int sock, struct sl_rpc_hello *h, int *memfd)
{
	struct iovec iov = {.iov_base = h, .iov_len = sizeof(*h)};
	union rights control = {.buf = {0}};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     /* Room for one descriptor without padding: the kernel drops others. */
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;

	*memfd = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
	if (n == 0)
		return -ECONNRESET;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(memfd, CMSG_DATA(c), sizeof(*memfd));
	if (n == (ssize_t)sizeof(*h) && !(msg.msg_flags & MSG_TRUNC) &&
	    h->magic == SL_RPC_HELLO_MAGIC)
		return 0;
	if (*memfd >= 0)
		close(*memfd);
	*memfd = -1;
	return -EBADMSG;
}

struct ucred sl_shm_peer(int sock)
{
	struct ucred cred = {.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
	socklen_t len = sizeof(cred);

	(void)getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	return cred;
}

bool sl_shm_may_connect(const struct ucred *peer)
{
	return peer->uid == 0 || peer->uid == geteuid() || peer->gid == getegid();
}

bool sl_shm_may_listen(const struct ucred *peer, const struct sockaddr_un *sa)
{
	const char *slash = strrchr(sa->sun_path, '/');
	char dir[sizeof(sa->sun_path) + 1];
	struct stat st;

	if (sl_shm_may_connect(peer))
		return true;
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - sa->sun_path + 1) : 0,
		 sa->sun_path);
	return stat(dir, &st) == 0 && st.st_uid == peer->uid;
}
