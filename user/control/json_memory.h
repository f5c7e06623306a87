/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_JSON_MEMORY_H
#define SL_CONTROL_JSON_MEMORY_H

#include <stddef.h>

/* This thread's JSON takes at most `limit` bytes, freed ones included. */
void sl_json_memory_begin(size_t limit);
/* Something is missing. */
void sl_json_memory_lack(void);
/* Ends that. Returns 0; -ENOMEM: members are missing; -E2BIG: beyond the limit. */
int sl_json_memory_end(void);

#endif
