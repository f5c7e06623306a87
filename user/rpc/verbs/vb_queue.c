/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/verbs/verbs.h"

enum {
	PAGE = 4096,
	SPARE = 16,       /* work requests besides those of messages: first SEND and receive */
	SEND_ENTRIES = 2, /* per slot: a WRITE and a SEND */
	SLICE_PACKETS = 16,
	ACK_TIMEOUT = 17, /* 4 us << 17, seven times: what is gone is noticed in four seconds */
};

static bool power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

bool vb_geometry_ok(const struct vb_geometry *g)
{
	return power_of_two(g->slots) && g->slots >= SL_RPC_MIN_SLOTS &&
	       g->slots <= SL_RPC_MAX_SLOTS && power_of_two(g->bulk_len) &&
	       g->bulk_len >= SL_RPC_MIN_BULK && g->bulk_len <= SL_RPC_MAX_BULK;
}

struct sl_verbs *vb_new(void)
{
	struct sl_verbs *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->base.ops = &sl_verbs_ops;
	v->base.copies = true;
	v->base.slot_len = SL_RPC_SLOT_SIZE;
	sl_list_init(&v->closing);
	v->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (v->base.fd < 0 || vb_closer_start()) {
		if (v->base.fd >= 0)
			close(v->base.fd);
		free(v);
		return NULL;
	}
	return v;
}

static int negative_errno(void)
{
	int e = errno;

	return e > 0 ? -e : -ENOMEM;
}

/* Inline where the device has it: asked for, then taken as granted. */
static int make_queue_pair(struct sl_verbs *v, const struct vb_geometry *g)
{
	struct ibv_device_attr device;
	struct ibv_qp_init_attr attr = {
		.qp_context = v,
		.send_cq = v->tx_cq,
		.recv_cq = v->rx_cq,
		.srq = v->home ? vb_home_srq(v->home) : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = SEND_ENTRIES * g->slots + SPARE,
			.max_recv_wr = v->home ? 0 : g->slots + SPARE,
			.max_send_sge = VB_SGE_MAX,
			.max_recv_sge = v->home ? 0 : 1,
			.max_inline_data = VB_INLINE_WANT},
	};

	if (ibv_query_device(v->id->verbs, &device))
		return -EIO;
	if (device.max_sge < VB_SGE_MAX)
		attr.cap.max_send_sge = (uint32_t)device.max_sge;
	v->sge_max = attr.cap.max_send_sge;
	v->wr_max = attr.cap.max_send_wr - 1;
	if (rdma_create_qp(v->id, v->pd, &attr)) {
		attr.cap.max_inline_data = 0;
		if (rdma_create_qp(v->id, v->pd, &attr))
			return negative_errno();
	}
	v->inline_max = attr.cap.max_inline_data;
	v->quiet_max = g->slots / 4 < VB_SIGNAL_MAX ? g->slots / 4 : VB_SIGNAL_MAX;
	return 0;
}

static int receive_keys(struct sl_verbs *v)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&v->keys[1],
			      .length = sizeof(v->keys[1]),
			      .lkey = v->keys_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = VB_ID_KEYS, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(v->id->qp, &wr, &bad) ? -EIO : 0;
}

static int open_queue(struct sl_verbs *v, const struct vb_geometry *g)
{
	int rc = make_queue_pair(v, g);

	if (!rc && !v->home)
		rc = receive_keys(v);
	if (!rc)
		rc = vb_events_open(v);
	if (!rc && ibv_req_notify_cq(v->rx_cq, 0))
		rc = -EIO;
	return rc;
}

int vb_open(struct sl_verbs *v, struct rdma_cm_id *id, struct rdma_event_channel *cm,
	    unsigned group, struct vb_geometry *g)
{
	uint8_t ack_timeout = ACK_TIMEOUT;
	int rc = vb_home_join(id->verbs, group, &g->slots, &v->home);

	if (rc)
		return rc;
	v->window = g->slots;
	/* Where it is not known, the network's own, of many seconds, holds. */
	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			      sizeof(ack_timeout));
	v->id = id;
	v->cm = cm;
	errno = 0;
	v->pd = v->home ? vb_home_pd(v->home) : ibv_alloc_pd(id->verbs);
	if (v->pd)
		v->bell = ibv_create_comp_channel(id->verbs);
	if (v->bell)
		v->tx_cq = ibv_create_cq(id->verbs, (int)(SEND_ENTRIES * g->slots + SPARE), v,
					 v->bell, 0);
	if (v->tx_cq)
		v->rx_cq = ibv_create_cq(id->verbs, (int)(g->slots + SPARE), v, v->bell, 0);
	if (v->rx_cq)
		v->keys_mr = ibv_reg_mr(v->pd, v->keys, sizeof(v->keys), IBV_ACCESS_LOCAL_WRITE);
	rc = v->keys_mr ? open_queue(v, g) : negative_errno();
	if (rc) {
		vb_events_close(v);
		v->id = NULL; /* still the caller's */
		v->cm = NULL;
		if (id->qp)
			rdma_destroy_qp(id);
	}
	return rc;
}

static uint64_t rate_of(const struct ibv_port_attr *port)
{
	static const struct {
		uint8_t code;
		uint16_t gbit_x10;
	} speeds[] = {{1, 25},   {2, 50},   {4, 100},  {8, 100},
		      {16, 140}, {32, 250}, {64, 500}, {128, 1000}};
	static const uint8_t widths[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	uint64_t rate = 25, width = 1;

	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		if (speeds[i].code == port->active_speed)
			rate = speeds[i].gbit_x10;
	}
	for (unsigned i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		if (widths[i][0] == port->active_width)
			width = widths[i][1];
	}
	return rate * width * 100 * 1000 * 1000;
}

