/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: keys of a configuration, metrics, drops, outcomes and commands, each printed from
 * the table that the program uses. `sluice help TOPIC` prints it; `make man` makes the manual pages
 * from it.
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
