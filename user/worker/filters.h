/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_WORKER_FILTERS_H
#define SL_WORKER_FILTERS_H

struct sl_config;
struct sl_tls_config;
struct sl_worker;

/* `handshakes`: who makes them; the rest of it is filled in. After the core. 0 or -errno. */
int sl_worker_filters_init(struct sl_worker *w, const struct sl_config *cfg,
			   const struct sl_tls_config *handshakes);
/* After the core's end. */
void sl_worker_filters_fini(struct sl_worker *w);

#endif
