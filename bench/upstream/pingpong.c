/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurement of netperf's TCP_RR, in its way: pingpong ROUNDS
 *
 * Two processes on a CPU each block in recv() and answer with send(), 64 bytes in each direction,
 * over loopback without Nagle's algorithm. A stand-in: netperf is not in Debian's main. Rows are
 * name<TAB>value<TAB>unit.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/hist.h"

enum { LEN = 64 };

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static void send_all(int sock, const char *bytes)
{
	if (send(sock, bytes, LEN, MSG_NOSIGNAL) != LEN)
		die("send");
}

/* False: the other end is done. */
static bool recv_all(int sock, char *bytes)
{
	size_t got = 0;

	while (got < LEN) {
		ssize_t n = recv(sock, bytes + got, LEN - got, 0);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static int without_delay(int sock)
{
	int one = 1;

	if (sock < 0 || setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("socket");
	return sock;
}

static void pin(unsigned nth)
{
	int cpu = sl_cpu_nth(nth % sl_cpu_count());

	if (cpu >= 0)
		(void)sl_cpu_pin((unsigned)cpu);
}

static _Noreturn void serve(int listening)
{
	char bytes[LEN];
	int sock;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	sock = without_delay(accept(listening, NULL, NULL));
	while (recv_all(sock, bytes))
		send_all(sock, bytes);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	int listening = socket(AF_INET, SOCK_STREAM, 0), sock;
	socklen_t len = sizeof(sa);
	char bytes[LEN] = "";
	struct sl_hist_fine h;

	if (!rounds || bind(listening, (struct sockaddr *)&sa, sizeof(sa)) ||
	    listen(listening, 1) || getsockname(listening, (struct sockaddr *)&sa, &len))
		die("pingpong ROUNDS");
	if (fork() == 0)
		serve(listening);
	pin(0);
	sock = without_delay(socket(AF_INET, SOCK_STREAM, 0));
	if (connect(sock, (struct sockaddr *)&sa, sizeof(sa)))
		die("connect");
	sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS);
	for (unsigned i = 0; i < rounds + rounds / 20; i++) {
		uint64_t before = sl_now_ns();

		send_all(sock, bytes);
		if (!recv_all(sock, bytes))
			die("recv");
		if (i >= rounds / 20)
			sl_hist_fine_add(&h, sl_now_ns() - before);
	}
	printf("kernel_rtt_64B_p50\t%.3f\tus\n", (double)sl_hist_fine_quantile(&h, 0.5) / 1e3);
	printf("kernel_rtt_64B_p99\t%.3f\tus\n", (double)sl_hist_fine_quantile(&h, 0.99) / 1e3);
	sl_hist_fine_fini(&h);
	return 0;
}
