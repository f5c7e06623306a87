/* SPDX-License-Identifier: Apache-2.0 */
/* The package `sluice` of this build, by what a gateway sees of it; tests/netns/backends has the rest. */
#define HARNESS_ENDPOINTS "shm"
#include "rpc_harness.h"
#include "suite.h"

SUITE_TIMEOUT(4 * harness_timeout_s())

enum { MANY = 5000, KEPT = 2000 /* more than fits into all windows, less than that */ };

static const char program[] =
	"import asyncio, sys, sluice\n"
	"wake = asyncio.Event()\n"
	"heard = [b'nothing']\n"
	"\n"
	"def handle(batch):\n"
	"    if bytes(batch[0].body) == b'swap':\n"
	"        batch[0] = b'x' * 16 + bytes(48)\n"
	"        return\n"
	"    for request in batch:\n"
	"        request.reply(heard[0])\n"
	"\n"
	"async def upgrade(stream):\n"
	"    try:\n"
	"        await stream.reply(status=101)\n"
	"    except ValueError:\n"
	"        await stream.reply(status=101, more=True)\n"
	"        await stream.reply(b'agreed')\n"
	"\n"
	"async def serve(stream):\n"
	"    if stream.request.header('upgrade'):\n"
	"        try:\n"
	"            await upgrade(stream)\n"
	"        except ValueError:\n"
	"            heard[0] = b'error'\n"
	"            try:\n"
	"                await asyncio.Event().wait()\n"
	"            finally:\n"
	"                heard[0] = b'cancel'\n"
	"    elif stream.request.path == 'wake':\n"
	"        wake.set()\n"
	"    else:\n"
	"        await wake.wait()\n"
	"        n = 0\n"
	"        async for part in stream:\n"
	"            n += 1\n"
	"        await stream.reply(b'%d' % n)\n"
	"\n"
	"sluice.Backend(sys.argv[1], handle, stream=serve, upgrades=sys.argv[2] == 'upgrades').run()\n";

struct order {
	char listen[256];
	bool upgrades;
};

/* It lies in the folder of this build: tests lie three below it. */
static void run_python(const void *arg)
{
	const struct order *o = arg;
	char exe[512], path[600];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		_exit(3);
	exe[n] = '\0';
	for (unsigned i = 0; i < 4; i++)
		*strrchr(exe, '/') = '\0';
	snprintf(path, sizeof(path), "%s/python", exe);
	setenv("PYTHONPATH", path, 1);
	execl("/usr/bin/python3", "python3", "-c", program, o->listen,
	      o->upgrades ? "upgrades" : "", (char *)NULL);
	_exit(4);
}

static struct backend_proc start(const char *ep, bool upgrades)
{
	struct order o = {.upgrades = upgrades};

	snprintf(o.listen, sizeof(o.listen), "%s", ep);
	return (struct backend_proc){harness_spawn(run_python, &o, sizeof(o))};
}

static void open_stream(struct gateway *g, struct call *c, struct sl_span meta)
{
	struct sl_rpc_item it = {.cookie = c,
				 .stream = true,
				 .open = true,
				 .class = SL_CLASS_NORMAL,
				 .spans = &meta,
				 .span_cnt = 1,
				 .meta_len = (uint16_t)meta.len};
	uint64_t number;

	call_init(c, 4096);
	ck_assert_int_eq(sl_rpc_send(g->ch, &it, 1, sl_now_ns(), &number), 0);
	c->id = it.id;
}

static void send_part(struct gateway *g, const struct call *c, bool end)
{
	struct sl_rpc_part part = {.end = end};

	ck_assert_int_eq(sl_rpc_send_part(g->ch, c->id, &part, SL_CLASS_NORMAL, sl_now_ns()), 0);
}

