/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server reflection can tell: an index over compiled descriptor sets (FileDescriptorSet, as
 * protoc --include_imports --descriptor_set_out writes it), and over the services that the gateway
 * answers itself.
 *
 *   set files --load--> files (their bytes as they are) <--- symbols, extensions (sorted)
 *
 * Built once before the workers start, then read by all of them. Answers are views into it, in the
 * form in which they go out. A set is checked as if it came from a stranger.
 */
#ifndef SL_FRONT_GRPC_DESCRIPTORS_H
#define SL_FRONT_GRPC_DESCRIPTORS_H

#include <stdbool.h>
#include "base/bytes.h"
#include "base/err.h"

struct sl_descriptors;

/*
 * NULL, and in err what was found and what is allowed, naming the set: "found descriptor_sets ..."
 */
struct sl_descriptors *sl_descriptors_load(const char *const *paths, uint32_t cnt,
					   struct sl_err *err);
/* The same of one set in memory, which is copied. */
struct sl_descriptors *sl_descriptors_parse(struct sl_span set, struct sl_err *err);
void sl_descriptors_free(struct sl_descriptors *d);

/* FileDescriptorProto of a file by its name, by a full name that it defines ("pkg.Service.Method",
 * "pkg.Message"), by an extension that it defines. False: there is none. */
bool sl_descriptors_file(const struct sl_descriptors *d, struct sl_span name,
			 struct sl_span *proto);
bool sl_descriptors_symbol(const struct sl_descriptors *d, struct sl_span name,
			   struct sl_span *proto);
bool sl_descriptors_extension(const struct sl_descriptors *d, struct sl_span type, int32_t number,
			      struct sl_span *proto);
/* ExtensionNumberResponse of a message type; false: no such type. */
bool sl_descriptors_extension_numbers(const struct sl_descriptors *d, struct sl_span type,
				      struct sl_span *response);
/* ListServiceResponse. */
struct sl_span sl_descriptors_services(const struct sl_descriptors *d);

#endif
