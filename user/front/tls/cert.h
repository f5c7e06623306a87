/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of a listener. Private keys are in an SSL_CTX only. Connections keep struct
 * sl_tls_cert alive across a reload.
 */
#ifndef SL_FRONT_TLS_CERT_H
#define SL_FRONT_TLS_CERT_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include "base/bytes.h"
#include "config/config.h"
#include "config/diagnostics.h"

/* Immutable, except for the reference count. */
struct sl_tls_cert {
	_Atomic uint32_t refs;
	int64_t ends; /* seconds since the epoch */
	const char *file;
	uint32_t name_cnt;
	char *names[]; /* lower case; wildcards begin with "*." */
};

/* Used until the SSL_CTX is created. */
struct sl_tls_pair {
	struct sl_tls_cert *cert;
	X509 *leaf;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
};

/* Destination of configuration errors: FILE:LINE. */
struct sl_tls_diag {
	struct conf_diags *mistakes;
	int line;
};
void sl_tls_diagnose(const struct sl_tls_diag *to, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Loads a pair. Returns false after reporting an error. The caller must always free the pair. */
bool sl_tls_pair_load(struct sl_tls_pair *p, const struct sl_cfg_file *cert,
		      const struct sl_cfg_file *key, struct conf_diags *mistakes);
void sl_tls_pair_free(struct sl_tls_pair *p);
/* Reads all certificates. Returns NULL after reporting an error. */
STACK_OF(X509) * sl_tls_read_certs(const struct sl_cfg_file *f, const struct sl_tls_diag *to);
/* Reads a file of at most `max` bytes. Returns its length, or -1 after reporting an error. */
int sl_tls_read_secret(const struct sl_cfg_file *f, const char *what, uint8_t *buf, size_t max,
		       const struct sl_tls_diag *to);

/* Drops a reference; the last one frees the certificate. */
void sl_tls_cert_put(struct sl_tls_cert *c);
static inline struct sl_tls_cert *sl_tls_cert_get(struct sl_tls_cert *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

/* Returns true if `name` (lower case) matches; a wildcard matches the leftmost label (RFC 6125). */
bool sl_tls_cert_covers(const struct sl_tls_cert *c, struct sl_span name);
/* Returns true if `name` is listed; wildcards do not count. */
bool sl_tls_cert_names(const struct sl_tls_cert *c, struct sl_span name);

#endif
