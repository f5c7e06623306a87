/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 between the engine and its I/O. OpenSSL shakes hands in memory; from then on the records are
 * the gateway's own (front/tls/record.h), so that the client does not become the limit. The server's
 * certificate is not verified: this measures, whoever answers.
 */
#ifndef SL_TOOLS_LOAD_TLS_H
#define SL_TOOLS_LOAD_TLS_H

#include "tools/load/engine.h"

/* 0, or -errno and a line in err. */
int sl_load_tls_init(struct sl_load *l, struct sl_err *err);
void sl_load_tls_fini(struct sl_load *l);

/* TCP is connected: says ClientHello; sl_load_opened() follows. */
void sl_load_tls_begin(struct sl_load *l, struct sl_load_conn *c);
/* The connection is gone. */
void sl_load_tls_end(struct sl_load *l, struct sl_load_conn *c);
/* What the server has sent, changed in place: sl_load_content() of what is in it. */
void sl_load_tls_take(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);
/* As `send` of the I/O. */
bool sl_load_tls_send(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);

#endif
