/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "base/check.h"
#include "front/tls/cert.h"
#include "suite.h"

/* The names are the last that there is in memory. */
static const struct sl_tls_cert *cert_of(char **names, uint32_t cnt)
{
	size_t len = sizeof(struct sl_tls_cert) + cnt * sizeof(*names);
	struct sl_tls_cert *c = (void *)flush_with_guard(len);

	memset(c, 0, len);
	c->name_cnt = cnt;
	memcpy(c->names, names, cnt * sizeof(*names));
	return c;
}

TEST(names_and_what_they_stand_for_are_covered)
{
	static char one[] = "a.example", wild[] = "*.b.example";
	char *names[] = {one, wild};
	const struct sl_tls_cert *c = cert_of(names, 2);
	static const struct {
		const char *name;
		bool covered;
	} cases[] = {
		{"a.example", true},   {"x.b.example", true},
		{"b.example", false},  {"x.y.b.example", false},
		{"x.example", false},  {"a.exampl", false},
		{"a.example.", false}, {".b.example", false},
		{"example", false},    {"", false},
	};

	for (unsigned i = 0; i < SL_ARRAY_LEN(cases); i++)
		ck_assert_msg(sl_tls_cert_covers(c, sl_span_cstr(cases[i].name)) ==
				      cases[i].covered,
			      "%s", cases[i].name);
}
