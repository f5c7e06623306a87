/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/*
 * A gateway that lies to a backend. The input chooses requests, streams and their parts, cancels
 * and credit, and when the program answers, pauses and resumes.
 *
 * The program must see what the SDK's header promises: each request once; for a stream open, then
 * data, then end or cancel. It sees nothing while a request is paused, after its end, or after its
 * reply, and exactly the announced bytes of a message. No request and no memory is left when all is
 * answered.
 *
 * Input: steps. A byte tells the kind (enum step) and, in its upper bits, the request; its bytes
 * follow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "sdk/backend/internal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { MESSAGES = 64, HELD = 64, BULK = 128 << 10, EPOCH = 77, IDS = 8 };

enum step {
	REQUESTS, /* a message of one to four entries that add up */
	LIE,      /* the same, of which a byte of the header is wrong */
	RAW,      /* header and body as they stand in the input */
	GO_ON,    /* the rest of the message that is coming */
	WINDOW,   /* credit */
	CANCEL,   /* a request's */
	POLL,     /* the backend works */
	REPLY,    /* the last part */
	MORE,     /* a part that is not */
	ERROR_,   /* an error */
	PAUSE,    /* a stream waits */
	RESUME,   /* and goes on */
	TELL,     /* credit for the client */
	LEND,     /* the last part, without a copy */
	STEPS,
};

/* --- the gateway --- */

static struct gateway {
	struct sl_transport base;
	struct {
		struct sl_rpc_header header;
		uint8_t *body;
	} in[MESSAGES];
	unsigned cnt, next;
	bool broken, closed;
	uint64_t number;
	uint32_t total, offset; /* the message that is arriving */
	uint64_t id;
	uint8_t priority;
} g;

static int g_post(struct sl_transport *t, const struct sl_rpc_header *h,
		  const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	static uint8_t out[BULK];
	size_t len = 0;

	(void)t;
	SL_CHECK(!cookie);
	for (unsigned i = 0; i < cnt; i++) {
		SL_CHECK(spans[i].len <= sizeof(out) - len);
		if (spans[i].len)
			memcpy(out + len, spans[i].ptr, spans[i].len);
		len += spans[i].len;
	}
	SL_CHECK(len == h->fragment_len && sl_message_check(h, BULK) == 0);
	return 0;
}

static int g_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	unsigned n = 0;

	(void)t;
	for (; n < max && g.next < g.cnt; g.next++) {
		if ((g.in[g.next].header.version_type & 15) == SL_RPC_CREDIT)
			continue;
		m[n++] = (struct sl_message){.header = g.in[g.next].header,
					     .body = g.in[g.next].body};
	}
	return n ? (int)n : g.broken ? -ENOTCONN : 0;
}

static void g_nothing(struct sl_transport *t)
{
	(void)t;
}

static void g_release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t, (void)m;
}

static unsigned g_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	(void)t, (void)cookies, (void)max;
	return 0;
}

static uint32_t g_window(const struct sl_transport *t)
{
	return t->bulk_max;
}

static bool g_arm(struct sl_transport *t, bool want_room)
{
	(void)t, (void)want_room;
	return g.next == g.cnt && !g.broken;
}

static int g_check(struct sl_transport *t)
{
	(void)t;
	return 0;
}

static void g_close(struct sl_transport *t)
{
	(void)t;
	g.closed = true;
}

static const struct sl_transport_ops ops = {
	.name = "fuzz",
	.post = g_post,
	.flush = g_nothing,
	.poll = g_poll,
	.release = g_release,
	.sent = g_sent,
	.window = g_window,
	.progress = g_nothing,
	.arm = g_arm,
	.disarm = g_nothing,
	.check = g_check,
	.close = g_close,
};

/* --- the program --- */

/* A request that it has. */
struct held {
	struct sl_request_view *rq; /* NULL: none */
	bool stream, ended, lost, waits;
	size_t left; /* rest of a message */
};

static struct sl_backend *backend;
static struct held held[HELD];
static unsigned lent, given_back;
static volatile uint8_t sink;

static void read_all(const void *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sink ^= ((const uint8_t *)p)[i];
}

