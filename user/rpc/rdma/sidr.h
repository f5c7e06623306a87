/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIDR: asks a host's CM for the QP number that takes wireup requests. It takes two packets and
 * makes no connection. Members of rdma_device_ibv (device.h).
 */
#ifndef SL_RPC_RDMA_SIDR_H
#define SL_RPC_RDMA_SIDR_H

#include "rpc/rdma/device.h"

struct rdma_cm_id;

/* Fills in the local end of a bound id. Returns 0 or -errno. */
int rdma_local_of_id(struct rdma_local *l, const struct rdma_cm_id *id);

/* See device.h. */
int sidr_resolve(const struct sidr_query *q, struct sidr_result *h, const char **why);
int sidr_service_new(struct sidr_service **service, struct sockaddr_storage *sa);
int sidr_service_reply(struct sidr_service *s, uint32_t qpn);
void sidr_service_free(struct sidr_service *s);

#endif
