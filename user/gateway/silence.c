/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links by virtual connections whose peers have not been heard for a while: they are asked after, beside
 * the data path, so that a backend that has started again is connected again in a moment, and one that
 * computes in the thread that answers is not taken for dead.
 *
 *   silent --ASK_AFTER_NS--> asked: KNOWN: waits on; FORGOTTEN: ends at once; NOBODY: ends, if it has been
 *                            silent for DEAD_NS; no word: the pings of the RPC decide
 */
#include "base/clock.h"
#include "base/log.h"
#include "core/group.h"
#include "gateway/dial_impl.h"

enum { ASK_TIMEOUT_MS = 500 };
#define ASK_AFTER_NS (200 * SL_NS_PER_MS) /* as long as a datagram waits at most to be sent again */
#define ASK_AGAIN_NS (500 * SL_NS_PER_MS)
/* Whoever can forge NOBODY can also keep datagrams away, and by that end a connection. */
#define DEAD_NS (3 * SL_NS_PER_SEC)

void sl_silence_note(struct sl_dialler *d)
{
	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		struct way *way = &d->workers[i];

		way->silent_ns = way->number ? sl_rpc_channel_silent_ns(way->member->channel) : 0;
	}
}

uint64_t sl_silence_due_ns(const struct sl_dialler *d, unsigned worker)
{
	const struct way *way = &d->workers[worker];
	uint64_t due = way->silent_ns + ASK_AFTER_NS;

	if (!way->silent_ns || way->offered || sl_member_link(way->member) != SL_LINK_UP)
		return UINT64_MAX;
	return due > way->ask_ns ? due : way->ask_ns;
}

void sl_silence_ask(struct sl_dialler *d, struct sl_worker *w)
{
	struct way *way = &d->workers[w->index];
	enum sl_rpc_word word = sl_dial_ask(d, w, ASK_TIMEOUT_MS);
	uint64_t now_ns = sl_now_ns();
	bool dead = word == SL_RPC_NOBODY && now_ns >= way->silent_ns + DEAD_NS;

	way->ask_ns = now_ns + ASK_AGAIN_NS;
	if (word != SL_RPC_FORGOTTEN && !dead)
		return;
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO, "backend %s/%s: worker %u is %s, after %llu ms",
		     d->pool_name, d->backend.name, w->index,
		     dead ? "not heard, and nobody listens there" : "forgotten there",
		     (unsigned long long)((now_ns - way->silent_ns) / SL_NS_PER_MS));
	(void)sl_dial_send(d, w, SL_WORKER_FORGET, NULL);
}
