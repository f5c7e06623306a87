/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks of nghttp2 only store data in streams, which are settled after each read:
 *
 *   start -> submit ......... out -> the server, at the end of a turn
 *   input -> nghttp2 -> on_header, on_data: origin_h2_stream -> settle -> parts of the reply
 *
 * Bytes waiting for room at the owner fill the stream's window (ORIGIN_RX_LEN) and count in the
 * origin's budget for bodies. When it runs short, the longest stalled streams end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "origin/h2.h"
#include "origin/scratch.h"
#include "origin/request.h"
#include "origin/server.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"
#include "sluice/types.h"

enum {
	CONN_WINDOW = 16 << 20,
	STREAMS_MAX = 1000,
};

static struct origin_h2_conn *h2_of(struct origin_conn *c)
{
	return (struct origin_h2_conn *)c;
}

void origin_h2_stream_free(struct origin_h2_stream *s)
{
	struct origin_h2_conn *h = s->h;

	if (!s->ended)
		nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
	if (s->call)
		s->call->stream = NULL;
	sl_list_del(&s->link);
	sl_list_del(&s->touched);
	sl_list_del(&s->unread);
	origin_h2_rx_free(s);
	origin_h2_text_free(s);
	h->stream_cnt--;
	h->freed++;
	free(s);
	if (h->stream_cnt || h->c.state != ORIGIN_UP)
		return;
	origin_io_of(&h->c)->idle(&h->c);
	if (h->over)
		origin_h2_write_soon(h);
}

static void lose_stream(struct origin_h2_stream *s, const char *why)
{
	struct origin_call *call = s->call;

	origin_h2_stream_free(s);
	origin_ops_of(call)->lost(call, why);
}

static bool settle_touched(struct origin_h2_conn *h)
{
	struct origin_h2_stream *s;
	bool any = false;

	while ((s = sl_list_first(&h->touched, struct origin_h2_stream, touched))) {
		origin_h2_settle(s);
		any = true;
	}
	if (any)
		origin_io_of(&h->c)->room(&h->c);
	return any;
}

/* Closes the connection when its complete replies are passed on; gives the other calls back. */
static void end_conn(struct origin_h2_conn *h, const char *why)
{
	const struct origin_io *io = origin_io_of(&h->c);
	bool unused = nghttp2_session_get_next_stream_id(h->session) == 1;
	struct sl_list *at, *next;

	h->going = h->over = true;
	origin_conn_ended(&h->c);
	(void)settle_touched(h);
	sl_list_for_each_safe (at, next, &h->streams) {
		struct origin_h2_stream *s = sl_container_of(at, struct origin_h2_stream, link);

		if (!s->whole)
			lose_stream(s, why);
	}
	io->wait(&h->c, false, false);
	io->room(&h->c);
	if (!h->stream_cnt)
		origin_conn_end_idle(&h->c, why, unused);
}

static void check_settled(const struct origin_h2_conn *h)
{
#ifdef SL_DEBUG
	for (const struct sl_list *l = h->streams.next; l != &h->streams; l = l->next) {
		const struct origin_h2_stream *s =
			sl_container_of(l, struct origin_h2_stream, link);

		SL_CHECK(!s->ended || s->blocked);
	}
#endif
	SL_CHECK(sl_list_empty(&h->touched));
}

static void end_output(struct origin_h2_conn *h)
{
	const struct origin_io *io = origin_io_of(&h->c);

	h->mute = h->going = true;
	io->room(&h->c);
	io->wait(&h->c, true, false);
	io->read(&h->c);
}

static bool write_frames(struct origin_h2_conn *h)
{
	const struct origin_io *io = origin_io_of(&h->c);
	const uint8_t *bytes;
	struct iovec left;
	ssize_t n = 0;

	for (;;) {
		while (h->out_len < ORIGIN_OUT_LEN / 2 &&
		       (n = nghttp2_session_mem_send(h->session, &bytes)) > 0) {
			memcpy(h->out + h->out_len, bytes, (size_t)n);
			h->out_len += (size_t)n;
		}
		if (n < 0) {
			end_conn(h, nghttp2_strerror((int)n));
			return false;
		}
		if (h->out_len == h->out_sent)
			return true;
		left = (struct iovec){h->out + h->out_sent, h->out_len - h->out_sent};
		n = io->send(&h->c, &left, 1);
		if (n == -EPIPE || n == -ECONNRESET) {
			end_output(h);
			return false;
		}
		if (n < 0 && n != -EAGAIN) {
			end_conn(h, strerror((int)-n));
			return false;
		}
		h->out_sent += n > 0 ? (size_t)n : 0;
		if (h->out_sent < h->out_len)
			return true;
		h->out_len = h->out_sent = 0;
	}
}

