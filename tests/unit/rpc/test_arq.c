/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams over datagrams: two ends and a network that loses, duplicates, delays and forges, by
 * seeds. Bytes come out at the other end once and in order. An end that does not read keeps no more
 * than its advertised window.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/check.h"
#include "base/rand.h"
#include "rpc/rdma/ud/arq.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/ud/ud_mac.h"
#include "suite.h"

#ifdef __SANITIZE_ADDRESS__ /* it is slow there, and the numbers are the same */
enum { SEEDS = 1 };
#else
enum { SEEDS = 4 };
#endif
enum { MTU_MAX = 4096, WIRE_MAX = 512, STEP_NS = 50000, US = 1000 };

struct packet {
	uint64_t at_ns; /* when it arrives */
	uint32_t len;
	uint8_t bytes[MTU_MAX];
};

struct wire {
	struct packet *packets; /* unused ones have no length */
	unsigned loss, doubles; /* per cent */
	uint64_t delay_ns;      /* up to so long */
	uint64_t carried;
	unsigned pending;
};

struct end {
	struct ud_arq f;
	struct ud_keys keys;
	struct wire out; /* towards the other one */
	uint64_t put, got, forged;
	uint32_t most; /* bytes of one put */
};

static struct sl_prng rng;
static uint64_t now_ns;

static bool percent(unsigned n)
{
	return sl_prng_below(&rng, 100) < n;
}

static uint8_t byte_of(uint64_t at)
{
	return (uint8_t)(at * 131 + (at >> 8));
}

static void begin_flow(struct ud_arq *f, uint32_t mtu, uint64_t number)
{
	ck_assert_int_eq(ud_arq_init(f, mtu), 0);
	f->una = f->sent = f->end = f->next = f->base = number;
	f->tx_edge = f->advertised_edge = number + f->window;
}

/* Two ends of one connection whose first datagram has that number. */
static void begin(struct end e[2], uint32_t mtu, uint64_t number, uint64_t seed)
{
	struct sl_psk s = sl_psk_of("of the tests only", 17);
	struct sl_wireup_crep a = {.magic = SL_WIREUP_MAGIC};

	now_ns = 1000000;
	sl_prng_seed(&rng, seed);
	for (unsigned i = 0; i < 2; i++) {
		e[i] = (struct end){.most = 6000};
		begin_flow(&e[i].f, mtu, number);
		ud_keys_derive(&s, &a, i == 0, &e[i].keys);
		e[i].out.packets = calloc(WIRE_MAX, sizeof(struct packet));
		ck_assert_ptr_nonnull(e[i].out.packets);
	}
}

static void finish(struct end e[2])
{
	for (unsigned i = 0; i < 2; i++) {
		ud_arq_fini(&e[i].f);
		free(e[i].out.packets);
	}
}

static void carry(struct wire *w, const void *bytes, uint32_t len)
{
	w->carried++;
	for (unsigned i = 0; i < WIRE_MAX; i++) {
		struct packet *p = &w->packets[i];

		if (p->len)
			continue;
		p->at_ns = now_ns + (w->delay_ns ? sl_prng_below(&rng, w->delay_ns) : 0);
		p->len = len;
		w->pending++;
		memcpy(p->bytes, bytes, len);
		return;
	}
}

static void send_one(struct end *e, struct ud_arq_out *o)
{
	uint8_t bytes[MTU_MAX];
	uint32_t len = (uint32_t)sizeof(o->header) + o->header.len;

	memcpy(bytes, &o->header, sizeof(o->header));
	if (o->header.len)
		memcpy(bytes + sizeof(o->header), o->bytes, o->header.len);
	ud_mac_write(&e->keys.out, bytes, len, o->number);
	if (!percent(e->out.loss))
		carry(&e->out, bytes, len);
	if (percent(e->out.doubles))
		carry(&e->out, bytes, len);
}

