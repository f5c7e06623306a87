/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of the serving stack, Ethernet and IP included, counted by callgrind: numbers that
 * do not depend on how busy the machine is. Each row is a run of this program under valgrind. Those
 * that end in "_2_workers" are the same with another worker, and so with the directory of the
 * hand-over: what comes by its own queue must not pay for it.
 */
#include <string.h>

#include "callgrind.h"
#include "tcp_hosts.h"

enum { WARM = 64, COUNTED = 512, SMALL = 64, LEAST = 536 };

static bool counting; /* counts instructions of host 1 now */

static void bed_enter(struct host *h)
{
	if (counting && h == &host[1])
		CALLGRIND_TOGGLE_COLLECT;
}

static void bed_leave(struct host *h)
{
	bed_enter(h);
}

/* Segments of that size in bursts; what is counted is one side's part of it. */
static void bulk(struct host *from, uint16_t payload, unsigned segs, bool on)
{
	from->conn->mss = payload;
	for (unsigned i = 0; i < segs; i += BURST) {
		from->conn->cwnd = 1 << 20;
		counting = on;
		send_text(from, (size_t)BURST * payload);
		counting = on && from == &host[0];
		exchange();
		counting = false;
		exchange();
	}
}

static void receive_full(unsigned cnt, bool on)
{
	bulk(&host[0], MSS, cnt, on);
}

static void receive_small(unsigned cnt, bool on)
{
	bulk(&host[0], SMALL, cnt, on);
}

static void send_full(unsigned cnt, bool on)
{
	bulk(&host[1], MSS, cnt, on);
}

static void send_least(unsigned cnt, bool on)
{
	bulk(&host[1], LEAST, cnt, on);
}

static void connections(unsigned cnt, bool set_up, bool torn_down)
{
	for (unsigned i = 0; i < cnt; i++) {
		counting = set_up;
		connect_one();
		exchange();
		exchange();
		counting = torn_down;
		disconnect();
		counting = false;
	}
}

static void set_up(unsigned cnt, bool on)
{
	connections(cnt, on, false);
}

static void tear_down(unsigned cnt, bool on)
{
	connections(cnt, false, on);
}

static void cookies(unsigned cnt, bool on)
{
	host[1].tcp->cfg.max_half_open = 0;
	for (unsigned i = 0; i < cnt; i++) {
		connect_one();
		sl_tcp_abort(host[0].conn);
		carry(&host[0], &host[1]);
		counting = on;
		receive(&host[1]);
		counting = false;
		sl_fake_complete(&host[1].port, UINT32_MAX);
	}
}

static const struct scenario {
	const char *name;
	void (*run)(unsigned cnt, bool on);
	bool connected;
} scenarios[] = {
	{"tcp_segment_received_1448", receive_full, true},
	{"tcp_segment_received_64", receive_small, true},
	{"tcp_segment_sent_1448", send_full, true},
	{"tcp_segment_sent_536", send_least, true},
	{"tcp_connection_set_up", set_up, false},
	{"tcp_connection_torn_down", tear_down, false},
	{"tcp_syn_cookie_sent", cookies, false},
};

/* Under valgrind. */
static void run(const struct scenario *s, bool two_workers)
{
	struct sl_handover_hub *hub = NULL;

	start(&host[0], 0);
	start(&host[1], 1);
	if (two_workers) {
		hub = sl_handover_hub_create(2, 1024, 2048);
		if (!hub || sl_handover_join(hub, 0, &host[1].net))
			exit(1);
	}
	if (s->connected) {
		connect_one();
		exchange();
		exchange();
	}
	s->run(WARM, false);
	s->run(COUNTED, true);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(scenarios); i++) {
		const struct scenario *s = &scenarios[i];

		if (argc == 3) {
			if (strcmp(s->name, argv[1]) == 0)
				run(s, argv[2][0] == '2');
			continue;
		}
		for (int workers = 1; workers <= 2; workers++) {
			double insns = bench_insns(argv[0], s->name, workers == 2 ? "2" : "1");
			char name[64];

			if (insns <= 0)
				return 1;
			snprintf(name, sizeof(name), "%s%s", s->name,
				 workers == 2 ? "_2_workers" : "");
			bench_row(name, insns / COUNTED, "instructions");
		}
	}
	return 0;
}
