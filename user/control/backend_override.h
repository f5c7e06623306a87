/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides of a backend by `sluice set POOL/BACKEND`: state and weight. */
#ifndef SL_CONTROL_BACKEND_OVERRIDE_H
#define SL_CONTROL_BACKEND_OVERRIDE_H

#include <jansson.h>

#include "base/err.h"
#include "gateway/gateway.h"

/* Splits POOL/BACKEND. Returns false if the text has no '/'. */
bool sl_backend_override_split(const char *text, char pool[64], const char **backend);
/* Takes NAME=VALUE. Returns 0, or -EINVAL and a line in err. */
int sl_backend_override_take(struct sl_backend_override *o, const char *name, const char *value,
			     struct sl_err *err);
/* Returns the overrides in force. NULL: out of memory. */
json_t *sl_backend_override_json(const struct sl_backend_override *o);

#endif
