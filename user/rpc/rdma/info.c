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

/* "rxe0/1 gid[1] ::ffff:10.0.0.1 mtu 1024 RC" */
static void format_path(struct ibv_context *device, uint8_t port, const uint8_t gid[16],
			uint32_t mtu, char text_out[RDMA_PATH_TEXT_LEN])
{
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(AF_INET6, gid, text, sizeof(text));
	snprintf(text_out, RDMA_PATH_TEXT_LEN, "%.16s/%u gid[%d] %s mtu %u RC",
		 ibv_get_device_name(device->device), port, rdma_gid_index(device, port, gid), text,
		 mtu);
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

int rdma_path_query(struct rdma_path_info *f, const struct rdma_local *local, uint32_t mtu)
{
	struct ibv_context *device = ((struct ibv_pd *)local->device)->context;
	struct ibv_port_attr port;

	if (ibv_query_port(device, local->port, &port))
		return -EIO;
	f->rate_bps = port_rate_bps(&port);
	f->message_max = port.max_msg_sz;
	format_path(device, local->port, local->gid, mtu, f->text);
	return 0;
}

static int resolve_addr(struct rdma_cm_id *id, const struct sl_rpc_rdma *rdma,
			struct sockaddr_storage *sa)
{
	struct pollfd p = {.fd = id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	struct sockaddr_storage from;
	int rc = rdma_path_source(rdma, sa->ss_family, &from);
	bool found;

	if (!rc)
		rc = rdma_path_resolve(rdma, id, &from, sa, PROBE_MS);
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
		format_path(id->verbs, id->port_num, id->route.addr.addr.ibaddr.sgid.raw,
			    128u << port.active_mtu, found);
		snprintf(text, len, "rdma %s", found);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(cm);
	return rc;
}

void sl_rdma_preload(void)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	/* Opens no device: uverbs refuses later changes of rights. */
	if (all)
		ibv_free_device_list(all);
}
