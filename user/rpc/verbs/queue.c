/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a connection before its first message: queue pair, rings, keys. dial.c and listen.c call,
 * in this order: vb_new, vb_open, vb_connected, vb_open_rings, vb_send_keys, vb_keys_arrived; and
 * vb_borrow_from() if the owner's memory can be lent. close.c takes all of it apart.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/verbs/verbs.h"

enum {
	PAGE = 4096,
	SLICE_PACKETS = 24,
	BIND_MS = 100,
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
	sl_list_init(&v->base.stirred);
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

static int receive_keys(struct sl_verbs *v)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;
	struct ibv_sge sge = {.addr = (uintptr_t)&v->keys[1],
			      .length = sizeof(v->keys[1]),
			      .lkey = v->keys_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = VB_ID_KEYS, .sg_list = &sge, .num_sge = 1}, *bad;

	if (rdma_init_qp_attr(v->leash->id, &attr, &mask) || ibv_modify_qp(v->end.qp, &attr, mask))
		return negative_errno();
	return ibv_post_recv(v->end.qp, &wr, &bad) ? -EIO : 0;
}

size_t vb_rings_len(const struct vb_geometry *g)
{
	return (size_t)g->slots * SL_RPC_SLOT_SIZE + 2 * (size_t)g->bulk_len;
}

/* Wherever the others come to lie, and so that what is behind it is nobody's. */
uint8_t *vb_ring_of(const struct sl_verbs *v, uint32_t bulk_len)
{
	return v->slab->mem + v->slab->len - bulk_len;
}

static int take_slab(struct sl_verbs *v, const struct vb_geometry *g)
{
	errno = 0;
	v->slab = vb_arena_get(vb_home_arena(v->home), vb_rings_len(g));
	if (!v->slab)
		return negative_errno();
	v->map = v->slab->mem;
	v->bulk_len = g->bulk_len;
	return 0;
}

int vb_pin_rings(struct sl_verbs *v)
{
	int rc = vb_arena_pin(vb_home_arena(v->home), v->slab);

	v->ring_mr = v->bulk_mr = v->slab->mr;
	return rc;
}

static int open_end(struct sl_verbs *v, unsigned group, uint32_t slots)
{
	int rc;

	if (v->home) {
		struct vb_ends *ends = vb_home_ends(v->home);

		v->pd = vb_home_pd(v->home);
		vb_ends_want(ends, slots);
		rc = vb_ends_get(ends, slots, &v->end);
	} else {
		struct vb_place place = {.device = v->device,
					 .vector = vb_vector_of(v->device, group)};

		v->pd = place.pd = ibv_alloc_pd(v->device);
		if (v->pd)
			v->keys_mr =
				ibv_reg_mr(v->pd, v->keys, sizeof(v->keys), IBV_ACCESS_LOCAL_WRITE);
		if (!v->keys_mr)
			return negative_errno();
		rc = vb_end_make(&v->end, &place, slots);
	}
	if (rc)
		return rc;
	v->end.qp->qp_context = v->end.tx_cq->cq_context = v;
	v->quiet_max = slots / 4 < VB_SIGNAL_MAX ? slots / 4 : VB_SIGNAL_MAX;
	v->inbox.size = 2 * slots;
	vb_window_begin(v, slots);
	v->inbox.of = calloc(v->inbox.size, sizeof(*v->inbox.of));
	if (!v->inbox.of)
		return -ENOMEM;
	v->has_come = group >= VB_GROUP_BACKEND;
	memcpy(v->host, v->leash->id->route.addr.addr.ibaddr.dgid.raw, sizeof(v->host));
	if (v->home)
		vb_desk_enter(vb_home_desk(v->home), v);
	return 0;
}

int vb_open(struct sl_verbs *v, struct rdma_cm_id *id, struct rdma_event_channel *cm,
	    unsigned group, struct vb_geometry *g)
{
	uint8_t ack_timeout = ACK_TIMEOUT;
	int rc = vb_home_join(id->verbs, group, &v->home);

	if (rc)
		return rc;
	v->window = SL_RPC_MIN_SLOTS;
	/* Where it is not known, the network's own, of many seconds, holds. */
	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			      sizeof(ack_timeout));
	v->leash = vb_leash_new(id, cm);
	if (!v->leash)
		return -ENOMEM;
	v->device = id->verbs;
	v->port_num = id->port_num;
	errno = 0;
	rc = open_end(v, group, g->slots);
	/* From now on the connection manager leads it from state to state. */
	id->qp = v->end.qp;
	if (!rc && !v->home)
		rc = receive_keys(v);
	if (!rc)
		rc = vb_events_open(v);
	if (rc) {
		vb_events_close(v);
		vb_leash_drop(v->leash); /* what it held is still the caller's */
		v->leash = NULL;
		id->qp = NULL;
	}
	return rc;
}

