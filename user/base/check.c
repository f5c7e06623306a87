/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

static _Atomic uint64_t broken_cnt;

_Noreturn void sl_check_failed(const char *cond, const char *file, int line)
{
	sl_log_write(SL_LOG_ERR, "%s:%d: check failed: %s", file, line, cond);
	abort();
}

bool sl_check_broken(const char *cond, const char *file, int line)
{
	static struct sl_log_gate gate;

#ifdef SL_DEBUG
	sl_check_failed(cond, file, line);
#endif
	atomic_fetch_add_explicit(&broken_cnt, 1, memory_order_relaxed);
	sl_log_gated(&gate, SL_NS_PER_SEC, SL_LOG_ERR, "%s:%d: check failed, step left out: %s",
		     file, line, cond);
	return false;
}

uint64_t sl_checks_broken(void)
{
	return atomic_load_explicit(&broken_cnt, memory_order_relaxed);
}
