/* SPDX-License-Identifier: Apache-2.0 */
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
	SL_TCP_CONN_SEGS = 32,       /* per connection, before others */
	SL_TCP_ADDR_SEGS = 128,      /* per address */
	SL_TCP_LATER_SEGS = 256,     /* of connections beyond their share */
	SL_TCP_ADDR_WALKS = 16384,   /* frames compared with SACK blocks, per address */
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
	bool plain; /* no options but timestamps in the usual layout */
	const uint8_t *opt;
	size_t opt_len;
	struct sl_tcp_opts opts;
};

struct sl_tcp_acked {
	uint32_t acked;
	uint32_t sacked; /* bytes */
	uint32_t rtt_us; /* sample of the last sent segment; 0: none */
	/* of the first one, with the receiver's delay; 0: none */
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
	uint32_t turn;
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
	uint32_t conn_cnt, active_cnt;
	uint8_t rcv_wscale;

	struct sl_sipkey isn_key, ts_key, cookie_key;
	struct sl_prng prng;
	uint64_t cookie_until_ns;
	uint16_t ephemeral; /* 1 + last port's position in the range; 0: none */

	struct sl_mempool tw;
	uint32_t tw_head, tw_tail; /* index + 1, in order of expiry */
	struct sl_tcp_rst_budget rsts;
	uint64_t share_key;
	uint32_t turn; /* calls of sl_tcp_output() */
	struct sl_tcp_share shares[1 << SL_TCP_SHARE_BITS];
	uint64_t walked; /* frames compared with SACK blocks */
	struct sl_tcp_stats stats;
};

/* Return net->now_ns, the time of the burst. */
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

/* Returns the tick of a deadline: never 0, never early. */
static inline uint32_t tick_after(const struct sl_tcp *t, uint64_t delay_ns)
{
	uint64_t max_ns = (uint64_t)INT32_MAX << SL_TCP_TICK_SHIFT;
	uint64_t at_ns = now_ns(t) + (delay_ns < max_ns ? delay_ns : max_ns);
	uint32_t tick = (uint32_t)((at_ns >> SL_TCP_TICK_SHIFT) + 1);

	return tick ? tick : 1;
}

/* Returns true if the tick (0: none) has come. */
static inline bool tick_due(const struct sl_tcp *t, uint32_t at)
{
	return at && (int32_t)(at - now_tick(t)) <= 0;
}
/* Returns nanoseconds. */
static inline uint64_t ticks_ns(uint32_t ticks)
{
	return (uint64_t)ticks << SL_TCP_TICK_SHIFT;
}

/* Returns a timestamp option's value: ms plus sl_tcp_ts_offset(). */
static inline uint32_t ts_clock(const struct sl_tcp *t, uint32_t off)
{
	return (uint32_t)(t->net->now_ns / SL_NS_PER_MS) + off;
}

/* Returns the window of a SYN, never scaled. */
static inline uint16_t sl_tcp_syn_window(const struct sl_tcp *t)
{
	return (uint16_t)(t->cfg.rcv_buf < SL_TCP_NARROW ? t->cfg.rcv_buf : SL_TCP_NARROW);
}

/* Convert a link (index plus 1) and its object. Link 0: no frame; not for conn_of(). */
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

/* Returns the frame's bytes, plus 1 for FIN. */
static inline uint32_t txf_len(const struct sl_frame *f)
{
	return f->payload_len + (uint32_t)(f->flags & SL_TXF_FIN);
}

/* Returns the sequence number behind the frame. */
static inline uint32_t txf_end(const struct sl_frame *f)
{
	return f->seq + txf_len(f);
}
/* Returns when the frame was last sent, as now_us(). */
static inline uint32_t txf_us(const struct sl_frame *f)
{
	return (uint32_t)(f->xmit_ns / 1000);
}

/* Returns the bytes in flight, pipe of RFC 6675. */
static inline uint32_t in_flight(const struct sl_tcp_conn *c)
{
	uint32_t gone = c->sacked_out + c->lost_out;
	uint32_t out = c->snd_nxt - c->snd_una + c->retrans_out;

	return out > gone ? out - gone : 0;
}

/* Returns true for duplicate ACKs of a peer without SACK. */
static inline bool has_dupacks(const struct sl_tcp_conn *c)
{
	return !(c->flags & SL_TCPF_SACK) && c->dupacks;
}

/* Returns the functions of the connection's user. */
static inline const struct sl_tcp_ops *ops_of(const struct sl_tcp_conn *c)
{
	return c->flags & SL_TCPF_ACTIVE ? &c->tcp->active_ops : &c->tcp->ops;
}

