/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/set.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	NESTING_MAX = 64,
	NAME_MAX_LEN = 4096,
	EXTENSION_MAX = (1 << 29) - 1,
};

enum { SET_FILE = 1 };
enum { MSG_FIELD = 2, MSG_NESTED, MSG_ENUM, MSG_EXT = 6, MSG_ONEOF = 8 };
enum { ENUM_VALUE = 2, SERVICE_METHOD = 2, EXT_EXTENDEE = 2, EXT_NUMBER = 3 };

bool sl_set_fail(struct sl_descriptors *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!d->why[0])
		vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
	return false;
}

static void *array_append(struct sl_descriptors *d, struct sl_array *a, size_t size)
{
	if (a->cnt == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		void *more = realloc(a->at, cap * size);

		if (!more) {
			sl_set_fail(d, "no memory");
			return NULL;
		}
		a->at = more;
		a->cap = cap;
	}
	return (char *)a->at + size * a->cnt++;
}

uint8_t *sl_set_keep(struct sl_descriptors *d, size_t len)
{
	void **slot = array_append(d, &d->memory, sizeof(void *));

	if (!slot)
		return NULL;
	*slot = malloc(len ? len : 1);
	if (!*slot)
		sl_set_fail(d, "no memory");
	return *slot;
}

static bool name_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static bool name_ok(struct sl_span s, bool dots)
{
	bool part = false;

	if (s.len > NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (dots && part && s.ptr[i] == '.') {
			part = false;
			continue;
		}
		if (!name_char(s.ptr[i]))
			return false;
		part = true;
	}
	return part;
}

static bool file_name_ok(struct sl_span s)
{
	if (!s.len || s.len > NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] <= ' ' || s.ptr[i] >= 0x7f)
			return false;
	}
	return true;
}

bool sl_set_each(struct sl_descriptors *d, struct sl_span in, sl_set_field_fn *fn, void *arg)
{
	size_t len = in.len;
	struct sl_pb_field f = {0};

	while (sl_pb_next(&in, &f)) {
		if (!fn(d, arg, &f))
			return false;
	}
	return !in.len ||
	       sl_set_fail(d, "a message of %zu bytes is malformed at byte %zu", len, len - in.len);
}

struct sl_span sl_set_find(struct sl_span in, uint32_t no)
{
	struct sl_pb_field f;

	while (sl_pb_next(&in, &f)) {
		if (f.no == no && f.type == SL_PB_BYTES)
			return f.bytes;
	}
	return sl_span_of(NULL, 0);
}

static struct sl_span proto_now(const struct sl_descriptors *d)
{
	return sl_set_files(d)[d->files.cnt - 1].proto;
}

static struct sl_span define_symbol(struct sl_descriptors *d, struct sl_span scope,
				    struct sl_span def, enum sl_symbol_kind kind)
{
	struct sl_span name = sl_set_find(def, ANY_NAME), none = {0}, full;
	struct sl_symbol *s;
	uint8_t *p;

	if (!name_ok(name, false) || scope.len + name.len > NAME_MAX_LEN) {
		sl_set_fail(d, "invalid name of a definition in \"%.*s\"", SL_SET_SHOW(scope));
		return none;
	}
	full.len = scope.len + (scope.len > 0) + name.len;
	full.ptr = p = sl_set_keep(d, full.len);
	s = p ? array_append(d, &d->symbols, sizeof(*s)) : NULL;
	if (!s)
		return none;
	if (scope.len) {
		memcpy(p, scope.ptr, scope.len);
		p[scope.len] = '.';
	}
	memcpy(p + full.len - name.len, name.ptr, name.len);
	*s = (struct sl_symbol){.name = full, .proto = proto_now(d), .kind = (uint8_t)kind};
	return full;
}

struct scope {
	struct sl_span name;
	struct sl_span self;
	unsigned depth;
};

