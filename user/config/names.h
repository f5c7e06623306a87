/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONFIG_NAMES_H
#define SL_CONFIG_NAMES_H

#include "config/keys.h"

/*
 * Writes " (did you mean NAME?)" for the nearest name, " (it belongs into BLOCK)" if another block
 * has it, or nothing.
 */
void conf_names_hint(enum conf_block b, const char *name, char *buf, size_t len);

#endif
