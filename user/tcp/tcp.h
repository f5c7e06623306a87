/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP. One struct sl_tcp per worker, nothing shared.
 *
 * Upcalls (struct sl_tcp_ops) come from within sl_net_input(), sl_tcp_timer(), sl_tcp_resume() or
 * sl_tcp_close(). sl_tcp_output() sends segments of all connections once per burst.
 *
 * Upcalls may call every function. A connection and its handle are valid until `closed` is called
 * or sl_tcp_abort() returns.
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
	SL_TCP_CLOSED, /* closed in order */
	SL_TCP_RESET,
	SL_TCP_TIMEOUT,     /* retransmission or user time-out, keep-alive, FIN-WAIT-2 */
	SL_TCP_UNREACHABLE, /* active open only */
};

struct sl_tcp_ops {
	/*
	 * The connection is ESTABLISHED. Returns its handle, or NULL to refuse it (RST,
	 * SL_DROP_TCP_REFUSED).
	 */
	void *(*accepted)(void *app, struct sl_tcp_conn *c, uint16_t listener,
			  const struct sl_addr *local, const struct sl_addr *remote);
	/* Active open completed; else `closed` is called. */
	void (*connected)(void *handle, struct sl_tcp_conn *c);
	/*
	 * Delivers in-order bytes. Returns how many were consumed; sl_tcp_resume() offers the rest.
	 * chunk->frame is HELD and has exactly the chunk, so it can be taken. Never called after
	 * `fin`.
	 */
	size_t (*data)(void *handle, struct sl_chunk *chunk);
	/* All bytes before the FIN were consumed. */
	void (*fin)(void *handle);
	void (*writable)(void *handle);
	/* Not called after sl_tcp_abort(). */
	void (*closed)(void *handle, enum sl_tcp_close_reason why);
	/* Change in frames to send, to consume or out of order. Must only count. May be NULL. */
	void (*holds)(void *handle, int32_t frames);
	/* Returns true to keep the send queue at its minimum. NULL: never. */
	bool (*full)(void *handle);
};

struct sl_tcp_config {
	uint32_t max_conns;
	uint32_t max_active;     /* of them for active opens only; 0: shared */
	uint32_t max_half_open;  /* above it SYN cookies */
	uint32_t max_ooo_frames; /* per connection */
	/* above it the largest holder loses frames */
	uint32_t max_ooo_frames_total;
	uint32_t rcv_buf;         /* maximum receive window */
	uint32_t discard_max;     /* bytes accepted after sl_tcp_close() */
	uint32_t snd_buf;         /* bytes per connection, unacknowledged and unsent */
	uint32_t snd_ahead;       /* bytes beyond the peer's window */
	uint64_t keepalive_ns;    /* before probes; 0: off */
	uint64_t user_timeout_ns; /* RFC 5482 */
	uint64_t time_wait_ns;
	uint64_t fin_wait2_ns;
	uint64_t delayed_ack_ns;
	uint16_t mss_clamp; /* 0: from the MTU */
	/*
	 * Local ports for active opens, of which this instance uses its part. Other segments to
	 * them get RST. 0: 32768 to 60999, without RST.
	 */
	uint16_t port_first, port_last;
	uint8_t port_part, port_parts; /* 0 parts: one */
	bool rst_closed_ports;         /* of served addresses */
};
/* Sets the default limits. */
void sl_tcp_config_default(struct sl_tcp_config *cfg);

/*
 * Allocates all memory and registers in net->tcp. The time of net must be set. Returns NULL and
 * errno EINVAL or ENOMEM. sl_tcp_destroy() must precede sl_net_fini().
 */
struct sl_tcp *sl_tcp_create(struct sl_net *net, const struct sl_tcp_config *cfg,
			     const struct sl_tcp_ops *ops, void *app);
/* Frees t (may be NULL) and its connections, without RST or upcalls. */
void sl_tcp_destroy(struct sl_tcp *t);

/*
 * Sends pending segments; once per turn of the loop. Returns true if connections beyond their share
 * wait.
 */
bool sl_tcp_output(struct sl_tcp *t);
/* Handles due deadlines, at most 256 timers. */
void sl_tcp_timer(struct sl_tcp *t);
/* Returns a lower bound of the next deadline, or UINT64_MAX. */
uint64_t sl_tcp_next_ns(const struct sl_tcp *t);

/* Returns the listener that matches the local address now, or -1. */
int sl_tcp_listener(const struct sl_tcp_conn *c);
/* Lowers MSSs after a port's MTU was lowered; resends larger segments. */
void sl_tcp_mtu_lowered(struct sl_tcp *t);
/* Returns the bytes that sl_tcp_send() may take. */
size_t sl_tcp_send_room(const struct sl_tcp_conn *c);
/*
 * Copies bytes to the send queue. Returns how many were taken; `writable` follows if fewer than
 * `len`.
 */
