/* SPDX-License-Identifier: Apache-2.0 */
/* Whole transfers over a link that loses, reorders, doubles, damages and delays. */
#include "sim.h"
#include "suite.h"

enum { SEEDS = 1000, FRAMES = 2048 };

static struct sim sim;

static void small_config(struct sl_tcp_config *cfg)
{
	sl_tcp_config_default(cfg);
	cfg->max_conns = 16;
	cfg->rcv_buf = 128 << 10;
	cfg->snd_buf = 128 << 10;

	cfg->user_timeout_ns = 1000 * SL_NS_PER_SEC;
}

static void run_transfer(const struct sl_fake_link_config *link, const struct sl_tcp_config *cfg,
			 uint64_t seed, uint64_t up, uint64_t down, bool lazy)
{
	struct sim_peer *a = &sim.host[0].peer, *b = &sim.host[1].peer;
	uint64_t steps = 0;

	sim_init(&sim, link, seed, cfg, FRAMES);
	a->tx_len = b->rx_len = up;
	b->tx_len = a->rx_len = down;
	a->lazy = b->lazy = lazy;
	sim_connect(&sim);
	sl_tcp_output(sim.host[0].tcp);
	sl_net_flush(&sim.host[0].net);
	sl_fake_link_step(&sim.link, sim.now_ns);
	while (!(a->closed && b->closed) && sim_step(&sim))
		if (++steps > 10000000)
			ck_abort_msg("seed %llu does not end", (unsigned long long)seed);
	if (a->rx_off != down || b->rx_off != up)
		sim_print_drops(&sim);
	ck_assert_msg(a->rx_off == down && b->rx_off == up && a->fin_in && b->fin_in,
		      "seed %llu: got %llu of %llu and %llu of %llu, closed %d %d why %d %d",
		      (unsigned long long)seed, (unsigned long long)b->rx_off,
		      (unsigned long long)up, (unsigned long long)a->rx_off,
		      (unsigned long long)down, a->closed, b->closed, a->why, b->why);
	ck_assert_int_eq(a->why, SL_TCP_CLOSED);
	ck_assert_int_eq(b->why, SL_TCP_CLOSED);
}

TEST(clean_link_both_ways)
{
	struct sl_fake_link_config link = {.delay_ns = 1000000};
	struct sl_tcp_config cfg;

	small_config(&cfg);
	run_transfer(&link, &cfg, 1, 300000, 300000, false);
	sim_fini(&sim);
}

TEST(every_seed_is_byte_exact)
{
	struct sl_tcp_config cfg;
	struct sl_prng prng;

	small_config(&cfg);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		sl_prng_seed(&prng, seed);
		struct sl_fake_link_config link = {
			.delay_ns = 100000 + sl_prng_below(&prng, 50000000),
			.jitter_ns = sl_prng_below(&prng, 3) ? 0 : sl_prng_below(&prng, 5000000),
			.bits_per_s = sl_prng_below(&prng, 2) ? 0 : 10000000,
			.loss = sl_prng_unit(&prng) * 0.08,
			.duplicate = sl_prng_unit(&prng) * 0.05,
			.corrupt = sl_prng_unit(&prng) * 0.03,
			.reorder = sl_prng_unit(&prng) * 0.1,
			.reorder_ns = sl_prng_below(&prng, 5000000),
			.late = seed % 2 ? 0 : sl_prng_unit(&prng) * 0.95,
		};

		run_transfer(&link, &cfg, seed, sl_prng_below(&prng, 60000),
			     sl_prng_below(&prng, 60000), seed % 2);
		sim_fini(&sim);
	}
}

static double goodput(double loss)
{
	struct sl_fake_link_config link = {
		.delay_ns = 10000000, .bits_per_s = 1000000000, .queue_cnt = 2000, .loss = loss};
	const uint64_t len = 20 << 20;
	struct sl_tcp_config cfg;

	sl_tcp_config_default(&cfg);
	cfg.max_conns = 16;
	cfg.rcv_buf = 1 << 20;
	cfg.snd_buf = 1 << 20;
	cfg.max_ooo_frames = 1024;
	run_transfer(&link, &cfg, 7, 0, len, false);
	uint64_t ns = sim.host[0].peer.done_ns - 1000000000;
	struct sl_tcp_stats st;

	sl_tcp_stats(sim.host[1].tcp, &st);
	printf("goodput loss %.1f %%: %.2f Mbit/s; sent %llu again %llu recoveries %llu rto "
	       "%llu tlp %llu\n",
	       loss * 100, (double)len * 8e3 / (double)ns, (unsigned long long)st.segs_out,
	       (unsigned long long)st.retransmits, (unsigned long long)st.fast_retransmits,
	       (unsigned long long)st.rto_fired, (unsigned long long)st.tlp_probes);
	sim_fini(&sim);
	return (double)len * 8e3 / (double)ns;
}

TEST(goodput_at_one_percent_loss)
{
	double lossy = goodput(0.01), clean = goodput(0);

	/* 1.22 * MSS / (RTT * sqrt(p)) = 7.1 Mbit/s is what the Reno model grants. */
	ck_assert_double_gt(lossy, 5.5);
	ck_assert_double_gt(clean, 100.0);
}
