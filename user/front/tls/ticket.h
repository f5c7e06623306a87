/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of session tickets: the newest seals, older ones still open. Own keys rotate every hour, and
 * are valid for two. Gateways can share a file of 80-byte keys (name 16, HMAC 32, AES 32); the
 * first seals.
 *
 * Thread-safe.
 */
#ifndef SL_FRONT_TLS_TICKET_H
#define SL_FRONT_TLS_TICKET_H

#include <openssl/ssl.h>
#include "front/tls/cert.h"

struct sl_tls_tickets;

/* Returns random keys that rotate, or NULL. */
struct sl_tls_tickets *sl_tls_tickets_new(void);
/* Loads a file of keys. NULL: an error was reported. */
struct sl_tls_tickets *sl_tls_tickets_load(const struct sl_cfg_file *f,
					   struct conf_diags *mistakes);
/* Return t with another reference; drop one (t may be NULL), the last wipes and frees t. */
struct sl_tls_tickets *sl_tls_tickets_get(struct sl_tls_tickets *t);
void sl_tls_tickets_put(struct sl_tls_tickets *t);

/* For SSL_CTX_set_tlsext_ticket_key_evp_cb. Returns 0: unknown, 1: valid, 2: renew. */
int sl_tls_tickets_use(struct sl_tls_tickets *t, uint8_t name[16], uint8_t *iv, EVP_CIPHER_CTX *c,
		       EVP_MAC_CTX *h, int seal, uint64_t now_ns);
/* Returns true if a key has the name. */
bool sl_tls_tickets_know(struct sl_tls_tickets *t, const uint8_t name[16]);

#endif
