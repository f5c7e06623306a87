/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output and standard error of a service: writes that never wait for a reader.
 *
 * O_NONBLOCK belongs to the open file description, which other processes share. So sl_output_open()
 * opens pipes and terminals again. Sockets are written with MSG_DONTWAIT. Others are checked by
 * poll() before each write, which can block only if another writer interferes.
 */
#ifndef SL_BASE_OUTPUT_H
#define SL_BASE_OUTPUT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/cpu.h"

/* Opens /dev/null for each closed descriptor of 0 to 2. Must precede all else in main(). */
void sl_output_fill(void);

/*
 * Prepares descriptors 1 and 2, and ignores SIGPIPE. Must be called with one thread, before the
 * process changes its user or forks.
 */
void sl_output_open(void);

/*
 * Returns the bytes written at once, or -errno: -EAGAIN without room, -EPIPE without a reader. Any
 * descriptor, any thread, also in signal handlers.
 */
ssize_t sl_output_write(int fd, const void *bytes, size_t len);

/*
 * Writes a text and adds a missing newline. Waits for room at most 100 ms, and not at all after a
 * loss. The rest is lost.
 */
SL_COLD void sl_output_text(int fd, const char *text);
/* The same for one line, cut at 1024 bytes. */
SL_COLD void sl_output_line(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
