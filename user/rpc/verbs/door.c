/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/door.h"

#include <openssl/crypto.h>
#include <string.h>
#include "rpc/ud/node.h"
#include "rpc/ud/sidr.h"
#include "rpc/verbs/home.h"

enum {
	LABEL_LEN = 32,
	DOOR_RX = 64,
	DOOR_TX = 32,
	TURN_MAX = 16, /* HELLOs of one look */
	TURNS = 4,
};

void vb_greeting_prove(const struct sl_secret *s, const struct vb_greetings *g,
		       enum vb_greeting step, uint8_t proof[VB_PROOF_LEN])
{
	static const char *const labels[] = {"sluice door hello", "sluice door welcome",
					     "sluice door heard"};
	static const size_t lens[] = {
		offsetof(struct vb_greetings, hello.proof),
		offsetof(struct vb_greetings, welcome.proof),
		offsetof(struct vb_greetings, welcome.proof),
	};
	uint8_t text[LABEL_LEN + sizeof(*g)] = {0};

	memcpy(text, labels[step], strlen(labels[step]));
	memcpy(text + LABEL_LEN, g, lens[step]);
	sl_secret_mac(s, text, LABEL_LEN + lens[step], proof);
}

bool vb_greeting_proven(const struct sl_secret *s, const struct vb_greetings *g,
			enum vb_greeting step, const uint8_t proof[VB_PROOF_LEN])
{
	uint8_t want[VB_PROOF_LEN];

	vb_greeting_prove(s, g, step, want);
	return CRYPTO_memcmp(want, proof, sizeof(want)) == 0;
}

void vb_door_open(struct vb_door *d, const struct rdma_cm_id *id)
{
	int rc = ud_sidr_local(&d->local, id);

	if (!rc)
		d->pair = ud_device->open(&d->local, VB_GROUP_BACKEND, DOOR_RX, DOOR_TX, &rc);
	if (d->pair)
		(void)ud_device->arm(d->pair);
}

void vb_door_close(struct vb_door *d)
{
	if (d->pair)
		ud_device->close(d->pair);
	d->pair = NULL;
}

/* How many datagrams there were, TURN_MAX at the most; or -EIO. */
static int take_hellos(struct vb_door *d, void (*knock)(void *arg, const struct vb_hello *h),
		       void *arg)
{
	struct ud_packet packets[TURN_MAX];
	int n = ud_device->poll(d->pair, packets, TURN_MAX);

	for (int i = 0; i < n; i++) {
		struct vb_hello h;

		if (packets[i].len != sizeof(h))
			continue;
		memcpy(&h, packets[i].bytes, sizeof(h));
		if (ud_is_from(&packets[i], h.gid))
			knock(arg, &h);
	}
	if (n > 0)
		(void)ud_device->put_back(d->pair, packets, (unsigned)n);
	(void)ud_device->ring(d->pair);
	return n;
}

void vb_door_look(struct vb_door *d, void (*knock)(void *arg, const struct vb_hello *h), void *arg)
{
	unsigned turns = 0;
	bool armed, came = false;
	int n;

	do {
		ud_device->take_bell(d->pair);
		n = take_hellos(d, knock, arg);
		came |= n > 0;
		armed = n >= 0 && n < TURN_MAX && ud_device->arm(d->pair);
	} while (n >= 0 && !armed && ++turns < TURNS);
	d->more = !armed && came;
	if (!armed && !came)
		vb_door_close(d);
}

void vb_door_answer(struct vb_door *d, const struct vb_hello *h, const struct vb_welcome *w)
{
	uint8_t *to = ud_device->slot(d->pair);
	struct ud_node *n = to ? ud_node_meet(&d->local, h->gid, h->tos) : NULL;

	if (!n)
		return; /* as if it were lost */
	memcpy(to, w, sizeof(*w));
	ud_device->send(d->pair, n->way, h->answer_qpn, sizeof(*w));
	(void)ud_device->ring(d->pair);
	ud_node_put(n); /* kept by its table, while others are used less */
}
