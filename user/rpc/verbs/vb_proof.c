/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/vb_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *path, const char *what, char *err, size_t err_len)
{
	snprintf(err, err_len, "key file %s: %s", path, what);
	return -1;
}

int vb_secret_read(struct vb_secret *s, const char *path, char *err, size_t err_len)
{
	struct stat st;
	ssize_t n;
	int fd;

	if (!path) {
		snprintf(err, err_len,
			 "rdma:// needs a key file: both ends prove that they have the same key");
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse(path, strerror(errno), err, err_len);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mode & S_IROTH) {
		close(fd);
		return refuse(path, "expected a file that others may not read (chmod 640)", err,
			      err_len);
	}
	n = read(fd, s->bytes, sizeof(s->bytes));
	close(fd);
	while (n > 0 && memchr("\r\n\t ", s->bytes[n - 1], 4))
		n--;
	s->len = n > 0 ? (size_t)n : 0;
	if (s->len < VB_KEY_MIN)
		return refuse(path, "expected 16 to 1024 bytes of key", err, err_len);
	return 0;
}

void vb_secret_wipe(struct vb_secret *s)
{
	OPENSSL_cleanse(s, sizeof(*s));
}

/* The talk up to and without the proof of that step, behind the step's label. */
static int compute(const struct vb_secret *s, const struct vb_talk *talk, enum vb_step step,
		   uint8_t proof[VB_PROOF_LEN])
{
	static const char *const labels[] = {"sluice verbs answer", "sluice verbs dialler",
					     "sluice verbs acceptor"};
	static const size_t lens[] = {
		offsetof(struct vb_talk, answer) + offsetof(struct vb_answer, proof),
		offsetof(struct vb_talk, dialler) + offsetof(struct vb_keys, proof),
		offsetof(struct vb_talk, acceptor) + offsetof(struct vb_keys, proof),
	};
	uint8_t text[32 + sizeof(*talk)] = {0};
	unsigned len = VB_PROOF_LEN;

	memcpy(text, labels[step], strlen(labels[step]));
	memcpy(text + 32, talk, lens[step]);
	return HMAC(EVP_sha256(), s->bytes, (int)s->len, text, 32 + lens[step], proof, &len) &&
			       len == VB_PROOF_LEN
		       ? 0
		       : -EIO;
}

int vb_prove(const struct vb_secret *s, struct vb_talk *talk, enum vb_step step)
{
	uint8_t *const proofs[] = {talk->answer.proof, talk->dialler.proof, talk->acceptor.proof};

	return compute(s, talk, step, proofs[step]);
}

bool vb_proven(const struct vb_secret *s, const struct vb_talk *talk, enum vb_step step)
{
	const uint8_t *const proofs[] = {talk->answer.proof, talk->dialler.proof,
					 talk->acceptor.proof};
	uint8_t want[VB_PROOF_LEN];

	return compute(s, talk, step, want) == 0 &&
	       CRYPTO_memcmp(want, proofs[step], VB_PROOF_LEN) == 0;
}
