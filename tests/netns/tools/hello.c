/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello ADDRESS PORT SECONDS AT_ONCE [SOURCE...]: begins TLS handshakes at full speed, AT_ONCE at a
 * time, from these addresses in turn. Each sends the same prepared ClientHello and leaves after the
 * first bytes of the answer, so the server bears the cost. Ends after SECONDS or on SIGINT and
 * prints "N begun, N answered, N refused, N per second".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HELLO_MAX = 4096, SOURCES_MAX = 64, AT_ONCE_MAX = 16384 };

struct conn {
	int fd;
	int said;
};

static struct conn conns[AT_ONCE_MAX];
static struct sockaddr_in remote = {.sin_family = AF_INET}, sources[SOURCES_MAX];
static unsigned source_cnt, begun, answered, refused;
static char hello[HELLO_MAX];
static int hello_len, ep;
static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int make_hello(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = ctx ? SSL_new(ctx) : NULL;
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

	if (!ssl || !in || !out || !SSL_set_tlsext_host_name(ssl, "a.example"))
		return 0;
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_set_bio(ssl, in, out);
	SSL_set_connect_state(ssl);
	SSL_do_handshake(ssl);
	hello_len = BIO_read(out, hello, sizeof(hello));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return hello_len > 0;
}

/* Without a state that stays in the kernel: ports would run out. */
static void start(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
	struct linger at_once = {.l_onoff = 1};
	int on = 1;

	c->said = 0;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return;
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if ((source_cnt && bind(c->fd, (struct sockaddr *)&sources[begun % source_cnt],
				sizeof(sources[0])) != 0) ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev) != 0 ||
	    (connect(c->fd, (struct sockaddr *)&remote, sizeof(remote)) != 0 &&
	     errno != EINPROGRESS)) {
		close(c->fd);
		c->fd = -1;
	}
	begun++;
}

static void again(struct conn *c, unsigned *why)
{
	++*why;
	if (c->fd >= 0)
		close(c->fd);
	start(c);
}

static void on_event(struct conn *c, unsigned events)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	char bytes[4096];

	if (c->said || events & (EPOLLERR | EPOLLHUP)) {
		again(c, read(c->fd, bytes, sizeof(bytes)) > 0 ? &answered : &refused);
		return;
	}
	if (send(c->fd, hello, (size_t)hello_len, MSG_NOSIGNAL) != hello_len) {
		again(c, &refused);
		return;
	}
	c->said = 1;
	epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
}

static void run(double seconds, unsigned at_once)
{
	struct epoll_event evs[256];
	double from = now();

	for (unsigned i = 0; i < at_once; i++)
		start(&conns[i]);
	while (!ended && now() - from < seconds) {
		int n = epoll_wait(ep, evs, 256, 10);

		for (int i = 0; i < n; i++)
			on_event(evs[i].data.ptr, evs[i].events);
		for (unsigned i = 0; i < at_once && !n; i++) {
			if (conns[i].fd < 0)
				again(&conns[i], &refused);
		}
	}
	printf("%u begun, %u answered, %u refused, %.0f per second\n", begun, answered, refused,
	       begun / (now() - from));
}

int main(int argc, char **argv)
{
	struct rlimit files;
	unsigned at_once;

	if (argc < 5 || argc - 5 > SOURCES_MAX || !make_hello())
		return 2;
	at_once = (unsigned)atoi(argv[4]);
	remote.sin_port = htons((unsigned short)atoi(argv[2]));
	if (inet_pton(AF_INET, argv[1], &remote.sin_addr) != 1 || at_once > AT_ONCE_MAX)
		return 2;
	for (; 5 + source_cnt < (unsigned)argc; source_cnt++) {
		sources[source_cnt].sin_family = AF_INET;
		if (inet_pton(AF_INET, argv[5 + source_cnt], &sources[source_cnt].sin_addr) != 1)
			return 2;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGPIPE, SIG_IGN);
	ep = epoll_create1(0);
	run(atof(argv[3]), at_once);
	return 0;
}