/* nghttp2 closes streams while it writes their RST_STREAM. */
static void h2_writable(struct origin_conn *c)
{
	const struct origin_io *io = origin_io_of(c);
	struct origin_h2_conn *h = h2_of(c);

	while (!h->mute && !h->over && write_frames(h) && settle_touched(h))
		;
	if (c->state != ORIGIN_UP || (h->mute && !h->over))
		return;
	if (!h->over) {
		check_settled(h);
		io->wait(c, true, h->out_len > h->out_sent);
		if (nghttp2_session_want_read(h->session) ||
		    nghttp2_session_want_write(h->session) || h->out_len > h->out_sent)
			return;
	}
	end_conn(h, "the server ended the connection");
}

static ssize_t read_body(struct origin_call *call, uint8_t *buf, size_t cap, uint32_t *flags)
{
	struct iovec piece;
	size_t n = 0, len;

	while (n < cap && origin_body_peek(call, &piece, 1)) {
		len = piece.iov_len < cap - n ? piece.iov_len : cap - n;
		memcpy(buf + n, piece.iov_base, len);
		origin_body_skip(call, len);
		n += len;
	}
	if (call->body.ended && !call->body.out)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (!n)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)n;
}

static bool submit_trailers(struct origin_h2_stream *s)
{
	const struct sl_request_view *rq = s->call->rq;
	struct sl_span rest = rq ? sl_span_of(rq->trailers, rq->trailers_len) : sl_span_of(NULL, 0);
	nghttp2_nv *nv = origin_h2_origin(s)->scratch->trailers;
	struct sl_header h;
	size_t cnt = 0;

	if (s->call->grpc)
		return false;
	while (cnt < ORIGIN_REQUEST_FIELDS && origin_trailer_next(&rest, &h))
		nv[cnt++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)h.name.ptr,
					 .value = (uint8_t *)(uintptr_t)h.value.ptr,
					 .namelen = h.name.len,
					 .valuelen = h.value.len};
	return cnt && nghttp2_submit_trailer(s->h->session, s->id, nv, cnt) == 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			    uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct origin_h2_stream *s = source->ptr;
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

static void add_field(struct origin_h2_head *h, struct sl_span name, struct sl_span value)
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

static bool make_head(struct origin_h2_head *h, const struct origin_request *made,
		      const struct origin_call *call, uint64_t now_ns)
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
	ADD(h, ":scheme", sl_span_cstr(call->server->secure ? "https" : "http"));
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

static void refuse_call(struct origin_call *call, enum sl_rpc_status status)
{
	call->over = true;
	origin_ops_of(call)->fail(call, status);
}

static void submit_request(struct origin_h2_conn *h, struct origin_h2_stream *s,
			   const struct origin_h2_head *head)
{
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_request};
	struct origin_call *call = s->call;
	uint64_t length = call->body.on ? call->rq->length : call->rq->body_len;
	bool has_body = call->grpc || length;

	if (call->body.on)
		origin_body_begin(call, call->grpc ? ORIGIN_MESSAGES : ORIGIN_PLAIN,
				  call->grpc ? SL_LEN_UNKNOWN : length);
	s->id = nghttp2_submit_request(h->session, NULL, head->nv, head->cnt,
				       has_body ? &body : NULL, s);
	if (s->id >= 0) {
		origin_h2_write_soon(h);
		return;
	}
	call->tries--;
	s->ended = true;
	h->going = true;
	origin_h2_stream_free(s);
	origin_ops_of(call)->lost(call, "no stream is left");
}

/* Reads a GOAWAY or the end of an idle connection. False: it takes no calls. */
static bool is_usable(struct origin_h2_conn *h)
{
	if (h->stream_cnt)
		return true;
	origin_io_of(&h->c)->read(&h->c);
	return h->c.state == ORIGIN_UP && !h->going;
}

static const struct sl_reply_args no_upgrade = {.status = 501};

