/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/*
 * Datagrams from the wire, to a listener and to its connections. Strangers must achieve nothing;
 * peers that have the key may lie.
 *
 * Input: datagrams, each with a byte for its kind and two for its length.
 */
#include <string.h>
#include "base/check.h"
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/wireup.h"
#include "ud_bed.h"

enum kind { HALL_AS_IS, HALL_ADDRESSED, HALL_SEALED, DOOR_AS_IS, DOOR_PROVEN, DOOR_ASKS, KINDS };
enum { MTU = 1024, DOOR = 0, LISTENERS_HALL, HALL, PAIRS /* opened in this order */ };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct sl_rpc_listener *listener;
static struct ud_qp pairs[PAIRS];
static unsigned opened;
/* The one that waits at a pair. */
static struct ud_packet waiting[PAIRS];
static unsigned sent[PAIRS];
static struct sl_wireup_crep last_answer; /* from the listener */
static struct {
	uint32_t id;
	uint64_t epoch;
} granted[4096 / 3]; /* peers that the listener has given a connection */
static unsigned granted_cnt;
static struct sidr_service here;

/* --- a device that has what is thrown at it --- */

static struct ud_qp *dev_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			      uint32_t tx_cnt, int *rc)
{
	struct ud_qp *p = &pairs[opened];

	(void)l, (void)group, (void)rx_cnt, (void)tx_cnt;
	require(opened < PAIRS);
	*p = (struct ud_qp){.fd = eventfd(0, EFD_CLOEXEC), .qpn = ++opened, .mtu = MTU};
	*rc = 0;
	return p;
}

static void dev_close(struct ud_qp *p)
{
	close(p->fd);
}

static void dev_send(struct ud_qp *p, struct ibv_ah *way, uint32_t qpn, uint32_t len)
{
	(void)way, (void)qpn;
	require(len && len <= MTU);
	sent[p - pairs]++;
	require(p != &pairs[DOOR] || len == sizeof(last_answer));
	if (p == &pairs[DOOR])
		memcpy(&last_answer, dev_slot(p), sizeof(last_answer));
}

static int dev_poll(struct ud_qp *p, struct ud_packet *packets, unsigned max)
{
	struct ud_packet *w = &waiting[p - pairs];

	if (!w->bytes || !max)
		return 0;
	packets[0] = *w;
	w->bytes = NULL;
	return 1;
}

static bool dev_arm(struct ud_qp *p)
{
	(void)p;
	return true;
}

static int dev_sign_new(struct sidr_service **sign, struct sockaddr_storage *sa, bool rc)
{
	(void)sa, (void)rc;
	here = (struct sidr_service){
		.fd = eventfd(0, EFD_CLOEXEC),
		.local = {.device = &here, .name = "fuzz", .port = 1, .gid = {7}}};
	*sign = &here;
	return 0;
}

static int dev_sign_local(struct sidr_service *s)
{
	(void)s;
	return 0;
}

static int dev_sign_answer(struct sidr_service *s, uint32_t qpn)
{
	(void)s, (void)qpn;
	return 0;
}

static void dev_sign_free(struct sidr_service *s)
{
	close(s->fd);
}

static const struct rdma_device_ops device = {
	.open = dev_open,
	.close = dev_close,
	.tx_buf = dev_slot,
	.send = dev_send,
	.flush = dev_ring,
	.poll = dev_poll,
	.repost = dev_put_back,
	.arm = dev_arm,
	.ack_event = dev_take_bell,
	.port_watch = dev_watch,
	.port_unwatch = dev_unwatch,
	.ah_create = dev_way_new,
	.ah_destroy = dev_way_free,
	.sidr_new = dev_sign_new,
	.sidr_local = dev_sign_local,
	.sidr_reply = dev_sign_answer,
	.sidr_free = dev_sign_free,
};

/* --- both ends --- */

static struct ud_keys keys_of(bool dialer, const struct sl_wireup_crep *a)
{
	struct ud_keys keys;

	ud_keys_derive(&secret, a, dialer, &keys);
	return keys;
}

static void open_listener(void)
{
	struct sl_rpc_listen_options opt = {.key_file = key_file(), .slots = 64};
	struct sl_err err = SL_ERR(256);

	rdma_device = &device;
	opened = granted_cnt = 0;
	listener = sl_rpc_listen("rdma+ud://127.0.0.1:7471", &opt, &err);
	require(listener);
}

/* A connection of that hall whose peer has been heard. */
static struct ud_conn *open_conn(struct ud_iface *h)
{
	const struct sl_wireup_crep a = {.id = 1};
	struct ud_conn_params terms = {
		.id = ud_id_get(), .peer_id = 9, .qpn = 7, .slots = 64, .mtu = MTU};
	struct ud_keys keys = keys_of(false, &a);
	struct ud_conn *c = ud_conn_new(&terms, &keys, ah_cache_get(&h->local, h->local.gid, 0));

	require(c && ud_conn_attach_iface(c, h) == 0);
	return c;
}

/* --- what is thrown --- */

static struct ud_packet packet_of(const uint8_t *bytes, uint32_t len, uint32_t least)
{
	struct ud_packet p = {.bytes = calloc(1, len > least ? len : least + 1),
			      .len = len > least ? len : least,
			      .qpn = 8};

	require(p.bytes);
	if (len)
		memcpy(p.bytes, bytes, len);
	return p;
}

static void address(struct ud_packet *p, const struct ud_conn *c)
{
	struct sl_ud_header h;

	memcpy(&h, p->bytes, sizeof(h));
	h.magic = SL_UD_MAGIC;
	h.version = SL_UD_VERSION;
	h.to = c->id;
	h.len = (uint16_t)(p->len - sizeof(h));
	memcpy(p->bytes, &h, sizeof(h));
}

