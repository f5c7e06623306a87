/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of one connection: what the peer may send, which the iface moves (rc_iface.h), and what the
 * peer lets us send. Both are told by CREDITs, as rpc_wire.h says. Of the first:
 *
 *   window    counts in the iface's budget                   iface's lock and the rx_cq's `taking`
 *   target_window   what the peer is to have                      written by who moves it, read by the owner
 *   granted   what it was told last                         the owner's
 *   held      the most that it may still believe to have    written by the owner, read by who moves it
 *
 *   larger:   window, target_window -> CREDIT -> granted, held
 *   smaller:  target_window -> CREDIT -> granted -> the peer keeps to it, and says so -> held -> window
 *
 * Of the second, which is that of the credits: if it is made smaller, all keep to it at once but CREDITs.
 * They may go `over` it by as much as it was larger, until it has slots for them again: for want of one
 * both ends could be stuck, which is what the reserved slots prevent (credits.h).
 */
#include "rpc/rdma/rc/rc_conn.h"

/*
 * An honest peer has read that its window is smaller before it has used twice the former one, for
 * the room that it goes on with is told behind that; and says so once that has been acknowledged.
 */
enum { OVERDUE_WINDOWS = 8 };

static void set_enforced(struct rc_conn *conn, uint32_t window)
{
	conn->rx_fifo.limit = window + RC_BEYOND_WINDOW;
	conn->enforced = window;
}

void rx_window_init(struct rc_conn *conn, uint32_t slots)
{
	conn->window = conn->advertised = SL_RPC_MIN_SLOTS;
	/* In a queue of its own there is room for all. */
	conn->target_window = conn->iface ? conn->window : slots;
	set_enforced(conn, conn->target_window);
}

uint32_t rx_window_demand(uint32_t window, uint32_t most, uint32_t came, bool spent)
{
	return spent && came >= window / 2 && 2 * window <= most ? 2 * window : window;
}

uint32_t rx_window_idle_demand(uint32_t window, uint32_t came)
{
	while (window > SL_RPC_MIN_SLOTS && window / 2 >= came)
		window /= 2;
	return window;
}

void rx_window_spent(struct rc_conn *conn)
{
	struct sl_credits now = {
		.window = conn->advertised, .sent = conn->rx_next, .acked = conn->peer_read};

	/* That much is under way, as far as the peer admits. */
	if (!sl_credits_spent(&now))
		return;
	atomic_store_explicit(&conn->spent, true, memory_order_release);
	if (conn->iface && conn->enforced <= conn->mask && conn->target_window == conn->enforced)
		rc_iface_request_rebalance(conn->iface);
}

bool rx_window_overdue(const struct rc_conn *conn)
{
	return conn->shrinking &&
	       conn->rx_next - conn->shrink_rx > OVERDUE_WINDOWS * conn->enforced;
}

/* The peer's word on ours. */
static void apply_tx_window(struct rc_conn *conn, uint32_t window)
{
	struct sl_credits *c = &conn->base.credits;
	uint32_t before = c->window + conn->tx_over;

	c->window = window;
	conn->tx_over = window < before ? before - window : 0;
	if (!conn->tx_over)
		return;
	conn->credit_due = true;
	conn->credit_due_at = conn->rx_next;
}

int rx_window_handle_credit(struct rc_conn *conn, const struct sl_rpc_header *credit)
{
	uint32_t window = credit->total_or_offset;

	if (window < SL_RPC_MIN_SLOTS || window > conn->mask + 1)
		return -EPROTO;
	apply_tx_window(conn, window);
	if (conn->shrinking && (int32_t)(credit->consumed - conn->shrink_tx) >= 0 &&
	    credit->time_us <= conn->advertised) {
		conn->shrinking = false;
		set_enforced(conn, conn->advertised);
	}
	return 0;
}

uint32_t rx_window_room(const struct rc_conn *conn, enum sl_credit_kind kind)
{
	struct sl_credits widened;

	if (sl_likely(!conn->tx_over || kind != SL_CREDIT_CREDIT))
		return sl_credits_room(&conn->base.credits, kind);
	widened = conn->base.credits;
	widened.window += conn->tx_over;
	return sl_credits_room(&widened, kind);
}

bool rx_window_credit_due(struct rc_conn *conn)
{
	struct sl_credits *c = &conn->base.credits;
	bool due = conn->target_window != conn->advertised;

	if (conn->tx_over && c->sent - c->acked <= c->window - SL_CREDIT_RESERVE)
		conn->tx_over = 0;
	due |= conn->credit_due && !conn->tx_over &&
	       (int32_t)(c->consumed - conn->credit_due_at) >= 0;
	/* The last slot is for a CREDIT that makes room. */
	return (due && rx_window_room(conn, SL_CREDIT_CREDIT) > 1) ||
	       sl_credits_due_of(c, conn->advertised);
}

void rx_window_advertise(struct rc_conn *conn)
{
	struct sl_credits *c = &conn->base.credits;
	uint32_t target_window = conn->target_window;
	const struct sl_rpc_header credit = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
		.total_or_offset = target_window,
		.time_us = c->window + conn->tx_over,
	};

	if (rc_post(&conn->base, &credit, NULL, 0, 0))
		return;
	/* Behind the doorbell, which is yet to ring, the peer has it. */
	if (target_window < conn->advertised) {
		conn->shrinking = true;
		conn->shrink_rx = conn->rx_next;
		conn->shrink_tx = c->sent;
	} else if (!conn->shrinking) {
		set_enforced(conn, target_window);
	}
	conn->advertised = target_window;
	conn->credit_due &= conn->tx_over || (int32_t)(c->advertised - conn->credit_due_at) < 0;
}
