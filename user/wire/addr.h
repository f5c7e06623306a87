/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address and port of either family: the one type for it above the packets, and its ways from
 * and to texts and the kernel's own types. Two are equal when their bytes are. And a prefix of
 * addresses.
 */
#ifndef SL_WIRE_ADDR_H
#define SL_WIRE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct sl_addr {
	uint8_t addr[16]; /* IPv4: first four bytes, the rest zero */
	uint16_t port_be;
	uint8_t family; /* 4 or 6; 0: none, or any */
	uint8_t zero;
};
_Static_assert(sizeof(struct sl_addr) == 20, "no hidden padding: compared and hashed as bytes");

/* Those whose first len bits are these; the bits beyond are zero. */
struct sl_addr_prefix {
	uint8_t addr[16]; /* IPv4: first four bytes, the rest zero */
	uint8_t family;   /* 4 or 6 */
	uint8_t len;
};

static inline struct sl_addr sl_addr_of(uint8_t family, const uint8_t addr[16], uint16_t port_be)
{
	struct sl_addr a = {.port_be = port_be, .family = family};

	memcpy(a.addr, addr, sizeof(a.addr));
	return a;
}

static inline bool sl_addr_equal(const struct sl_addr *a, const struct sl_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* A numeric address without port. False: it is none, and *a is as it was; the port is 0. */
bool sl_addr_parse(struct sl_addr *a, const char *text);

enum { SL_ADDR_TEXT = 46 };

/* The address as a text, "*" where there is none. Returns text. */
const char *sl_addr_text(const struct sl_addr *a, char text[SL_ADDR_TEXT]);

/* What connect() and bind() take; the family must be 4 or 6. Returns its length. */
socklen_t sl_addr_to_sockaddr(const struct sl_addr *a, struct sockaddr_storage *ss);
/* False, and *a is none: of another family. */
bool sl_addr_from_sockaddr(struct sl_addr *a, const struct sockaddr *sa);

#endif
