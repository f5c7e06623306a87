/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "front/tls/aead.h"
#include "front/tls/server.h"

enum { WARN_DAYS = 30, DAY_S = 86400 };

static struct sl_tls_tickets *own_tickets(void)
{
	static struct sl_tls_tickets *own;

	if (!own)
		own = sl_tls_tickets_new();
	return own;
}

static void free_servers(struct sl_config *c)
{
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		sl_tls_server_put(c->listeners[i].tls_server);
		c->listeners[i].tls_server = NULL;
	}
}

int sl_tls_load(struct sl_config *c, struct sl_err *err)
{
	struct conf_diags mistakes = {.file = c->file, .cfg = c};

	sl_config_on_free(c, free_servers);
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		struct sl_cfg_listener *l = &c->listeners[i];

		if (!l->tls)
			continue;
		if (!sl_aead_supported()) {
			sl_tls_diagnose(
				&(struct sl_tls_diag){&mistakes, l->tls->line},
				"found a processor without AES-NI or PCLMULQDQ; allowed: tls on "
				"one that has them");
			continue;
		}
		if (own_tickets())
			l->tls_server = sl_tls_server_new(l->tls, own_tickets(), &mistakes);
		if (!l->tls_server && !mistakes.cnt)
			sl_tls_diagnose(&(struct sl_tls_diag){&mistakes, l->tls->line},
					"found too little memory or randomness");
	}
	if (!mistakes.cnt)
		return 0;
	conf_diags_print(&mistakes, err);
	conf_diags_free(&mistakes);
	return -1;
}

static const char *day_of(int64_t seconds, char day[32])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(day, 32, "%Y-%m-%d", &tm);
	return day;
}

void sl_tls_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg)
{
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		const struct sl_tls_cert *cert;

		for (unsigned k = 0; l->tls_server && (cert = sl_tls_server_cert(l->tls_server, k));
		     k++) {
			const struct sl_cfg_location at =
				sl_config_location(c, l->tls->certificates[k].line);
			int64_t left = cert->ends - (int64_t)time(NULL);
			char line[600], day[32];

			if (left > (int64_t)WARN_DAYS * DAY_S)
				continue;
			snprintf(line, sizeof(line), "%.200s:%d: certificate \"%.300s\" %s on %s",
				 at.file, at.line, cert->file, left < 0 ? "ended" : "ends",
				 day_of(cert->ends, day));
			fn(arg, line);
		}
	}
}

void sl_tls_log_ends(const struct sl_config *c)
{
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		const struct sl_tls_cert *cert;
		char day[32];

		for (unsigned k = 0; l->tls_server && (cert = sl_tls_server_cert(l->tls_server, k));
		     k++)
			sl_log_info("listener %s: certificate %s ends on %s", l->name, cert->file,
				    day_of(cert->ends, day));
	}
}
