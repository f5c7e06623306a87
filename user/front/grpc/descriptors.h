/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index for server reflection of FileDescriptorSets (protoc --include_imports --descriptor_set_out)
 * and own services.
 *
 * Read-only once built. Results are views into the index, in wire format. Sets are untrusted input.
 */
#ifndef SL_FRONT_GRPC_DESCRIPTORS_H
#define SL_FRONT_GRPC_DESCRIPTORS_H

#include <stdbool.h>
#include "base/bytes.h"
#include "base/err.h"

struct sl_descriptors;

/* Reads the files. Returns NULL and a line in err on error. */
struct sl_descriptors *sl_descriptors_load(const char *const *paths, uint32_t cnt,
					   struct sl_err *err);
/* Same from memory; copies the set. */
struct sl_descriptors *sl_descriptors_parse(struct sl_span set, struct sl_err *err);
/* Frees d, which may be NULL. */
void sl_descriptors_free(struct sl_descriptors *d);

/*
 * Get a FileDescriptorProto by file name, full name ("pkg.Service.Method"), or extension. Return
 * false if not found.
 */
bool sl_descriptors_file(const struct sl_descriptors *d, struct sl_span name,
			 struct sl_span *proto);
bool sl_descriptors_symbol(const struct sl_descriptors *d, struct sl_span name,
			   struct sl_span *proto);
bool sl_descriptors_extension(const struct sl_descriptors *d, struct sl_span type, int32_t number,
			      struct sl_span *proto);
/* Gets a type's ExtensionNumberResponse. Returns false for an unknown type. */
bool sl_descriptors_extension_numbers(const struct sl_descriptors *d, struct sl_span type,
				      struct sl_span *response);
/* Returns the ListServiceResponse. */
struct sl_span sl_descriptors_services(const struct sl_descriptors *d);

#endif
