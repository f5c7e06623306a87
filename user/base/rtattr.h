/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over attributes of rtnetlink messages.
 *
 * Unlike RTA_NEXT(), they end at a last attribute without padding.
 */
#ifndef SL_BASE_RTATTR_H
#define SL_BASE_RTATTR_H

#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the attribute at `bytes`; NULL if it exceeds the `left` bytes. */
static inline const struct rtattr *sl_rtattr_first(const void *bytes, size_t left)
{
	const struct rtattr *at = bytes;

	return left >= sizeof(*at) && at->rta_len >= sizeof(*at) && at->rta_len <= left ? at : NULL;
}

/* Returns the next attribute, or NULL. *left counts the bytes from `at`. */
static inline const struct rtattr *sl_rtattr_next(const struct rtattr *at, size_t *left)
{
	const size_t step = RTA_ALIGN((size_t)at->rta_len);

	*left = step < *left ? *left - step : 0;
	return sl_rtattr_first((const uint8_t *)at + step, *left);
}

#endif
