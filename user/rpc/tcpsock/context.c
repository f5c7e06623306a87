/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 with an external pre-shared key only. An ephemeral key exchange protects recorded traffic
 * if the key leaks. No CA is trusted, so certificates are rejected.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>
#include "rpc/tcpsock/stream.h"

/* Unlike the label of RDMA proofs: no proof equals this key. */
static const char label[] = "sluice tcp pre-shared key";
static const unsigned char identity[] = "sluice rpc";

/* TLS_AES_128_GCM_SHA256: only its hash matters. */
static const unsigned char suite[] = {0x13, 0x01};
static const char suites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

static SSL_SESSION *session_of(SSL *ssl)
{
	const struct sk_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	SSL_SESSION *session = c ? SSL_SESSION_new() : NULL;

	if (session && SSL_SESSION_set1_master_key(session, c->psk, SK_PSK_LEN) &&
	    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int offer_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
		     SSL_SESSION **session)
{
	(void)md;
	*session = session_of(ssl);
	*id = identity;
	*id_len = sizeof(identity) - 1;
	return *session != NULL;
}

static int use_psk(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **session)
{
	*session = NULL;
	if (id_len == sizeof(identity) - 1 && memcmp(id, identity, id_len) == 0)
		*session = session_of(ssl);
	return 1;
}

int sk_context_open(struct sk_context *c, const struct sl_psk *s, bool acceptor)
{
	unsigned len = SK_PSK_LEN;

	c->ssl = NULL;
	if (!HMAC(EVP_sha256(), s->bytes, (int)s->len, (const unsigned char *)label,
		  sizeof(label) - 1, c->psk, &len) ||
	    len != SK_PSK_LEN)
		return -ENOMEM;
	c->ssl = SSL_CTX_new(acceptor ? TLS_server_method() : TLS_client_method());
	if (!c->ssl || !SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_max_proto_version(c->ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(c->ssl, suites) ||
	    !SSL_CTX_set1_groups_list(c->ssl, "X25519:P-256") ||
	    !SSL_CTX_set_num_tickets(c->ssl, 0)) {
		sk_context_close(c);
		return -ENOMEM;
	}
	SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(c->ssl, SSL_OP_NO_TICKET);
	/* One record per read: a peer cannot keep the thread busy. */
	SSL_CTX_clear_mode(c->ssl, SSL_MODE_AUTO_RETRY);
	if (acceptor) {
		SSL_CTX_set_psk_find_session_callback(c->ssl, use_psk);
	} else {
		SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_psk_use_session_callback(c->ssl, offer_psk);
	}
	SSL_CTX_set_app_data(c->ssl, c);
	return 0;
}

void sk_context_close(struct sk_context *c)
{
	if (c->ssl)
		SSL_CTX_set_app_data(c->ssl, NULL); /* streams outlive the context */
	SSL_CTX_free(c->ssl);
	OPENSSL_cleanse(c, sizeof(*c));
}
