/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 between engine and I/O: handshake by OpenSSL, records by front/tls/record.h. Certificates
 * are not verified.
 */
#ifndef SL_TOOLS_LOAD_TLS_H
#define SL_TOOLS_LOAD_TLS_H

#include "tools/load/engine.h"

/* Returns 0, -ENOTSUP (no AES-NI) or -ENOMEM. After an error, call sl_load_tls_fini(), too. */
int sl_load_tls_init(struct sl_load *l, struct sl_err *err);
/* Frees TLS, if any. */
void sl_load_tls_fini(struct sl_load *l);

/* Sends the ClientHello; sl_load_opened() follows. */
void sl_load_tls_begin(struct sl_load *l, struct sl_load_conn *c);
/* Frees the connection's keys. */
void sl_load_tls_end(struct sl_load *l, struct sl_load_conn *c);
/* Decrypts in place; calls sl_load_content(). */
void sl_load_tls_take(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);
/* Encrypts and sends all bytes; false: no room. */
bool sl_load_tls_send(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);

#endif
