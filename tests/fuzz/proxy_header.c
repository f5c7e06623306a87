/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a PROXY header. A verdict does not change with what follows; a header is told at its
 * last byte and not before; what it tells is an address.
 */
/* fuzz: max_len=1100 */
#include <stdlib.h>
#include <string.h>
#include "front/proxy/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1); /* so that a byte beyond is noticed */
	struct sl_proxy_header h, less;
	int n, before;

	memcpy(exact, data, size);
	n = sl_proxy_parse(sl_span_of(exact, size), &h);
	must(n >= -1 && n <= SL_PROXY_HEADER_MAX && (n <= 0 || (size_t)n <= size));
	if (n > 0) {
		must(sl_proxy_parse(sl_span_of(exact, (size_t)n), &less) == n);
		must(sl_proxy_parse(sl_span_of(exact, (size_t)n - 1), &less) == 0);
		must(!h.told || ((h.source.family == 4 || h.source.family == 6) &&
				 h.source.family == h.destination.family));
	} else if (size) {
		before = sl_proxy_parse(sl_span_of(exact, size - 1), &less);
		must(n == 0 ? before == 0 : before <= 0);
	}
	free(exact);
	return 0;
}
