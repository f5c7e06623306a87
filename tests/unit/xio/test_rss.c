/* SPDX-License-Identifier: Apache-2.0 */
/* The verification suite of Microsoft's RSS documentation. */
#include <arpa/inet.h>
#include <string.h>

#include "base/check.h"
#include "suite.h"
#include "xio/rss.h"

static const struct sl_rss example = {
	.ifindex = 7,
	.hashes4 = true,
	.hashes6 = true,
	.key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
		0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
		0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa},
};

static const struct {
	uint8_t family;
	const char *dst;
	uint16_t dport;
	const char *src;
	uint16_t sport;
	uint32_t hash;
} vectors[] = {
	{4, "161.142.100.80", 1766, "66.9.149.187", 2794, 0x51ccc178},
	{4, "65.69.140.83", 4739, "199.92.111.2", 14230, 0xc626b0ea},
	{4, "12.22.207.184", 38024, "24.19.198.95", 12898, 0x5c2b394a},
	{4, "209.142.163.6", 2217, "38.27.205.30", 48228, 0xafc7327f},
	{4, "202.188.127.2", 1303, "153.39.163.191", 44251, 0x10e828a2},
	{6, "3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x40207d3d},
	{6, "ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0xdde51bbf},
	{6, "fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251,
	 0x02d1feef},
};

static int queue_of(const struct sl_rss *r, unsigned i)
{
	const int family = vectors[i].family == 4 ? AF_INET : AF_INET6;
	uint8_t src[16] = {0}, dst[16] = {0};

	ck_assert_int_eq(inet_pton(family, vectors[i].src, src), 1);
	ck_assert_int_eq(inet_pton(family, vectors[i].dst, dst), 1);
	return sl_rss_queue(r, vectors[i].family, src, htons(vectors[i].sport), dst,
			    htons(vectors[i].dport));
}

/* The size is a prime: all bits count. */
TEST_EACH(queue_of_a_published_vector_is_by_its_hash, SL_ARRAY_LEN(vectors))
{
	struct sl_rss r = example;

	r.cnt = 2039;
	for (uint32_t k = 0; k < r.cnt; k++)
		r.queue[k] = (uint16_t)(r.cnt - k);
	ck_assert_int_eq(queue_of(&r, (unsigned)_i), (int)(r.cnt - vectors[_i].hash % r.cnt));
}

TEST(a_family_whose_ports_are_not_hashed_has_no_known_queue)
{
	struct sl_rss r = example;

	r.cnt = 128;
	r.hashes4 = false;
	ck_assert_int_eq(queue_of(&r, 0), -1);
	ck_assert_int_eq(queue_of(&r, 5), 0);
	r.hashes4 = true;
	r.hashes6 = false;
	ck_assert_int_eq(queue_of(&r, 0), 0);
	ck_assert_int_eq(queue_of(&r, 5), -1);
}

TEST(a_change_of_the_table_or_the_key_is_seen)
{
	struct sl_rss r = example;

	ck_assert(sl_rss_equal(&r, &example));
	r.queue[SL_RSS_TABLE_MAX - 1] = 1;
	ck_assert(!sl_rss_equal(&r, &example));
	r = example;
	r.key[SL_RSS_KEY_LEN - 1]++;
	ck_assert(!sl_rss_equal(&r, &example));
}

TEST(a_list_has_copies_of_its_interfaces)
{
	struct sl_rss_list *l = sl_rss_list_new(&example, 1);

	ck_assert_ptr_nonnull(l);
	ck_assert_ptr_eq(sl_rss_list_get(l), l);
	sl_rss_list_put(l);
	ck_assert_mem_eq(sl_rss_find(l, 7)->key, example.key, sizeof(example.key));
	ck_assert_ptr_null(sl_rss_find(l, 8));
	ck_assert_ptr_null(sl_rss_find(NULL, 7));
	sl_rss_list_put(l);
	sl_rss_list_put(NULL);
}

TEST(an_interface_without_rss_says_why)
{
	struct sl_err why = SL_ERR(160);
	struct sl_rss r;

	ck_assert_int_lt(sl_rss_read(&r, "lo", 1, &why), 0);
	ck_assert_ptr_nonnull(strstr(why.text, "RSS cannot be read"));
	ck_assert_int_eq(r.ifindex, 1);
}
