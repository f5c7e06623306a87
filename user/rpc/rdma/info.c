/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include "rpc/rpc.h"
#include "rpc/rdma/path.h"

enum { PROBE_MS = 1000 };

/* Returns the index of the GID in the port's table, or -1. */
static int gid_index_of(const struct rdma_cm_id *id, const union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		/* RoCE v1 and v2 have equal GIDs; the CM uses v2. */
		if (ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type != IBV_GID_TYPE_ROCE_V1 &&
		    memcmp(&entry.gid, gid, sizeof(*gid)) == 0)
			return i;
	}
	return -1;
}

/* "rxe0/1 gid[1] ::ffff:10.0.0.1 mtu 1024 RC" */
static void format_path(const struct rdma_cm_id *id, unsigned mtu_code,
			char text_out[RDMA_PATH_TEXT_LEN])
{
	const union ibv_gid *gid = &id->route.addr.addr.ibaddr.sgid;
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	snprintf(text_out, RDMA_PATH_TEXT_LEN, "%.16s/%u gid[%d] %s mtu %u RC",
		 ibv_get_device_name(id->verbs->device), id->port_num, gid_index_of(id, gid), text,
		 mtu_code ? 128u << mtu_code : 0);
}

static uint64_t port_rate_bps(const struct ibv_port_attr *port)
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

int rdma_path_query(struct rdma_path_info *f, const struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;

	if (ibv_query_port(id->verbs, id->port_num, &port) ||
	    ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU, &init))
		return -EIO;
	/* The path is unset in earlier states. */
	if (attr.qp_state != IBV_QPS_RTR && attr.qp_state != IBV_QPS_RTS)
		return -EINVAL;
	f->rate_bps = port_rate_bps(&port);
	f->message_max = port.max_msg_sz;
	f->packet_len = 128u << attr.path_mtu;
	format_path(id, attr.path_mtu, f->text);
	return 0;
}

/* Only asks this host's routes. */
static int resolve_addr(struct rdma_cm_id *id, const struct sl_rpc_rdma *rdma,
			struct sockaddr_storage *sa)
{
	struct pollfd p = {.fd = id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int rc = rdma_path_resolve(rdma, id, sa, PROBE_MS);
	bool found;

	if (rc)
		return rc;
	if (poll(&p, 1, PROBE_MS) != 1 || rdma_get_cm_event(id->channel, &ev))
		return -ETIMEDOUT;
	found = ev->event == RDMA_CM_EVENT_ADDR_RESOLVED;
	rdma_ack_cm_event(ev);
	return found && rdma_path_matches(rdma, id) ? 0 : -ENETUNREACH;
}

int sl_rdma_route_info(const char *address, const struct sl_rpc_rdma *rdma, char *text, size_t len)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	struct sockaddr_storage sa;
	struct ibv_port_attr port;
	struct rdma_cm_id *id;
	char found[RDMA_PATH_TEXT_LEN];
	int rc = rdma_parse_addr(address, &sa);

	if (!cm)
		return -ENODEV;
	if (rc || rdma_create_id(cm, &id, NULL, RDMA_PS_TCP)) {
		rdma_destroy_event_channel(cm);
		return rc ? rc : -errno;
	}
	rc = resolve_addr(id, rdma, &sa);
	if (!rc && ibv_query_port(id->verbs, id->port_num, &port))
		rc = -EIO;
	if (!rc) {
		format_path(id, port.active_mtu, found);
		snprintf(text, len, "rdma %s", found);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(cm);
	return rc;
}

void sl_rdma_preload(void)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	/* Opens no device: uverbs would refuse a process that changes its rights later. */
	if (all)
		ibv_free_device_list(all);
}