/* Reports a change to `holds`; nothing without a handle. */
static inline void sl_tcp_count_frames(const struct sl_tcp_conn *c, int32_t frames)
{
	const struct sl_tcp_ops *ops = ops_of(c);

	if (ops->holds && c->handle && frames)
		ops->holds(c->handle, frames);
}

/* Appends f to tail and frees f. Returns false, unchanged, without room. */
static inline bool sl_tcp_coalesce(struct sl_tcp *t, struct sl_frame *tail, struct sl_frame *f)
{
	if (f->len > sl_frame_tailroom(t->umem, tail))
		return false;
	memcpy(tail->data + tail->len, f->data, f->len);
	tail->len = (uint16_t)(tail->len + f->len);
	sl_frame_put(t->umem, f);
	return true;
}

/* Queues for the next sl_tcp_output(), once. */
void sl_tcp_dirty(struct sl_tcp_conn *c);
/* Queues behind all dirty ones; c must not be queued. */
void sl_tcp_later(struct sl_tcp_conn *c);
/* Removes and returns the first; q must not be empty. The caller frees a CLOSED one. */
struct sl_tcp_conn *sl_tcp_queue_pop(struct sl_tcp *t, struct sl_tcp_queue *q);
/* Moves the timer to the first of rtx_at, ack_at, idle_at; never to a later time. */
void sl_tcp_arm(struct sl_tcp_conn *c);
/* Set a deadline, and arm. A pending ACK's stays; others are replaced. */
void sl_tcp_set_idle(struct sl_tcp_conn *c, uint64_t delay_ns);
void sl_tcp_set_ack(struct sl_tcp_conn *c);
void sl_tcp_set_rtx(struct sl_tcp_conn *c, enum sl_tcp_rtx kind, uint64_t delay_ns);

/* Returns the entry of the peer's address, zeroed each turn; never NULL. */
struct sl_tcp_share *sl_tcp_share_of(struct sl_tcp *t, const struct sl_net_path *path);

/* Creates a CLOSED connection and its flow entry; key: new. Returns NULL at a limit. */
struct sl_tcp_conn *sl_tcp_conn_new(struct sl_tcp *t, const struct sl_net_path *path,
				    const struct sl_flow_key *key, uint64_t hash);
/* Set the flow key. */
void sl_tcp_conn_key(const struct sl_tcp_conn *c, struct sl_flow_key *key);
void sl_tcp_path_key(const struct sl_net_path *path, uint16_t local_port_be,
		     uint16_t remote_port_be, struct sl_flow_key *key);
/*
 * Frees all but the structure, which callers may read, CLOSED, until sl_tcp_reap(). No upcall;
 * repeatable.
 */
void sl_tcp_conn_drop(struct sl_tcp_conn *c);
/* Same, then calls `closed`, at most once. */
void sl_tcp_conn_gone(struct sl_tcp_conn *c, enum sl_tcp_close_reason why);
/* Frees dropped structures. Only at entry from outside: no caller may use one. */
void sl_tcp_reap(struct sl_tcp *t);
/* Frees unconsumed in-order frames. */
void sl_tcp_purge_rx(struct sl_tcp_conn *c);
/* Decrements half_open if c counts; before its state changes. */
void sl_tcp_left_half_open(struct sl_tcp_conn *c);
/* Returns the MSS to announce. */
uint16_t sl_tcp_our_mss(const struct sl_tcp *t, const struct sl_net_path *path);
/* Sets c->mss by the peer's MSS, path MTU and frame size; after SL_TCPF_TS. */
void sl_tcp_set_mss(struct sl_tcp_conn *c, uint32_t peer_mss);

/* sl_l4.input: handles a packet; takes the frame. */
void sl_tcp_input(void *ctx, struct sl_frame *f, const struct sl_flow_key *key);
/* The table's sl_flow_match_fn, also for TIME-WAIT. */
bool sl_tcp_flow_match(const void *ctx, uint32_t value, const struct sl_flow_key *key);
/* Parses all options, for the slow path. A malformed one ends the list. */
void sl_tcp_parse_rest(struct sl_tcp_seg *seg);

