/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=64 */
/*
 * TCP options alone. The bytes lie at the end of a page before an unreadable one. Parsed options
 * are written again and must parse to the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "wire/tcp_opt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int cond, const char *what)
{
	if (cond)
		return;
	fprintf(stderr, "tcp_options: %s\n", what);
	abort();
}

static const uint8_t *at_page_end(const uint8_t *bytes, size_t len)
{
	static uint8_t *page;

	if (!page) {
		page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		require(page != MAP_FAILED && !mprotect(page + 4096, 4096, PROT_NONE), "no page");
	}
	if (len)
		memcpy(page + 4096 - len, bytes, len);
	return page + 4096 - len;
}

static void syn_again(const struct sl_tcp_opts *o)
{
	uint8_t buf[SL_TCP_OPT_MAX];
	struct sl_tcp_opts again = SL_TCP_OPTS_NONE;
	size_t len = sl_tcp_opt_write_syn(buf, o);

	require(len <= sizeof(buf) && len % 4 == 0, "length of a SYN's options");
	require(sl_tcp_opt_parse(buf, len, &again) == 0, "own SYN options malformed");
	require(again.mss == o->mss && again.wscale == o->wscale && again.sack_ok == o->sack_ok &&
			again.has_ts == o->has_ts,
		"own SYN options differ");
}

static void segment_again(const struct sl_tcp_opts *o)
{
	uint8_t buf[SL_TCP_OPT_MAX];
	struct sl_tcp_opts again = SL_TCP_OPTS_NONE;
	size_t len = sl_tcp_opt_write(buf, o);
	unsigned max = o->has_ts ? SL_TCP_SACK_MAX - 1 : SL_TCP_SACK_MAX;

	require(len == sl_tcp_opt_len(o->has_ts, o->sack_cnt), "length of options");
	require(sl_tcp_opt_parse(buf, len, &again) == 0, "own options malformed");
	require(again.has_ts == o->has_ts, "timestamps differ");
	require(!o->has_ts || (again.ts_val == o->ts_val && again.ts_ecr == o->ts_ecr),
		"timestamps differ");
	require(again.sack_cnt == (o->sack_cnt < max ? o->sack_cnt : max), "blocks lost");
	for (unsigned i = 0; i < again.sack_cnt; i++)
		require(again.sack[i].start == o->sack[i].start &&
				again.sack[i].end == o->sack[i].end,
			"blocks differ");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;
	const uint8_t *p;
	uint32_t val, ecr;

	if (len > SL_TCP_OPT_MAX)
		len = SL_TCP_OPT_MAX;
	p = at_page_end(bytes, len);
	if (sl_tcp_opt_parse(p, len, &o) == 0 && sl_tcp_opt_fast_ts(p, len, &val, &ecr))
		require(o.has_ts && o.ts_val == val && o.ts_ecr == ecr, "two ways, two timestamps");
	require(o.sack_cnt <= SL_TCP_SACK_MAX, "too many blocks");
	require(o.wscale >= -1 && o.wscale <= SL_TCP_WSCALE_MAX, "window scale");
	syn_again(&o);
	segment_again(&o);
	return 0;
}