static void send_all(struct end *e)
{
	struct ud_arq_out o;

	ud_arq_push(&e->f);
	while (ud_arq_next(&e->f, now_ns, &o))
		send_one(e, &o);
}

/* Checks that bytes in order are as they were put. */
static void read_some(struct end *e)
{
	struct ud_arq *f = &e->f;

	ud_arq_deliver(f);
	while (f->rx_head < f->rx_tail)
		ck_assert_uint_eq(f->rx[f->rx_head++], byte_of(e->got++));
	f->rx_head = f->rx_tail = 0;
	ud_arq_deliver(f);
}

static void receive(struct end *e, struct packet *p)
{
	struct sl_ud_header h;
	uint64_t number;

	memcpy(&h, p->bytes, sizeof(h));
	number = ud_arq_number(&e->f, h.seq);
	if (ud_mac_ok(&e->keys.in, p->bytes, p->len, number))
		ck_assert_int_eq(ud_arq_input(&e->f, &h, p->bytes + sizeof(h), now_ns), 0);
	else
		e->forged++;
	ck_assert_uint_le(e->f.next - e->f.base, e->f.window);
}

static void deliver(struct wire *w, struct end *to)
{
	unsigned left = w->pending;

	for (unsigned i = 0; left; i++) {
		struct packet *p = &w->packets[i];

		left -= p->len != 0;
		if (p->len && p->at_ns <= now_ns) {
			receive(to, p);
			p->len = 0;
			w->pending--;
		}
	}
}

static void put_some(struct end *e, uint64_t until)
{
	uint8_t bytes[8192];
	uint32_t len = 1 + (uint32_t)sl_prng_below(&rng, e->most);

	if (len > until - e->put)
		len = (uint32_t)(until - e->put);
	if (!len || ud_arq_room(&e->f) < len)
		return;
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = byte_of(e->put++);
	ud_arq_write(&e->f, bytes, len);
}

static void step(struct end e[2], uint64_t until, unsigned reads)
{
	now_ns += STEP_NS;
	for (unsigned i = 0; i < 2; i++) {
		deliver(&e[!i].out, &e[i]);
		if (percent(reads))
			read_some(&e[i]);
		put_some(&e[i], until);
		ck_assert_int_eq(ud_arq_tick(&e[i].f, now_ns), 0);
		send_all(&e[i]);
	}
}

/* Checks that an idle end holds no memory. */
static void check_rests(const struct end *e)
{
	ck_assert(!e->f.tx && !e->f.ooo_buf && !e->f.rx);
}

/* Until both have all, and know that the other has. */
static void run(struct end e[2], uint64_t bytes, unsigned reads)
{
	for (unsigned i = 0; i < 2000000; i++) {
		if (e[0].got == bytes && e[1].got == bytes && ud_arq_idle(&e[0].f) &&
		    ud_arq_idle(&e[1].f)) {
			check_rests(&e[0]);
			check_rests(&e[1]);
			return;
		}
		step(e, bytes, reads);
	}
	ck_abort_msg("stuck at %lu and %lu of %lu bytes", e[0].got, e[1].got, bytes);
}

static const struct {
	unsigned loss, doubles;
	uint64_t delay_ns;
	uint32_t mtu;
	unsigned reads;
	uint64_t number;
} nets[] = {
	{0, 0, 0, 4096, 100, 0},
	{0, 0, 400 * US, 1024, 100, 0},
	{5, 0, 0, 4096, 100, 0},
	{5, 5, 400 * US, 1024, 50, 0},
	{5, 5, 2000 * US, 256, 20, UINT64_C(0xffffff80)},
	{30, 20, 1000 * US, 1024, 10, UINT64_C(0xffffff80)},
	{30, 0, 5000 * US, 4096, 100, UINT64_C(0x1ffffffd0)},
};

