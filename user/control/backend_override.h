/* SPDX-License-Identifier: Apache-2.0 */
/* State and weight set by `sluice set POOL/BACKEND`. */
#ifndef SL_CONTROL_BACKEND_OVERRIDE_H
#define SL_CONTROL_BACKEND_OVERRIDE_H

#include <jansson.h>

#include "base/err.h"
#include "gateway/gateway.h"

/* Splits POOL/BACKEND; *backend points into text. Returns false without '/' or a valid pool. */
bool sl_backend_override_split(const char *text, char pool[64], const char **backend);
/* Sets NAME=VALUE in *o. Returns 0, or -EINVAL and err. */
int sl_backend_override_take(struct sl_backend_override *o, const char *name, const char *value,
			     struct sl_err *err);
/* Returns the overrides, a new reference. NULL: no memory. */
json_t *sl_backend_override_json(const struct sl_backend_override *o);

#endif
