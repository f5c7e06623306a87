/* SPDX-License-Identifier: Apache-2.0 */
/* The program on the interface: attaching, adopting, sharing, pins, and that it goes with the
 * process. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "base/check.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"
#include "netns.h"
#include "suite.h"

static const struct sl_xdp_options plain = {.worker_cnt = 2, .service_cnt = 3};
static struct sl_xdp xdp;
static struct sl_err err = SL_ERR(256);
static bool dispatcher; /* whether this kernel has it: both ways have to behave the same */

static const char *const map_names[SL_MAP_CNT] = {
	"sl_listeners", "sl_xsks",    "sl_queues", "sl_rx_drops", "sl_svc_hist", "sl_svc_live",
	"sl_stages",    "sl_svc_ctl", "sl_edge",   "sl_prefix4",  "sl_prefix6",  "sl_offenders",
};

/* ---- helpers ---- */

static void set_up(void)
{
	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", 1), 0);
	dispatcher = sl_probe_freplace() == 0;
}

static enum sl_xdp_attach own_attach(void)
{
	return dispatcher ? SL_XDP_DISPATCHER : SL_XDP_LINK;
}

static void expect_mode(const char *mode)
{
	char want[128];

	snprintf(want, sizeof(want), "%s, %s", mode,
		 dispatcher ? "libxdp dispatcher" : "single program");
	ck_assert_msg(strstr(xdp.mode, want) == xdp.mode, "'%s', not '%s'", xdp.mode, want);
	ck_assert_int_eq(strstr(xdp.mode, "(no dispatcher: ") != NULL, !dispatcher);
}

/* Returns the id of the program on the interface, be it a dispatcher. */
static uint32_t attached(const char *ifname)
{
	uint32_t id = 0;

	ck_assert_int_eq(bpf_xdp_query_id((int)if_nametoindex(ifname), 0, &id), 0);
	return id;
}

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	ck_assert_int_eq(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	return info.id;
}

static uint32_t pinned_id(const char *dir, const char *name)
{
	char path[256];
	uint32_t id = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = bpf_obj_get(path);
	if (fd >= 0) {
		id = map_id(fd);
		close(fd);
	}
	return id;
}

static void expect_open(const struct sl_xdp_options *o)
{
	ck_assert_msg(sl_xdp_open(&xdp, "sl0", o, &err) == 0, "%s", err.text);
}

/* Refused with a line that has `part` in it, and nothing left behind. */
static void expect_refused(const char *ifname, const struct sl_xdp_options *o, int res,
			   const char *part)
{
	struct sl_xdp x;
	int got = sl_xdp_open(&x, ifname, o, &err);

	ck_assert_msg(got == res, "%d (%s), not %d", got, err.text, res);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' lacks '%s'", err.text, part);
	ck_assert_ptr_null(strchr(err.text, '\n'));
	for (int i = 0; i < SL_MAP_CNT; i++)
		ck_assert_int_eq(x.map_fd[i], -1);
}

/* The object beside this test in the build folder. */
static const char *object_path(void)
{
	static char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *at;

	ck_assert_int_gt(len, 0);
	path[len] = '\0';
	at = strstr(path, "/tests/bpf/xio/");
	ck_assert_ptr_nonnull(at);
	strcpy(at, "/sluice.bpf.o");
	return path;
}

static unsigned dir_entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned cnt = 0;

	while (d && readdir(d))
		cnt++;
	if (d)
		closedir(d);
	return cnt;
}

/* ---- tests ---- */

FIXTURE(set_up, NULL)