int vb_open_known(struct sl_verbs *v, struct vb_leash *leash, unsigned group, struct vb_geometry *g)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = leash->id->port_num,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int rc;

	v->leash = leash;
	v->device = leash->id->verbs;
	v->port_num = leash->id->port_num;
	rc = vb_home_join(v->device, group, &v->home);
	if (rc)
		return rc;
	if (!v->home)
		return -EOPNOTSUPP;
	v->window = SL_RPC_MIN_SLOTS;
	errno = 0;
	rc = open_end(v, group, g->slots);
	if (!rc &&
	    ibv_modify_qp(v->end.qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		rc = -EIO;
	if (!rc)
		rc = vb_events_open(v);
	return rc ? rc : take_slab(v, g);
}

int vb_reach(struct sl_verbs *v, uint32_t qpn, uint32_t psn, uint32_t own_psn)
{
	const struct ibv_qp_attr *way = &v->leash->known.way;
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .ah_attr = way->ah_attr,
				  .path_mtu = way->path_mtu,
				  .dest_qp_num = qpn,
				  .rq_psn = psn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = VB_RNR_TIMER};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = ACK_TIMEOUT,
				  .retry_cnt = VB_RETRIES,
				  .rnr_retry = VB_RNR_RETRIES,
				  .sq_psn = own_psn,
				  .max_rd_atomic = 1};

	if (ibv_modify_qp(v->end.qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(v->end.qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return -EIO;
	v->ready = true;
	return 0;
}

static void lay_out(struct sl_verbs *v, const struct vb_geometry *g)
{
	size_t slots_len = (size_t)g->slots * SL_RPC_SLOT_SIZE;

	v->bulk_len = g->bulk_len;
	v->tx_slots = v->map;
	v->tx_bulk = v->tx_slots + slots_len;
	v->rx_slots = v->tx_bulk + g->bulk_len;
	v->rx_bulk = v->home ? vb_ring_of(v, g->bulk_len) : v->rx_slots + slots_len;
	v->mask = g->slots - 1;
	v->slot_mask = 2 * g->slots - 1;
}

/*
 * In a domain of its own the ring is open to whoever has its key, which is the peer. In a shared
 * one a window opens it to the one queue pair; its key is valid once the window is bound
 * (vb_send_keys).
 */
static int make_own_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	size_t len = 2 * ((size_t)g->slots * SL_RPC_SLOT_SIZE + g->bulk_len);

	v->map = vb_map(len, vb_node_of(v->device), &v->map_len);
	if (!v->map)
		return -ENOMEM;
	lay_out(v, g);
	v->ring_mr = ibv_reg_mr(v->pd, v->map, len - g->bulk_len, IBV_ACCESS_LOCAL_WRITE);
	if (v->ring_mr)
		v->bulk_mr = ibv_reg_mr(v->pd, v->rx_bulk, g->bulk_len,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return v->bulk_mr ? 0 : negative_errno();
}

static int make_shared_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	int rc = v->slab ? 0 : take_slab(v, g);

	if (rc)
		return rc;
	lay_out(v, g);
	return vb_pin_rings(v);
}

int vb_open_rings(struct sl_verbs *v, const struct vb_geometry *g)
{
	struct vb_way_facts *way = &v->leash->facts;
	int rc;

	errno = 0;
	rc = v->home ? make_shared_rings(v, g) : make_own_rings(v, g);
	if (rc)
		return rc;
	/* Per message that may be under way. */
	v->posted = calloc(g->slots, sizeof(*v->posted));
	v->rx_bulk_end = calloc(g->slots, sizeof(*v->rx_bulk_end));
	v->rx_slot = calloc(2 * (size_t)g->slots, sizeof(*v->rx_slot));
	v->borrowed = calloc(g->slots, sizeof(*v->borrowed));
	if (!v->posted || !v->rx_bulk_end || !v->rx_slot || !v->borrowed)
		return -ENOMEM;
	v->keys[0] = (struct vb_keys){
		.magic = VB_MAGIC,
		.rkey = v->home ? ibv_inc_rkey(v->end.mw->rkey) : v->bulk_mr->rkey,
		.bulk = (uintptr_t)v->rx_bulk,
	};
	rc = way->packet_len ? 0 : vb_way_look(way, v->leash->id, v->end.qp);
	if (rc)
		return rc;
	sl_credits_init(&v->base.credits, SL_RPC_MIN_SLOTS, g->slots, g->bulk_len);
	if (!v->home)
		vb_window_begin(v, g->slots);
	v->base.rate_bps = way->rate_bps;
	v->base.port = (uintptr_t)v->device + v->port_num; /* of one process: unique */
	v->base.bulk_max = g->bulk_len / 4;
	/* That of the way, which may be less than the port's: behind a tunnel, or with a VLAN. */
	v->packet_len = way->packet_len;
	v->base.slice_min = SLICE_PACKETS * v->packet_len - (uint32_t)sizeof(struct sl_rpc_header);
	if (v->base.bulk_max > way->message_max)
		v->base.bulk_max = way->message_max;
	return v->home ? 0 : vb_post_receives(v, 0, g->slots);
}

void vb_borrow_from(struct sl_verbs *v, void *mem, size_t len)
{
	v->mem_mr = v->home ? vb_arena_share(vb_home_arena(v->home), mem, len)
			    : ibv_reg_mr(v->pd, mem, len, 0);
	if (!v->mem_mr)
		return;
	v->mem = mem;
	v->mem_len = len;
	v->base.copies = false;
	v->base.spans_max = v->end.sge_max * VB_WRITES_MAX - 1; /* and the header */
}

int vb_connected(struct sl_verbs *v)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = VB_RNR_TIMER};

	v->ready = true;
	if (ibv_modify_qp(v->end.qp, &attr, IBV_QP_MIN_RNR_TIMER))
		return -EIO;
	return vb_leash_watch(v->leash);
}

