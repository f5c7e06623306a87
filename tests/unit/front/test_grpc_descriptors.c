/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor sets: what is found in them, and what is wrong with them. */
#include <sys/mman.h>
#include <unistd.h>
#include "alloc.h"
#include "base/check.h"
#include "grpc_sets.h"
#include "suite.h"

static struct pb set, file, inner;
static struct sl_err err = SL_ERR(400);

static struct sl_descriptors *parse(void)
{
	return sl_descriptors_parse(pb_span(&set), &err);
}

/* The name of a file by its bytes. */
static const char *name_of(struct sl_span proto)
{
	static char text[100];
	struct sl_pb_field f;

	ck_assert(sl_pb_next(&proto, &f) && f.no == 1);
	snprintf(text, sizeof(text), "%.*s", (int)f.bytes.len, f.bytes.ptr);
	return text;
}

TEST(fields_are_read_up_to_the_first_malformed_one)
{
	static const struct {
		const char *bytes;
		size_t len;
		unsigned fields;
		size_t rest;
	} cases[] = {
		{"", 0, 0, 0},
		{"\x08\x01", 2, 1, 0},
		{"\x08\x01\x12\x02zz", 6, 2, 0},
		{"\x12\x03zz", 4, 0, 4}, /* a byte too few */
		{"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 0, 11},
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1, 0},
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, 0, 11}, /* 65 bits */
		{"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, 0, 12},
		{"\x08\x80", 2, 0, 2},
		{"\x08", 1, 0, 1},
		{"\x02\x00", 2, 0, 2}, /* field 0 */
		{"\x09"
		 "12345678\x0d"
		 "1234",
		 14, 2, 0},
		{"\x09"
		 "1234567",
		 8, 0, 8},
		{"\x0d"
		 "123",
		 4, 0, 4},
		{"\x0b\x0c", 2, 0, 2}, /* a group */
		{"\x0e", 1, 0, 1},
		{"\xfa\xff\xff\xff\x0f\x00", 6, 1, 0},
		{"\xfa\xff\xff\xff\x1f\x00", 6, 0, 6}, /* a key of more than 32 bits */
	};
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_int_eq(mprotect(p + page, (size_t)page, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_span in = sl_span_of(p + page - cases[i].len, cases[i].len);
		struct sl_pb_field f;
		unsigned n = 0;

		memcpy(p + page - cases[i].len, cases[i].bytes, cases[i].len);
		while (sl_pb_next(&in, &f))
			n++;
		ck_assert_msg(n == cases[i].fields && in.len == cases[i].rest, "case %zu", i);
	}
	munmap(p, (size_t)page * 2);
}

TEST(a_number_is_read_as_it_was_written)
{
	static const uint64_t numbers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
	uint8_t buf[64];
	struct sl_pb_field f;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint8_t *end = sl_pb_put_number(buf, 99, numbers[i]);
		struct sl_span in = sl_span_of(buf, (size_t)(end - buf));

		ck_assert(sl_pb_next(&in, &f));
		ck_assert(f.no == 99 && f.type == SL_PB_VARINT && f.number == numbers[i]);
		ck_assert_uint_eq(in.len, 0);
	}
}

TEST(each_symbol_is_found_in_its_file)
{
	static const struct {
		const char *name, *file; /* NULL: not found */
	} cases[] = {
		{"p.M", "a.proto"},
		{"p.M.f", "a.proto"},
		{"p.M.o", "a.proto"},
		{"p.M.E", "a.proto"},
		{"p.M.V", "a.proto"}, /* beside its enum */
		{"p.M.In", "a.proto"},
		{"p.M.x7", "a.proto"},
		{"p.S", "a.proto"},
		{"p.S.Do", "a.proto"},
		{"p.x300", "a.proto"},
		{"Bare", "b.proto"},
		{"y1", "b.proto"},
		{"grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"},
		{"grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"},
		{"grpc.reflection.v1alpha.ServerReflection",
		 "grpc/reflection/v1alpha/reflection.proto"},
		{"p", NULL},
		{"p.", NULL},
		{"M", NULL},
		{".p.M", NULL},
		{"p.M.E.V", NULL},
		{"", NULL},
	};
	struct sl_descriptors *d;

	pb_sample(&set);
	d = parse();
	ck_assert_msg(d != NULL, "%s", err.text);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_span proto;
		bool ok = sl_descriptors_symbol(d, sl_span_cstr(cases[i].name), &proto);

		ck_assert_msg(ok == (cases[i].file != NULL), "%s", cases[i].name);
		if (ok)
			ck_assert_str_eq(name_of(proto), cases[i].file);
	}
	sl_descriptors_free(d);
}

