/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index for server reflection over FileDescriptorSets (protoc --include_imports
 * --descriptor_set_out) and the gateway's services.
 *
 *   set files --load--> files (their bytes as they are) <--- symbols, extensions (sorted)
 *
 * Built once, then shared read-only. Results are views into the index, in wire format. Sets are
 * untrusted input.
 */
#ifndef SL_FRONT_GRPC_DESCRIPTORS_H
#define SL_FRONT_GRPC_DESCRIPTORS_H

#include <stdbool.h>
#include "base/bytes.h"
#include "base/err.h"

struct sl_descriptors;

/* Loads files. Returns NULL and "found descriptor_sets ..." in err on error. */
struct sl_descriptors *sl_descriptors_load(const char *const *paths, uint32_t cnt,
					   struct sl_err *err);
/* Loads one set from memory, which is copied. */
struct sl_descriptors *sl_descriptors_parse(struct sl_span set, struct sl_err *err);
void sl_descriptors_free(struct sl_descriptors *d);

/*
 * Gets a FileDescriptorProto by file name, full name ("pkg.Service.Method"), or extension. Returns
 * false if not found.
 */
bool sl_descriptors_file(const struct sl_descriptors *d, struct sl_span name,
			 struct sl_span *proto);
bool sl_descriptors_symbol(const struct sl_descriptors *d, struct sl_span name,
			   struct sl_span *proto);
bool sl_descriptors_extension(const struct sl_descriptors *d, struct sl_span type, int32_t number,
			      struct sl_span *proto);
/* Gets a type's ExtensionNumberResponse. Returns false if there is no such type. */
bool sl_descriptors_extension_numbers(const struct sl_descriptors *d, struct sl_span type,
				      struct sl_span *response);
/* Returns the ListServiceResponse. */
struct sl_span sl_descriptors_services(const struct sl_descriptors *d);

#endif
