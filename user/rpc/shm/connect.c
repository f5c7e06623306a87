/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/shm/shm.h"
#include "rpc/shm/socket.h"

static int remaining_ms(uint64_t deadline_ns)
{
	uint64_t now = sl_now_ns();

	return now < deadline_ns ? (int)((deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

/*
 * Connects, and retries until the deadline: a full backlog fails with EAGAIN, even when blocking.
 */
static int connect_until(int sock, const struct sockaddr_un *sa, uint64_t deadline_ns)
{
	static const struct timespec pause = {.tv_nsec = 2000000};

	while (connect(sock, (const struct sockaddr *)sa, sizeof(*sa)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (!remaining_ms(deadline_ns))
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int await_hello(int sock, struct sl_rpc_hello *h, int *memfd, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		int ms = remaining_ms(deadline_ns), rc;

		if (poll(&p, 1, ms) < 0 && errno != EINTR)
			return -errno;
		rc = sl_shm_hello_recv(sock, h, memfd);
		if (rc != -EAGAIN)
			return rc;
		if (!ms)
			return -ETIMEDOUT;
	}
}

static const char *connect_error_text(int rc)
{
	switch (rc) {
	case -ENOENT: return "no such socket: is the backend running?";
	case -ECONNREFUSED: return "connection refused: is the backend running?";
	case -EACCES: return "permission denied: the socket must be writable for this user";
	case -EPROTOTYPE: return "a socket of another type: is this a sluice backend?";
	case -ETIMEDOUT: return "no answer in time: the backend is busy or stopped";
	case -EPIPE:
	case -ECONNRESET:
		return "refused: the backend serves root, its own user and group only, or is of an "
		       "older release";
	case -EPERM:
		return "the listener has another user: expected root, the gateway's user or group, or the "
		       "owner of the directory";
	case -EBADMSG: return "the answer is not a sluice HELLO: is this a sluice backend?";
	case -EUSERS: return SL_RPC_FULL_TEXT;
	case -EPROTO: return "backend speaks another version: build both from one release";
	default: return strerror(-rc);
	}
}

static struct sl_shm *handshake(int sock, const struct sl_rpc_dial_options *opt,
				uint64_t deadline_ns, int *rc)
{
	struct sl_rpc_hello h = {
		.magic = SL_RPC_HELLO_MAGIC,
		.version = SL_RPC_VERSION,
		.worker = opt->worker,
		.epoch = sl_rpc_boot_epoch(),
		.slots = opt->slots,
		.bulk_len = opt->bulk_ring_len,
		.slot_size = SL_RPC_SLOT_SIZE,
		.flags = opt->resumes ? SL_HELLO_RESUME : 0,
		.link = opt->link,
	};
	struct sl_shm_geometry g;
	struct sl_shm *s = NULL;
	int memfd = -1;

	*rc = sl_shm_hello_send(sock, &h, -1);
	if (!*rc)
		*rc = await_hello(sock, &h, &memfd, deadline_ns);
	if (*rc)
		return NULL;
	g = (struct sl_shm_geometry){.slots = h.slots, .bulk_len = h.bulk_len};
	if (h.version != SL_RPC_VERSION || h.status != SL_RPC_OK)
		*rc = h.version == SL_RPC_VERSION && h.status == SL_RPC_REFUSED ? -EUSERS : -EPROTO;
	else if (memfd < 0 || h.slot_size != SL_RPC_SLOT_SIZE || !sl_shm_geometry_ok(&g) ||
		 g.slots > opt->slots || g.bulk_len > opt->bulk_ring_len)
		*rc = -EBADMSG;
	else if (!(s = sl_shm_new(sock, memfd, &g, false)))
		*rc = -errno;
	if (s) {
		s->base.peer_epoch = h.epoch;
		s->base.link = opt->link;
		s->base.resumes = opt->resumes;
	}
	if (memfd >= 0)
		close(memfd);
	return s;
}

struct sl_transport *sl_shm_dial(const struct sl_rpc_dial_options *opt, const char *address,
				 struct sl_err *err)
{
	uint64_t deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS;
	struct sockaddr_un sa;
	struct sl_shm *s = NULL;
	struct ucred peer;
	int rc = sl_shm_address(address, &sa), sock;

	if (rc) {
		sl_err_set(err, "shm://%s: expected an absolute path of at most %zu bytes", address,
			   sizeof(sa.sun_path) - 1);
		return NULL;
	}
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	rc = sock < 0 ? -errno : connect_until(sock, &sa, deadline_ns);
	if (!rc) {
		peer = sl_shm_peer(sock);
		rc = peer.uid == opt->owner || sl_shm_may_listen(&peer, &sa) ? 0 : -EPERM;
	}
	if (!rc)
		s = handshake(sock, opt, deadline_ns, &rc);
	if (!s) {
		sl_err_set(err, "shm://%s: %s", address, connect_error_text(rc));
		if (sock >= 0)
			close(sock);
		return NULL;
	}
	snprintf(s->base.info, sizeof(s->base.info), "shm %.80s pid %d", address, (int)peer.pid);
	return &s->base;
}

const struct sl_transport_scheme sl_shm_scheme = {
	.scheme = "shm",
	.bulk_ring_len = 4 << 20,
	.dial = sl_shm_dial,
	.listen = sl_shm_listen,
};
