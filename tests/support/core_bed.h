/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole worker's core in a test: clients are TCP segments by hand, backends are transports that
 * the test plays, the clock is the test's.
 *
 *   client -- bed_say --> fake port -> tcp -> front -> core -> rpc -> post() of a bed_backend
 *   client <-- heard ---  fake port <- tcp <- front <- core <- rpc <- bed_message()
 *
 * A backend takes `room` messages more. It copies what is posted, or, with `lends`, reads the spans
 * only when bed_complete() says that its device is through: they must be what they were.
 *
 * Nothing here asserts by itself but bed_require(), which aborts: check and libFuzzer both use it.
 */
#ifndef SL_TESTS_CORE_BED_H
#define SL_TESTS_CORE_BED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/fnv.h"
#include "core/core.h"
#include "core/exchange.h"
#include "core/pool.h"
#include "packet.h"
#include "rpc/transport.h"
#include "fake_port.h"

enum {
	BED_CLIENTS = 8,
	BED_BACKENDS = 3, /* a and b of pool 0, o of pool 1 */
	BED_FRAMES = 1024,
	BED_QUEUE = 64,       /* messages for the gateway */
	BED_POSTS = 256,      /* lending backend: posts whose cookies are not given yet */
	BED_KEEP = 256 << 10, /* bytes heard or taken */
	BED_BODY = 64 << 10,  /* bytes of one message */
	BED_EPOCH = 7,        /* boot epoch of all backends */
	BED_IDS = 64,
	BED_FIN = 1,
	BED_SYN = 2,
	BED_RST = 4,
	BED_ACK = 16,
};

struct bed_client {
	uint32_t seq, ack; /* ours; the next of the gateway's */
	bool open;
	uint8_t *heard;
	size_t heard_len;
};

struct bed_post {
	uint64_t cookie;
	uint32_t cnt, sum;
	struct sl_span *spans;
};

struct bed_backend {
	struct sl_transport base;
	unsigned room;
	bool lends, up, halted;
	int broken; /* result of poll() */
	/* posts of the gateway */
	uint64_t ids[BED_IDS]; /* the last requests */
	unsigned id_cnt;
	uint8_t class;  /* class of the last one */
	uint8_t *taken; /* bodies of REQUESTs, in order */
	size_t taken_len;
	unsigned cancels, goaways;
	struct bed_post posts[BED_POSTS];
	unsigned post_head, post_tail; /* [tail, head): not completed */
	uint64_t done[BED_POSTS];      /* cookies of completed ones */
	unsigned done_cnt;
	/* messages to the gateway */
	struct {
		struct sl_rpc_header h;
		uint8_t *body;
	} queue[BED_QUEUE];
	unsigned head, tail, lent;
};

struct bed {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_config *cfg;
	struct sl_core core;
	struct sl_svc_hist hist[2 * SL_STAGE_CNT];
	struct sl_svc_live live[2];
	struct sl_svc_ctl ctl[2];
	struct bed_client clients[BED_CLIENTS];
	struct bed_backend backends[BED_BACKENDS];
	struct bed_backend others[BED_BACKENDS]; /* the same backends, by another way */
	uint64_t now_ns;
	uint64_t rx_ns; /* when the device had what comes; 0: it does not say */
};

static struct bed bed;

#define bed_require(cond) ((cond) ? (void)0 : bed_failed(#cond, __LINE__))

static inline _Noreturn void bed_failed(const char *what, int line)
{
	fprintf(stderr, "core_bed.h:%d: %s\n", line, what);
	abort();
}

/* --- backends --- */

static inline struct bed_backend *bed_backend_of(const struct sl_transport *t)
{
	return (struct bed_backend *)(uintptr_t)t; /* first member */
}

static inline uint32_t bed_sum(const struct sl_span *spans, uint32_t cnt)
{
	uint32_t h = SL_FNV32;

	for (uint32_t i = 0; i < cnt; i++)
		h = sl_fnv32(h, spans[i].ptr, spans[i].len);
	return h;
}

static inline void bed_take(struct bed_backend *be, const struct sl_span *spans, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		size_t room = BED_KEEP - be->taken_len;
		size_t len = spans[i].len < room ? spans[i].len : room;

		memcpy(be->taken + be->taken_len, spans[i].ptr, len);
		be->taken_len += len;
	}
}

