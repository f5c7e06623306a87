/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc.h"
#include "rpc/rdma/info.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/rc_conn.h"

const struct sl_transport_ops rc_transport_ops = {
	.name = "verbs",
	.post = rc_post,
	.flush = rc_flush,
	.poll = rc_poll,
	.release = rc_release,
	.sent = rc_sent,
	.window = rc_tx_window,
	.progress = rc_progress,
	.arm = rc_arm,
	.disarm = rc_disarm,
	.check = rc_check,
	.halt = rc_conn_halt,
	.close = rc_conn_close,
	.attach = rc_attach,
};

const struct sl_transport_scheme sl_rc_scheme = {
	.scheme = "rdma",
	/* Clearing and registering it dominates set-up time; 100 Gbit/s fill it in 80 us. */
	.bulk_ring_len = 1 << 20,
	.wait_closed = sl_rdma_wait_closed,
	.route_info = sl_rdma_route_info,
	.preload = sl_rdma_preload,
	.dial = sl_rc_dial,
	.probe_peer = sl_rc_probe_peer,
	.listen = sl_rc_listen,
};
