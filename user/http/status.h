/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes of replies, RFC 9110 15 and those of other documents. */
#ifndef SL_HTTP_STATUS_H
#define SL_HTTP_STATUS_H

/* Its reason phrase; "Unknown" for one that has none. */
const char *sl_status_text(unsigned status);

#endif