static inline void bed_lend(struct bed_backend *be, const struct sl_span *spans, unsigned cnt,
			    uint64_t cookie)
{
	struct bed_post *p = &be->posts[be->post_head++ % BED_POSTS];

	*p = (struct bed_post){.cookie = cookie, .cnt = cnt, .sum = bed_sum(spans, cnt)};
	p->spans = malloc((cnt + 1) * sizeof(*spans));
	memcpy(p->spans, spans, cnt * sizeof(*spans));
}

/* Notes the requests that begin in this message: its table is the first span. */
static inline void bed_note_ids(struct bed_backend *be, const struct sl_rpc_header *h,
				const struct sl_span *wcfg)
{
	struct sl_rpc_entry e;

	if (!(h->flags & SL_RPC_FIRST))
		return;
	for (size_t at = 0; at < h->count * sizeof(e) && at + sizeof(e) <= wcfg->len;
	     at += sizeof(e)) {
		memcpy(&e, wcfg->ptr + at, sizeof(e));
		if (!(e.flags & SL_ENTRY_PART))
			be->ids[be->id_cnt++ % BED_IDS] = e.id;
	}
}

static inline int bed_post(struct sl_transport *t, const struct sl_rpc_header *h,
			   const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	struct bed_backend *be = bed_backend_of(t);

	if (!be->room || be->post_head - be->post_tail + be->done_cnt == BED_POSTS)
		return -EAGAIN;
	be->room--;
	switch (h->version_type & 15) {
	case SL_RPC_REQUEST:
		be->class = h->priority;
		bed_note_ids(be, h, spans);
		if (be->lends)
			bed_lend(be, spans, cnt, cookie);
		else
			bed_take(be, spans, cnt);
		break;
	case SL_RPC_CANCEL: be->cancels += h->count; break;
	case SL_RPC_GOAWAY: be->goaways++; break;
	default: break;
	}
	return 0;
}

/* The device of a lending backend has read what was posted, or n of it. */
static inline void bed_complete(struct bed_backend *be, unsigned n)
{
	for (; n && be->post_tail != be->post_head; n--) {
		struct bed_post *p = &be->posts[be->post_tail++ % BED_POSTS];

		bed_require(bed_sum(p->spans, p->cnt) == p->sum);
		bed_take(be, p->spans, p->cnt);
		free(p->spans);
		if (p->cookie)
			be->done[be->done_cnt++] = p->cookie;
	}
}

static inline unsigned bed_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	struct bed_backend *be = bed_backend_of(t);
	unsigned n = be->done_cnt < max ? be->done_cnt : max;

	memcpy(cookies, be->done, n * sizeof(*cookies));
	be->done_cnt -= n;
	memmove(be->done, be->done + n, be->done_cnt * sizeof(*cookies));
	return n;
}

static inline int bed_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	struct bed_backend *be = bed_backend_of(t);
	unsigned n = 0;

	for (; n < max && be->tail != be->head; n++, be->tail++, be->lent++) {
		m[n] = (struct sl_message){.header = be->queue[be->tail % BED_QUEUE].h,
					   .body = be->queue[be->tail % BED_QUEUE].body,
					   .token = be->tail % BED_QUEUE};
	}
	return n ? (int)n : be->broken;
}

static inline void bed_release(struct sl_transport *t, const struct sl_message *m)
{
	struct bed_backend *be = bed_backend_of(t);

	free(be->queue[m->token].body);
	be->queue[m->token].body = NULL;
	be->lent--;
}

static inline uint32_t bed_window(const struct sl_transport *t)
{
	return bed_backend_of(t)->room ? t->bulk_max : 0;
}

static inline void bed_nothing(struct sl_transport *t)
{
	(void)t;
}

static inline bool bed_arm(struct sl_transport *t, bool want_room)
{
	(void)t, (void)want_room;
	return true;
}

static inline int bed_alive(struct sl_transport *t)
{
	(void)t;
	return 0;
}

static inline void bed_forget_posts(struct bed_backend *be)
{
	for (; be->post_tail != be->post_head; be->post_tail++)
		free(be->posts[be->post_tail % BED_POSTS].spans);
	be->done_cnt = 0;
}

static inline void bed_halt(struct sl_transport *t)
{
	bed_forget_posts(bed_backend_of(t));
}

