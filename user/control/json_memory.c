/* SPDX-License-Identifier: Apache-2.0 */
#include "control/json_memory.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static _Thread_local size_t json_left = SIZE_MAX;
static _Thread_local int json_error;

static void *take_memory(size_t len)
{
	void *p = len <= json_left ? malloc(len) : NULL;

	if (p && json_left != SIZE_MAX)
		json_left -= len;
	else if (!p && !json_error)
		json_error = len <= json_left ? -ENOMEM : -E2BIG;
	return p;
}

static void watch_memory(void)
{
	json_set_alloc_funcs(take_memory, free);
}

void sl_json_memory_begin(size_t limit)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_memory);
	json_left = limit;
	json_error = 0;
}

void sl_json_memory_lack(void)
{
	json_error = json_error ? json_error : -ENOMEM;
}

int sl_json_memory_end(void)
{
	json_left = SIZE_MAX;
	return json_error;
}
