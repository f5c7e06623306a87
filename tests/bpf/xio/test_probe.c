/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of `sluice doctor`, on interfaces with known answers. */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "xio/probe.h"
#include "xio/xdp/xdp.h"
#include "netns.h"
#include "suite.h"

static struct sl_nic_info nic;

static void set_up(void)
{
	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", 3), 0);
}

FIXTURE(set_up, NULL)

TEST(the_host_is_described)
{
	struct sl_host_info h;
	struct utsname un;

	uname(&un);
	sl_probe_host(&h);
	ck_assert_str_eq(h.kernel, un.release);
	ck_assert(h.btf);
	ck_assert(h.bpffs);
	ck_assert(h.cap_ipc_lock && h.cap_net_admin && h.cap_net_raw && h.cap_bpf);
	ck_assert_uint_gt(h.memlock_bytes, 0);
}

TEST(bpffs_is_mounted_when_absent)
{
	struct sl_host_info h;

	while (umount2(SL_BPFFS, MNT_DETACH) == 0)
		;
	sl_probe_host(&h);
	ck_assert(!h.bpffs);
	ck_assert_int_eq(sl_bpffs_mount(), 0);
	sl_probe_host(&h);
	ck_assert(h.bpffs);
	ck_assert_int_eq(sl_bpffs_mount(), 0);
	ck_assert_int_eq(umount2(SL_BPFFS, 0), 0); /* one mount, not two */
	sl_probe_host(&h);
	ck_assert(!h.bpffs);
}

TEST(an_interface_is_described)
{
	static const uint8_t mac[] = {2, 0, 0, 0, 0, 0x77};

	ck_assert_int_eq(sl_probe_nic("nosuch0", &nic), -ENODEV);
	ck_assert_int_eq(sl_probe_nic("a-name-that-no-interface-can-have", &nic), -ENODEV);
	ck_assert_int_eq(test_sh("ip link set sl0 address 02:00:00:00:00:77 mtu 1400"), 0);
	ck_assert_int_eq(sl_probe_nic("sl0", &nic), 0);
	ck_assert_str_eq(nic.driver, "veth");
	ck_assert_uint_eq(nic.mtu, 1400);
	ck_assert_uint_eq(nic.queue_cnt, 3);
	ck_assert_uint_eq(nic.queue_max, 3);
	ck_assert_mem_eq(nic.mac, mac, sizeof(mac));
	ck_assert(nic.up && nic.ethernet);
	ck_assert_uint_eq(nic.xdp_prog_id, 0);
	ck_assert_int_eq(nic.ifindex, (int)if_nametoindex("sl0"));
	ck_assert_int_eq(test_sh("ip link set sl0 down"), 0);
	ck_assert_int_eq(sl_probe_nic("sl0", &nic), 0);
	ck_assert(!nic.up);
	ck_assert_int_eq(sl_probe_nic("lo", &nic), 0);
	ck_assert(!nic.ethernet);
}

TEST(each_way_to_attach_is_tried)
{
	bool chains;

	ck_assert_int_eq(test_sh("ip link add slg type ifb && ip link set slg up"), 0);
	ck_assert_int_eq(sl_probe_nic("sl0", &nic), 0);
	ck_assert_int_eq(sl_probe_attach(&nic, false), 0);
	ck_assert_int_eq(sl_probe_attach(&nic, true), 0);
	ck_assert_int_eq(sl_probe_nic("slg", &nic), 0);
	ck_assert_int_eq(sl_probe_attach(&nic, false), -EOPNOTSUPP);
	ck_assert_int_eq(sl_probe_attach(&nic, true), 0);
	ck_assert_int_eq(sl_probe_xsk("sl0", 2, &chains), SL_PORT_COPY);
	ck_assert_int_eq(sl_probe_xsk("sl0", 3, &chains), -EINVAL);
	ck_assert_int_eq(sl_probe_xsk("slg", 0, &chains), SL_PORT_GENERIC);
	ck_assert_int_eq(sl_probe_xsk("nosuch0", 0, &chains), -ENODEV);
	/* nothing is left, and a trial can follow a trial */
	ck_assert_int_eq(sl_probe_nic("sl0", &nic), 0);
	ck_assert_uint_eq(nic.xdp_prog_id, 0);
	ck_assert_int_eq(sl_probe_xsk("sl0", 2, &chains), SL_PORT_COPY);
}

TEST(a_gateway_is_not_disturbed)
{
	bool chains;
	const struct sl_xdp_options o = {.worker_cnt = 1};
	struct sl_xdp xdp;
	struct sl_err err = SL_ERR(256);

	ck_assert_int_eq(sl_xdp_open(&xdp, "sl0", &o, &err), 0);
	ck_assert_int_eq(sl_probe_xsk("sl0", 0, &chains), -EBUSY);
	ck_assert_int_eq(sl_probe_nic("sl0", &nic), 0);
	ck_assert_uint_ne(nic.xdp_prog_id, 0);
	sl_xdp_close(&xdp);
}

/* The answer depends on the kernel; that it agrees with what attaching chooses does not. */
TEST(freplace_decides_on_the_dispatcher)
{
	const struct sl_xdp_options o = {.worker_cnt = 1};
	struct sl_xdp xdp;
	struct sl_err err = SL_ERR(256);
	int res = sl_probe_freplace();

	ck_assert_int_le(res, 0);
	ck_assert_int_eq(sl_probe_freplace(), res);
	ck_assert_msg(sl_xdp_open(&xdp, "sl0", &o, &err) == 0, "%s", err.text);
	ck_assert_int_eq(xdp.attach, res == 0 ? SL_XDP_DISPATCHER : SL_XDP_LINK);
	sl_xdp_close(&xdp);
}