static inline void bed_close(struct sl_transport *t)
{
	struct bed_backend *be = bed_backend_of(t);

	bed_require(be->lent == 0);
	bed_forget_posts(be);
	for (; be->tail != be->head; be->tail++)
		free(be->queue[be->tail % BED_QUEUE].body);
	close(t->fd);
	be->up = false;
}

static const struct sl_transport_ops bed_transport_ops = {
	.name = "bed",
	.post = bed_post,
	.flush = bed_nothing,
	.poll = bed_poll,
	.release = bed_release,
	.sent = bed_sent,
	.window = bed_window,
	.progress = bed_nothing,
	.arm = bed_arm,
	.disarm = bed_nothing,
	.check = bed_alive,
	.halt = bed_halt,
	.close = bed_close,
};

static inline struct sl_transport *bed_transport(struct bed_backend *be, bool lends)
{
	uint8_t *taken = be->taken;

	*be = (struct bed_backend){.lends = lends, .up = true, .room = 1000000, .taken = taken};
	be->base = (struct sl_transport){.ops = &bed_transport_ops,
					 .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					 .copies = !lends,
					 .slot_len = SL_RPC_SLOT_SIZE,
					 .bulk_max = 16 << 10,
					 .slice_min = 4 << 10,
					 .peer_epoch = BED_EPOCH,
					 .rate_bps = 8000000000};
	be->base.credits.bulk_len = 64 << 10;
	return &be->base;
}

static inline struct sl_backend_ref *bed_member(unsigned i)
{
	return bed.core.wcfg->pools[i / 2].backends[i % 2];
}

/* Backend i of the bed is what this member of a group reaches. */
static inline void bed_offer(unsigned i, bool lends, struct sl_backend_ref *m)
{
	sl_backend_ref_adopt(m, bed_transport(&bed.backends[i], lends));
}

static inline void bed_connect(unsigned i, bool lends)
{
	bed_offer(i, lends, bed_member(i));
}

/* Backend i's link is to go on by this one of its two ways, which is not in use. */
static inline void bed_move(unsigned i, struct bed_backend *to, bool lends)
{
	struct sl_transport *t = bed_transport(to, lends);

	t->resumes = true;
	sl_backend_ref_adopt(bed_member(i), t);
}

/* Queues a message for the gateway; the body is copied. False: too many wait. */
static inline bool bed_message(struct bed_backend *be, const struct sl_rpc_header *h,
			       const void *body)
{
	uint8_t *copy;

	if (!be->up || be->head - be->tail == BED_QUEUE)
		return false;
	copy = malloc(h->fragment_len + 1); /* exact: ASan sees what is read behind it */
	if (h->fragment_len)
		memcpy(copy, body, h->fragment_len);
	be->queue[be->head % BED_QUEUE].h = *h;
	be->queue[be->head++ % BED_QUEUE].body = copy;
	return true;
}

static inline struct sl_rpc_header bed_header(unsigned type, uint16_t count, uint64_t id,
					      uint32_t total)
{
	return (struct sl_rpc_header){
		.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
		.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_NORMAL,
		.count = count,
		.fragment_len = total,
		.total_or_offset = total,
		.id = (uint64_t)BED_EPOCH << 48 | id,
	};
}

/* A whole message with one entry and a payload without metadata. */
static inline bool bed_reply(struct bed_backend *be, uint64_t id, uint8_t status, uint8_t flags,
			     const char *text)
{
	uint8_t body[4096] = {0};
	struct sl_rpc_entry e = {
		.id = id, .len = (uint32_t)strlen(text), .status = status, .flags = flags};
	struct sl_rpc_header h =
		bed_header(SL_RPC_RESPONSE, 1, 1, (uint32_t)(sizeof(e) + sl_rpc_pad8(e.len)));

	memcpy(body, &e, sizeof(e));
	memcpy(body + sizeof(e), text, e.len);
	return bed_message(be, &h, body);
}

/* --- clients --- */

static inline void bed_segment(unsigned i, uint8_t flags, const void *bytes, size_t len)
{
	struct bed_client *cl = &bed.clients[i];
	struct pkt_spec s = {.protocol = PKT_TCP,
			     .sport = (uint16_t)(PKT_PEER_PORT + i),
			     .seq = cl->seq,
			     .ack = cl->ack,
			     .flags = flags,
			     .payload = bytes,
			     .payload_len = len};
	struct pkt p;

	pkt_build(&p, &s);
	if (sl_fake_inject(&bed.port, p.b, p.len, bed.rx_ns))
		cl->seq += (uint32_t)len + !!(flags & (BED_SYN | BED_FIN));
}

