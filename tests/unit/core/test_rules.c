/* SPDX-License-Identifier: Apache-2.0 */
/* Header rules of replies: what is left, set and rewritten, and where there is no room. */
#include <stdlib.h>

#include "base/check.h"
#include "core/client.h"
#include "core/exchange.h"
#include "core/rules.h"
#include "suite.h"

static struct sl_umem umem;
static struct sl_net net;
static struct sl_core core;
static struct sl_reply_parts parts;
static struct sl_cfg_rule rules[3];
static struct sl_cfg_route route;
static struct sl_exchange x;

static void set_up(void)
{
	ck_assert_int_eq(sl_umem_init(&umem, 2048, 64), 0);
	net.umem = &umem;
	core.net = &net;
	core.rule_buf = malloc(sl_rules_room());
	parts.reply = (struct sl_reply){.headers = parts.headers};
	route = (struct sl_cfg_route){.reply_rules = {.list = rules}};
	x = (struct sl_exchange){.core = &core, .route = &route};
}

static void tear_down(void)
{
	sl_store_free(&x.rule_values, &umem);
	sl_umem_fini(&umem);
	free(core.rule_buf);
}

static void rule(const char *name, const char *value, const char *from)
{
	rules[route.reply_rules.cnt++] =
		(struct sl_cfg_rule){.name = name, .value = value, .from = from};
}

static void header(const char *name, const char *value)
{
	parts.headers[parts.reply.header_cnt++] =
		(struct sl_header){sl_span_cstr(name), sl_span_cstr(value)};
}

static void ck_header(uint32_t i, const char *name, const char *value)
{
	ck_assert_uint_lt(i, parts.reply.header_cnt);
	ck_assert(sl_span_eq(parts.reply.headers[i].name, sl_span_cstr(name)));
	ck_assert(sl_span_eq(parts.reply.headers[i].value, sl_span_cstr(value)));
}

FIXTURE(set_up, tear_down)

TEST(fields_are_dropped_set_and_rewritten)
{
	rule("a", NULL, NULL);
	rule("b", "new", NULL);
	rule("c", "https://", "http://");
	header("a", "1");
	header("b", "1");
	header("c", "http://x");
	header("a", "2");
	header("b", "2");
	header("c", "ftp://x");
	header("c", "http://");
	header("d", "1");
	ck_assert(sl_rules_apply_reply(&x, &parts));
	ck_assert_uint_eq(parts.reply.header_cnt, 5);
	ck_header(0, "c", "https://x");
	ck_header(1, "c", "ftp://x");
	ck_header(2, "c", "https://");
	ck_header(3, "d", "1");
	ck_header(4, "b", "new");
}

TEST(server_and_date_are_known_to_be_there_or_not)
{
	rule("server", NULL, NULL);
	rule("date", "now", NULL);
	header("server", "x");
	parts.reply.has_server = true;
	ck_assert(sl_rules_apply_reply(&x, &parts));
	ck_assert(!parts.reply.has_server && parts.reply.has_date);
}

TEST_EACH(a_head_that_is_full_takes_no_further_field, 2)
{
	while (parts.reply.header_cnt < SL_ARRAY_LEN(parts.headers))
		header(_i ? "b" : "a", "1");
	rule("b", "new", NULL);
	ck_assert_int_eq(sl_rules_apply_reply(&x, &parts), _i);
}

/* There was no frame for what it says of the request, and the gateway answers that. */
TEST(values_that_were_not_kept_are_left_out)
{
	rule("b", "{host}", NULL);
	rules[0].varies = route.reply_rules.varies = true;
	ck_assert(sl_rules_apply_reply(&x, &parts));
	ck_assert_uint_eq(parts.reply.header_cnt, 0);
}
