/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_TOOLS_TERMINAL_H
#define SL_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Formats like "1.23ms" in one of 16 static buffers, in turns. One thread. */
const char *term_time(double ns);
/* Formats like "12.3k", in the same buffers. */
const char *term_count(double n);

/* The signal, after term_catch_signals(); 0: none. */
extern volatile int term_stopped;
/* Catches SIGINT, SIGTERM and SIGHUP; ignores SIGPIPE. */
void term_catch_signals(void);
/* Sleeps. Returns false when stopped, at once. */
bool term_sleep(uint64_t ns);

#endif