TEST_EACH(bytes_come_out_once_and_in_order, SL_ARRAY_LEN(nets) * SEEDS)
{
	size_t n = (size_t)_i / SEEDS;
	struct end e[2];

	begin(e, nets[n].mtu, nets[n].number, 1 + (uint64_t)_i);
	for (unsigned i = 0; i < 2; i++) {
		e[i].out.loss = nets[n].loss;
		e[i].out.doubles = nets[n].doubles;
		e[i].out.delay_ns = nets[n].delay_ns;
	}
	run(e, 150000, nets[n].reads);
	ck_assert_uint_eq(e[0].forged + e[1].forged, 0);
	finish(e);
}

/* Without loss nothing is sent twice, and acknowledgements are fewer than datagrams. */
TEST(a_quiet_network_carries_nothing_twice)
{
	struct end e[2];

	begin(e, 1024, 0, 7);
	run(e, 400000, 100);
	ck_assert_uint_eq(e[0].f.retransmitted + e[1].f.retransmitted, 0);
	ck_assert_uint_eq(e[0].f.duplicates + e[1].f.duplicates, 0);
	ck_assert_uint_lt(e[0].out.carried, 2 * e[0].f.sent);
	finish(e);
}

/* The acknowledgement of a reply waits for a datagram that is sent anyway. */
TEST(an_acknowledgement_goes_with_other_datagrams)
{
	struct end e[2];

	begin(e, 4096, 0, 7);
	for (unsigned i = 0; i < 100; i++) {
		struct end *from = &e[i & 1], *to = &e[!(i & 1)];

		ud_arq_write(&from->f, "a request, or a reply", 21);
		send_all(from);
		now_ns += 20 * US;
		deliver(&from->out, to);
		to->f.rx_head = to->f.rx_tail = 0;
	}
	ck_assert_uint_eq(e[0].out.carried + e[1].out.carried, 100);
	/* The last one has nothing to go with. */
	now_ns += UD_ACK_DELAY_NS;
	send_all(&e[0]);
	ck_assert_uint_eq(e[0].out.carried, 51);
	finish(e);
}

/* An end that does not read stops the other at the advertised window, until it reads again. */
TEST(an_end_that_does_not_read_stops_the_other)
{
	struct end e[2];

	begin(e, 4096, 0, 7);
	e[1].f.lent = true; /* lent bytes stay in place */
	for (unsigned i = 0; i < 4000; i++)
		step(e, 10 << 20, 0);
	ck_assert_uint_eq(e[0].f.una, e[1].f.next);
	ck_assert_uint_eq(e[1].f.next - e[1].f.base, e[1].f.window);
	ck_assert_uint_le(e[1].f.rx_tail, UD_RX_BYTES);
	e[1].f.lent = false;
	for (unsigned i = 0; i < 40000 && e[1].got < e[0].put; i++)
		step(e, e[0].put, 100);
	ck_assert_uint_eq(e[1].got, e[0].put);
	ck_assert_uint_gt(e[1].got, UD_RX_BYTES);
	finish(e);
}

/* One that was kept may not come again: not at once, and not when the numbers begin anew. */
TEST(replayed_datagrams_are_worth_nothing)
{
	struct end e[2];
	struct packet old, copy;

	begin(e, 1024, 0, 7);
	ud_arq_write(&e[0].f, "\x00\x83", 2);
	send_all(&e[0]);
	old = e[0].out.packets[0];
	deliver(&e[0].out, &e[1]);
	read_some(&e[1]);
	ck_assert_uint_eq(e[1].got, 2);
	copy = old;
	receive(&e[1], &copy);
	read_some(&e[1]);
	ck_assert_uint_eq(e[1].got, 2);
	ck_assert_uint_eq(e[1].f.duplicates, 1);
	/* Valid for another connection, and for this one 2^32 datagrams later. */
	copy = old;
	receive(&e[0], &copy);
	ck_assert_uint_eq(e[0].forged, 1);
	e[1].f.next = e[1].f.base = UINT64_C(1) << 32;
	copy = old;
	receive(&e[1], &copy);
	ck_assert_uint_eq(e[1].forged, 1);
	finish(e);
}

