/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a core. Written by the worker, read by the control thread. */
#ifndef SL_CORE_STATS_H
#define SL_CORE_STATS_H

#include <stdint.h>
#include "core/addr_quota.h"
#include "front/front.h"
#include "sluice/outcome.h"

/* Connections closed in a shortage of connections or head buffers. */
enum sl_evicted { SL_EVICTED_IDLE_CONNECTION, SL_EVICTED_PARTIAL_HEAD, SL_EVICTED_CNT };

struct sl_core_stats {
	uint64_t requests; /* each ends in one of `outcomes` */
	uint64_t outcomes[SL_OUTCOME_CNT];
	uint64_t front_errors[SL_FRONT_ERR_CNT];
	uint64_t protocols[SL_PROTO_CNT];
	uint64_t address_limits[SL_QUOTA_LIMIT_CNT];
	uint64_t retried, retries_refused;
	uint64_t hedges, hedges_won, hedges_refused;
	uint64_t batches, batched; /* requests in batches */
	uint64_t clients_timed_out;
	uint64_t ended_for_others[SL_RANK_CNT]; /* exchanges ended in a shortage */
	uint64_t request_windows_shrunk, request_reads_paused;
	uint64_t evicted[SL_EVICTED_CNT];
	uint64_t slow_bodies, slow_readers;
	uint64_t unmatched_datagrams;
	uint64_t proxy_headers, proxy_malformed; /* of trusted load balancers */
	uint64_t access_log_dropped;             /* the ring was full */
	uint64_t trace_spans_dropped;
	uint64_t stream_parts_in, stream_bytes_in;
	uint64_t stream_parts_out, stream_bytes_out;
	uint64_t stream_waits; /* by max_rate */
	uint64_t upgrades_ignored;
	uint64_t api_keys_missing, api_keys_unknown;
	uint64_t bodies_matched, bodies_unmatched, bodies_beyond; /* by match_body */
	uint64_t affinity_hits, affinity_misses;
	uint64_t split_requests, mirrored, mirror_dropped, mirror_failures;
	struct sl_top_refused refused; /* sl_top_refused_read() */
	uint32_t streams;              /* now */
	uint32_t clients;
};

#endif
