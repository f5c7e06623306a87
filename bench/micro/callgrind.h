/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions, counted by callgrind: numbers that do not depend on how busy the machine is. A bench
 * runs itself under valgrind once for each row, and switches counting on and off around what it is
 * about.
 */
#ifndef SL_BENCH_CALLGRIND_H
#define SL_BENCH_CALLGRIND_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

/* Instructions that a run of this program with these arguments has counted, or -1. */
static inline double bench_insns(const char *self, const char *scenario, const char *variant)
{
	char file[] = "/tmp/sl-insns-XXXXXX", option[64], line[128];
	int fd = mkstemp(file), status = -1;
	double total = -1;
	FILE *out;
	pid_t pid;

	snprintf(option, sizeof(option), "--callgrind-out-file=%s", file);
	pid = fork();
	if (pid == 0) {
		execlp("valgrind", "valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
		       option, self, scenario, variant, (char *)NULL);
		fprintf(stderr, "%s: valgrind is not installed: make deps\n", self);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	out = fdopen(fd, "r");
	while (status == 0 && out && fgets(line, sizeof(line), out))
		sscanf(line, "totals: %lf", &total);
	if (out)
		fclose(out);
	unlink(file);
	return total;
}

#endif
