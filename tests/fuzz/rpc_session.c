/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=1024 */
// FUZZ_LDFLAGS: -Itests/support tests/support/fake_port.c
/*
 * Backends that lie to the gateway: a whole core (tests/support/core_bed.h) with three of them and
 * eight clients. The input chooses what the backends send, when, about which request, in which
 * pieces and order. It also chooses how far they read, when they die, and when their links migrate
 * to another transport.
 *
 * Clients 0 to 3 use pool "echo" (a, b), clients 4 to 7 pool "other" (o). Payloads of backend i are
 * made of the byte 0xa0 + i, and all other bytes are below 0x80. A client that gets bytes of
 * another pool's backend is therefore found. Each client's bytes must be whole HTTP/1.1 responses,
 * at most as many as it has requests. Debug checks find frames that are freed while a send reads
 * them; ASan finds exchanges and frames that are used after free.
 *
 * Input: steps. A byte tells the kind (low four bits) and the backend or client (high four bits),
 * then its arguments; missing bytes are 0.
 */
#include "../support/core_bed.h"

enum { OPEN = 4, ENTRIES = 3, HEAD_MAX = 64 << 10, MARK = 0xa0 };

struct reader {
	const uint8_t *p;
	size_t left;
};

/* A response message of which some pieces were sent. */
struct open_message {
	struct sl_rpc_header h;
	uint8_t *body;
	uint32_t total, off;
};

enum hearing { IN_HEAD, IN_BODY, IN_CHUNK_LINE, IN_CHUNK, IN_CHUNK_END, IN_TRAILER, TO_CLOSE };

struct event_listener {
	enum hearing state;
	uint64_t left;
	unsigned asked, answered;
	bool last_chunk;
	size_t head_len;
	char head[HEAD_MAX + 1];
};

static struct open_message open_messages[BED_BACKENDS][OPEN];
static bool by_other[BED_BACKENDS]; /* transport that a backend sends by now */
static struct event_listener listeners[BED_CLIENTS];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static uint8_t get8(struct reader *r)
{
	if (!r->left)
		return 0;
	r->left--;
	return *r->p++;
}

static uint32_t get(struct reader *r, unsigned bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | get8(r);
	return v;
}

/* --- what clients hear --- */

static const char *find_field(const struct event_listener *l, const char *name)
{
	const char *at = strcasestr(l->head, name);

	return at ? at + strlen(name) : NULL;
}

static void head_is_whole(struct event_listener *l)
{
	const char *len;
	int status;

	bed_require(strncmp(l->head, "HTTP/1.1 ", 9) == 0);
	status = atoi(l->head + 9);
	bed_require(status >= 100 && status <= 599);
	l->state = IN_HEAD;
	if (status >= 200)
		bed_require(++l->answered <= l->asked);
	if (status < 200 || status == 204 || status == 304) {
		l->head_len = 0;
		return;
	}
	len = find_field(l, "\r\ncontent-length: ");
	l->left = len ? strtoull(len, NULL, 10) : 0;
	if (find_field(l, "\r\ntransfer-encoding: chunked"))
		l->state = IN_CHUNK_LINE;
	else if (!len)
		l->state = TO_CLOSE;
	else if (l->left)
		l->state = IN_BODY;
	l->head_len = 0;
}

/* Collects a line, or a head up to its empty line; true when it is whole. */
static bool collect(struct event_listener *l, uint8_t b, const char *end)
{
	size_t n = strlen(end);

	bed_require(b < 0x80 && l->head_len < HEAD_MAX);
	l->head[l->head_len++] = (char)b;
	l->head[l->head_len] = '\0';
	return l->head_len >= n && memcmp(l->head + l->head_len - n, end, n) == 0;
}

static void chunk_line(struct event_listener *l)
{
	char *end;

	l->left = strtoull(l->head, &end, 16);
	bed_require(end != l->head && *end == '\r');
	l->head_len = 0;
	l->state = l->left ? IN_CHUNK : IN_TRAILER;
}

