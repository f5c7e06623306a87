/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP for the server side, and active open for load generators and tests: RFC 9293 and the RFCs
 * that DESIGN.md section 4 names. One struct sl_tcp per worker; nothing in it is shared.
 *
 * Segments come in through sl_tcp_input(), called by net for each TCP packet. What the application
 * wants to know comes out through struct sl_tcp_ops, called from within sl_tcp_input(),
 * sl_tcp_timer() or sl_tcp_resume(). Segments go out in sl_tcp_output(), once per burst, for every
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
#include "xio/frame.h"

struct sl_net;
struct sl_tcp;
struct sl_tcp_conn;

struct sl_tcp_addr {
	uint8_t addr[16]; /* IPv4: first four bytes, the rest zero */
	uint16_t port_be;
	uint8_t family; /* 4 or 6 */
};

enum sl_tcp_close {
	SL_TCP_CLOSED,      /* both halves closed in order */
	SL_TCP_RESET,       /* RST received */
	SL_TCP_TIMEOUT,     /* retransmission or user timeout, keep-alive, FIN-WAIT-2 */
	SL_TCP_UNREACHABLE, /* active open: refused or unreachable */
	SL_TCP_NO_MEMORY,
};

struct sl_tcp_ops {
	/*
	 * A connection reached ESTABLISHED on `listener`. Returns the application's handle; NULL
	 * refuses it (RST, counted as SL_DROP_TCP_REFUSED).
	 */
	void *(*accepted)(void *app, struct sl_tcp_conn *c, uint16_t listener,
			  const struct sl_tcp_addr *local, const struct sl_tcp_addr *remote);
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
	void (*closed)(void *handle, enum sl_tcp_close why);
};

struct sl_tcp_config {
	uint32_t max_conns;
	uint32_t max_half_open;      /* above it: SYN cookies */
	uint32_t max_conns_per_addr; /* IPv4 address or IPv6 /64; 0 no limit */
	uint32_t max_ooo_frames;     /* per connection */
	uint32_t max_ooo_frames_total;
	uint32_t rcv_buf;         /* receive window in bytes, at most */
	uint32_t snd_buf;         /* unacknowledged and unsent bytes per connection, at most */
	uint64_t keepalive_ns;    /* idle time before probes; 0 off */
	uint64_t user_timeout_ns; /* RFC 5482: give up after that long without progress */
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

/* One packet from net: f->data at the TCP header, l3_off set; takes the frame. */
void sl_tcp_input(struct sl_tcp *t, struct sl_frame *f);
/* Sends what all dirty connections have to send; once per burst. */
void sl_tcp_output(struct sl_tcp *t);
/* Runs timers that are due; sl_tcp_next_ns() says when the next one may be. */
void sl_tcp_timer(struct sl_tcp *t);
uint64_t sl_tcp_next_ns(const struct sl_tcp *t);

/* Whether a listener of now has what the connection was made to. */
bool sl_tcp_served(const struct sl_tcp_conn *c);
/* Bytes that sl_tcp_send() would take now. */
size_t sl_tcp_send_room(const struct sl_tcp_conn *c);
/*
 * Copies bytes into the send queue; they leave in sl_tcp_output(). Returns how many were taken,
 * fewer than len only when snd_buf or the frame pool is exhausted (then `writable` follows).
 */
size_t sl_tcp_send(struct sl_tcp_conn *c, const void *bytes, size_t len);
/* For who asked for the room and does not try: `writable` follows as if sl_tcp_send had. */
void sl_tcp_want_write(struct sl_tcp_conn *c);
/* Like sl_tcp_send but may exceed snd_buf: for heads and trailers of at most a few KiB. All or
 * nothing. */
bool sl_tcp_send_head(struct sl_tcp_conn *c, const void *bytes, size_t len);
/* Offers unconsumed bytes again; calls `data` (and `fin`). */
void sl_tcp_resume(struct sl_tcp_conn *c);
/* FIN behind everything queued. Bytes that still arrive go to `data`. */
void sl_tcp_shutdown(struct sl_tcp_conn *c);
/* FIN behind everything queued; bytes that still arrive are acknowledged and thrown away. */
void sl_tcp_close(struct sl_tcp_conn *c);
/* RST now; frees everything. */
void sl_tcp_abort(struct sl_tcp_conn *c);
void sl_tcp_set_handle(struct sl_tcp_conn *c, void *handle);

/* Active open from a local address of the port. Returns NULL and sets errno. */
struct sl_tcp_conn *sl_tcp_connect(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
				   const struct sl_tcp_addr *local,
				   const struct sl_tcp_addr *remote, void *handle);

struct sl_tcp_stats {
	uint64_t accepted, active_opens, closed, resets_in, resets_out, timeouts;
	uint64_t segs_in, segs_out, bytes_in, bytes_out, retransmits, fast_retransmits, rto_fired;
	uint64_t tlp_probes, syn_cookies_sent, syn_cookies_ok, challenge_acks, ooo_segs,
		zero_windows;
	uint32_t conns, half_open, time_wait, conn_bytes;
};
void sl_tcp_stats(const struct sl_tcp *t, struct sl_tcp_stats *out);

#endif
