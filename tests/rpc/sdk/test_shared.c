/* SPDX-License-Identifier: Apache-2.0 */
/* libsluice-backend.so: its names, what it calls itself, and that it serves. */
#include <dlfcn.h>
/* A program of its own, without the device of the tests. */
#define HARNESS_ENDPOINTS "shm,tcp"
#include "old_backend.h"
#include "rpc_harness.h"
#include "sluice/client.h"
#include "suite.h"

/* The one of this build: tests lie three folders below it. */
static void *load(void)
{
	char exe[512], path[600];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	void *so;

	ck_assert_int_gt(n, 0);
	exe[n] = '\0';
	for (unsigned i = 0; i < 4; i++)
		*strrchr(exe, '/') = '\0';
	snprintf(path, sizeof(path), "%s/libsluice-backend.so", exe);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(so != NULL, "%s", so ? "" : dlerror());
	return so;
}

/* Both texts as they stand, so that no list of names here can go stale. */
__asm__(".section .rodata\n"
	"backend_h: .incbin \"include/sluice/backend.h\"\n"
	".byte 0\n"
	"backend_map: .incbin \"user/sdk/backend/libsluice-backend.map\"\n"
	".byte 0\n"
	".previous\n");
extern const char backend_h[], backend_map[];

enum { NAMES_MAX = 64 };

struct names {
	char text[NAMES_MAX][64];
	unsigned cnt;
};

/* A line that declares a function begins with its type: those of comments and arguments do not. */
static size_t declares(const char *line, const char **name)
{
	const char *end = strpbrk(line, "(\n");

	if (*line < 'a' || *line > 'z' || !end || *end == '\n' || !strncmp(line, "typedef ", 8))
		return 0;
	for (*name = end; *name > line && !strchr(" *", (*name)[-1]);)
		(*name)--;
	return (size_t)(end - *name);
}

static size_t lists(const char *line, const char **name)
{
	*name = line + 1;
	return strncmp(line, "\tsl_", 4) ? 0 : strcspn(*name, ";");
}

static struct names names_in(const char *text, size_t (*find)(const char *, const char **))
{
	struct names n = {.cnt = 0};
	const char *line = text, *name;

	for (; line; line = strchr(line, '\n')) {
		size_t len = find(line += *line == '\n', &name);

		if (!len)
			continue;
		ck_assert_uint_lt(n.cnt, NAMES_MAX);
		snprintf(n.text[n.cnt++], sizeof(n.text[0]), "%.*s", (int)len, name);
	}
	ck_assert_uint_gt(n.cnt, 0);
	return n;
}

static bool has(const struct names *n, const char *name)
{
	for (unsigned i = 0; i < n->cnt; i++) {
		if (strcmp(n->text[i], name) == 0)
			return true;
	}
	return false;
}

TEST(the_library_has_the_names_of_the_header_only)
{
	static const char *const inner[] = {"sl_link_init", "sl_be_serve", "sl_rpc_listen",
					    "sl_capped_malloc"};
	struct names declared = names_in(backend_h, declares);
	struct names listed = names_in(backend_map, lists);
	void *so = load();

	for (unsigned i = 0; i < declared.cnt; i++)
		ck_assert_msg(dlsym(so, declared.text[i]) != NULL, "%s", declared.text[i]);
	for (unsigned i = 0; i < listed.cnt; i++)
		ck_assert_msg(has(&declared, listed.text[i]), "%s", listed.text[i]);
	for (unsigned i = 0; i < sizeof(inner) / sizeof(*inner); i++)
		ck_assert_msg(dlsym(so, inner[i]) == NULL, "%s", inner[i]);
	/* Programs ask for it by this name. */
	ck_assert_ptr_nonnull(dlopen("libsluice-backend.so.1", RTLD_NOW | RTLD_NOLOAD));
}

static int (*reply)(struct sl_request_view *, const struct sl_reply_args *);

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		reply(batch->requests[i],
		      &(struct sl_reply_args){.body = batch->requests[i]->body,
					      .body_len = batch->requests[i]->body_len});
}

static void serve(const void *arg)
{
	void *so = load();
	struct sl_backend *(*open_it)(const struct sl_backend_options *, char *, size_t);
	int (*run)(struct sl_backend *);
	struct sl_backend_options opt = {
		.listen = arg, .on_batch = echo, .key_file = harness_key()};
	struct sl_backend *b;
	char err[256];

	alarm(3 * harness_timeout_s());
	*(void **)&open_it = dlsym(so, "sl_backend_open");
	*(void **)&run = dlsym(so, "sl_backend_run");
	*(void **)&reply = dlsym(so, "sl_reply");
	b = open_it(&opt, err, sizeof(err));
	_exit(b ? run(b) : 3);
}

TEST_EACH(a_program_with_the_library_serves, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct backend_proc p = {harness_spawn(serve, ep, strlen(ep) + 1)};
	struct gateway g;

	gw_open(&g, ep);
	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("hello"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert_mem_eq(c.body, "hello", 5);
	gw_close(&g);
	backend_kill(p);
}

static void first_event(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static void second_event(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

/* Programs with the former names of callbacks compile, and mean the same members. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(former_names_of_callbacks_are_the_same_members)
{
	struct sl_backend_options opt = {.handle = echo};
	struct sl_stream_ops ops = {0};

	opt.cancelled = first_event;
	opt.writable = second_event;
	ops.open = opt.cancelled;
	ops.end = opt.writable;
	ops.cancel = opt.cancelled;
	ck_assert(opt.on_batch == echo && opt.on_cancel == first_event);
	ck_assert(opt.on_writable == second_event);
	ck_assert(ops.on_open == ops.open && ops.on_end == ops.end);
	ck_assert(ops.on_cancel == ops.cancel && ops.on_data == ops.data);
}
#pragma GCC diagnostic pop

static void serve_old(const void *arg)
{
	alarm(3 * harness_timeout_s());
	_exit(old_backend_serve(load(), arg, harness_key()));
}

/* Version 1 of the library's structs had no `size`. */
TEST_EACH(a_program_built_with_version_1_still_serves, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = {harness_spawn(serve_old, ep, strlen(ep) + 1)};
	struct sl_rpc_client_options opt = {
		.size = sizeof(opt), .endpoints = ep, .key_file = harness_key()};
	char err[256];
	struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	for (unsigned len = 4; len <= 5; len++) {
		struct sl_rpc_call_args args = {
			.size = sizeof(args), .path = "/", .body = "hello", .body_len = len};
		struct sl_rpc_call_reply *answer;
		const char *value;
		size_t value_len;

		ck_assert_int_eq(sl_rpc_client_call(c, &args, &answer), 0);
		ck_assert_uint_eq(answer->status, 207);
		ck_assert_uint_eq(answer->body_len, len);
		ck_assert_mem_eq(answer->body, "hello", len);
		ck_assert(sl_rpc_call_reply_header(answer, "x-old", &value, &value_len));
		sl_rpc_call_reply_free(answer);
	}
	sl_rpc_client_close(c);
	backend_kill(p);
}
