/* SPDX-License-Identifier: Apache-2.0 */
/* The walls, one each, in the order in which sl_sandbox_enter() builds them. */
#ifndef SL_SANDBOX_INTERNAL_H
#define SL_SANDBOX_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/sandbox.h"

/* Sanitizers trace, fork and read /proc: their builds have neither Landlock nor filters. */
#if defined(__SANITIZE_ADDRESS__)
#define SL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SL_SANITIZED 1
#endif
#endif
#ifndef SL_SANITIZED
#define SL_SANITIZED 0
#endif

/* A ruleset for these places, while they can still be opened; or -errno, as -ENOSYS. */
int sl_landlock_prepare(const struct sl_sandbox_place *places, size_t place_cnt, int *abi);
/* Closes the ruleset. 0 or -errno. */
int sl_landlock_restrict(int ruleset);

int sl_account_drop(uint64_t keep_caps, const char *user, struct sl_err *err);

/* 0, or -errno and one line in err. */
int sl_seccomp_compile(struct sl_err *err);

#endif