/* An older acknowledgement was sent before the wait: it does not end the peer's silence. */
TEST(older_datagrams_do_not_prolong_the_wait)
{
	struct end e[2];
	struct packet old, copy;

	begin(e, 1024, 0, 7);
	ud_arq_write(&e[1].f, "\x00", 1);
	send_all(&e[1]);
	old = e[1].out.packets[0]; /* acknowledges nothing */
	ud_arq_write(&e[0].f, "\x00\x83", 2);
	send_all(&e[0]);
	deliver(&e[0].out, &e[1]);
	now_ns += UD_ACK_DELAY_NS;
	send_all(&e[1]);
	deliver(&e[1].out, &e[0]);
	ck_assert_uint_eq(e[0].f.una, 1);
	ud_arq_write(&e[0].f, "\x06", 1);
	e[0].out.loss = 100;
	send_all(&e[0]);
	now_ns += UD_SILENCE_NS;
	copy = old;
	receive(&e[0], &copy);
	ck_assert_uint_eq(e[0].forged, 0);
	ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), -ETIMEDOUT);
	finish(e);
}

TEST(a_seal_holds_for_each_byte_and_the_number)
{
	struct end e[2];
	uint8_t d[64] = {0}, sealed[64];

	begin(e, 1024, 0, 7);
	ud_mac_write(&e[0].keys.out, d, sizeof(d), 5);
	memcpy(sealed, d, sizeof(d));
	ck_assert(ud_mac_ok(&e[1].keys.in, d, sizeof(d), 5));
	for (unsigned i = 0; i < sizeof(d); i++) {
		memcpy(d, sealed, sizeof(d));
		d[i] ^= 1;
		ck_assert(!ud_mac_ok(&e[1].keys.in, d, sizeof(d), 5));
	}
	memcpy(d, sealed, sizeof(d));
	ck_assert(!ud_mac_ok(&e[1].keys.in, d, sizeof(d), 5 + (UINT64_C(1) << 32)));
	finish(e);
}

