/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of a listener, referenced by connections. Private keys are in an SSL_CTX only.
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
/* Adds a mistake of the line. */
void sl_tls_diagnose(const struct sl_tls_diag *to, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Loads a pair. False: an error was reported. The caller must always free the pair. */
bool sl_tls_pair_load(struct sl_tls_pair *p, const struct sl_cfg_file *cert,
		      const struct sl_cfg_file *key, struct conf_diags *mistakes);
/* Frees its parts, not p. */
void sl_tls_pair_free(struct sl_tls_pair *p);
/* Returns PEM certificates, for the caller to free. NULL: an error was reported. */
STACK_OF(X509) * sl_tls_read_certs(const struct sl_cfg_file *f, const struct sl_tls_diag *to);
/* Returns the length read to buf. -1: an error was reported. */
int sl_tls_read_secret(const struct sl_cfg_file *f, const char *what, uint8_t *buf, size_t max,
		       const struct sl_tls_diag *to);

/* Drop and take a reference; NULL is allowed. Any thread. */
void sl_tls_cert_put(struct sl_tls_cert *c);
static inline struct sl_tls_cert *sl_tls_cert_get(struct sl_tls_cert *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

/* Returns true if `name` (lower case) matches; a wildcard matches the leftmost label (RFC 6125). */
bool sl_tls_cert_covers(const struct sl_tls_cert *c, struct sl_span name);
/* Same without wildcards. */
bool sl_tls_cert_names(const struct sl_tls_cert *c, struct sl_span name);

#endif
