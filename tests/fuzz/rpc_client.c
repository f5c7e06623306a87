/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=1024 */
/*
 * Servers that lie to the client library. The transport is made of the input: what arrives, about
 * which call, in which pieces, and when the connection ends. Between that, the program begins,
 * cancels, pauses and continues calls and streams.
 *
 * Each call ends exactly once, with an error of sluice/client.h; a collected reply is at most
 * `max_reply` long; on_data is not called after the end. Received bytes are freed when they are
 * released, so ASan finds later uses.
 *
 * Input: steps. A byte tells the kind (low four bits) and a number (high four bits), then its
 * arguments; missing bytes are 0.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "rpc/transport.h"
#include "sdk/client/internal.h"

enum { CALLS = 64, QUEUED = 64, IDS = 16, REPLY_MAX = 1 << 16, SLOTS = 64, BULK = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const uint8_t *at;
static size_t left;

static uint8_t get8(void)
{
	if (!left)
		return 0;
	left--;
	return *at++;
}

static uint32_t get(unsigned bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | get8();
	return v;
}

/* --- transport --- */

struct wire {
	struct sl_transport base;
	struct sl_message queue[QUEUED];
	unsigned head, tail;
	int error;
};

static struct wire *wire; /* NULL: closed */
static uint64_t ids[IDS]; /* of requests that were sent */
static unsigned id_cnt;

static void note_ids(const struct sl_rpc_header *h, const struct sl_span *spans)
{
	const struct sl_rpc_entry *e = (const struct sl_rpc_entry *)(const void *)spans[0].ptr;

	if ((h->version_type & 15) != SL_RPC_REQUEST || !(h->flags & SL_RPC_FIRST))
		return;
	for (unsigned i = 0; i < h->count && (i + 1) * sizeof(*e) <= spans[0].len; i++)
		ids[id_cnt++ % IDS] = e[i].id;
}

static int wire_post(struct sl_transport *t, const struct sl_rpc_header *h,
		     const struct sl_span *spans, unsigned span_cnt, uint64_t cookie)
{
	(void)t, (void)cookie;
	if (span_cnt)
		note_ids(h, spans);
	return 0;
}

static void wire_nothing(struct sl_transport *t)
{
	(void)t;
}

static int wire_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct wire *w = (struct wire *)t;
	unsigned n = 0;

	while (n < max && w->head != w->tail)
		msgs[n++] = w->queue[w->head++ % QUEUED];
	return n ? (int)n : w->error;
}

static void wire_release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t;
	free((void *)(uintptr_t)m->body);
}

static unsigned wire_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	(void)t, (void)cookies, (void)max;
	return 0;
}

static uint32_t wire_window(const struct sl_transport *t)
{
	return t->bulk_max;
}

static bool wire_arm(struct sl_transport *t, bool want_room)
{
	const struct wire *w = (const struct wire *)t;

	(void)want_room;
	return w->head == w->tail && !w->error;
}

static int wire_check(struct sl_transport *t)
{
	return ((struct wire *)t)->error;
}

static void wire_close(struct sl_transport *t)
{
	struct wire *w = (struct wire *)t;

	while (w->head != w->tail)
		free((void *)(uintptr_t)w->queue[w->head++ % QUEUED].body);
	close(t->fd);
	free(w);
	wire = NULL;
}

static const struct sl_transport_ops wire_ops = {
	.name = "fuzz",
	.post = wire_post,
	.flush = wire_nothing,
	.poll = wire_poll,
	.release = wire_release,
	.sent = wire_sent,
	.window = wire_window,
	.progress = wire_nothing,
	.arm = wire_arm,
	.disarm = wire_nothing,
	.check = wire_check,
	.close = wire_close,
};

