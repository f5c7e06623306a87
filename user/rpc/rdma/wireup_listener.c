/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/wireup.h"
#include "base/clock.h"
#include "rpc/transport.h"

enum {
	BATCH_MAX = 16, /* datagrams per poll */
	BATCHES = 4,
	RELISTEN_MIN_MS = 10,
	RELISTEN_MAX_MS = 1000,
};

static int watch_fd(const struct wireup_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int open_qp(struct wireup_listener *l)
{
	int rc = rdma_device->sidr_local(l->sidr);

	if (rc)
		return rc;
	l->local = l->sidr->local;
	l->qp = rdma_device->open(&l->local, RDMA_GROUP_BACKEND, l->rx_cnt, l->tx_cnt, &rc);
	if (!l->qp)
		return rc;
	(void)rdma_device->arm(l->qp);
	rc = watch_fd(l, l->qp->fd);
	if (!rc)
		rc = l->ops->opened(l);
	if (rc)
		wireup_listener_close(l);
	return rc;
}

void wireup_listener_close(struct wireup_listener *l)
{
	if (l->qp)
		rdma_device->close(l->qp);
	l->qp = NULL;
	l->more = false;
}

void wireup_listener_fail(struct wireup_listener *l, uint64_t now_ns)
{
	l->ops->lost(l);
	wireup_listener_close(l);
	l->retry_ns = now_ns + RELISTEN_MAX_MS * SL_NS_PER_MS;
}

static void close_sidr(struct wireup_listener *l)
{
	if (l->sidr)
		rdma_device->sidr_free(l->sidr);
	l->sidr = NULL;
}

static void lose_local(struct wireup_listener *l)
{
	if (l->qp)
		l->ops->lost(l);
	wireup_listener_close(l);
}

/* Listens at the present address. Returns 0 or -errno. */
static int open_sidr(struct wireup_listener *l)
{
	int rc = rdma_device->sidr_new(&l->sidr, &l->sa, l->want == SL_WIREUP_RC);

	if (!rc && l->qp && !rdma_local_same(&l->sidr->local, &l->local))
		lose_local(l);
	if (!rc)
		rc = watch_fd(l, l->sidr->fd);
	if (rc)
		close_sidr(l);
	return rc;
}

/* Sets the time to try again if it fails. */
static void open_again(struct wireup_listener *l, uint64_t now_ns)
{
	int rc = l->sidr ? 0 : open_sidr(l);

	if (!rc && !l->qp)
		rc = open_qp(l);
	if (!rc)
		return;
	l->retry_ns = now_ns + l->retry_ms * SL_NS_PER_MS;
	l->retry_ms = sl_rpc_at_most(2 * l->retry_ms, RELISTEN_MAX_MS);
}

void wireup_listener_turn(struct wireup_listener *l, uint64_t now_ns)
{
	int rc;

	if ((!l->sidr || !l->qp) && now_ns >= l->retry_ns)
		open_again(l, now_ns);
	rc = l->sidr ? rdma_device->sidr_reply(l->sidr, l->qp ? l->qp->qpn : 0) : 0;
	if (!rc)
		return;
	if (rc == -ENODEV)
		lose_local(l);
	close_sidr(l);
	l->retry_ms = RELISTEN_MIN_MS;
	open_again(l, now_ns);
}

uint64_t wireup_listener_next_ns(const struct wireup_listener *l)
{
	if (l->more)
		return 0;
	return l->sidr && l->qp ? UINT64_MAX : l->retry_ns;
}

static bool is_authentic(struct wireup_listener *l, const struct sl_wireup_creq *h)
{
	struct wireup_target to = {.epoch = sl_rpc_boot_epoch(), .qpn = l->qp ? l->qp->qpn : 0};

	memcpy(to.gid, l->local.gid, sizeof(to.gid));
	return h->magic == SL_WIREUP_MAGIC && h->version == SL_UD_VERSION && h->want == l->want &&
	       wireup_creq_verify(&l->psk, h, &to) &&
	       replay_filter_accept(&l->replay, auth_sender_id_word(h->sender_id), h->number);
}

static struct sl_wireup_crep answer_request(struct wireup_listener *l,
					    const struct sl_wireup_creq *h, struct ah_entry *n)
{
	struct sl_wireup_crep a = {.magic = SL_WIREUP_MAGIC,
				   .version = SL_UD_VERSION,
				   .epoch = sl_rpc_boot_epoch(),
				   .number = h->number};
	enum sl_wireup_verdict verdict;

	if (h->flags & SL_HELLO_EP_CHECK) {
		verdict = l->ops->has_conn(l, h) ? SL_WIREUP_EP_ALIVE : SL_WIREUP_EP_REMOVED;
	} else if (wireup_nonce_take(&l->next_nonce, a.nonce, sizeof(a.nonce))) {
		verdict = SL_WIREUP_FULL;
	} else {
		struct sl_wireup_crep granted = a;

		verdict = l->ops->grant(l, h, &granted, n);
		if (verdict == SL_WIREUP_GRANTED)
			return granted;
	}
	l->refused += verdict == SL_WIREUP_FULL || verdict == SL_WIREUP_BAD_SIZES;
	a.verdict = (uint8_t)verdict;
	wireup_crep_sign(&l->psk, h, &a);
	return a;
}

void wireup_listener_handle(struct wireup_listener *l, const struct sl_wireup_creq *h)
{
	struct ah_entry *n =
		is_authentic(l, h) ? ah_cache_get_nowait(&l->local, h->gid, h->tos) : NULL;
	struct sl_wireup_crep a;
	uint8_t *to;

	if (!n) {
		l->refused++;
		return;
	}
	a = answer_request(l, h, n);
	to = rdma_device->tx_buf(l->qp);
	/* No buffer is equivalent to a lost reply. */
	if (to) {
		memcpy(to, &a, sizeof(a));
		rdma_device->send(l->qp, n->ah, h->answer_qpn, sizeof(a));
	}
	ah_cache_put(n);
}

int wireup_listener_poll(struct wireup_listener *l, unsigned max)
{
	SL_UNINIT struct ud_packet packets[UD_POLL_MAX];
	int n = rdma_device->poll(l->qp, packets, max);

	for (int i = 0; i < n; i++) {
		struct sl_wireup_creq h = {.magic = 0};

		if (packets[i].len == sizeof(h))
			memcpy(&h, packets[i].bytes, sizeof(h));
		if (!ud_packet_is_from(&packets[i], h.gid))
			h.magic = 0;
		wireup_listener_handle(l, &h);
	}
	(void)rdma_device->flush(l->qp);
	if (n > 0) {
		(void)rdma_device->repost(l->qp, packets, (unsigned)n);
		wireup_nonce_draw(&l->next_nonce);
	}
	return n;
}

bool wireup_listener_drain(struct wireup_listener *l)
{
	bool armed, received = false;
	unsigned batches = 0;
	int n;

	do {
		rdma_device->ack_event(l->qp);
		n = wireup_listener_poll(l, BATCH_MAX);
		received |= n > 0;
		armed = n >= 0 && n < BATCH_MAX && rdma_device->arm(l->qp);
	} while (n >= 0 && !armed && ++batches < BATCHES);
	l->more = !armed && received;
	return armed || received;
}

static const char *listen_error_text(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return "in use: another backend listens there";
	case -EADDRNOTAVAIL:
		return "not the address of an RDMA device of this host: see `ip address` and `rdma "
		       "link`";
	case -ENODEV:
		return "no RDMA device with that address: load the driver of the NIC, or rdma_rxe "
		       "and rdma_ucm; see `rdma link`";
	default: return strerror(-rc);
	}
}

int wireup_listener_init(struct wireup_listener *l, const char *address, const char *key_file,
			 struct sl_err *err)
{
	const char *scheme = l->want == SL_WIREUP_RC ? "rdma" : "rdma+ud";
	int rc;

	l->retry_ms = RELISTEN_MIN_MS;
	if (rdma_parse_addr(address, &l->sa)) {
		sl_err_set(err,
			   "%s://%s: expected a numeric address and port, as in "
			   "%s://10.0.0.2:7471",
			   scheme, address, scheme);
		return -1;
	}
	if (sl_psk_read(&l->psk, key_file, err))
		return -1;
	rc = open_sidr(l);
	if (!rc && !l->opens_later)
		rc = open_qp(l);
	if (rc)
		sl_err_set(err, "%s://%s: %s", scheme, address, listen_error_text(rc));
	return rc ? -1 : 0;
}

void wireup_listener_fini(struct wireup_listener *l)
{
	wireup_listener_close(l);
	close_sidr(l);
	sl_psk_wipe(&l->psk);
}