TEST(files_and_services_are_listed)
{
	static const char *const services[] = {"grpc.health.v1.Health",
					       "grpc.reflection.v1.ServerReflection",
					       "grpc.reflection.v1alpha.ServerReflection", "p.S"};
	struct sl_descriptors *d;
	struct sl_span in, proto;
	struct sl_pb_field f, name;
	size_t n = 0;

	pb_sample(&set);
	d = parse();
	in = sl_descriptors_services(d);
	while (sl_pb_next(&in, &f)) {
		ck_assert(f.no == 1 && sl_pb_next(&f.bytes, &name) && name.no == 1 && !f.bytes.len);
		ck_assert(n < 4 && sl_span_eq(name.bytes, sl_span_cstr(services[n])));
		n++;
	}
	ck_assert_uint_eq(n, 4);
	ck_assert_uint_eq(in.len, 0);
	ck_assert(sl_descriptors_file(d, sl_span_str("b.proto"), &proto));
	ck_assert_str_eq(name_of(proto), "b.proto");
	ck_assert(!sl_descriptors_file(d, sl_span_str("c.proto"), &proto));
	ck_assert(!sl_descriptors_file(d, sl_span_of(NULL, 0), &proto));
	sl_descriptors_free(d);
}

TEST(an_extension_is_found_by_type_and_number)
{
	struct sl_descriptors *d;
	struct sl_span proto;

	pb_sample(&set);
	d = parse();
	ck_assert(sl_descriptors_extension(d, sl_span_str("p.M"), 300, &proto));
	ck_assert_str_eq(name_of(proto), "a.proto");
	ck_assert(sl_descriptors_extension(d, sl_span_str("p.M"), 8, &proto));
	ck_assert_str_eq(name_of(proto), "b.proto");
	ck_assert(!sl_descriptors_extension(d, sl_span_str("p.M"), 9, &proto));
	ck_assert(!sl_descriptors_extension(d, sl_span_str("p.N"), 8, &proto));
	ck_assert(sl_descriptors_extension_numbers(d, sl_span_str("p.M"), &proto));
	ck_assert(sl_span_eq(proto, sl_span_str("\x0a\x03p.M\x10\x07\x10\x08\x10\xac\x02")));
	ck_assert(sl_descriptors_extension_numbers(d, sl_span_str("p.M.In"), &proto));
	ck_assert(sl_span_eq(proto, sl_span_str("\x0a\x06p.M.In\x10\x01")));
	ck_assert(sl_descriptors_extension_numbers(d, sl_span_str("Bare"), &proto));
	ck_assert(sl_span_eq(proto, sl_span_str("\x0a\x04"
						"Bare")));
	ck_assert(!sl_descriptors_extension_numbers(d, sl_span_str("p.S"), &proto));
	ck_assert(!sl_descriptors_extension_numbers(d, sl_span_str("nowhere.N"), &proto));
	sl_descriptors_free(d);
}

/* --- sets that are refused --- */

static void nested(unsigned depth)
{
	file.len = inner.len = 0;
	pb_text(&inner, 1, "M");
	while (depth--) {
		static struct pb outer;

		outer.len = 0;
		pb_text(&outer, 1, "M");
		pb_bytes(&outer, 3, pb_span(&inner));
		inner.len = outer.len;
		memcpy(inner.p, outer.p, outer.len);
	}
	pb_text(&file, 1, "n.proto");
	pb_bytes(&file, 4, pb_span(&inner));
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
}

static void refused(const char *why)
{
	struct sl_descriptors *d = parse();

	ck_assert_msg(!d, "not refused: %s", why);
	ck_assert_msg(strstr(err.text, why) != NULL, "%s, expected %s", err.text, why);
	ck_assert_ptr_nonnull(strstr(err.text, "; allowed: "));
}

static void one_file(const char *name, uint32_t no, const char *def)
{
	file.len = set.len = 0;
	pb_text(&file, 1, name);
	if (no)
		pb_named(&file, no, def);
	pb_bytes(&set, 1, pb_span(&file));
}