static bool has_credit(struct gateway *g, const struct call *c)
{
	uint64_t until_ns = sl_now_ns() + 300 * SL_NS_PER_MS;

	while (!sl_rpc_part_credit(g->ch, c->id) && sl_now_ns() < until_ns)
		gw_turn(g);
	return sl_rpc_part_credit(g->ch, c->id) != 0;
}

static bool is(const struct call *c, const char *text)
{
	return c->len >= strlen(text) && memcmp(c->body, text, strlen(text)) == 0;
}

/* Messages of gRPC may have none, and are kept all the same. */
TEST(messages_without_bytes_make_their_sender_wait)
{
	const char *ep = endpoint_of(0);
	struct backend_proc p = start(ep, false);
	uint8_t meta[32];
	struct gateway g;
	struct call c, wake;
	unsigned n = 0, all = MANY;
	char expected[16];

	gw_open(&g, ep);
	open_stream(&g, &c, sl_span_of(meta, put_meta(meta, SL_META_PATH, "deaf")));
	while (n < MANY && has_credit(&g, &c)) {
		send_part(&g, &c, false);
		n++;
	}
	ck_assert_uint_gt(n, SL_RPC_PART_WINDOW / SL_RPC_MIN_COST);
	ck_assert_uint_lt(n, KEPT);
	/* Once they are read it goes on. */
	open_stream(&g, &wake, sl_span_of(meta, put_meta(meta, SL_META_PATH, "wake")));
	for (; n < all; n++) {
		gw_until(&g, sl_rpc_part_credit(g.ch, c.id));
		send_part(&g, &c, false);
	}
	send_part(&g, &c, true);
	gw_until(&g, c.done && wake.done);
	snprintf(expected, sizeof(expected), "%u", all);
	ck_assert(is(&c, expected));
	gw_close(&g);
	backend_kill(p);
}

static const uint8_t wants_upgrade[] = "\x05\0\x09\0\x07upgradex";

TEST(an_upgrade_is_agreed_to_by_101)
{
	const char *ep = endpoint_of(0);
	struct backend_proc p = start(ep, true);
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	open_stream(&g, &c, sl_span_of(wants_upgrade, sizeof(wants_upgrade) - 1));
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.status, SL_RPC_OK);
	ck_assert(is(&c, "agreed"));
	gw_close(&g);
	backend_kill(p);
}

/* Asks until that is what it has heard. */
static void await_heard(struct gateway *g, const char *what)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct call c = {.len = 0};

	while (!is(&c, what)) {
		ck_assert_msg(sl_now_ns() < until_ns, "not heard: %s", what);
		call_init(&c, 64);
		ck_assert_int_eq(
			gw_send(g, &c, sl_span_of(NULL, 0), sl_span_str("?"), 0, SL_CLASS_NORMAL),
			0);
		gw_until(g, c.done);
	}
}

/* Where none is agreed to that is an error, and the request goes on: its coroutine hears what follows. */
TEST(a_program_without_upgrades_still_hears_of_the_request)
{
	const char *ep = endpoint_of(0);
	struct backend_proc p = start(ep, false);
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	open_stream(&g, &c, sl_span_of(wants_upgrade, sizeof(wants_upgrade) - 1));
	await_heard(&g, "error");
	sl_rpc_cancel(g.ch, c.id);
	await_heard(&g, "cancel");
	gw_close(&g);
	backend_kill(p);
}

/* An answer of a handler for an element that is no request is dropped: status 500. */
TEST(a_handler_may_do_with_its_list_what_it_likes)
{
	static const uint8_t status[] = "\x06\0\x02\0\xf4\x01";
	const char *ep = endpoint_of(0);
	struct backend_proc p = start(ep, false);
	struct gateway g;
	struct call c;

	gw_open(&g, ep);
	call_init(&c, 64);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("swap"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&g, c.done);
	ck_assert(!c.failed);
	ck_assert_mem_eq(c.meta, status, sizeof(status) - 1);
	await_heard(&g, "nothing"); /* it goes on */
	gw_close(&g);
	backend_kill(p);
}
