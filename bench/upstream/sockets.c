/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of the agent's sockets with epoll and with io_uring: sockets epoll|uring [SECONDS]
 *
 * 256 kept connections to a server in another process, one request of 200 bytes on each at a time,
 * answered by 250. Prints requests/s and the nanoseconds of CPU time per request, system calls
 * included, of the agent's side. It runs on core 0, the server on core 1. `make bench/upstream`
 * builds it.
 *
 *   epoll   as the agent: epoll_wait, then recv and send of each that is ready
 *   uring   multishot recv into a ring of buffers, sends of a turn in one io_uring_enter
 */
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNS = 256, REQUEST = 200, REPLY = 250, BUFFERS = 1024, BUFFER = 4096 };

static char bytes[65536];
static int conns[CONNS];

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die("sched_setaffinity");
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void watch(int epoll, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
		die("epoll_ctl");
}

/* Answers each request until all clients have gone. */
static _Noreturn void serve(int listener)
{
	int epoll = epoll_create1(0), open = 0;
	struct epoll_event ev[CONNS];

	pin(1);
	for (; open < CONNS; open++)
		watch(epoll, accept4(listener, NULL, NULL, SOCK_NONBLOCK));
	while (open) {
		int n = epoll_wait(epoll, ev, CONNS, -1);

		for (int i = 0; i < n; i++) {
			if (recv(ev[i].data.fd, bytes, sizeof(bytes), 0) <= 0) {
				close(ev[i].data.fd);
				open--;
			} else if (send(ev[i].data.fd, bytes, REPLY, MSG_NOSIGNAL) != REPLY) {
				exit(1);
			}
		}
	}
	exit(0);
}

static void connect_all(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, CONNS) ||
	    getsockname(listener, (struct sockaddr *)&at, &len))
		die("listen");
	if (fork() == 0)
		serve(listener);
	for (int i = 0; i < CONNS; i++) {
		conns[i] = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(conns[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (connect(conns[i], (struct sockaddr *)&at, len) != 0)
			die("connect");
	}
	close(listener);
}

/* A turn: what has come is answered by a new request. How many. */
static unsigned turn_epoll(void)
{
	static int epoll;
	struct epoll_event ev[CONNS];
	int n;

	if (!epoll) {
		epoll = epoll_create1(0);
		for (int i = 0; i < CONNS; i++)
			watch(epoll, conns[i]);
	}
	n = epoll_wait(epoll, ev, CONNS, -1);
	for (int i = 0; i < n; i++) {
		if (recv(ev[i].data.fd, bytes, sizeof(bytes), 0) != REPLY ||
		    send(ev[i].data.fd, bytes, REQUEST, MSG_NOSIGNAL) != REQUEST)
			die("epoll: recv, send");
	}
	return (unsigned)n;
}

static struct io_uring ring;
static struct io_uring_buf_ring *buffers;

static void give_buffer(unsigned id)
{
	static char memory[BUFFERS * BUFFER];

	io_uring_buf_ring_add(buffers, memory + id * BUFFER, BUFFER, (unsigned short)id,
			      io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(buffers, 1);
}

static struct io_uring_sqe *sqe(int i, bool is_send)
{
	struct io_uring_sqe *s = io_uring_get_sqe(&ring);

	if (!s)
		die("no room in the submission queue");
	if (is_send) {
		io_uring_prep_send(s, conns[i], bytes, REQUEST, MSG_NOSIGNAL);
		s->flags |= IOSQE_CQE_SKIP_SUCCESS;
	} else {
		io_uring_prep_recv_multishot(s, conns[i], NULL, 0, 0);
		s->flags |= IOSQE_BUFFER_SELECT;
		s->buf_group = 0;
	}
	io_uring_sqe_set_data64(s, (uint64_t)i << 1 | is_send);
	return s;
}

static void start_uring(void)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
				    .cq_entries = 4096};
	struct io_uring_buf_reg reg = {.ring_entries = BUFFERS};
	int rc = io_uring_queue_init_params(1024, &ring, &p);

	if (rc) {
		errno = -rc;
		die("io_uring_queue_init_params");
	}
	buffers = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
	reg.ring_addr = (uintptr_t)buffers;
	io_uring_buf_ring_init(buffers);
	if (io_uring_register_buf_ring(&ring, &reg, 0))
		die("io_uring_register_buf_ring");
	for (unsigned i = 0; i < BUFFERS; i++)
		give_buffer(i);
	for (int i = 0; i < CONNS; i++)
		sqe(i, false);
}

static unsigned turn_uring(void)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0, seen = 0;

	if (!buffers)
		start_uring();
	io_uring_submit_and_wait(&ring, 1);
	io_uring_for_each_cqe(&ring, head, cqe)
	{
		uint64_t data = io_uring_cqe_get_data64(cqe);

		seen++;
		if (data & 1 || cqe->res != REPLY) {
			fprintf(stderr, "io_uring: %s: %d\n", data & 1 ? "send" : "recv", cqe->res);
			exit(1);
		}
		give_buffer(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
		if (!(cqe->flags & IORING_CQE_F_MORE))
			sqe((int)(data >> 1), false);
		sqe((int)(data >> 1), true);
		n++;
	}
	io_uring_cq_advance(&ring, seen);
	return n;
}

int main(int argc, char **argv)
{
	unsigned (*turn)(void) =
		argc > 1 && strcmp(argv[1], "uring") == 0 ? turn_uring : turn_epoll;
	uint64_t for_ns = (argc > 2 ? strtoull(argv[2], NULL, 10) : 2) * 1000000000, from, cpu,
		 done = 0;

	connect_all();
	pin(0);
	for (int i = 0; i < CONNS; i++) {
		if (send(conns[i], bytes, REQUEST, 0) != REQUEST)
			die("send");
	}
	for (unsigned i = 0; i < 1000; i++)
		turn();
	from = now_ns();
	cpu = cpu_ns();
	while (now_ns() - from < for_ns)
		done += turn();
	cpu = cpu_ns() - cpu;
	printf("%s\t%.0f\trequests/s\t%.0f\tns of a core for a request\n",
	       argc > 1 ? argv[1] : "epoll", (double)done * 1e9 / (double)(now_ns() - from),
	       (double)cpu / (double)done);
	return 0;
}