static void h2_start(struct origin_conn *c, struct origin_call *call)
{
	struct origin_request *made = &c->server->origin->scratch->request;
	struct origin_h2_head *head = &c->server->origin->scratch->head;
	struct origin_h2_conn *h = h2_of(c);
	struct origin_h2_stream *s;
	uint64_t trace[3];

	if (!is_usable(h)) {
		call->tries--;
		origin_ops_of(call)->lost(call, NULL);
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		trace[i] = sl_prng_u64(c->server->origin->prng);
	if (!origin_request_make(made, call->rq, &c->server->authority, (uint8_t *)trace) ||
	    !make_head(head, made, call, c->server->origin->now_ns)) {
		refuse_call(call, SL_RPC_BAD_REQUEST);
		return;
	}
	if (made->upgrade.len && call->body.on) {
		call->over = true;
		(void)origin_ops_of(call)->reply(call, &no_upgrade);
		return;
	}
	s = malloc(sizeof(*s));
	if (!s) {
		refuse_call(call, SL_RPC_REFUSED);
		return;
	}
	memset(s, 0, offsetof(struct origin_h2_stream, why));
	s->headers.cnt = s->trailers.cnt = 0;
	sl_list_init(&s->unread);
	s->why[0] = 0;
	s->h = h;
	s->call = call;
	s->grpc_status = s->foreign = -1;
	s->length = SL_LEN_UNKNOWN;
	s->to_head = sl_span_eq(made->method, sl_span_str("HEAD"));
	sl_list_init(&s->touched);
	sl_list_add_tail(&h->streams, &s->link);
	h->stream_cnt++;
	call->stream = s;
	origin_io_of(c)->busy(c);
	if (call->grpc)
		(void)sl_grpc_prefix(s->prefix, call->rq->body_len, call->rq->compressed);
	submit_request(h, s, head);
}

static struct origin_space h2_space(struct origin_conn *c)
{
	struct origin_scratch *scratch = c->server->origin->scratch;

	return (struct origin_space){scratch->input, sizeof(scratch->input)};
}

/* False: the next read may be of another connection. */
static bool h2_input(struct origin_conn *c, size_t len)
{
	const struct origin_io *io = origin_io_of(c);
	struct origin_h2_conn *h = h2_of(c);
	ssize_t rc;

	origin_conn_spoke(c);
	origin_h2_relieve(c->server->origin);
	rc = nghttp2_session_mem_recv(h->session, c->server->origin->scratch->input, len);
	(void)settle_touched(h);
	check_settled(h);
	io->write_soon(c);
	io->room(c);
	if (rc < 0)
		end_conn(h, nghttp2_strerror((int)rc));
	return false;
}

static void h2_pause(struct origin_conn *c)
{
	(void)c;
}

static void h2_eof(struct origin_conn *c, const char *error)
{
	end_conn(h2_of(c), error ? error : "the server closed the connection");
}

static bool h2_up(struct origin_conn *c)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, ORIGIN_RX_LEN},
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, ORIGIN_HEAD_MAX + 32 * ORIGIN_FIELDS_MAX},
	};
	struct origin_h2_conn *h = h2_of(c);
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int rc = nghttp2_session_callbacks_new(&cb) || nghttp2_option_new(&opt);

	sl_list_init(&h->streams);
	sl_list_init(&h->touched);
	if (!rc) {
		origin_h2_callbacks(cb);
		nghttp2_option_set_no_auto_window_update(opt, 1);
		rc = nghttp2_session_client_new2(&h->session, cb, h, opt);
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(opt);
	if (rc)
		return false;
	nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, SL_ARRAY_LEN(settings));
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
	origin_io_of(c)->idle(c);
	origin_h2_write_soon(h);
	return true;
}

/* Frames of ended calls wait while the server does not read. */
static bool is_clogged(const struct origin_h2_conn *h)
{
	return nghttp2_session_get_outbound_queue_size(h->session) >= STREAMS_MAX;
}

static unsigned h2_room(const struct origin_conn *c)
{
	const struct origin_h2_conn *h = (const struct origin_h2_conn *)c;
	uint32_t most = nghttp2_session_get_remote_settings(
		h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	if (most > STREAMS_MAX)
		most = STREAMS_MAX;
	if (h->going || h->stream_cnt >= most || is_clogged(h))
		return 0;
	return most - h->stream_cnt;
}

static void h2_body(struct origin_conn *c, struct origin_call *call)
{
	const struct origin_h2_stream *s = call->stream;

	if (s->ended)
		origin_body_drop(call);
	else if (!nghttp2_session_resume_data(h2_of(c)->session, s->id))
		origin_io_of(c)->write_soon(c);
}

static void h2_cancel(struct origin_conn *c, struct origin_call *call)
{
	struct origin_h2_stream *s = call->stream;

	if (!s->ended)
		nghttp2_submit_rst_stream(h2_of(c)->session, NGHTTP2_FLAG_NONE, s->id,
					  NGHTTP2_CANCEL);
	origin_h2_stream_free(s);
	origin_io_of(c)->write_soon(c);
	origin_io_of(c)->room(c);
}

static bool h2_resume(struct origin_conn *c, struct origin_call *call)
{
	struct origin_h2_stream *s = call->stream;

	s->blocked = false;
	sl_list_del(&s->unread);
	origin_h2_settle(s);
	origin_io_of(c)->write_soon(c);
	return false;
}

static void h2_closing(struct origin_conn *c, const char *why)
{
	struct origin_h2_conn *h = h2_of(c);
	struct sl_list *l;

	while (h->session && (l = sl_list_pop_head(&h->streams)))
		lose_stream(sl_container_of(l, struct origin_h2_stream, link), why);
	nghttp2_session_del(h->session);
}

const struct origin_proto origin_h2 = {
	.conn_size = sizeof(struct origin_h2_conn),
	.calls_per_conn = 100,
	.up = h2_up,
	.room = h2_room,
	.start = h2_start,
	.space = h2_space,
	.input = h2_input,
	.pause = h2_pause,
	.eof = h2_eof,
	.writable = h2_writable,
	.body = h2_body,
	.cancel = h2_cancel,
	.resume = h2_resume,
	.closing = h2_closing,
};
