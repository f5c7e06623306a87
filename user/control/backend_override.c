/* SPDX-License-Identifier: Apache-2.0 */
#include "control/backend_override.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "config/config.h"

bool sl_backend_override_split(const char *text, char pool[64], const char **backend)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : 0;

	if (!len || len >= 64)
		return false;
	memcpy(pool, text, len);
	pool[len] = 0;
	*backend = slash + 1;
	return true;
}

int sl_backend_override_take(struct sl_backend_override *o, const char *name, const char *value,
			     struct sl_err *err)
{
	bool automatic = strcmp(value, "auto") == 0;
	uint64_t n = 0;

	if (strcmp(name, "state") == 0) {
		o->drain = strcmp(value, "drain") == 0;
		if (o->drain || automatic || strcmp(value, "up") == 0)
			return 0;
		return sl_fail(err, -EINVAL, "found state = \"%.64s\"; allowed: up, drain", value);
	}
	if (strcmp(name, "weight") == 0) {
		if (!automatic &&
		    (sl_parse_u64_max(sl_span_cstr(value), SL_CFG_WEIGHT_MAX, &n) || !n))
			return sl_fail(err, -EINVAL,
				       "found weight = \"%.64s\"; allowed: 1 to %d, or auto", value,
				       SL_CFG_WEIGHT_MAX);
		o->weight = (uint32_t)n;
		return 0;
	}
	return sl_fail(err, -EINVAL, "found \"%.64s\"; allowed for a backend: state, weight", name);
}

json_t *sl_backend_override_json(const struct sl_backend_override *o)
{
	json_t *json = json_object();

	if (o->drain)
		json_object_set_new(json, "state", json_string("drain"));
	if (o->weight)
		json_object_set_new(json, "weight", json_integer(o->weight));
	return json;
}
