/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes (RFC 9110 15 and others). */
#ifndef SL_HTTP_STATUS_H
#define SL_HTTP_STATUS_H

/* Returns the reason phrase, or "Unknown". */
const char *sl_status_text(unsigned status);

#endif
