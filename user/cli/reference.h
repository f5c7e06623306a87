/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference of keys, metrics, drops, outcomes and commands for `sluice help TOPIC` and `make man`.
 */
#ifndef SL_CLI_REFERENCE_H
#define SL_CLI_REFERENCE_H

#include <stdbool.h>

enum cli_form {
	CLI_TEXT,
	CLI_JSON,
	CLI_ROFF, /* part of a manual page, man(7) */
};

/* Prints a topic on stdout. Returns false if there is no such topic. */
bool cli_print_reference(const char *topic, enum cli_form form);

#endif
