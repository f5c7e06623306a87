/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/call.h"

enum { REQUEST_SERVICE = 1, RESPONSE_STATUS = 1 };
enum { SERVING = 1, NOT_SERVING, SERVICE_UNKNOWN }; /* HealthCheckResponse.ServingStatus */

/* Looks up routes "/pkg.Service/" and "/pkg.Service", then a pool. */
static enum sl_serving serving_status(const struct sl_front_env *env, struct sl_span name)
{
	char path[SL_CALL_MESSAGE_MAX + 2];
	enum sl_serving found;

	if (!name.len)
		return env->serving(env->serving_arg, SL_ASKED_ALL, name);
	path[0] = '/';
	memcpy(path + 1, name.ptr, name.len);
	path[1 + name.len] = '/';
	found = env->serving(env->serving_arg, SL_ASKED_ROUTE, sl_span_of(path, name.len + 2));
	if (found == SL_SERVING_UNKNOWN)
		found = env->serving(env->serving_arg, SL_ASKED_ROUTE,
				     sl_span_of(path, name.len + 1));
	return found == SL_SERVING_UNKNOWN ? env->serving(env->serving_arg, SL_ASKED_POOL, name)
					   : found;
}

static unsigned status_now(const struct h2_call *k)
{
	const struct sl_front_env *env = k->s->conn->front;
	struct sl_span in = sl_call_request(k), name = sl_span_of(NULL, 0);
	struct sl_pb_field f;

	/* The last field is used, as protobuf requires. */
	while (sl_pb_next(&in, &f)) {
		if (f.no == REQUEST_SERVICE && f.type == SL_PB_BYTES)
			name = f.bytes;
	}
	if (in.len)
		return SERVICE_UNKNOWN;
	switch (serving_status(env, name)) {
	case SL_SERVING_YES: return SERVING;
	case SL_SERVING_NO: return NOT_SERVING;
	default: return SERVICE_UNKNOWN;
	}
}

static void send_status(struct h2_call *k, unsigned status)
{
	uint8_t *p = sl_call_small(k);

	sl_call_part(k, sl_span_of(k->small, SL_GRPC_PREFIX));
	sl_call_small_part(k, sl_pb_put_number(p, RESPONSE_STATUS, status));
	sl_call_send(k);
}

void sl_health_check(struct h2_call *k)
{
	unsigned status = status_now(k);

	if (status == SERVICE_UNKNOWN)
		sl_call_finish(k, SL_GRPC_NOT_FOUND, "no pool or route of this name");
	else
		send_status(k, status);
}

void sl_health_watch(struct h2_call *k)
{
	unsigned status = status_now(k);

	if (status == k->told)
		return;
	k->told = (uint8_t)status;
	send_status(k, status);
}
