/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path MTUs, learnt from ICMP errors. Colliding entries are overwritten.
 *
 *   large datagram sent -> sl_udp_pmtu_sent: fingerprint, valid for 10 s
 *   ICMP "too big"      -> sl_udp_pmtu_too_big: only for such a datagram, and only once
 *                          (RFC 5927 4: an off-path attacker does not know its checksum)
 *                          -> MTU of the destination, valid for 10 minutes (RFC 1191 6.3)
 *
 * Tables are per worker.
 */
#ifndef SL_UDP_PMTU_H
#define SL_UDP_PMTU_H

#include <stdbool.h>
#include <stdint.h>
#include "base/siphash.h"
#include "wire/addr.h"

enum {
	SL_UDP_PMTU_PATHS = 1024,
	SL_UDP_PMTU_SENT = 4096,
	/* Limits against forged errors. */
	SL_UDP_PMTU_FLOOR4 = 552,
	SL_UDP_PMTU_FLOOR6 = 1280, /* RFC 8200 5 */
};

struct sl_udp_path {
	uint64_t until_ns; /* 0: empty */
	struct sl_addr to; /* without port */
	uint16_t mtu;
	uint8_t reserved[2];
};

struct sl_udp_sent {
	uint32_t fingerprint, sent_ms;
};

struct sl_udp_pmtu {
	uint64_t until_ns; /* latest of all paths */
	struct sl_sipkey key;
	struct sl_udp_path paths[SL_UDP_PMTU_PATHS];
	struct sl_udp_sent sent[SL_UDP_PMTU_SENT];
};

/* Empties the tables. Returns 0 or the error of drawing the key. */
int sl_udp_pmtu_init(struct sl_udp_pmtu *p);

/* Returns the path MTU, at most link_mtu. IPv4: four bytes and zeros. */
uint16_t sl_udp_pmtu_lookup(const struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			    uint16_t link_mtu, uint64_t now_ns);

/* Notes a datagram. `l4`: the UDP header, with checksum. */
void sl_udp_pmtu_sent(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
		      const uint8_t *l4, uint64_t now_ns);

/* Lowers a path MTU. Returns false if the error matches no datagram or does not reduce it. */
bool sl_udp_pmtu_too_big(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			 const uint8_t *l4, uint32_t mtu, uint64_t now_ns);

#endif
