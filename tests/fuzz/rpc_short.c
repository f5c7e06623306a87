/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=256 */
/*
 * Peers over RDMA that lie in the short form. What is taken has the lengths that it says, lies within its
 * slot, and goes out again as it came in.
 *
 * Input: a message.
 */
#include <string.h>
#include "base/check.h"
#include "rpc/transport.h"
#include "rpc/rdma/rc/compact.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	/* As far as the longest message may reach in a slot, in the long form and with its padding. */
	uint8_t slot[SL_RPC_COMPACT_MAX + sizeof(struct sl_rpc_entry)], again[SL_RPC_COMPACT_MAX];
	struct sl_rpc_compact came, goes;
	struct sl_rpc_header h;
	struct sl_span body;
	uint64_t epoch = sl_rpc_boot_epoch();
	uint32_t out;

	if (len < sizeof(came) || len > sizeof(slot) || !rc_is_compact(bytes))
		return 0;
	memcpy(slot, bytes, len);
	if (rc_compact_read(slot, (uint32_t)len, epoch, &h))
		return 0;
	SL_CHECK(len <= SL_RPC_COMPACT_MAX && h.fragment_len <= sizeof(slot));
	SL_CHECK(h.fragment_len == h.total_or_offset && h.count == 1 &&
		 h.id >> 48 == (uint16_t)epoch);
	body = sl_span_of(slot, h.fragment_len);
	out = rc_compact_write(again, &h, &body, 1);
	SL_CHECK(out == len);
	memcpy(&came, bytes, sizeof(came));
	memcpy(&goes, again, sizeof(goes));
	came.reserved = 0;
	SL_CHECK(!memcmp(&came, &goes, sizeof(came)));
	SL_CHECK(!memcmp(again + sizeof(goes), bytes + sizeof(came), len - sizeof(came)));
	return 0;
}