TEST(proofs_cover_their_messages)
{
	struct sl_psk s = sl_psk_of("of the tests only", 17);
	struct sl_psk other = sl_psk_of("of the tests onlz", 17);
	struct sl_wireup_creq h = {.magic = SL_WIREUP_MAGIC, .number = 4};
	struct sl_wireup_crep a = {.magic = SL_WIREUP_MAGIC, .number = 4};
	struct wireup_target to = {.gid = {0xfd, [15] = 1}, .qpn = 5};
	uint8_t ack[SL_PSK_MAC_LEN], other_ack[SL_PSK_MAC_LEN];
	struct ud_keys k[2];

	wireup_creq_sign(&s, &h, &to);
	wireup_crep_sign(&s, &h, &a);
	ck_assert(wireup_creq_verify(&s, &h, &to));
	ck_assert(!wireup_creq_verify(&other, &h, &to));
	ck_assert(wireup_crep_verify(&s, &h, &a));
	ck_assert(!wireup_crep_verify(&other, &h, &a));
	for (size_t i = 0; i < sizeof(a); i++) {
		((uint8_t *)&a)[i] ^= 1;
		ck_assert(!wireup_crep_verify(&s, &h, &a));
		((uint8_t *)&a)[i] ^= 1;
	}
	for (size_t i = 0; i < sizeof(h); i++) {
		((uint8_t *)&h)[i] ^= 1;
		ck_assert(!wireup_creq_verify(&s, &h, &to));
		/* The proof binds the answer to all of the HELLO. */
		ck_assert(wireup_crep_verify(&s, &h, &a) ==
			  (i < offsetof(struct sl_wireup_creq, proof)));
		((uint8_t *)&h)[i] ^= 1;
	}
	/* And a HELLO for one door is none for another one. */
	for (size_t i = 0; i < sizeof(to); i++) {
		((uint8_t *)&to)[i] ^= 1;
		ck_assert(!wireup_creq_verify(&s, &h, &to));
		((uint8_t *)&to)[i] ^= 1;
	}
	ud_keys_derive(&s, &a, true, &k[0]);
	ud_keys_derive(&s, &a, false, &k[1]);
	ck_assert_mem_eq(&k[0].out, &k[1].in, sizeof(k[0].out));
	ck_assert_mem_eq(&k[0].in, &k[1].out, sizeof(k[0].out));
	ck_assert_mem_ne(&k[0].in, &k[0].out, sizeof(k[0].out));
	/* The proof in the first SEND is of that CREP only, and no key. */
	wireup_derive(&s, &a, WIREUP_ACK, ack);
	ck_assert_mem_ne(ack, &k[0].out, sizeof(k[0].out));
	a.proof[0] ^= 1;
	wireup_derive(&s, &a, WIREUP_ACK, other_ack);
	a.proof[0] ^= 1;
	ck_assert_mem_ne(ack, other_ack, sizeof(ack));
	wireup_derive(&other, &a, WIREUP_ACK, other_ack);
	ck_assert_mem_ne(ack, other_ack, sizeof(ack));
	/* Other nonces, other keys. */
	for (unsigned i = 0; i < 2; i++) {
		(i ? h.nonce : a.nonce)[3] ^= 1;
		wireup_creq_sign(&s, &h, &to);
		wireup_crep_sign(&s, &h, &a);
		ud_keys_derive(&s, &a, false, &k[1]);
		ck_assert_mem_ne(&k[0].out, &k[1].in, sizeof(k[0].out));
		ud_keys_derive(&s, &a, true, &k[0]);
	}
	ud_keys_derive(&other, &a, false, &k[1]);
	ck_assert_mem_ne(&k[0].out, &k[1].in, sizeof(k[0].out));
}

/* In the place of the C library's. */
static unsigned draws;
static bool has_random = true;

ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	draws++;
	if (has_random)
		return syscall(SYS_getrandom, buf, len, flags);
	errno = ENOSYS;
	return -1;
}

TEST(a_nonce_is_drawn_ahead_and_taken_once)
{
	uint8_t first[SL_WIREUP_NONCE_LEN], second[SL_WIREUP_NONCE_LEN], third[SL_WIREUP_NONCE_LEN];
	struct wireup_nonce n = {.drawn = false};

	ck_assert_int_eq(wireup_nonce_take(&n, first, sizeof(first)), 0);
	wireup_nonce_draw(&n);
	wireup_nonce_draw(&n);
	ck_assert_uint_eq(draws, 2);
	ck_assert_int_eq(wireup_nonce_take(&n, second, sizeof(second)), 0);
	ck_assert_uint_eq(draws, 2);
	ck_assert_int_eq(wireup_nonce_take(&n, third, sizeof(third)), 0);
	ck_assert_mem_ne(first, second, sizeof(first));
	ck_assert_mem_ne(second, third, sizeof(first));
	has_random = false;
	wireup_nonce_draw(&n);
	ck_assert_int_lt(wireup_nonce_take(&n, first, sizeof(first)), 0);
}

/* A peer that is authentic and lies. */
TEST(impossible_input_is_the_peers_fault)
{
	static const struct sl_ud_header lies[] = {
		{.kind = 0},
		{.kind = SL_UD_BYE + 1},
		{.kind = SL_UD_DATA},
		{.kind = SL_UD_ACK, .len = 1},
		{.kind = SL_UD_DATA, .len = 1024},
		{.kind = SL_UD_ACK, .ack = 2},
		{.kind = SL_UD_ACK, .sacked = 1},
		{.kind = SL_UD_ACK, .window = 65},
	};
	struct end e[2];

	begin(e, 1024, 0, 7);
	ud_arq_write(&e[0].f, "x", 1);
	send_all(&e[0]);
	for (size_t i = 0; i < SL_ARRAY_LEN(lies); i++)
		ck_assert_int_eq(ud_arq_input(&e[0].f, &lies[i], NULL, now_ns), -EPROTO);
	finish(e);
}

