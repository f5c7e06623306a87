/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/cert.h"
#include "front/tls/server.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_FILE_MAX = 64 << 10, NAMES_MAX = 512 };

void sl_tls_diagnose(const struct sl_tls_diag *to, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	conf_diag_add(to->mistakes, to->line, NULL, fmt, ap);
	va_end(ap);
}

STACK_OF(X509) * sl_tls_read_certs(const struct sl_cfg_file *f, const struct sl_tls_diag *to)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	BIO *in = BIO_new_file(f->path, "r");
	X509 *x;

	if (!in)
		sl_tls_diagnose(to,
				"found certificate \"%s\" (%s); allowed: a file that can be read",
				f->path, strerror(errno));
	while (in && all && (x = PEM_read_bio_X509(in, NULL, NULL, NULL)))
		sk_X509_push(all, x);
	BIO_free(in);
	if (in && sk_X509_num(all) > 0)
		return all;
	if (in)
		sl_tls_diagnose(to, "found no certificate in \"%s\"; allowed: PEM", f->path);
	sk_X509_pop_free(all, X509_free);
	return NULL;
}

int sl_tls_read_secret(const struct sl_cfg_file *f, const char *what, uint8_t *buf, size_t max,
		       const struct sl_tls_diag *to)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0 || fstat(fd, &st) != 0) {
		sl_tls_diagnose(to, "found %s \"%s\" (%s); allowed: a file that can be read", what,
				f->path, strerror(errno));
	} else if (!S_ISREG(st.st_mode) || st.st_mode & (S_IRWXO | S_IWGRP)) {
		sl_tls_diagnose(
			to,
			"found %s \"%s\" that others may use; allowed: a file with mode 600, "
			"or 640 with the gateway's group",
			what, f->path);
	} else if ((n = read(fd, buf, max)) < 0 || (size_t)st.st_size > max) {
		sl_tls_diagnose(to, "found %s \"%s\" (%s); allowed: at most %zu bytes", what,
				f->path, n < 0 ? strerror(errno) : "too long", max);
		n = -1;
	}
	if (fd >= 0)
		close(fd);
	return (int)n;
}

static EVP_PKEY *read_key(const struct sl_cfg_file *f, const struct sl_tls_diag *to)
{
	uint8_t *buf = OPENSSL_malloc(KEY_FILE_MAX);
	int n = buf ? sl_tls_read_secret(f, "key", buf, KEY_FILE_MAX, to) : -1;
	BIO *in = n >= 0 ? BIO_new_mem_buf(buf, n) : NULL;
	/* OpenSSL must not prompt. */
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)(uintptr_t) "") : NULL;

	if (n >= 0 && !key)
		sl_tls_diagnose(to, "found no private key in \"%s\"; allowed: PEM, not encrypted",
				f->path);
	BIO_free(in);
	OPENSSL_clear_free(buf, KEY_FILE_MAX);
	return key;
}

static char *lower_name(const uint8_t *text, int len)
{
	char *s = len > 0 && !memchr(text, 0, (size_t)len) ? malloc((size_t)len + 1) : NULL;

	for (int i = 0; s && i < len; i++)
		s[i] = (char)sl_ascii_lower(text[i]);
	if (s)
		s[len] = 0;
	return s;
}

/* DNS names of subjectAltName, else the common name. */
static uint32_t take_names(const X509 *x, char **names)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	uint32_t cnt = 0;

	if (!all) {
		const X509_NAME *subject = X509_get_subject_name(x);
		int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
		const ASN1_STRING *s;

		if (at < 0)
			return 0;
		s = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
		names[0] = lower_name(ASN1_STRING_get0_data(s), ASN1_STRING_length(s));
		return names[0] != NULL;
	}
	for (int i = 0; i < sk_GENERAL_NAME_num(all) && cnt < NAMES_MAX; i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);

		if (g->type != GEN_DNS)
			continue;
		names[cnt] = lower_name(ASN1_STRING_get0_data(g->d.dNSName),
					ASN1_STRING_length(g->d.dNSName));
		if (names[cnt])
			cnt++;
	}
	GENERAL_NAMES_free(all);
	return cnt;
}

static struct sl_tls_cert *describe_cert(const X509 *x, const char *file)
{
	char *names[NAMES_MAX];
	uint32_t cnt = take_names(x, names);
	struct sl_tls_cert *c = malloc(sizeof(*c) + cnt * sizeof(char *));
	char *path = strdup(file);
	struct tm end = {0};

