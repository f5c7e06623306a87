/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <string.h>

#include "base/num.h"
#include "config/keys.h"

bool sl_cfg_parse_otlp(const char *url, struct sl_addr *at, const char **path)
{
	static const char scheme[] = "http://";
	const char *host = url + sizeof(scheme) - 1, *end, *colon;
	char text[SL_ADDR_TEXT];
	bool v6;
	uint64_t port;
	size_t len;

	if (strncmp(url, scheme, sizeof(scheme) - 1) != 0 || strlen(url) > SL_CFG_OTLP_MAX)
		return false;
	end = strchr(host, '/');
	if (!end)
		return false;
	for (const char *c = end; *c; c++) {
		if (*c <= ' ' || *c >= 0x7f)
			return false;
	}
	colon = memrchr(host, ':', (size_t)(end - host));
	if (!colon ||
	    sl_parse_u64_max(sl_span_of(colon + 1, (size_t)(end - colon - 1)), 65535, &port) ||
	    !port)
		return false;
	v6 = host[0] == '[' && colon[-1] == ']';
	len = (size_t)(colon - host) - (v6 ? 2 : 0);
	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, host + v6, len);
	text[len] = 0;
	if (!sl_addr_parse(at, text) || (at->family == 6) != v6)
		return false;
	at->port_be = htons((uint16_t)port);
	*path = end;
	return true;
}

static bool set_otlp(struct conf_value *v)
{
	struct sl_addr at;
	const char *path;

	return sl_cfg_parse_otlp(v->text, &at, &path) && conf_store_text(v);
}

const struct conf_type conf_otlp = {set_otlp, NULL};
