/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 and gRPC without TLS towards a server, framed by nghttp2. Its callbacks only store data in
 * streams, which are settled after each read:
 *
 *   start -> submit ......... out -> the server's socket, at the end of a turn
 *   readable -> nghttp2 -> on_header, on_data: agent_h2_stream -> settle -> parts of the reply
 *
 * Bytes that wait for room at the gateway fill the stream's window (AGENT_RX_LEN), so the server
 * stops. They count in the agent's budget for bodies. When it runs short, streams whose clients
 * have not read for longest are ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "agent/h2.h"
#include "agent/request.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"
#include "sluice/rpc_wire.h"

enum {
	CONN_WINDOW = 16 << 20,
	STREAMS_MAX = 1000, /* unless the server allows fewer */
	FIELDS_MAX = AGENT_REQUEST_FIELDS + 8,
	TIMEOUT_LEN = 16,
};
#define IDLE_NS (50 * SL_NS_PER_SEC)

static struct agent_h2_conn *h2_of(struct agent_conn *c)
{
	return (struct agent_h2_conn *)c;
}

void agent_h2_stream_free(struct agent_h2_stream *s)
{
	struct agent_h2_conn *h = s->h;

	if (!s->ended)
		nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
	if (s->call)
		s->call->stream = NULL;
	sl_list_del(&s->link);
	sl_list_del(&s->touched);
	sl_list_del(&s->unread);
	agent_h2_rx_free(s);
	agent_h2_text_free(s);
	h->stream_cnt--;
	h->freed++;
	free(s);
	if (!h->stream_cnt && h->c.state == AGENT_UP)
		agent_timer_set(h->c.server->a, &h->c.timer, h->c.server->a->now_ns + IDLE_NS);
}

/* Returns true if there were touched streams: frames may be due. */
static bool settle_touched(struct agent_h2_conn *h)
{
	struct agent_h2_stream *s;
	bool any = false;

	while ((s = sl_list_first(&h->touched, struct agent_h2_stream, touched))) {
		agent_h2_settle(s);
		any = true;
	}
	if (any)
		agent_conn_room(&h->c);
	return any;
}

/* Each ended stream's call has ended or waits for its client. */
static void check_settled(const struct agent_h2_conn *h)
{
#ifdef SL_DEBUG
	for (const struct sl_list *l = h->streams.next; l != &h->streams; l = l->next) {
		const struct agent_h2_stream *s = sl_container_of(l, struct agent_h2_stream, link);

		SL_CHECK(!s->ended || s->blocked);
	}
#endif
	SL_CHECK(sl_list_empty(&h->touched));
}

/* Returns false if the connection was closed. */
static bool write_frames(struct agent_h2_conn *h)
{
	struct agent_conn *c = &h->c;
	const uint8_t *bytes;
	ssize_t n = 0;

	for (;;) {
		while (h->out_len < AGENT_OUT_LEN / 2 &&
		       (n = nghttp2_session_mem_send(h->session, &bytes)) > 0) {
			memcpy(h->out + h->out_len, bytes, (size_t)n);
			h->out_len += (size_t)n;
		}
		if (n < 0) {
			agent_conn_close(c, nghttp2_strerror((int)n));
			return false;
		}
		if (h->out_len == h->out_sent)
			return true;
		n = send(c->fd, h->out + h->out_sent, h->out_len - h->out_sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			agent_conn_close(c, strerror(errno));
			return false;
		}
		h->out_sent += n > 0 ? (size_t)n : 0;
		if (h->out_sent < h->out_len)
			return true;
		h->out_len = h->out_sent = 0;
	}
}

/*
 * nghttp2 closes a stream while it writes its RST_STREAM (RFC 9113 8.1.1), so streams are settled
 * here, too.
 */
static void h2_writable(struct agent_conn *c)
{
	struct agent_h2_conn *h = h2_of(c);

	do {
		if (!write_frames(h))
			return;
	} while (settle_touched(h));
	sl_list_del(&c->dirty);
	check_settled(h);
	agent_conn_wait_for(c, EPOLLIN | (h->out_len > h->out_sent ? EPOLLOUT : 0));
	if (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session) &&
	    h->out_len == h->out_sent)
		agent_conn_close(c, "the server ended the connection");
}