TEST(open_and_close)
{
	expect_open(&plain);
	ck_assert_int_eq(xdp.attach, own_attach());
	ck_assert_str_eq(err.text, "");
	expect_mode("native");
	ck_assert_uint_ne(xdp.prog_id, 0);
	ck_assert_uint_ne(attached("sl0"), 0);
	ck_assert_int_eq(attached("sl0") == xdp.prog_id, !dispatcher);
	ck_assert_uint_eq(xdp.worker_cnt, 2);
	ck_assert_uint_eq(xdp.service_cnt, 3);
	ck_assert_str_eq(xdp.pin_dir, SL_PIN_ROOT "/sl0");
	for (int i = 0; i < SL_MAP_CNT; i++)
		ck_assert_uint_eq(pinned_id(xdp.pin_dir, map_names[i]), map_id(xdp.map_fd[i]));
	sl_xdp_close(&xdp);
	ck_assert_uint_eq(attached("sl0"), 0);
	ck_assert_uint_eq(dir_entries(SL_PIN_ROOT "/sl0"), 0);
	sl_xdp_close(&xdp); /* idempotent */
	expect_open(&plain);
	sl_xdp_close(&xdp);
}

/* Values written through the mapping are seen by readers of the map, at the index of abi.h. */
TEST(mapped_memory_is_the_map)
{
	const uint32_t live_key = sl_live_index(3, 1, 2);
	const uint32_t hist_key = sl_hist_index(3, 1, 2, SL_STAGE_TOTAL);
	const uint32_t ctl_key = 2;
	struct sl_svc_live live;
	struct sl_svc_hist hist;
	struct sl_svc_ctl ctl = {.batch_size = 17};

	expect_open(&plain);
	sl_xdp_live(&xdp, 1, 2)->batch_cap = 99;
	sl_xdp_hist(&xdp, 1, 2, SL_STAGE_TOTAL)->bucket[SL_HIST_BUCKET_CNT - 1] = 42;
	ck_assert_int_eq(bpf_map_lookup_elem(xdp.map_fd[SL_MAP_SVC_LIVE], &live_key, &live), 0);
	ck_assert_uint_eq(live.batch_cap, 99);
	ck_assert_int_eq(bpf_map_lookup_elem(xdp.map_fd[SL_MAP_SVC_HIST], &hist_key, &hist), 0);
	ck_assert_uint_eq(hist.bucket[SL_HIST_BUCKET_CNT - 1], 42);
	ck_assert_int_eq(bpf_map_update_elem(xdp.map_fd[SL_MAP_SVC_CTL], &ctl_key, &ctl, 0), 0);
	ck_assert_uint_eq(xdp.ctl[2].batch_size, 17);
	/* exactly as large as asked for */
	ck_assert_uint_eq(sl_hist_index(3, 1, 2, SL_STAGE_CNT - 1) + 1, 2 * 3 * SL_STAGE_CNT);
	ck_assert_int_lt(bpf_map_lookup_elem(xdp.map_fd[SL_MAP_SVC_CTL], &(uint32_t){3}, &ctl), 0);
	sl_xdp_close(&xdp);
}

TEST(bpftool_prints_field_names)
{
	static const struct {
		const char *map, *field;
	} fields[] = {
		{"sl_svc_live", "batch_cap"},     {"sl_svc_ctl", "deadline_ns"},
		{"sl_svc_hist", "sum_ns"},        {"sl_queues", "worker"},
		{"sl_listeners", "shed_service"}, {"sl_stages", "p99_ns"},
	};
	const struct sl_listener_key key = {.port = htons(80), .family = 4, .protocol = 6};
	const struct sl_listener l = {.shed_service = SL_ANY_SERVICE};
	const struct sl_stage_key stage = {.pool = "score", .stage = SL_STAGE_QUEUE};

	expect_open(&plain);
	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
	ck_assert_int_eq(sl_xdp_set_stage(&xdp, &stage, &(struct sl_stage_times){.p99_ns = 7}), 0);
	for (size_t i = 0; i < SL_ARRAY_LEN(fields); i++)
		ck_assert_msg(test_sh("bpftool map dump pinned %s/%s | grep -q '\"%s\"'",
				      xdp.pin_dir, fields[i].map, fields[i].field) == 0,
			      "%s has no %s", fields[i].map, fields[i].field);
	ck_assert_int_eq(test_sh("bpftool map dump pinned %s/sl_stages | tr -d ' \n' | "
				 "grep -q '\"pool\":\"score\",\"stage\":\"SL_STAGE_QUEUE\"'",
				 xdp.pin_dir),
			 0);
	sl_xdp_clear_stages(&xdp);
	ck_assert_int_ne(
		test_sh("bpftool map dump pinned %s/sl_stages | grep -q score", xdp.pin_dir), 0);
	sl_xdp_close(&xdp);
}

