/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=8192 */
/*
 * Descriptor sets from anywhere: an index or one line of why not; what the index says lies within
 * the set, and each name that the set holds can be asked for.
 */
#include <stdlib.h>
#include "base/err.h"
#include "front/grpc/descriptors.h"
#include "front/grpc/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t sum;

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void touch(struct sl_span s)
{
	for (size_t i = 0; i < s.len; i++)
		sum = (uint8_t)(sum + s.ptr[i]);
}

static void ask(const struct sl_descriptors *d, struct sl_span name)
{
	struct sl_span out;

	if (sl_descriptors_file(d, name, &out))
		touch(out);
	if (sl_descriptors_symbol(d, name, &out))
		touch(out);
	if (sl_descriptors_extension(d, name, 1, &out))
		touch(out);
	if (sl_descriptors_extension_numbers(d, name, &out))
		touch(out);
}

/* Whatever could be a name in it, at any depth. */
static void ask_all(const struct sl_descriptors *d, struct sl_span in, int depth)
{
	struct sl_pb_field f;

	while (sl_pb_next(&in, &f)) {
		if (f.type != SL_PB_BYTES)
			continue;
		ask(d, f.bytes);
		if (depth < 6)
			ask_all(d, f.bytes, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_err err = SL_ERR(400);
	uint8_t *exact = malloc(size ? size : 1);
	struct sl_span set = sl_span_of(exact, size), file, services;
	struct sl_descriptors *d;
	struct sl_pb_field f, name;

	if (size)
		memcpy(exact, data, size);
	d = sl_descriptors_parse(set, &err);
	must(d || (err.text[0] && !strchr(err.text, '\n')));
	if (d) {
		services = sl_descriptors_services(d);
		touch(services);
		must(sl_descriptors_symbol(d, sl_span_str("grpc.health.v1.Health"), &file) ||
		     sl_descriptors_file(d, sl_span_str("grpc/health/v1/health.proto"), &file));
		while (sl_pb_next(&services, &f))
			must(f.no == 1 && sl_pb_next(&f.bytes, &name) &&
			     sl_descriptors_symbol(d, name.bytes, &file));
		must(!services.len);
		ask_all(d, set, 0);
	}
	sl_descriptors_free(d);
	free(exact);
	return 0;
}
