/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/proof.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include "base/rand.h"
#include "base/siphash.h"
#include "rpc/transport.h"

struct vb_dialled vb_dialled_of(const struct sockaddr *sa)
{
	struct vb_dialled d = {.family = sa->sa_family};
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

/* The talk up to and without the proof of that step, behind the step's label. */
static void compute(const struct sl_secret *s, const struct vb_talk *talk, enum vb_step step,
		    uint8_t proof[VB_PROOF_LEN])
{
	static const char *const labels[] = {"sluice verbs request", "sluice verbs answer",
					     "sluice verbs dialer", "sluice verbs acceptor"};
	static const size_t lens[] = {
		offsetof(struct vb_talk, request) + offsetof(struct vb_request, proof),
		offsetof(struct vb_talk, answer) + offsetof(struct vb_answer, proof),
		offsetof(struct vb_talk, dialer) + offsetof(struct vb_keys, proof),
		offsetof(struct vb_talk, acceptor) + offsetof(struct vb_keys, proof),
	};
	uint8_t text[32 + sizeof(*talk)] = {0};

	memcpy(text, labels[step], strlen(labels[step]));
	memcpy(text + 32, talk, lens[step]);
	sl_secret_mac(s, text, 32 + lens[step], proof);
}

static size_t proof_len(enum vb_step step)
{
	return step == VB_REQUEST ? VB_SHORT_PROOF_LEN : VB_PROOF_LEN;
}

void vb_prove(const struct sl_secret *s, struct vb_talk *talk, enum vb_step step)
{
	uint8_t *const proofs[] = {talk->request.proof, talk->answer.proof, talk->dialer.proof,
				   talk->acceptor.proof};
	uint8_t proof[VB_PROOF_LEN];

	compute(s, talk, step, proof);
	memcpy(proofs[step], proof, proof_len(step));
}

bool vb_proven(const struct sl_secret *s, const struct vb_talk *talk, enum vb_step step)
{
	const uint8_t *const proofs[] = {talk->request.proof, talk->answer.proof,
					 talk->dialer.proof, talk->acceptor.proof};
	uint8_t want[VB_PROOF_LEN];

	compute(s, talk, step, want);
	return CRYPTO_memcmp(want, proofs[step], proof_len(step)) == 0;
}

static struct {
	int rc;
	struct sl_sipkey key;
} series_of_all;

static void draw_key(void)
{
	uint8_t bytes[16] = {0};

	series_of_all.rc = sl_rand_bytes(bytes, sizeof(bytes)) ? -EIO : 0;
	series_of_all.key = sl_sipkey_from(bytes);
}

/* What a fork has copied goes on with numbers that its parent uses, too, but with another epoch. */
int vb_series_to(const struct sockaddr_storage *sa, uint8_t series[VB_SERIES_LEN])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct {
		uint64_t epoch;
		struct sockaddr_storage sa;
	} whose;
	uint64_t word;

	pthread_once(&once, draw_key);
	memset(&whose, 0, sizeof(whose));
	whose.epoch = sl_rpc_boot_epoch();
	whose.sa = *sa;
	word = sl_siphash24(&series_of_all.key, &whose, sizeof(whose));
	memcpy(series, &word, sizeof(word));
	return series_of_all.rc;
}

bool vb_fresh(struct vb_seen *seen, uint64_t series, uint32_t number)
{
	struct vb_seen_series *e = &seen->of[0];
	uint32_t ahead, behind;

	/* Of that series, or the one that was used longest ago, emptied. */
	for (unsigned i = 0; i < VB_SERIES && !(e->bits && e->series == series); i++) {
		struct vb_seen_series *other = &seen->of[i];

		if ((other->bits && other->series == series) || other->used < e->used)
			e = other;
	}
	if (!e->bits || e->series != series)
		*e = (struct vb_seen_series){.series = series};
	ahead = number - e->highest;
	behind = e->highest - number;
	e->used = ++seen->turn;
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
