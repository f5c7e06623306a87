/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "net/net.h"
#include "wire/eth.h"

enum { PER_TENTH = 16 };

static int open_raw(int family)
{
	const int one = 1;
	int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);

	if (fd < 0)
		return -errno;
	if (family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_HDRINCL, &one, sizeof(one)) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

int sl_net_open_kernel_tx(struct sl_net *n)
{
	int fd4 = open_raw(AF_INET), fd6 = open_raw(AF_INET6);

	n->raw_fd[0] = fd4 >= 0 ? fd4 : -1;
	n->raw_fd[1] = fd6 >= 0 ? fd6 : -1;
	if (fd4 < 0)
		return fd4;
	return fd6 < 0 && fd6 != -EAFNOSUPPORT ? fd6 : 0;
}

void sl_net_close_kernel_tx(struct sl_net *n)
{
	for (int i = 0; i < 2; i++) {
		if (n->raw_fd[i] >= 0)
			close(n->raw_fd[i]);
		n->raw_fd[i] = -1;
	}
}

/* Named, because the kernel's rules ignore the source in the packet. */
static ssize_t send_from(int fd, const struct sl_net_path *path, struct iovec *packet,
			 struct sockaddr_storage *to, socklen_t to_len)
{
	union {
		struct cmsghdr hdr;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {0};
	struct msghdr msg = {
		.msg_name = to,
		.msg_namelen = to_len,
		.msg_iov = packet,
		.msg_iovlen = 1,
		.msg_control = &control,
	};
	struct in6_pktinfo from6 = {0};
	struct in_pktinfo from4 = {0};

	if (path->family == 6) {
		memcpy(&from6.ipi6_addr, path->local, sizeof(from6.ipi6_addr));
		control.hdr = (struct cmsghdr){CMSG_LEN(sizeof(from6)), IPPROTO_IPV6, IPV6_PKTINFO};
		memcpy(CMSG_DATA(&control.hdr), &from6, sizeof(from6));
		msg.msg_controllen = CMSG_SPACE(sizeof(from6));
	} else {
		memcpy(&from4.ipi_spec_dst, path->local, sizeof(from4.ipi_spec_dst));
		control.hdr = (struct cmsghdr){CMSG_LEN(sizeof(from4)), IPPROTO_IP, IP_PKTINFO};
		memcpy(CMSG_DATA(&control.hdr), &from4, sizeof(from4));
		msg.msg_controllen = CMSG_SPACE(sizeof(from4));
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT);
}

void sl_net_copy_to_kernel(struct sl_net *n, const struct sl_frame *f,
			   const struct sl_net_path *path)
{
	const size_t l2_len = sl_eth_hdr_len(path->vlan_cnt);
	const uint64_t tenth = n->now_ns / (SL_NS_PER_SEC / 10);
	const int fd = n->raw_fd[path->family == 6];
	struct sl_addr to = sl_net_remote(path, 0);
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(&to, &ss);
	struct iovec packet = {f->data + l2_len, f->len - l2_len};

	if (n->kernel_tx_tenth != tenth)
		n->kernel_tx_left = PER_TENTH;
	n->kernel_tx_tenth = tenth;
	if (fd < 0 || !n->kernel_tx_left)
		return;
	n->kernel_tx_left--;
	if (path->family == 6 && path->remote[0] == 0xfe && (path->remote[1] & 0xc0) == 0x80)
		((struct sockaddr_in6 *)&ss)->sin6_scope_id =
			(uint32_t)n->ports[path->port]->ifindex;
	if (send_from(fd, path, &packet, &ss, len) > 0)
		n->kernel_tx_cnt++;
}
