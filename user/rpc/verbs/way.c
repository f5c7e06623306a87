/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/way.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include "rpc/rpc.h"
#include "rpc/verbs/verbs.h"

/* The address that a GID of RoCE stands for; false: of another family, or of a link only. */
static bool address_of(const union ibv_gid *gid, int family, struct sockaddr_storage *sa)
{
	const struct in6_addr *a = (const struct in6_addr *)gid->raw;
	struct sockaddr_in *in = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)sa;

	if (IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_V4MAPPED(a) != (family == AF_INET))
		return false;
	memset(sa, 0, sizeof(*sa));
	sa->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		memcpy(&in->sin_addr, gid->raw + 12, 4);
	else
		in6->sin6_addr = *a;
	return true;
}

/* The first of that family in the tables of its ports, or of the one that is meant. */
static int address_of_device(struct ibv_context *device, const struct sl_rpc_rdma *way, int family,
			     struct sockaddr_storage *sa)
{
	struct ibv_device_attr attr;
	struct ibv_gid_entry entry;
	struct ibv_port_attr table;
	uint8_t last = way->port;

	if (!last && ibv_query_device(device, &attr) == 0)
		last = attr.phys_port_cnt;
	for (uint8_t port = way->port ? way->port : 1; port <= last; port++) {
		if (ibv_query_port(device, port, &table))
			continue;
		for (int i = 0; i < table.gid_tbl_len; i++) {
			if (ibv_query_gid_ex(device, port, (uint32_t)i, &entry, 0) == 0 &&
			    entry.gid_type != IBV_GID_TYPE_ROCE_V1 &&
			    address_of(&entry.gid, family, sa))
				return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

static int find_source(const struct sl_rpc_rdma *way, int family, struct sockaddr_storage *sa)
{
	struct ibv_context **all;
	int rc = -ENODEV;

	if (way->source) {
		char text[80];

		snprintf(text, sizeof(text), strchr(way->source, ':') ? "[%s]:0" : "%s:0",
			 way->source);
		return vb_address(text, sa) || sa->ss_family != family ? -EADDRNOTAVAIL : 0;
	}
	all = rdma_get_devices(NULL);
	for (unsigned i = 0; all && all[i]; i++) {
		if (strcmp(ibv_get_device_name(all[i]->device), way->device) == 0)
			rc = address_of_device(all[i], way, family, sa);
	}
	if (all)
		rdma_free_devices(all);
	return rc;
}

struct vb_way vb_way_of(const struct sl_rpc_rdma *asked)
{
	struct vb_way way;

	memset(&way, 0, sizeof(way));
	if (asked->source)
		snprintf(way.source, sizeof(way.source), "%s", asked->source);
	if (asked->device)
		snprintf(way.device, sizeof(way.device), "%s", asked->device);
	way.port = asked->port;
	way.tos = asked->tos;
	return way;
}

bool vb_way_is(const struct sl_rpc_rdma *way, const struct rdma_cm_id *id)
{
	return (!way->device || strcmp(ibv_get_device_name(id->verbs->device), way->device) == 0) &&
	       (!way->port || id->port_num == way->port);
}

int vb_way_begin(const struct sl_rpc_rdma *way, struct rdma_cm_id *id, struct sockaddr_storage *to,
		 int timeout_ms)
{
	bool chosen = way->source || way->device;
	struct sockaddr_storage from;
	uint8_t tos = way->tos;
	int rc = chosen ? find_source(way, to->ss_family, &from) : 0;

	if (rc)
		return rc;
	/* The peer's packets have it too: the connection request tells. */
	if (tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		return -errno;
	return rdma_resolve_addr(id, chosen ? (struct sockaddr *)&from : NULL,
				 (struct sockaddr *)to, timeout_ms)
		       ? -errno
		       : 0;
}
