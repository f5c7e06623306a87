/* SPDX-License-Identifier: Apache-2.0 */
#include "http/date.h"

void sl_http_date(char to[SL_HTTP_DATE_LEN + 1], time_t t)
{
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(to, SL_HTTP_DATE_LEN + 1, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}
