/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_RPC_SHM_SOCKET_H
#define SL_RPC_SHM_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "wire/rpc_wire.h"

/* Fills `sa`. Returns 0, -ENAMETOOLONG, or -EINVAL (not an absolute path). */
int sl_shm_address(const char *path, struct sockaddr_un *sa);

/* Sends a hello, with the descriptor if memfd >= 0. Returns 0 or -errno; never blocks. */
int sl_shm_hello_send(int sock, const struct sl_rpc_hello *h, int memfd);

/*
 * Receives a hello. Returns 0, -EAGAIN (none yet), -ECONNRESET (the peer has closed) or -EBADMSG.
 * The caller owns *memfd; it is -1 if none came.
 */
int sl_shm_hello_recv(int sock, struct sl_rpc_hello *h, int *memfd);

/* Returns the peer's credentials; uid and gid -1 if they are unknown. */
struct ucred sl_shm_peer(int sock);

/* Returns true for root, our own user, and our own group. */
bool sl_shm_may_connect(const struct ucred *peer);

/*
 * Returns true if the peer may pose as the backend: as above, or the owner of the socket's
 * directory. Other users that can write to the directory may not.
 */
bool sl_shm_may_listen(const struct ucred *peer, const struct sockaddr_un *sa);

#endif
