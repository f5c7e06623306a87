/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of bidirectional gRPC calls over nghttp2, one thread each: every message comes back, and the next one leaves
 * when it has.
 *
 *   calls serve ADDRESS PORT
 *   calls ask ADDRESS PORT STREAMS SECONDS      "messages N seconds S", all streams on one connection
 */
#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 5 + 64, KEPT = 64 << 10, STREAMS = 1024, AT_ONCE = 64 };

struct stream {
	int32_t id;
	size_t len; /* to be sent */
	size_t got; /* bytes of the current message */
	bool deferred, ended;
	uint8_t bytes[KEPT];
};

struct session {
	int fd;
	nghttp2_session *h2;
	bool client;
};

static uint64_t messages;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* --- a stream: what is there to send --- */

static ssize_t give(nghttp2_session *h2, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
		    nghttp2_data_source *source, void *arg)
{
	struct stream *s = source->ptr;
	size_t n = s->len < cap ? s->len : cap;

	(void)arg;
	if (!n && s->ended) {
		nghttp2_nv status = {(uint8_t *)"grpc-status", (uint8_t *)"0", 11, 1, 0};

		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		nghttp2_submit_trailer(h2, id, &status, 1);
		return 0;
	}
	s->deferred = !n;
	if (!n)
		return NGHTTP2_ERR_DEFERRED;
	memcpy(to, s->bytes, n);
	s->len -= n;
	memmove(s->bytes, s->bytes + n, s->len);
	return (ssize_t)n;
}

static void say(nghttp2_session *h2, struct stream *s, const uint8_t *bytes, size_t len)
{
	if (s->len + len > KEPT)
		die("too much that is not read");
	memcpy(s->bytes + s->len, bytes, len);
	s->len += len;
	if (s->deferred)
		nghttp2_session_resume_data(h2, s->id);
}

static const uint8_t message[MESSAGE] = {[4] = MESSAGE - 5};

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t len,
		   void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(h2, id);
	const struct session *c = arg;

	(void)flags;
	if (!s)
		return 0;
	if (!c->client) {
		say(h2, s, p, len);
		return 0;
	}
	for (s->got += len; s->got >= MESSAGE; s->got -= MESSAGE) {
		messages++;
		say(h2, s, message, sizeof(message));
	}
	return 0;
}

/* --- the server --- */

static int on_begin(nghttp2_session *h2, const nghttp2_frame *f, void *arg)
{
	struct stream *s;

	(void)arg;
	if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		die("memory");
	s->id = f->hd.stream_id;
	return nghttp2_session_set_stream_user_data(h2, s->id, s);
}

static void answer(nghttp2_session *h2, struct stream *s)
{
	static const nghttp2_nv head[] = {
		{(uint8_t *)":status", (uint8_t *)"200", 7, 3, 0},
		{(uint8_t *)"content-type", (uint8_t *)"application/grpc", 12, 16, 0},
	};
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = give};

	nghttp2_submit_response(h2, s->id, head, 2, &body);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(h2, f->hd.stream_id);
	const struct session *c = arg;

	if (c->client || !s)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST)
		answer(h2, s);
	if (f->hd.flags & NGHTTP2_FLAG_END_STREAM && f->hd.type <= NGHTTP2_HEADERS) {
		s->ended = true;
		if (s->deferred)
			nghttp2_session_resume_data(h2, s->id);
	}
	return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
	const struct session *c = arg;

	if (c->client) {
		fprintf(stderr, "calls: stream %d ended with %u\n", id, code);
		exit(1);
	}
	free(nghttp2_session_get_stream_user_data(h2, id));
	return 0;
}

static ssize_t on_send(nghttp2_session *h2, const uint8_t *p, size_t len, int flags, void *arg)
{
	const struct session *c = arg;
	ssize_t n = send(c->fd, p, len, MSG_NOSIGNAL);

	(void)h2;
	(void)flags;
	if (n >= 0)
		return n;
	return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static struct session *open_session(int fd, bool client)
{
	struct session *c = calloc(1, sizeof(*c));
	nghttp2_settings_entry iv = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS};
	nghttp2_session_callbacks *cb;
	int one = 1;

	if (!c || nghttp2_session_callbacks_new(&cb))
		die("memory");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	nghttp2_session_callbacks_set_send_callback(cb, on_send);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	c->fd = fd;
	c->client = client;
	if (client ? nghttp2_session_client_new(&c->h2, cb, c)
		   : nghttp2_session_server_new(&c->h2, cb, c))
		die("session");
	nghttp2_session_callbacks_del(cb);
	nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, &iv, 1);
	return c;
}

/* False: it is over. */
static bool go_on(struct session *c)
{
	uint8_t buf[32 << 10];
	ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return false;
	if (n > 0 && nghttp2_session_mem_recv(c->h2, buf, (size_t)n) < 0)
		return false;
	return nghttp2_session_send(c->h2) == 0;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		die(ip);
	return a;
}

static void serve(const struct sockaddr_in *a)
{
	int s = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0), one = 1;
	struct epoll_event evs[AT_ONCE], ev = {.events = EPOLLIN};

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (const struct sockaddr *)a, sizeof(*a)) || listen(s, 4096) ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev))
		die("listen");
	for (;;) {
		int n = epoll_wait(ep, evs, AT_ONCE, -1);

		for (int i = 0; i < n; i++) {
			struct session *c = evs[i].data.ptr;

			if (!c) {
				c = open_session(accept4(s, NULL, NULL, SOCK_NONBLOCK), false);
				ev.data.ptr = c;
				epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
				ev.data.ptr = NULL;
			} else if (!go_on(c)) {
				close(c->fd);
				nghttp2_session_del(c->h2);
				free(c);
			}
		}
	}
}

/* --- the client --- */

#define NV(name, value)                                                                            \
	{                                                                                          \
		(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, 0      \
	}

static void call(struct session *c)
{
	static const nghttp2_nv head[] = {
		NV(":method", "POST"), NV(":scheme", "http"),
		NV(":authority", "x"), NV(":path", "/sluice.demo.Echo/Echo"),
		NV("te", "trailers"),  NV("content-type", "application/grpc"),
	};
	struct stream *s = calloc(1, sizeof(*s));
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = give};

	if (!s)
		die("memory");
	memcpy(s->bytes, message, s->len = sizeof(message));
	s->id = nghttp2_submit_request(c->h2, NULL, head, sizeof(head) / sizeof(head[0]), &body, s);
	if (s->id < 0)
		die("call");
}

static void ask(const struct sockaddr_in *a, int streams, int seconds)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0);
	uint64_t start = now_ns() + 1000000000, end = start + (uint64_t)seconds * 1000000000,
		 before = 0;
	struct epoll_event ev = {.events = EPOLLIN};
	struct session *c;

	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		die("connect");
	c = open_session(fd, true);
	for (int i = 0; i < streams; i++)
		call(c);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	while (now_ns() < end) {
		if (!go_on(c))
			die("the connection ended");
		epoll_wait(ep, &ev, 1, 100);
		if (now_ns() < start)
			before = messages;
	}
	if (messages == before) {
		fprintf(stderr, "calls: nothing came back\n");
		exit(1);
	}
	printf("messages %llu seconds %d\n", (unsigned long long)(messages - before), seconds);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;

	if (argc < 4)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	a = address(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(&a);
	else if (argc == 6 && !strcmp(argv[1], "ask"))
		ask(&a, atoi(argv[4]), atoi(argv[5]));
	else
		return 2;
	return 0;
}
