/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "front/grpc/set.h"

enum { SET_MAX = 64 << 20 };

static const uint8_t own_set[] = {
#include "grpc_own.pb.inc"
};

static int compare_spans(struct sl_span a, struct sl_span b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int c = len ? memcmp(a.ptr, b.ptr, len) : 0;

	return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b)
{
	return compare_spans(((const struct sl_symbol *)a)->name,
			     ((const struct sl_symbol *)b)->name);
}

static int by_type(const void *a, const void *b)
{
	const struct sl_extension *x = a, *y = b;
	int c = compare_spans(x->type, y->type);

	return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int file_by_name(const void *a, const void *b)
{
	return compare_spans(((const struct sl_proto_file *)a)->name,
			     ((const struct sl_proto_file *)b)->name);
}

static void sort_array(struct sl_array *a, size_t size, int (*compare)(const void *, const void *))
{
	if (a->cnt)
		qsort(a->at, a->cnt, size, compare);
}

static const void *search_array(const struct sl_array *a, const void *key, size_t size,
				int (*compare)(const void *, const void *))
{
	return a->cnt ? bsearch(key, a->at, a->cnt, size, compare) : NULL;
}

static const struct sl_proto_file *find_file(const struct sl_descriptors *d, struct sl_span name)
{
	return search_array(&d->files, &(struct sl_proto_file){.name = name},
			    sizeof(struct sl_proto_file), file_by_name);
}

static const struct sl_symbol *find_symbol(const struct sl_descriptors *d, struct sl_span name)
{
	return search_array(&d->symbols, &(struct sl_symbol){.name = name},
			    sizeof(struct sl_symbol), by_name);
}

static bool import_field(struct sl_descriptors *d, void *arg, const struct sl_pb_field *f)
{
	const struct sl_span *importer = arg;

	if (f->no != FILE_IMPORT || f->type != SL_PB_BYTES || find_file(d, f->bytes))
		return true;
	return sl_set_fail(d, "%.*s imports %.*s, which is in no set", SL_SET_SHOW(*importer),
			   SL_SET_SHOW(f->bytes));
}

static bool has_symbol(const struct sl_descriptors *d, struct sl_span scope, struct sl_span name)
{
	for (size_t i = 0; i < d->symbols.cnt; i++) {
		struct sl_span s = sl_set_symbols(d)[i].name;

		if (s.len == scope.len + 1 + name.len && sl_span_starts(s, scope) &&
		    sl_span_eq(sl_span_skip(s, scope.len + 1), name))
			return true;
	}
	return false;
}

static bool add_own(struct sl_descriptors *d)
{
	struct sl_span set = sl_span_of(own_set, sizeof(own_set));
	struct sl_pb_field f;

	while (sl_pb_next(&set, &f)) {
		struct sl_span service = sl_set_find(sl_set_find(f.bytes, FILE_SERVICE), ANY_NAME);

		if (!has_symbol(d, sl_set_find(f.bytes, FILE_PACKAGE), service) &&
		    !sl_set_add_file(d, NULL, &f))
			return false;
	}
	return true;
}

static bool list_services(struct sl_descriptors *d)
{
	size_t len = 0;
	uint8_t *p;

	for (size_t i = 0; i < d->symbols.cnt; i++) {
		if (sl_set_symbols(d)[i].kind == KIND_SERVICE)
			len += sl_set_symbols(d)[i].name.len + (size_t)2 * SL_PB_HEAD_MAX;
	}
	p = sl_set_keep(d, len);
	if (!p)
		return false;
	d->services.ptr = p;
	for (size_t i = 0; i < d->symbols.cnt; i++) {
		struct sl_span name = sl_set_symbols(d)[i].name;
		uint8_t inner[SL_PB_HEAD_MAX];
		size_t head = (size_t)(sl_pb_put_head(inner, ANY_NAME, name.len) - inner);

		if (sl_set_symbols(d)[i].kind != KIND_SERVICE)
			continue;
		p = sl_pb_put_head(p, 1, head + name.len);
		memcpy(p, inner, head);
		memcpy(p + head, name.ptr, name.len);
		p += head + name.len;
	}
	d->services.len = (size_t)(p - d->services.ptr);
	return true;
}

static bool list_numbers(struct sl_descriptors *d, struct sl_symbol *s,
			 const struct sl_extension *e, size_t cnt)
{
	uint8_t *p = sl_set_keep(d, s->name.len + (cnt + 1) * SL_PB_HEAD_MAX);

	if (!p)
		return false;
	s->numbers.ptr = p;
	p = sl_pb_put_head(p, 1, s->name.len);
	memcpy(p, s->name.ptr, s->name.len);
	p += s->name.len;
	for (size_t i = 0; i < cnt; i++)
		p = sl_pb_put_number(p, 2, (uint64_t)e[i].number);
	s->numbers.len = (size_t)(p - s->numbers.ptr);
	return true;
}

static bool index_extensions(struct sl_descriptors *d)
{
	struct sl_extension *e = sl_set_extensions(d);
	size_t i = 0, n;

	sort_array(&d->extensions, sizeof(*e), by_type);
	for (size_t k = 0; k < d->symbols.cnt; k++) {
		if (sl_set_symbols(d)[k].kind != KIND_MESSAGE)
			continue;
		while (i < d->extensions.cnt &&
		       compare_spans(e[i].type, sl_set_symbols(d)[k].name) < 0)
			i++;
		for (n = 0; i + n < d->extensions.cnt &&
			    sl_span_eq(e[i + n].type, sl_set_symbols(d)[k].name);
		     n++)
			;
		if (!list_numbers(d, &sl_set_symbols(d)[k], n ? e + i : NULL, n))
			return false;
		i += n;
	}
	return true;
}

static bool index_sets(struct sl_descriptors *d)
{
	struct sl_symbol *s = sl_set_symbols(d);

	sort_array(&d->symbols, sizeof(*s), by_name);
	for (size_t i = 1; i < d->symbols.cnt; i++) {
		if (sl_span_eq(s[i - 1].name, s[i].name))
			return sl_set_fail(d, "%.*s is defined twice", SL_SET_SHOW(s[i].name));
	}
	sort_array(&d->files, sizeof(struct sl_proto_file), file_by_name);
	for (size_t i = 0; i < d->files.cnt; i++) {
		if (!sl_set_each(d, sl_set_files(d)[i].proto, import_field,
				 &sl_set_files(d)[i].name))
			return false;
	}
	return list_services(d) && index_extensions(d);
}

static bool read_set(struct sl_descriptors *d, const char *path, struct sl_span *set)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	uint8_t *p = NULL;
	size_t n = 0;

	if (!f)
		return sl_set_fail(d, "%s", strerror(errno));
	if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode))
		sl_set_fail(d, "not a regular file");
	else if (st.st_size > SET_MAX)
		sl_set_fail(d, "larger than %d MiB", SET_MAX >> 20);
	else
		p = sl_set_keep(d, (size_t)st.st_size);
	if (p)
		n = fread(p, 1, (size_t)st.st_size, f);
	*set = sl_span_of(p, n);
	fclose(f);
	return p;
}