static void connect_wire(struct sl_rpc_client *c)
{
	struct client_server *s = sl_list_first(&c->servers, struct client_server, node);

	if (sl_rpc_channel_state(s->channel) != SL_RPC_DOWN)
		return;
	wire = calloc(1, sizeof(*wire));
	SL_CHECK(wire != NULL);
	wire->base = (struct sl_transport){.ops = &wire_ops,
					   .fd = eventfd(0, EFD_CLOEXEC),
					   .copies = true,
					   .slot_len = SL_RPC_SLOT_SIZE,
					   .bulk_max = BULK / 4,
					   .slice_min = 4096};
	SL_CHECK(wire->base.fd >= 0);
	sl_credits_init(&wire->base.credits, SLOTS, SLOTS, BULK);
	id_cnt = 0;
	SL_CHECK(sl_rpc_adopt(s->channel, &wire->base, sl_now_ns()) == 0);
}

static void arrive(struct sl_rpc_header h, const void *body, uint32_t len)
{
	uint8_t *copy = malloc(len + !len);

	h.version_type |= SL_RPC_VERSION << 4;
	h.fragment_len = len;
	if (!wire || wire->tail - wire->head == QUEUED ||
	    sl_message_check(&h, wire->base.bulk_max)) {
		free(copy);
		return;
	}
	if (len)
		memcpy(copy, body, len);
	wire->queue[wire->tail++ % QUEUED] = (struct sl_message){.header = h, .body = copy};
}

/* --- what the server sends --- */

static void send_raw(unsigned number)
{
	uint8_t body[256];
	struct sl_rpc_header h = {.version_type = (uint8_t)(number % 11 + 1), .flags = get8()};
	uint32_t len = get8();

	h.count = get8();
	h.priority = get8() % SL_CLASS_CNT;
	h.status = get8();
	h.total_or_offset = get(2);
	h.id = get(2);
	for (uint32_t i = 0; i < len; i++)
		body[i] = get8();
	arrive(h, body, len);
}

/* One entry in one message, or in two. */
static void send_reply(unsigned number)
{
	static uint8_t body[sizeof(struct sl_rpc_entry) + 2048 + (1 << 16)];
	uint8_t meta_len = get8(), flags = get8();
	uint32_t len = get(2) % (1 << 16), padded, cut;
	struct sl_rpc_entry e = {.id = ids[number % IDS],
				 .len = len,
				 .rest = flags & 0x80 ? get(3) : 0,
				 .meta_len = meta_len,
				 .status = flags & 0x40 ? get8() % 12 : 0,
				 .flags = (uint8_t)(get8() & ~SL_ENTRY_STREAM)};
	struct sl_rpc_header h = {.version_type = SL_RPC_RESPONSE, .count = 1};

	memcpy(body, &e, sizeof(e));
	memset(body + sizeof(e), 0, 2048);
	for (uint32_t i = 0; i < meta_len; i++)
		body[sizeof(e) + i] = get8();
	padded = (uint32_t)(sizeof(e) + sl_rpc_pad8(meta_len) + sl_rpc_pad8(len));
	h.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST;
	h.total_or_offset = padded;
	h.id = get(1);
	cut = flags & 1 ? get(2) % padded : padded;
	if (cut < padded) {
		h.flags = SL_RPC_BATCH | SL_RPC_FIRST;
		arrive(h, body, cut);
		h.flags = SL_RPC_BATCH | (flags & 2 ? 0 : SL_RPC_LAST);
		h.total_or_offset = cut;
	}
	arrive(h, body + (cut < padded ? cut : 0), cut < padded ? padded - cut : padded);
}

static void send_window(unsigned number)
{
	struct sl_rpc_window w = {.id = ids[number % IDS], .bytes = get(4)};
	struct sl_rpc_header h = {.version_type = SL_RPC_WINDOW, .count = 1};

	h.flags = SL_RPC_FIRST | SL_RPC_LAST;
	h.total_or_offset = sizeof(w);
	arrive(h, &w, sizeof(w));
}

static void send_away(unsigned number)
{
	struct sl_rpc_header h = {.version_type = number & 1 ? SL_RPC_GOAWAY : SL_RPC_READY,
				  .id = number & 2 ? SL_GOAWAY_STAYS : 0};

	h.flags = SL_RPC_FIRST | SL_RPC_LAST;
	arrive(h, NULL, 0);
}

