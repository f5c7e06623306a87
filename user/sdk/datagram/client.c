/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/datagram/wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rand.h"
#include "base/siphash.h"

enum {
	IN_FLIGHT_DEFAULT = 64,
	IN_FLIGHT_MAX = 1 << 16, /* the low bits of an id are its slot */
	DATAGRAM_MIN = 508,
	DATAGRAM_MAX_DEFAULT = 9000,
	RECEIVE_BURST = 64,
	WAIT_US = 1000000,
	WAIT_BEYOND_US = 100000,
	RETRY_MIN_US = 5000,
	RETRY_MAX_US = 1000000,
};

struct datagram_call {
	uint64_t id; /* 0: free */
	uint64_t first_ns, due_ns, end_ns;
	uint64_t patience_ns;
	sl_datagram_done_fn *done;
	void *arg;
	uint32_t deadline_us;
	uint32_t next_free; /* index + 1 */
	uint16_t len, must; /* with padding; without */
	uint16_t retries;
};

struct sl_datagram_client {
	int fd;
	bool ip6, closing;
	uint16_t datagram_max, datagram_asked;
	uint32_t slots, in_flight, free_head;
	uint32_t retry_us;
	uint64_t next_due_ns; /* lower bound */
	uint64_t srtt_ns, rttvar_ns;
	uint64_t sequence, done_cnt;
	struct sl_sipkey key;
	struct sl_datagram_client_stats stats;
	struct datagram_call *flights;
	uint8_t *requests; /* datagram_asked bytes each */
	uint8_t rx[SL_DATAGRAM_MAX];
};

static int report_error(struct sl_err *err, const char *host, const char *port, const char *why)
{
	return sl_fail(err, -1, "%s port %s: %s; expected an address or name and a port", host,
		       port, why);
}

static void learn_max(struct sl_datagram_client *c)
{
	int mtu = 0, level = c->ip6 ? IPPROTO_IPV6 : IPPROTO_IP, name = c->ip6 ? IPV6_MTU : IP_MTU;
	int headers = (c->ip6 ? 40 : 20) + 8;
	socklen_t len = sizeof(mtu);

	if (getsockopt(c->fd, level, name, &mtu, &len) || mtu < DATAGRAM_MIN + headers)
		mtu = DATAGRAM_MIN + headers;
	c->datagram_max =
		mtu - headers < c->datagram_asked ? (uint16_t)(mtu - headers) : c->datagram_asked;
}

static int open_socket(struct sl_datagram_client *c, const char *host, const char *port,
		       struct sl_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list;
	int rc = getaddrinfo(host, port, &hints, &list);

	if (rc)
		return report_error(err, host, port, gai_strerror(rc));
	rc = -EADDRNOTAVAIL;
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		bool ip6 = a->ai_family == AF_INET6;
		int level = ip6 ? IPPROTO_IPV6 : IPPROTO_IP;
		int name = ip6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER;
		int no_fragments = ip6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;

		c->fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		/* Connected, so the kernel drops datagrams of other sources. */
		if (c->fd >= 0 &&
		    !setsockopt(c->fd, level, name, &no_fragments, sizeof(no_fragments)) &&
		    !connect(c->fd, a->ai_addr, a->ai_addrlen)) {
			c->ip6 = ip6;
			rc = 0;
			break;
		}
		rc = -errno;
		if (c->fd >= 0)
			close(c->fd);
		c->fd = -1;
	}
	freeaddrinfo(list);
	if (rc)
		return report_error(err, host, port, strerror(-rc));
	learn_max(c);
	return 0;
}

static void free_client(struct sl_datagram_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->flights);
	free(c->requests);
	free(c);
}

