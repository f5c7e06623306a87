/* SPDX-License-Identifier: Apache-2.0 */
/* Says to people which way the bytes go. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include "rpc/rpc.h"
#include "rpc/verbs/verbs.h"

enum { PROBE_MS = 1000, WAY_LEN = 96 };

/* Index of the GID in the port's table, or -1. */
static int gid_index(const struct rdma_cm_id *id, const union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		/* RoCE v1 and v2 have the same GID twice: the connection manager speaks v2. */
		if (ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type != IBV_GID_TYPE_ROCE_V1 &&
		    memcmp(&entry.gid, gid, sizeof(*gid)) == 0)
			return i;
	}
	return -1;
}

/* "rxe0/1 gid[1] ::ffff:10.0.0.1 mtu 1024 RC" */
static void describe_way(const struct rdma_cm_id *id, unsigned mtu_code, char way[WAY_LEN])
{
	const union ibv_gid *gid = &id->route.addr.addr.ibaddr.sgid;
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	snprintf(way, WAY_LEN, "%.16s/%u gid[%d] %s mtu %u RC",
		 ibv_get_device_name(id->verbs->device), id->port_num, gid_index(id, gid), text,
		 mtu_code ? 128u << mtu_code : 0);
}

void vb_describe(struct sl_verbs *v, const char *what)
{
	struct ibv_qp_attr attr = {.path_mtu = 0};
	struct ibv_qp_init_attr init;
	char way[WAY_LEN];

	(void)ibv_query_qp(v->end.qp, &attr, IBV_QP_PATH_MTU, &init);
	describe_way(v->leash->id, attr.path_mtu, way);
	snprintf(v->base.info, sizeof(v->base.info), "rdma %s, %u %s slots%s", way, v->mask + 1,
		 v->home ? "shared" : "own", what);
}

/* The route is known to this host: no other is asked. */
static int resolve(struct rdma_cm_id *id, const struct sl_rpc_rdma *way,
		   struct sockaddr_storage *sa)
{
	struct pollfd p = {.fd = id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int rc = vb_way_begin(way, id, sa, PROBE_MS);
	bool found;

	if (rc)
		return rc;
	if (poll(&p, 1, PROBE_MS) != 1 || rdma_get_cm_event(id->channel, &ev))
		return -ETIMEDOUT;
	found = ev->event == RDMA_CM_EVENT_ADDR_RESOLVED;
	rdma_ack_cm_event(ev);
	return found && vb_way_is(way, id) ? 0 : -ENETUNREACH;
}

int sl_verbs_probe(const char *address, const struct sl_rpc_rdma *way, char *text, size_t len)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	struct sockaddr_storage sa;
	struct ibv_port_attr port;
	struct rdma_cm_id *id;
	char found[WAY_LEN];
	int rc = vb_address(address, &sa);

	if (!cm)
		return -ENODEV;
	if (rc || rdma_create_id(cm, &id, NULL, RDMA_PS_TCP)) {
		rdma_destroy_event_channel(cm);
		return rc ? rc : -errno;
	}
	rc = resolve(id, way, &sa);
	if (!rc && ibv_query_port(id->verbs, id->port_num, &port))
		rc = -EIO;
	if (!rc) {
		describe_way(id, port.active_mtu, found);
		snprintf(text, len, "rdma %s", found);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(cm);
	return rc;
}

void sl_verbs_preload(void)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	/* Nothing is opened: uverbs refuses who changes its rights after that. */
	if (all)
		ibv_free_device_list(all);
}