TEST(generic_when_asked_or_native_refused)
{
	struct sl_xdp_options o = plain;

	o.generic = true;
	expect_open(&o);
	ck_assert(xdp.generic);
	expect_mode("generic (as configured)");
	sl_xdp_close(&xdp);

	ck_assert_int_eq(test_sh("ip link add sld type ifb && ip link set sld up"), 0);
	ck_assert_int_eq(sl_xdp_open(&xdp, "sld", &plain, &err), 0);
	ck_assert(xdp.generic);
	expect_mode("generic (native refused: Operation not supported)");
	sl_xdp_close(&xdp);
	ck_assert_uint_eq(attached("sld"), 0);
}

TEST(failed_attach_reports_the_reason)
{
	struct sl_xdp_options o = plain;
	char folder[] = "/tmp/sl-pins-XXXXXX";

	expect_refused("nosuch0", &plain, -ENODEV, "interface nosuch0 does not exist");
	expect_refused("a-name-that-no-interface-can-have", &plain, -ENODEV, "does not exist");
	expect_refused("lo", &plain, -EINVAL, "not an Ethernet interface");
	o.worker_cnt = 0;
	expect_refused("sl0", &o, -EINVAL, "0 workers");
	o.worker_cnt = SL_MAX_WORKERS + 1;
	expect_refused("sl0", &o, -EINVAL, "17 workers");
	o = plain;
	o.service_cnt = SL_MAX_SERVICES + 1;
	expect_refused("sl0", &o, -EINVAL, "257 services");
	/* A late step that fails takes the program off again. */
	o = plain;
	o.pin_root = "/proc/nowhere";
	expect_refused("sl0", &o, -ENOENT, "cannot pin the maps in /proc/nowhere: ");
	ck_assert_uint_eq(attached("sl0"), 0);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	o.pin_root = folder;
	expect_refused("sl0", &o, -EPERM, "/sl0: Operation not permitted");
	ck_assert_ptr_null(strstr(err.text, "another account"));
	ck_assert_uint_eq(attached("sl0"), 0);
	rmdir(folder);
	expect_open(&plain);
	sl_xdp_close(&xdp);
}

/* The owner of the folder, or any user that can write to it, could replace the pinned maps. */
TEST(folder_of_another_account_gets_no_pins)
{
	const char *at = SL_BPFFS "/sl-test-owner";
	struct sl_xdp_options o = plain;

	o.pin_root = at;
	ck_assert_int_eq(mkdir(at, 0700), 0);
	ck_assert_int_eq(chown(at, 1234, 1234), 0);
	expect_refused("sl0", &o, -EPERM,
		       "sl-test-owner: Operation not permitted (found a folder that another");
	ck_assert_int_eq(chown(at, 0, 0), 0);
	ck_assert_int_eq(chmod(at, 0770), 0);
	expect_refused("sl0", &o, -EPERM, "another account owns or may write");
	ck_assert_int_eq(chmod(at, 0700), 0);
	ck_assert_int_eq(mkdir(SL_BPFFS "/sl-test-owner/sl0", 0777), 0);
	ck_assert_int_eq(chown(SL_BPFFS "/sl-test-owner/sl0", 1234, 1234), 0);
	expect_refused("sl0", &o, -EPERM, "sl-test-owner/sl0: Operation not permitted (found");
	ck_assert_int_eq(rmdir(SL_BPFFS "/sl-test-owner/sl0"), 0);
	ck_assert_uint_eq(attached("sl0"), 0);
	expect_open(&o);
	sl_xdp_close(&xdp);
	ck_assert_int_eq(rmdir(at), 0);
}