static struct ibv_send_wr bind_of(struct sl_verbs *v)
{
	return (struct ibv_send_wr){
		.wr_id = VB_ID_BOUND,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = v->end.mw,
			    .rkey = v->keys[0].rkey,
			    .bind_info = {.mr = v->bulk_mr,
					  .addr = (uintptr_t)v->rx_bulk,
					  .length = v->base.credits.bulk_len,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};
}

int vb_bind(struct sl_verbs *v)
{
	struct ibv_send_wr bind = bind_of(v);
	uint64_t until_ns = sl_now_ns() + BIND_MS * SL_NS_PER_MS;

	bind.send_flags = IBV_SEND_SIGNALED;
	if (vb_post_chain(v->end.qp, &bind))
		return -EIO;
	while (!v->bound && !v->gone && sl_now_ns() < until_ns)
		vb_progress(&v->base);
	return v->bound ? 0 : -EIO;
}

/* Goes from the last of the slots for messages, which is used last. */
int vb_send_keys(struct sl_verbs *v)
{
	uint8_t *slot = v->tx_slots + (size_t)v->mask * SL_RPC_SLOT_SIZE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot, .length = sizeof(v->keys[0]), .lkey = v->ring_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = VB_ID_KEYS,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr bind = bind_of(v);

	bind.next = &wr;
	memcpy(slot, &v->keys[0], sizeof(v->keys[0]));
	return vb_post_chain(v->end.qp, v->end.mw ? &bind : &wr) ? -EIO : 0;
}

int vb_keys_arrived(struct sl_verbs *v)
{
	struct vb_arrival a;

	vb_pull(v);
	if (!vb_inbox_next(&v->inbox, &a))
		return v->gone || v->flooded ? -ECONNRESET : 0;
	/* The first message of the peer: in a slot of the home's, or in `keys` itself. */
	if (v->home && a.how == VB_BY_SEND)
		memcpy(&v->keys[1], vb_home_slot(v->home, a.slot), sizeof(v->keys[1]));
	vb_give_back(v, &a);
	v->gone |= a.how == VB_FAILED || vb_is_bye(&a);
	if (v->gone)
		return -ECONNRESET;
	if (a.how != VB_BY_SEND || a.len != sizeof(struct vb_keys) || v->keys[1].magic != VB_MAGIC)
		return -EBADMSG;
	/* Not checked: they mean something to the peer's device alone, which does check them. */
	v->peer_bulk = v->keys[1].bulk;
	v->peer_rkey = v->keys[1].rkey;
	return 1;
}
