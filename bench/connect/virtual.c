/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same of virtual connections, which are memory over one queue pair of each end: virtual ADDRESS
 * PORT; the ports from there on are its own.
 *
 *   first    until the first reply by the first connection of a process on a device
 *   new      by each further one; between them
 *   hot_rtt  round trips on the first one
 *   polling_new, polling_hot_rtt  those between ends that never sleep
 *   pin      locked memory per connection, from FEW to MANY of them, at both ends together
 *   qp, cq, fd  how many there are of them with FEW, and with MANY: of the guest, and of both ends
 *   bootstrap  from the start of 1, 8, 32 backends until each has served a request, beside a load; and
 *            the same over rdma://
 *   start    of that until they listen: the start of their processes, whatever connects them
 *   hot_p99  of round trips, while others connect; (quiet) while nobody does; (carrying) beside as many
 *            requests as those others make, over connections that are there
 *   busy     share of dials that come through while the backend's handler computes, of either kind
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "crowd.h"
#include "ends.h"

enum {
	PEERS = 4, /* one takes 256 gateways' connections */
	NEW = 64,
	HOT_EACH = 8, /* round trips for each new connection */
	FEW = 8,
	MANY = 1024,
	HOT_TURNS = 6,
	HOT_TURN = 300, /* round trips */
	/* A backend's first connection is followed by what all of them share: a thread, and its descriptors. */
	SETTLE_US = 200000,
};

struct held {
	double pinned_kib, fd, qp, cq;
};

static const char *address;
static unsigned next_port;
static char endpoints[PEERS][ENDPOINT_LEN];
static pid_t peers[PEERS];
static struct sl_rpc_channel *channels[MANY];

void name_endpoint(char at[ENDPOINT_LEN], const char *scheme)
{
	snprintf(at, ENDPOINT_LEN, "%s://%s:%u", scheme, address, next_port++);
}

/* --- until the first reply --- */

static void measure_new(const char *endpoint, const char *const names[3])
{
	struct sl_rpc_channel *hot = add_channel(), *ch = add_channel();
	double new_us[NEW], hot_us[NEW * HOT_EACH];

	row(names[0], connect_channel(hot, endpoint), "us");
	for (unsigned i = 0; i < NEW; i++) {
		new_us[i] = connect_channel(ch, endpoint);
		for (unsigned k = 0; k < HOT_EACH; k++) {
			uint64_t start = sl_now_ns();

			request(hot);
			hot_us[i * HOT_EACH + k] = us_since(start);
		}
		end_channels(&ch, 1);
	}
	end_channels(&hot, 1);
	row(names[1], median(new_us, NEW), "us");
	row(names[2], median(hot_us, NEW * HOT_EACH), "us");
}

static void measure_polling(void)
{
	char endpoint[ENDPOINT_LEN];
	pid_t pid;

	name_endpoint(endpoint, "rdma+ud");
	polling = true;
	pid = start_backend(endpoint, 0);
	measure_new(endpoint,
		    (const char *const[]){"polling_first", "polling_new", "polling_hot_rtt"});
	stop_backend(pid);
	polling = false;
}

/* --- what grows with their number --- */

static unsigned fds_of(pid_t pid)
{
	char path[64];
	unsigned cnt = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		die("cannot list descriptors");
	while (readdir(d))
		cnt++;
	closedir(d);
	return cnt - 2; /* . and .. */
}

/* All of the guest: a line per device, "0: rxe0: pd 3 cq 5 qp 3 cm_id 1 ..". */
static void count_queues(struct held *h)
{
	FILE *f = popen("rdma resource show", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		const char *cq = strstr(line, " cq "), *qp = strstr(line, " qp ");

		h->cq += cq ? strtod(cq + 4, NULL) : 0;
		h->qp += qp ? strtod(qp + 4, NULL) : 0;
	}
	if (!f || pclose(f) || !h->cq || !h->qp)
		die("`rdma resource show` says nothing");
}

static struct held count_held(void)
{
	struct held h = {.pinned_kib = pinned_kib(getpid()), .fd = fds_of(getpid())};

	for (unsigned i = 0; i < PEERS; i++) {
		h.pinned_kib += pinned_kib(peers[i]);
		h.fd += fds_of(peers[i]);
	}
	count_queues(&h);
	return h;
}

static void connect_up_to(unsigned from, unsigned cnt)
{
	for (unsigned i = from; i < cnt; i++) {
		channels[i] = add_channel();
		(void)connect_channel(channels[i], endpoints[i % PEERS]);
	}
}

