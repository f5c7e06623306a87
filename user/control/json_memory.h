/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of jansson, whose callers here do not check each member. */
#ifndef SL_CONTROL_JSON_MEMORY_H
#define SL_CONTROL_JSON_MEMORY_H

#include <stddef.h>

/* From now on this thread's JSON takes at most `limit` bytes, freed ones included. */
void sl_json_memory_begin(size_t limit);
/* Something of the JSON is missing. */
void sl_json_memory_lack(void);
/* Ends that. Returns 0; -ENOMEM: members are missing; -E2BIG: beyond the limit. */
int sl_json_memory_end(void);

#endif