/* Handles a usual segment; takes the frame. Returns false, unchanged, for the slow path. */
bool sl_tcp_rx_fast(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
/* Take the frame, after sl_tcp_parse_rest(); may end the connection. _slow: not in SYN_SENT. */
void sl_tcp_rx_slow(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
void sl_tcp_rx_syn_sent(struct sl_tcp_conn *c, struct sl_tcp_seg *seg);
/*
 * Handles a parsed segment without a connection; takes the frame. `isn`: our initial number, or
 * NULL.
 */
void sl_tcp_listen(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_flow_key *key,
		   const uint32_t *isn);

/*
 * Enters ESTABLISHED, calls `accepted` or `connected`. Returns false if the connection is gone, as
 * after a refusal.
 */
bool sl_tcp_establish(struct sl_tcp_conn *c);
/* Applies number, window and parsed options of a SYN. */
void sl_tcp_take_syn(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg);

/* Pass the next bytes (takes the frame), or FIN. Return false if c is gone. */
bool sl_tcp_deliver(struct sl_tcp_conn *c, struct sl_frame *f);
bool sl_tcp_deliver_fin(struct sl_tcp_conn *c);

/* Ends c, with `closed`, if both halves are closed. Returns false if so. */
bool sl_tcp_try_finish(struct sl_tcp_conn *c);

/* Stores bytes behind rcv_nxt, or drops them at a limit. Takes the frame. */
void sl_tcp_ooo_add(struct sl_tcp_conn *c, struct sl_frame *f, bool fin);
/*
 * Removes and returns the frame that is next in order, without known bytes (may be empty), or NULL.
 * The caller owns it. *fin: FIN follows.
 */
struct sl_frame *sl_tcp_ooo_next(struct sl_tcp_conn *c, bool *fin);
/* Frees all. */
void sl_tcp_ooo_purge(struct sl_tcp_conn *c);
/*
 * Returns the number of SACK blocks written to o->sack: a duplicate (RFC 2883 4), the range of the
 * latest segment (RFC 2018 4), lower ranges, higher ranges.
 */
unsigned sl_tcp_ooo_blocks(const struct sl_tcp_conn *c, struct sl_tcp_opts *o, unsigned max);

/*
 * Handles a valid acknowledgement and its SACK blocks. Makes no upcalls: the caller then calls
 * sl_tcp_tell_writable().
 */
void sl_tcp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, bool window_changed);
/* Calls `writable` if wanted and possible. Returns false if c is gone. */
bool sl_tcp_tell_writable(struct sl_tcp_conn *c);

/*
 * Returns true if an ACK that frees nothing may scan the send queue: after 128 scans in vain, one
 * in 64. sl_tcp_walked() must follow each scan.
 */
bool sl_tcp_may_walk(struct sl_tcp_conn *c);
void sl_tcp_walked(struct sl_tcp_conn *c, const struct sl_tcp_acked *a);
/* Marks frames in seg's SACK blocks (at least one); adds to *a. */
void sl_tcp_sack_mark(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a);
/* Notes a delivered frame. ts_ecr 0: no echo. */
void sl_tcp_rack_update(struct sl_tcp_conn *c, const struct sl_frame *f, uint32_t ts_ecr);
/* Marks losses; sets the timer for later ones. */
void sl_tcp_rack_detect(struct sl_tcp_conn *c);
/* Starts, continues, undoes or ends recovery after an ACK; sets cwnd. */
void sl_tcp_recover(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a,
		    bool duplicate);
/* Marks all frames lost after a timeout; cwnd: one segment. */
void sl_tcp_enter_loss(struct sl_tcp_conn *c);
/* Marks a sent frame without SACK. */
void sl_tcp_mark_lost(struct sl_tcp_conn *c, struct sl_frame *f);
/* Handles an ACK with SL_TCPF_TLP_OUT: detects a loss that only the probe repaired. */
void sl_tcp_tlp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg,
		    const struct sl_tcp_acked *a);

/* RACK's reordering timer: marks losses and starts recovery. */
void sl_tcp_reorder_timeout(struct sl_tcp_conn *c);

/* Adds an RTT. */
void sl_tcp_rtt_sample(struct sl_tcp_conn *c, uint32_t rtt_us);
/* Returns the time-out with backoff. */
uint32_t sl_tcp_rto_us(const struct sl_tcp_conn *c);
/* Sets or stops the timer by what is in flight; leaves a reordering timer. */
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
	bool unanswered;                /* the kernel sends a copy */
};
/* Sends no payload. Returns false without a frame, ring space or next hop. */
bool sl_tcp_send_bare(struct sl_tcp *t, const struct sl_tcp_bare *b);
/* Sends RST, if possible; c stays. */
SL_COLD void sl_tcp_send_rst(struct sl_tcp_conn *c);
/* Sends RST for seg (RFC 9293 3.10.7.1), within sl_tcp_may_rst(). The caller keeps the frame. */
void sl_tcp_answer_rst(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		       uint16_t local_port_be, uint16_t remote_port_be);
/*
 * Sends a frame of the send queue, which keeps it. Returns false if it is still in the ring, or the
 * ring is full; then only headers have changed.
 */
