/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of base and wire: memory that ends at a forbidden page, expected aborts. */
#ifndef SL_TESTS_UNIT_H
#define SL_TESTS_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* libcheck's own macros write to a file each time: too slow for the inside of long loops. */
#define unit_check(cond)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg("%s", #cond);                                                 \
	} while (0)

/*
 * n bytes, at most 2 pages, whose end touches a PROT_NONE page; all 2 pages touch one in front too.
 */
static inline uint8_t *flush_with_guard(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_uint_le(n, 2 * page);
	ck_assert_int_eq(mprotect(p + page, 2 * page, PROT_READ | PROT_WRITE), 0);
	return p + 3 * page - n;
}

static inline uint8_t *flush_copy(const void *src, size_t n)
{
	uint8_t *p = flush_with_guard(n);

	if (n)
		memcpy(p, src, n);
	return p;
}

/* Whether fn(arg) ends its process with SIGABRT, or a sanitizer's report. */
static inline bool aborts(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

#endif
