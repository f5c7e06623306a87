/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of sl_sandbox_enter(). */
#ifndef SL_SANDBOX_INTERNAL_H
#define SL_SANDBOX_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/sandbox.h"

/* Builds with sanitizers have neither Landlock nor filters. */
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

/* Returns a ruleset for sl_landlock_restrict(), or -errno such as -ENOSYS. Sets *abi. */
int sl_landlock_prepare(const struct sl_sandbox_place *places, size_t place_cnt, bool binds_ports,
			int *abi);
/* Applies and closes the ruleset. Returns 0 or -errno. This thread. */
int sl_landlock_restrict(int ruleset);

/* Becomes `user`, and keeps only these of the capabilities. Returns 0 or -errno. */
int sl_account_drop(uint64_t keep_caps, const char *user, struct sl_err *err);

/* Compiles the filters. Returns like sl_account_drop(). */
int sl_seccomp_compile(struct sl_err *err);

#endif
