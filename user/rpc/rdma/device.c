/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/device.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include "rpc/rdma/neigh.h"
#include "rpc/rdma/path.h"
#include "rpc/rdma/ud_qp.h"
#include "rpc/rdma/sidr.h"
#include "rpc/rdma/async_event.h"

enum { HOP_LIMIT = 64 };

static struct ibv_ah *create_ah(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = l->port,
				   .grh = {.hop_limit = HOP_LIMIT, .traffic_class = tos}};
	int index = rdma_gid_index(((struct ibv_pd *)l->device)->context, l->port, l->gid);

	if (index < 0) {
		errno = -index;
		return NULL;
	}
	attr.grh.sgid_index = (uint8_t)index;
	memcpy(attr.grh.dgid.raw, gid, 16);
	return ibv_create_ah(l->device, &attr);
}

static void destroy_ah(struct ibv_ah *ah)
{
	ibv_destroy_ah(ah);
}

const struct rdma_device_ops rdma_device_ibv = {
	.open = ud_qp_open,
	.close = ud_qp_close,
	.tx_buf = ud_qp_tx_buf,
	.send = ud_qp_send,
	.flush = ud_qp_flush,
	.poll = ud_qp_poll,
	.repost = ud_qp_repost,
	.is_from = ud_qp_is_from,
	.arm = ud_qp_arm,
	.ack_event = ud_qp_ack_event,
	.port_watch = rdma_port_watch,
	.port_unwatch = rdma_port_unwatch,
	.ah_create = create_ah,
	.ah_destroy = destroy_ah,
	.neigh_resolved = neigh_resolved,
	.sidr_resolve = sidr_resolve,
	.sidr_new = sidr_service_new,
	.sidr_local = sidr_service_local,
	.sidr_reply = sidr_service_reply,
	.sidr_free = sidr_service_free,
};

const struct rdma_device_ops *rdma_device = &rdma_device_ibv;
