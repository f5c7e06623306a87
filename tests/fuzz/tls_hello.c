/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the first record of a TLS client, whole and cut at each place. The peek for a ticket
 * agrees with a second reader, which counts positions instead of taking vectors apart. A part of a
 * ClientHello gives the ticket of the whole one, or none.
 */
/* fuzz: max_len=600 */
#include <stdlib.h>
#include <string.h>
#include "front/tls/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TICKET_NAME_LEN = 16, NOWHERE = 0 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

static size_t number(const uint8_t *p, size_t at, unsigned bytes)
{
	size_t n = 0;

	while (bytes--)
		n = n << 8 | p[at++];
	return n;
}

/* Returns where the name of the first ticket begins, or NOWHERE. */
static size_t find_ticket(const uint8_t *p, size_t size)
{
	static const unsigned skipped[] = {1, 2, 1}; /* session, ciphers, compressions */
	size_t at = SL_TLS_HEAD + 4, end, len;

	if (size < at || p[SL_TLS_HEAD] != 1)
		return NOWHERE;
	end = at + number(p, at - 3, 3);
	at += 34;
	if (end > size || at > end)
		return NOWHERE;
	for (int i = 0; i < 3; i++) {
		if (end - at < skipped[i])
			return NOWHERE;
		len = number(p, at, skipped[i]);
		at += skipped[i];
		if (end - at < len)
			return NOWHERE;
		at += len;
	}
	if (end - at < 2 || end - at - 2 < number(p, at, 2))
		return NOWHERE;
	end = at + 2 + number(p, at, 2);
	for (at += 2; end - at >= 4; at += 4 + len) {
		len = number(p, at + 2, 2);
		if (end - at - 4 < len)
			return NOWHERE;
		if (number(p, at, 2) != 41)
			continue;
		/* 2 bytes of identities, 2 of the first one, its bytes. */
		if (len < 2 || number(p, at + 4, 2) > len - 2 || number(p, at + 4, 2) < 2)
			return NOWHERE;
		if (number(p, at + 6, 2) > number(p, at + 4, 2) - 2 ||
		    number(p, at + 6, 2) < TICKET_NAME_LEN)
			return NOWHERE;
		return at + 8;
	}
	return NOWHERE;
}

/* The copy ends where its memory ends, so that a byte more would be found. */
static bool peek(const uint8_t *data, size_t size, uint8_t name[TICKET_NAME_LEN])
{
	uint8_t *copy = malloc(size ? size : 1);
	bool found;

	must(copy != NULL);
	memcpy(copy, data, size);
	found = sl_tls_hello_ticket(sl_span_of(copy, size), name);
	free(copy);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t whole[TICKET_NAME_LEN], part[TICKET_NAME_LEN];
	size_t at = find_ticket(data, size);
	bool found = peek(data, size, whole);

	must(found == (at != NOWHERE));
	if (found)
		must(memcmp(whole, data + at, TICKET_NAME_LEN) == 0);
	for (size_t n = 0; n < size; n++) {
		if (peek(data, n, part))
			must(found && memcmp(part, whole, TICKET_NAME_LEN) == 0);
	}
	return 0;
}
