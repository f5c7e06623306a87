/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include "base/num.h"
#include "rpc/rpc.h"

int rdma_parse_addr(const char *text, struct sockaddr_storage *sa)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct addrinfo *found;
	const char *colon = strrchr(text, ':');
	uint64_t port;
	char host[64];
	size_t len;

	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host) ||
	    sl_parse_u64_max(sl_span_cstr(colon + 1), UINT16_MAX, &port))
		return -EINVAL;
	len = (size_t)(colon - text);
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	memset(sa, 0, sizeof(*sa));
	if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
		in.sin_port = htons((uint16_t)port);
		memcpy(sa, &in, sizeof(in));
		return 0;
	}
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return -EINVAL;
	memcpy(sa, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static bool addr_of_gid(const union ibv_gid *gid, int family, struct sockaddr_storage *sa)
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

static int addr_of_device(struct ibv_context *device, const struct sl_rpc_rdma *rdma, int family,
			  struct sockaddr_storage *sa)
{
	struct ibv_device_attr attr;
	struct ibv_gid_entry entry;
	struct ibv_port_attr table;
	uint8_t last = rdma->port;

	if (!last && ibv_query_device(device, &attr) == 0)
		last = attr.phys_port_cnt;
	for (uint8_t port = rdma->port ? rdma->port : 1; port <= last; port++) {
		if (ibv_query_port(device, port, &table))
			continue;
		for (int i = 0; i < table.gid_tbl_len; i++) {
			if (ibv_query_gid_ex(device, port, (uint32_t)i, &entry, 0) == 0 &&
			    entry.gid_type != IBV_GID_TYPE_ROCE_V1 &&
			    addr_of_gid(&entry.gid, family, sa))
				return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

int rdma_path_source(const struct sl_rpc_rdma *rdma, int family, struct sockaddr_storage *from)
{
	struct ibv_context **all;
	int rc = -ENODEV;

	*from = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
	if (rdma->source) {
		char text[80];

		snprintf(text, sizeof(text), strchr(rdma->source, ':') ? "[%s]:0" : "%s:0",
			 rdma->source);
		return rdma_parse_addr(text, from) || from->ss_family != family ? -EADDRNOTAVAIL
										: 0;
	}
	if (!rdma->device)
		return 0;
	all = rdma_get_devices(NULL);
	for (unsigned i = 0; all && all[i]; i++) {
		if (strcmp(ibv_get_device_name(all[i]->device), rdma->device) == 0)
			rc = addr_of_device(all[i], rdma, family, from);
	}
	if (all)
		rdma_free_devices(all);
	return rc;
}

int rdma_gid_index(struct ibv_context *device, uint8_t port, const uint8_t gid[16])
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr attr;

	if (ibv_query_port(device, port, &attr))
		return -EIO;
	/* RoCE v1 and v2 have equal GIDs; the CM uses v2. */
	for (int i = 0; i < attr.gid_tbl_len && i <= UINT8_MAX; i++) {
		if (ibv_query_gid_ex(device, port, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type != IBV_GID_TYPE_ROCE_V1 && !memcmp(entry.gid.raw, gid, 16))
			return i;
	}
	return -EADDRNOTAVAIL;
}

struct rdma_path_spec rdma_path_spec_of(const struct sl_rpc_rdma *rdma)
{
	struct rdma_path_spec spec;

	memset(&spec, 0, sizeof(spec));
	if (rdma->source)
		snprintf(spec.source, sizeof(spec.source), "%s", rdma->source);
	if (rdma->device)
		snprintf(spec.device, sizeof(spec.device), "%s", rdma->device);
	spec.port = rdma->port;
	spec.tos = rdma->tos;
	return spec;
}

bool rdma_path_matches(const struct sl_rpc_rdma *rdma, const struct rdma_cm_id *id)
{
	return (!rdma->device ||
		strcmp(ibv_get_device_name(id->verbs->device), rdma->device) == 0) &&
	       (!rdma->port || id->port_num == rdma->port);
}

int rdma_path_resolve(const struct sl_rpc_rdma *rdma, struct rdma_cm_id *id,
		      struct sockaddr_storage *from, struct sockaddr_storage *to, int timeout_ms)
{
	uint8_t tos = rdma->tos;

	if (tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		return -errno;
	return rdma_resolve_addr(id, (struct sockaddr *)from, (struct sockaddr *)to, timeout_ms)
		       ? -errno
		       : 0;
}