static bool add_extension(struct sl_descriptors *d, const struct scope *in, struct sl_span def)
{
	struct sl_span rest = def, type = sl_set_find(def, EXT_EXTENDEE);
	struct sl_extension *e;
	struct sl_pb_field f;
	int32_t number = 0;

	if (!define_symbol(d, in->name, def, KIND_OTHER).len)
		return false;
	while (sl_pb_next(&rest, &f)) {
		if (f.no == EXT_NUMBER && f.type == SL_PB_VARINT && f.number <= EXTENSION_MAX)
			number = (int32_t)f.number;
	}
	if (rest.len || !type.len || type.ptr[0] != '.' || !name_ok(sl_span_skip(type, 1), true) ||
	    number <= 0)
		return sl_set_fail(d, "an extension without a type or number");
	e = array_append(d, &d->extensions, sizeof(*e));
	if (!e)
		return false;
	*e = (struct sl_extension){sl_span_skip(type, 1), proto_now(d), number};
	return true;
}

static bool enum_field(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f)
{
	const struct scope *in = arg;

	return f->no != ENUM_VALUE || f->type != SL_PB_BYTES ||
	       define_symbol(d, in->name, f->bytes, KIND_OTHER).len;
}

static bool add_enum(struct sl_descriptors *d, struct scope *in, struct sl_span def)
{
	return define_symbol(d, in->name, def, KIND_OTHER).len &&
	       sl_set_each(d, def, enum_field, in);
}

static bool service_field(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f)
{
	const struct scope *in = arg;

	return f->no != SERVICE_METHOD || f->type != SL_PB_BYTES ||
	       define_symbol(d, in->self, f->bytes, KIND_OTHER).len;
}

static bool add_message(struct sl_descriptors *d, const struct scope *in, struct sl_span def);

static bool message_field(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f)
{
	struct scope *in = arg;

	if (f->type != SL_PB_BYTES)
		return true;
	switch (f->no) {
	case MSG_FIELD:
	case MSG_ONEOF: return define_symbol(d, in->name, f->bytes, KIND_OTHER).len;
	case MSG_NESTED: return add_message(d, in, f->bytes);
	case MSG_ENUM: return add_enum(d, in, f->bytes);
	case MSG_EXT: return add_extension(d, in, f->bytes);
	default: return true;
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by NESTING_MAX */
static bool add_message(struct sl_descriptors *d, const struct scope *in, struct sl_span def)
{
	struct scope inner = {.depth = in->depth + 1};

	if (inner.depth > NESTING_MAX)
		return sl_set_fail(d, "messages nested more than %d deep", NESTING_MAX);
	inner.name = define_symbol(d, in->name, def, KIND_MESSAGE);
	return inner.name.len && sl_set_each(d, def, message_field, &inner);
}

static bool file_field(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f)
{
	struct scope *in = arg;

	if (f->type != SL_PB_BYTES)
		return true;
	switch (f->no) {
	case FILE_IMPORT: return file_name_ok(f->bytes) || sl_set_fail(d, "import without a name");
	case FILE_MESSAGE: return add_message(d, in, f->bytes);
	case FILE_ENUM: return add_enum(d, in, f->bytes);
	case FILE_SERVICE:
		in->self = define_symbol(d, in->name, f->bytes, KIND_SERVICE);
		return in->self.len && sl_set_each(d, f->bytes, service_field, in);
	case FILE_EXT: return add_extension(d, in, f->bytes);
	default: return true;
	}
}

bool sl_set_add_file(struct sl_descriptors *d, void *unused, const struct sl_pb_field *f)
{
	struct scope in = {.name = sl_set_find(f->bytes, FILE_PACKAGE)};
	struct sl_proto_file *file;

	(void)unused;
	if (f->no != SET_FILE || f->type != SL_PB_BYTES)
		return sl_set_fail(d, "field %u where a file is expected", f->no);
	if (!file_name_ok(sl_set_find(f->bytes, FILE_NAME)))
		return sl_set_fail(d, "a file without a name");
	if (in.name.len && !name_ok(in.name, true))
		return sl_set_fail(d, "invalid package name");
	for (size_t i = 0; i < d->files.cnt; i++) {
		if (sl_span_eq(sl_set_files(d)[i].name, sl_set_find(f->bytes, FILE_NAME)))
			return true;
	}
	file = array_append(d, &d->files, sizeof(*file));
	if (!file)
		return false;
	*file = (struct sl_proto_file){sl_set_find(f->bytes, FILE_NAME), f->bytes};
	return sl_set_each(d, f->bytes, file_field, &in);
}

bool sl_set_add(struct sl_descriptors *d, struct sl_span set)
{
	if (!set.len)
		return sl_set_fail(d, "it is empty");
	return sl_set_each(d, set, sl_set_add_file, NULL);
}
