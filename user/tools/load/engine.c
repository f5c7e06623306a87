/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "sluice/datagram.h"
#include "tools/load/tls.h"

enum {
	HIST_SUB_BITS = SL_HIST_FINE_SUB_BITS,
	BACKLOG_MAX = 1 << 20,
	REOPEN_MS = 10,
	POLL_MAX_MS = 10,
	OPEN_BURST = 64, /* per round, to avoid a SYN flood */
};

static size_t format_http(const struct sl_load_options *o, uint8_t *buf, size_t cap)
{
	bool v6 = o->to.family == 6;
	int n = snprintf((char *)buf, cap, "%s %s HTTP/1.1\r\nHost: %s%s%s:%u\r\n", o->method,
			 o->path, v6 ? "[" : "", o->host, v6 ? "]" : "", ntohs(o->to.port_be));

	if (o->body.len)
		n += snprintf((char *)buf + n, cap - (size_t)n,
			      "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n",
			      o->body.len);
	n += snprintf((char *)buf + n, cap - (size_t)n, "\r\n");
	memcpy(buf + n, o->body.ptr ? o->body.ptr : buf, o->body.len);
	return (size_t)n + o->body.len;
}

static size_t format_datagram(const struct sl_load_options *o, uint8_t *buf)
{
	struct sl_datagram_request h = {
		.magic = SL_DATAGRAM_MAGIC,
		.version = SL_DATAGRAM_VERSION_1,
		.type = SL_DATAGRAM_REQUEST,
		.service = o->service,
		.payload_len = (uint16_t)o->body.len,
	};

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), o->body.ptr ? o->body.ptr : buf, o->body.len);
	return sizeof(h) + o->body.len;
}

static void count_error(struct sl_load *l, enum sl_load_error e, uint64_t cnt)
{
	if (l->measuring)
		l->r->errors[e] += cnt;
}

void sl_load_finished(struct sl_load *l, struct sl_load_conn *c, int error)
{
	uint64_t meant = c->meant[c->head];

	c->head = (c->head + 1) % l->o->depth;
	c->in_flight--;
	c->dirty = true;
	if (!l->measuring || meant < l->measure_ns)
		return;
	if (error < SL_LOAD_ERROR_CNT) {
		l->r->errors[error]++;
		return;
	}
	l->r->requests++;
	sl_hist_fine_add(&l->r->latency, l->now_ns > meant ? l->now_ns - meant : 0);
}

static void lose_requests(struct sl_load *l, struct sl_load_conn *c, enum sl_load_error e)
{
	bool opening = c->state < SL_CONN_OPEN;

	count_error(l, opening ? SL_LOAD_CONNECT : e, c->in_flight ? c->in_flight : opening);
	c->in_flight = 0;
	c->head = 0;
	c->sent = 0;
	c->dirty = false;
	c->reply.state = 0;
	c->reply.head_len = 0;
	c->retry_ns = opening ? l->now_ns + REOPEN_MS * SL_NS_PER_MS : 0;
	c->state = SL_CONN_CLOSED;
	if (l->tls)
		sl_load_tls_end(l, c);
}

void sl_load_opened(struct sl_load *l, struct sl_load_conn *c)
{
	c->state = SL_CONN_OPEN;
	c->dirty = true;
	l->r->connects++;
}

void sl_load_connected(struct sl_load *l, struct sl_load_conn *c)
{
	c->state = SL_CONN_SHAKING;
	if (l->tls)
		sl_load_tls_begin(l, c);
	else
		sl_load_opened(l, c);
}

void sl_load_closed(struct sl_load *l, struct sl_load_conn *c)
{
	lose_requests(l, c, SL_LOAD_RESET);
}

void sl_load_broken(struct sl_load *l, struct sl_load_conn *c, enum sl_load_error e)
{
	l->io->close(l, c);
	lose_requests(l, c, e);
}

