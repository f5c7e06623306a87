/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of user/tcp.
 *
 *   input.c -> rx_fast.c --> ack.c -> recovery.c, cc_*.c
 *          \-> rx_slow.c --> rx_data.c, ooo.c
 *          \-> listen.c -> syncookie.c, rx_slow.c                     timewait.c, icmp.c, timers.c
 *
 * Files used by these; the left calls the right, never vice versa:
 *   open.c -> close.c -> timewait.c -> tx.c -> conn.c -> tx_queue.c, ooo.c
 *     -> rto.c -> due.c, share.c
 */
#ifndef SL_TCP_INTERNAL_H
#define SL_TCP_INTERNAL_H

#include "base/clock.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/rand.h"
#include "net/flow_table.h"
#include "net/handover.h"
#include "tcp/cc.h"
#include "tcp/conn.h"
#include "tcp/tcp.h"
#include "wire/ip4.h"
#include "wire/tcp.h"
#include "wire/tcp_opt.h"

enum {
	SL_TCP_TICK_SHIFT = 16,
	SL_TCP_INIT_SEGS = 10, /* RFC 6928 */
	SL_TCP_DUP_THRESH = 3,
	/* Every host accepts 576 bytes (RFC 791 3.1). */
	SL_TCP_MIN_MSS = 536,
	SL_TCP_DEFAULT_MSS4 = 536, /* RFC 9293 3.7.1 */
	SL_TCP_DEFAULT_MSS6 = 1220,
	SL_TCP_TIMER_BURST = 256,
	/* Limits per turn: share.c. */
	SL_TCP_CONN_SEGS = 32,       /* segments of a connection before others */
	SL_TCP_ADDR_SEGS = 128,      /* segments of one address */
	SL_TCP_LATER_SEGS = 256,     /* segments of connections beyond their share */
	SL_TCP_ADDR_WALKS = 16384,   /* frames compared with SACK blocks of one address */
	SL_TCP_TW_BASE = 0x40000000, /* from here on TIME-WAIT entries */
};

#define SL_TCP_RTO_INIT_US   UINT32_C(1000000)
#define SL_TCP_RTO_MIN_US    UINT32_C(200000)
#define SL_TCP_RTO_MAX_US    UINT32_C(60000000)
#define SL_TCP_SYN_RETRIES   5u
#define SL_TCP_KEEPALIVE_GAP (75 * SL_NS_PER_SEC)
#define SL_TCP_KEEPALIVE_MAX 9u
#define SL_TCP_TLP_ACK_US    UINT32_C(200000)
#define SL_TCP_TLP_MIN_US    UINT32_C(5000)
#define SL_TCP_NO_FRAME_NS   (10 * SL_NS_PER_MS)
#define SL_TCP_PAWS_IDLE_TICK                                                                      \
	((uint32_t)(UINT64_C(24) * 86400 * SL_NS_PER_SEC >> SL_TCP_TICK_SHIFT))

struct sl_tcp_seg {
	struct sl_frame *f; /* data and len are the payload */
	uint32_t seq;
	uint32_t ack;
	uint32_t len;
	uint32_t ts_val;
	uint32_t ts_ecr;
	uint16_t wnd;
	uint8_t flags;
	bool has_ts;
	bool plain; /* no options, or only timestamps in the usual layout */
	const uint8_t *opt;
	size_t opt_len;
	struct sl_tcp_opts opts;
};

struct sl_tcp_acked {
	uint32_t acked;
	uint32_t sacked; /* bytes newly selectively acknowledged */
	uint32_t rtt_us; /* sample of the most recently sent segment; 0: none */
	/* sample of the oldest, includes delays of the receiver; 0: none */
	uint32_t first_us;
	uint32_t prior_flight;
	bool whole;
	bool dsack;
	bool retx_acked;
	bool put_off; /* no scan: the address has used its share of the turn */
};

struct sl_tcp_tw;

struct sl_tcp_queue {
	uint32_t head, tail;
};

struct sl_tcp_share {
	uint32_t turn; /* of the counters */
	uint32_t segs;
	uint32_t walks;
};