/* --- the program --- */

static unsigned calls[CALLS]; /* 0: not begun, 1: open, 2: ended */
static uint64_t numbers[CALLS];
static unsigned call_cnt;

static void on_data(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
		    const void *bytes, size_t len, size_t rest)
{
	const unsigned *number = user_data;
	uint8_t sum = 0;

	(void)call, (void)rest;
	SL_CHECK(*number == 1 && reply->error == 0);
	for (size_t i = 0; i < len; i++)
		sum ^= ((const uint8_t *)bytes)[i];
	(void)sum;
}

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	static const int errors[] = {0,           -EHOSTUNREACH, -EBUSY,    -ETIMEDOUT,
				     -ECONNRESET, -EPROTO,       -EBADMSG,  -ENOSYS,
				     -EMSGSIZE,   -EREMOTEIO,    -ECANCELED};
	unsigned *open = user_data;
	const char *value;
	bool known = false;
	size_t len;

	(void)call;
	SL_CHECK(*open == 1);
	*open = 2;
	for (unsigned i = 0; i < SL_ARRAY_LEN(errors); i++)
		known |= reply->error == errors[i];
	SL_CHECK(known && reply->body_len <= REPLY_MAX);
	if (!reply->error && sl_rpc_call_reply_header(reply, "a", &value, &len))
		SL_CHECK(len <= reply->meta_len);
}

static void begin_call(struct sl_rpc_client *c, unsigned number)
{
	unsigned *open = &calls[call_cnt];
	struct sl_rpc_call_args a = {.size = sizeof(a),
				     .path = "/",
				     .body = "body",
				     .body_len = number & 1 ? 0 : 4,
				     .idempotent = number & 2,
				     .stream = (number & 5) == 5,
				     .on_data = number & 4 ? on_data : NULL,
				     .priority = get8() % SL_CLASS_CNT,
				     .on_end = on_end,
				     .user_data = open};

	if (call_cnt == CALLS || sl_rpc_client_submit(c, &a, 1, &numbers[call_cnt]))
		return;
	*open = 1;
	call_cnt++;
}

static void step(struct sl_rpc_client *c)
{
	unsigned kind = get8(), number = kind >> 4;
	uint64_t call = call_cnt ? numbers[number % call_cnt] : 0;
	static const uint8_t message[3000];

	switch (kind & 15) {
	case 0: begin_call(c, number); break;
	case 1: send_raw(number); break;
	case 2:
	case 3:
	case 4: send_reply(number); break;
	case 5: send_window(number); break;
	case 6: send_away(number); break;
	case 7: sl_rpc_client_cancel(c, call); break;
	case 8: (void)sl_rpc_stream_send(c, call, message, get(2) % 3000, number & 8); break;
	case 9: sl_rpc_stream_pause(c, call); break;
	case 10: sl_rpc_stream_resume(c, call); break;
	case 11:
		if (wire)
			wire->error = number & 1 ? -EPROTO : -ECONNRESET;
		break;
	case 12: connect_wire(c); break;
	default: SL_CHECK(sl_rpc_client_process(c) >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct sl_rpc_client_options opt = {.size = sizeof(opt),
					    .endpoints = "shm:///nonexistent/fuzz",
					    .max_calls = CALLS,
					    .max_reply = REPLY_MAX,
					    .connect_timeout_ms = 1000,
					    .own_loop = true};
	char err[256];
	struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));

	SL_CHECK(c != NULL);
	sl_cl_connect_stop(c); /* this target connects by itself */
	memset(calls, 0, sizeof(calls));
	memset(ids, 0, sizeof(ids));
	call_cnt = 0;
	at = bytes;
	left = len;
	connect_wire(c);
	while (left)
		step(c);
	SL_CHECK(sl_rpc_client_process(c) >= 0);
	sl_rpc_client_close(c);
	for (unsigned i = 0; i < call_cnt; i++)
		SL_CHECK(calls[i] == 2);
	SL_CHECK(wire == NULL);
	return 0;
}
