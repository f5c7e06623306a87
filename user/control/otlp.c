/* SPDX-License-Identifier: Apache-2.0 */
#include "control/otlp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "control/otlp_span.h"
#include "core/trace.h"
#include "wire/addr.h"

enum {
	SPANS_MAX = 1 << 20,
	SAMPLED_MAX = SPANS_MAX / 2,
	FLUSH_AT = 256 << 10,
	HEAD_MAX = 1024,
	REPLY_MAX = 1024,
	TIMEOUT_S = 5,
	BACKOFF_MAX_S = 30,
	FINISH_MS = 200,
	FINISH_STEP_MS = 5,
};

enum otlp_state { OTLP_IDLE, OTLP_CONNECTING, OTLP_SENDING, OTLP_READING };

struct sl_otlp {
	struct sl_addr at;
	char *url;
	const char *path;
	struct sl_strbuf spans;
	struct sl_strbuf body;
	uint32_t span_cnt, body_cnt;
	enum otlp_state state;
	int fd;
	size_t sent, reply_len;
	char reply[REPLY_MAX + 1];
	uint64_t deadline_ns;
	uint64_t next_ns;
	uint64_t retry_ns;
	unsigned backoff_s;
};

static struct sl_otlp_stats stats;

struct sl_otlp_stats sl_otlp_stats(void)
{
	return stats;
}

struct sl_otlp *sl_otlp_new(void)
{
	struct sl_otlp *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->fd = -1;
	sl_strbuf_grow(&o->spans, SPANS_MAX);
	sl_strbuf_grow(&o->body, SPANS_MAX + HEAD_MAX);
	return o;
}

static void close_socket(struct sl_otlp *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	o->state = OTLP_IDLE;
	o->sent = o->reply_len = 0;
}

static void drop_body(struct sl_otlp *o)
{
	stats.dropped += o->body_cnt;
	o->body_cnt = 0;
	sl_strbuf_reset(&o->body);
}

static void drop_spans(struct sl_otlp *o)
{
	stats.dropped += o->span_cnt;
	o->span_cnt = 0;
	sl_strbuf_reset(&o->spans);
}

void sl_otlp_free(struct sl_otlp *o)
{
	if (!o)
		return;
	close_socket(o);
	sl_strbuf_fini(&o->spans);
	sl_strbuf_fini(&o->body);
	free(o->url);
	free(o);
}

bool sl_otlp_is_on(const struct sl_otlp *o)
{
	return o->url;
}

void sl_otlp_configure(struct sl_otlp *o, const struct sl_cfg_trace *cfg)
{
	if (o->url ? cfg->otlp && strcmp(o->url, cfg->otlp) == 0 : !cfg->otlp)
		return;
	close_socket(o);
	drop_body(o);
	if (!cfg->otlp)
		drop_spans(o);
	o->retry_ns = o->backoff_s = 0;
	free(o->url);
	o->url = cfg->otlp ? strdup(cfg->otlp) : NULL;
	if (o->url && !sl_cfg_parse_otlp(o->url, &o->at, &o->path)) {
		free(o->url);
		o->url = NULL;
	}
}

void sl_otlp_put(struct sl_otlp *o, const struct sl_event *e, uint64_t unix_ns)
{
	size_t most = e->trace_flags & SL_TRACE_KEEP ? SPANS_MAX : SAMPLED_MAX;
	size_t before = o->spans.len;

	if (!(e->trace_flags & SL_TRACE_EXPORT))
		return;
	if (!o->url || o->spans.len + SL_OTLP_SPAN_MAX > most) {
		stats.dropped++;
		return;
	}
	if (o->span_cnt)
		sl_strbuf_char(&o->spans, ',');
	sl_otlp_span(&o->spans, e, unix_ns);
	if (!o->spans.err) {
		o->span_cnt++;
		return;
	}
	stats.dropped++;
	o->spans.len = before;
	o->spans.err = 0;
}

static void write_request(struct sl_otlp *o)
{
	static const char head[] =
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"sluice\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":"
		"\"sluice\"},\"spans\":[";
	static const char tail[] = "]}]}]}";
	char host[SL_ADDR_TEXT];
	bool v6 = o->at.family == 6;

	sl_addr_text(&o->at, host);
	sl_strbuf_printf(&o->body,
			 "POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nContent-Type: application/json\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n",
			 o->path, v6 ? "[" : "", host, v6 ? "]" : "", ntohs(o->at.port_be),
			 sizeof(head) - 1 + o->spans.len + sizeof(tail) - 1);
	sl_strbuf_str(&o->body, head);
	sl_strbuf_add(&o->body, o->spans.ptr, o->spans.len);
	sl_strbuf_str(&o->body, tail);
	o->body_cnt = o->span_cnt;
	o->span_cnt = 0;
	sl_strbuf_reset(&o->spans);
	if (o->body.err)
		drop_body(o);
}