TEST(no_dispatcher_when_not_wanted)
{
	struct sl_xdp_options o = plain;

	o.no_dispatcher = true;
	expect_open(&o);
	ck_assert_int_eq(xdp.attach, SL_XDP_LINK);
	ck_assert_str_eq(xdp.mode, "native, single program");
	ck_assert_uint_eq(attached("sl0"), xdp.prog_id);
	sl_xdp_close(&xdp);
	ck_assert_uint_eq(attached("sl0"), 0);
}

TEST(no_pins_when_not_wanted)
{
	struct sl_xdp_options o = plain;

	o.pin_root = "";
	expect_open(&o);
	ck_assert_str_eq(xdp.pin_dir, "");
	ck_assert_uint_eq(dir_entries(SL_PIN_ROOT), 0);
	sl_xdp_close(&xdp);
}

static int load_pass(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "somebody", "GPL", insns, SL_ARRAY_LEN(insns),
			     NULL);
}

TEST(foreign_program_is_not_touched)
{
	const int ifindex = (int)if_nametoindex("sl0");
	int fd = load_pass();
	uint32_t id;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	id = attached("sl0");
	expect_refused("sl0", &plain, -EBUSY, "already has the XDP program somebody");
	ck_assert_uint_eq(attached("sl0"), id);
	ck_assert_int_eq(bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, NULL), 0);
	expect_open(&plain);
	sl_xdp_close(&xdp);
}

TEST(one_gateway_per_interface)
{
	uint32_t id;

	expect_open(&plain);
	id = attached("sl0");
	expect_refused("sl0", &plain, -EBUSY, "sl0 is served by another gateway");
	ck_assert_uint_eq(attached("sl0"), id);
	ck_assert_uint_ne(pinned_id(xdp.pin_dir, "sl_xsks"), 0);
	sl_xdp_close(&xdp);
}

/* The same name in another network namespace, but the same BPF file system. */
TEST(same_name_in_two_namespaces)
{
	struct sl_xdp other;

	expect_open(&plain);
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", 1), 0);
	ck_assert_msg(sl_xdp_open(&other, "sl0", &plain, &err) == 0, "%s", err.text);
	ck_assert_ptr_eq(strstr(other.pin_dir, SL_PIN_ROOT "/sl0@"), other.pin_dir);
	ck_assert_uint_eq(pinned_id(xdp.pin_dir, "sl_xsks"), map_id(xdp.map_fd[SL_MAP_XSKS]));
	ck_assert_uint_eq(pinned_id(other.pin_dir, "sl_xsks"), map_id(other.map_fd[SL_MAP_XSKS]));
	sl_xdp_close(&other);
	sl_xdp_close(&xdp);
}

TEST(dots_in_the_name)
{
	ck_assert_int_eq(test_sh("ip link set sl0 down && ip link set sl0 name sl0.7 && "
				 "ip link set sl0.7 up"),
			 0);
	ck_assert_msg(sl_xdp_open(&xdp, "sl0.7", &plain, &err) == 0, "%s", err.text);
	ck_assert_str_eq(xdp.pin_dir, SL_PIN_ROOT "/sl0_7");
	sl_xdp_close(&xdp);
}