void sl_load_content(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	struct sl_span expect = l->o->echo ? l->o->body : l->o->expect;
	const struct sl_load_reply *r = &c->reply;
	bool head = l->o->method[0] == 'H';
	int error;

	while (bytes.len) {
		enum sl_reply_verdict v =
			c->in_flight ? sl_load_reply_feed(&c->reply, &bytes, expect, head)
				     : SL_REPLY_MALFORMED;

		if (v == SL_REPLY_MORE)
			return;
		if (v == SL_REPLY_MALFORMED) {
			count_error(l, SL_LOAD_MALFORMED, !c->in_flight);
			sl_load_broken(l, c, SL_LOAD_MALFORMED);
			return;
		}
		if (l->measuring)
			l->r->statuses[r->status / 100 % 6]++;
		error = r->differs ? SL_LOAD_BODY : SL_LOAD_ERROR_CNT;
		if (r->status < 200 || r->status > 299)
			error = SL_LOAD_STATUS;
		sl_load_finished(l, c, error);
		if (r->close ||
		    (l->o->per_connection && c->sent >= l->o->per_connection && !c->in_flight)) {
			sl_load_broken(l, c, SL_LOAD_RESET);
			return;
		}
	}
}

void sl_load_data(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	l->r->bytes_in += bytes.len;
	if (l->tls)
		sl_load_tls_take(l, c, bytes);
	else
		sl_load_content(l, c, bytes);
}

static bool send_requests(struct sl_load *l, struct sl_load_conn *c, uint32_t n, uint64_t meant)
{
	struct sl_span bytes = sl_span_of(l->request, n * l->request_len);

	if (l->tls ? !sl_load_tls_send(l, c, bytes) : !l->io->send(l, c, bytes))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		c->meant[(c->head + c->in_flight) % l->o->depth] = meant;
		c->in_flight++;
	}
	c->sent += n;
	return true;
}

static uint32_t has_backlog_room(const struct sl_load *l, const struct sl_load_conn *c)
{
	uint32_t n = c->state == SL_CONN_OPEN ? l->o->depth - c->in_flight : 0;

	if (l->o->per_connection && l->o->per_connection - c->sent < n)
		n = (uint32_t)(l->o->per_connection - c->sent);
	return n;
}

static void send_closed(struct sl_load *l)
{
	for (uint32_t i = 0; i < l->o->connections; i++) {
		struct sl_load_conn *c = &l->conns[i];
		uint32_t n = c->dirty ? has_backlog_room(l, c) : 0;

		if (!n || send_requests(l, c, n, l->now_ns))
			c->dirty = false;
	}
}

static void send_open(struct sl_load *l)
{
	double mean_ns = 1e9 / l->o->rate;
	uint32_t busy = 0;

	while (l->next_ns <= (double)l->now_ns && l->next_ns < (double)l->end_ns) {
		if (l->backlog_len == l->backlog_cap) {
			count_error(l, SL_LOAD_TIMEOUT, 1);
		} else {
			l->backlog[(l->backlog_head + l->backlog_len) % l->backlog_cap] =
				(uint64_t)l->next_ns;
			l->backlog_len++;
		}
		l->next_ns += l->o->arrivals == SL_LOAD_POISSON ? sl_prng_exp(&l->prng, mean_ns)
								: mean_ns;
	}
	while (l->backlog_len && busy < l->o->connections) {
		struct sl_load_conn *c = &l->conns[l->next_conn];

		l->next_conn = (l->next_conn + 1) % l->o->connections;
		if (!has_backlog_room(l, c) ||
		    !send_requests(l, c, 1, l->backlog[l->backlog_head])) {
			busy++;
			continue;
		}
		busy = 0;
		l->backlog_head = (l->backlog_head + 1) % l->backlog_cap;
		l->backlog_len--;
	}
}