static void look_at(const struct sl_request_view *rq)
{
	const char *value;
	size_t len;

	SL_CHECK(rq->priority < SL_CLASS_CNT && rq->meta_len <= SL_RPC_MAX_META);
	read_all(rq->body, rq->body_len);
	read_all(rq->method, rq->method_len);
	read_all(rq->path, rq->path_len);
	read_all(rq->query, rq->query_len);
	read_all(rq->content_type, rq->content_type_len);
	read_all(rq->meta, rq->meta_len);
	read_all(rq->trailers, rq->trailers_len);
	if (sl_request_header(rq, "a", &value, &len))
		read_all(value, len);
	if (sl_request_trailer(rq, "a", &value, &len))
		read_all(value, len);
}

static void hold(struct sl_request_view *rq, bool stream)
{
	for (unsigned i = 0; i < HELD; i++) {
		if (held[i].rq)
			continue;
		held[i] = (struct held){.rq = rq, .stream = stream};
		SL_CHECK(!rq->own);
		rq->own = &held[i];
		look_at(rq);
		return;
	}
	(void)sl_reply_error(rq, SL_RPC_REFUSED);
}

static void on_batch(void *arg, struct sl_batch *batch)
{
	(void)arg;
	SL_CHECK(batch->count && batch->count <= 16);
	for (unsigned i = 0; i < batch->count; i++)
		hold(batch->requests[i], false);
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	SL_CHECK(!rq->body_len && !rq->trailers_len);
	hold(rq, true);
}

/* Its, which must be one that something may still be said about. */
static struct held *of(struct sl_request_view *rq, bool stream)
{
	struct held *r = rq->own;

	SL_CHECK(r && r->rq == rq && r->stream == stream && !r->lost);
	return r;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	struct held *r = of(rq, true);

	(void)arg;
	SL_CHECK(!r->ended && !r->waits);
	SL_CHECK(!r->left || (len <= r->left && left == r->left - len));
	r->left = left;
	read_all(bytes, len);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	struct held *r = of(rq, true);

	(void)arg;
	SL_CHECK(!r->ended && !r->waits && !r->left);
	r->ended = true;
	look_at(rq);
}

static void on_stream_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	of(rq, true)->lost = true;
}

static void on_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	of(rq, false)->lost = true;
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	struct held *r = rq->own;

	(void)arg;
	SL_CHECK(r && r->rq == rq);
}

static void on_given_back(void *arg)
{
	(void)arg;
	given_back++;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct sl_stream_ops on_stream = {.on_open = on_open,
						       .on_data = on_data,
						       .on_end = on_end,
						       .on_cancel = on_stream_cancel};
	static char listen[64];
	struct sl_backend_options opt = {.listen = listen,
					 .on_batch = on_batch,
					 .max_batch = 16,
					 .inline_handler = true,
					 .on_cancel = on_cancelled,
					 .on_writable = on_writable,
					 .on_stream = &on_stream};
	char err[256] = "";

	(void)argc, (void)argv;
	snprintf(listen, sizeof(listen), "shm:///tmp/sl-fuzz-sdk-%d.sock", (int)getpid());
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend)
		fprintf(stderr, "%s\n", err);
	SL_CHECK(backend != NULL);
	unlink(listen + 6); /* no gateway connects */
	return 0;
}

/* --- the input --- */

static const uint8_t *at, *end;

static uint32_t take(unsigned bytes)
{
	uint32_t n = 0;

	while (bytes--)
		n = n << 8 | (at < end ? *at++ : 0);
	return n;
}

static uint8_t *put(uint8_t type, uint8_t flags, uint32_t len)
{
	struct sl_rpc_header *h = &g.in[g.cnt].header;
	uint8_t *body = malloc(len + 1);

	SL_CHECK(body != NULL);
	*h = (struct sl_rpc_header){.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
				    .flags = flags,
				    .priority = SL_CLASS_NORMAL,
				    .count = 1,
				    .fragment_len = len,
				    .total_or_offset = len,
				    .id = (uint64_t)EPOCH << 48 | ++g.number};
	g.in[g.cnt++].body = body;
	return body;
}

/* So many bytes of the input go there; zeros when it is at its end. */
static void copy(uint8_t *to, size_t len)
{
	size_t n = (size_t)(end - at) < len ? (size_t)(end - at) : len;

	memset(to, 0, len);
	if (n)
		memcpy(to, at, n);
	at += n;
}

/*
 * Entries, all metadata and payloads behind them: as they lie on the wire. Their lengths are small,
 * or of the size of the window; flags and ids are the input's.
 */
