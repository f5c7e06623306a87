/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_tls ADDRESS PORT CONNECTIONS SOURCE...: opens that many connections with TLS from these
 * addresses in turn, asks once on each, forgets its own state of TLS and holds the sockets. A process
 * for each source, as descriptors are limited. Prints "N connections" when all have been answered, and
 * holds them until stdin ends; status 0 when all were.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOURCES_MAX = 64 };

static const char request[] = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
static SSL_SESSION *session;
static pid_t holders[SOURCES_MAX];

static int keep_session(SSL *ssl, SSL_SESSION *s)
{
	(void)ssl;
	SSL_SESSION_free(session);
	session = s;
	return 1;
}

static int dial(const struct sockaddr_in *remote, const char *source)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct timeval patience = {.tv_sec = 30};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || inet_pton(AF_INET, source, &from.sin_addr) != 1)
		return -1;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
	    connect(fd, (const struct sockaddr *)remote, sizeof(*remote)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The socket stays, whatever becomes of the SSL object. */
static int open_one(SSL_CTX *ctx, const struct sockaddr_in *remote, const char *source)
{
	int fd = dial(remote, source);
	SSL *ssl = fd >= 0 ? SSL_new(ctx) : NULL;
	char reply[1024];
	int ok;

	if (!ssl)
		return 0;
	SSL_set_fd(ssl, fd);
	SSL_set_tlsext_host_name(ssl, "a.example");
	if (session)
		SSL_set_session(ssl, session);
	ok = SSL_connect(ssl) == 1 && SSL_write(ssl, request, sizeof(request) - 1) > 0 &&
	     SSL_read(ssl, reply, sizeof(reply)) > 12 && memcmp(reply + 9, "200", 3) == 0;
	SSL_set_quiet_shutdown(ssl, 1);
	SSL_free(ssl);
	return ok;
}

/* One process: reports its number of connections, then holds them until the parent ends it. */
static void hold(const struct sockaddr_in *remote, const char *source, unsigned cnt, int told)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	unsigned open_now = 0;

	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep_session);
	while (open_now < cnt && open_one(ctx, remote, source))
		open_now++;
	if (write(told, &open_now, sizeof(open_now)) != sizeof(open_now))
		_exit(1);
	pause();
}

int main(int argc, char **argv)
{
	struct sockaddr_in remote = {.sin_family = AF_INET};
	unsigned wanted, sources, total = 0, n;
	struct rlimit files;
	int pipes[2];
	char end;

	if (argc < 5 || argc - 4 > SOURCES_MAX || pipe(pipes) != 0)
		return 2;
	wanted = (unsigned)atoi(argv[3]);
	sources = (unsigned)argc - 4;
	remote.sin_port = htons((unsigned short)atoi(argv[2]));
	if (inet_pton(AF_INET, argv[1], &remote.sin_addr) != 1)
		return 2;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	for (unsigned i = 0; i < sources; i++) {
		holders[i] = fork();
		if (holders[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			hold(&remote, argv[4 + i], wanted / sources + (i < wanted % sources),
			     pipes[1]);
		}
	}
	close(pipes[1]);
	for (unsigned i = 0; i < sources && read(pipes[0], &n, sizeof(n)) == sizeof(n); i++)
		total += n;
	printf("%u connections\n", total);
	fflush(stdout);
	while (read(0, &end, 1) > 0)
		;
	for (unsigned i = 0; i < sources; i++)
		kill(holders[i], SIGKILL);
	return total == wanted ? 0 : 1;
}
