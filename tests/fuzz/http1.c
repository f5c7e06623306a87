/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -DMOCK_ABORT -Itests/support tests/support/mock_host.c
/* fuzz: dict=http1.dict */
/*
 * The HTTP/1 front under a hostile client and an unpredictable host. The first eight bytes choose
 * how the stream is cut and how the host behaves; the rest is the stream.
 *
 * 1. Whole and in pieces, with a plain host: the same requests and the same replies.
 * 2. Replies early, late, in parts, with short windows, aborts and drains. The mock host aborts on any
 *    breach of front.h; frames and buffers are counted at the end.
 */
#include "mock_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mock *m;
static uint32_t seed;

static uint32_t roll(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void must(bool ok, const char *what)
{
	if (!ok)
		mock_breach(what);
}

/* Offers one piece, in a frame if it fits into one. Returns how much was used. */
static size_t offer(const uint8_t *p, size_t len, bool frame)
{
	struct sl_chunk c = {.ptr = p, .len = len};
	uint8_t *flush = NULL;
	size_t used;

	if (frame && len <= m->umem.frame_size)
		c.frame = sl_frame_get(&m->umem, SL_FRAME_HELD, 0);
	if (c.frame) {
		c.ptr = c.frame->data;
		memcpy(c.frame->data, p, len);
	} else {
		flush = malloc(len); /* so that a read beyond it is seen */
		memcpy(flush, p, len);
		c.ptr = flush;
	}
	used = mock_chunk(m, &c);
	must(used <= len, "used more than offered");
	if (c.frame)
		sl_frame_put(&m->umem, c.frame);
	free(flush);
	return used;
}

/* Removes interim answers: whether they are sent depends on the cut. */
static size_t without_interim(char *out, size_t len)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	size_t n = sizeof(text) - 1, to = 0;

	for (size_t i = 0; i < len;) {
		if (len - i >= n && !memcmp(out + i, text, n))
			i += n;
		else
			out[to++] = out[i++];
	}
	return to;
}

static void compare_cuts(const uint8_t *p, size_t len)
{
	static char log[MOCK_LOG], out[MOCK_OUT];
	size_t log_len, out_len, closed, at;

	mock_open(m);
	at = len ? offer(p, len, false) : 0;
	must(at == len, "plain host: all is used");
	mock_eof(m);
	closed = m->closed;
	memcpy(log, m->log, log_len = m->log_len);
	memcpy(out, m->out, m->out_len);
	out_len = without_interim(out, m->out_len);
	must(!mock_shut(m), "whole");

	mock_open(m);
	for (at = 0; at < len;) {
		size_t n = 1 + roll(roll(2) ? 4 : 400);

		if (n > len - at)
			n = len - at;
		must(offer(p + at, n, false) == n, "plain host: all is used");
		at += n;
	}
	mock_eof(m);
	must(m->closed == closed, "cut: closed");
	must(m->log_len == log_len && !memcmp(m->log, log, log_len), "cut: same requests");
	m->out_len = without_interim(m->out, m->out_len);
	must(m->out_len == out_len && !memcmp(m->out, out, out_len), "cut: same replies");
	must(!mock_shut(m), "cut");
}

static void poke(void)
{
	struct mock_stream *s = mock_find(m, roll(m->begun + 1));

	switch (roll(8)) {
	case 0:
	case 1:
		if (s)
			mock_answer(s);
		break;
	case 2:
		if (s)
			mock_go_on(s, !roll(4));
		break;
	case 3:
		m->room = roll(4) ? roll(20000) : SIZE_MAX;
		mock_writable(m);
		break;
	case 4: m->body_max = roll(3) ? SIZE_MAX : roll(50); break;
	case 5:
		m->peek_max = roll(2) ? SIZE_MAX : 1 + roll(20);
		if (s && !s->answered && !s->answer_due && !roll(4))
			mock_break(s, (enum sl_outcome)(SL_OUTCOME_NO_ROUTE + roll(10)));
		break;
	case 6: m->answer = (enum mock_answer)roll(4); break;
	default:
		if (!roll(40))
			mock_drain(m);
		break;
	}
}

static void moody_host(const uint8_t *options, const uint8_t *p, size_t len)
{
	static const char body[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	size_t at = 0;

	mock_open(m);
	m->limits.max_pipeline = 1 + options[4] % 8;
	m->reply.status = (uint16_t)(options[5] < 200 ? 200 : options[5] + 50);
	m->reply_body = sl_span_of(body, options[6] % sizeof(body));
	m->reply.body_len = options[7] & 1 ? SL_LEN_UNKNOWN : roll(2) * 4;
	m->in_parts = options[7] & 2;
	m->take_frames = options[7] & 4;
	m->exhausted = options[7] & 8 ? 3 : 0;
	m->echo = options[7] & 16;
	m->env.heads = options[7] & 32 ? NULL : &m->heads;
	m->answer = (enum mock_answer)roll(4);
	m->parts = options[4] & 128;
	for (unsigned stuck = 0; at < len && stuck < 50; stuck++) {
		size_t n = 1 + roll(roll(3) ? 1460 : 20);
		size_t used = offer(p + at, n < len - at ? n : len - at, roll(2));

		at += used;
		if (used)
			stuck = 0;
		poke();
	}
	if (roll(2))
		mock_eof(m);
	else if (roll(2))
		mock_timeout(m);
	else if (roll(2))
		mock_gone(m);
	m->room = SIZE_MAX;
	for (unsigned i = 0; i < 100; i++)
		poke();
	m->room = SIZE_MAX;
	mock_writable(m);
	must(!mock_shut(m), "moody");
	m->env.heads = &m->heads;
	sl_front_limits_default(&m->limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!m)
		m = mock_new(&sl_front_http1);
	if (size < 8)
		return 0;
	memcpy(&seed, data, sizeof(seed));
	m->upgrades = data[7] & 64;
	m->agrees = data[7] & 128;
	compare_cuts(data + 8, size - 8);
	moody_host(data, data + 8, size - 8);
	return 0;
}
