/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a worker's core; written by the worker, read by the control thread. */
#ifndef SL_CORE_STATS_H
#define SL_CORE_STATS_H

#include <stdint.h>
#include "core/addr_quota.h"
#include "front/front.h"
#include "sluice/outcome.h"

/* Connections that are closed when the worker runs short of connections or head buffers. */
enum sl_evicted { SL_EVICTED_IDLE_CONNECTION, SL_EVICTED_PARTIAL_HEAD, SL_EVICTED_CNT };

struct sl_core_stats {
	uint64_t requests; /* begun; each ends in one of `outcomes` */
	uint64_t outcomes[SL_OUTCOME_CNT];
	uint64_t front_errors[SL_FRONT_ERR_CNT];
	uint64_t protocols[SL_PROTO_CNT];
	uint64_t address_limits[SL_QUOTA_LIMIT_CNT]; /* refused to an address */
	uint64_t retried;                            /* sent again after a failure */
	uint64_t batches, batched;                   /* batches sent, requests in them */
	uint64_t clients_timed_out;
	uint64_t ended_for_others[SL_RANK_CNT]; /* exchanges ended because something was short */
	uint64_t request_windows_shrunk, request_reads_paused; /* because frames were short */
	uint64_t evicted[SL_EVICTED_CNT]; /* connections that were closed to free their resources */
	uint64_t slow_bodies, slow_readers;        /* exchanges ended for slow clients */
	uint64_t unmatched_datagrams;              /* the RPC's; filled in for a snapshot */
	uint64_t proxy_headers, proxy_malformed;   /* trusted load balancers: accepted, malformed */
	uint64_t access_log_dropped;               /* records lost because the ring was full */
	uint64_t stream_parts_in, stream_bytes_in; /* streamed requests */
	uint64_t stream_parts_out, stream_bytes_out; /* replies to streams */
	uint64_t stream_waits;                       /* caused by max_rate */
	uint64_t upgrades_ignored;     /* requests served without the upgrade that they asked for */
	struct sl_top_refused refused; /* address_limits by address, see sl_top_refused_read() */
	uint32_t streams;              /* open now */
	uint32_t clients;
};

#endif
