/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_RPC_SHM_SOCKET_H
#define SL_RPC_SHM_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "wire/rpc_wire.h"

/* Fills in *sa. Returns 0, -EINVAL (no absolute path) or -ENAMETOOLONG. */
int sl_shm_address(const char *path, struct sockaddr_un *sa);

/* Sends a HELLO, with the descriptor if memfd >= 0. Returns 0 or -errno. Never blocks. */
int sl_shm_hello_send(int sock, const struct sl_rpc_hello *h, int memfd);

/*
 * Receives a HELLO. Returns 0, -EAGAIN (none yet), -ECONNRESET (the peer has closed), -EBADMSG or
 * another -errno. The caller owns *memfd; -1: none.
 */
int sl_shm_hello_recv(int sock, struct sl_rpc_hello *h, int *memfd);

/* Returns the peer's credentials. uid and gid are -1 if unknown. */
struct ucred sl_shm_peer(int sock);

/* Returns true for root, our own user, and our own group. */
bool sl_shm_may_connect(const struct ucred *peer);

/*
 * Returns true for the same peers and the owner of the socket's directory: they may pose as the
 * backend.
 */
bool sl_shm_may_listen(const struct ucred *peer, const struct sockaddr_un *sa);

#endif
