/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/wireup.h"

#include <openssl/crypto.h>
#include <string.h>
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/sidr.h"

enum {
	LABEL_LEN = 32,
	RX_BUFS = 64,
	TX_BUFS = 32,
	BATCH_MAX = 16, /* requests per poll */
	BATCHES = 4,
};

void wireup_sign(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		 uint8_t proof[AUTH_PROOF_LEN])
{
	static const char *const labels[] = {"sluice door hello", "sluice door welcome",
					     "sluice door heard"};
	static const size_t lens[] = {
		offsetof(struct wireup_transcript, request.proof),
		offsetof(struct wireup_transcript, reply.proof),
		offsetof(struct wireup_transcript, reply.proof),
	};
	uint8_t text[LABEL_LEN + sizeof(*g)] = {0};

	memcpy(text, labels[step], strlen(labels[step]));
	memcpy(text + LABEL_LEN, g, lens[step]);
	sl_psk_mac(s, text, LABEL_LEN + lens[step], proof);
}

bool wireup_verify(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		   const uint8_t proof[AUTH_PROOF_LEN])
{
	uint8_t want[AUTH_PROOF_LEN];

	wireup_sign(s, g, step, want);
	return CRYPTO_memcmp(want, proof, sizeof(want)) == 0;
}

void wireup_listener_open(struct wireup_listener *d, const struct rdma_cm_id *id)
{
	int rc = rdma_local_of_id(&d->local, id);

	if (!rc)
		d->qp = rdma_device->open(&d->local, RDMA_GROUP_BACKEND, RX_BUFS, TX_BUFS, &rc);
	if (d->qp)
		(void)rdma_device->arm(d->qp);
}

void wireup_listener_close(struct wireup_listener *d)
{
	if (d->qp)
		rdma_device->close(d->qp);
	d->qp = NULL;
}

/* Returns the number of datagrams, at most BATCH_MAX, or -EIO. */
static int poll_requests(struct wireup_listener *d,
			 void (*handle)(void *arg, const struct wireup_request *h), void *arg)
{
	struct ud_packet packets[BATCH_MAX];
	int n = rdma_device->poll(d->qp, packets, BATCH_MAX);

	for (int i = 0; i < n; i++) {
		struct wireup_request h;

		if (packets[i].len != sizeof(h))
			continue;
		memcpy(&h, packets[i].bytes, sizeof(h));
		if (ud_packet_is_from(&packets[i], h.gid))
			handle(arg, &h);
	}
	if (n > 0)
		(void)rdma_device->repost(d->qp, packets, (unsigned)n);
	(void)rdma_device->flush(d->qp);
	return n;
}

void wireup_listener_poll(struct wireup_listener *d,
			  void (*handle)(void *arg, const struct wireup_request *h), void *arg)
{
	unsigned batches = 0;
	bool armed, received = false;
	int n;

	do {
		rdma_device->ack_event(d->qp);
		n = poll_requests(d, handle, arg);
		received |= n > 0;
		armed = n >= 0 && n < BATCH_MAX && rdma_device->arm(d->qp);
	} while (n >= 0 && !armed && ++batches < BATCHES);
	d->more = !armed && received;
	if (!armed && !received)
		wireup_listener_close(d);
}

void wireup_listener_reply(struct wireup_listener *d, const struct wireup_request *h,
			   const struct wireup_reply *w)
{
	uint8_t *to = rdma_device->tx_buf(d->qp);
	struct ah_entry *n = to ? ah_cache_get_nowait(&d->local, h->gid, h->tos) : NULL;

	if (!n)
		return; /* equivalent to a lost reply */
	memcpy(to, w, sizeof(*w));
	rdma_device->send(d->qp, n->ah, h->answer_qpn, sizeof(*w));
	(void)rdma_device->flush(d->qp);
	ah_cache_put(n); /* stays in the cache */
}
