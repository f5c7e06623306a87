/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/rss.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	KEY_MAX = 256,
	HASH_TOEPLITZ = 1, /* ETH_RSS_HASH_TOP */
	HASHED = RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3,
};

struct sl_rss_list {
	_Atomic uint32_t refs;
	uint32_t cnt;
	struct sl_rss at[];
};

struct query {
	int fd;
	struct ifreq ifr;
};

static bool ask(struct query *q, void *cmd)
{
	q->ifr.ifr_data = cmd;
	return ioctl(q->fd, SIOCETHTOOL, &q->ifr) == 0;
}

static bool hashes_ports(struct query *q, uint32_t flow)
{
	struct ethtool_rxnfc n = {.cmd = ETHTOOL_GRXFH, .flow_type = flow};

	return ask(q, &n) && n.data == HASHED;
}

static bool read_table(struct query *q, struct sl_rss *out, struct sl_err *why)
{
	const struct ethtool_rxfh sizes = {.cmd = ETHTOOL_GRSSH};
	union {
		struct ethtool_rxfh h;
		uint8_t bytes[sizeof(struct ethtool_rxfh) + SL_RSS_TABLE_MAX * 4 + KEY_MAX];
	} a = {.h = sizes};
	const struct ethtool_rxfh *h = &a.h;

	if (!ask(q, &a)) {
		sl_err_set(why, "RSS cannot be read: %s", strerror(errno));
		return false;
	}
	if (!h->indir_size || h->indir_size > SL_RSS_TABLE_MAX || h->key_size < SL_RSS_KEY_LEN ||
	    h->key_size > KEY_MAX) {
		sl_err_set(why, "RSS has a table of %u entries and a key of %u bytes",
			   h->indir_size, h->key_size);
		return false;
	}
	a.h = (struct ethtool_rxfh){
		.cmd = ETHTOOL_GRSSH, .indir_size = h->indir_size, .key_size = h->key_size};
	out->cnt = h->indir_size;
	if (!ask(q, &a) || h->indir_size != out->cnt) {
		sl_err_set(why, "RSS has changed");
		return false;
	}
	/* rsvd8[0] is input_xfrm since Linux 6.8. */
	if (h->hfunc != HASH_TOEPLITZ || h->rsvd8[0]) {
		sl_err_set(why, "the hash of RSS is not Toeplitz's");
		return false;
	}
	for (uint32_t i = 0; i < out->cnt; i++)
		out->queue[i] = (uint16_t)h->rss_config[i];
	memcpy(out->key, a.bytes + sizeof(*h) + out->cnt * 4ul, sizeof(out->key));
	return true;
}

int sl_rss_read(struct sl_rss *out, const char *ifname, int ifindex, struct sl_err *why)
{
	struct query q = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
	bool known;

	memset(out, 0, sizeof(*out));
	out->ifindex = ifindex;
	if (q.fd < 0)
		return sl_fail(why, -errno, "socket: %s", strerror(errno));
	snprintf(q.ifr.ifr_name, sizeof(q.ifr.ifr_name), "%.15s", ifname);
	known = read_table(&q, out, why);
	if (known) {
		out->hashes4 = hashes_ports(&q, TCP_V4_FLOW);
		out->hashes6 = hashes_ports(&q, TCP_V6_FLOW);
		known = out->hashes4 || out->hashes6;
		if (!known)
			sl_err_set(why, "RSS does not hash the ports of TCP");
	}
	close(q.fd);
	return known ? 0 : -EOPNOTSUPP;
}

bool sl_rss_equal(const struct sl_rss *a, const struct sl_rss *b)
{
	return a->ifindex == b->ifindex && a->hashes4 == b->hashes4 && a->hashes6 == b->hashes6 &&
	       a->cnt == b->cnt && memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
	       memcmp(a->queue, b->queue, sizeof(a->queue)) == 0;
}

uint32_t sl_rss_hash(const uint8_t key[SL_RSS_KEY_LEN], const uint8_t *bytes, size_t len)
{
	uint32_t window = (uint32_t)key[0] << 24 | key[1] << 16 | key[2] << 8 | key[3];
	uint32_t hash = 0;

	for (size_t i = 0; i < len && i < SL_RSS_KEY_LEN - 4; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (bytes[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

int sl_rss_queue(const struct sl_rss *r, uint8_t family, const uint8_t *src, uint16_t sport_be,
		 const uint8_t *dst, uint16_t dport_be)
{
	const size_t n = family == 4 ? 4 : 16;
	uint8_t tuple[SL_RSS_KEY_LEN - 4];

	if (!(family == 4 ? r->hashes4 : r->hashes6))
		return -1;
	memcpy(tuple, src, n);
	memcpy(tuple + n, dst, n);
	memcpy(tuple + 2 * n, &sport_be, 2);
	memcpy(tuple + 2 * n + 2, &dport_be, 2);
	return r->queue[sl_rss_hash(r->key, tuple, 2 * n + 4) % r->cnt];
}

struct sl_rss_list *sl_rss_list_new(const struct sl_rss *all, uint32_t cnt)
{
	struct sl_rss_list *l = malloc(sizeof(*l) + cnt * sizeof(*all));

	if (!l)
		return NULL;
	atomic_init(&l->refs, 1);
	l->cnt = cnt;
	memcpy(l->at, all, cnt * sizeof(*all));
	return l;
}

struct sl_rss_list *sl_rss_list_get(struct sl_rss_list *l)
{
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
	return l;
}

void sl_rss_list_put(struct sl_rss_list *l)
{
	if (l && atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1)
		free(l);
}

const struct sl_rss *sl_rss_find(const struct sl_rss_list *l, int ifindex)
{
	for (uint32_t i = 0; l && i < l->cnt; i++) {
		if (l->at[i].ifindex == ifindex)
			return &l->at[i];
	}
	return NULL;
}
