/* SPDX-License-Identifier: Apache-2.0 */
/* SIDR: asks a host's CM for the QP number of wireup requests, without a connection. */
#ifndef SL_RPC_RDMA_SIDR_H
#define SL_RPC_RDMA_SIDR_H

#include "rpc/rdma/device.h"

/* Private data of a SIDR reply. */
struct sidr_identity {
	uint32_t magic; /* SL_WIREUP_MAGIC */
	uint8_t version, reserved[3];
	uint64_t epoch;
};

/* Asks for a host's wireup QP; blocks. Returns 0 or -errno. */
int sidr_resolve(const struct sidr_query *q, struct sidr_result *h, const char **why);
/* Opens a service for queries of wireup QPs. Returns 0 or -errno. */
int sidr_service_new(struct sidr_service **service, struct sockaddr_storage *sa, bool rc);
/* Fills in `local` again, for a forked child. Returns 0 or -errno. */
int sidr_service_local(struct sidr_service *s);
/* Answers waiting queries with the QP number. Returns 0 or -errno (device.h). */
int sidr_service_reply(struct sidr_service *s, uint32_t qpn);
/* Closes the service. */
void sidr_service_free(struct sidr_service *s);

#endif
