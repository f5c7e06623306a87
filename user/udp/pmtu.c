/* SPDX-License-Identifier: Apache-2.0 */
#include "udp/pmtu.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"

#define LEARNT_NS (600 * SL_NS_PER_SEC)

enum { SENT_MS = 10000 };

SL_ASSERT_SIZE(struct sl_udp_path, 32);

int sl_udp_pmtu_init(struct sl_udp_pmtu *p)
{
	uint8_t key[16];
	int rc = sl_rand_bytes(key, sizeof(key));

	memset(p, 0, sizeof(*p));
	p->key = sl_sipkey_from(key);
	return rc;
}

static uint32_t path_index(const struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16])
{
	uint64_t w[3] = {[2] = family};

	memcpy(w, addr, 16);
	return (uint32_t)sl_siphash13_words(&p->key, w, 3) % SL_UDP_PMTU_PATHS;
}

uint16_t sl_udp_pmtu_lookup(const struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			    uint16_t link_mtu, uint64_t now_ns)
{
	const struct sl_udp_path *e;
	struct sl_addr to;

	if (now_ns >= p->until_ns)
		return link_mtu;
	e = &p->paths[path_index(p, family, addr)];
	to = sl_addr_of(family, addr, 0);
	if (now_ns >= e->until_ns || !sl_addr_equal(&e->to, &to))
		return link_mtu;
	return e->mtu < link_mtu ? e->mtu : link_mtu;
}

static uint64_t print_of(const struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			 const uint8_t *l4)
{
	uint64_t w[4] = {sl_get_le64(l4), [3] = family};

	memcpy(w + 1, addr, 16);
	return sl_siphash13_words(&p->key, w, 4);
}

void sl_udp_pmtu_sent(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
		      const uint8_t *l4, uint64_t now_ns)
{
	uint64_t print = print_of(p, family, addr, l4);

	p->sent[print % SL_UDP_PMTU_SENT] = (struct sl_udp_sent){
		.fingerprint = (uint32_t)(print >> 32) | 1,
		.sent_ms = (uint32_t)(now_ns / SL_NS_PER_MS),
	};
}

bool sl_udp_pmtu_too_big(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			 const uint8_t *l4, uint32_t mtu, uint64_t now_ns)
{
	uint32_t floor = family == 4 ? SL_UDP_PMTU_FLOOR4 : SL_UDP_PMTU_FLOOR6;
	struct sl_udp_path *e = &p->paths[path_index(p, family, addr)];
	uint64_t print = print_of(p, family, addr, l4);
	struct sl_udp_sent *s = &p->sent[print % SL_UDP_PMTU_SENT];

	if (s->fingerprint != ((uint32_t)(print >> 32) | 1) ||
	    (uint32_t)(now_ns / SL_NS_PER_MS) - s->sent_ms > SENT_MS)
		return false;
	s->fingerprint = 0; /* valid for one error */
	if (mtu < floor)
		mtu = floor;
	if (mtu >= sl_udp_pmtu_lookup(p, family, addr, UINT16_MAX, now_ns))
		return false;
	*e = (struct sl_udp_path){.to = sl_addr_of(family, addr, 0),
				  .mtu = (uint16_t)mtu,
				  .until_ns = now_ns + LEARNT_NS};
	p->until_ns = e->until_ns;
	return true;
}
