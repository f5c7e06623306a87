/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the descriptor index: set.c reads sets into it, descriptors.c does the rest.
 */
#ifndef SL_FRONT_GRPC_SET_H
#define SL_FRONT_GRPC_SET_H

#include "front/grpc/descriptors.h"
#include "front/grpc/pb.h"

/* Field numbers of descriptor.proto that both need. */
enum { FILE_NAME = 1, FILE_PACKAGE, FILE_IMPORT, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXT };
enum { ANY_NAME = 1 };

enum { SL_SET_WHY_LEN = 300 };

enum sl_symbol_kind { KIND_OTHER, KIND_MESSAGE, KIND_SERVICE };

struct sl_symbol {
	struct sl_span name;
	struct sl_span proto;   /* of the file that defines it */
	uint8_t kind;           /* enum sl_symbol_kind */
	struct sl_span numbers; /* KIND_MESSAGE: ExtensionNumberResponse */
};

struct sl_extension {
	struct sl_span type; /* without the leading dot */
	struct sl_span proto;
	int32_t number;
};

struct sl_proto_file {
	struct sl_span name, proto;
};

struct sl_array {
	void *at;
	size_t cnt, cap;
};

struct sl_descriptors {
	struct sl_array files, symbols, extensions; /* in order, once all are there */
	struct sl_array memory;                     /* void *: what is to be freed */
	struct sl_span services;
	char why[SL_SET_WHY_LEN]; /* the first thing that was wrong */
};

static inline struct sl_proto_file *sl_set_files(const struct sl_descriptors *d)
{
	return d->files.at;
}

static inline struct sl_symbol *sl_set_symbols(const struct sl_descriptors *d)
{
	return d->symbols.at;
}

static inline struct sl_extension *sl_set_extensions(const struct sl_descriptors *d)
{
	return d->extensions.at;
}

/* Keeps the first of several reasons. Returns false. */
bool sl_set_fail(struct sl_descriptors *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* For "%.*s": a name is as long as its author likes. */
#define SL_SET_SHOW(span) (int)((span).len < 100 ? (span).len : 100), (span).ptr

/* Memory that lives as long as the index; NULL: there is none. */
uint8_t *sl_set_keep(struct sl_descriptors *d, size_t len);

/* Calls fn for each field of a message; false: malformed, or fn said so. */
typedef bool sl_set_field_fn(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f);
bool sl_set_each(struct sl_descriptors *d, struct sl_span in, sl_set_field_fn *fn, void *arg);
/* The first field `no` that holds bytes; empty: there is none. */
struct sl_span sl_set_find(struct sl_span in, uint32_t no);

/* A FileDescriptorSet. Its bytes stay where they are as long as the index. */
bool sl_set_add(struct sl_descriptors *d, struct sl_span set);
/* One of its fields. A file that two sets hold, as imports are, counts once. */
bool sl_set_add_file(struct sl_descriptors *d, void *unused, const struct sl_pb_field *f);

#endif
