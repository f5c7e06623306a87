/* SPDX-License-Identifier: Apache-2.0 */
/* Numeric options of the examples, and running until SIGTERM or SIGINT. */
#ifndef SL_SDK_PROGRAM_H
#define SL_SDK_PROGRAM_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "sluice/backend.h"

static struct sl_backend *program_backend;

/* Stops the backend. Signal handler. */
static inline void program_stop(int sig)
{
	(void)sig;
	sl_backend_stop(program_backend);
}

/* Reads a number of at most `most`. Returns false after reporting an error on stderr. */
static inline bool program_number(const char *program, const char *text, unsigned long most,
				  unsigned long *out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || v > most) {
		fprintf(stderr, "%s: \"%s\": expected a number of at most %lu\n", program, text,
			most);
		return false;
	}
	*out = v;
	return true;
}

/* Serves until a signal. Returns the exit status. */
static inline int program_run(const char *program, const struct sl_backend_options *opt)
{
	struct sigaction stop = {.sa_handler = program_stop};
	char err[256];
	int rc;

	program_backend = sl_backend_open(opt, err, sizeof(err));
	if (!program_backend) {
		fprintf(stderr, "%s: %s\n", program, err);
		return 1;
	}
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	printf("%s: serving on %s\n", program, opt->listen);
	fflush(stdout);
	rc = sl_backend_run(program_backend);
	sl_backend_close(program_backend);
	return rc < 0;
}

#endif
