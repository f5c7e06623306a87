/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: keys of a configuration, metrics, drops, outcomes and commands, each printed from
 * the table that the program itself goes by. `sluice help TOPIC` shows it, the manual pages are made
 * of it (`make man`).
 */
#ifndef SL_CLI_REFERENCE_H
#define SL_CLI_REFERENCE_H

#include <stdbool.h>

enum cli_form {
	CLI_TEXT, /* for a terminal */
	CLI_JSON,
	CLI_ROFF, /* a part of a manual page, man(7) */
};

/* False: there is no such topic, and nothing was printed. */
bool cli_print_reference(const char *topic, enum cli_form form);

#endif
