/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive window granted to the peer, which the service thread changes (rc_iface.h), and the window
 * that the peer grants us. Both are announced by CREDIT (rpc_wire.h).
 *
 *   window         counted in the SRQ credits             protected by poll_lock
 *   target_window  what the peer shall have               service thread writes, owner reads
 *   advertised     what it was told last                  owner
 *   enforced       the most that it may still use         owner writes, service thread reads
 *
 *   grow:    window, target_window -> CREDIT -> advertised, enforced
 *   shrink:  target_window -> CREDIT -> advertised -> peer confirms -> enforced -> window
 *
 * Our own smaller window holds at once, except for CREDIT (tx_over): otherwise both ends could
 * block.
 */
#include "rpc/rdma/rc/rc_conn.h"

enum { OVERDUE_WINDOWS = 8 };

static void set_enforced(struct rc_conn *conn, uint32_t window)
{
	conn->rx_fifo.limit = window + RC_BEYOND_WINDOW;
	conn->enforced = window;
}

void rx_window_init(struct rc_conn *conn)
{
	conn->window = conn->advertised = SL_RPC_MIN_SLOTS;
	conn->target_window = SL_RPC_MIN_SLOTS;
	set_enforced(conn, SL_RPC_MIN_SLOTS);
}

void rx_window_spent(struct rc_conn *conn)
{
	struct sl_credits now = {
		.window = conn->advertised, .sent = conn->rx_next, .acked = conn->peer_read};

	/* The peer must have that many messages under way, by its own account. */
	if (!sl_credits_spent(&now))
		return;
	atomic_store_explicit(&conn->spent, true, memory_order_release);
	if (conn->enforced <= conn->mask && conn->target_window == conn->enforced)
		rc_iface_request_rebalance(conn->iface);
}

bool rx_window_overdue(const struct rc_conn *conn)
{
	return conn->shrinking &&
	       conn->rx_next - conn->shrink_rx > OVERDUE_WINDOWS * conn->enforced;
}

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
	/* Leaves the last slot to a CREDIT that makes room. */
	return (due && rx_window_room(conn, SL_CREDIT_CREDIT) > 1) ||
	       sl_credits_due_of(c, conn->advertised);
}

struct sl_rpc_header rx_window_credit(const struct rc_conn *conn)
{
	return (struct sl_rpc_header){
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
		.total_or_offset = conn->target_window,
		.time_us = conn->base.credits.window + conn->tx_over,
	};
}

void rx_window_advertised(struct rc_conn *conn, uint32_t window)
{
	const struct sl_credits *c = &conn->base.credits;

	if (window < conn->advertised) {
		conn->shrinking = true;
		conn->shrink_rx = conn->rx_next;
		conn->shrink_tx = c->sent;
	} else if (!conn->shrinking) {
		set_enforced(conn, window);
	}
	conn->advertised = window;
	conn->credit_due &= conn->tx_over || (int32_t)(c->advertised - conn->credit_due_at) < 0;
}