static ssize_t read_body(struct agent_call *call, uint8_t *buf, size_t cap, uint32_t *flags)
{
	struct iovec piece;
	size_t n = 0, len;

	while (n < cap && agent_body_peek(call, &piece, 1)) {
		len = piece.iov_len < cap - n ? piece.iov_len : cap - n;
		memcpy(buf + n, piece.iov_base, len);
		agent_body_skip(call, len);
		n += len;
	}
	if (call->body.ended && !call->body.out)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (!n)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)n;
}

/* Returns true if there are trailers, which end the stream. */
static bool submit_trailers(struct agent_h2_stream *s)
{
	const struct sl_request_view *rq = s->call->rq;
	struct sl_span rest = rq ? sl_span_of(rq->trailers, rq->trailers_len) : sl_span_of(NULL, 0);
	static nghttp2_nv nv[AGENT_REQUEST_FIELDS];
	struct sl_header h;
	size_t cnt = 0;

	if (s->call->grpc)
		return false;
	while (cnt < AGENT_REQUEST_FIELDS && agent_trailer_next(&rest, &h))
		nv[cnt++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)h.name.ptr,
					 .value = (uint8_t *)(uintptr_t)h.value.ptr,
					 .namelen = h.name.len,
					 .valuelen = h.value.len};
	return cnt && nghttp2_submit_trailer(s->h->session, s->id, nv, cnt) == 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			    uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct agent_h2_stream *s = source->ptr;
	const struct sl_request_view *rq = s->call->rq;
	size_t prefix = s->call->grpc ? SL_GRPC_PREFIX : 0, n = 0, left;

	(void)session, (void)id, (void)arg;
	if (s->call->body.on) {
		ssize_t rc = read_body(s->call, buf, cap, flags);

		if (*flags & NGHTTP2_DATA_FLAG_EOF && submit_trailers(s))
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		return rc;
	}
	while (s->sent < prefix && n < cap)
		buf[n++] = s->prefix[s->sent++];
	left = prefix + rq->body_len - s->sent;
	left = left < cap - n ? left : cap - n;
	if (left)
		memcpy(buf + n, rq->body + (s->sent - prefix), left);
	s->sent += left;
	n += left;
	if (s->sent == prefix + rq->body_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

struct agent_h2_head {
	nghttp2_nv nv[FIELDS_MAX];
	size_t cnt;
	char timeout[TIMEOUT_LEN], length[SL_U64_DIGITS];
	uint8_t target[SL_RPC_MAX_ASKED];
};

static void add_field(struct agent_h2_head *h, struct sl_span name, struct sl_span value)
{
	h->nv[h->cnt++] = (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name.ptr,
		.value = (uint8_t *)(uintptr_t)value.ptr,
		.namelen = name.len,
		.valuelen = value.len,
	};
}
#define ADD(h, lit, value) add_field((h), sl_span_str(lit), (value))

/* At most eight digits, in the finest unit that fits. */
static int format_timeout(char *to, size_t size, uint64_t us)
{
	static const struct {
		uint64_t us;
		char name;
	} units[] = {{1, 'u'}, {1000, 'm'}, {1000000, 'S'}, {60000000, 'M'}};
	unsigned i = 0;

	while (i + 1 < SL_ARRAY_LEN(units) && us / units[i].us >= 100000000)
		i++;
	us = us / units[i].us < 99999999 ? us / units[i].us : 99999999;
	return snprintf(to, size, "%" PRIu64 "%c", us, units[i].name);
}

/* Returns false if the target is too long. */
static bool make_head(struct agent_h2_head *h, const struct agent_request *made,
		      const struct agent_call *call, uint64_t now_ns)
{
	const struct sl_request_view *rq = call->rq;
	uint64_t length = call->body.on ? rq->length : rq->body_len;
	size_t target_len = made->path.len + (made->query.ptr ? 1 + made->query.len : 0);

	if (target_len > sizeof(h->target))
		return false;
	memcpy(h->target, made->path.ptr, made->path.len);
	if (made->query.ptr) {
		h->target[made->path.len] = '?';
		memcpy(h->target + made->path.len + 1, made->query.ptr, made->query.len);
	}
	h->cnt = 0;
	ADD(h, ":method", made->method);
	ADD(h, ":scheme", sl_span_str("http"));
	ADD(h, ":authority", made->authority);
	ADD(h, ":path", sl_span_of(h->target, target_len));
	if (call->grpc) {
		ADD(h, "te", sl_span_str("trailers"));
		ADD(h, "content-type",
		    rq->content_type_len ? sl_span_of(rq->content_type, rq->content_type_len)
					 : sl_span_str("application/grpc"));
		if (call->deadline_ns != UINT64_MAX) {
			uint64_t us = call->deadline_ns > now_ns
					      ? (call->deadline_ns - now_ns) / SL_NS_PER_US
					      : 1;
			int n = format_timeout(h->timeout, sizeof(h->timeout), us);

			ADD(h, "grpc-timeout", sl_span_of(h->timeout, (size_t)n));
		}
	} else if (length && length != SL_LEN_UNKNOWN) {
		ADD(h, "content-length", sl_span_of(h->length, sl_format_u64(h->length, length)));
	}
	if (rq->expect_continue)
		ADD(h, "expect", sl_span_str("100-continue"));
	for (uint32_t i = 0; i < made->cnt; i++)
		add_field(h, made->fields[i].name, made->fields[i].value);
	return true;
}

static void refuse_call(struct agent_call *call, enum sl_rpc_status status)
{
	call->over = true;
	agent_call_fail(call, status);
}

static void submit_request(struct agent_h2_conn *h, struct agent_h2_stream *s,
			   const struct agent_h2_head *head)
{
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_request};
	struct agent_call *call = s->call;
	uint64_t length = call->body.on ? call->rq->length : call->rq->body_len;
	bool has_body = call->grpc || length;

	if (call->body.on)
		agent_body_begin(call, call->grpc ? AGENT_MESSAGES : AGENT_PLAIN,
				 call->grpc ? SL_LEN_UNKNOWN : length);
	s->id = nghttp2_submit_request(h->session, NULL, head->nv, head->cnt,
				       has_body ? &body : NULL, s);
	if (s->id >= 0) {
		agent_conn_write_soon(&h->c);
		return;
	}
	call->tries--;
	s->ended = true;
	h->going = true; /* stream ids are used up, or no memory */
	agent_h2_stream_free(s);
	agent_call_lost(call, "no stream is left");
}

