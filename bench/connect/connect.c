/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time until a backend without a connection has served its first request, and memory that each
 * further connection pins: connect LABEL ENDPOINT
 *
 *   first   the first connection of a process on a device, which creates what the others share
 *   cold    each further one, while those before stay
 *   again   the last one ends, and its backend comes back
 *   prepared  the same, when both ends have had time to prepare
 *   hot     a round trip on a connection that is there
 *   pin     locked memory per further connection, at the gateway and at the backend
 *   polling_cold, polling_hot_rtt  those between ends that never sleep
 *   bootstrap  (older commit only) from the start of 1, 8, 32 backends until each has served a
 *              request, beside a load; virtual.c measures it for this one
 *
 * Rows are LABEL_name<TAB>value<TAB>unit. SL_RPC_KEY_FILE names the key. run.sh also builds it with
 * the sources of an older commit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#ifdef CONNECT_BEFORE
#include "crowd.h"
#endif
#include "ends.h"

enum { CHANNELS = 8, AGAIN = 8, HOT = 400, PREPARE_US = 200000 };

static const char *endpoint;
static struct sl_rpc_channel *channels[CHANNELS];

/* The last one ends, and its backend comes back after a while, in which the others serve. */
static double measure_return(unsigned pause_us)
{
	double us[AGAIN];

	for (unsigned i = 0; i < AGAIN; i++) {
		uint64_t ended_ns;

		end_channels(&channels[CHANNELS - 1], 1);
		ended_ns = sl_now_ns();
		while (us_since(ended_ns) < pause_us)
			request(channels[0]);
		us[i] = connect_channel(channels[CHANNELS - 1], endpoint);
	}
	return median(us, AGAIN);
}

/* Each further one. */
static double measure_cold(void)
{
	double us[CHANNELS];

	for (unsigned i = 1; i < CHANNELS; i++)
		us[i - 1] = connect_channel(channels[i], endpoint);
	return median(us, CHANNELS - 1);
}

static void measure_connecting(pid_t peer)
{
	double here, there;

	row("first", connect_channel(channels[0], endpoint), "us");
	here = pinned_kib(getpid());
	there = pinned_kib(peer);
	row("cold", measure_cold(), "us");
	row("pin_gateway", (pinned_kib(getpid()) - here) / (CHANNELS - 1), "KiB");
	row("pin_backend", (pinned_kib(peer) - there) / (CHANNELS - 1), "KiB");
	row("again", measure_return(0), "us");
	row("prepared", measure_return(PREPARE_US), "us");
}

static double measure_round_trip(void)
{
	double us[HOT];

	for (unsigned i = 0; i < HOT; i++) {
		uint64_t start = sl_now_ns();

		request(channels[0]);
		us[i] = us_since(start);
	}
	return median(us, HOT);
}

static void measure_polling(void)
{
	pid_t peer;

	polling = true;
	peer = start_backend(endpoint, 0);
	(void)connect_channel(channels[0], endpoint);
	row("polling_cold", measure_cold(), "us");
	row("polling_hot_rtt", measure_round_trip(), "us");
	end_channels(channels, CHANNELS);
	stop_backend(peer);
	polling = false;
}

#ifdef CONNECT_BEFORE
void name_endpoint(char at[ENDPOINT_LEN], const char *scheme)
{
	static unsigned port = 7600;
	const char *address = strstr(endpoint, "://") + 3;

	snprintf(at, ENDPOINT_LEN, "%s://%.*s:%u", scheme, (int)strcspn(address, ":"), address,
		 port++);
}

static void measure_bootstrap(void)
{
	static const unsigned cnts[] = {1, 8, 32};
	char name[32];

	for (unsigned i = 0; i < sizeof(cnts) / sizeof(cnts[0]); i++) {
		snprintf(name, sizeof(name), "bootstrap_%u", cnts[i]);
		row(name, bootstrap(channels[0], "rdma", cnts[i]), "ms");
	}
}
#else
static void open_nursery(void)
{
}

static void measure_bootstrap(void)
{
}
#endif

int main(int argc, char **argv)
{
	pid_t peer;

	if (argc == 5 && strcmp(argv[1], "serve") == 0) {
		serve_as_told(argv);
		return 0;
	}
	if (argc != 3) {
		fputs("Usage: connect LABEL ENDPOINT\n", stderr);
		return 2;
	}
	label = argv[1];
	endpoint = argv[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_nursery();
	peer = start_backend(endpoint, 0);
	open_gateway();
	for (unsigned i = 0; i < CHANNELS; i++)
		channels[i] = add_channel();
	measure_connecting(peer);
	row("hot_rtt", measure_round_trip(), "us");
	end_channels(channels + 1, CHANNELS - 1);
	measure_bootstrap();
	end_channels(channels, 1);
	stop_backend(peer);
	measure_polling();
	close_gateway();
	return 0;
}
