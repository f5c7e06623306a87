/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is refused most: a few addresses by name, for /stats and the log. Written by the worker when it
 * refuses, read by the control thread while it does.
 *
 * Who is new takes the place of whoever was refused least and is ranked above him, so that who is
 * refused all the time stays, however many others come once (Metwally's Space-Saving): an address
 * that has more than a ninth of all refusals is among them. Counts are of the time since it was listed.
 */
#ifndef SL_CORE_TOP_REFUSED_H
#define SL_CORE_TOP_REFUSED_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/addr.h"

/* X(NAME, "metric_name"): what an account may have too much of. */
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
	SL_TOP_REFUSED_LINES = 8, /* of the log, in that time, whoever they are about */
	SL_TOP_REFUSED_LINES_S = 10,
};

struct sl_top_refused_entry {
	uint64_t rank; /* 0: nobody */
	uint64_t cnt[SL_QUOTA_LIMIT_CNT];
	uint64_t logged_ns;  /* when its next line of the log may come */
	struct sl_addr addr; /* of IPv6, the /64; family 0: all that are not proven */
	uint32_t pad;
};

struct sl_top_refused {
	uint64_t version; /* odd: it is being written */
	uint64_t lines_ns;
	uint32_t lines; /* since lines_ns */
	uint32_t pad;
	struct sl_top_refused_entry list[SL_TOP_REFUSED_CNT]; /* in no order */
};

/* One more. True: it is time to say so in the log, at most once in ten seconds for each address. */
bool sl_top_refused_add(struct sl_top_refused *r, const struct sl_addr *addr,
			enum sl_addr_quota_limit what, uint64_t now_ns);

/*
 * A copy for another thread, those refused most first. False: it was written all the time; *to is
 * empty then.
 */
bool sl_top_refused_read(const struct sl_top_refused *r, struct sl_top_refused *to);

enum { SL_QUOTA_TEXT = 64 };
/* "10.0.0.1", "2001:db8::/64", "datagrams". Returns text. */
const char *sl_top_refused_text(const struct sl_addr *addr, char text[SL_QUOTA_TEXT]);

#endif