static void measure_growth(void)
{
	struct held few, many;

	connect_up_to(0, FEW);
	usleep(SETTLE_US);
	few = count_held();
	connect_up_to(FEW, MANY);
	many = count_held();
	row("pin", (many.pinned_kib - few.pinned_kib) / (MANY - FEW), "KiB");
	row("qp_few", few.qp, "");
	row("qp_many", many.qp, "");
	row("cq_few", few.cq, "");
	row("cq_many", many.cq, "");
	row("fd_few", few.fd, "");
	row("fd_many", many.fd, "");
	/* All of them are still there. */
	for (unsigned i = 0; i < MANY; i++)
		request(channels[i]);
	for (unsigned i = 0; i < MANY; i += MANY / 16)
		end_channels(channels + i, MANY / 16);
}

/* --- many at once --- */

static void measure_bootstrap(struct sl_rpc_channel *hot)
{
	static const unsigned cnts[] = {1, 8, 32};
	static const struct {
		const char *name, *scheme;
		double (*measure)(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt);
	} rows[] = {
		{"start_rc", "rdma", start_up},
		{"bootstrap_rc", "rdma", bootstrap},
		{"start", "rdma+ud", start_up},
		{"bootstrap", "rdma+ud", bootstrap},
	};
	char name[32];

	/* Frame memory is registered with the device once. */
	(void)bootstrap(hot, "rdma", 1);
	for (unsigned i = 0; i < SL_ARRAY_LEN(cnts); i++) {
		for (unsigned k = 0; k < SL_ARRAY_LEN(rows); k++) {
			snprintf(name, sizeof(name), "%s_%u", rows[k].name, cnts[i]);
			row(name, rows[k].measure(hot, rows[k].scheme, cnts[i]), "ms");
		}
	}
}

static void measure_p99(struct sl_rpc_channel *hot)
{
	static double us[3][HOT_TURNS * HOT_TURN];
	static const char *const names[] = {"hot_p99_quiet", "hot_p99", "hot_p99_carrying"};
	struct beside nothing = {.cnt = 0},
		      connect = {.endpoints = endpoints + 1, .cnt = PEERS - 1},
		      requests = {.carriers = channels, .cnt = PEERS - 1};

	for (unsigned i = 0; i < PEERS - 1; i++)
		(void)connect_channel(channels[i], endpoints[i + 1]);
	keep_process_to(HOT_CPU, getpid());
	for (unsigned i = 0; i < PEERS; i++)
		keep_process_to(i ? OTHERS_CPU : HOT_CPU, peers[i]);
	for (unsigned i = 0; i < HOT_TURNS; i++) {
		unsigned at = i * HOT_TURN;

		(void)measure_hot(hot, &nothing, us[0] + at, HOT_TURN);
		requests.every_us = measure_hot(hot, &connect, us[1] + at, HOT_TURN);
		(void)measure_hot(hot, &requests, us[2] + at, HOT_TURN);
	}
	for (unsigned i = 0; i < SL_ARRAY_LEN(names); i++)
		row(names[i], percentile(us[i], SL_ARRAY_LEN(us[i]), 99), "us");
	end_channels(channels, PEERS - 1);
}

int main(int argc, char **argv)
{
	struct sl_rpc_channel *hot;

	if (argc == 5 && strcmp(argv[1], "serve") == 0) {
		serve_as_told(argv);
		return 0;
	}
	if (argc != 3) {
		fputs("Usage: virtual ADDRESS PORT\n", stderr);
		return 2;
	}
	label = "virtual";
	address = argv[1];
	next_port = (unsigned)strtoul(argv[2], NULL, 10);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_nursery();
	for (unsigned i = 0; i < PEERS; i++) {
		name_endpoint(endpoints[i], "rdma+ud");
		peers[i] = start_backend(endpoints[i], 0);
	}
	open_gateway();
	measure_new(endpoints[0], (const char *const[]){"first", "new", "hot_rtt"});
	measure_polling();
	measure_growth();
	hot = add_channel();
	(void)connect_channel(hot, endpoints[0]);
	measure_bootstrap(hot);
	row("busy", (share_at_busy("rdma+ud") + share_at_busy("rdma")) / 2, "");
	measure_p99(hot);
	end_channels(&hot, 1);
	close_gateway();
	for (unsigned i = 0; i < PEERS; i++)
		stop_backend(peers[i]);
	return 0;
}
