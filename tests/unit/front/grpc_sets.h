/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor sets for tests, put together by hand. */
#ifndef GRPC_SETS_H
#define GRPC_SETS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "front/grpc/descriptors.h"
#include "front/grpc/pb.h"

enum { PB_MAX = 1 << 16 };

/* A message that is being written; put_* return it, so that they nest. */
struct pb {
	uint8_t p[PB_MAX];
	size_t len;
};

static inline struct sl_span pb_span(const struct pb *b)
{
	return sl_span_of(b->p, b->len);
}

static inline void pb_bytes(struct pb *b, uint32_t no, struct sl_span bytes)
{
	uint8_t *p = sl_pb_put_head(b->p + b->len, no, bytes.len);

	ck_assert_uint_lt(b->len + bytes.len + SL_PB_HEAD_MAX, PB_MAX);
	if (bytes.len)
		memcpy(p, bytes.ptr, bytes.len);
	b->len = (size_t)(p - b->p) + bytes.len;
}

static inline void pb_text(struct pb *b, uint32_t no, const char *text)
{
	pb_bytes(b, no, sl_span_cstr(text));
}

static inline void pb_number(struct pb *b, uint32_t no, uint64_t v)
{
	b->len = (size_t)(sl_pb_put_number(b->p + b->len, no, v) - b->p);
}

/* Field `no` of `b`: a definition with nothing but a name. */
static inline void pb_named(struct pb *b, uint32_t no, const char *name)
{
	static struct pb def;

	def.len = 0;
	pb_text(&def, 1, name);
	pb_bytes(b, no, pb_span(&def));
}

/* Field `no` of `b`: an extension. */
static inline void pb_extension(struct pb *b, uint32_t no, const char *name, const char *type,
				uint64_t number)
{
	static struct pb def;

	def.len = 0;
	pb_text(&def, 1, name);
	pb_text(&def, 2, type);
	pb_number(&def, 3, number);
	pb_bytes(b, no, pb_span(&def));
}

/*
 * a.proto: package p; message M { field f, oneof o, enum E { V }, message In, extension of M };
 * service S { rpc Do }; extensions of M: 7 and 300; and b.proto, which imports it, without package.
 */
static inline void pb_sample(struct pb *set)
{
	static struct pb file, inner, deep;

	set->len = file.len = inner.len = deep.len = 0;
	pb_text(&file, 1, "a.proto");
	pb_text(&inner, 1, "M");
	pb_named(&inner, 2, "f");
	pb_named(&inner, 8, "o");
	pb_text(&deep, 1, "E");
	pb_named(&deep, 2, "V");
	pb_bytes(&inner, 4, pb_span(&deep));
	pb_named(&inner, 3, "In");
	pb_extension(&inner, 6, "x7", ".p.M", 7);
	pb_bytes(&file, 4, pb_span(&inner));
	inner.len = 0;
	pb_text(&inner, 1, "S");
	pb_named(&inner, 2, "Do");
	pb_bytes(&file, 6, pb_span(&inner));
	pb_extension(&file, 7, "x300", ".p.M", 300);
	pb_text(&file, 2, "p"); /* last: the order is free */
	pb_bytes(set, 1, pb_span(&file));
	file.len = inner.len = 0;
	pb_text(&file, 1, "b.proto");
	pb_text(&file, 3, "a.proto");
	pb_named(&file, 4, "Bare");
	pb_extension(&file, 7, "x8", ".p.M", 8);
	pb_extension(&file, 7, "y1", ".p.M.In", 1);
	pb_extension(&file, 7, "z1", ".nowhere.N", 1);
	pb_bytes(set, 1, pb_span(&file));
}

#endif