static inline void bed_hear(const struct sl_frame *f)
{
	const uint8_t *h = f->data + 14 + 20;
	unsigned i = (unsigned)sl_get_be16(h + 2) - PKT_PEER_PORT;
	struct bed_client *cl = &bed.clients[i % BED_CLIENTS];
	size_t head = (size_t)(h[12] >> 4) * 4, len = f->len - 34 - head;
	uint32_t seq = sl_get_be32(h + 4), skip;

	bed_require(i < BED_CLIENTS && f->len >= 54);
	if (h[13] & BED_RST)
		cl->open = false;
	if (h[13] & BED_SYN) {
		cl->ack = seq + 1;
		cl->open = true;
	}
	skip = cl->ack - seq; /* repeated bytes */
	if (skip < len && cl->heard_len + len - skip <= BED_KEEP) {
		memcpy(cl->heard + cl->heard_len, h + head + skip, len - skip);
		cl->heard_len += len - skip;
		cl->ack += (uint32_t)(len - skip);
	}
	if (h[13] & BED_FIN && cl->ack == seq + len)
		cl->ack++;
}

/* A bench counts what is between the two. */
#ifndef BED_ENTER
#define BED_ENTER() ((void)0)
#define BED_LEAVE() ((void)0)
#endif

/* One burst as the worker's loop has it; what the gateway sent is heard and acknowledged. */
static inline void bed_turn(uint64_t step_ns)
{
	struct sl_frame *frames[SL_BURST];
	struct sl_core *c = &bed.core;
	uint32_t before[BED_CLIENTS];
	unsigned n;

	bed.now_ns += step_ns;
	BED_ENTER();
	sl_core_set_now(c, bed.now_ns);
	sl_net_set_now(&bed.net, bed.now_ns);
	while ((n = bed.port.port.ops->rx_burst(&bed.port.port, frames, SL_BURST, bed.now_ns)) > 0)
		sl_net_input(&bed.net, frames, n, bed.now_ns);
	(void)sl_rpc_poll(c->rpc, bed.now_ns);
	sl_tcp_timer(c->tcp);
	(void)sl_core_run(c);
	sl_rpc_flush(c->rpc, bed.now_ns);
	sl_tcp_output(c->tcp);
	sl_net_flush(&bed.net);
	BED_LEAVE();
	for (unsigned i = 0; i < BED_CLIENTS; i++)
		before[i] = bed.clients[i].ack;
	for (uint32_t i = 0; i < sl_fake_sent_cnt(&bed.port); i++)
		bed_hear(sl_fake_sent(&bed.port, i));
	sl_fake_complete(&bed.port, UINT32_MAX);
	for (unsigned i = 0; i < BED_CLIENTS; i++) {
		if (bed.clients[i].ack != before[i])
			bed_segment(i, BED_ACK, NULL, 0);
	}
}

static inline void bed_turns(unsigned n)
{
	while (n--)
		bed_turn(SL_NS_PER_MS / 10);
}

static inline void bed_open(unsigned i)
{
	struct bed_client *cl = &bed.clients[i];

	cl->seq += 1 << 20; /* beyond what a former connection has said */
	cl->heard_len = 0;
	bed_segment(i, BED_SYN, NULL, 0);
	bed_turns(2);
}

/* Bytes in segments, each of which is taken before the next one comes. */
static inline void bed_say(unsigned i, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len) {
		size_t n = len < 1400 ? len : 1400;

		bed_segment(i, BED_ACK, p, n);
		bed_turn(1000);
		p += n;
		len -= n;
	}
}

static inline void bed_post_request(unsigned i, const char *path, uint8_t fill, uint32_t len)
{
	uint8_t *body = malloc(len + 1);
	char head[128];
	int n = snprintf(head, sizeof(head),
			 "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", path, len);

	memset(body, fill, len);
	bed_say(i, head, (size_t)n);
	bed_say(i, body, len);
	free(body);
}

/* --- the whole --- */