static void seal(struct ud_packet *p, const struct ud_conn *c)
{
	const struct sl_wireup_crep a = {.id = 1};
	struct ud_keys keys = keys_of(true, &a);
	struct sl_ud_header h;

	memcpy(&h, p->bytes, sizeof(h));
	h.seq = (uint32_t)c->arq.next + (uint32_t)(int8_t)h.seq;
	h.ack = (uint32_t)c->arq.una + h.ack % 3;
	memcpy(p->bytes, &h, sizeof(h));
	ud_mac_write(&keys.out, p->bytes, p->len, ud_arq_number(&c->arq, h.seq));
}

static void prove(struct ud_packet *p, bool asks)
{
	struct wireup_target to = {.epoch = sl_rpc_boot_epoch()};
	struct sl_wireup_creq h;

	memcpy(&h, p->bytes, sizeof(h));
	h.magic = SL_WIREUP_MAGIC;
	h.version = SL_UD_VERSION;
	if (asks)
		h.flags |= SL_HELLO_EP_CHECK;
	h.want = SL_WIREUP_UD;
	to.qpn = pairs[DOOR].qpn;
	memcpy(to.gid, here.local.gid, sizeof(to.gid));
	wireup_creq_sign(&secret, &h, &to);
	memcpy(p->bytes, &h, sizeof(h));
	p->len = sizeof(h);
}

static unsigned take_messages(struct sl_transport *t)
{
	struct sl_message m[4];
	unsigned sum = 0;
	int n;

	while ((n = t->ops->poll(t, m, 4)) > 0) {
		for (int i = 0; i < n; i++)
			t->ops->release(t, &m[i]);
		sum += (unsigned)n;
	}
	return sum;
}

static void throw_at_hall(struct ud_iface *h, struct ud_conn *c, enum kind kind,
			  const uint8_t *bytes, uint32_t len)
{
	struct ud_arq before = c->arq;
	uint32_t qpn = c->qpn; /* follows a peer that has the key */
	struct ud_packet p =
		packet_of(bytes, len, kind == HALL_AS_IS ? 0 : sizeof(struct sl_ud_header));
	uint64_t known = c->base.bad_mac + h->group.unmatched;
	unsigned cnt;

	if (kind != HALL_AS_IS)
		address(&p, c);
	if (kind == HALL_SEALED)
		seal(&p, c);
	waiting[HALL] = p;
	h->group.ops->poll(&h->group);
	cnt = take_messages(&c->base);
	if (kind == HALL_SEALED)
		return;
	require(cnt == 0 && c->qpn == qpn);
	require(c->base.bad_mac + h->group.unmatched == known + 1);
	require(c->arq.next == before.next && c->arq.base == before.base &&
		c->arq.una == before.una && c->arq.ooo_bits == before.ooo_bits &&
		c->arq.heard_ns == before.heard_ns);
}

static bool was_granted(const struct sl_wireup_creq *h)
{
	for (unsigned i = 0; i < granted_cnt; i++) {
		if (granted[i].id == h->id && granted[i].epoch == h->epoch)
			return true;
	}
	return false;
}

/* A question grants no connection; only a granted connection is known. */
static void check_answer(const struct sl_wireup_creq *h)
{
	if (h->flags & SL_HELLO_EP_CHECK) {
		require(!last_answer.id);
		require(last_answer.verdict == SL_WIREUP_EP_REMOVED ||
			(last_answer.verdict == SL_WIREUP_EP_ALIVE && was_granted(h)));
	} else if (last_answer.verdict == SL_WIREUP_GRANTED) {
		require(granted_cnt < SL_ARRAY_LEN(granted));
		granted[granted_cnt].id = h->id;
		granted[granted_cnt++].epoch = h->epoch;
	} else {
		require((last_answer.verdict == SL_WIREUP_FULL ||
			 last_answer.verdict == SL_WIREUP_BAD_SIZES) &&
			!last_answer.id);
	}
}

static void throw_at_door(enum kind kind, const uint8_t *bytes, uint32_t len)
{
	struct ud_packet p =
		packet_of(bytes, len, kind == DOOR_AS_IS ? 0 : sizeof(struct sl_wireup_creq));
	unsigned answers = sent[DOOR];
	struct sl_wireup_creq h = {.magic = 0};

	if (kind != DOOR_AS_IS) {
		prove(&p, kind == DOOR_ASKS);
		memcpy(&h, p.bytes, sizeof(h));
	}
	waiting[DOOR] = p;
	/* An owner that is busy, and has glanced enough, or one that was woken. */
	if (len & 1)
		require(!listener->ops->poll_nonblock(listener, sl_now_ns()));
	if (waiting[DOOR].bytes)
		require(!listener->ops->accept(listener, sl_now_ns()));
	require(sent[DOOR] <= answers + (kind != DOOR_AS_IS));
	if (sent[DOOR] > answers)
		check_answer(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct ud_iface *h;
	struct ud_conn *c;
	int rc;

	open_listener();
	h = ud_iface_new(&here.local, 0, &rc);
	require(h);
	h->refs = 1;
	c = open_conn(h);
	while (len >= 3) {
		enum kind kind = bytes[0] % KINDS;
		uint32_t want = (bytes[1] | (uint32_t)bytes[2] << 8) % (MTU + 1);
		uint32_t n = want < len - 3 ? want : (uint32_t)len - 3;

		if (kind < DOOR_AS_IS)
			throw_at_hall(h, c, kind, bytes + 3, n);
		else
			throw_at_door(kind, bytes + 3, n);
		bytes += 3 + n;
		len -= 3 + n;
	}
	c->base.ops->close(&c->base);
	ud_iface_put(h);
	listener->ops->close(listener);
	return 0;
}
