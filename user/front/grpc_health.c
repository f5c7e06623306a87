/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.health.v1.Health/Check, answered by the gateway. Watch is UNIMPLEMENTED, which its clients
 * take as "assume that it serves".
 */
#include "front/h2_conn.h"

enum { TAG_SERVICE = 0x0a, TAG_STATUS = 0x08, TEXT_OVER = UINT8_MAX };

static const struct sl_span service = SL_SPAN_LIT("/grpc.health.v1.Health/");

bool sl_h2_health_path(const struct h2_conn *c, struct sl_span path)
{
	return c->front->serving && sl_span_starts(path, service) &&
	       sl_span_eq(sl_span_skip(path, service.len), sl_span_str("Check"));
}

size_t sl_h2_health_body(struct h2_stream *s, struct sl_span bytes)
{
	if (s->text_len == TEXT_OVER || bytes.len > sizeof(s->text) - s->text_len) {
		s->text_len = TEXT_OVER;
	} else if (bytes.len) {
		memcpy(s->text + s->text_len, bytes.ptr, bytes.len);
		s->text_len = (uint8_t)(s->text_len + bytes.len);
	}
	return bytes.len;
}

/* HealthCheckRequest { string service = 1; }, of one field that is shorter than 128 bytes. */
static bool read_name(const struct h2_stream *s, struct sl_span *name)
{
	struct sl_span in = sl_span_of(s->text, s->text_len);

	*name = sl_span_of(NULL, 0);
	if (!in.len)
		return true;
	if (s->text_len == TEXT_OVER || in.len < 2 || in.ptr[0] != TAG_SERVICE ||
	    in.ptr[1] != in.len - 2)
		return false;
	*name = sl_span_skip(in, 2);
	return true;
}

void sl_h2_health_end(struct h2_stream *s)
{
	const struct sl_front_env *env = s->conn->front;
	enum sl_serving state = SL_SERVING_UNKNOWN;
	struct sl_span name;

	if (read_name(s, &name))
		state = env->serving(env->serving_arg, name);
	if (state == SL_SERVING_UNKNOWN) {
		sl_h2_answer(s, 404, SL_GRPC_NOT_FOUND, "no pool or route of this name");
		return;
	}
	s->text[0] = TAG_STATUS;
	s->text[1] = (char)state; /* SERVING is 1, NOT_SERVING 2 */
	sl_h2_answer_message(s, 2);
}
