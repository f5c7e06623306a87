/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "fake_port.h"

enum { RX_HEADROOM = 256 /* headroom that XDP leaves in front of a packet */ };

_Static_assert((SL_FAKE_RING & (SL_FAKE_RING - 1)) == 0, "free-running indices");

static struct sl_fake_port *fake_of(struct sl_port *p)
{
	return sl_container_of(p, struct sl_fake_port, port);
}

static unsigned fake_rx_burst(struct sl_port *p, struct sl_frame **frames, unsigned max,
			      uint64_t now_ns)
{
	struct sl_fake_port *fp = fake_of(p);
	unsigned cnt = 0;

	while (cnt < max && fp->rx_tail != fp->rx_head) {
		struct sl_frame *f = fp->rx[fp->rx_tail++ % SL_FAKE_RING];

		sl_frame_to(p->umem, f, SL_FRAME_RX);
		f->take_ns = now_ns;
		p->stats.rx_packets++;
		p->stats.rx_bytes += f->len;
		frames[cnt++] = f;
	}
	return cnt;
}

static unsigned fake_tx_pending(const struct sl_port *p)
{
	const struct sl_fake_port *fp =
		(const struct sl_fake_port *)(const void *)((const char *)p -
							    offsetof(struct sl_fake_port, port));

	return fp->tx_head - fp->tx_tail;
}

static unsigned fake_tx_burst(struct sl_port *p, struct sl_frame **frames, unsigned cnt)
{
	struct sl_fake_port *fp = fake_of(p);
	unsigned taken = 0;

	while (taken < cnt && fake_tx_pending(p) < fp->tx_room) {
		struct sl_frame *f = frames[taken++];

		SL_CHECK(f->state == SL_FRAME_TX);
		fp->tx[fp->tx_head++ % SL_FAKE_RING] = f;
		p->stats.tx_packets++;
		p->stats.tx_bytes += f->len;
	}
	return taken;
}

static void fake_flush(struct sl_port *p)
{
	struct sl_fake_port *fp = fake_of(p);

	fp->flush_cnt++;
	if (fp->auto_complete)
		sl_fake_complete(fp, UINT32_MAX);
}

static void fake_close(struct sl_port *p)
{
	struct sl_fake_port *fp = fake_of(p);

	while (fp->rx_tail != fp->rx_head)
		sl_frame_put(p->umem, fp->rx[fp->rx_tail++ % SL_FAKE_RING]);
	sl_fake_complete(fp, UINT32_MAX);
}

static const struct sl_port_ops fake_ops = {
	.rx_burst = fake_rx_burst,
	.tx_burst = fake_tx_burst,
	.flush = fake_flush,
	.tx_pending = fake_tx_pending,
	.close = fake_close,
};

void sl_fake_port_init(struct sl_fake_port *p, struct sl_umem *umem, uint8_t index)
{
	memset(p, 0, sizeof(*p));
	p->port = (struct sl_port){
		.ops = &fake_ops,
		.umem = umem,
		.index = index,
		.mode = SL_PORT_FAKE,
		.mac = {2, 0, 0, 0, 0, (uint8_t)(index + 1)},
		.mtu = 1500,
		.rx_mtu = 1500,
		.fd = -1,
		.ifname = "fake",
	};
	p->tx_room = SL_FAKE_RING;
}

bool sl_fake_inject(struct sl_fake_port *p, const void *bytes, size_t len, uint64_t rx_ns)
{
	struct sl_umem *u = p->port.umem;

	if (len > u->frame_size - RX_HEADROOM || p->rx_head - p->rx_tail == SL_FAKE_RING)
		return false;
	struct sl_frame *f = sl_frame_get(u, SL_FRAME_FILL, RX_HEADROOM);

	if (!f)
		return false;
	if (len)
		memcpy(f->data, bytes, len);
	f->len = (uint16_t)len;
	f->port = p->port.index;
	f->rx_ns = rx_ns;
	p->rx[p->rx_head++ % SL_FAKE_RING] = f;
	return true;
}

uint32_t sl_fake_sent_cnt(const struct sl_fake_port *p)
{
	return p->tx_head - p->tx_tail;
}

struct sl_frame *sl_fake_sent(const struct sl_fake_port *p, uint32_t i)
{
	SL_CHECK(i < sl_fake_sent_cnt(p));
	return p->tx[(p->tx_tail + i) % SL_FAKE_RING];
}

uint32_t sl_fake_complete(struct sl_fake_port *p, uint32_t n)
{
	uint32_t done = 0;

	while (done < n && p->tx_tail != p->tx_head) {
		sl_frame_tx_done(p->port.umem, p->tx[p->tx_tail++ % SL_FAKE_RING]);
		done++;
	}
	if (p->tx_head - p->tx_seen > p->tx_head - p->tx_tail)
		p->tx_seen = p->tx_tail;
	return done;
}