static void fail_request(struct sl_otlp *o, uint64_t now_ns, const char *why)
{
	stats.failures++;
	close_socket(o);
	o->backoff_s = o->backoff_s ? 2 * o->backoff_s : 1;
	if (o->backoff_s > BACKOFF_MAX_S)
		o->backoff_s = BACKOFF_MAX_S;
	o->retry_ns = now_ns + o->backoff_s * SL_NS_PER_SEC;
	SL_LOG_EVERY(60 * SL_NS_PER_SEC, SL_LOG_WARN,
		     "trace: collector %s: %s; spans wait, and are dropped beyond 1 MiB; retrying "
		     "in %u s",
		     o->url, why, o->backoff_s);
}

/* The collector works, so the next spans do not wait. */
static void reject_request(struct sl_otlp *o, unsigned status)
{
	SL_LOG_EVERY(60 * SL_NS_PER_SEC, SL_LOG_WARN,
		     "trace: collector %s: answers with status %u; spans dropped: %u", o->url,
		     status, o->body_cnt);
	stats.failures++;
	drop_body(o);
	close_socket(o);
	o->backoff_s = 0;
}

static void connect_collector(struct sl_otlp *o, uint64_t now_ns)
{
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(&o->at, &ss);

	o->deadline_ns = now_ns + TIMEOUT_S * SL_NS_PER_SEC;
	o->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (o->fd < 0 || (connect(o->fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS))
		fail_request(o, now_ns, strerror(errno));
	else
		o->state = OTLP_CONNECTING;
}

static void finish_connect(struct sl_otlp *o, uint64_t now_ns)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int why = 0;

	if (poll(&p, 1, 0) != 1)
		return;
	if (getsockopt(o->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
		why = errno;
	if (why)
		fail_request(o, now_ns, strerror(why));
	else
		o->state = OTLP_SENDING;
}

static void send_request(struct sl_otlp *o, uint64_t now_ns)
{
	while (o->sent < o->body.len) {
		ssize_t n = send(o->fd, o->body.ptr + o->sent, o->body.len - o->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			fail_request(o, now_ns, strerror(errno));
			return;
		}
		o->sent += (size_t)n;
	}
	o->state = OTLP_READING;
}

static unsigned read_status(const struct sl_otlp *o)
{
	uint64_t status;

	if (o->reply_len < 13 || memcmp(o->reply, "HTTP/1.", 7) != 0 || o->reply[8] != ' ' ||
	    sl_parse_u64_max(sl_span_of(o->reply + 9, 3), 599, &status) != 0)
		return 0;
	return (unsigned)status;
}

static void take_status(struct sl_otlp *o, uint64_t now_ns)
{
	unsigned status = read_status(o);
	char why[64];

	if (status / 100 == 2) {
		stats.exported += o->body_cnt;
		o->body_cnt = 0;
		o->backoff_s = 0;
		sl_strbuf_reset(&o->body);
		close_socket(o);
		return;
	}
	if (status && status != 429 && status != 502 && status != 503 && status != 504) {
		reject_request(o, status);
		return;
	}
	if (status)
		snprintf(why, sizeof(why), "answers with status %u", status);
	else
		snprintf(why, sizeof(why), "answers with something other than HTTP/1");
	fail_request(o, now_ns, why);
}

static void read_reply(struct sl_otlp *o, uint64_t now_ns)
{
	ssize_t n = recv(o->fd, o->reply + o->reply_len, REPLY_MAX - o->reply_len, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fail_request(o, now_ns, n ? strerror(errno) : "closed the connection");
		return;
	}
	o->reply_len += (size_t)n;
	if (o->reply_len == REPLY_MAX || memchr(o->reply, '\n', o->reply_len))
		take_status(o, now_ns);
}

static void begin_request(struct sl_otlp *o, uint64_t now_ns)
{
	if (now_ns < o->retry_ns)
		return;
	if (!o->body_cnt && o->span_cnt && (now_ns >= o->next_ns || o->spans.len >= FLUSH_AT)) {
		o->next_ns = now_ns + SL_NS_PER_SEC;
		write_request(o);
	}
	if (o->body_cnt)
		connect_collector(o, now_ns);
}

void sl_otlp_run(struct sl_otlp *o, uint64_t now_ns)
{
	if (!o->url)
		return;
	if (o->state == OTLP_IDLE)
		begin_request(o, now_ns);
	if (o->state == OTLP_CONNECTING)
		finish_connect(o, now_ns);
	if (o->state == OTLP_SENDING)
		send_request(o, now_ns);
	if (o->state == OTLP_READING)
		read_reply(o, now_ns);
	if (o->state != OTLP_IDLE && now_ns >= o->deadline_ns)
		fail_request(o, now_ns, "no answer in 5 s");
}

void sl_otlp_finish(struct sl_otlp *o)
{
	for (unsigned ms = 0; ms < FINISH_MS && (o->body_cnt || o->span_cnt);
	     ms += FINISH_STEP_MS) {
		o->next_ns = 0;
		sl_otlp_run(o, sl_now_ns());
		poll(NULL, 0, FINISH_STEP_MS);
	}
	drop_body(o);
	drop_spans(o);
}
