/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's wire format, as far as the services of the gateway need it: a strict reader of one
 * message's fields, and what a writer puts in front of bytes.
 */
#ifndef SL_FRONT_GRPC_PB_H
#define SL_FRONT_GRPC_PB_H

#include <stdbool.h>
#include "base/bytes.h"

enum sl_pb_type { SL_PB_VARINT = 0, SL_PB_FIXED64 = 1, SL_PB_BYTES = 2, SL_PB_FIXED32 = 5 };

struct sl_pb_field {
	uint32_t no;
	uint8_t type;         /* enum sl_pb_type */
	uint64_t number;      /* VARINT */
	struct sl_span bytes; /* BYTES */
};

/*
 * Takes the next field off `in`. False at the end (`in` is empty), or where it is malformed (`in`
 * is not): a length beyond the end, a number of more than 64 bits, field 0, a group.
 */
bool sl_pb_next(struct sl_span *in, struct sl_pb_field *f);

enum { SL_PB_HEAD_MAX = 12 }; /* what sl_pb_put_head writes at the most */

/* Key and length of a BYTES field; a VARINT field. Return where the next byte goes. */
uint8_t *sl_pb_put_head(uint8_t *to, uint32_t no, size_t len);
uint8_t *sl_pb_put_number(uint8_t *to, uint32_t no, uint64_t value);

#endif
