/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/filters.h"

#include <errno.h>

#include "front/tls/tls.h"
#include "worker/worker.h"

static bool expects_proxy_header(void *arg, const struct sl_conn_info *info)
{
	const struct sl_config *cfg = ((struct sl_worker *)arg)->core.cfg;

	return info->listener < cfg->listener_cnt &&
	       sl_config_covers(&cfg->listeners[info->listener].proxies, &info->peer);
}

static bool open_filters(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
			 struct sl_filter **top)
{
	struct sl_filter *proxy = NULL, *tls = NULL;
	struct sl_worker *w = arg;

	if (expects_proxy_header(w, info)) {
		proxy = sl_proxy_open(&w->proxy, transport);
		if (!proxy)
			return false;
		transport = sl_filter_conn(proxy);
	}
	if (!sl_tls_open_conn(w->tls, transport, info, &tls)) {
		if (proxy)
			sl_proxy_drop(proxy);
		return false;
	}
	if (proxy && tls) {
		proxy->up = tls->below_tells;
		proxy->user = tls;
		tls->under = proxy;
	}
	*top = tls ? tls : proxy;
	return true;
}

static unsigned poll_filters(void *arg)
{
	return sl_tls_poll(((struct sl_worker *)arg)->tls);
}

static uint64_t filters_next_ns(void *arg)
{
	return sl_tls_next_ns(((struct sl_worker *)arg)->tls);
}

static void set_listeners(void *arg, const struct sl_config *cfg)
{
	sl_tls_set_listeners(((struct sl_worker *)arg)->tls, cfg);
}

static void flush_filters(void *arg)
{
	sl_tls_flush(((struct sl_worker *)arg)->tls);
}

int sl_worker_filters_init(struct sl_worker *w, const struct sl_config *cfg,
			   const struct sl_tls_config *handshakes)
{
	struct sl_tls_config t = *handshakes;
	struct sl_core_stats *s = &w->core.stats;
	int rc = sl_proxy_env_init(&w->proxy, cfg->limits.max_connections, &s->proxy_headers,
				   &s->proxy_malformed);

	if (rc)
		return rc;
	t.max_conns = cfg->limits.max_connections;
	t.umem = &w->umem;
	t.now_ns = &w->core.now_ns;
	w->tls = sl_tls_create(&t);
	if (!w->tls)
		return -errno;
	sl_tls_set_listeners(w->tls, cfg);
	w->core.filters = (struct sl_filter_maker){.open = open_filters,
						   .expects_proxy_header = expects_proxy_header,
						   .poll = poll_filters,
						   .next_ns = filters_next_ns,
						   .listeners = set_listeners,
						   .flush = flush_filters,
						   .arg = w};
	return 0;
}

void sl_worker_filters_fini(struct sl_worker *w)
{
	sl_tls_destroy(w->tls);
	sl_proxy_env_fini(&w->proxy);
}
