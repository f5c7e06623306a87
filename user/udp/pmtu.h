/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path MTUs of destinations that got datagrams, learnt from ICMP errors. Both tables are of fixed
 * size; what collides forgets what was there.
 *
 *   send of a large datagram -> sl_udp_pmtu_sent: its fingerprint, for 10 s
 *   ICMP "too big"           -> sl_udp_pmtu_too_big: only about one of those, and only once
 *                               (RFC 5927 4: who has not seen it cannot quote its checksum)
 *                               -> the destination's MTU, for 10 minutes (RFC 1191 6.3)
 *
 * Each worker knows what it has learnt itself. ICMP errors come to all of them, as the NIC does not
 * choose the one that sent; the others find no fingerprint.
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
	/* A forged error cannot make datagrams smaller than this; smaller ones are not noted. */
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
	uint64_t until_ns; /* no path is known any longer: the usual case asks no more than this */
	struct sl_sipkey key;
	struct sl_udp_path paths[SL_UDP_PMTU_PATHS];
	struct sl_udp_sent sent[SL_UDP_PMTU_SENT];
};

/* 0 or -errno. */
int sl_udp_pmtu_init(struct sl_udp_pmtu *p);

/* To that address, IPv4: first four bytes and zeros; at most link_mtu. */
uint16_t sl_udp_pmtu_lookup(const struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			    uint16_t link_mtu, uint64_t now_ns);

/* l4: the 8 bytes of the UDP header, checksum included. */
void sl_udp_pmtu_sent(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
		      const uint8_t *l4, uint64_t now_ns);

/* l4: quoted. False: about nothing that was sent, or nothing new. */
bool sl_udp_pmtu_too_big(struct sl_udp_pmtu *p, uint8_t family, const uint8_t addr[16],
			 const uint8_t *l4, uint32_t mtu, uint64_t now_ns);

#endif
