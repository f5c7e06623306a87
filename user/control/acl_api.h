/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_ACL_API_H
#define SL_CONTROL_ACL_API_H

#include <jansson.h>

#include "base/err.h"
#include "gateway/gateway.h"

enum { SL_ACL_CHANGES = 64 };

/* The changes of one request, applied only if all are valid. */
struct sl_acl_change {
	const char *interface;
	struct sl_acl_rule rules[SL_ACL_CHANGES];
	uint32_t cnt;
	struct sl_addr unban[SL_ACL_CHANGES];
	uint32_t unban_cnt;
};

/*
 * Adds KEY=VALUE: interface (not copied), allow, deny, remove or unban. Returns 0, or -EINVAL and
 * err.
 */
int sl_acl_take_arg(struct sl_acl_change *c, const char *key, const char *value,
		    struct sl_err *err);
/*
 * Returns {"interface": NAME, "prefixes": [{"prefix", "action", "by"}], "offenders": [{"source",
 * "left_ms"}]}, a new reference. NULL: no such interface, or no memory. Control thread.
 */
json_t *sl_acl_json(struct sl_gateway *g, const char *interface);

#endif
