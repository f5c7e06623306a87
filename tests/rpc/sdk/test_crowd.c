/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As many virtual connections as a backend takes: what they pin, and what the system has for them, is what
 * a few take; what is resident grows by what rpc/rdma/ud/README.md says of each. The pair that all share may
 * grow meanwhile, once, if the machine is slow: so what is pinned is held against what is when most have
 * gone.
 */
#define HARNESS_ENDPOINTS "ud"
#include <dirent.h>
#include <sys/prctl.h>
#include "rpc_harness.h"
#include "suite.h"

enum {
	FEW = 8,
	MOST = 1024,
	EACH_KIB = 12, /* at both ends; README.md says 5.0 and 4.7 */
	GROWTHS = 2,   /* memory regions: the pair that all share may grow once at each end */
};

/* At both ends together. */
struct held {
	long pinned_kib, resident_kib;
	unsigned fds;
	char resources[1024]; /* one line per device of the guest */
};

static struct held *seen; /* includes the caller */
static struct sl_rpc_channel *channels[MOST];

static long kib_of(pid_t pid, const char *what)
{
	char path[64], line[128];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, what, strlen(what)) == 0)
			kib = strtol(line + strlen(what), NULL, 10);
	}
	fclose(f);
	ck_assert_int_ge(kib, 0);
	return kib;
}

static unsigned fds_of(pid_t pid)
{
	char path[64];
	unsigned cnt = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		cnt++;
	closedir(d);
	return cnt;
}

static void list_resources(const void *arg)
{
	FILE *f = popen("rdma resource show", "re");
	size_t len;

	(void)arg;
	len = f ? fread(seen->resources, 1, sizeof(seen->resources) - 1, f) : 0;
	seen->resources[len] = 0;
	_exit(f && pclose(f) == 0 && len ? 0 : 1);
}

/* Removes the counts of memory regions from a list, and returns their sum. */
static long cut_regions(char *list)
{
	long sum = 0;
	char *end;

	for (char *at = list; (at = strstr(at, " mr ")) != NULL;) {
		sum += strtol(at + strlen(" mr "), &end, 10);
		memmove(at, end, strlen(end) + 1);
	}
	return sum;
}

static void look(struct held *h, pid_t backend, bool device)
{
	*seen = (struct held){.pinned_kib = kib_of(getpid(), "VmPin:") + kib_of(backend, "VmPin:"),
			      .resident_kib =
				      kib_of(getpid(), "VmRSS:") + kib_of(backend, "VmRSS:"),
			      .fds = fds_of(getpid()) + fds_of(backend)};
	if (device)
		ck_assert_int_eq(
			backend_wait((struct backend_proc){harness_spawn(list_resources, "", 1)}),
			0);
	*h = *seen;
}

/* Each is used once: what that took is given back. */
static void open_up_to(struct gateway *g, const char *ep, unsigned *cnt, unsigned to)
{
	for (; *cnt < to; ++*cnt) {
		channels[*cnt] = g->ch = sl_rpc_channel_add(g->r, "test", NULL);
		ck_assert_int_eq(sl_rpc_adopt(g->ch, gw_dial(ep, 64, 0), sl_now_ns()), 0);
		gw_expect_one_answer(g);
	}
	for (unsigned i = 0; i < 100; i++) {
		usleep(5000);
		gw_turn(g);
	}
}

static void close_down_to(struct gateway *g, unsigned *cnt, unsigned to)
{
	unsigned gone = g->downs + *cnt - to;

	while (*cnt > to)
		sl_rpc_channel_drain(channels[--*cnt]);
	gw_until(g, g->downs == gone);
}

TEST_EACH(a_thousand_connections_pin_as_much_as_a_few, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	bool device = getenv("SL_RPC_KEY_FILE") != NULL;
	const unsigned most = harness_emulated() ? MOST / 4 : MOST;
	struct held few, many, rest;
	struct backend_proc p;
	struct sl_rpc_config cfg;
	struct gateway g;
	unsigned cnt = 0;

	if (strncmp(ep, "rdma+ud://", 10) != 0)
		return;
	/* Resident memory must be about the used memory, also in the backend. */
	ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	sl_rpc_config_default(&cfg);
	/* So many that ask each second are too much for an emulated machine. */
	cfg.ping_interval_ns = 4 * SL_NS_PER_SEC;
	g = (struct gateway){.r = sl_rpc_create(&cfg, NULL, &gw_ops, &g)};
	open_up_to(&g, ep, &cnt, FEW);
	look(&few, p.pid, device);
	open_up_to(&g, ep, &cnt, most);
	look(&many, p.pid, device);
	ck_assert_uint_eq(g.downs, 0);
	close_down_to(&g, &cnt, FEW);
	look(&rest, p.pid, device);
	printf("%u: %ld KiB pinned, %ld resident; %u: %ld, %ld; then %u: %ld\n", FEW,
	       few.pinned_kib, few.resident_kib, most, many.pinned_kib, many.resident_kib, FEW,
	       rest.pinned_kib);
	ck_assert(!device || few.pinned_kib);
	ck_assert_int_ge(rest.pinned_kib, many.pinned_kib);
	ck_assert_uint_eq(many.fds, few.fds);
	ck_assert_int_le(cut_regions(many.resources) - cut_regions(few.resources), GROWTHS);
	ck_assert_str_eq(many.resources, few.resources);
	ck_assert_int_le(many.resident_kib - few.resident_kib - (many.pinned_kib - few.pinned_kib),
			 ((long)most - FEW) * EACH_KIB);
	gw_close(&g);
	backend_term(p);
}
