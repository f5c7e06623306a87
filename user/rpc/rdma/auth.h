/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay protection of CREQs (wireup.h). A request's proof covers no nonce of the listener, so it
 * could be replayed. Requests of one process to one listener have a sender id and ascending
 * numbers; each is accepted once. Only that listener knows the sender id: another holder of the key
 * cannot use up its numbers.
 */
#ifndef SL_RPC_RDMA_AUTH_H
#define SL_RPC_RDMA_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include "wire/rpc_wire.h"

/* Fills in this process' constant sender id for that address. Returns 0 or -EIO. */
int auth_sender_id(const struct sockaddr_storage *sa, uint8_t sender_id[SL_WIREUP_SENDER_ID_LEN]);

/* Converts a sender id to a word. */
static inline uint64_t auth_sender_id_word(const uint8_t bytes[SL_WIREUP_SENDER_ID_LEN])
{
	uint64_t sender_id;

	memcpy(&sender_id, bytes, sizeof(sender_id));
	return sender_id;
}

/* The 64 highest numbers of the latest REPLAY_SENDERS senders. */
enum { REPLAY_SENDERS = 256 };
struct replay_filter {
	struct replay_sender {
		uint64_t sender_id, bits; /* bit n: number `highest` - n was accepted; 0: unused */
		uint32_t highest;
		uint64_t last_used;
	} senders[REPLAY_SENDERS];
	uint64_t lru_clock;
};
/* Returns true for a sender's new number; false: seen, or 64 too old. */
bool replay_filter_accept(struct replay_filter *filter, uint64_t sender_id, uint32_t number);

#endif
