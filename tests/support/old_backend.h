/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was built with version 1 of sluice/backend.h, as a function. */
#ifndef SL_TESTS_OLD_BACKEND_H
#define SL_TESTS_OLD_BACKEND_H

/* Exit statuses above 10: what is wrong. */
enum { OLD_NO_NAME = 11, OLD_NOT_OPEN, OLD_WRONG_STATS };

/*
 * Serves with the functions that a program linked with version 1 gets from the library `so`. Streams
 * and requests are answered with the body, the header "x-old" and the number of requests so far.
 * Returns an exit status.
 */
int old_backend_serve(void *so, const char *listen, const char *key_file);

#endif
