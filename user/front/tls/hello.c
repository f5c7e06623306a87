/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/conn.h"

enum { CLIENT_HELLO = 1, PRE_SHARED_KEY = 41, RANDOM = 2 + 32, TICKET_NAME = 16 };

static bool take_vector(struct sl_span *from, unsigned len_bytes, struct sl_span *out)
{
	size_t len = 0;

	if (from->len < len_bytes)
		return false;
	for (unsigned i = 0; i < len_bytes; i++)
		len = len << 8 | from->ptr[i];
	*from = sl_span_skip(*from, len_bytes);
	if (from->len < len)
		return false;
	*out = sl_span_of(from->ptr, len);
	*from = sl_span_skip(*from, len);
	return true;
}

bool sl_tls_hello_ticket(struct sl_span records, uint8_t name[TICKET_NAME])
{
	struct sl_span hello, skipped, extensions, extension, identities, identity;
	unsigned type;

	/* Only if in one record. */
	if (records.len < SL_TLS_HEAD + 4 || records.ptr[SL_TLS_HEAD] != CLIENT_HELLO)
		return false;
	records = sl_span_skip(records, SL_TLS_HEAD + 1);
	if (!take_vector(&records, 3, &hello) || hello.len < RANDOM)
		return false;
	hello = sl_span_skip(hello, RANDOM);
	if (!take_vector(&hello, 1, &skipped) || !take_vector(&hello, 2, &skipped) ||
	    !take_vector(&hello, 1, &skipped) || !take_vector(&hello, 2, &extensions))
		return false;
	while (extensions.len >= 4) {
		type = (unsigned)extensions.ptr[0] << 8 | extensions.ptr[1];
		extensions = sl_span_skip(extensions, 2);
		if (!take_vector(&extensions, 2, &extension))
			return false;
		if (type != PRE_SHARED_KEY)
			continue;
		if (!take_vector(&extension, 2, &identities) ||
		    !take_vector(&identities, 2, &identity) || identity.len < TICKET_NAME)
			return false;
		memcpy(name, identity.ptr, TICKET_NAME);
		return true;
	}
	return false;
}
