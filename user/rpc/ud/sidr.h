/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a host takes HELLOs, asked by the connection manager (SIDR): two packets, and no connection
 * comes of it. These are members of ud_verbs_device (device.h).
 */
#ifndef SL_RPC_UD_SIDR_H
#define SL_RPC_UD_SIDR_H

#include "rpc/ud/device.h"

struct rdma_cm_id;

/* This end of what an id is bound to. 0 or -errno. */
int ud_sidr_local(struct ud_local *l, const struct rdma_cm_id *id);

int ud_sidr_ask(const struct ud_question *q, struct ud_host *h, const char **why);
int ud_sidr_sign_new(struct ud_sign **sign, struct sockaddr_storage *sa);
int ud_sidr_sign_answer(struct ud_sign *s, uint32_t qpn);
void ud_sidr_sign_free(struct ud_sign *s);

#endif
