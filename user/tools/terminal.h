/* SPDX-License-Identifier: Apache-2.0 */
/* What a program at a terminal wants: to be stopped, to wait, and to print figures for people. */
#ifndef SL_TOOLS_TERMINAL_H
#define SL_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* "1.23ms" into one of a few rotating buffers. */
const char *term_time(double ns);
/* "12.3k" */
const char *term_count(double n);

/* Set by term_catch_signals() when SIGINT or SIGTERM comes. */
extern volatile int term_stopped;
void term_catch_signals(void);
/* Sleeps until then, or for that long. False when stopped. */
bool term_sleep(uint64_t ns);

#endif
