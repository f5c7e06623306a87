/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of clients, as the admin endpoint takes and shows them. */
#ifndef SL_CONTROL_EDGE_H
#define SL_CONTROL_EDGE_H

#include <jansson.h>

#include "base/err.h"
#include "gateway/gateway.h"

enum { SL_EDGE_CHANGES = 64 };

/* What one request asks for; nothing is done before all of it is understood. */
struct sl_edge_change {
	const char *interface;
	struct sl_acl_rule rules[SL_EDGE_CHANGES];
	uint32_t cnt;
};

/* interface=NAME, allow=PREFIX, deny=PREFIX, forget=PREFIX. 0, or -EINVAL and one line in err. */
int sl_edge_take(struct sl_edge_change *c, const char *key, const char *value, struct sl_err *err);
/* {"interface": NAME, "prefixes": [{"prefix", "action", "by"}]}; NULL: no such interface. */
json_t *sl_edge_json(struct sl_gateway *g, const char *interface);

#endif