bool sl_tcp_send_frame(struct sl_tcp_conn *c, struct sl_frame *f);
/* Sends an old number, which the peer must answer (RFC 9293 3.8.4). */
void sl_tcp_send_probe(struct sl_tcp_conn *c);
/* Returns the scaled window of the segment to send; advances rcv_adv. */
uint16_t sl_tcp_select_window(struct sl_tcp_conn *c);
/* Returns the possible window; without frames, not a larger one. */
uint32_t sl_tcp_rcv_space(const struct sl_tcp_conn *c);

/*
 * Returns true, and sets *at, if a challenge ACK may be sent: one per half second. A shared limit
 * would be a side channel (CVE-2016-5696).
 */
bool sl_tcp_may_challenge(const struct sl_tcp *t, uint16_t *at);
/* Returns the initial *at. */
uint16_t sl_tcp_never_challenged(const struct sl_tcp *t);
/* Returns true, and counts, within the address's limit per second. */
bool sl_tcp_may_rst(struct sl_tcp *t, const struct sl_net_path *path);

/* Returns the send queue's limit in bytes, by snd_buf and snd_ahead. */
uint32_t sl_tcp_send_most(const struct sl_tcp_conn *c);
/* Frees the first frame, acknowledged. */
void sl_tcp_txq_pop(struct sl_tcp_conn *c);
/* Frees all frames; those in the ring once sent. */
void sl_tcp_txq_purge(struct sl_tcp_conn *c);
/* Removes bytes below `ack`, within the first frame. */
void sl_tcp_txq_trim_head(struct sl_tcp_conn *c, uint32_t ack);
/*
 * Returns f, or NULL while the ring has it. After 200 ms in the ring, of a link that is down, a copy
 * takes its place and is returned.
 */
struct sl_frame *sl_tcp_txq_sendable(struct sl_tcp_conn *c, struct sl_frame *f);
/* Moves bytes from `len` on to a new next frame. Returns false without one; f: not TX. */
bool sl_tcp_txq_split(struct sl_tcp_conn *c, struct sl_frame *f, uint32_t len);
/* Appends FIN once; retried by timer without frames. */
void sl_tcp_queue_fin(struct sl_tcp_conn *c);

/* Allocates entries. Returns 0 or -errno. */
int sl_tcp_tw_init(struct sl_tcp *t);
/* Frees them. */
void sl_tcp_tw_fini(struct sl_tcp *t);
/* Replaces c by an entry, perhaps the oldest, and calls `closed`. */
void sl_tcp_tw_enter(struct sl_tcp_conn *c);
/*
 * Handles a segment for a TIME-WAIT entry; takes the frame. Returns true and *isn for a new
 * connection's SYN: frees the entry, not the frame.
 */
bool sl_tcp_tw_input(struct sl_tcp *t, uint32_t value, struct sl_tcp_seg *seg, uint32_t *isn);
/*
 * Ends TIME-WAIT for an active open of the same addresses and ports (RFC 6191). Returns false
 * within the first second, or without timestamps. *isn: the least initial number.
 */
bool sl_tcp_tw_reuse(struct sl_tcp *t, uint32_t value, uint32_t *isn);
/* Frees due entries. */
void sl_tcp_tw_expire(struct sl_tcp *t);
/* Returns the next expiry, or UINT64_MAX. */
uint64_t sl_tcp_tw_next_ns(const struct sl_tcp *t);
/* Returns true if the entry has the key. value: from SL_TCP_TW_BASE. */
bool sl_tcp_tw_match(const struct sl_tcp *t, uint32_t value, const struct sl_flow_key *key);

/* Returns the initial sequence number, which grows with time. */
uint32_t sl_tcp_isn(const struct sl_tcp *t, const struct sl_flow_key *key);
/* Returns the offset of ts_clock(), constant per address pair. */
uint32_t sl_tcp_ts_offset(const struct sl_tcp *t, const struct sl_flow_key *key);

/* Answers a parsed SYN with a cookie. The caller keeps the frame. */
void sl_tcp_cookie_send(struct sl_tcp *t, const struct sl_tcp_seg *seg,
			const struct sl_net_path *path, const struct sl_flow_key *key);
/* Restores the SYN's options from an ACK. Returns false without a valid cookie. */
bool sl_tcp_cookie_check(const struct sl_tcp *t, struct sl_tcp_seg *seg,
			 const struct sl_flow_key *key);

/* Returns the unit of address limits: an IPv4 address or IPv6 /64. */
static inline uint64_t sl_tcp_addr_word(const struct sl_net_path *path)
{
	return path->family == 4 ? sl_get_be32(path->remote) : sl_get_be64(path->remote);
}

/* Lowers the MSS by an MTU; resends larger segments. Returns false if not lowered. */
bool sl_tcp_lower_mss(struct sl_tcp_conn *c, uint32_t mtu);
/* sl_l4.icmp_error: may end an opening connection. */
void sl_tcp_icmp_error(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
		       bool hard);

#endif
