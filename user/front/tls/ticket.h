/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of session tickets: the newest seals, older ones still open. Either the gateway's own,
 * renewed every hour and kept for two, or those of a file that gateways share: 80 bytes each (name
 * 16, HMAC 32, AES 32; `openssl rand 80`), the first of them seals.
 *
 * Used by handshake threads; rotation takes a lock, which is held for a copy of 80 bytes.
 */
#ifndef SL_FRONT_TLS_TICKET_H
#define SL_FRONT_TLS_TICKET_H

#include <openssl/ssl.h>
#include "front/tls/cert.h"

struct sl_tls_tickets;

/* With keys of its own. NULL: no memory or no randomness. */
struct sl_tls_tickets *sl_tls_tickets_new(void);
/* With those of a file; NULL: told. */
struct sl_tls_tickets *sl_tls_tickets_load(const struct sl_cfg_file *f,
					   struct conf_mistakes *mistakes);
struct sl_tls_tickets *sl_tls_tickets_get(struct sl_tls_tickets *t);
void sl_tls_tickets_put(struct sl_tls_tickets *t);

/* For SSL_CTX_set_tlsext_ticket_key_evp_cb. Returns as that wants: 0 unknown, 1, 2 seal anew. */
int sl_tls_tickets_use(struct sl_tls_tickets *t, uint8_t name[16], uint8_t *iv, EVP_CIPHER_CTX *c,
		       EVP_MAC_CTX *h, int seal, uint64_t now_ns);
/* Whether a ticket that begins with this was sealed by a key that is still known. */
bool sl_tls_tickets_know(struct sl_tls_tickets *t, const uint8_t name[16]);

#endif
