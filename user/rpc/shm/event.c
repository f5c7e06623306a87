/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include "rpc/shm/shm.h"

bool sl_shm_arm(struct sl_transport *t, bool want_room)
{
	struct sl_shm *s = (struct sl_shm *)t;
	struct sl_shm_slot *slot = (void *)sl_shm_slot_at(s->rx_slots, s->mask, s->rx_next);
	uint32_t bits = SL_SHM_SLEEP_MESSAGE | (want_room ? SL_SHM_SLEEP_ROOM : 0);

	if (s->gone)
		return false;
	s->armed = true;
	atomic_store_explicit(&s->mine->sleeping, bits, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != s->rx_next + 1 &&
	    (!want_room ||
	     atomic_load_explicit(&s->peer->consumed, memory_order_acquire) == t->credits.done))
		return true;
	sl_shm_disarm(t);
	return false;
}

void sl_shm_disarm(struct sl_transport *t)
{
	struct sl_shm *s = (struct sl_shm *)t;

	if (!s->armed)
		return;
	s->armed = false;
	atomic_store_explicit(&s->mine->sleeping, 0, memory_order_release);
}

int sl_shm_check(struct sl_transport *t)
{
	struct sl_shm *s = (struct sl_shm *)t;
	uint8_t bell[16];
	ssize_t n;

	n = recv(s->base.fd, bell, sizeof(bell), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		s->gone = true;
	return s->gone ? -ENOTCONN : 0;
}
