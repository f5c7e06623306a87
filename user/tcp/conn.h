/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection: five cache lines, with table entries and the application's 128 bytes at most
 * 512 bytes (asserted in core/client.h). Only its worker accesses it.
 *
 *   snd_una          snd_nxt           snd_end        frames of the send queue, linked by next:
 *      |  in flight     |   not yet sent  |             txq_head ... txq_send ... txq_tail
 *
 *   rcv_nxt                    rcv_adv                rxq: in order, not yet consumed
 *      |   advertised window      |                   ooo: out of order, sorted, without overlap
 *
 * Links are index + 1 (0: none). Deadlines are in ticks of 2^16 ns modulo 2^32 (0: none).
 */
#ifndef SL_TCP_CONN_H
#define SL_TCP_CONN_H

#include <stddef.h>
#include <stdint.h>
#include "base/check.h"
#include "base/cpu.h"
#include "base/wheel.h"
#include "net/net.h"
#include "tcp/tcp.h"

enum sl_tcp_state {
	SL_TCPS_CLOSED,
	SL_TCPS_SYN_SENT,
	SL_TCPS_SYN_RCVD,
	SL_TCPS_ESTABLISHED,
	SL_TCPS_FIN_WAIT_1,
	SL_TCPS_FIN_WAIT_2,
	SL_TCPS_CLOSE_WAIT,
	SL_TCPS_CLOSING,
	SL_TCPS_LAST_ACK,
	SL_TCPS_CNT, /* TIME-WAIT: timewait.c */
};

enum sl_tcp_conn_flags {
	SL_TCPF_TS = 1 << 0,   /* both sent timestamps in their SYN */
	SL_TCPF_SACK = 1 << 1, /* both sent SACK-permitted */
	SL_TCPF_ACTIVE = 1 << 2,
	SL_TCPF_TOLD = 1 << 3, /* known to the application: `closed` follows */
	SL_TCPF_DIRTY = 1 << 4,
	SL_TCPF_SYN_NOW = 1 << 5,
	SL_TCPF_ACK_NOW = 1 << 6,
	SL_TCPF_ACK_DELAY = 1 << 7,
	SL_TCPF_FIN_WANTED = 1 << 8,
	SL_TCPF_FIN_QUEUED = 1 << 9,
	SL_TCPF_FIN_RCVD = 1 << 10,
	SL_TCPF_FIN_TOLD = 1 << 11,
	SL_TCPF_DISCARD = 1 << 12, /* sl_tcp_close() */
	SL_TCPF_WANT_WRITE = 1 << 13,
	SL_TCPF_IN_DATA = 1 << 14, /* `data` is running */
	SL_TCPF_RESUME = 1 << 15,  /* sl_tcp_resume() called within `data` */
	SL_TCPF_CWND_LIMITED = 1 << 16,
	SL_TCPF_RACK = 1 << 17,    /* rack_* are valid */
	SL_TCPF_REORDER = 1 << 18, /* reordering seen, RFC 8985 6.2 */
	SL_TCPF_TLP_OUT = 1 << 19,
	SL_TCPF_TLP_RETX = 1 << 20, /* the probe is a retransmission */
	SL_TCPF_DSACK = 1 << 21,    /* dsack_* go into the next acknowledgement */
	SL_TCPF_UNDO = 1 << 22,     /* undo_* are valid */
	SL_TCPF_PROBE_NOW = 1 << 24,
	SL_TCPF_SLOW_START_OVER = 1 << 25, /* cc is free for congestion avoidance */
	SL_TCPF_WSCALE = 1 << 26,          /* both sent a window scale */
	SL_TCPF_NARROW = 1 << 27,
	SL_TCPF_TLP_NOW = 1 << 28,
};

enum sl_tcp_rtx {
	SL_RTX_NONE,
	SL_RTX_RTO,
	SL_RTX_TLP,
	SL_RTX_REORDER,
	SL_RTX_PERSIST,
	SL_RTX_NO_FRAME,
};

enum sl_tcp_recovery {
	SL_RECOVERY_OPEN,
	SL_RECOVERY_DISORDER, /* nothing lost yet */
	SL_RECOVERY_FAST,     /* RFC 6675, 6937 */
	SL_RECOVERY_LOSS,     /* after a timeout */
};

enum sl_tcp_frame_flags {
	SL_TXF_FIN = 1,
	SL_TXF_SACKED = 2,
	SL_TXF_LOST = 4,
	SL_TXF_RETX = 8, /* the copy is not known to be lost */
};

