/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdlib.h>

#include "base/log.h"

_Noreturn void sl_check_failed(const char *cond, const char *file, int line)
{
	sl_log_write(SL_LOG_ERR, "%s:%d: check failed: %s", file, line, cond);
	abort();
}