/* Numbers, acknowledgements and windows that may be, or are beside that. */
static struct sl_ud_header any_header(const struct ud_arq *f)
{
	uint32_t sent = (uint32_t)(f->sent - f->una);
	struct sl_ud_header h = {.kind = SL_UD_DATA, .len = 1};

	if (percent(50))
		h = (struct sl_ud_header){.kind = SL_UD_ACK};
	else if (percent(50))
		h.len = (uint16_t)(1 + sl_prng_below(&rng, f->payload));
	h.seq = (uint32_t)f->next + (uint32_t)sl_prng_below(&rng, 2 * f->window) - f->window / 2;
	h.ack = (uint32_t)f->una + (uint32_t)sl_prng_below(&rng, sent + 1);
	if (percent(30))
		h.ack = (uint32_t)f->una - (uint32_t)sl_prng_below(&rng, 3);
	h.window = (uint16_t)sl_prng_below(&rng, f->window + 1);
	if (percent(50) && (int32_t)(h.ack - (uint32_t)f->una) >= 0) {
		uint64_t left = (uint32_t)f->sent - h.ack;

		h.sacked = (uint32_t)sl_prng_below(&rng, UINT64_C(1) << 32);
		h.sacked &= left < 2 ? 0 : (uint32_t)(UINT64_MAX >> (65 - left));
	}
	if (percent(1))
		h.ack++;
	return h;
}

/* Invariants of an end whatever its peer sends, and limits of what it continues. */
static void check_sane(struct ud_arq *f)
{
	uint64_t unacked = f->sent - f->una, bits = unacked ? UINT64_MAX >> (64 - unacked) : 0;
	struct ud_arq_out o;
	unsigned cnt = 0;

	ck_assert(f->una <= f->sent && f->sent <= f->end && f->end - f->una <= f->window);
	ck_assert(!(f->sacked & f->lost) && !((f->sacked | f->lost | f->rexmit_bits) & ~bits));
	ck_assert(f->base <= f->next && f->next - f->base <= f->window);
	ck_assert(f->window == 64 || !(f->ooo_bits >> f->window));
	ck_assert(f->rx_head <= f->rx_tail && f->rx_tail <= UD_RX_BYTES);
	ck_assert(!f->bytes == !f->tx && !f->ooo_bits == !f->ooo_buf);
	while (ud_arq_next(f, now_ns, &o))
		ck_assert_uint_le(++cnt, 2 * f->window + 1);
	/* Its owner sleeps until then. */
	ck_assert_uint_gt(ud_arq_next_ns(f), now_ns);
}

/* It ends or goes on. It ends only for invalid input, since a peer that is heard is not silent. */
TEST_EACH(random_headers_leave_a_sane_state, 4 * SEEDS)
{
	static uint8_t bytes[MTU_MAX];
	unsigned ended = 0, sent = 0;
	struct sl_capped_alloc mem;

	sl_capped_init(&mem, SIZE_MAX);
	now_ns = 1000000;
	sl_prng_seed(&rng, (uint64_t)_i);
	for (unsigned i = 0; i < 40; i++) {
		struct end e = {.most = 6000};
		struct ud_arq *f = &e.f;
		int rc = 0;

		begin_flow(f, i % 2 ? 1024 : MTU_MAX, i % 3 ? 0 : UINT64_C(0xffffff80));
		f->mem = &mem;
		for (unsigned k = 0; k < 400 && !rc; k++) {
			struct sl_ud_header h = any_header(f);

			now_ns += sl_prng_below(&rng, 3 * UD_RTO_MIN_NS);
			rc = ud_arq_input(f, &h, bytes, now_ns);
			ck_assert(rc == 0 || rc == -EPROTO);
			put_some(&e, UINT64_MAX);
			ud_arq_push(f);
			f->lent = percent(20);
			if (percent(50))
				f->rx_head = f->rx_tail;
			ud_arq_deliver(f);
			ck_assert_int_eq(ud_arq_tick(f, now_ns), 0);
			check_sane(f);
		}
		ended += rc != 0;
		sent += f->una > 0;
		ud_arq_fini(f);
		ck_assert_uint_eq(mem.used, 0);
	}
	ck_assert(ended && ended < 40 && sent);
	sl_capped_fini(&mem);
}

