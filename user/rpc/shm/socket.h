/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dialer and listener of shm share: addresses, hello packets with a descriptor, credentials.
 */
#ifndef SL_RPC_SHM_SOCKET_H
#define SL_RPC_SHM_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "sluice/rpc_wire.h"

/* 0, or -ENAMETOOLONG, -EINVAL (empty, not absolute). */
int sl_shm_address(const char *path, struct sockaddr_un *sa);

/* memfd < 0: none. 0 or -errno; never blocks. */
int sl_shm_hello_send(int sock, const struct sl_rpc_hello *h, int memfd);

/* -EAGAIN: not there yet; -ECONNRESET: peer went; -EBADMSG. *memfd is -1 if none came. */
int sl_shm_hello_recv(int sock, struct sl_rpc_hello *h, int *memfd);

struct ucred sl_shm_peer(int sock);

/* Root, our own user, or our own group. */
bool sl_shm_may_connect(const struct ucred *peer);

/*
 * Who is believed to be the backend: the same, or the owner of the socket's directory, who decides
 * what stands in it. Where others may write in it too, they cannot pose as the backend.
 */
bool sl_shm_may_listen(const struct ucred *peer, const struct sockaddr_un *sa);

#endif
