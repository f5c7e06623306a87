/* SPDX-License-Identifier: Apache-2.0 */
/* Strict reader of protobuf fields; writer of headers. */
#ifndef SL_FRONT_GRPC_PB_H
#define SL_FRONT_GRPC_PB_H

#include <stdbool.h>
#include "base/bytes.h"

enum sl_pb_type { SL_PB_VARINT = 0, SL_PB_FIXED64 = 1, SL_PB_BYTES = 2, SL_PB_FIXED32 = 5 };

struct sl_pb_field {
	uint32_t no;
	uint8_t type;
	uint64_t number;
	struct sl_span bytes;
};

/*
 * Removes the next field from `in`. Returns false at the end (`in` empty) or if malformed: length
 * beyond the end, number above 64 bits, field 0, group.
 */
bool sl_pb_next(struct sl_span *in, struct sl_pb_field *f);

enum { SL_PB_HEAD_MAX = 12 };

/*
 * Write a field's head (bytes follow), or a number; at most SL_PB_HEAD_MAX bytes. Return the end.
 */
uint8_t *sl_pb_put_head(uint8_t *to, uint32_t no, size_t len);
uint8_t *sl_pb_put_number(uint8_t *to, uint32_t no, uint64_t value);

#endif
