/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=2048 */
/*
 * Answers to a HELLO. Strangers must not be able to give a connection or an answer about one; a
 * listener that has the key may lie.
 *
 * Input: datagrams, each with a byte for its kind and one for its length. Each poll gets one.
 * Behind the last one, and where the input says so, the device fails, which ends the dial at once.
 */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/ud/ud_accept.h"
#include "ud_bed.h"

enum kind { AS_IS, ADDRESSED, PROVEN, GRANTED, FAILS, KINDS };
enum { MTU = 2048, SLOTS = 64, BACKEND_QPN = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct pair {
	struct ud_qp base;
	bool is_door;
};

static struct {
	const uint8_t *at;
	size_t len;
} input;
static const uint8_t backend_gid[16] = {7};
static bool honest; /* the next answer is */
static struct sl_wireup_creq hello;
static struct sl_wireup_crep answer; /* the last one with a proof, */
static bool proven;                  /* if there was one for this HELLO */
static uint32_t most;                /* bytes of a datagram that the connection may send */
static unsigned sent;

/* --- what comes --- */

static void prove(void)
{
	answer.magic = SL_WIREUP_MAGIC;
	answer.version = SL_UD_VERSION;
	answer.number = hello.number;
	wireup_crep_sign(&secret, &hello, &answer);
	proven = true;
}

static struct ud_packet packet_of(const void *bytes, uint32_t len)
{
	struct ud_packet p = {.bytes = malloc(len + !len), .len = len, .qpn = BACKEND_QPN};

	require(p.bytes);
	if (len)
		memcpy(p.bytes, bytes, len);
	return p;
}

static struct ud_packet honest_packet(void)
{
	answer = (struct sl_wireup_crep){
		.verdict = hello.flags & SL_HELLO_EP_CHECK ? SL_WIREUP_EP_ALIVE : SL_WIREUP_GRANTED,
		.slots = hello.slots,
		.mtu = hello.mtu,
		.id = 9,
		.qpn = 7};
	prove();
	return packet_of(&answer, sizeof(answer));
}

/* Terms that a dialer may take, or that are beyond one edge or the other. */
static void nearly_grant(void)
{
	answer.verdict = SL_WIREUP_GRANTED;
	answer.slots = 1U << answer.slots % 16;
	answer.mtu = SL_UD_MTU_MIN / 2 + answer.mtu % MTU;
}

/* False: the device fails. */
static bool next_packet(struct ud_packet *p)
{
	enum kind kind;
	uint32_t want, n;

	if (honest) {
		*p = honest_packet();
		return true;
	}
	if (input.len < 2)
		return false;
	kind = input.at[0] % KINDS;
	want = input.at[1];
	n = want < input.len - 2 ? want : (uint32_t)input.len - 2;
	memset(&answer, 0, sizeof(answer));
	memcpy(&answer, input.at + 2, n < sizeof(answer) ? n : sizeof(answer));
	*p = kind == AS_IS ? packet_of(input.at + 2, n) : (struct ud_packet){.bytes = NULL};
	input.at += 2 + n;
	input.len -= 2 + n;
	if (kind == AS_IS || kind == FAILS)
		return kind == AS_IS;
	if (kind == GRANTED)
		nearly_grant();
	if (kind == ADDRESSED) {
		answer.magic = SL_WIREUP_MAGIC;
		answer.version = SL_UD_VERSION;
		answer.number = hello.number;
	} else {
		prove();
	}
	*p = packet_of(&answer, sizeof(answer));
	return true;
}

/* --- the device --- */

static struct ud_qp *dev_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			      uint32_t tx_cnt, int *rc)
{
	struct pair *p = calloc(1, sizeof(*p));

	(void)l, (void)group, (void)tx_cnt;
	require(p);
	p->base = (struct ud_qp){.fd = eventfd(0, EFD_CLOEXEC), .qpn = 3, .mtu = MTU};
	p->is_door = rx_cnt != UD_IFACE_RX;
	*rc = 0;
	return &p->base;
}

