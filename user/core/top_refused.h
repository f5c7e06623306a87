/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that are refused most, for /stats and the log: Metwally's Space-Saving algorithm.
 */
#ifndef SL_CORE_TOP_REFUSED_H
#define SL_CORE_TOP_REFUSED_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/addr.h"

/* X(NAME, "metric_name") */
#define SL_QUOTA_LIMITS(X)                                                                         \
	X(CONNECTIONS, "connections")                                                              \
	X(EXCHANGES, "exchanges")                                                                  \
	X(READING, "reading")                                                                      \
	X(FRAMES, "frames")                                                                        \
	X(REQUESTS, "requests_per_second")

enum sl_addr_quota_limit {
#define X(name, metric) SL_QUOTA_##name,
	SL_QUOTA_LIMITS(X)
#undef X
		SL_QUOTA_LIMIT_CNT
};

enum {
	SL_TOP_REFUSED_CNT = 8,
	SL_TOP_REFUSED_LINES = 8, /* of all addresses, in SL_TOP_REFUSED_LINES_S */
	SL_TOP_REFUSED_LINES_S = 10,
};

struct sl_top_refused_entry {
	uint64_t rank; /* 0: unused */
	uint64_t cnt[SL_QUOTA_LIMIT_CNT];
	uint64_t logged_ns;  /* next log line allowed */
	struct sl_addr addr; /* IPv6: /64; family 0: unproven addresses */
	uint32_t pad;
};

struct sl_top_refused {
	uint64_t version; /* odd: being written */
	uint64_t lines_ns;
	uint32_t lines; /* since lines_ns */
	uint32_t pad;
	struct sl_top_refused_entry list[SL_TOP_REFUSED_CNT];
};

/*
 * Counts a refusal. Returns true once in ten seconds for an address: to be logged. Worker.
 */
bool sl_top_refused_add(struct sl_top_refused *r, const struct sl_addr *addr,
			enum sl_addr_quota_limit what, uint64_t now_ns);

/*
 * Copies the list, most refused first. Returns false, and an empty list, if each try met a writer.
 * Any thread.
 */
bool sl_top_refused_read(const struct sl_top_refused *r, struct sl_top_refused *to);

enum { SL_QUOTA_TEXT = 64 };
/* Writes and returns "10.0.0.1", "2001:db8::/64" or "datagrams". */
const char *sl_top_refused_text(const struct sl_addr *addr, char text[SL_QUOTA_TEXT]);

#endif
