/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tools/demo/demo.h"

static void keep_until_stopped(const struct demo *d)
{
	printf("\nThe arena stays until ^C. Another terminal can now do:\n"
	       "  ip netns exec " DEMO_CLIENT " curl http://" DEMO_V4 ":8080/\n"
	       "  ip netns exec " DEMO_CLIENT " wrk -c 64 -d 10s http://" DEMO_V4 ":8080/echo\n"
	       "  echo hi | ip netns exec " DEMO_CLIENT " %s/datagram " DEMO_V4 " 8080 1\n"
	       "  ip netns exec " DEMO_GW " %s/sluice top\n"
	       "  ip netns exec " DEMO_GW " %s/sluice set score size=4\n"
	       "  bpftool map dump pinned /sys/fs/bpf/sluice/sl0/sl_svc_live\n"
	       "Configuration and log: " DEMO_DIR "/demo.conf, gateway.log\n",
	       d->bin, d->bin, d->bin);
	fflush(stdout);
	while (term_sleep(1000000000)) {
		if (!proc_alive(d->gateway)) {
			puts("the gateway has ended");
			return;
		}
	}
}

static int find_binaries(struct demo *d)
{
	static const char *const names[] = {"sluice", "echo", "score", "datagram"};
	ssize_t n = readlink("/proc/self/exe", d->bin, sizeof(d->bin) - 1);
	char path[4200];

	if (n < 0)
		return cli_error("demo", "/proc/self/exe cannot be read");
	d->bin[n] = 0;
	*strrchr(d->bin, '/') = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", d->bin, names[i]);
		if (access(path, X_OK) != 0)
			return cli_error("demo", "found no %s; `make` builds it", path);
	}
	return CLI_OK;
}

int cli_demo(int argc, char **argv)
{
	struct demo d = {.lock_fd = -1};
	struct cli_options o;
	bool done = false;

	if (!cli_take_only_options(argc, argv, "km", &o))
		return CLI_USAGE;
	if (geteuid() != 0)
		return cli_error("demo", "makes namespaces and attaches XDP: run it as root");
	if (find_binaries(&d) != CLI_OK)
		return CLI_FAILED;
	term_catch_signals();
	if (demo_clear(&d) == 0 && demo_build(&d) == 0) {
		done = demo_checks(&d) == 0 && demo_show_stages(&d) &&
		       (!o.maps || demo_show_maps(&d));
		if (done && o.keep)
			keep_until_stopped(&d);
		else if (done)
			puts("\nWhere to look next\n"
			     "  sudo build/sluice demo --keep   it stays until ^C, for clients of your own\n"
			     "  build/sluice help config        every key of a configuration\n"
			     "  less README.md                  run it on an interface, write a backend\n");
	}
	demo_destroy(&d);
	if (d.why[0])
		fprintf(stderr, "sluice demo: %s\n", d.why);
	else if (!done)
		fprintf(stderr, "sluice demo: interrupted\n");
	d.failed += d.why[0] || !done;
	printf("demo: %u requests, %u ok, %u failed\n", d.requests, d.ok, d.failed);
	return d.failed ? CLI_FAILED : CLI_OK;
}