TEST(silence_ends_it_and_only_while_something_is_waited_for)
{
	struct end e[2];
	struct ud_arq_out o;
	unsigned sent = 0;

	begin(e, 1024, 0, 7);
	now_ns += 2 * UD_SILENCE_NS;
	ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), 0);
	ck_assert_uint_eq(ud_arq_next_ns(&e[0].f), UINT64_MAX);
	ud_arq_write(&e[0].f, "x", 1);
	ud_arq_push(&e[0].f);
	while (!ud_arq_tick(&e[0].f, now_ns)) {
		while (ud_arq_next(&e[0].f, now_ns, &o))
			sent++;
		ck_assert_uint_gt(ud_arq_next_ns(&e[0].f), now_ns);
		now_ns = ud_arq_next_ns(&e[0].f);
	}
	ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), -ETIMEDOUT);
	ck_assert_uint_ge(sent, 10);
	ck_assert_uint_le(sent, 100);
	finish(e);
}

TEST(a_pause_is_not_the_peers_silence)
{
	struct end e[2];

	begin(e, 1024, 0, 7);
	put_some(&e[0], 5000);
	send_all(&e[0]);
	while (e[0].f.backoff < 3) { /* and nothing arrives */
		now_ns = ud_arq_next_ns(&e[0].f);
		ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), 0);
		e[0].out.loss = 100;
		send_all(&e[0]);
	}
	now_ns += 2 * UD_SILENCE_NS;
	ud_arq_resume(&e[0].f, now_ns);
	ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), 0);
	ck_assert_uint_eq(ud_arq_next_ns(&e[0].f), 0);
	ck_assert_uint_eq(e[0].f.backoff, 0);
	e[0].out.loss = 0;
	run(e, 5000, 100);
	ck_assert_uint_eq(e[1].got, 5000);
	finish(e);
}

/* Input without memory is lost, output is not put; then all goes on. */
TEST(without_memory_nothing_is_taken)
{
	struct end e[2];
	struct sl_capped_alloc none, some;

	begin(e, MTU_MAX, 0, 1);
	sl_capped_init(&none, 0);
	sl_capped_init(&some, SIZE_MAX);
	e[0].f.mem = e[1].f.mem = &none;
	ck_assert(!ud_arq_write(&e[0].f, "x", 1));
	ck_assert(ud_arq_idle(&e[0].f));
	e[0].f.mem = &some;
	e[0].most = e[1].most = 1000;
	for (unsigned i = 0; i < 1000; i++) {
		now_ns += STEP_NS;
		deliver(&e[0].out, &e[1]);
		put_some(&e[0], 100000);
		ck_assert_int_eq(ud_arq_tick(&e[0].f, now_ns), 0);
		send_all(&e[0]);
	}
	ck_assert_uint_ge(e[1].f.dropped, 1);
	ck_assert_uint_eq(e[1].f.rx_tail, 0);
	e[1].f.mem = &some;
	run(e, 100000, 50);
	ck_assert_uint_eq(some.used, 0);
	finish(e);
	sl_capped_fini(&some);
	sl_capped_fini(&none);
}
