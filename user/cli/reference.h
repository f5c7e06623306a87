/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: keys, metrics, drops, outcomes and commands, printed from the program's tables.
 * `sluice help TOPIC` and `make man` use it.
 */
#ifndef SL_CLI_REFERENCE_H
#define SL_CLI_REFERENCE_H

#include <stdbool.h>

enum cli_form {
	CLI_TEXT, /* plain text */
	CLI_JSON,
	CLI_ROFF, /* a part of a manual page, man(7) */
};

/* Prints a topic. Returns false if there is no such topic. */
bool cli_print_reference(const char *topic, enum cli_form form);

#endif
