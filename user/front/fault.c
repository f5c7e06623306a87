/* SPDX-License-Identifier: Apache-2.0 */
#include "front/fault.h"

#include "base/tlv.h"
#include "front/grpc/grpc.h"
#include "wire/rpc_wire.h"

enum { FIELDS_MAX = 3 };

enum sl_fault sl_fault_of_http(unsigned status)
{
	if (status >= 502 && status <= 504)
		return SL_FAULT_GATEWAY;
	return status >= 500 ? SL_FAULT_SERVER : SL_FAULT_NONE;
}

enum sl_fault sl_fault_of_grpc(unsigned status)
{
	switch (status) {
	case SL_GRPC_UNAVAILABLE: return SL_FAULT_GATEWAY;
	case SL_GRPC_UNKNOWN:
	case SL_GRPC_INTERNAL:
	case SL_GRPC_DATA_LOSS: return SL_FAULT_SERVER;
	default: return SL_FAULT_NONE;
	}
}

enum sl_fault sl_fault_of_reply(struct sl_span block, bool prefixed, unsigned *status)
{
	uint16_t wanted = prefixed ? SL_META_GRPC_STATUS : SL_META_STATUS, tag;
	struct sl_span value;

	*status = prefixed ? SL_GRPC_OK : 200;
	for (unsigned i = 0; i < FIELDS_MAX && sl_tlv_next(&block, &tag, &value); i++) {
		if (tag != wanted || value.len != 2)
			continue;
		*status = sl_get_le16(value.ptr);
		break;
	}
	return prefixed ? sl_fault_of_grpc(*status) : sl_fault_of_http(*status);
}