static void hear_byte(struct event_listener *l, uint8_t b)
{
	switch (l->state) {
	case IN_HEAD:
		if (collect(l, b, "\r\n\r\n"))
			head_is_whole(l);
		break;
	case IN_BODY:
		if (!--l->left)
			l->state = IN_HEAD;
		break;
	case IN_CHUNK_LINE:
		if (collect(l, b, "\r\n"))
			chunk_line(l);
		break;
	case IN_CHUNK:
		if (!--l->left)
			l->state = IN_CHUNK_END;
		break;
	case IN_CHUNK_END:
		if (collect(l, b, "\r\n")) {
			bed_require(l->head_len == 2);
			l->head_len = 0;
			l->state = IN_CHUNK_LINE;
		}
		break;
	case IN_TRAILER:
		if (collect(l, b, "\r\n")) {
			if (l->head_len == 2)
				l->state = IN_HEAD;
			l->head_len = 0;
		}
		break;
	case TO_CLOSE: break;
	}
}

static void turns(unsigned n, uint64_t step_ns)
{
	while (n--) {
		bed_turn(step_ns);
		for (unsigned i = 0; i < BED_CLIENTS; i++) {
			struct bed_client *cl = &bed.clients[i];

			for (size_t k = 0; k < cl->heard_len; k++) {
				uint8_t b = cl->heard[k];

				bed_require(b < 0x80 || b == MARK + 2 || i < 4);
				bed_require(b < 0x80 || b != MARK + 2 || i >= 4);
				hear_byte(&listeners[i], b);
			}
			cl->heard_len = 0;
		}
	}
}

/* --- clients --- */

static void step_open(unsigned i)
{
	if (bed.clients[i].open)
		return;
	bed_open(i);
	listeners[i].state = IN_HEAD;
	listeners[i].head_len = 0;
	listeners[i].asked = listeners[i].answered = 0;
}

/* A request, of which `said` bytes of the body come now. */
static void step_ask(struct reader *r, unsigned i)
{
	static const uint32_t lens[] = {0, 1, 100, 3000, 9000, 40000};
	static uint8_t body[40000];
	uint8_t how = get8(r);
	uint32_t len = lens[(how & 7) % SL_ARRAY_LEN(lens)], said = how & 8 ? len / 2 : len;
	char head[160];
	int n = snprintf(head, sizeof(head),
			 "%s /%c%s HTTP/1.%c\r\nHost: x\r\nContent-Length: %u\r\n%s\r\n",
			 how & 16 ? "PUT" : "POST", i < 4 ? 'e' : 'o', how & 32 ? "?q=1" : "",
			 how & 64 ? '0' : '1', len, how & 128 ? "Expect: 100-continue\r\n" : "");

	step_open(i);
	if (!bed.clients[i].open || listeners[i].asked > listeners[i].answered + 8)
		return;
	listeners[i].asked++;
	memset(body, 'a' + (int)i, sizeof(body));
	bed_say(i, head, (size_t)n);
	bed_say(i, body, said);
}

static void step_more_body(struct reader *r, unsigned i)
{
	static uint8_t body[16 << 8];

	if (!bed.clients[i].open)
		return;
	/* It may be taken for a request: then it is a bad one, and answered. */
	listeners[i].asked++;
	memset(body, 'a' + (int)i, sizeof(body));
	bed_say(i, body, get8(r) * 16u);
}

/* --- backends --- */

static struct bed_backend *way(unsigned k)
{
	return by_other[k] ? &bed.others[k] : &bed.backends[k];
}

static uint64_t choose_id(struct reader *r, unsigned k)
{
	uint8_t how = get8(r);
	const struct bed_backend *be = way(how & 0x40 ? (k + 1) % BED_BACKENDS : k);
	uint64_t id = be->ids[(be->id_cnt - 1 - (how & 15)) % BED_IDS];

	if (how & 0x10)
		id += UINT64_C(1) << 48; /* the next one in its place */
	if (how & 0x20)
		id++;
	return how & 0x80 ? get8(r) : id;
}

static uint32_t put_field(uint8_t *to, uint16_t tag, const char *text, uint32_t len)
{
	sl_put_le16(to, tag);
	sl_put_le16(to + 2, (uint16_t)len);
	memcpy(to + 4, text, len);
	return 4 + len;
}