static void open_connections(struct sl_load *l)
{
	unsigned opened = 0;

	for (uint32_t i = 0; i < l->o->connections && opened < OPEN_BURST; i++) {
		struct sl_load_conn *c = &l->conns[i];

		if (c->state != SL_CONN_CLOSED || l->now_ns < c->retry_ns)
			continue;
		c->state = SL_CONN_OPENING;
		opened++;
		if (l->io->open(l, c))
			lose_requests(l, c, SL_LOAD_CONNECT);
	}
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int run_loop(struct sl_load *l)
{
	bool open = l->o->arrivals != SL_LOAD_CLOSED;
	uint64_t progress_ns = 0, wake_ns;
	double cpu = 0;
	int rc = 0;

	while (l->now_ns < l->end_ns && !rc &&
	       (!l->o->requests || l->r->requests < l->o->requests)) {
		if (!l->measuring && l->now_ns >= l->measure_ns) {
			l->measuring = true;
			cpu = cpu_seconds();
		}
		open_connections(l);
		if (open)
			send_open(l);
		else
			send_closed(l);
		wake_ns = l->now_ns + POLL_MAX_MS * SL_NS_PER_MS;
		if (open && l->next_ns < (double)wake_ns)
			wake_ns = (uint64_t)l->next_ns;
		rc = l->io->poll(l, wake_ns < l->end_ns ? wake_ns : l->end_ns);
		l->now_ns = sl_now_ns();
		if (!l->o->quiet && l->now_ns >= progress_ns) {
			progress_ns = l->now_ns + SL_NS_PER_SEC;
			fprintf(stderr, "\r%4.0f s of %.0f  %12llu answered%s",
				(double)(l->now_ns - l->start_ns) / 1e9,
				(double)(l->end_ns - l->start_ns) / 1e9,
				(unsigned long long)l->r->requests,
				l->now_ns >= l->end_ns ? "\n" : "");
		}
	}
	if (!l->o->quiet)
		fputc('\n', stderr);
	l->r->cpu_s = cpu_seconds() - cpu;
	l->r->elapsed_ns = l->now_ns - l->measure_ns;
	l->r->unanswered = l->backlog_len;
	for (uint32_t i = 0; i < l->o->connections; i++)
		l->r->unanswered += l->conns[i].in_flight;
	return rc;
}

static int allocate_conns(struct sl_load *l)
{
	const struct sl_load_options *o = l->o;
	size_t cap = 1024 + sizeof(o->path) + o->body.len;

	l->conns = calloc(o->connections, sizeof(*l->conns));
	l->meant = calloc((size_t)o->connections * o->depth, sizeof(*l->meant));
	l->backlog_cap = BACKLOG_MAX;
	l->backlog =
		calloc(o->arrivals == SL_LOAD_CLOSED ? 1 : l->backlog_cap, sizeof(*l->backlog));
	l->request = calloc(o->depth, cap);
	if (!l->conns || !l->meant || !l->backlog || !l->request ||
	    sl_hist_fine_init(&l->r->latency, HIST_SUB_BITS))
		return -ENOMEM;
	l->request_len =
		o->datagram ? format_datagram(o, l->request) : format_http(o, l->request, cap);
	for (uint32_t i = 1; i < o->depth; i++) /* pipelined requests are one write */
		memcpy(l->request + i * l->request_len, l->request, l->request_len);
	for (uint32_t i = 0; i < o->connections; i++) {
		l->conns[i].load = l;
		l->conns[i].index = i;
		l->conns[i].meant = l->meant + (size_t)i * o->depth;
	}
	return 0;
}

int sl_load_run(const struct sl_load_options *o, struct sl_load_result *r, struct sl_err *err)
{
	struct sl_load l = {.o = o, .r = r};
	int rc;

	memset(r, 0, sizeof(*r));
	if (o->cpu >= 0 && sl_cpu_pin((unsigned)o->cpu))
		return sl_fail(err, -1, "cannot pin to cpu %d", o->cpu);
	rc = allocate_conns(&l);
	if (rc)
		sl_err_set(err, "no memory for %u connections of depth %u", o->connections,
			   o->depth);
	else
		rc = o->interface ? sl_load_xdp_init(&l, err) : sl_load_sock_init(&l, err);
	if (!rc && o->tls)
		rc = sl_load_tls_init(&l, err);
	if (!rc) {
		l.now_ns = sl_now_ns();
		l.start_ns = l.now_ns;
		l.measure_ns = l.start_ns + l.o->warmup_ns;
		l.end_ns = l.measure_ns + l.o->duration_ns;
		l.next_ns = (double)l.start_ns;
		sl_prng_seed(&l.prng, 1); /* the same arrivals in every run */
		rc = run_loop(&l);
		if (rc)
			sl_err_set(err, "%s", strerror(-rc));
	}
	if (l.io)
		l.io->fini(&l);
	sl_load_tls_fini(&l);
	free(l.conns);
	free(l.meant);
	free(l.backlog);
	free(l.request);
	return rc ? -1 : 0;
}