static void put_requests(bool lies)
{
	uint32_t cnt = 1 + (take(1) & 3), total = 0, skip, cut;
	struct sl_rpc_entry e[4];
	uint8_t *body, *to;
	uint8_t wrong = lies ? (uint8_t)take(1) : 0, by = lies ? (uint8_t)take(1) : 0;

	for (uint32_t i = 0; i < cnt; i++) {
		uint8_t kind = (uint8_t)take(1), len = (uint8_t)take(1);

		e[i] = (struct sl_rpc_entry){.id = 1 + kind % IDS,
					     .flags = (uint8_t)(kind / IDS),
					     .len = len & 0x7f,
					     .meta_len = (uint16_t)(take(1) & 0x3f)};
		if (len & 0x80)
			e[i].flags |= SL_ENTRY_EXPECT;
		if (e[i].len & 0x40)
			e[i].len = (e[i].len & 0x3f) << 11;
		if (e[i].flags & SL_ENTRY_STREAM)
			e[i].len = 0;
		e[i].rest = e[i].flags & SL_ENTRY_PART ? take(2) : 0;
		e[i].time_us = (e[i].len & 7) == 7 ? 1000000 : 0;
		total += (uint32_t)sizeof(e[i]) + (uint32_t)sl_rpc_pad8(e[i].meta_len) +
			 (uint32_t)sl_rpc_pad8(e[i].len);
	}
	if (total > BULK)
		return;
	/* A part of it, or all: the rest comes with GO_ON. */
	cut = take(1);
	skip = cut & 0x80 && total > 64 ? total / 128 * (cut & 0x7f) : 0;
	body = put(SL_RPC_REQUEST, SL_RPC_BATCH | SL_RPC_FIRST | (skip ? 0 : SL_RPC_LAST), total);
	memcpy(body, e, cnt * sizeof(e[0]));
	to = body + cnt * sizeof(e[0]);
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t meta = (uint32_t)sl_rpc_pad8(e[i].meta_len);
		uint32_t len = (uint32_t)sl_rpc_pad8(e[i].len);

		copy(to, meta);
		memset(to + meta, 'b', len);
		to += meta + len;
	}
	g.in[g.cnt - 1].header.count = (uint16_t)cnt;
	if (skip) {
		g.in[g.cnt - 1].header.fragment_len = total - skip;
		g.id = g.in[g.cnt - 1].header.id;
		g.total = total;
		g.offset = total - skip;
	}
	if (lies)
		((uint8_t *)&g.in[g.cnt - 1].header)[4 + wrong % 28] ^= by;
	if (g.in[g.cnt - 1].header.fragment_len > total)
		g.in[g.cnt - 1].header.fragment_len = total;
}

static void put_rest(void)
{
	uint32_t left = g.total - g.offset, n = left;
	uint8_t how = (uint8_t)take(1);

	if (!left)
		return;
	if (how & 0x80)
		n = 1 + left / 128 * (how & 0x7f);
	memset(put(SL_RPC_REQUEST, SL_RPC_BATCH | (n == left ? SL_RPC_LAST : 0), n), 'c', n);
	g.in[g.cnt - 1].header.id = g.id;
	g.in[g.cnt - 1].header.total_or_offset = g.offset;
	g.offset += n;
}

static void put_raw(void)
{
	uint32_t len = take(1);
	struct sl_rpc_header h;
	uint8_t *body = put(0, 0, len);

	copy((uint8_t *)&h, sizeof(h));
	h.version_type = (uint8_t)(SL_RPC_VERSION << 4 | h.version_type % 10);
	h.fragment_len = len;
	h.id = (h.id & 0xff) | (uint64_t)EPOCH << 48 | g.number;
	copy(body, len);
	/* As the transports do before they let it pass. */
	if (sl_message_check(&h, BULK) || h.version_type % 16 == SL_RPC_CREDIT)
		h.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING;
	g.in[g.cnt - 1].header = h;
}

static void put_small(enum step what, unsigned whom)
{
	struct sl_rpc_window w = {.id = 1 + whom % IDS};

	if (what == CANCEL) {
		memcpy(put(SL_RPC_CANCEL, SL_RPC_FIRST | SL_RPC_LAST, sizeof(w.id)), &w.id,
		       sizeof(w.id));
		return;
	}
	w.bytes = take(3);
	memcpy(put(SL_RPC_WINDOW, SL_RPC_FIRST | SL_RPC_LAST, sizeof(w)), &w, sizeof(w));
}

/* --- what the program does --- */

static void let_go(struct held *r)
{
	r->rq->own = NULL;
	r->rq = NULL;
}

