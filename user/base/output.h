/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output and error of a service: writes that never wait for a reader.
 *
 * O_NONBLOCK belongs to the open file description, which other processes share. So sl_output_open()
 * opens pipes and terminals again.
 */
#ifndef SL_BASE_OUTPUT_H
#define SL_BASE_OUTPUT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/cpu.h"

/* Opens /dev/null for closed descriptors of 0 to 2. Must precede all else in main(). */
void sl_output_fill(void);

/*
 * Prepares descriptors 1 and 2, and ignores SIGPIPE. Must be called with one thread, before changes
 * of the user and forks.
 */
void sl_output_open(void);

/*
 * Returns the bytes written, or -errno: -EAGAIN without room, -EPIPE without a reader.
 * Async-signal-safe.
 */
ssize_t sl_output_write(int fd, const void *bytes, size_t len);

/*
 * Writes a text and a missing newline. Waits at most 100 ms, not at all after a loss, and drops the
 * rest.
 */
SL_COLD void sl_output_text(int fd, const char *text);
/* Same for a formatted line, cut at 1024 bytes. */
SL_COLD void sl_output_line(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
