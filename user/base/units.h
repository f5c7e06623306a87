/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, sizes and rates as people write them: an integer and a unit, nothing before, between
 * or after.
 *
 *   duration  ns us ms s m h d          a bare 0 is allowed, another number needs its unit
 *   size      k m g t (or capitals), powers of 1024; no unit: bytes
 *   rate      /s /m /h after a number with k m g (powers of 1000): "500/s", "10k/s", "90/m"
 *   bit rate  kbit mbit gbit, powers of 1000; "bit" alone: bits per second
 *
 * Parsers return 0, -EINVAL (not of that form) or -ERANGE (too large), and write the result only on
 * 0.
 */
#ifndef SL_BASE_UNITS_H
#define SL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

int sl_parse_duration(struct sl_span s, uint64_t *ns);
int sl_parse_size(struct sl_span s, uint64_t *bytes);
int sl_parse_rate(struct sl_span s, uint64_t *per_1000s); /* events per 1000 seconds */
int sl_parse_bitrate(struct sl_span s, uint64_t *bits_per_s);

enum sl_unit { SL_UNIT_DURATION, SL_UNIT_SIZE, SL_UNIT_RATE, SL_UNIT_BITRATE };

/* What was expected, for a message: "a duration like 500us, 2ms, 1s or 1m". */
const char *sl_unit_expected(enum sl_unit unit);

/* Large enough for any of the texts below. */
#define SL_UNIT_TEXT 24

/* Three significant digits ("1.25ms", "37us", "1.5k/s"), more only in the largest unit. */
const char *sl_format_duration(char buf[SL_UNIT_TEXT], uint64_t ns);
const char *sl_format_size(char buf[SL_UNIT_TEXT], uint64_t bytes);
const char *sl_format_rate(char buf[SL_UNIT_TEXT], uint64_t per_1000s);
const char *sl_format_bitrate(char buf[SL_UNIT_TEXT], uint64_t bits_per_s);

#endif
