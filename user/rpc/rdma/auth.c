/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/auth.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include "base/rand.h"
#include "base/siphash.h"
#include "rpc/transport.h"

struct auth_target auth_target_of(const struct sockaddr *sa)
{
	struct auth_target d = {.family = sa->sa_family};
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		d.port = in.sin_port;
		memcpy(d.address, &in.sin_addr, sizeof(in.sin_addr));
	} else if (sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		d.port = in6.sin6_port;
		memcpy(d.address, &in6.sin6_addr, sizeof(in6.sin6_addr));
	}
	return d;
}

/* Computes the HMAC of the message's label and of the transcript up to its proof. */
static void compute_mac(const struct sl_psk *s, const struct cm_transcript *transcript,
			enum cm_msg step, uint8_t proof[AUTH_PROOF_LEN])
{
	static const char *const labels[] = {"sluice verbs request", "sluice verbs answer",
					     "sluice verbs dialler", "sluice verbs acceptor"};
	static const size_t lens[] = {
		offsetof(struct cm_transcript, request) + offsetof(struct cm_request, proof),
		offsetof(struct cm_transcript, reply) + offsetof(struct cm_reply, proof),
		offsetof(struct cm_transcript, client) + offsetof(struct rc_keys, proof),
		offsetof(struct cm_transcript, server) + offsetof(struct rc_keys, proof),
	};
	uint8_t text[32 + sizeof(*transcript)] = {0};

	memcpy(text, labels[step], strlen(labels[step]));
	memcpy(text + 32, transcript, lens[step]);
	sl_psk_mac(s, text, 32 + lens[step], proof);
}

static size_t proof_len(enum cm_msg step)
{
	return step == CM_REQUEST ? CM_PROOF_LEN : AUTH_PROOF_LEN;
}

void auth_sign(const struct sl_psk *s, struct cm_transcript *transcript, enum cm_msg step)
{
	uint8_t *const proofs[] = {transcript->request.proof, transcript->reply.proof,
				   transcript->client.proof, transcript->server.proof};
	uint8_t proof[AUTH_PROOF_LEN];

	compute_mac(s, transcript, step, proof);
	memcpy(proofs[step], proof, proof_len(step));
}

bool auth_verify(const struct sl_psk *s, const struct cm_transcript *transcript, enum cm_msg step)
{
	const uint8_t *const proofs[] = {transcript->request.proof, transcript->reply.proof,
					 transcript->client.proof, transcript->server.proof};
	uint8_t want[AUTH_PROOF_LEN];

	compute_mac(s, transcript, step, want);
	return CRYPTO_memcmp(want, proofs[step], proof_len(step)) == 0;
}

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
int auth_sender_id(const struct sockaddr_storage *sa, uint8_t sender_id[AUTH_SENDER_ID_LEN])
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

	/* Finds the sender's entry, or replaces the one used least recently. */
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
