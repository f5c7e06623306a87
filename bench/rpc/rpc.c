/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the RPC between two processes: rpc MODE [ENDPOINT]
 *
 *   rtt       64-byte round trips, both sides polling
 *   hybrid    the same as the product waits: both sides poll for a wake-up's cost, then sleep
 *   rate      64-byte requests per second of one core: each a message, and in batches of 32
 *   bulk      64 KiB requests, bytes per second
 *   idle      processor use of a backend and a gateway that wait for events
 *   polling   spinning, sleeping, and both in turns, with 1, 16 and 256 connections
 *   priority  64-byte latency-class requests while 1 MiB messages saturate the channel, with
 *             classes and with one FIFO
 *   alone     the 1 MiB messages without the others: nobody waits for them
 *
 * Rows are name<TAB>value<TAB>unit. SL_RPC_KEY_FILE names the key for rdma:// and tcp://.
 */
#include <stdio.h>
#include <string.h>
#include "ends.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"rtt", bench_rtt},
		     {"hybrid", bench_rtt_hybrid},
		     {"rate", bench_rate},
		     {"bulk", bench_bulk},
		     {"idle", bench_idle},
		     {"polling", bench_polling},
		     {"priority", bench_priority},
		     {"alone", bench_alone},
		     {"serve-polling", bench_serve_polling},
		     {"serve-sleeping", bench_serve_sleeping}};

	bench_init(argc > 2 ? argv[2] : "shm:///tmp/sl-bench-rpc.sock");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			return 0;
		}
	}
	fputs("Usage: rpc rtt|hybrid|rate|bulk|idle|polling|priority|alone [ENDPOINT]\n", stderr);
	return 2;
}
