/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk ADDRESS PORT MIB BODY_KIB CONNECTIONS: posts bodies of random bytes over that many
 * connections, MIB in all, and compares each byte that comes back. Prints "N bytes up, N bytes
 * down, N MB/s each way"; status 0 when all came back as sent. Killed by its caller, it also is
 * the client that dies in the middle of a transfer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Body n begins n * STRIDE bytes into the pool, so that a reply to another request is noticed. */
enum { STRIDE = 4099, BODIES_APART = 64, HEAD_MAX = 4096, PATIENCE_S = 60, CHUNK = 1 << 18 };

static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static const struct sockaddr *remote;
static socklen_t remote_len;
static unsigned char *pool;
static size_t body_len;
static unsigned requests_each;

struct conn {
	pthread_t thread;
	int fd;
	unsigned index;
	unsigned long long up, down;
	unsigned char in[CHUNK];
};

static int fail(const struct conn *c, const char *what)
{
	printf("connection %u, %llu bytes up, %llu down: %s (%s)\n", c->index, c->up, c->down, what,
	       strerror(errno));
	return -1;
}

static int dial(struct conn *c)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int one = 1;

	c->fd = socket(remote->sa_family, SOCK_STREAM, 0);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return connect(c->fd, remote, remote_len) == 0 ? 0 : fail(c, "cannot connect");
}

static int send_all(struct conn *c, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	for (size_t off = 0; off < len;) {
		ssize_t n = send(c->fd, p + off, len - off, MSG_NOSIGNAL);

		if (n <= 0)
			return fail(c, "cannot send");
		off += (size_t)n;
	}
	return 0;
}

/* Reads up to the end of the head; returns how many bytes of the body came with it, in c->in. */
static ssize_t read_head(struct conn *c)
{
	size_t len = 0;

	for (;;) {
		ssize_t n = recv(c->fd, c->in + len, HEAD_MAX - 1 - len, 0);
		char *end, *length;

		if (n <= 0)
			return fail(c, "no reply");
		len += (size_t)n;
		c->in[len] = 0;
		end = strstr((char *)c->in, "\r\n\r\n");
		if (!end && len < HEAD_MAX - 1)
			continue;
		length = strcasestr((char *)c->in, "\r\ncontent-length:");
		if (!end || strncmp((char *)c->in, "HTTP/1.1 200 ", 13) != 0 || !length ||
		    strtoul(length + 17, NULL, 10) != body_len)
			return fail(c, "not the reply that was expected");
		end += 4;
		len -= (size_t)(end - (char *)c->in);
		memmove(c->in, end, len);
		return (ssize_t)len;
	}
}

static int read_body(struct conn *c, const unsigned char *body, size_t have)
{
	size_t off = 0;

	for (;;) {
		ssize_t n;

		if (off + have > body_len || memcmp(c->in, body + off, have) != 0)
			return fail(c, "the reply's body differs");
		off += have;
		c->down += have;
		if (off == body_len)
			return 0;
		n = recv(c->fd, c->in, body_len - off < CHUNK ? body_len - off : CHUNK, 0);
		if (n <= 0)
			return fail(c, "the reply ends early");
		have = (size_t)n;
	}
}

static void *transfer(void *arg)
{
	struct conn *c = arg;
	char head[128];
	int head_len =
		snprintf(head, sizeof(head),
			 "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", body_len);

	if (dial(c) < 0)
		return NULL;
	for (unsigned i = 0; i < requests_each; i++) {
		const unsigned char *body =
			pool + (size_t)((i + c->index * 7) % BODIES_APART) * STRIDE;
		ssize_t have;

		if (send_all(c, head, (size_t)head_len) < 0 || send_all(c, body, body_len) < 0)
			break;
		c->up += body_len;
		have = read_head(c);
		if (have < 0 || read_body(c, body, (size_t)have) < 0)
			break;
	}
	close(c->fd);
	return NULL;
}

static int resolve(const char *address, const char *port)
{
	v4.sin_port = v6.sin6_port = htons((unsigned short)atoi(port));
	remote = (struct sockaddr *)&v4;
	remote_len = sizeof(v4);
	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		return 0;
	remote = (struct sockaddr *)&v6;
	remote_len = sizeof(v6);
	return inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 ? 0 : -1;
}

static int fill_pool(void)
{
	size_t len = body_len + (size_t)BODIES_APART * STRIDE;

	pool = malloc(len);
	for (size_t off = 0; pool && off < len;) {
		ssize_t n = getrandom(pool + off, len - off, 0);

		if (n < 0)
			return -1;
		off += (size_t)n;
	}
	return pool ? 0 : -1;
}

int main(int argc, char **argv)
{
	unsigned long long up = 0, down = 0, wanted;
	struct timespec from, to;
	struct conn *conns;
	unsigned cnt;
	double took;

	if (argc != 6 || resolve(argv[1], argv[2]) < 0)
		return 2;
	body_len = strtoul(argv[4], NULL, 10) << 10;
	cnt = (unsigned)atoi(argv[5]);
	wanted = strtoull(argv[3], NULL, 10) << 20;
	requests_each = (unsigned)((wanted + body_len * cnt - 1) / (body_len * cnt));
	conns = calloc(cnt, sizeof(*conns));
	if (!conns || fill_pool() < 0)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned i = 0; i < cnt; i++) {
		conns[i].index = i;
		pthread_create(&conns[i].thread, NULL, transfer, &conns[i]);
	}
	for (unsigned i = 0; i < cnt; i++) {
		pthread_join(conns[i].thread, NULL);
		up += conns[i].up;
		down += conns[i].down;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	printf("%llu bytes up, %llu bytes down, %.1f MB/s each way\n", up, down,
	       (double)down / took / 1e6);
	free(conns);
	return up >= wanted && down >= wanted ? 0 : 1;
}
