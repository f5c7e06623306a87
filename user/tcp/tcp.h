/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP for the server side, and active open for load generators and tests: RFC 9293 and the RFCs
 * that README.md names. One struct sl_tcp per worker; nothing in it is shared.
 *
 * Segments come in from net, which calls input.c for each TCP packet. What the application wants to
 * know comes out through struct sl_tcp_ops, called from within sl_net_input(), sl_tcp_timer() or
 * sl_tcp_resume(). Segments go out in sl_tcp_output(), once per burst, for every
 * connection that has something to send: replies to one burst share segments and wake-ups.
 *
 * From inside an upcall every function below may be called on any connection. A connection and its
 * handle are valid until `closed` has been called or sl_tcp_abort() has returned.
 */
#ifndef SL_TCP_TCP_H
#define SL_TCP_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/addr.h"
#include "xio/frame.h"

struct sl_net;
struct sl_tcp;
struct sl_tcp_conn;

enum sl_tcp_close_reason {
	SL_TCP_CLOSED,      /* both halves closed in order */
	SL_TCP_RESET,       /* RST received */
	SL_TCP_TIMEOUT,     /* retransmission or user timeout, keep-alive, FIN-WAIT-2 */
	SL_TCP_UNREACHABLE, /* active open: refused or unreachable */
};

struct sl_tcp_ops {
	/*
	 * Whether this address stands for many, as that of a balancer: max_conns_per_addr does not
	 * hold for it. NULL: none does.
	 */
	bool (*stands_for_many)(void *app, uint16_t listener, const struct sl_addr *remote);
	/*
	 * A connection reached ESTABLISHED on `listener`. Returns the application's handle; NULL
	 * refuses it (RST, counted as SL_DROP_TCP_REFUSED).
	 */
	void *(*accepted)(void *app, struct sl_tcp_conn *c, uint16_t listener,
			  const struct sl_addr *local, const struct sl_addr *remote);
	/* An active open finished; on failure `closed` is called instead. */
	void (*connected)(void *handle, struct sl_tcp_conn *c);
	/*
	 * In-order bytes; chunk->frame is HELD already, its data and len are the chunk, so a taker
	 * has nothing to do. Returns how many were consumed; what is left stays in the queue, is
	 * counted against the window, and is offered again by sl_tcp_resume(). May be called
	 * several times per burst; never after `fin`.
	 */
	size_t (*data)(void *handle, struct sl_chunk *chunk);
	/* The peer closed its half and all bytes before it were consumed. */
	void (*fin)(void *handle);
	/* There is room again after sl_tcp_send() took less than it was given. */
	void (*writable)(void *handle);
	/* The connection is gone. Not called after sl_tcp_abort(). */
	void (*closed)(void *handle, enum sl_tcp_close_reason why);
	/*
	 * It holds so many frames more, or fewer: to be sent or acknowledged, received and not
	 * consumed, behind a hole. Only counts: calls nothing here. NULL: nobody does.
	 */
	void (*holds)(void *handle, int32_t frames);
	/*
	 * Whether its send queue shall hold no more than it takes to go on. NULL: never. Asked when
	 * it is to grow beyond that.
	 */
	bool (*full)(void *handle);
};

struct sl_tcp_config {
	uint32_t max_conns;
	uint32_t max_half_open;        /* above it: SYN cookies */
	uint32_t max_conns_per_addr;   /* IPv4 address or IPv6 /64; 0 no limit */
	uint32_t max_ooo_frames;       /* per connection */
	uint32_t max_ooo_frames_total; /* of all; then the heaviest gives way */
	uint32_t rcv_buf;              /* receive window in bytes, at most */
	uint32_t discard_max;          /* bytes that a peer may still send after sl_tcp_close() */
	uint32_t snd_buf;              /* unacknowledged and unsent bytes per connection, at most */
	uint32_t snd_ahead;            /* and so many beyond what the peer's window lets go */
	uint64_t keepalive_ns;         /* idle time before probes; 0 off */
	uint64_t user_timeout_ns;      /* RFC 5482: give up after that long without progress */
	uint64_t time_wait_ns;
	uint64_t fin_wait2_ns;
	uint64_t delayed_ack_ns;
	uint16_t mss_clamp;    /* 0: from the MTU */
	bool newreno;          /* instead of CUBIC */
	bool rst_closed_ports; /* answer segments for closed ports of served addresses */
};
void sl_tcp_config_default(struct sl_tcp_config *cfg);

/*
 * Allocates all that the configuration bounds and plugs itself into net->tcp; sl_tcp_destroy()
 * takes it out again. net must have its time set. Returns NULL and sets errno.
 */
