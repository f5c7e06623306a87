/* SPDX-License-Identifier: Apache-2.0 */
/* Initial sequence numbers, RFC 6528, and offsets of timestamps, RFC 7323 7.1. */
#include "tcp/internal.h"

uint32_t sl_tcp_isn(const struct sl_tcp *t, const struct sl_flow_key *key)
{
	return (uint32_t)(now_ns(t) >> 12) + (uint32_t)sl_siphash24(&t->isn_key, key, sizeof(*key));
}

uint32_t sl_tcp_ts_offset(const struct sl_tcp *t, const struct sl_flow_key *key)
{
	return (uint32_t)sl_siphash24(&t->ts_key, key, offsetof(struct sl_flow_key, local_port_be));
}