struct sl_datagram_client *sl_datagram_client_open(const struct sl_datagram_client_options *opt,
						   char *text, size_t len)
{
	struct sl_err *err = &(struct sl_err){text, len};
	struct sl_datagram_client *c;
	uint8_t key[16];
	int rc;
	unsigned max = opt->datagram_max ? opt->datagram_max : DATAGRAM_MAX_DEFAULT;

	if (!opt->host || !opt->port || opt->max_in_flight > IN_FLIGHT_MAX || max < DATAGRAM_MIN ||
	    max > SL_DATAGRAM_MAX) {
		sl_err_set(err,
			   "expected a host, a port, at most %d in flight, datagrams of %d to %d "
			   "bytes",
			   IN_FLIGHT_MAX, DATAGRAM_MIN, SL_DATAGRAM_MAX);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		sl_err_set(err, "%s", strerror(ENOMEM));
		return NULL;
	}
	c->fd = -1;
	c->slots = opt->max_in_flight ? opt->max_in_flight : IN_FLIGHT_DEFAULT;
	c->datagram_asked = (uint16_t)max;
	c->retry_us = opt->retry_us;
	c->next_due_ns = UINT64_MAX;
	if (open_socket(c, opt->host, opt->port, err)) {
		free_client(c);
		return NULL;
	}
	rc = sl_rand_bytes(key, sizeof(key));
	c->flights = calloc(c->slots, sizeof(*c->flights));
	c->requests = calloc(c->slots, c->datagram_asked);
	if (rc || !c->flights || !c->requests) {
		sl_err_set(err, "%s", strerror(rc ? -rc : ENOMEM));
		free_client(c);
		return NULL;
	}
	c->key = sl_sipkey_from(key);
	for (uint32_t i = 0; i < c->slots; i++)
		c->flights[i].next_free = i + 1 < c->slots ? i + 2 : 0;
	c->free_head = 1;
	return c;
}

static uint8_t *request_of(struct sl_datagram_client *c, const struct datagram_call *f)
{
	return c->requests + (size_t)(f - c->flights) * c->datagram_asked;
}

static struct datagram_call *flight_of(struct sl_datagram_client *c, uint64_t id)
{
	uint32_t slot = (uint32_t)id & (IN_FLIGHT_MAX - 1);

	return id && slot < c->slots && c->flights[slot].id == id ? &c->flights[slot] : NULL;
}

static void release_call(struct sl_datagram_client *c, struct datagram_call *f)
{
	f->id = 0;
	f->next_free = c->free_head;
	c->free_head = (uint32_t)(f - c->flights) + 1;
	c->in_flight--;
}

/* `done` may use the slot again. */
static void finish_call(struct sl_datagram_client *c, struct datagram_call *f,
			struct sl_datagram_answer *a, uint64_t now_ns)
{
	sl_datagram_done_fn *done = f->done;
	void *arg = f->arg;

	a->id = f->id;
	a->retries = f->retries;
	a->waited_ns = now_ns - f->first_ns;
	release_call(c, f);
	c->done_cnt++;
	done(arg, a);
}

static void give_up(struct sl_datagram_client *c, struct datagram_call *f, int status,
		    uint64_t now_ns)
{
	struct sl_datagram_answer a = {.status = status};

	c->stats.timed_out += status == -ETIMEDOUT;
	finish_call(c, f, &a, now_ns);
}

static int send_call(struct sl_datagram_client *c, struct datagram_call *f)
{
	for (int i = 0; i < 3; i++) {
		if (send(c->fd, request_of(c, f), f->len, MSG_NOSIGNAL) >= 0)
			break;
		if (errno == EMSGSIZE) {
			learn_max(c);
			if (f->must > c->datagram_max)
				return -EMSGSIZE;
			if (f->len > c->datagram_max)
				f->len = c->datagram_max;
		} else if (errno != ECONNREFUSED && errno != EINTR) {
			break;
		}
	}
	return 0;
}

/* Returns the initial time-out: RFC 6298 with tighter bounds. */
static uint64_t first_patience_ns(const struct sl_datagram_client *c, uint64_t wait_us)
{
	uint64_t us = c->retry_us;

	if (us)
		return us * SL_NS_PER_US;
	us = c->srtt_ns ? (c->srtt_ns + 4 * c->rttvar_ns) / SL_NS_PER_US : wait_us / 4;
	if (us > RETRY_MAX_US)
		us = RETRY_MAX_US;
	return (us < RETRY_MIN_US ? RETRY_MIN_US : us) * SL_NS_PER_US;
}

