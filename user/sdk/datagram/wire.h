/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_SDK_DATAGRAM_WIRE_H
#define SL_SDK_DATAGRAM_WIRE_H

#include <stdbool.h>
#include "base/bytes.h"
#include "sluice/datagram_client.h"

/*
 * Writes a request, padded for a reply of call->reply_len bytes, up to `max` (at most
 * SL_DATAGRAM_MAX). Returns its length, or 0 if method and payload exceed `max`.
 */
size_t sl_datagram_encode(const struct sl_datagram_call *call, uint64_t id, uint8_t *to,
			  size_t max);

/* Changes the deadline of an encoded request. */
void sl_datagram_set_deadline(uint8_t *request, uint32_t deadline_us);

/* Decodes a reply, all but times and retries. Views into `in`. Returns false if invalid. */
bool sl_datagram_decode(struct sl_span in, struct sl_datagram_answer *out);

#endif