/* Nothing, fields that are right, or bytes of the input. */
static uint32_t put_meta(struct reader *r, uint8_t *to)
{
	static const char codes[] =
		"\xc8\x00\xcc\x00\x30\x01\x64\x00\xf4\x01\x65\x00\x67\x00\xc7\x00";
	uint8_t how = get8(r);
	uint32_t n = 0;

	if (how & 1)
		n += put_field(to + n, SL_META_CONTENT_TYPE, "text/plain", 10);
	if (how & 2)
		n += put_field(to + n, SL_META_STATUS, codes + 2 * (how >> 5), 2);
	if (how & 4)
		n += put_field(to + n, SL_META_HEADER, "\x03x-avalue", 9);
	if (how & 8)
		n += put_field(to + n, SL_META_TRAILER, "\x03x-tvalue", 9);
	for (unsigned i = how & 16 ? get8(r) & 31 : 0; i; i--)
		to[n++] = get8(r) & 0x7f;
	return n;
}

static uint32_t choose_len(struct reader *r)
{
	static const uint32_t lens[] = {0, 1, 7, 8, 100, 4000, 5000, 20000};

	return lens[get8(r) & 7];
}

/* A response to some requests, and how its lengths lie; its pieces come by step_pieces(). */
static void step_response(struct reader *r, unsigned k)
{
	struct open_message *m = &open_messages[k][get8(r) % OPEN];
	uint8_t how = get8(r);
	uint16_t cnt = (uint16_t)(1 + how % ENTRIES);
	uint32_t at = cnt * (uint32_t)sizeof(struct sl_rpc_entry);
	struct sl_rpc_entry e;

	free(m->body);
	m->body = calloc(1, BED_BODY);
	for (unsigned i = 0; i < cnt; i++) {
		uint8_t flags = get8(r);

		e = (struct sl_rpc_entry){.id = choose_id(r, k), .flags = flags & 7};
		e.rest = flags & 0x10 ? get(r, 2) : 0;
		if ((flags & 0x1f) == 0x0a)
			e.flags |= SL_ENTRY_GO_ON;
		e.status = flags & 0x80 ? get8(r) : 0;
		e.time_us = e.together = flags;
		e.meta_len = (uint16_t)put_meta(r, m->body + at);
		e.len = e.status && !(flags & 0x40) ? 0 : choose_len(r);
		if (e.status && !(flags & 0x40))
			e.flags &= (uint8_t)~SL_ENTRY_MORE;
		at += (uint32_t)sl_rpc_pad8(e.meta_len);
		memset(m->body + at, MARK + (int)k, e.len);
		at += (uint32_t)sl_rpc_pad8(e.len);
		if (flags & 0x20)
			e.len += get8(r);
		memcpy(m->body + i * sizeof(e), &e, sizeof(e));
	}
	m->total = at;
	m->off = 0;
	m->h = bed_header(SL_RPC_RESPONSE, cnt, 1 + (how >> 4), at);
	m->h.time_us = how;
	if (how & 8)
		m->h.total_or_offset += (uint32_t)(int8_t)get8(r);
}

static void step_pieces(struct reader *r, unsigned k)
{
	uint8_t how = get8(r);
	struct open_message *m = &open_messages[k][how % OPEN];
	uint32_t most = how & 0x80 ? 16u << (how >> 4 & 7) : 1u << 20;

	for (unsigned n = 1 + (how >> 2 & 3); n && m->body && m->off < m->total; n--) {
		struct sl_rpc_header h = m->h;
		uint32_t len = m->total - m->off < most ? m->total - m->off : most;

		len = len < (16 << 10) ? len : 16 << 10;
		h.flags = (uint8_t)(SL_RPC_BATCH | (m->off ? 0 : SL_RPC_FIRST) |
				    (m->off + len == m->total ? SL_RPC_LAST : 0));
		h.fragment_len = len;
		if (m->off)
			h.total_or_offset = m->off;
		if (!bed_message(way(k), &h, m->body + m->off))
			return;
		m->off += len;
	}
}

/* Any header, with a body of that length. Transports check version, type and length. */
static void step_raw(struct reader *r, unsigned k)
{
	uint8_t body[256];
	struct sl_rpc_header h = {
		.version_type =
			(uint8_t)(SL_RPC_VERSION << 4 | (SL_RPC_REQUEST + get8(r) % SL_RPC_READY)),
		.flags = get8(r),
		.priority = get8(r),
		.status = get8(r),
		.count = (uint16_t)get(r, 1),
		.fragment_len = get8(r),
		.total_or_offset = get(r, 3),
		.id = (uint64_t)(BED_EPOCH + (get8(r) & 1)) << 48 | get8(r),
	};

	if ((h.version_type & 15) == SL_RPC_CREDIT)
		return;
	for (unsigned i = 0; i < h.fragment_len; i++)
		body[i] = get8(r) & 0x7f;
	(void)bed_message(way(k), &h, body);
}