static void h2_readable(struct agent_conn *c);

/* Reads what an idle connection has: a GOAWAY or its end. Returns false if it takes no calls. */
static bool is_usable(struct agent_h2_conn *h)
{
	char byte;

	if (h->stream_cnt || recv(h->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
		return true;
	h2_readable(&h->c);
	return h->c.state == AGENT_UP && !h->going;
}

static const struct sl_reply_args no_upgrade = {.status = 501};

static void h2_start(struct agent_conn *c, struct agent_call *call)
{
	static struct agent_request made; /* the agent is one thread */
	static struct agent_h2_head head;
	struct agent_h2_conn *h = h2_of(c);
	struct agent_h2_stream *s;
	uint64_t trace[3];

	if (!is_usable(h)) {
		call->tries--;
		agent_call_lost(call, NULL);
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		trace[i] = sl_prng_u64(&c->server->a->prng);
	if (!agent_request_make(&made, call->rq, c->server->authority, (uint8_t *)trace) ||
	    !make_head(&head, &made, call, c->server->a->now_ns)) {
		refuse_call(call, SL_RPC_BAD_REQUEST);
		return;
	}
	if (made.upgrade.len && call->body.on) {
		call->over = true;
		(void)agent_call_reply(call, &no_upgrade);
		return;
	}
	s = malloc(sizeof(*s));
	if (!s) {
		refuse_call(call, SL_RPC_REFUSED);
		return;
	}
	memset(s, 0, offsetof(struct agent_h2_stream, why));
	s->headers.cnt = s->trailers.cnt = 0;
	sl_list_init(&s->unread);
	s->why[0] = 0;
	s->h = h;
	s->call = call;
	s->grpc_status = s->foreign = -1;
	s->length = SL_LEN_UNKNOWN;
	s->to_head = sl_span_eq(made.method, sl_span_str("HEAD"));
	sl_list_init(&s->touched);
	sl_list_add_tail(&h->streams, &s->link);
	h->stream_cnt++;
	call->stream = s;
	agent_timer_cancel(c->server->a, &c->timer);
	if (call->grpc)
		(void)sl_grpc_prefix(s->prefix, call->rq->body_len, call->rq->compressed);
	submit_request(h, s, &head);
}

static void h2_readable(struct agent_conn *c)
{
	static uint8_t buf[256 << 10];
	struct agent_h2_conn *h = h2_of(c);
	ssize_t n = recv(c->fd, buf, sizeof(buf), 0), rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	agent_h2_relieve(c->server->a);
	rc = n > 0 ? nghttp2_session_mem_recv(h->session, buf, (size_t)n) : 0;
	(void)settle_touched(h);
	check_settled(h);
	agent_conn_write_soon(c);
	agent_conn_room(c);
	if (n <= 0)
		agent_conn_close(c, n ? strerror(errno) : "the server closed the connection");
	else if (rc < 0)
		agent_conn_close(c, nghttp2_strerror((int)rc));
}

static bool h2_up(struct agent_conn *c)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, AGENT_RX_LEN},
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
		 AGENT_HEAD_MAX + 32 * AGENT_FIELDS_MAX}, /* RFC 9113 6.5.2 */
	};
	struct agent_h2_conn *h = h2_of(c);
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int rc = nghttp2_session_callbacks_new(&cb) || nghttp2_option_new(&opt);

	sl_list_init(&h->streams);
	sl_list_init(&h->touched);
	if (!rc) {
		agent_h2_callbacks(cb);
		nghttp2_option_set_no_auto_window_update(opt, 1);
		rc = nghttp2_session_client_new2(&h->session, cb, h, opt);
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(opt);
	if (rc)
		return false;
	nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, SL_ARRAY_LEN(settings));
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
	agent_timer_set(c->server->a, &c->timer, c->server->a->now_ns + IDLE_NS);
	agent_conn_write_soon(&h->c);
	return true;
}

