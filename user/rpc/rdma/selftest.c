/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests type-2 memory windows on queue pairs with an SRQ. Some drivers only claim to combine them.
 *
 *   QP 1 --WRITE--> window of QP 0             must arrive, with its immediate data
 *        --SEND---> SRQ                        must arrive
 *   QP 0 --WRITE--> the window, through QP 1   must be refused
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/rdma/device.h"
#include "rpc/rdma/doorbell.h"

enum { LEN = 4096, WAIT_MS = 1000, RECEIVES = 2, WR_ID = 1, IMM_DATA = 0x5a5a };

struct rdma_selftest {
	struct ibv_context *device;
	uint8_t port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_qp *qp[2];
	uint32_t rkey;
	uint32_t last_imm;
	_Alignas(4096) uint8_t mem[2 * LEN]; /* sent and received data | window */
};

static bool create_objects(struct rdma_selftest *t)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 4, .max_send_sge = 1}};

	t->pd = ibv_alloc_pd(t->device);
	t->cq = ibv_create_cq(t->device, 16, NULL, NULL, 0);
	if (!t->pd || !t->cq)
		return false;
	t->srq = ibv_create_srq(t->pd, &shared);
	t->mr = ibv_reg_mr(t->pd, t->mem, sizeof(t->mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	t->mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_2);
	if (!t->srq || !t->mr || !t->mw)
		return false;
	attr.send_cq = attr.recv_cq = t->cq;
	attr.srq = t->srq;
	for (unsigned i = 0; i < 2; i++)
		t->qp[i] = ibv_create_qp(t->pd, &attr);
	return t->qp[0] && t->qp[1];
}

static void destroy_objects(struct rdma_selftest *t)
{
	if (t->mw)
		ibv_dealloc_mw(t->mw);
	for (unsigned i = 0; i < 2; i++) {
		if (t->qp[i])
			ibv_destroy_qp(t->qp[i]);
	}
	if (t->mr)
		ibv_dereg_mr(t->mr);
	if (t->srq)
		ibv_destroy_srq(t->srq);
	if (t->cq)
		ibv_destroy_cq(t->cq);
	if (t->pd)
		ibv_dealloc_pd(t->pd);
}

static bool find_gid(const struct rdma_selftest *t, const struct ibv_port_attr *port,
		     struct ibv_gid_entry *gid)
{
	struct ibv_gid_entry e;
	bool found = false;

	for (int i = 0; i < port->gid_tbl_len; i++) {
		if (ibv_query_gid_ex(t->device, t->port, (uint32_t)i, &e, 0) ||
		    e.gid_type == IBV_GID_TYPE_ROCE_V1)
			continue;
		*gid = e;
		found = true;
		if (!IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)e.gid.raw))
			break;
	}
	return found;
}

static bool connect_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	attr->qp_state = IBV_QPS_INIT;
	if (ibv_modify_qp(qp, attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr->qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return false;
	attr->qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

static bool connect_qps(struct rdma_selftest *t)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry gid;

	if (ibv_query_port(t->device, t->port, &port) || !find_gid(t, &port, &gid))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = {
			.port_num = t->port,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
			.path_mtu = port.active_mtu,
			.dest_qp_num = t->qp[!i]->qp_num,
			.max_dest_rd_atomic = 1,
			.max_rd_atomic = 1,
			.min_rnr_timer = RC_RNR_TIMER,
			.timeout = 14,
			.retry_cnt = 6,
			.rnr_retry = RC_RNR_RETRIES,
			.ah_attr = {.is_global = 1,
				    .dlid = port.lid,
				    .port_num = t->port,
				    .grh = {.dgid = gid.gid,
					    .sgid_index = (uint8_t)gid.gid_index,
					    .hop_limit = 64}},
		};

		if (!connect_qp(t->qp[i], &attr))
			return false;
	}
	return true;
}