static void dev_close(struct ud_qp *p)
{
	close(p->fd);
	free(p);
}

static void dev_send(struct ud_qp *base, struct ibv_ah *way, uint32_t qpn, uint32_t len)
{
	const struct pair *p = (const struct pair *)base;
	struct wireup_target to = {.qpn = BACKEND_QPN};

	(void)way;
	sent++;
	if (!p->is_door) {
		require(len <= most && qpn == answer.qpn);
		return;
	}
	require(len == sizeof(hello) && qpn == BACKEND_QPN);
	memcpy(&hello, dev_slot(base), sizeof(hello));
	memcpy(to.gid, backend_gid, sizeof(to.gid));
	require(wireup_creq_verify(&secret, &hello, &to));
	proven = false;
}

static int dev_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max)
{
	const struct pair *p = (const struct pair *)base;

	if (!p->is_door || !max)
		return 0;
	return next_packet(&packets[0]) ? 1 : -EIO;
}

/* There may be more. */
static bool dev_arm(struct ud_qp *p)
{
	(void)p;
	return false;
}

static int dev_ask(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	static int here;

	(void)q, (void)why;
	*h = (struct sidr_result){.local = {.device = &here, .name = "fuzz", .port = 1},
				  .qpn = BACKEND_QPN};
	memcpy(h->gid, backend_gid, sizeof(h->gid));
	return 0;
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
	.sidr_resolve = dev_ask,
};

/* --- the dialler --- */

/* Sends a message on that connection, and checks its form. */
static void use(struct sl_transport *t)
{
	static const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
						  .flags = SL_RPC_FIRST | SL_RPC_LAST,
						  .priority = SL_CLASS_CONTROL};
	unsigned before = sent;

	most = answer.mtu;
	require(t->ops->attach(t, &device) == 0);
	require(t->ops->post(t, &ping, NULL, 0, 0) == 0);
	t->ops->flush(t);
	require(sent > before || !answer.qpn);
	t->ops->close(t);
	sl_rpc_wait_closed();
}

static bool dial(const struct sl_rpc_dial_options *opt)
{
	struct sl_err err = SL_ERR(256);
	struct sl_transport *t;

	proven = false;
	t = sl_rpc_dial(opt, &err);
	require(t || err.text[0]);
	if (!t)
		return false;
	require(proven && answer.verdict == SL_WIREUP_GRANTED);
	require(ud_slots_ok(answer.slots) && answer.slots <= SLOTS);
	require(answer.mtu >= SL_UD_MTU_MIN && answer.mtu <= MTU);
	use(t);
	return true;
}

static enum sl_rpc_probe_result ask(const struct sl_rpc_dial_options *opt)
{
	enum sl_rpc_probe_result word;

	proven = false;
	word = sl_rpc_probe_peer(opt, 9);
	require(word == SL_RPC_PROBE_NONE || proven);
	require(word != SL_RPC_PROBE_ALIVE || answer.verdict == SL_WIREUP_EP_ALIVE);
	require(word != SL_RPC_PROBE_REMOVED || answer.verdict == SL_WIREUP_EP_REMOVED);
	require(word != SL_RPC_PROBE_REFUSED);
	return word;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	const struct sl_rpc_dial_options opt = {.endpoint = "rdma+ud://127.0.0.1:7471",
						.key_file = key_file(),
						.slots = SLOTS,
						.timeout_ms = 1000};
	bool asks = len && bytes[0] & 1;

	rdma_device = &device;
	honest = false;
	input.at = bytes + !!len;
	input.len = len - !!len;
	while (input.len >= 2) {
		if (asks)
			(void)ask(&opt);
		else
			(void)dial(&opt);
		asks = !asks;
	}
	/* An honest peer is believed, after any lies. */
	honest = true;
	require(ask(&opt) == SL_RPC_PROBE_ALIVE);
	require(dial(&opt));
	return 0;
}
