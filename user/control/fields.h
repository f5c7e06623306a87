/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of counters and gauges, for /metrics and /stats. Names are those of arrays of uint64_t.
 */
#ifndef SL_CONTROL_FIELDS_H
#define SL_CONTROL_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind { FIELD_COUNTER, FIELD_GAUGE };

struct stat_field {
	const char *name;
	uint16_t offset;
	uint8_t size; /* 4 or 8 */
	uint8_t kind; /* enum field_kind */
	const char *help;
};

struct stat_table {
	const struct stat_field *fields;
	unsigned cnt;
};

extern const struct stat_table worker_fields, tcp_fields, udp_fields, sock_fields, h2_fields,
	tls_fields, core_fields, port_fields, backend_fields, dial_fields, live_fields,
	subset_fields, agent_fields, server_fields, health_fields;

/* Reads a counter of 32 or 64 bits. */
uint64_t field_value(const struct stat_field *f, const void *obj);

struct stat_name {
	const char *name, *help;
};
extern const struct stat_name verdict_names[], drop_names[], outcome_names[], error_names[],
	protocol_names[], stage_names[], address_limit_names[], rank_names[], evicted_names[],
	tls_end_names[];

/* Returns the name of an enum sl_rpc_state; "unknown" for other values. */
const char *rpc_state_name(unsigned state);

#endif