struct sl_tcp *sl_tcp_create(struct sl_net *net, const struct sl_tcp_config *cfg,
			     const struct sl_tcp_ops *ops, void *app);
void sl_tcp_destroy(struct sl_tcp *t);

/*
 * Sends what all dirty connections have to send; once per turn of the loop, which is a burst. Returns
 * true if some of it waits for the next turn, as bulk does beyond its share.
 */
bool sl_tcp_output(struct sl_tcp *t);
/* Runs timers that are due; sl_tcp_next_ns() says when the next one may be. */
void sl_tcp_timer(struct sl_tcp *t);
uint64_t sl_tcp_next_ns(const struct sl_tcp *t);

/* The listener that now has what the connection was made to; -1: none. */
int sl_tcp_listener(const struct sl_tcp_conn *c);
/* Bytes that sl_tcp_send() would take now. */
size_t sl_tcp_send_room(const struct sl_tcp_conn *c);
/*
 * Copies bytes into the send queue; they leave in sl_tcp_output(). Returns how many were taken,
 * fewer than len only when snd_buf, the peer's window or the frame pool is exhausted (then
 * `writable` follows).
 */
size_t sl_tcp_send(struct sl_tcp_conn *c, const void *bytes, size_t len);
/* For how long the peer has not taken any of the bytes that wait for it; 0: none wait. */
uint64_t sl_tcp_unread_ns(const struct sl_tcp_conn *c);
/* Frames with what the peer has not acknowledged, or may not be sent yet. */
uint32_t sl_tcp_unread_frames(const struct sl_tcp_conn *c);
/* All that it has; what sl_tcp_ops.holds has told, once the application knows the connection. */
uint32_t sl_tcp_held_frames(const struct sl_tcp_conn *c);
/* Connections for which there is a place yet. */
uint32_t sl_tcp_free_places(const struct sl_tcp *t);
/* For who asked for the room and does not try: `writable` follows as if sl_tcp_send had. */
void sl_tcp_want_write(struct sl_tcp_conn *c);
/* Like sl_tcp_send but may exceed snd_buf: for heads and trailers of at most a few KiB. All or
 * nothing. */
bool sl_tcp_send_head(struct sl_tcp_conn *c, const void *bytes, size_t len);
/*
 * Room of at least min bytes in the frame that leaves last, for bytes that are made in place;
 * sl_tcp_commit() says how many of them it were, before anything else is sent or output is made.
 * `beyond`: snd_buf may be exceeded as by sl_tcp_send_head, if sl_tcp_fits_head() has said so. NULL:
 * none now, and `writable` follows.
 */
uint8_t *sl_tcp_lay(struct sl_tcp_conn *c, size_t min, bool beyond, size_t *room);
void sl_tcp_commit(struct sl_tcp_conn *c, size_t len);
bool sl_tcp_fits_head(const struct sl_tcp_conn *c, size_t len);
/*
 * The receive window is SL_TCP_NARROW at the most, as a SYN tells it, or again what the configuration
 * says; what was told stays true. Whether that is news.
 */
enum { SL_TCP_NARROW = 20 << 10 }; /* a record of TLS fits */
bool sl_tcp_narrow(struct sl_tcp_conn *c, bool narrow);
/* How long a round trip takes; 0: that is not known. */
uint32_t sl_tcp_rtt_us(const struct sl_tcp_conn *c);
/* Offers unconsumed bytes again; calls `data` (and `fin`). */
void sl_tcp_resume(struct sl_tcp_conn *c);
/* FIN behind everything queued. Bytes that still arrive go to `data`. */
void sl_tcp_shutdown(struct sl_tcp_conn *c);
/* FIN behind everything queued; bytes that still arrive are acknowledged and thrown away. */
void sl_tcp_close(struct sl_tcp_conn *c);
/* RST now; frees everything. */
SL_COLD void sl_tcp_abort(struct sl_tcp_conn *c);

/* Active open from a local address of the port. Returns NULL and sets errno. */
struct sl_tcp_conn *sl_tcp_connect(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
				   const struct sl_addr *local, const struct sl_addr *remote,
				   void *handle);

struct sl_tcp_stats {
	uint64_t accepted, active_opens, closed, resets_in, resets_out, timeouts;
	uint64_t segs_in, segs_out, bytes_in, bytes_out, retransmits, fast_retransmits, rto_fired;
	uint64_t tlp_probes, syn_cookies_sent, syn_cookies_ok, challenge_acks, ooo_segs,
		zero_windows, acks_not_walked, acks_put_off, sends_put_off, discards_cut;
	uint32_t conns, half_open, time_wait, conn_bytes;
};
void sl_tcp_stats(const struct sl_tcp *t, struct sl_tcp_stats *out);

#endif