static void step_control(struct reader *r, unsigned k)
{
	static const uint8_t types[] = {SL_RPC_PING, SL_RPC_PONG, SL_RPC_GOAWAY, SL_RPC_MIGRATE};
	uint8_t how = get8(r);
	struct sl_rpc_header h = bed_header(types[how & 3], 0, how, 0);

	for (unsigned n = 1 + (how >> 2); n; n--)
		(void)bed_message(way(k), &h, NULL);
}

/* Credit for requests that are open, and for some that are not. */
static void step_window(struct reader *r, unsigned k)
{
	struct sl_rpc_window w[3];
	uint16_t cnt = (uint16_t)(1 + get8(r) % 3);
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, cnt, 1, cnt * (uint32_t)sizeof(w[0]));

	for (unsigned i = 0; i < cnt; i++)
		w[i] = (struct sl_rpc_window){.id = choose_id(r, k), .bytes = get(r, 4)};
	(void)bed_message(way(k), &h, (const uint8_t *)w);
}

static void drop_messages(unsigned k)
{
	for (unsigned i = 0; i < OPEN; i++) {
		free(open_messages[k][i].body);
		open_messages[k][i].body = NULL;
	}
}

static void step_connect(struct reader *r, unsigned k)
{
	uint8_t how = get8(r);

	if (bed.backends[k].up || bed.others[k].up) {
		way(k)->broken = how & 1 ? -ENOTCONN : -EPROTO;
		return;
	}
	drop_messages(k);
	by_other[k] = false;
	bed_connect(k, how & 2);
}

/* The backend says what it says by the other way, which is made first if there is none. */
static void step_move(struct reader *r, unsigned k)
{
	uint8_t how = get8(r);

	by_other[k] = !by_other[k];
	if (!way(k)->up && how & 1)
		bed_move(k, way(k), how & 2);
}

static void step(struct reader *r)
{
	static const uint64_t times[] = {1000, 100000, 5000000, 300000000, 2000000000};
	uint8_t op = get8(r), arg;
	unsigned cl = op >> 4 & 7, k = (op >> 4) % BED_BACKENDS;

	switch (op & 15) {
	case 0: step_open(cl); break;
	case 1:
	case 2: step_ask(r, cl); break;
	case 3: step_more_body(r, cl); break;
	case 4: bed_segment(cl, op & 0x80 ? BED_RST | BED_ACK : BED_FIN | BED_ACK, NULL, 0); break;
	case 5:
		arg = get8(r);
		turns(1 + (arg & 7), times[(arg >> 3) % SL_ARRAY_LEN(times)]);
		break;
	case 6: way(k)->room = get8(r); break;
	case 7: bed_complete(way(k), get8(r)); break;
	case 8: step_connect(r, k); break;
	case 9:
	case 10: step_response(r, k); /* fall through */
	case 11: step_pieces(r, k); break;
	case 12: step_raw(r, k); break;
	case 13: step_control(r, k); break;
	case 14: step_window(r, k); break;
	default:
		if (op & 0x80)
			step_move(r, k);
		turns(1, times[1]);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static bool begun;
	struct reader r = {bytes, len};

	/* Once: what is left behind by an input shows in bed_settle(). */
	if (!begun)
		bed_begin();
	begun = true;
	memset(listeners, 0, sizeof(listeners));
	for (unsigned i = 0; i < BED_CLIENTS; i++)
		bed.clients[i].heard_len = 0;
	for (unsigned k = 0; k < BED_BACKENDS; k++) {
		uint8_t how = get8(&r);

		/* Two routes: of the last backend, and of the others. */
		bed.cfg->routes[k / 2].stream = how & 4;
		bed.cfg->routes[k / 2].backend_continues = (how & 12) == 12;
		by_other[k] = false;
		bed_connect(k, how & 1);
	}
	while (r.left)
		step(&r);
	turns(3, 100000);
	for (unsigned k = 0; k < BED_BACKENDS; k++)
		drop_messages(k);
	bed_settle();
	return 0;
}
