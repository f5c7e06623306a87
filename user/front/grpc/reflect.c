/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.reflection.v1 and v1alpha, which differ only in name. */
#include "front/grpc/call.h"
#include "front/grpc/descriptors.h"

enum { HOST = 1, BY_FILENAME = 3, BY_SYMBOL, BY_EXTENSION, EXTENSION_NUMBERS, LIST_SERVICES };
enum { EXTENSION_TYPE = 1, EXTENSION_NUMBER };
enum { VALID_HOST = 1, ORIGINAL_REQUEST, FILE_RESPONSE = 4, NUMBERS, SERVICES, ERROR };
enum { FILE_PROTO = 1, ERROR_CODE = 1, ERROR_MESSAGE };

struct reflect_query {
	struct sl_span host, text;
	uint32_t kind;
};

struct reflect_result {
	uint32_t no;
	struct sl_span body;
	enum sl_grpc_status error; /* for ERROR, with message `body` */
};

/* The last of several oneof fields is used. */
static bool read_ask(struct sl_span in, struct reflect_query *a)
{
	struct sl_pb_field f;

	*a = (struct reflect_query){0};
	while (sl_pb_next(&in, &f)) {
		if (f.type != SL_PB_BYTES)
			continue;
		if (f.no == HOST) {
			a->host = f.bytes;
		} else if (f.no >= BY_FILENAME && f.no <= LIST_SERVICES) {
			a->kind = f.no;
			a->text = f.bytes;
		}
	}
	return !in.len;
}

static bool read_extension(struct sl_span in, struct sl_span *type, int32_t *number)
{
	struct sl_pb_field f;

	*type = sl_span_of(NULL, 0);
	*number = 0;
	while (sl_pb_next(&in, &f)) {
		if (f.no == EXTENSION_TYPE && f.type == SL_PB_BYTES)
			*type = f.bytes;
		else if (f.no == EXTENSION_NUMBER && f.type == SL_PB_VARINT)
			*number = (int32_t)f.number;
	}
	return !in.len;
}

static struct reflect_result look_up(const struct sl_descriptors *d, const struct reflect_query *a)
{
	struct reflect_result file = {.no = FILE_RESPONSE}, numbers = {.no = NUMBERS};
	struct sl_span type;
	int32_t number;
	bool ok = false;

	switch (a->kind) {
	case BY_FILENAME: ok = sl_descriptors_file(d, a->text, &file.body); break;
	case BY_SYMBOL: ok = sl_descriptors_symbol(d, a->text, &file.body); break;
	case BY_EXTENSION:
		ok = read_extension(a->text, &type, &number) &&
		     sl_descriptors_extension(d, type, number, &file.body);
		break;
	case EXTENSION_NUMBERS:
		if (sl_descriptors_extension_numbers(d, a->text, &numbers.body))
			return numbers;
		break;
	case LIST_SERVICES:
		return (struct reflect_result){.no = SERVICES, .body = sl_descriptors_services(d)};
	default:
		return (struct reflect_result){ERROR, sl_span_str("unknown kind of request"),
					       SL_GRPC_INVALID_ARGUMENT};
	}
	if (ok)
		return file;
	return (struct reflect_result){ERROR, sl_span_str("not found in the descriptor sets"),
				       SL_GRPC_NOT_FOUND};
}

void sl_reflect(struct h2_call *k)
{
	struct sl_span request = sl_call_request(k);
	uint8_t inner[2 * SL_PB_HEAD_MAX], *p = inner;
	struct reflect_result f;
	struct reflect_query a;
	size_t n;

	if (!read_ask(request, &a)) {
		sl_call_finish(k, SL_GRPC_INVALID_ARGUMENT, "malformed ServerReflectionRequest");
		return;
	}
	f = look_up(k->s->conn->front->descriptors, &a);
	if (f.no == FILE_RESPONSE)
		p = sl_pb_put_head(p, FILE_PROTO, f.body.len);
	if (f.no == ERROR) {
		p = sl_pb_put_number(p, ERROR_CODE, f.error);
		p = sl_pb_put_head(p, ERROR_MESSAGE, f.body.len);
	}
	n = (size_t)(p - inner);
	sl_call_part(k, sl_span_of(k->small, SL_GRPC_PREFIX));
	if (a.host.len) {
		sl_call_small_part(k, sl_pb_put_head(sl_call_small(k), VALID_HOST, a.host.len));
		sl_call_part(k, a.host);
	}
	p = sl_pb_put_head(sl_call_small(k), ORIGINAL_REQUEST, request.len);
	sl_call_small_part(k, p);
	sl_call_part(k, request);
	p = sl_pb_put_head(sl_call_small(k), f.no, n + f.body.len);
	memcpy(p, inner, n);
	sl_call_small_part(k, p + n);
	sl_call_part(k, f.body);
	sl_call_send(k);
}