TEST(a_set_is_refused_with_the_reason)
{
	set.len = 0;
	refused("it is empty");
	set.len = 0;
	pb_text(&set, 2, "x");
	refused("field 2 where a file is expected");
	set.len = (size_t)(sl_pb_put_head(set.p, 1, 9) - set.p);
	refused("malformed at byte 0");
	one_file("", 0, NULL);
	refused("a file without a name");
	one_file("a b", 0, NULL);
	refused("a file without a name");
	one_file("a", 4, "a b");
	refused("invalid name of a definition");
	one_file("a", 4, "");
	refused("invalid name of a definition");
	one_file("a", 4, "a.b");
	refused("invalid name of a definition");
	one_file("a", 3, "x");
	refused("import without a name"); /* it has control characters */
	one_file("a", 0, NULL);
	pb_text(&file, 3, "x");
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
	refused("a imports x, which is in no set");
	one_file("a", 7, "x");
	refused("an extension without");
	one_file("a", 4, "A");
	pb_named(&file, 6, "A");
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
	refused("A is defined twice");
	one_file("a", 0, NULL);
	pb_text(&file, 2, "p..q");
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
	refused("package");
	one_file("a", 0, NULL);
	pb_extension(&file, 7, "x", ".T", 1ull << 32 | 5);
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
	refused("an extension without");
	nested(80);
	refused("nested more than 64 deep");
	nested(60);
	sl_descriptors_free(parse());
	ck_assert_ptr_null(sl_descriptors_load((const char *[]){"/nowhere.pb"}, 1, &err));
	ck_assert_ptr_nonnull(
		strstr(err.text, "found descriptor_sets \"/nowhere.pb\" (No such file"));
	ck_assert_ptr_null(sl_descriptors_load((const char *[]){"/dev/zero"}, 1, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "not a regular file"));
}

/* Whatever a byte of a good set is changed to, and wherever it is cut: an index, or one line. */
TEST(a_damaged_set_gives_an_index_or_a_line)
{
	static struct pb good;
	struct sl_descriptors *d;

	pb_sample(&good);
	for (size_t i = 0; i < good.len; i++) {
		for (int k = 0; k < 4; k++) {
			set = good;
			if (k == 3)
				set.len = i;
			else
				set.p[i] = (uint8_t)(k ? (k == 1 ? 0xff : 0) : good.p[i] ^ 1);
			err.text[0] = 0;
			d = parse();
			ck_assert(d || err.text[0]);
			sl_descriptors_free(d);
		}
	}
}

/* Services that several sets share count once, as do the gateway's own. */
TEST(services_of_two_sets_count_once)
{
	char path[] = "/tmp/sl-set-XXXXXX";
	const char *paths[] = {path, path};
	struct sl_descriptors *d;
	struct sl_span proto;
	int fd = mkstemp(path);

	one_file("own.proto", 0, NULL);
	pb_text(&file, 2, "grpc.health.v1");
	pb_named(&file, 6, "Health");
	set.len = 0;
	pb_bytes(&set, 1, pb_span(&file));
	ck_assert_int_eq(write(fd, set.p, set.len), (ssize_t)set.len);
	close(fd);
	d = sl_descriptors_load(paths, 2, &err);
	unlink(path);
	ck_assert_msg(d != NULL, "%s", err.text);
	ck_assert(sl_descriptors_symbol(d, sl_span_str("grpc.health.v1.Health"), &proto));
	ck_assert_str_eq(name_of(proto), "own.proto");
	sl_descriptors_free(d);
}

/* Each allocation that fails, in turn. Those of the C library's sort are none of ours: it can do without. */
TEST(a_set_for_which_memory_is_short_is_whole_or_gives_a_line)
{
	static const char *const types[] = {"p.M", "p.M.In", "Bare"};
	long before = allocs_alive;
	unsigned refused_cnt = 0;
	bool failed = true;

	pb_sample(&set);
	for (unsigned n = 0; failed; n++) {
		struct sl_descriptors *d;
		struct sl_span numbers;

		err.text[0] = 0;
		allocs_left = n;
		d = parse();
		failed = allocs_left == UINT32_MAX;
		allocs_left = UINT32_MAX;
		for (unsigned i = 0; d && i < SL_ARRAY_LEN(types); i++) {
			ck_assert(sl_descriptors_extension_numbers(d, sl_span_cstr(types[i]),
								   &numbers));
			ck_assert_msg(numbers.len > 0, "allocation %u: no numbers of %s", n,
				      types[i]);
		}
		ck_assert_msg(d || strstr(err.text, "no memory"), "allocation %u: %s", n, err.text);
		refused_cnt += !d;
		sl_descriptors_free(d);
		ck_assert_msg(allocs_alive == before, "allocation %u: something is left", n);
	}
	ck_assert_uint_gt(refused_cnt, 20);
}