enum { SL_TCP_SHARE_BITS = 10, SL_TCP_RST_COUNTERS = 1024 };

struct sl_tcp_rst_budget {
	uint64_t second;
	uint16_t each;
	uint16_t cnt[SL_TCP_RST_COUNTERS];
};

struct sl_tcp {
	struct sl_net *net;
	struct sl_umem *umem;
	const struct sl_tcp_cc_ops *cc;
	struct sl_tcp_ops ops, active_ops;
	void *app;
	struct sl_tcp_config cfg;

	struct sl_mempool conns;
	struct sl_flow_table flows;
	struct sl_wheel wheel;
	struct sl_tcp_queue dirty;
	/* beyond their share, with more to send */
	struct sl_tcp_queue later;
	uint32_t segs_left; /* of the current connection */
	uint32_t dead_head;
	uint32_t ooo_total;
	uint32_t ooo_first, ooo_last; /* connections with out-of-order frames, index + 1 */
	uint32_t half_open;
	uint32_t conn_cnt;
	uint8_t rcv_wscale;

	struct sl_sipkey isn_key, ts_key, cookie_key;
	struct sl_prng prng;
	uint64_t cookie_until_ns;
	uint16_t ephemeral; /* last local port: 1 + its position in the range; 0: none yet */

	struct sl_mempool tw;
	uint32_t tw_head, tw_tail; /* index + 1, in order of expiry */
	struct sl_tcp_rst_budget rsts;
	uint64_t share_key;
	uint32_t turn; /* calls of sl_tcp_output() */
	struct sl_tcp_share shares[1 << SL_TCP_SHARE_BITS];
	uint64_t walked; /* frames compared with acknowledgements */
	struct sl_tcp_stats stats;
};

static inline uint64_t now_ns(const struct sl_tcp *t)
{
	return t->net->now_ns;
}

static inline uint32_t now_us(const struct sl_tcp *t)
{
	return (uint32_t)(t->net->now_ns / 1000);
}

static inline uint32_t now_tick(const struct sl_tcp *t)
{
	return (uint32_t)(t->net->now_ns >> SL_TCP_TICK_SHIFT);
}

/* Never 0, never early. */
static inline uint32_t tick_after(const struct sl_tcp *t, uint64_t delay_ns)
{
	uint64_t max_ns = (uint64_t)INT32_MAX << SL_TCP_TICK_SHIFT;
	uint64_t at_ns = now_ns(t) + (delay_ns < max_ns ? delay_ns : max_ns);
	uint32_t tick = (uint32_t)((at_ns >> SL_TCP_TICK_SHIFT) + 1);

	return tick ? tick : 1;
}

static inline bool tick_due(const struct sl_tcp *t, uint32_t at)
{
	return at && (int32_t)(at - now_tick(t)) <= 0;
}

static inline uint64_t ticks_ns(uint32_t ticks)
{
	return (uint64_t)ticks << SL_TCP_TICK_SHIFT;
}

/* Timestamp clock: milliseconds plus an offset per pair of addresses. */
static inline uint32_t ts_clock(const struct sl_tcp *t, uint32_t off)
{
	return (uint32_t)(t->net->now_ns / SL_NS_PER_MS) + off;
}

/* A window in a SYN is not scaled. */
static inline uint16_t sl_tcp_syn_window(const struct sl_tcp *t)
{
	return (uint16_t)(t->cfg.rcv_buf < SL_TCP_NARROW ? t->cfg.rcv_buf : SL_TCP_NARROW);
}

static inline struct sl_frame *frame_of(const struct sl_tcp *t, uint32_t link)
{
	return link ? &t->umem->frames[link - 1] : NULL;
}

static inline uint32_t frame_link(const struct sl_frame *f)
{
	return f ? f->index + 1 : 0;
}

static inline struct sl_tcp_conn *conn_of(const struct sl_tcp *t, uint32_t link)
{
	return sl_mempool_at(&t->conns, link - 1);
}

static inline uint32_t conn_link(const struct sl_tcp_conn *c)
{
	return sl_mempool_index(&c->tcp->conns, c) + 1;
}

