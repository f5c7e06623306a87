/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations and sizes: an integer and a unit, without blanks.
 *
 *   duration  ns us ms s m h d          a bare 0 is allowed, another number needs its unit
 *   size      k m g t (or capitals), powers of 1024; no unit: bytes
 *
 * Parsers return 0, -EINVAL (form) or -ERANGE, and write the result only with 0.
 */
#ifndef SL_BASE_UNITS_H
#define SL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* Parse all of `s`. */
int sl_parse_duration(struct sl_span s, uint64_t *ns);
int sl_parse_size(struct sl_span s, uint64_t *bytes);

enum sl_unit { SL_UNIT_DURATION, SL_UNIT_SIZE };

/* Returns static text: "a duration like 500us, 2ms, 1s or 1m". */
const char *sl_unit_expected(enum sl_unit unit);

#define SL_UNIT_TEXT 24

/*
 * Return buf with three significant digits ("1.25ms", "37us", "1.5k"), more only in the largest
 * unit.
 */
const char *sl_format_duration(char buf[SL_UNIT_TEXT], uint64_t ns);
const char *sl_format_size(char buf[SL_UNIT_TEXT], uint64_t bytes);

#endif