static bool poll_completion(struct rdma_selftest *t, uint64_t until_ns, struct ibv_wc *wc)
{
	int n;

	while (!(n = ibv_poll_cq(t->cq, 1, wc)) && sl_now_ns() < until_ns)
		usleep(100);
	if (n == 1 && wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		t->last_imm = ntohl(wc->imm_data);
	return n == 1;
}

static bool await_completion(struct rdma_selftest *t, const struct ibv_qp *qp)
{
	uint64_t until_ns = sl_now_ns() + WAIT_MS * SL_NS_PER_MS;
	struct ibv_wc wc;

	while (poll_completion(t, until_ns, &wc)) {
		if (wc.wr_id == WR_ID && wc.qp_num == qp->qp_num)
			return wc.status == IBV_WC_SUCCESS;
	}
	return false;
}

static bool imm_arrived(struct rdma_selftest *t)
{
	uint64_t until_ns = sl_now_ns() + WAIT_MS * SL_NS_PER_MS;
	struct ibv_wc wc;

	while (!t->last_imm && poll_completion(t, until_ns, &wc))
		;
	return t->last_imm == IMM_DATA;
}

static bool bind_window(struct rdma_selftest *t)
{
	struct ibv_send_wr wr = {
		.wr_id = WR_ID,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = t->mw,
			    .rkey = ibv_inc_rkey(t->mw->rkey),
			    .bind_info = {.mr = t->mr,
					  .addr = (uintptr_t)t->mem + LEN,
					  .length = LEN,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};

	t->rkey = wr.bind_mw.rkey;
	return rdma_post_chain(t->qp[0], &wr) == 0 && await_completion(t, t->qp[0]);
}

static bool send_from(struct rdma_selftest *t, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
		      const uint8_t *at)
{
	struct ibv_sge sge = {.addr = (uintptr_t)t->mem, .length = 64, .lkey = t->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = WR_ID,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(IMM_DATA),
				 .wr.rdma = {.remote_addr = (uintptr_t)at, .rkey = t->rkey}};

	return rdma_post_chain(qp, &wr) == 0 && await_completion(t, qp);
}

static bool write_to_window(struct rdma_selftest *t)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	memset(t->mem, 0x5a, 64);
	return ibv_post_srq_recv(t->srq, &wr, &bad) == 0 &&
	       send_from(t, t->qp[1], IBV_WR_RDMA_WRITE_WITH_IMM, t->mem + LEN) && imm_arrived(t) &&
	       memcmp(t->mem, t->mem + LEN, 64) == 0;
}

static bool send_to_srq(struct rdma_selftest *t)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mem + 1024, .length = 1024, .lkey = t->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(t->srq, &wr, &bad) == 0 &&
	       send_from(t, t->qp[1], IBV_WR_SEND, NULL) && memcmp(t->mem, t->mem + 1024, 64) == 0;
}

/*
 * Tests that another QP cannot write. Bounds are not tested: soft-RoCE checks those of the
 * registration only.
 */
static bool other_qp_is_refused(struct rdma_selftest *t)
{
	return !send_from(t, t->qp[0], IBV_WR_RDMA_WRITE, t->mem + LEN + 1024) &&
	       t->mem[LEN + 1024] == 0;
}

const char *sl_rpc_rdma_selftest(struct ibv_context *device, uint8_t port)
{
	static const struct {
		bool (*run)(struct rdma_selftest *t);
		const char *error;
	} steps[] = {
		{create_objects, "a shared receive queue and a memory window cannot be made"},
		{connect_qps, "a queue pair cannot be connected to another of its port"},
		{bind_window, "a memory window cannot be bound"},
		{write_to_window,
		 "a write with immediate data into a memory window does not arrive"},
		{send_to_srq, "a message does not arrive at a shared receive queue"},
		{other_qp_is_refused, "a memory window is open to other queue pairs"},
	};
	struct rdma_selftest *t = aligned_alloc(4096, (sizeof(*t) + 4095) / 4096 * 4096);
	const char *why = "out of memory";

	if (!t)
		return why;
	memset(t, 0, sizeof(*t));
	t->device = device;
	t->port = port;
	why = NULL;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]) && !why; i++)
		why = steps[i].run(t) ? NULL : steps[i].error;
	destroy_objects(t);
	free(t);
	return why;
}