/* Returns the frame's sequence space. */
static inline uint32_t txf_len(const struct sl_frame *f)
{
	return f->payload_len + (uint32_t)(f->flags & SL_TXF_FIN);
}

static inline uint32_t txf_end(const struct sl_frame *f)
{
	return f->seq + txf_len(f);
}

static inline uint32_t txf_us(const struct sl_frame *f)
{
	return (uint32_t)(f->xmit_ns / 1000);
}

/* Returns the pipe of RFC 6675. */
static inline uint32_t in_flight(const struct sl_tcp_conn *c)
{
	uint32_t gone = c->sacked_out + c->lost_out;
	uint32_t out = c->snd_nxt - c->snd_una + c->retrans_out;

	return out > gone ? out - gone : 0;
}

static inline bool has_dupacks(const struct sl_tcp_conn *c)
{
	return !(c->flags & SL_TCPF_SACK) && c->dupacks;
}

static inline const struct sl_tcp_ops *ops_of(const struct sl_tcp_conn *c)
{
	return c->flags & SL_TCPF_ACTIVE ? &c->tcp->active_ops : &c->tcp->ops;
}

/* Ignored before the application knows the connection. */
static inline void sl_tcp_count_frames(const struct sl_tcp_conn *c, int32_t frames)
{
	const struct sl_tcp_ops *ops = ops_of(c);

	if (ops->holds && c->handle && frames)
		ops->holds(c->handle, frames);
}

/* Appends f to tail and frees f, if it fits. */
static inline bool sl_tcp_coalesce(struct sl_tcp *t, struct sl_frame *tail, struct sl_frame *f)
{
	if (f->len > sl_frame_tailroom(t->umem, tail))
		return false;
	memcpy(tail->data + tail->len, f->data, f->len);
	tail->len = (uint16_t)(tail->len + f->len);
	sl_frame_put(t->umem, f);
	return true;
}

/* due.c. Queues for the next sl_tcp_output(), or sets deadlines. */
void sl_tcp_dirty(struct sl_tcp_conn *c);
/* Queues behind those that wait already. */
void sl_tcp_later(struct sl_tcp_conn *c);
struct sl_tcp_conn *sl_tcp_queue_pop(struct sl_tcp *t, struct sl_tcp_queue *q);
void sl_tcp_arm(struct sl_tcp_conn *c);
void sl_tcp_set_idle(struct sl_tcp_conn *c, uint64_t delay_ns);
void sl_tcp_set_ack(struct sl_tcp_conn *c);
void sl_tcp_set_rtx(struct sl_tcp_conn *c, enum sl_tcp_rtx kind, uint64_t delay_ns);

/* share.c. Returns the counters of the path's address. */
struct sl_tcp_share *sl_tcp_share_of(struct sl_tcp *t, const struct sl_net_path *path);

/* conn.c. Creates a connection and its flow entry. Returns NULL at a limit. */
struct sl_tcp_conn *sl_tcp_conn_new(struct sl_tcp *t, const struct sl_net_path *path,
				    const struct sl_flow_key *key, uint64_t hash);
void sl_tcp_conn_key(const struct sl_tcp_conn *c, struct sl_flow_key *key);
void sl_tcp_path_key(const struct sl_net_path *path, uint16_t local_port_be,
		     uint16_t remote_port_be, struct sl_flow_key *key);
/* conn.c. Frees all resources; the structure stays, CLOSED, until sl_tcp_reap(). */
void sl_tcp_conn_drop(struct sl_tcp_conn *c);
/* Same, and reports it to the application. */
void sl_tcp_conn_gone(struct sl_tcp_conn *c, enum sl_tcp_close_reason why);
void sl_tcp_reap(struct sl_tcp *t);
void sl_tcp_purge_rx(struct sl_tcp_conn *c);
void sl_tcp_left_half_open(struct sl_tcp_conn *c);
uint16_t sl_tcp_our_mss(const struct sl_tcp *t, const struct sl_net_path *path);
void sl_tcp_set_mss(struct sl_tcp_conn *c, uint32_t peer_mss);