size_t sl_tcp_send(struct sl_tcp_conn *c, const void *bytes, size_t len);
/* Returns for how long the peer has acknowledged nothing; 0: nothing to acknowledge. */
uint64_t sl_tcp_unread_ns(const struct sl_tcp_conn *c);
/* Returns the send queue's frames. */
uint32_t sl_tcp_unread_frames(const struct sl_tcp_conn *c);
/* Returns all frames that sl_tcp_ops.holds counts. */
uint32_t sl_tcp_held_frames(const struct sl_tcp_conn *c);
/* Returns how many more connections can be accepted. */
uint32_t sl_tcp_free_places(const struct sl_tcp *t);
/* Returns the number of active opens, without TIME-WAIT. */
uint32_t sl_tcp_active_cnt(const struct sl_tcp *t);
/* Requests `writable`, at a third of the limit; nothing after FIN. */
void sl_tcp_want_write(struct sl_tcp_conn *c);
/* Sends all, or returns false; possibly beyond snd_buf: for heads and trailers. */
bool sl_tcp_send_head(struct sl_tcp_conn *c, const void *bytes, size_t len);
/*
 * Returns a buffer of at least `min` bytes in the last frame of the send queue, and its size in
 * *room, or NULL: `writable` follows. sl_tcp_commit() appends the bytes, before any other send or
 * output. `beyond`: may exceed snd_buf if sl_tcp_fits_head().
 */
uint8_t *sl_tcp_lay(struct sl_tcp_conn *c, size_t min, bool beyond, size_t *room);
void sl_tcp_commit(struct sl_tcp_conn *c, size_t len);
/* Returns true if sl_tcp_send_head() would take `len` bytes. */
bool sl_tcp_fits_head(const struct sl_tcp_conn *c, size_t len);
/*
 * Limits the receive window to SL_TCP_NARROW, or restores it. An advertised window stays valid.
 * Returns true if this is a change.
 */
enum { SL_TCP_NARROW = 20 << 10 }; /* fits a TLS record */
bool sl_tcp_narrow(struct sl_tcp_conn *c, bool narrow);
/* Returns the smoothed RTT; 0: unknown. */
uint32_t sl_tcp_rtt_us(const struct sl_tcp_conn *c);
/* Offers unconsumed bytes and FIN again, within `data` after its return. May call `closed`. */
void sl_tcp_resume(struct sl_tcp_conn *c);
/* Sends FIN after queued bytes. Received bytes still go to `data`. */
void sl_tcp_shutdown(struct sl_tcp_conn *c);
/*
 * Sends FIN after queued bytes. Received bytes are acknowledged and dropped. `closed` follows, or
 * is called at once.
 */
void sl_tcp_close(struct sl_tcp_conn *c);
/* Sends RST and frees c, without upcalls. */
SL_COLD void sl_tcp_abort(struct sl_tcp_conn *c);

/* Copies the upcalls of active opens; default: as passed to sl_tcp_create(). */
void sl_tcp_set_active_ops(struct sl_tcp *t, const struct sl_tcp_ops *ops);

/*
 * Opens by the host's route; `connected` or `closed` follows. Local port 0: a free one of
 * the range, by RSS if known. Returns NULL and errno EADDRINUSE, ENOBUFS (limits) or EHOSTUNREACH (no route by a
 * port of the worker).
 */
struct sl_tcp_conn *sl_tcp_open(struct sl_tcp *t, const struct sl_addr *local,
				const struct sl_addr *remote, void *handle);
/* Same by a port and next hop. EINVAL: no such port, or families differ. */
struct sl_tcp_conn *sl_tcp_connect(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
				   const struct sl_addr *local, const struct sl_addr *remote,
				   void *handle);

struct sl_tcp_stats {
	uint64_t accepted, active_opens, closed, resets_in, resets_out, timeouts;
	uint64_t segs_in, segs_out, bytes_in, bytes_out, retransmits, fast_retransmits, rto_fired;
	uint64_t tlp_probes, syn_cookies_sent, syn_cookies_ok, challenge_acks, ooo_segs,
		zero_windows, sack_scans_skipped, acks_put_off, sends_put_off, linger_aborts;
	uint32_t conns, half_open, time_wait, conn_bytes;
};
/* Copies the counters. */
void sl_tcp_stats(const struct sl_tcp *t, struct sl_tcp_stats *out);

#endif