static struct sl_descriptors *read_failed(struct sl_descriptors *d, const char *path,
					  struct sl_err *err)
{
	sl_err_set(err,
		   "found descriptor_sets \"%s\" (%s); allowed: what protoc --include_imports "
		   "--descriptor_set_out writes",
		   path, d && d->why[0] ? d->why : "no memory");
	sl_descriptors_free(d);
	return NULL;
}

struct sl_descriptors *sl_descriptors_load(const char *const *paths, uint32_t cnt,
					   struct sl_err *err)
{
	struct sl_descriptors *d = calloc(1, sizeof(*d));
	struct sl_span set = {0};

	for (uint32_t i = 0; i < cnt; i++) {
		if (!d || !read_set(d, paths[i], &set) || !sl_set_add(d, set))
			return read_failed(d, paths[i], err);
	}
	if (!d || !add_own(d) || !index_sets(d)) /* sets may conflict */
		return read_failed(d, cnt ? paths[cnt - 1] : "", err);
	return d;
}

struct sl_descriptors *sl_descriptors_parse(struct sl_span set, struct sl_err *err)
{
	struct sl_descriptors *d = calloc(1, sizeof(*d));
	uint8_t *copy = d ? sl_set_keep(d, set.len) : NULL;

	if (copy && set.len)
		memcpy(copy, set.ptr, set.len);
	if (!copy || !sl_set_add(d, sl_span_of(copy, set.len)) || !add_own(d) || !index_sets(d))
		return read_failed(d, "in memory", err);
	return d;
}

void sl_descriptors_free(struct sl_descriptors *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->memory.cnt; i++)
		free(((void **)d->memory.at)[i]);
	free(d->memory.at);
	free(d->files.at);
	free(d->symbols.at);
	free(d->extensions.at);
	free(d);
}

bool sl_descriptors_file(const struct sl_descriptors *d, struct sl_span name, struct sl_span *proto)
{
	const struct sl_proto_file *f = find_file(d, name);

	if (f)
		*proto = f->proto;
	return f;
}

bool sl_descriptors_symbol(const struct sl_descriptors *d, struct sl_span name,
			   struct sl_span *proto)
{
	const struct sl_symbol *s = find_symbol(d, name);

	if (s)
		*proto = s->proto;
	return s;
}

bool sl_descriptors_extension(const struct sl_descriptors *d, struct sl_span type, int32_t number,
			      struct sl_span *proto)
{
	struct sl_extension key = {.type = type, .number = number};
	const struct sl_extension *e = search_array(&d->extensions, &key, sizeof(key), by_type);

	if (e)
		*proto = e->proto;
	return e;
}

bool sl_descriptors_extension_numbers(const struct sl_descriptors *d, struct sl_span type,
				      struct sl_span *response)
{
	const struct sl_symbol *s = find_symbol(d, type);

	if (!s || s->kind != KIND_MESSAGE)
		return false;
	*response = s->numbers;
	return true;
}

struct sl_span sl_descriptors_services(const struct sl_descriptors *d)
{
	return d->services;
}
