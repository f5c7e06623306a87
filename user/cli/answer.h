/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CLI_ANSWER_H
#define SL_CLI_ANSWER_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

/* `ended`: in order. Returns the status and the whole body, for free(), or -1 and err. */
int cli_answer_take(struct sl_span text, bool ended, char **body, struct sl_err *err);

#endif
