/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a channel, the same for gateway and backend: messages over a transport.
 *
 *   out: sl_link_send -> send queue (classes, slices) -> transport.post
 *   in:  transport.poll -> checks -> readers (one per message under way) -> ops->part
 *
 * Control messages (PING, PONG, CANCEL, GOAWAY) are bits and a short list here, not queue entries;
 * they go before all else. After an error (negative return of poll) the link does nothing more; its
 * owner takes what was not sent with sl_link_unsent() and closes it.
 *
 * Callbacks may call sl_link_send and sl_link_cancel, not poll, flush or fini.
 */
#ifndef SL_RPC_LINK_H
#define SL_RPC_LINK_H

#include "rpc/limit.h"
#include "rpc/reader.h"
#include "rpc/sendq.h"
#include "rpc/transport.h"

enum { SL_LINK_CANCELS = 256, SL_LINK_POLL = 16 };

struct sl_link_ops {
	sl_part_fn *part;
	/* All parts of a message were passed on; its first header. */
	void (*message)(void *ctx, const struct sl_rpc_header *h);
	/* The transport is done with the bytes; the send is its owner's again. */
	void (*sent)(void *ctx, struct sl_send *s);
	void (*cancel)(void *ctx, uint64_t id);
	void (*goaway)(void *ctx);
};

struct sl_link_stats {
	uint64_t messages_sent, messages_received, bytes_sent, bytes_received;
	uint64_t stalls, cancels_lost;
};

struct sl_link {
	struct sl_transport *t;
	const struct sl_link_ops *ops;
	void *ctx;
	struct sl_mem *mem;
	struct sl_reader_scratch *scratch;
	enum sl_rpc_type takes; /* REQUEST or RESPONSE; the other is a protocol error */
	int error;
	struct sl_sendq q;
	struct sl_list in_flight; /* sends that a transport without `copies` still reads */
	uint64_t next_id;         /* of messages */
	uint64_t generation;      /* high 16 bits of our ids: boot epoch */
	uint64_t peer_generation;
	/* control messages that are due */
	bool pong_due, goaway_due, ping_due;
	uint64_t pong_id, ping_id;
	uint32_t cancel_cnt;
	uint64_t cancels[SL_LINK_CANCELS];
	uint64_t last_rx_ns; /* anything from the peer */
	uint64_t now_ns;
	bool cut;              /* more could be posted at once */
	bool held;             /* something is held back by the cap on posted bytes */
	struct sl_limit limit; /* that cap, while urgent messages are about */
	struct sl_link_stats stats;
	uint32_t reading; /* readers in the midst of a message */
	struct sl_reader readers[SL_RPC_MAX_INTERLEAVE];
};

/* All by hand but the transport, which the link owns from now on. */
void sl_link_init(struct sl_link *l, struct sl_transport *t, uint64_t now_ns, bool one_class);
/* Frees what is being read, closes the transport. */
void sl_link_fini(struct sl_link *l);

/*
 * Queues a message: header.version_type, count, time_us and spans are the caller's; id is filled
 * in. Posts at once what may go. Owner gets it back by ops->sent, possibly before this returns.
 */
void sl_link_send(struct sl_link *l, struct sl_send *s, enum sl_rpc_class class, uint64_t now_ns);
void sl_link_cancel(struct sl_link *l, uint64_t id);

/* Messages taken, or negative errno: the link is broken. */
int sl_link_poll(struct sl_link *l, uint64_t now_ns);
/* Posts what may go, one doorbell. */
void sl_link_flush(struct sl_link *l, uint64_t now_ns);
/* Event mode; false: there is something to do. */
bool sl_link_arm(struct sl_link *l);

/* After an error: the sends that had not left whole, one by one; NULL: no more. */
struct sl_send *sl_link_unsent(struct sl_link *l);

static inline bool sl_link_idle(const struct sl_link *l)
{
	return !l->q.cnt && sl_list_empty(&l->in_flight);
}

#endif