/* RFC 6937 */
struct sl_tcp_prr {
	uint32_t delivered;
	uint32_t out;
	uint32_t flight; /* at the start of recovery */
};

/* HyStart++, RFC 9406. */
struct sl_tcp_hystart {
	uint32_t round_end;
	uint32_t last_min_us;
	uint32_t cur_min_us;
	uint32_t css_base_us;
	uint8_t samples;
	uint8_t css_rounds; /* 0: no conservative slow start */
};

/* RFC 9438; windows in segments. */
struct sl_tcp_cubic {
	uint32_t epoch_us; /* 0: no epoch */
	float k;
	float w_est;
	float cwnd_prior;
};

struct sl_tcp_conn {
	/* Used for each segment. */
	uint32_t rcv_nxt;
	uint32_t rcv_adv; /* right edge of the advertised window */
	uint32_t snd_una;
	uint32_t snd_nxt;
	uint32_t snd_wnd;
	uint32_t snd_wl1;
	uint32_t snd_wl2;
	uint32_t ts_recent;
	uint32_t flags;
	uint8_t state;
	uint8_t recovery;
	uint8_t snd_wscale;
	uint8_t rcv_wscale;
	uint32_t rcv_queued;
	uint32_t last_ack_sent;
	uint32_t ooo_head;
	uint32_t dirty_next; /* also links freed connections */
	void *handle;

	uint32_t txq_head;
	uint32_t txq_tail;
	uint32_t txq_send; /* first frame never sent */
	uint16_t txq_cnt;
	uint16_t ooo_cnt;
	uint32_t snd_end;
	uint32_t cwnd;
	uint32_t ssthresh;
	uint32_t max_snd_wnd;
	uint32_t srtt_us; /* 0: no sample yet */
	uint32_t rttvar_us;
	uint32_t min_rtt_us;
	uint32_t rtx_at;
	uint32_t ack_at;
	uint16_t mss; /* payload of a full segment, without common options */
	uint8_t rtx_kind;
	uint8_t backoff;
	struct sl_tcp *tcp;

	/* Rarely used. */
	struct sl_timer timer;
	uint32_t idle_at;
	uint32_t rxq_head;
	union {
		uint32_t rxq_tail;
		/* SL_TCPF_DISCARD: more bytes end the connection */
		uint32_t discard_end;
	};
	uint32_t progress_at; /* tick */
	uint32_t heard_at;    /* tick */
	uint32_t ts_off;
	uint32_t ooo_recent;    /* start of the latest out-of-order segment */
	uint32_t fack;          /* end of the highest segment that has arrived */
	uint16_t challenged_at; /* see sl_tcp_may_challenge */
	union {
		uint8_t dupacks;
		uint8_t in_vain; /* with SACK: see sl_tcp_may_walk */
	};
	uint8_t probes;
	uint8_t reo_mult; /* RACK.reo_wnd_mult */
	uint8_t reo_persist;
	uint16_t dsack_len;

	uint32_t recover; /* end of recovery */
	uint32_t rack_xmit_us;
	uint32_t rack_end_seq;
	uint32_t rack_rtt_us;
	uint32_t sacked_out; /* bytes */
	uint32_t lost_out;
	uint32_t retrans_out;
	union {
		uint32_t tlp_end_seq;
		uint32_t listener; /* before ESTABLISHED: listener of the SYN */
	};
	float w_max;
	union {
		struct sl_tcp_prr prr;
		struct sl_tcp_hystart hystart;
		struct sl_tcp_cubic cubic;
	} cc;
	uint32_t dsack_seq;
	uint32_t undo_cwnd;

	struct sl_net_path path;
	uint16_t local_port_be;
	uint16_t remote_port_be;
	uint32_t undo_ssthresh;
	uint32_t undo_ts;
};

#define SL_ASSERT_LINE(field, line)                                                                \
	_Static_assert(offsetof(struct sl_tcp_conn, field) == (line)*SL_CACHELINE, #field " line")
SL_ASSERT_LINE(txq_head, 1);
SL_ASSERT_LINE(timer, 2);
SL_ASSERT_LINE(recover, 3);
SL_ASSERT_LINE(path, 4);
SL_ASSERT_SIZE(struct sl_tcp_conn, 5 * SL_CACHELINE);

#endif