static void set_due(struct sl_datagram_client *c, struct datagram_call *f, uint64_t now_ns)
{
	f->due_ns = now_ns + f->patience_ns < f->end_ns ? now_ns + f->patience_ns : f->end_ns;
	if (f->due_ns < c->next_due_ns)
		c->next_due_ns = f->due_ns;
}

int sl_datagram_client_send(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			    uint64_t *id)
{
	struct datagram_call *f = c->free_head ? &c->flights[c->free_head - 1] : NULL;
	uint64_t wait_us = call->wait_us, now_ns = sl_now_ns();
	size_t len;

	if (!call->service || !call->done)
		return -EINVAL;
	if (!f || c->closing)
		return -EAGAIN;
	if (!wait_us)
		wait_us =
			call->deadline_us ? (uint64_t)call->deadline_us + WAIT_BEYOND_US : WAIT_US;
	do {
		uint64_t word = ++c->sequence;

		f->id = sl_siphash13_words(&c->key, &word, 1) & ~(uint64_t)(IN_FLIGHT_MAX - 1);
	} while (!f->id);
	f->id |= (uint64_t)(f - c->flights);
	len = sl_datagram_encode(call, f->id, request_of(c, f), c->datagram_max);
	f->len = (uint16_t)len;
	f->must = (uint16_t)(SL_DATAGRAM_HEAD + call->method_len + call->payload_len);
	if (!len || send_call(c, f)) {
		f->id = 0;
		return -EMSGSIZE;
	}
	c->free_head = f->next_free;
	c->in_flight++;
	c->stats.sent++;
	f->done = call->done;
	f->arg = call->arg;
	f->retries = 0;
	f->deadline_us = call->deadline_us;
	f->first_ns = now_ns;
	f->end_ns = now_ns + wait_us * SL_NS_PER_US;
	f->patience_ns = first_patience_ns(c, wait_us);
	set_due(c, f, now_ns);
	if (id)
		*id = f->id;
	return 0;
}

static void run_timers(struct sl_datagram_client *c, uint64_t now_ns)
{
	if (now_ns < c->next_due_ns)
		return;
	c->next_due_ns = UINT64_MAX;
	for (uint32_t i = 0; i < c->slots; i++) {
		struct datagram_call *f = &c->flights[i];
		uint64_t spent_us;

		if (!f->id)
			continue;
		if (now_ns >= f->end_ns) {
			give_up(c, f, -ETIMEDOUT, now_ns);
			continue;
		}
		if (now_ns < f->due_ns) {
			if (f->due_ns < c->next_due_ns)
				c->next_due_ns = f->due_ns;
			continue;
		}
		spent_us = (now_ns - f->first_ns) / SL_NS_PER_US;
		if (f->deadline_us)
			sl_datagram_set_deadline(request_of(c, f),
						 spent_us < f->deadline_us
							 ? (uint32_t)(f->deadline_us - spent_us)
							 : 1);
		f->retries++;
		c->stats.retried++;
		if (f->patience_ns < RETRY_MAX_US * SL_NS_PER_US)
			f->patience_ns *= 2;
		if (send_call(c, f))
			give_up(c, f, -EMSGSIZE, now_ns);
		else
			set_due(c, f, now_ns);
	}
}

static void receive_reply(struct sl_datagram_client *c)
{
	for (int i = 0; i < RECEIVE_BURST; i++) {
		ssize_t n = recv(c->fd, c->rx, sizeof(c->rx), MSG_DONTWAIT);
		struct sl_datagram_answer a;
		struct datagram_call *f;
		uint64_t now_ns, rtt, off;

		if (n < 0 && errno == ECONNREFUSED)
			continue;
		if (n < 0)
			return;
		f = sl_datagram_decode(sl_span_of(c->rx, (size_t)n), &a) ? flight_of(c, a.id)
									 : NULL;
		if (!f) {
			c->stats.ignored++;
			continue;
		}
		now_ns = sl_now_ns();
		rtt = now_ns - f->first_ns;
		off = rtt > c->srtt_ns ? rtt - c->srtt_ns : c->srtt_ns - rtt;
		if (!f->retries) { /* Karn's algorithm: no sample from retried requests */
			c->rttvar_ns = c->srtt_ns ? (3 * c->rttvar_ns + off) / 4 : rtt / 2;
			c->srtt_ns = c->srtt_ns ? (7 * c->srtt_ns + rtt) / 8 : rtt;
		}
		c->stats.answered++;
		finish_call(c, f, &a, now_ns);
	}
}