TEST(statistics_shared_by_two_interfaces)
{
	struct sl_xdp_options o = plain;
	struct sl_xdp second;

	expect_open(&plain);
	o.share = &xdp;
	ck_assert_msg(sl_xdp_open(&second, "sl1", &o, &err) == 0, "%s", err.text);
	for (int i = 0; i < SL_MAP_CNT; i++) {
		bool same = map_id(second.map_fd[i]) == map_id(xdp.map_fd[i]);

		ck_assert_int_eq(same, i >= SL_MAP_SVC_HIST && i <= SL_MAP_SVC_CTL);
	}
	ck_assert_ptr_eq(second.live, xdp.live);
	ck_assert_uint_eq(second.service_cnt, 3);
	sl_xdp_close(&second);
	xdp.live[0].queued = 1; /* still mapped */
	sl_xdp_close(&xdp);
}

/* ---- adopting ---- */

static void adopt(const char *mode, bool dispatched)
{
	const struct sl_listener_key key = {.port = htons(80), .family = 4, .protocol = 6};
	const struct sl_listener l = {.shed_service = SL_ANY_SERVICE};
	struct sl_listener_key first;
	uint32_t id = attached("sl0");
	char want[128];

	ck_assert_uint_ne(id, 0);
	expect_open(&plain);
	ck_assert_int_eq(xdp.attach, SL_XDP_ADOPTED);
	snprintf(want, sizeof(want), "%s, adopted program %u%s", mode, xdp.prog_id,
		 dispatched ? " in libxdp's dispatcher" : "");
	ck_assert_str_eq(xdp.mode, want);
	ck_assert_int_eq(xdp.prog_id == id, !dispatched);
	id = xdp.prog_id;
	ck_assert_int_eq(xdp.generic, strcmp(mode, "generic") == 0);
	ck_assert_uint_eq(xdp.worker_cnt, SL_DEFAULT_WORKERS);
	ck_assert_uint_eq(xdp.service_cnt, SL_DEFAULT_SERVICES);
	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
	xdp.live[0].shed_level = 65536;
	ck_assert_uint_ne(pinned_id(xdp.pin_dir, "sl_svc_live"), 0);

	/* It stays when we go, and passes everything. */
	int fd = dup(xdp.map_fd[SL_MAP_LISTENERS]);
	sl_xdp_close(&xdp);
	ck_assert_uint_ne(attached("sl0"), 0);
	ck_assert_int_lt(bpf_map_get_next_key(fd, NULL, &first), 0);
	close(fd);

	/* The next gateway starts with clean statistics. */
	expect_open(&plain);
	ck_assert_uint_eq(xdp.prog_id, id);
	ck_assert_uint_eq(xdp.live[0].shed_level, 0);
	sl_xdp_close(&xdp);
}

TEST(adopt_from_ip)
{
	ck_assert_int_eq(test_sh("ip link set dev sl0 xdpdrv obj %s sec xdp", object_path()), 0);
	adopt("native", false);
	ck_assert_int_eq(test_sh("ip link set dev sl0 xdpdrv off"), 0);
	ck_assert_uint_eq(attached("sl0"), 0);
}

TEST(adopt_from_ip_generic)
{
	ck_assert_int_eq(test_sh("ip link set dev sl0 xdpgeneric obj %s sec xdp", object_path()),
			 0);
	adopt("generic", false);
}

TEST(adopt_from_xdp_loader)
{
	ck_assert_int_eq(test_sh("xdp-loader load -m native sl0 %s", object_path()), 0);
	adopt("native", dispatcher);
	ck_assert_int_eq(test_sh("xdp-loader unload sl0 --all"), 0);
}

TEST(adopted_program_too_small)
{
	struct sl_xdp_options o = plain;
	uint32_t id;

	ck_assert_int_eq(test_sh("ip link set dev sl0 xdpdrv obj %s sec xdp", object_path()), 0);
	id = attached("sl0");
	o.worker_cnt = SL_DEFAULT_WORKERS + 1;
	expect_refused("sl0", &o, -ENOSPC, "room for 8 workers and 16 services");
	ck_assert_uint_eq(attached("sl0"), id);
	ck_assert_uint_eq(dir_entries(SL_PIN_ROOT), 0);
}

/* ---- the end of a process ---- */

