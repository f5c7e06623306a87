/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "netns.h"

int test_sh(const char *fmt, ...)
{
	char cmd[1024];
	va_list args;
	int len, status;

	va_start(args, fmt);
	len = vsnprintf(cmd, sizeof(cmd) - 8, fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(cmd) - 8)
		return 127;
	snprintf(cmd + len, sizeof(cmd) - (size_t)len, " >&2");
	status = system(cmd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int test_netns_enter(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0)
		return -errno;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700") < 0)
		return -errno;
	return test_sh("ip link set lo up") ? -EIO : 0;
}

int test_veth(const char *a, const char *b, unsigned queues)
{
	return test_sh("ip link add %s numrxqueues %u numtxqueues %u type veth peer name %s "
		       "numrxqueues %u numtxqueues %u",
		       a, queues, queues, b, queues, queues) ||
	       test_sh("sysctl -qw net.ipv6.conf.%s.disable_ipv6=1 net.ipv6.conf.%s.disable_ipv6=1",
		       a, b) ||
	       test_sh("ip link set %s up && ip link set %s up", a, b);
}

int test_packet_socket(const char *ifname)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(ifname),
	};
	const int buffer = 16 << 20;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}