int sl_datagram_client_poll(struct sl_datagram_client *c, int wait_ms)
{
	uint64_t before = c->done_cnt, now_ns = sl_now_ns();
	uint64_t until_ns = wait_ms < 0 ? UINT64_MAX : now_ns + (uint64_t)wait_ms * SL_NS_PER_MS;
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	for (;;) {
		receive_reply(c);
		now_ns = sl_now_ns();
		run_timers(c, now_ns);
		if (c->done_cnt != before || !c->in_flight || now_ns >= until_ns)
			return (int)(c->done_cnt - before);
		uint64_t next = c->next_due_ns < until_ns ? c->next_due_ns : until_ns;
		uint64_t ns = next > now_ns ? next - now_ns : 0;
		struct timespec wait = {.tv_sec = (time_t)(ns / SL_NS_PER_SEC),
					.tv_nsec = (long)(ns % SL_NS_PER_SEC)};

		if (ppoll(&p, 1, &wait, NULL) < 0)
			return -errno;
	}
}

bool sl_datagram_client_cancel(struct sl_datagram_client *c, uint64_t id)
{
	struct datagram_call *f = flight_of(c, id);

	if (f)
		release_call(c, f);
	return f != NULL;
}

int sl_datagram_client_fd(const struct sl_datagram_client *c)
{
	return c->fd;
}

int sl_datagram_client_wait_ms(const struct sl_datagram_client *c)
{
	uint64_t now_ns = sl_now_ns();

	if (!c->in_flight)
		return -1;
	if (c->next_due_ns <= now_ns)
		return 0;
	uint64_t ms = (c->next_due_ns - now_ns + SL_NS_PER_MS - 1) / SL_NS_PER_MS;

	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

struct datagram_wait {
	struct sl_datagram_answer *answer;
	uint8_t *buf;
	size_t buf_len;
	bool done;
};

static void on_asked(void *arg, const struct sl_datagram_answer *a)
{
	struct datagram_wait *k = arg;
	size_t n = a->payload_len < k->buf_len ? a->payload_len : k->buf_len;

	*k->answer = *a;
	if (n)
		memcpy(k->buf, a->payload, n);
	k->answer->payload = k->buf;
	k->answer->payload_len = n;
	k->done = true;
}

int sl_datagram_client_ask(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			   struct sl_datagram_answer *answer, void *buf, size_t buf_len)
{
	struct datagram_wait k = {.answer = answer, .buf = buf, .buf_len = buf_len};
	struct sl_datagram_call own = *call;
	int rc;

	own.done = on_asked;
	own.arg = &k;
	*answer = (struct sl_datagram_answer){0};
	rc = sl_datagram_client_send(c, &own, NULL);
	if (rc)
		return rc;
	while (!k.done)
		sl_datagram_client_poll(c, -1);
	return answer->status;
}

size_t sl_datagram_client_max_payload(const struct sl_datagram_client *c, size_t method_len)
{
	size_t room = c->datagram_max - (size_t)SL_DATAGRAM_HEAD;

	return method_len < room ? room - method_len : 0;
}

void sl_datagram_client_stats(const struct sl_datagram_client *c,
			      struct sl_datagram_client_stats *out)
{
	*out = c->stats;
}

void sl_datagram_client_close(struct sl_datagram_client *c)
{
	uint64_t now_ns = sl_now_ns();

	if (!c)
		return;
	c->closing = true;
	for (uint32_t i = 0; i < c->slots; i++) {
		if (c->flights[i].id)
			give_up(c, &c->flights[i], -ECANCELED, now_ns);
	}
	free_client(c);
}
