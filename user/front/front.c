/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

#include "base/mempool.h"
#include "config/defaults.h"

void sl_front_limits_default(struct sl_front_limits *l)
{
	*l = (struct sl_front_limits){
		.max_head = SL_DEFAULT_MAX_HEAD_KIB << 10,
		.max_target = SL_DEFAULT_MAX_TARGET_KIB << 10,
		.max_headers = SL_DEFAULT_MAX_HEADERS,
		.max_body = SL_DEFAULT_MAX_BODY_MIB << 20,
		.max_discard = SL_DEFAULT_MAX_BODY_MIB << 20,
		.max_pipeline = SL_DEFAULT_MAX_PIPELINE,
		.max_streams = SL_DEFAULT_MAX_STREAMS,
		.max_resets_per_s = 100,
		.max_message = SL_DEFAULT_MAX_MESSAGE_MIB << 20,
		.address_connections = 1,
		.address_streams = 1,
	};
}

static void note_head(const struct sl_front_env *env, const uint8_t *buf, void *conn)
{
	if (env->head_conns)
		env->head_conns[sl_mempool_index(env->heads, buf)] = conn;
}

uint8_t *sl_front_head_get(const struct sl_front_env *env, void *conn)
{
	uint8_t *buf = env->heads ? sl_mempool_get(env->heads) : NULL;

	if (buf)
		note_head(env, buf, conn);
	return buf;
}

void sl_front_head_put(const struct sl_front_env *env, uint8_t *buf)
{
	note_head(env, buf, NULL);
	sl_mempool_put(env->heads, buf);
}
