/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_HTTP_DATE_H
#define SL_HTTP_DATE_H

#include <time.h>

enum { SL_HTTP_DATE_LEN = 29 };

/* Writes an IMF-fixdate (RFC 9110 5.6.7) and NUL: "Sun, 06 Nov 1994 08:49:37 GMT". */
void sl_http_date(char to[SL_HTTP_DATE_LEN + 1], time_t t);

#endif
