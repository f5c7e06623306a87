/* SPDX-License-Identifier: Apache-2.0 */
/* sluice/datagram.h as a client writes and reads it: bytes in, bytes out. */
#ifndef SL_SDK_DATAGRAM_WIRE_H
#define SL_SDK_DATAGRAM_WIRE_H

#include <stdbool.h>
#include "base/bytes.h"
#include "sluice/datagram_client.h"

/*
 * The datagram of a call, padded so that a reply of call->reply_len fits, as far as max allows.
 * Returns its length, or 0 if method and payload do not fit max (at most SL_DATAGRAM_MAX).
 */
size_t sl_datagram_encode(const struct sl_datagram_call *call, uint64_t id, uint8_t *to,
			  size_t max);

/* Later attempts have less time: the field of an encoded request. */
void sl_datagram_set_deadline(uint8_t *request, uint32_t deadline_us);

/* False: no reply that a gateway would send. Fills id, status, code, service_us, payload. */
bool sl_datagram_decode(struct sl_span in, struct sl_datagram_answer *out);

#endif
