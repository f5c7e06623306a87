/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output and standard error of a service: writes that never wait for a reader.
 *
 * A pipe or a terminal that is not read any more, as of a stopped `tee`, would stop each thread that
 * logs. O_NONBLOCK belongs to the open file description, which other processes share. So
 * sl_output_open() opens pipes and terminals once more, for this process and those that it forks. A
 * socket is written with MSG_DONTWAIT. What cannot be opened again is asked by poll() before each
 * write, which then waits only if another writer fills the pipe in between.
 */
#ifndef SL_BASE_OUTPUT_H
#define SL_BASE_OUTPUT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/cpu.h"

/* Opens /dev/null in place of each of descriptors 0 to 2 that is closed. For the start of main(). */
void sl_output_fill(void);

/*
 * Prepares descriptors 1 and 2, and ignores SIGPIPE. For a service, with one thread, before it
 * changes its account or forks.
 */
void sl_output_open(void);

/*
 * Writes what can be written at once. Returns the number of bytes, or -errno: -EAGAIN if there is no
 * room, -EPIPE if there is no reader. Any descriptor, any thread, also a signal handler.
 */
ssize_t sl_output_write(int fd, const void *bytes, size_t len);

/*
 * Writes a text, and a line's end if it has none. Waits for room, at most 100 ms, and not at all if
 * the text before found none. What finds no room is lost.
 */
SL_COLD void sl_output_text(int fd, const char *text);
/* The same for one line; it is cut at 1024 bytes. */
SL_COLD void sl_output_line(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
