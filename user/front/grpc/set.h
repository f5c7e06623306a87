/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_FRONT_GRPC_SET_H
#define SL_FRONT_GRPC_SET_H

#include "front/grpc/descriptors.h"
#include "front/grpc/pb.h"

/* Field numbers of descriptor.proto. */
enum { FILE_NAME = 1, FILE_PACKAGE, FILE_IMPORT, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXT };
enum { ANY_NAME = 1 };

enum { SL_SET_WHY_LEN = 300 };

enum sl_symbol_kind { KIND_OTHER, KIND_MESSAGE, KIND_SERVICE };

struct sl_symbol {
	struct sl_span name;
	struct sl_span proto;
	uint8_t kind;
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
	struct sl_array files, symbols, extensions; /* sorted after loading */
	struct sl_array memory;                     /* void *: blocks to free */
	struct sl_span services;
	char why[SL_SET_WHY_LEN];
};

/* Return the arrays by type. */
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

/* Sets d->why, unless set. Returns false. */
bool sl_set_fail(struct sl_descriptors *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* "%.*s", cut at 100 bytes. */
#define SL_SET_SHOW(span) (int)((span).len < 100 ? (span).len : 100), (span).ptr

/* Returns memory of the index; NULL and d->why: none. */
uint8_t *sl_set_keep(struct sl_descriptors *d, size_t len);

/* A false result ends the walk. */
typedef bool sl_set_field_fn(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f);
/* Calls fn for each field of `in`. Returns false if fn did, or malformed. */
bool sl_set_each(struct sl_descriptors *d, struct sl_span in, sl_set_field_fn *fn, void *arg);
/* Returns the first bytes field `no`, or an empty span. */
struct sl_span sl_set_find(struct sl_span in, uint32_t no);

/* Add all files of a set, or one. The bytes must outlive the index. False: d->why. */
bool sl_set_add(struct sl_descriptors *d, struct sl_span set);
bool sl_set_add_file(struct sl_descriptors *d, void *unused, const struct sl_pb_field *f);

#endif