static unsigned h2_room(const struct agent_conn *c)
{
	const struct agent_h2_conn *h = (const struct agent_h2_conn *)c;
	uint32_t most = nghttp2_session_get_remote_settings(
		h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	if (most > STREAMS_MAX)
		most = STREAMS_MAX;
	return h->going || h->stream_cnt >= most ? 0 : most - h->stream_cnt;
}

static void h2_body(struct agent_conn *c, struct agent_call *call)
{
	const struct agent_h2_stream *s = call->stream;

	if (s->ended)
		agent_body_drop(call);
	else if (!nghttp2_session_resume_data(h2_of(c)->session, s->id))
		agent_conn_write_soon(c);
}

static void h2_cancel(struct agent_conn *c, struct agent_call *call)
{
	struct agent_h2_stream *s = call->stream;

	if (!s->ended)
		nghttp2_submit_rst_stream(h2_of(c)->session, NGHTTP2_FLAG_NONE, s->id,
					  NGHTTP2_CANCEL);
	agent_h2_stream_free(s);
	agent_conn_write_soon(c);
	agent_conn_room(c);
}

static void h2_resume(struct agent_conn *c, struct agent_call *call)
{
	struct agent_h2_stream *s = call->stream;

	s->blocked = false;
	sl_list_del(&s->unread);
	agent_h2_settle(s);
	agent_conn_write_soon(c);
}

static void h2_closing(struct agent_conn *c, const char *why)
{
	struct agent_h2_conn *h = h2_of(c);
	struct sl_list *l;

	while (h->session && (l = sl_list_pop_head(&h->streams))) {
		struct agent_h2_stream *s = sl_container_of(l, struct agent_h2_stream, link);
		struct agent_call *call = s->call;

		agent_h2_stream_free(s);
		agent_call_lost(call, why);
	}
	nghttp2_session_del(h->session);
}

const struct agent_proto agent_h2 = {
	.conn_size = sizeof(struct agent_h2_conn),
	.calls_per_conn = 100,
	.up = h2_up,
	.room = h2_room,
	.start = h2_start,
	.readable = h2_readable,
	.writable = h2_writable,
	.body = h2_body,
	.cancel = h2_cancel,
	.resume = h2_resume,
	.closing = h2_closing,
};
