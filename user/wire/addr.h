/* SPDX-License-Identifier: Apache-2.0 */
/* An address and port, and conversions. Equal addresses have equal bytes. */
#ifndef SL_WIRE_ADDR_H
#define SL_WIRE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct sl_addr {
	uint8_t addr[16]; /* IPv4: first four bytes, the rest zero */
	uint16_t port_be;
	uint8_t family; /* 4 or 6; 0: none, any */
	uint8_t zero;
};
_Static_assert(sizeof(struct sl_addr) == 20, "no hidden padding: compared and hashed as bytes");

/* The bits after the first len are zero. */
struct sl_addr_prefix {
	uint8_t addr[16];
	uint8_t family; /* 4 or 6 */
	uint8_t len;
};

/* Returns the address. `addr` of IPv4: zero after 4 bytes. */
static inline struct sl_addr sl_addr_of(uint8_t family, const uint8_t addr[16], uint16_t port_be)
{
	struct sl_addr a = {.port_be = port_be, .family = family};

	memcpy(a.addr, addr, sizeof(a.addr));
	return a;
}

/* Compares address, port and family. */
static inline bool sl_addr_equal(const struct sl_addr *a, const struct sl_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Parses a numeric address; sets port 0. Returns false and leaves *a if it is invalid. */
bool sl_addr_parse(struct sl_addr *a, const char *text);

enum { SL_ADDR_TEXT = 46 };

/* Returns `text`, without port; "*" without an address. */
const char *sl_addr_text(const struct sl_addr *a, char text[SL_ADDR_TEXT]);

/* Fills *ss; the family must be 4 or 6. Returns the length. */
socklen_t sl_addr_to_sockaddr(const struct sl_addr *a, struct sockaddr_storage *ss);
/* Fills *a. Returns false, and *a is none, for another family. */
bool sl_addr_from_sockaddr(struct sl_addr *a, const struct sockaddr *sa);

#endif
