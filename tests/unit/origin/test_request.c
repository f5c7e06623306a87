/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a client's request that reach a server. */
#include <stdio.h>
#include <string.h>

#include "origin/request.h"
#include "base/tlv.h"
#include "sluice/backend.h"
#include "wire/rpc_wire.h"
#include "suite.h"

static struct origin_request made;
/* As the client has asked for this host; NULL: for none. */
static bool make(const char *host, const struct origin_authority *own)
{
	static const uint8_t trace[24] = {1};
	static uint8_t meta[1024];
	struct sl_tlv_writer w = {.at = meta, .end = meta + sizeof(meta)};
	struct sl_request_view rq = {.path = "/x",
				     .path_len = 2,
				     .method = "GET",
				     .method_len = 3,
				     .meta = meta,
				     .protocol = SL_PROTO_HTTP1};

	if (host)
		sl_tlv_put(&w, SL_META_AUTHORITY, sl_span_cstr(host));
	rq.meta_len = (uint16_t)(w.at - meta);
	return origin_request_make(&made, &rq, own, trace);
}

static const struct origin_authority a_name = {"site.example:8", false},
				     the_name = {"site.example:8", true};

TEST(the_client_s_host_is_kept)
{
	ck_assert(make("client.example", &a_name));
	ck_assert(sl_span_eq(made.authority, sl_span_str("client.example")));
}

TEST(a_configured_host_replaces_the_clients)
{
	ck_assert(make("client.example", &the_name));
	ck_assert(sl_span_eq(made.authority, sl_span_str("site.example:8")));
}

TEST(configured_authority_is_used_if_the_client_has_none)
{
	ck_assert(make(NULL, &a_name));
	ck_assert(sl_span_eq(made.authority, sl_span_str("site.example:8")));
}
