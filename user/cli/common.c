/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli.h"
#include "config/config.h"
#include "front/grpc_descriptors.h"

volatile int cli_stopped;

static void on_stop(int sig)
{
	cli_stopped = sig;
}

void cli_catch_signals(void)
{
	struct sigaction act = {.sa_handler = on_stop};

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool cli_sleep(uint64_t ns)
{
	uint64_t until = sl_now_ns() + ns, now;

	/* In slices: a signal between the test and the sleep is noticed all the same. */
	while (!cli_stopped && (now = sl_now_ns()) < until) {
		uint64_t left = until - now < 50 * SL_NS_PER_MS ? until - now : 50 * SL_NS_PER_MS;

		nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
	}
	return !cli_stopped;
}

static int load_descriptors(struct sl_config *c, char *err, size_t err_len)
{
	char why[500];

	if (!c->descriptor_set_cnt)
		return 0;
	c->descriptors =
		sl_descriptors_load(c->descriptor_sets, c->descriptor_set_cnt, why, sizeof(why));
	if (!c->descriptors)
		snprintf(err, err_len, "%s:%d: %s", c->file, c->descriptor_sets_line, why);
	return c->descriptors ? 0 : -1;
}

struct sl_config *cli_config_load(const char *file, char *err, size_t err_len)
{
	struct sl_config *c = sl_config_load(file, err, err_len);

	if (c && sl_config_check_system(c, err, err_len) == 0 &&
	    load_descriptors(c, err, err_len) == 0)
		return c;
	cli_config_free(c);
	return NULL;
}

void cli_config_free(struct sl_config *c)
{
	if (c)
		sl_descriptors_free(c->descriptors);
	sl_config_free(c);
}

static void say(const char *command, const char *fmt, va_list ap)
{
	fprintf(stderr, "sluice %s: ", command);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int cli_error(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(command, fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(command, fmt, ap);
	va_end(ap);
	fprintf(stderr, "`sluice %s --help` says more\n", command);
	return CLI_USAGE;
}

int cli_take_options(int argc, char **argv, const char *allowed, struct cli_options *o)
{
	struct {
		char letter;
		const char *brief, *name;
		const char **text;
		bool *flag;
	} table[] = {
		{'c', "-c", "--config", &o->config, NULL},
		{'a', "", "--admin", &o->admin, NULL},
		{'i', "-i", "--interval", &o->interval, NULL},
		{'n', "-n", "--count", &o->count, NULL},
		{'j', "-j", "--json", NULL, &o->json},
		{'k', "-k", "--keep", NULL, &o->keep},
		{'d', "", "--defaults", NULL, &o->defaults},
		{'w', "-w", "--wait", NULL, &o->wait},
	};
	int left = 1;
	bool only_args = false;

	*o = (struct cli_options){0};
	for (int i = 1; i < argc; i++) {
		size_t k, n = sizeof(table) / sizeof(table[0]);

		if (only_args || argv[i][0] != '-' || !argv[i][1]) {
			argv[left++] = argv[i];
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			only_args = true;
			continue;
		}
		for (k = 0; k < n; k++) {
			if (strchr(allowed, table[k].letter) &&
			    (strcmp(argv[i], table[k].brief) == 0 ||
			     strcmp(argv[i], table[k].name) == 0))
				break;
		}
		if (k == n || (table[k].text && i + 1 == argc)) {
			cli_usage(argv[0], "found option \"%.64s\"%s", argv[i],
				  k == n ? ", which it does not have" : " without its value");
			return -1;
		}
		if (table[k].text)
			*table[k].text = argv[++i];
		else
			*table[k].flag = true;
	}
	argv[left] = NULL;
	return left;
}

static char *next_buffer(void)
{
	static char buffers[16][SL_UNIT_TEXT];
	static unsigned at;

	return buffers[at++ % 16];
}

const char *cli_time(double ns)
{
	return ns > 0 ? sl_format_duration(next_buffer(), (uint64_t)ns) : "-";
}

const char *cli_count(double n)
{
	static const char units[] = " kMGT";
	char *buf = next_buffer();
	unsigned u = 0;

	while (n >= 99999.5 || (u && n >= 999.5)) {
		n /= 1000;
		u++;
		if (u == 4)
			break;
	}
	if (!u)
		snprintf(buf, SL_UNIT_TEXT, n < 10 && n != floor(n) ? "%.1f" : "%.0f", n);
	else
		snprintf(buf, SL_UNIT_TEXT, n < 100 ? "%.1f%c" : "%.0f%c", n, units[u]);
	return buf;
}
