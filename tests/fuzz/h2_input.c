/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -DMOCK_ABORT -Itests/support tests/support/mock_host.c
/* fuzz: max_len=8192 */
/*
 * The HTTP/2 front under a hostile client and a moody host. The first eight bytes choose how the
 * stream is cut and how the host behaves; then frames follow, behind a good preface in most runs.
 * The mock host aborts on any breach of front.h; frames, streams and memory are counted at the end.
 */
#include "base/err.h"
#include "front/grpc/descriptors.h"
#include "front/h2/h2.h"
#include "mock_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The preface and a SETTINGS frame, whose last byte is the literal's end. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
_Static_assert(sizeof(preface) == 24 + 9, "preface and frame");
static struct mock *m;
static struct sl_h2_env *env;
static uint32_t seed;

static bool serves;

static enum sl_serving serving(void *arg, enum sl_asked what, struct sl_span name)
{
	(void)arg, (void)what;
	if (name.len > 1)
		return SL_SERVING_UNKNOWN;
	return serves ? SL_SERVING_YES : SL_SERVING_NO;
}

static uint32_t roll(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static size_t offer(const uint8_t *p, size_t len)
{
	uint8_t *exact = malloc(len); /* so that a read beyond it is seen */
	struct sl_chunk c = {.ptr = exact, .len = len};
	size_t used;

	memcpy(exact, p, len);
	if (len <= m->umem.frame_size && roll(2))
		c.frame = sl_frame_get(&m->umem, SL_FRAME_HELD, 0);
	if (c.frame) {
		memcpy(c.frame->data, p, len);
		c.ptr = c.frame->data;
	}
	used = mock_chunk(m, &c);
	MOCK_MUST(used <= len);
	if (c.frame)
		sl_frame_put(&m->umem, c.frame);
	free(exact);
	return used;
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
	case 4: m->body_max = roll(3) ? SIZE_MAX : 1 + roll(50); break;
	case 5:
		m->peek_max = roll(2) ? SIZE_MAX : 1 + roll(20);
		if (s && !s->answered && !s->answer_due && !roll(4))
			mock_break(s, (enum sl_outcome)(SL_OUTCOME_NO_ROUTE + roll(10)));
		break;
	case 6: m->answer = (enum mock_answer)roll(4); break;
	default:
		if (roll(2)) {
			serves = roll(2);
			sl_h2_env_serving_changed(env);
		} else if (!roll(20)) {
			mock_drain(m);
		}
		break;
	}
}

static void choose(const uint8_t *options)
{
	static const char body[] = "0123456789abcdefghijklmnopqrstuvwxyz";

	m->reply.status = (uint16_t)(options[4] < 200 ? 200 : options[4] + 50);
	m->reply.grpc_status = options[5] % 20;
	m->reply_body = sl_span_of(body, options[6] % sizeof(body));
	m->reply.body_len = options[7] & 1 ? SL_LEN_UNKNOWN : roll(2) * 4;
	m->in_parts = options[7] & 2;
	m->take_frames = options[7] & 4;
	m->exhausted = options[7] & 8 ? 3 : 0;
	m->echo = options[7] & 16;
	m->env.heads = options[7] & 32 ? NULL : &m->heads;
	m->limits.upgrades = m->upgrades = options[7] & 128;
	m->agrees = roll(2);
	m->parts = options[5] & 128;
	m->answer = (enum mock_answer)roll(4);
}

static void talk(const uint8_t *options, const uint8_t *p, size_t len)
{
	mock_open(m);
	choose(options);
	if (!(options[7] & 64))
		offer((const uint8_t *)preface, sizeof(preface));
	for (size_t at = 0, stuck = 0; at < len && stuck < 50; stuck++) {
		size_t n = 1 + roll(roll(3) ? 1460 : 20);
		size_t used = offer(p + at, n < len - at ? n : len - at);

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
	for (unsigned i = 0; i < 50; i++)
		poke();
	m->room = SIZE_MAX;
	mock_writable(m);
	MOCK_MUST(!mock_shut(m));
	m->env.heads = &m->heads;
}

/* a.proto, with a message M and a service S. */
static const char set[] = "\x0a\x19\x0a\x07"
			  "a.proto"
			  "\x22\x03\x0a\x01M"
			  "\x32\x09\x0a\x01S\x12\x04\x0a\x02"
			  "Do";

static void set_up(void)
{
	struct sl_err err = SL_ERR(400);
	struct sl_h2_config cfg;

	m = mock_new(&sl_front_h2);
	sl_h2_config_default(&cfg);
	cfg.max_connections = 4;
	cfg.max_streams = 64;
	cfg.max_calls = 16;
	cfg.memory = 16u << 20;
	m->limits.max_message = 4096;
	env = sl_h2_env_create(&cfg, &m->limits);
	if (!env)
		abort();
	m->env.h2 = env;
	m->env.serving = serving;
	m->env.descriptors = sl_descriptors_parse(sl_span_of(set, sizeof(set) - 1), &err);
	if (!m->env.descriptors)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_h2_stats s;

	if (!m)
		set_up();
	if (size < 8)
		return 0;
	memcpy(&seed, data, sizeof(seed));
	m->now_ns += 60000000000;
	talk(data, data + 8, size - 8);
	sl_h2_env_stats(env, &s);
	MOCK_MUST(!s.connections && !s.streams && !s.calls && !s.memory);
	return 0;
}