static const char bed_config[] =
	"limits { max_connections = 64 max_exchanges = 64 max_half_open = 64 }\n"
	"pool echo { batch { max_latency = 10s max_size = 16 } backend a { endpoint = \"shm:///a\" }"
	" backend b { endpoint = \"shm:///b\" } }\n"
	"pool other { batch { max_latency = 10s max_size = 16 } backend o { endpoint = \"shm:///o\" } }\n"
	"route \"/e\" { pool = echo idempotent = yes }\n"
	"route \"/o\" { pool = other datagram_service = 7 }\n"
	"route \"/z\" { respond { status = 410 body = \"it was here\\n\" } }\n";

static inline void bed_begin(void)
{
	struct sl_net_listener l = {
		.at.port_be = htobe16(PKT_OUR_PORT), .at.family = 4, .protocol = PKT_TCP};
	struct sl_core_maps maps = {
		.service_cnt = 2, .hist = bed.hist, .live = bed.live, .ctl = bed.ctl};
	uint8_t *heard[BED_CLIENTS], *taken[BED_BACKENDS], *others[BED_BACKENDS];
	struct sl_err err = SL_ERR(256);

	for (unsigned i = 0; i < BED_CLIENTS; i++)
		heard[i] = bed.clients[i].heard ? bed.clients[i].heard : malloc(BED_KEEP);
	for (unsigned i = 0; i < BED_BACKENDS; i++) {
		taken[i] = bed.backends[i].taken ? bed.backends[i].taken : malloc(BED_KEEP);
		others[i] = bed.others[i].taken ? bed.others[i].taken : malloc(BED_KEEP);
	}
	memset(&bed, 0, sizeof(bed));
	for (unsigned i = 0; i < BED_CLIENTS; i++)
		bed.clients[i].heard = heard[i];
	for (unsigned i = 0; i < BED_BACKENDS; i++) {
		bed.backends[i].taken = taken[i];
		bed.others[i].taken = others[i];
	}
	bed.cfg = sl_config_parse(bed_config, "bed.conf", &err);
	if (!bed.cfg)
		bed_failed(err.text, __LINE__);
	bed_require(sl_umem_init(&bed.umem, 2048, BED_FRAMES) == 0);
	sl_fake_port_init(&bed.port, &bed.umem, 0);
	memcpy(l.at.addr, pkt_our_ip4, 4);
	bed_require(sl_net_init(&bed.net, &bed.umem) == 0);
	bed_require(sl_net_add_port(&bed.net, &bed.port.port) == 0);
	bed_require(sl_net_set_listeners(&bed.net, &l, 1) == 0);
	bed_require(sl_core_init(&bed.core, bed.cfg, &bed.net, &maps) == 0);
	bed.now_ns = bed.core.now_ns;
}

static inline void bed_frames_are_free(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_umem_census(&bed.umem, census);
	bed_require(census[SL_FRAME_FREE] == BED_FRAMES);
}

/* All clients and backends go, and a long time passes: nothing may be left of them. */
static inline void bed_settle(void)
{
	for (unsigned i = 0; i < BED_CLIENTS; i++)
		bed_segment(i, BED_RST | BED_ACK, NULL, 0);
	bed_turns(2);
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed.backends[i].broken = bed.others[i].broken = -ENOTCONN;
	bed_turns(BED_QUEUE / 16 + 2);
	bed_turn(200 * SL_NS_PER_SEC);
	/* A client that was answered is looked at afterwards, and has its time to read. */
	for (unsigned i = 0; i < 8; i++)
		bed_turn(10 * SL_NS_PER_SEC);
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed_require(!bed.backends[i].up && !bed.others[i].up);
	bed_require(sl_mempool_used(&bed.core.exchanges) == 0);
	bed_require(sl_mempool_used(&bed.core.sent_batches) == 0);
	bed_require(sl_mempool_used(&bed.core.buf_refs) == 0);
	bed_require(sl_mempool_used(&bed.core.clients) == 0);
	bed_frames_are_free();
}

static inline void bed_end(void)
{
	sl_core_fini(&bed.core);
	sl_net_flush(&bed.net);
	sl_fake_complete(&bed.port, UINT32_MAX);
	sl_net_fini(&bed.net);
	bed_frames_are_free();
	sl_umem_fini(&bed.umem);
	sl_config_free(bed.cfg);
}

#endif
