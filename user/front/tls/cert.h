/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of a listener, from their files: the private key goes into an SSL_CTX and nowhere
 * else; what people and other rooms ask about a certificate is in struct sl_tls_cert, which
 * connections keep alive beyond a reload.
 */
#ifndef SL_FRONT_TLS_CERT_H
#define SL_FRONT_TLS_CERT_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include "base/bytes.h"
#include "config/config.h"
#include "config/mistakes.h"

/* Constant but for the count. */
struct sl_tls_cert {
	_Atomic uint32_t refs;
	int64_t ends; /* seconds of Unix */
	const char *file;
	uint32_t name_cnt;
	char *names[]; /* lower case, "*." in front of those that stand for one label more */
};

/* A certificate with its chain and key while its SSL_CTX is made. */
struct sl_tls_pair {
	struct sl_tls_cert *cert;
	X509 *leaf;
	STACK_OF(X509) * chain; /* behind the leaf */
	EVP_PKEY *key;
};

/* Where mistakes are told: FILE:LINE of the configuration. */
struct sl_tls_told {
	struct conf_mistakes *mistakes;
	int line;
};
void sl_tls_tell(const struct sl_tls_told *to, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* False: told. What was made is to be freed all the same. */
bool sl_tls_pair_load(struct sl_tls_pair *p, const struct sl_cfg_file *cert,
		      const struct sl_cfg_file *key, struct conf_mistakes *mistakes);
void sl_tls_pair_free(struct sl_tls_pair *p);
/* All certificates of a file; NULL: told. */
STACK_OF(X509) * sl_tls_read_certs(const struct sl_cfg_file *f, const struct sl_tls_told *to);
/* A file with secrets in it, of at most max bytes. -1: told. */
int sl_tls_read_secret(const struct sl_cfg_file *f, const char *what, uint8_t *buf, size_t max,
		       const struct sl_tls_told *to);

void sl_tls_cert_put(struct sl_tls_cert *c);
static inline struct sl_tls_cert *sl_tls_cert_get(struct sl_tls_cert *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

/* RFC 6125: a wildcard stands for one label, the leftmost. `name` is lower case. */
bool sl_tls_cert_covers(const struct sl_tls_cert *c, struct sl_span name);
/* By the name itself, rather than by a wildcard. */
bool sl_tls_cert_names(const struct sl_tls_cert *c, struct sl_span name);

#endif
