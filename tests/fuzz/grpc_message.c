/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's message reader, whole and in pieces: the same messages; and the decoders of header values
 * on exact copies of the input, against their encoders.
 */
#include <stdlib.h>
#include "front/grpc/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t bytes, hash;
	uint32_t begun, finished;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static struct sum read_all(const uint8_t *p, size_t len, size_t step)
{
	struct sl_grpc_reader r = {0};
	struct sum s = {0};

	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		uint8_t *exact = malloc(n);
		struct sl_span in = sl_span_of(memcpy(exact, p + at, n), n), d;
		enum sl_grpc_event e;

		while ((e = sl_grpc_read(&r, &in, &d)) != SL_GRPC_NEED) {
			s.begun += e == SL_GRPC_BEGIN;
			s.finished += e == SL_GRPC_FINISH;
			for (size_t i = 0; e == SL_GRPC_DATA && i < d.len; i++, s.bytes++)
				s.hash = s.hash * 31 + d.ptr[i];
		}
		must(!in.len && s.begun == r.messages);
		free(exact);
	}
	return s;
}

static void decoders(struct sl_span in)
{
	uint8_t *raw = malloc(in.len + 1);
	char *text = malloc(in.len * 3 + 3);
	size_t n = sl_base64_decode(raw, in);
	uint64_t ns = 0;

	if (n != SIZE_MAX)
		must(n <= in.len && sl_base64_encode(text, sl_span_of(raw, n)) <= in.len);
	n = sl_base64_encode(text, in);
	must(n == (in.len * 4 + 2) / 3);
	must(sl_base64_decode(raw, sl_span_of(text, n)) == in.len && !memcmp(raw, in.ptr, in.len));
	must(sl_grpc_percent_encode(text, in.len * 3, in) >= in.len);
	must(!sl_grpc_timeout(in, &ns) || ns);
	sl_grpc_content_type(in);
	sl_grpc_is_reserved(in);
	free(text);
	free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sum a, b;
	uint8_t *exact;

	if (!size)
		return 0;
	a = read_all(data, size, size);
	b = read_all(data, size, 1 + data[0] % 13);
	must(!memcmp(&a, &b, sizeof(a)));
	exact = malloc(size);
	decoders(sl_span_of(memcpy(exact, data, size), size));
	free(exact);
	return 0;
}
