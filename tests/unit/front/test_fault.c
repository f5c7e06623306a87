/* SPDX-License-Identifier: Apache-2.0 */
#include "front/fault.h"

#include "front/grpc/grpc.h"
#include "wire/rpc_wire.h"
#include "suite.h"

FIXTURE(NULL, NULL)

TEST(http_statuses_of_servers_are_faults)
{
	ck_assert_int_eq(sl_fault_of_http(200), SL_FAULT_NONE);
	ck_assert_int_eq(sl_fault_of_http(499), SL_FAULT_NONE);
	ck_assert_int_eq(sl_fault_of_http(500), SL_FAULT_SERVER);
	ck_assert_int_eq(sl_fault_of_http(501), SL_FAULT_SERVER);
	ck_assert_int_eq(sl_fault_of_http(502), SL_FAULT_GATEWAY);
	ck_assert_int_eq(sl_fault_of_http(504), SL_FAULT_GATEWAY);
	ck_assert_int_eq(sl_fault_of_http(505), SL_FAULT_SERVER);
}

TEST(grpc_statuses_of_servers_are_faults)
{
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_OK), SL_FAULT_NONE);
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_NOT_FOUND), SL_FAULT_NONE);
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_DEADLINE_EXCEEDED), SL_FAULT_NONE);
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_UNAVAILABLE), SL_FAULT_GATEWAY);
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_INTERNAL), SL_FAULT_SERVER);
	ck_assert_int_eq(sl_fault_of_grpc(SL_GRPC_UNKNOWN), SL_FAULT_SERVER);
}

TEST(status_is_read_from_a_metadata_block)
{
	static const uint8_t block[] = {SL_META_STATUS,
					0,
					2,
					0,
					0xf6,
					1, /* 502 */
					SL_META_GRPC_STATUS,
					0,
					2,
					0,
					SL_GRPC_INTERNAL,
					0};
	static const uint8_t cut[] = {SL_META_STATUS, 0, 2, 0, 0xf6};
	unsigned status;

	ck_assert_int_eq(sl_fault_of_reply(sl_span_of(block, sizeof(block)), false, &status),
			 SL_FAULT_GATEWAY);
	ck_assert_uint_eq(status, 502);
	ck_assert_int_eq(sl_fault_of_reply(sl_span_of(block, sizeof(block)), true, &status),
			 SL_FAULT_SERVER);
	ck_assert_uint_eq(status, SL_GRPC_INTERNAL);
	ck_assert_int_eq(sl_fault_of_reply(sl_span_of(cut, sizeof(cut)), false, &status),
			 SL_FAULT_NONE);
	ck_assert_uint_eq(status, 200);
	ck_assert_int_eq(sl_fault_of_reply(sl_span_of(NULL, 0), true, &status), SL_FAULT_NONE);
	ck_assert_uint_eq(status, SL_GRPC_OK);
}