/* input.c. Handles a packet; takes the frame. */
void sl_tcp_input(void *ctx, struct sl_frame *f, const struct sl_flow_key *key);
bool sl_tcp_flow_match(const void *ctx, uint32_t value, const struct sl_flow_key *key);
void sl_tcp_parse_rest(struct sl_tcp_seg *seg);

/* These take the frame. */
bool sl_tcp_rx_fast(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
void sl_tcp_rx_slow(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
void sl_tcp_rx_syn_sent(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
/*
 * listen.c. Handles a segment without a connection; takes the frame. `isn`: initial sequence
 * number, or NULL.
 */
void sl_tcp_listen(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_flow_key *key,
		   const uint32_t *isn);

/* open.c. Returns false if the connection is gone, e.g. refused by the application. */
bool sl_tcp_establish(struct sl_tcp_conn *c);
/* open.c. Applies the options of a SYN. */
void sl_tcp_take_syn(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg);

/* rx_data.c. Delivers in-order payload; takes the frame. Returns false if gone. */
bool sl_tcp_deliver(struct sl_tcp_conn *c, struct sl_frame *f);
bool sl_tcp_deliver_fin(struct sl_tcp_conn *c);

/* close.c. Ends a connection whose halves are both closed. Returns false if gone. */
bool sl_tcp_try_finish(struct sl_tcp_conn *c);

/* ooo.c. Queues a segment that is out of order; takes the frame. */
void sl_tcp_ooo_add(struct sl_tcp_conn *c, struct sl_frame *f, bool fin);
/*
 * ooo.c. Removes the frame that is next in order, without known bytes (may be empty); NULL: none.
 */
struct sl_frame *sl_tcp_ooo_next(struct sl_tcp_conn *c, bool *fin);
void sl_tcp_ooo_purge(struct sl_tcp_conn *c);
unsigned sl_tcp_ooo_blocks(const struct sl_tcp_conn *c, struct sl_tcp_opts *o, unsigned max);

/* ack.c. Handles the acknowledgement, already checked, and SACK blocks of a segment. */
void sl_tcp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, bool window_changed);
bool sl_tcp_tell_writable(struct sl_tcp_conn *c);

/*
 * recovery.c. Returns true if an acknowledgement that frees no frame is worth a scan of the send
 * queue. Beyond 128 scans that found nothing, only one in 64 is made. sl_tcp_walked(): a successful
 * scan takes four off the count.
 */
bool sl_tcp_may_walk(struct sl_tcp_conn *c);
void sl_tcp_walked(struct sl_tcp_conn *c, const struct sl_tcp_acked *a);
void sl_tcp_sack_mark(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a);
void sl_tcp_rack_update(struct sl_tcp_conn *c, const struct sl_frame *f, uint32_t ts_ecr);
void sl_tcp_rack_detect(struct sl_tcp_conn *c);
void sl_tcp_recover(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a,
		    bool duplicate);
void sl_tcp_enter_loss(struct sl_tcp_conn *c);
void sl_tcp_mark_lost(struct sl_tcp_conn *c, struct sl_frame *f);
void sl_tcp_tlp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg,
		    const struct sl_tcp_acked *a);

/* recovery.c. Sends a tail loss probe and starts the RTO timer. */
void sl_tcp_tlp_send(struct sl_tcp_conn *c);
void sl_tcp_reorder_timeout(struct sl_tcp_conn *c);

/* rto.c. Updates smoothed, variance and lowest round-trip time. */
void sl_tcp_rtt_sample(struct sl_tcp_conn *c, uint32_t rtt_us);
uint32_t sl_tcp_rto_us(const struct sl_tcp_conn *c);
void sl_tcp_rearm_rtx(struct sl_tcp_conn *c);

struct sl_tcp_bare {
	const struct sl_net_path *path;
	uint16_t local_port_be;
	uint16_t remote_port_be;
	uint32_t seq;
	uint32_t ack;
	uint8_t flags;
	uint16_t wnd;
	const struct sl_tcp_opts *opts; /* NULL: none */
	bool unanswered;                /* copy by the kernel */
};
/* tx.c. Sends a segment without payload now. Returns false without a frame or ring space. */
bool sl_tcp_send_bare(struct sl_tcp *t, const struct sl_tcp_bare *b);
SL_COLD void sl_tcp_send_rst(struct sl_tcp_conn *c);
/* Answers by RST (RFC 9293 3.10.7.1). The caller keeps the frame. */
void sl_tcp_answer_rst(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		       uint16_t local_port_be, uint16_t remote_port_be);
bool sl_tcp_send_frame(struct sl_tcp_conn *c, struct sl_frame *f);
void sl_tcp_send_probe(struct sl_tcp_conn *c);
uint16_t sl_tcp_select_window(struct sl_tcp_conn *c);
uint32_t sl_tcp_rcv_space(const struct sl_tcp_conn *c);

/*
 * answer_limit.c. Returns true if a challenge ACK may be sent: one per half second; *at: the last.
 * The limit is not shared between connections, so that it is no side channel (RFC 5961 7,
 * CVE-2016-5696).
 */
bool sl_tcp_may_challenge(const struct sl_tcp *t, uint16_t *at);
uint16_t sl_tcp_never_challenged(const struct sl_tcp *t);
bool sl_tcp_may_rst(struct sl_tcp *t, const struct sl_net_path *path);

/* tx_queue.c. Returns how many bytes the send queue may hold now. */
uint32_t sl_tcp_send_most(const struct sl_tcp_conn *c);
void sl_tcp_txq_pop(struct sl_tcp_conn *c);
void sl_tcp_txq_purge(struct sl_tcp_conn *c);
void sl_tcp_txq_trim_head(struct sl_tcp_conn *c, uint32_t ack);
bool sl_tcp_txq_split(struct sl_tcp_conn *c, struct sl_frame *f, uint32_t len);
void sl_tcp_queue_fin(struct sl_tcp_conn *c);

/* timewait.c. Allocates the TIME-WAIT entries. Returns 0 or -errno. */
int sl_tcp_tw_init(struct sl_tcp *t);
void sl_tcp_tw_fini(struct sl_tcp *t);
void sl_tcp_tw_enter(struct sl_tcp_conn *c);
/*
 * timewait.c. Handles a segment for a TIME-WAIT entry; takes the frame. Returns true for the SYN of
 * a new connection with initial sequence number *isn: the entry is freed and the frame not taken.
 */
bool sl_tcp_tw_input(struct sl_tcp *t, uint32_t value, struct sl_tcp_seg *seg, uint32_t *isn);
void sl_tcp_tw_expire(struct sl_tcp *t);
uint64_t sl_tcp_tw_next_ns(const struct sl_tcp *t);
bool sl_tcp_tw_match(const struct sl_tcp *t, uint32_t value, const struct sl_flow_key *key);

/* isn.c. Returns the initial sequence number of a connection (RFC 6528). */
uint32_t sl_tcp_isn(const struct sl_tcp *t, const struct sl_flow_key *key);
uint32_t sl_tcp_ts_offset(const struct sl_tcp *t, const struct sl_flow_key *key);

/* syncookie.c. Answers a SYN with a SYN cookie; creates no connection. */
void sl_tcp_cookie_send(struct sl_tcp *t, const struct sl_tcp_seg *seg,
			const struct sl_net_path *path, const struct sl_flow_key *key);
/* syncookie.c. Restores the SYN's options. Returns false without a valid cookie. */
bool sl_tcp_cookie_check(const struct sl_tcp *t, struct sl_tcp_seg *seg,
			 const struct sl_flow_key *key);

/* Unit of all address limits: an IPv4 address or an IPv6 /64. */
static inline uint64_t sl_tcp_addr_word(const struct sl_net_path *path)
{
	return path->family == 4 ? sl_get_be32(path->remote) : sl_get_be64(path->remote);
}

/* icmp.c */
/* Lowers the MSS; sends larger segments again. Returns false if it was lower. */
bool sl_tcp_lower_mss(struct sl_tcp_conn *c, uint32_t mtu);
void sl_tcp_icmp_error(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
		       bool hard);

#endif
