/* SPDX-License-Identifier: Apache-2.0 */
#include "control/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fnv.h"
#include "base/log.h"

enum { ACCEPTS = 64, EVENTS = 64, WATCHED = -1, FIRST_PLACE = SL_DOOR_LISTENERS };

struct place {
	int fd; /* -1: free */
	bool local;
	uint64_t who; /* the same for connections of one address or account */
	uint64_t since_ns;
};

struct sl_door {
	int epoll_fd;
	sl_door_enter_fn *enter;
	void *arg;
	struct {
		int fd;
		bool local;
	} listeners[SL_DOOR_LISTENERS];
	unsigned listener_cnt;
	struct place places[SL_DOOR_PLACES];
};

static int watch(const struct sl_door *d, int fd, uint32_t events, int id)
{
	struct epoll_event e = {.events = events, .data.u32 = (uint32_t)id};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

struct sl_door *sl_door_open(sl_door_enter_fn *enter, void *arg)
{
	struct sl_door *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->enter = enter;
	d->arg = arg;
	for (int i = 0; i < SL_DOOR_PLACES; i++)
		d->places[i].fd = -1;
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd >= 0)
		return d;
	free(d);
	return NULL;
}

int sl_door_listen(struct sl_door *d, int fd, bool local)
{
	int rc = d->listener_cnt < SL_DOOR_LISTENERS ? watch(d, fd, EPOLLIN, (int)d->listener_cnt)
						     : -E2BIG;

	if (rc) {
		close(fd);
		return rc;
	}
	d->listeners[d->listener_cnt].fd = fd;
	d->listeners[d->listener_cnt++].local = local;
	return 0;
}

int sl_door_watch(struct sl_door *d, int fd)
{
	return watch(d, fd, EPOLLIN, WATCHED);
}

void sl_door_close(struct sl_door *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->listener_cnt; i++)
		close(d->listeners[i].fd);
	for (int i = 0; i < SL_DOOR_PLACES; i++) {
		if (d->places[i].fd >= 0)
			close(d->places[i].fd);
	}
	close(d->epoll_fd);
	free(d);
}

int sl_door_fd(const struct sl_door *d)
{
	return d->epoll_fd;
}

/* Two that share a number only share a fate when places are short. */
static uint64_t mix(const void *bytes, size_t len)
{
	return sl_fnv64(SL_FNV64, bytes, len);
}

uint64_t sl_door_who(int fd)
{
	struct sockaddr_storage ss = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&ss;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&ss;
	struct ucred peer = {0};
	socklen_t len = sizeof(ss);

	getpeername(fd, (struct sockaddr *)&ss, &len);
	if (ss.ss_family == AF_INET)
		return mix(&v4->sin_addr, sizeof(v4->sin_addr));
	if (ss.ss_family == AF_INET6)
		return mix(&v6->sin6_addr, 8); /* a host has a /64 */
	len = sizeof(peer);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	return mix(&peer.uid, sizeof(peer.uid));
}

static void leave(struct place *p)
{
	close(p->fd);
	p->fd = -1;
}

static struct place *take_place(struct sl_door *d)
{
	struct place *worst = &d->places[0];
	unsigned most = 0;

	for (int i = 0; i < SL_DOOR_PLACES; i++) {
		if (d->places[i].fd < 0)
			return &d->places[i];
	}
	/* The oldest one of whoever has most. */
	for (int i = 0; i < SL_DOOR_PLACES; i++) {
		struct place *p = &d->places[i];
		unsigned n = 0;

		for (int k = 0; k < SL_DOOR_PLACES; k++)
			n += d->places[k].fd >= 0 && d->places[k].who == p->who;
		if (n > most || (n == most && p->since_ns < worst->since_ns)) {
			worst = p;
			most = n;
		}
	}
	leave(worst);
	return worst;
}

/* The length of the head with its empty line; 0: more has to come. */
static size_t head_len(const char *at, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (at[i] != '\n')
			continue;
		if (at[i - 1] == '\n' || (i >= 3 && memcmp(at + i - 3, "\r\n\r", 3) == 0))
			return i + 1;
	}
	return 0;
}

/* Looks at what has come: true when the place is free again. */
static bool listen_to(struct sl_door *d, struct place *p)
{
	static const char too_large[] =
		"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
		"Content-Length: 0\r\n\r\n";
	char head[SL_DOOR_HEAD_MAX];
	ssize_t n = recv(p->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	size_t len;
	int fd = p->fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	len = n > 0 ? head_len(head, (size_t)n) : 0;
	if (n > 0 && !len && (size_t)n < sizeof(head))
		return false;
	if (!len) {
		if (n > 0)
			(void)!send(fd, too_large, sizeof(too_large) - 1,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		leave(p);
		return true;
	}
	p->fd = -1;
	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	d->enter(d->arg, fd, p->local, head, len);
	return true;
}

/* Edge-triggered: half a head does not keep the loop awake. */
static void welcome(struct sl_door *d, int fd, bool local, uint64_t now_ns)
{
	struct place *p = take_place(d);
	int id = FIRST_PLACE + (int)(p - d->places);

	*p = (struct place){.fd = fd, .local = local, .since_ns = now_ns};
	p->who = sl_door_who(fd);
	if (watch(d, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, id)) {
		leave(p);
		return;
	}
	/* Most have said it already. */
	listen_to(d, p);
}

static void take_connections(struct sl_door *d, unsigned listener, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(d->listeners[listener].fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(d, fd, d->listeners[listener].local, now_ns);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			SL_LOG_EVERY(UINT64_C(1000000000), SL_LOG_WARN, "admin: accept: %s",
				     strerror(errno));
		return;
	}
}

void sl_door_run(struct sl_door *d, uint64_t now_ns)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(d->epoll_fd, events, EVENTS, 0);

	/* Who waits comes before who is new, who may push out the oldest. */
	for (int i = 0; i < n; i++) {
		int id = (int)events[i].data.u32;

		if (id >= FIRST_PLACE && d->places[id - FIRST_PLACE].fd >= 0)
			listen_to(d, &d->places[id - FIRST_PLACE]);
	}
	for (int i = 0; i < n; i++) {
		int id = (int)events[i].data.u32;

		if (id >= 0 && id < FIRST_PLACE)
			take_connections(d, (unsigned)id, now_ns);
	}
	for (int i = 0; i < SL_DOOR_PLACES; i++) {
		struct place *p = &d->places[i];

		if (p->fd >= 0 && now_ns - p->since_ns > SL_DOOR_HEAD_MS * SL_NS_PER_MS)
			leave(p);
	}
}
