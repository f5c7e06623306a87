/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of which a filter says later whose they are: what TCP has of them goes along. */
#include "core/client.h"
#include "core_talk.h"
#include "front/proxy/proxy.h"
#include "suite.h"

static struct sl_proxy_env balancers;
static uint64_t headers, malformed;

static bool open_proxy(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		       struct sl_filter **top)
{
	(void)arg, (void)info;
	*top = sl_proxy_open(&balancers, transport);
	return *top;
}

static bool expects_proxy_header(void *arg, const struct sl_conn_info *info)
{
	(void)arg, (void)info;
	return true;
}

static void set_up_proxy(void)
{
	set_up();
	ck_assert_int_eq(sl_proxy_env_init(&balancers, 2, &headers, &malformed), 0);
	bed.core.filters = (struct sl_filter_maker){.open = open_proxy,
						    .expects_proxy_header = expects_proxy_header};
	bed_open(1);
}

static void tear_down_proxy(void)
{
	tear_down();
	sl_proxy_env_fini(&balancers);
}

FIXTURE(set_up_proxy, tear_down_proxy)

/* Bytes behind a hole belong to no client until the header fills it. */
TEST(out_of_order_bytes_count_for_the_proxied_address)
{
	static const char header[] = "PROXY TCP4 192.0.2.7 10.9.9.9 1000 80\r\n",
			  ahead[] = "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123";
	struct bed_client *cl = &bed.clients[1];
	struct sl_addr_quotas *t = &bed.core.quotas;
	struct sl_client *at = NULL;
	uint32_t first = cl->seq;

	cl->seq += (uint32_t)strlen(header);
	bed_segment(1, BED_ACK, ahead, strlen(ahead));
	bed_turns(2);
	ck_assert_uint_eq(t->unproven.cnt[SL_QUOTA_FRAMES], 1);
	cl->seq = first;
	bed_segment(1, BED_ACK, header, strlen(header));
	bed_turns(2);
	cl->seq = first + (uint32_t)(strlen(header) + strlen(ahead));
	ck_assert_uint_eq(headers, 1);
	ck_assert_uint_eq(t->unproven.cnt[SL_QUOTA_FRAMES], 0);
	while ((at = sl_client_next(&bed.core, at))) {
		const struct sl_addr_quota *a = sl_client_quota(at);

		ck_assert_uint_eq(a->cnt[SL_QUOTA_FRAMES], at->streams);
	}
	bed_segment(1, BED_RST | BED_ACK, NULL, 0);
	bed_turns(2);
	ck_assert_uint_eq(t->unproven.cnt[SL_QUOTA_FRAMES], 0);
}
