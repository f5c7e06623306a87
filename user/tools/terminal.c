/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/terminal.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/units.h"

volatile int term_stopped;

static void on_stop(int sig)
{
	term_stopped = sig;
}

void term_catch_signals(void)
{
	struct sigaction act = {.sa_handler = on_stop};

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool term_sleep(uint64_t ns)
{
	uint64_t until = sl_now_ns() + ns, now;

	/* Slices: a signal between test and sleep is noticed. */
	while (!term_stopped && (now = sl_now_ns()) < until) {
		uint64_t left = until - now < 50 * SL_NS_PER_MS ? until - now : 50 * SL_NS_PER_MS;

		nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
	}
	return !term_stopped;
}

static char *next_buffer(void)
{
	static char buffers[16][SL_UNIT_TEXT];
	static unsigned at;

	return buffers[at++ % 16];
}

const char *term_time(double ns)
{
	return ns > 0 ? sl_format_duration(next_buffer(), (uint64_t)ns) : "-";
}

const char *term_count(double n)
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
