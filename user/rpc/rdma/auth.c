/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/auth.h"

#include <errno.h>
#include <pthread.h>
#include "base/rand.h"
#include "base/siphash.h"
#include "rpc/transport.h"

static struct {
	int rc;
	struct sl_sipkey key;
} sender_key;

static void draw_key(void)
{
	uint8_t bytes[16] = {0};

	sender_key.rc = sl_rand_bytes(bytes, sizeof(bytes)) ? -EIO : 0;
	sender_key.key = sl_sipkey_from(bytes);
}

/* A forked child uses the same numbers as its parent, but another epoch. */
int auth_sender_id(const struct sockaddr_storage *sa, uint8_t sender_id[SL_WIREUP_SENDER_ID_LEN])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct {
		uint64_t epoch;
		struct sockaddr_storage sa;
	} id_input;
	uint64_t word;

	pthread_once(&once, draw_key);
	memset(&id_input, 0, sizeof(id_input));
	id_input.epoch = sl_rpc_boot_epoch();
	id_input.sa = *sa;
	word = sl_siphash24(&sender_key.key, &id_input, sizeof(id_input));
	memcpy(sender_id, &word, sizeof(word));
	return sender_key.rc;
}

bool replay_filter_accept(struct replay_filter *filter, uint64_t sender_id, uint32_t number)
{
	struct replay_sender *e = &filter->senders[0];
	uint32_t ahead, behind;

	for (unsigned i = 0; i < REPLAY_SENDERS && !(e->bits && e->sender_id == sender_id); i++) {
		struct replay_sender *other = &filter->senders[i];

		if ((other->bits && other->sender_id == sender_id) ||
		    other->last_used < e->last_used)
			e = other;
	}
	if (!e->bits || e->sender_id != sender_id)
		*e = (struct replay_sender){.sender_id = sender_id};
	ahead = number - e->highest;
	behind = e->highest - number;
	e->last_used = ++filter->lru_clock;
	if (!e->bits || (ahead && ahead < UINT32_MAX / 2)) {
		e->bits = e->bits && ahead < 64 ? e->bits << ahead | 1 : 1;
		e->highest = number;
		return true;
	}
	if (behind >= 64 || e->bits >> behind & 1)
		return false;
	e->bits |= UINT64_C(1) << behind;
	return true;
}