	if (!c || !path) {
		while (cnt)
			free(names[--cnt]);
		free(c);
		free(path);
		return NULL;
	}
	*c = (struct sl_tls_cert){.refs = 1, .file = path, .name_cnt = cnt};
	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &end))
		c->ends = (int64_t)timegm(&end);
	memcpy(c->names, names, cnt * sizeof(char *));
	return c;
}

void sl_tls_cert_put(struct sl_tls_cert *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < c->name_cnt; i++)
		free(c->names[i]);
	free((char *)(uintptr_t)c->file);
	free(c);
}

bool sl_tls_cert_names(const struct sl_tls_cert *c, struct sl_span name)
{
	for (uint32_t i = 0; i < c->name_cnt; i++) {
		if (sl_span_eq(sl_span_cstr(c->names[i]), name))
			return true;
	}
	return false;
}

bool sl_tls_cert_covers(const struct sl_tls_cert *c, struct sl_span name)
{
	const uint8_t *dot = name.len ? memchr(name.ptr, '.', name.len) : NULL;
	struct sl_span parent;

	if (sl_tls_cert_names(c, name))
		return true;
	if (!dot || dot == name.ptr)
		return false;
	parent = sl_span_skip(name, (size_t)(dot - name.ptr));
	for (uint32_t i = 0; i < c->name_cnt; i++) {
		if (c->names[i][0] == '*' && sl_span_eq(sl_span_cstr(c->names[i] + 1), parent))
			return true;
	}
	return false;
}

static bool check_chain(const struct sl_tls_pair *p, const char *file, const struct sl_tls_diag *to)
{
	X509 *below = p->leaf;

	for (int i = 0; i < sk_X509_num(p->chain); i++) {
		X509 *issuer = sk_X509_value(p->chain, i);

		if (X509_check_issued(issuer, below) != X509_V_OK) {
			sl_tls_diagnose(
				to,
				"found certificate %d of \"%s\", which did not issue the one "
				"before it; allowed: the host's first, then each one's issuer",
				i + 2, file);
			return false;
		}
		below = issuer;
	}
	return true;
}

/* The chain must fit in a flight. RFC 8446 4.4.2: 3 + 2 length bytes each. */
static bool check_length(const struct sl_tls_pair *p, const char *file,
			 const struct sl_tls_diag *to)
{
	int len = i2d_X509(p->leaf, NULL) + 5;

	for (int i = 0; i < sk_X509_num(p->chain) && len <= SL_TLS_CHAIN_MAX; i++)
		len += i2d_X509(sk_X509_value(p->chain, i), NULL) + 5;
	if (len <= SL_TLS_CHAIN_MAX)
		return true;
	sl_tls_diagnose(to,
			"found certificates of more than %d bytes in \"%s\"; allowed: %d together",
			SL_TLS_CHAIN_MAX, file, SL_TLS_CHAIN_MAX);
	return false;
}

bool sl_tls_pair_load(struct sl_tls_pair *p, const struct sl_cfg_file *cert,
		      const struct sl_cfg_file *key, struct conf_diags *mistakes)
{
	struct sl_tls_diag to = {mistakes, cert->line}, to_key = {mistakes, key->line};

	*p = (struct sl_tls_pair){0};
	p->chain = sl_tls_read_certs(cert, &to);
	p->key = read_key(key, &to_key);
	if (!p->chain || !p->key)
		return false;
	p->leaf = sk_X509_shift(p->chain);
	p->cert = describe_cert(p->leaf, cert->path);
	if (!p->cert) {
		sl_tls_diagnose(&to, "found too little memory");
		return false;
	}
	if (X509_check_private_key(p->leaf, p->key) != 1) {
		sl_tls_diagnose(&to_key,
				"found key \"%s\", which is not that of \"%s\"; allowed: one "
				"key for each certificate, in their order",
				key->path, cert->path);
		return false;
	}
	return check_chain(p, cert->path, &to) && check_length(p, cert->path, &to);
}

void sl_tls_pair_free(struct sl_tls_pair *p)
{
	sl_tls_cert_put(p->cert);
	X509_free(p->leaf);
	sk_X509_pop_free(p->chain, X509_free);
	EVP_PKEY_free(p->key);
}
