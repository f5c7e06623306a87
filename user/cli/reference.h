/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CLI_REFERENCE_H
#define SL_CLI_REFERENCE_H

#include <stdbool.h>

/* Prints all keys of a configuration. Returns CLI_OK. */
int cli_print_reference(bool json);

#endif
