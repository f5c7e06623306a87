/* SPDX-License-Identifier: Apache-2.0 */
/* Receive side scaling: the queue that a NIC chooses. Lists are immutable and counted. */
#ifndef SL_XIO_RSS_H
#define SL_XIO_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { SL_RSS_KEY_LEN = 40, SL_RSS_TABLE_MAX = 2048 };

struct sl_rss {
	int ifindex;
	bool hashes4, hashes6; /* both addresses and ports of TCP */
	uint8_t key[SL_RSS_KEY_LEN];
	uint32_t cnt;
	uint16_t queue[SL_RSS_TABLE_MAX]; /* by hash modulo cnt */
};

struct sl_rss_list;

/* Reads an interface. Returns 0, or -errno and why its queues are unknown. */
int sl_rss_read(struct sl_rss *out, const char *ifname, int ifindex, struct sl_err *why);

/* Returns true if both are the same. */
bool sl_rss_equal(const struct sl_rss *a, const struct sl_rss *b);
/* Returns Toeplitz's hash of at most SL_RSS_KEY_LEN - 4 bytes. */
uint32_t sl_rss_hash(const uint8_t key[SL_RSS_KEY_LEN], const uint8_t *bytes, size_t len);
/* Returns the queue of a segment, or -1: unknown. Addresses: 16 bytes. */
int sl_rss_queue(const struct sl_rss *r, uint8_t family, const uint8_t *src, uint16_t sport_be,
		 const uint8_t *dst, uint16_t dport_be);

/* Copies `cnt` interfaces to a list with one reference. Returns NULL without memory. */
struct sl_rss_list *sl_rss_list_new(const struct sl_rss *all, uint32_t cnt);
/* Returns l with another reference. Any thread, as sl_rss_list_put(). */
struct sl_rss_list *sl_rss_list_get(struct sl_rss_list *l);
/* Drops a reference (may be NULL). */
void sl_rss_list_put(struct sl_rss_list *l);
/* Returns an interface of the list (may be NULL), or NULL. */
const struct sl_rss *sl_rss_find(const struct sl_rss_list *l, int ifindex);

#endif
