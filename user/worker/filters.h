/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_WORKER_FILTERS_H
#define SL_WORKER_FILTERS_H

struct sl_config;
struct sl_tls_config;
struct sl_worker;

/*
 * Creates the filters after the core. `handshakes`: see sl_worker_build(). Returns 0 or -errno;
 * sl_worker_filters_fini() follows in both cases.
 */
int sl_worker_filters_init(struct sl_worker *w, const struct sl_config *cfg,
			   const struct sl_tls_config *handshakes);
/* Frees the filters, after the core. */
void sl_worker_filters_fini(struct sl_worker *w);

#endif