static void lay_out(struct sl_verbs *v, const struct vb_geometry *g)
{
	size_t slots_len = (size_t)g->slots * SL_RPC_SLOT_SIZE;

	v->tx_slots = v->map;
	v->tx_bulk = v->tx_slots + slots_len;
	v->rx_slots = v->tx_bulk + g->bulk_len;
	v->rx_bulk = v->rx_slots + (v->home ? 0 : slots_len);
	v->mask = g->slots - 1;
	v->slot_mask = 2 * g->slots - 1;
}

/* A process that forks keeps its memory where the device has it. */
static int map_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	v->map_len =
		(v->home ? 1 : 2) * (size_t)g->slots * SL_RPC_SLOT_SIZE + 2 * (size_t)g->bulk_len;
	v->map = mmap(NULL, v->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (v->map == MAP_FAILED) {
		v->map = NULL;
		return -ENOMEM;
	}
	(void)madvise(v->map, v->map_len, MADV_DONTFORK);
	lay_out(v, g);
	return 0;
}

/* Per message that may be under way. */
static int make_tables(struct sl_verbs *v, uint32_t slots)
{
	v->posted = calloc(slots, sizeof(*v->posted));
	v->rx_bulk_end = calloc(slots, sizeof(*v->rx_bulk_end));
	v->rx_slot = calloc(2 * (size_t)slots, sizeof(*v->rx_slot));
	v->borrowed = calloc(slots, sizeof(*v->borrowed));
	return v->posted && v->rx_bulk_end && v->rx_slot && v->borrowed ? 0 : -ENOMEM;
}

/*
 * In a domain of its own the ring is open to whoever has its key, which is the peer. In a shared
 * one a window opens it to the one queue pair; its key is valid once the window is bound
 * (vb_send_keys).
 */
static int register_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	unsigned access =
		IBV_ACCESS_LOCAL_WRITE | (v->home ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE);

	errno = 0;
	v->ring_mr = ibv_reg_mr(v->pd, v->map, v->map_len - g->bulk_len, IBV_ACCESS_LOCAL_WRITE);
	v->bulk_mr = ibv_reg_mr(v->pd, v->rx_bulk, g->bulk_len, access);
	if (v->home)
		v->mw = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
	if (!v->ring_mr || !v->bulk_mr || (v->home && !v->mw))
		return negative_errno();
	v->keys[0] = (struct vb_keys){
		.magic = VB_MAGIC,
		.rkey = v->home ? ibv_inc_rkey(v->mw->rkey) : v->bulk_mr->rkey,
		.bulk = (uintptr_t)v->rx_bulk,
	};
	return 0;
}

int vb_open_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	struct ibv_port_attr port;
	int rc = map_rings(v, g);

	if (!rc)
		rc = make_tables(v, g->slots);
	if (!rc)
		rc = register_rings(v, g);
	if (rc)
		return rc;
	if (v->home && g->slots < v->window) {
		vb_home_lower(v->home, v->window, g->slots);
		v->window = g->slots;
	}
	if (ibv_query_port(v->id->verbs, v->id->port_num, &port))
		return -EIO;
	sl_credits_init(&v->base.credits, g->slots, g->slots, g->bulk_len);
	v->base.rate_bps = rate_of(&port);
	v->base.bulk_max = g->bulk_len / 4;
	/* The announcing SEND is a packet more. */
	v->packet_len = 128u << port.active_mtu;
	v->base.slice_min = SLICE_PACKETS * v->packet_len;
	if (v->base.bulk_max > port.max_msg_sz)
		v->base.bulk_max = port.max_msg_sz;
	return v->home ? 0 : vb_post_receives(v, 0, g->slots);
}

void vb_borrow_from(struct sl_verbs *v, void *mem, size_t len)
{
	v->mem_mr = ibv_reg_mr(v->pd, mem, len, 0);
	if (!v->mem_mr)
		return;
	v->mem = mem;
	v->mem_len = len;
	v->base.copies = false;
}

int vb_send_keys(struct sl_verbs *v)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&v->keys[0],
			      .length = sizeof(v->keys[0]),
			      .lkey = v->keys_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = VB_ID_KEYS,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED};
	struct ibv_send_wr bind = {
		.wr_id = VB_ID_KEYS,
		.next = &wr,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = v->mw,
			    .rkey = v->keys[0].rkey,
			    .bind_info = {.mr = v->bulk_mr,
					  .addr = (uintptr_t)v->rx_bulk,
					  .length = v->base.credits.bulk_len,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};

	return vb_post_chain(v->id->qp, v->mw ? &bind : &wr) ? -EIO : 0;
}

/* The first message of the peer: in a slot of the home's, or in `keys` itself. */
static void take_keys(struct sl_verbs *v, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;

	if (!v->home)
		return;
	if (wc->status == IBV_WC_SUCCESS)
		memcpy(&v->keys[1], vb_home_slot(v->home, slot), sizeof(v->keys[1]));
	(void)vb_home_post(v->home, &slot, 1);
}

int vb_keys_arrived(struct sl_verbs *v)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(v->rx_cq, 1, &wc);

	if (n <= 0)
		return n < 0 ? -EIO : v->gone ? -ECONNRESET : 0;
	take_keys(v, &wc);
	if (wc.status != IBV_WC_SUCCESS)
		return -ECONNRESET;
	if (wc.opcode != IBV_WC_RECV || wc.byte_len != sizeof(struct vb_keys) ||
	    v->keys[1].magic != VB_MAGIC)
		return -EBADMSG;
	/* Not checked: they mean something to the peer's device alone, which does check them. */
	v->peer_bulk = v->keys[1].bulk;
	v->peer_rkey = v->keys[1].rkey;
	return 1;
}