/* A gateway in a child; returns when it is attached. */
static pid_t start_gateway(void)
{
	int pipe_fds[2];
	char ready = 0;
	pid_t pid;

	ck_assert_int_eq(pipe(pipe_fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		const struct sl_xsk_options o = {.port_index = 0};
		struct sl_umem umem;
		struct sl_port *port;

		close(pipe_fds[0]);
		if (sl_xdp_open(&xdp, "sl0", &plain, &err) == 0 &&
		    sl_umem_init(&umem, 2048, 1024) == 0 &&
		    sl_xsk_open(&port, &umem, &xdp, 0, &o, &err) == 0)
			ready = 1;
		if (write(pipe_fds[1], &ready, 1) == 1)
			pause();
		_exit(1);
	}
	close(pipe_fds[1]);
	ck_assert_int_eq(read(pipe_fds[0], &ready, 1), 1);
	ck_assert_int_eq(ready, 1);
	close(pipe_fds[0]);
	return pid;
}

static void kill_gateway(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(sigkill_leaves_no_program)
{
	const struct timespec pause_10ms = {.tv_nsec = 10 * 1000 * 1000};
	pid_t pid = start_gateway();
	uint32_t id = attached("sl0"), stale;

	ck_assert_uint_ne(id, 0);
	kill_gateway(pid);
	for (int i = 0; i < 6000 && attached("sl0"); i++)
		nanosleep(&pause_10ms, NULL);
	ck_assert_uint_eq(attached("sl0"), 0);
	/* Its pins are left, and replaced by the next. */
	stale = pinned_id(SL_PIN_ROOT "/sl0", "sl_xsks");
	ck_assert_uint_ne(stale, 0);
	expect_open(&plain);
	ck_assert_str_eq(xdp.pin_dir, SL_PIN_ROOT "/sl0");
	ck_assert_uint_ne(pinned_id(xdp.pin_dir, "sl_xsks"), stale);
	ck_assert_uint_eq(pinned_id(xdp.pin_dir, "sl_xsks"), map_id(xdp.map_fd[SL_MAP_XSKS]));
	sl_xdp_close(&xdp);
}

/* Pins of a dead gateway are removed; those of a living one stay. */
TEST(unused_pins_are_removed)
{
	pid_t pid = start_gateway();
	uint32_t id = pinned_id(SL_PIN_ROOT "/sl0", "sl_xsks");

	sl_xdp_sweep_pins(NULL);
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(pinned_id(SL_PIN_ROOT "/sl0", "sl_xsks"), id);
	kill_gateway(pid);
	ck_assert_uint_eq(pinned_id(SL_PIN_ROOT "/sl0", "sl_xsks"), id);
	sl_xdp_sweep_pins(NULL);
	ck_assert_uint_eq(dir_entries(SL_PIN_ROOT "/sl0"), 0);
	expect_open(&plain);
	sl_xdp_sweep_pins(NULL);
	ck_assert_uint_eq(pinned_id(SL_PIN_ROOT "/sl0", "sl_xsks"),
			  map_id(xdp.map_fd[SL_MAP_XSKS]));
	sl_xdp_close(&xdp);
}

/* As a service manager does it: the old one has hardly died when the new one starts. */
TEST(restart_at_once_after_sigkill)
{
	const struct sl_xsk_options o = {.port_index = 0};
	struct sl_umem umem;
	struct sl_port *port;

	ck_assert_int_eq(sl_umem_init(&umem, 2048, 1024), 0);
	for (int i = 0; i < 5; i++) {
		kill_gateway(start_gateway());
		expect_open(&plain);
		ck_assert_int_eq(xdp.attach, own_attach());
		ck_assert_msg(sl_xsk_open(&port, &umem, &xdp, 0, &o, &err) == 0, "%s", err.text);
		port->ops->close(port);
		sl_xdp_close(&xdp);
	}
	sl_umem_fini(&umem);
}