static void say(struct held *r, enum step how)
{
	static uint8_t body[100 << 10];
	static const struct sl_header_arg header = {.name = "a", .value = "b", .value_len = 1};
	struct sl_reply_args a = {.body = body,
				  .body_len = how == REPLY ? take(2) & 0xff : take(2),
				  .headers = &header,
				  .header_cnt = take(1) & 1,
				  .more = how == MORE};
	struct sl_request_view *rq = r->rq;
	int rc;

	if (how != MORE)
		let_go(r);
	if (how != LEND) {
		rc = sl_reply(rq, &a);
	} else {
		rc = sl_reply_ref(rq, &a, on_given_back, NULL);
		lent += rc == 0;
	}
	/* It is open for one that cannot be: a piece of a message without bytes. */
	SL_CHECK(rc == 0 || rc == -EAGAIN || rc == -ECANCELED || rc == -ENOBUFS);
	if (how == MORE && rc == -ECANCELED)
		r->rq = NULL;
}

static void act(enum step how, unsigned whom)
{
	struct held *r = NULL;
	struct sl_request_view *rq;

	for (unsigned i = 0; i < HELD && !r; i++) {
		if (held[(whom + i) % HELD].rq)
			r = &held[(whom + i) % HELD];
	}
	if (!r)
		return;
	rq = r->rq;
	if (how == ERROR_) {
		let_go(r);
		SL_CHECK(sl_reply_error(rq, SL_RPC_INTERNAL) != -EINVAL);
	} else if (how == PAUSE && r->stream) {
		r->waits = true;
		sl_stream_pause(rq);
	} else if (how == RESUME && r->stream) {
		r->waits = false;
		sl_stream_resume(rq);
	} else if (how == TELL && (!r->stream || sl_stream_send_continue(rq) == -EINVAL)) {
		(void)sl_reply_interim(rq, &(struct sl_reply_args){.status = 103});
	} else if (how == REPLY || how == MORE || how == LEND) {
		say(r, how);
	}
}

/* Until nothing happens any more; of a gateway that has broken the rules nothing is read. */
static void poll_all(void)
{
	for (unsigned i = 0; i < 1000; i++) {
		unsigned before = g.next;

		if (sl_backend_poll(backend, 0) <= 0 && g.next == before)
			return;
	}
	SL_CHECK(!"it comes to an end");
}

static void run(void)
{
	while (at < end && g.cnt < MESSAGES) {
		uint8_t byte = *at++;
		enum step what = (enum step)(byte % 16);
		unsigned whom = byte / 16;

		switch (what) {
		case REQUESTS:
		case LIE: put_requests(what == LIE); break;
		case RAW: put_raw(); break;
		case GO_ON: put_rest(); break;
		case WINDOW:
		case CANCEL: put_small(what, whom); break;
		case POLL: poll_all(); break;
		default: act(what, whom); break;
		}
	}
	poll_all();
}

/* Runs the tick of each millisecond now. */
static void tick(void)
{
	backend->tick_ns = 0;
	(void)sl_backend_poll(backend, 0);
}

/* The gateway goes, the program answers what it has. */
static void finish(void)
{
	g.broken = true;
	for (unsigned i = 0; i < 100 && !g.closed; i++)
		tick();
	SL_CHECK(g.closed);
	for (unsigned i = 0; i < HELD; i++) {
		struct sl_request_view *rq = held[i].rq;

		if (!rq)
			continue;
		SL_CHECK(sl_request_cancelled(rq));
		let_go(&held[i]);
		(void)sl_reply_error(rq, SL_RPC_INTERNAL);
	}
	for (unsigned i = 0; i < 100 && backend->channel_cnt; i++)
		tick();
	SL_CHECK(!backend->channel_cnt && !backend->open_cnt && !backend->queue_cnt);
	SL_CHECK(!backend->request_mem.used && !backend->reply_mem.used && lent == given_back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	at = bytes;
	end = bytes + len;
	memset(&g, 0, sizeof(g));
	lent = given_back = 0;
	g.base = (struct sl_transport){.ops = &ops,
				       .fd = eventfd(0, EFD_CLOEXEC),
				       .copies = true,
				       .slot_len = SL_RPC_SLOT_SIZE,
				       .bulk_max = BULK,
				       .slice_min = BULK,
				       .rate_bps = 1000000000,
				       .peer_epoch = EPOCH};
	SL_CHECK(sl_be_channel_add(backend, &g.base));
	run();
	finish();
	for (unsigned i = 0; i < g.cnt; i++)
		free(g.in[i].body);
	close(g.base.fd);
	return 0;
}
