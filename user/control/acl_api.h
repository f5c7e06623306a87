/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_ACL_API_H
#define SL_CONTROL_ACL_API_H

#include <jansson.h>

#include "base/err.h"
#include "gateway/gateway.h"

enum { SL_ACL_CHANGES = 64 };

/* The changes of one request; applied only if all are valid. */
struct sl_acl_change {
	const char *interface;
	struct sl_acl_rule rules[SL_ACL_CHANGES];
	uint32_t cnt;
};

/* Adds KEY=VALUE: interface, allow, deny or forget. Returns 0, or -EINVAL and one line in err. */
int sl_acl_take_arg(struct sl_acl_change *c, const char *key, const char *value,
		    struct sl_err *err);
/*
 * Returns {"interface": NAME, "prefixes": [{"prefix", "action", "by"}]}. NULL: no such interface.
 */
json_t *sl_acl_json(struct sl_gateway *g, const char *interface);

#endif
