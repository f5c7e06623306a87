/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of interactive programs. */
#ifndef SL_TOOLS_TERMINAL_H
#define SL_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Formats like "1.23ms" in one of several rotating buffers. */
const char *term_time(double ns);
/* Formats like "12.3k". */
const char *term_count(double n);

/* Set by SIGINT and SIGTERM after term_catch_signals(). */
extern volatile int term_stopped;
void term_catch_signals(void);
/* Returns false when stopped. */
bool term_sleep(uint64_t ns);

#endif
