/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the sandbox, in the order of sl_sandbox_enter(). */
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

/* Opens a ruleset. Returns it, or -errno such as -ENOSYS. */
int sl_landlock_prepare(const struct sl_sandbox_place *places, size_t place_cnt, bool binds_ports,
			int *abi);
/* Applies and closes the ruleset. Returns 0 or -errno. */
int sl_landlock_restrict(int ruleset);

/* Becomes `user` with keep_caps only. Returns 0, or -errno and one line in err. */
int sl_account_drop(uint64_t keep_caps, const char *user, struct sl_err *err);

/* Compiles the filters. Returns 0, or -errno and one line in err. */
int sl_seccomp_compile(struct sl_err *err);

#endif
