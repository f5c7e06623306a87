/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "base/check.h"
#include "xio/xdp/acl_map.h"
#include "xio/xdp/maps.h"
#include "xio/xdp/offender_map.h"

enum { MAPS_PER_PROG = 32 };

static const struct map_layout {
	const char *name;
	uint32_t type, key_size, value_size;
	bool mmapable;
} layouts[SL_MAP_CNT] = {
	[SL_MAP_LISTENERS] = {"sl_listeners", BPF_MAP_TYPE_HASH, sizeof(struct sl_listener_key),
			      sizeof(struct sl_listener), false},
	[SL_MAP_XSKS] = {"sl_xsks", BPF_MAP_TYPE_XSKMAP, 4, 4, false},
	[SL_MAP_QUEUES] = {"sl_queues", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct sl_queue), true},
	[SL_MAP_RX_DROPS] = {"sl_rx_drops", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, false},
	[SL_MAP_SVC_HIST] = {"sl_svc_hist", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct sl_svc_hist),
			     true},
	[SL_MAP_SVC_LIVE] = {"sl_svc_live", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct sl_svc_live),
			     true},
	[SL_MAP_STAGES] = {"sl_stages", BPF_MAP_TYPE_HASH, sizeof(struct sl_stage_key),
			   sizeof(struct sl_stage_times), false},
	[SL_MAP_SVC_CTL] = {"sl_svc_ctl", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct sl_svc_ctl), true},
	[SL_MAP_EDGE] = {"sl_edge", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct sl_edge), false},
	[SL_MAP_PREFIX4] = {"sl_prefix4", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct sl_prefix4),
			    sizeof(struct sl_prefix), false},
	[SL_MAP_PREFIX6] = {"sl_prefix6", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct sl_prefix6),
			    sizeof(struct sl_prefix), false},
	[SL_MAP_OFFENDERS] = {"sl_offenders", BPF_MAP_TYPE_LRU_HASH, sizeof(struct sl_offender_key),
			      sizeof(struct sl_offender), false},
};

const char *sl_xdp_map_name(enum sl_xdp_map map)
{
	return layouts[map].name;
}

static int prog_maps(int prog_fd, uint32_t *ids, uint32_t *cnt)
{
	struct bpf_prog_info info = {.map_ids = (uint64_t)(uintptr_t)ids, .nr_map_ids = *cnt};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len) < 0)
		return -errno;
	if (info.nr_map_ids < *cnt)
		*cnt = info.nr_map_ids;
	return 0;
}

static int map_info(int fd, struct bpf_map_info *info)
{
	uint32_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return bpf_obj_get_info_by_fd(fd, info, &len) < 0 ? -errno : 0;
}

/* libbpf prefixes the name with the object's. */
static bool is_rodata(const struct bpf_map_info *info)
{
	const char *dot = strrchr(info->name, '.');

	return dot && strncmp(dot, ".rodata", strlen(dot)) == 0 && strlen(dot) > 3 &&
	       info->type == BPF_MAP_TYPE_ARRAY && info->max_entries == 1 &&
	       info->value_size >= sizeof(struct sl_prog_config);
}

static int read_rodata(int map_fd, uint32_t value_size, struct sl_prog_config *out)
{
	const uint32_t zero = 0;
	void *value = calloc(1, value_size);
	int err = value ? 0 : -ENOMEM;

	if (!err && bpf_map_lookup_elem(map_fd, &zero, value) < 0)
		err = -errno;
	if (!err)
		memcpy(out, value, sizeof(*out));
	free(value);
	return err;
}

int sl_xdp_read_config(int prog_fd, struct sl_prog_config *out)
{
	uint32_t ids[MAPS_PER_PROG], cnt = MAPS_PER_PROG;
	struct bpf_map_info info;
	int err = prog_maps(prog_fd, ids, &cnt);

	if (err)
		return err;
	err = -ENOENT;
	for (uint32_t i = 0; i < cnt && err; i++) {
		int fd = bpf_map_get_fd_by_id(ids[i]);

		if (fd < 0)
			continue;
		if (map_info(fd, &info) == 0 && is_rodata(&info) &&
		    read_rodata(fd, info.value_size, out) == 0 && out->magic == SL_PROG_MAGIC)
			err = 0;
		close(fd);
	}
	return err;
}

static int take_map(struct sl_xdp *x, int fd, const struct bpf_map_info *info)
{
	for (int i = 0; i < SL_MAP_CNT; i++) {
		const struct map_layout *l = &layouts[i];

		if (strcmp(info->name, l->name) != 0 || x->map_fd[i] >= 0)
			continue;
		if (info->type != l->type || info->key_size != l->key_size ||
		    info->value_size != l->value_size ||
		    (l->mmapable && !(info->map_flags & BPF_F_MMAPABLE)))
			return -EINVAL;
		x->map_fd[i] = fd;
		return 1;
	}
	return 0;
}

static int derive_counts(struct sl_xdp *x, struct sl_err *err)
{
	struct bpf_map_info hist, live, ctl;

	if (map_info(x->map_fd[SL_MAP_SVC_HIST], &hist) ||
	    map_info(x->map_fd[SL_MAP_SVC_LIVE], &live) ||
	    map_info(x->map_fd[SL_MAP_SVC_CTL], &ctl))
		return -errno;
	x->service_cnt = ctl.max_entries;
	x->worker_cnt = live.max_entries / ctl.max_entries;
	if (x->worker_cnt * x->service_cnt != live.max_entries ||
	    hist.max_entries != live.max_entries * SL_STAGE_CNT)
		return sl_fail(
			err, -EINVAL,
			"%s: sizes of sl_svc_hist (%u), sl_svc_live (%u) and sl_svc_ctl (%u) do "
			"not "
			"agree",
			x->ifname, hist.max_entries, live.max_entries, ctl.max_entries);
	return 0;
}

int sl_xdp_find_maps(struct sl_xdp *x, int prog_fd, struct sl_err *err)
{
	uint32_t ids[MAPS_PER_PROG], cnt = MAPS_PER_PROG;
	struct bpf_map_info info;
	int res = prog_maps(prog_fd, ids, &cnt);

	for (uint32_t i = 0; i < cnt && !res; i++) {
		int fd = bpf_map_get_fd_by_id(ids[i]), taken = 0;

		if (fd < 0)
			continue;
		if (map_info(fd, &info) == 0)
			taken = take_map(x, fd, &info);
		if (taken <= 0)
			close(fd);
		if (taken < 0) {
			sl_err_set(err, "%s: map %s of the attached program has another layout",
				   x->ifname, info.name);
			return taken;
		}
	}
	for (int i = 0; i < SL_MAP_CNT; i++) {
		if (x->map_fd[i] < 0)
			return sl_fail(err, -ENOENT, "%s: the attached program has no map %s",
				       x->ifname, layouts[i].name);
	}
	return derive_counts(x, err);
}

static size_t mmap_len(enum sl_xdp_map map, size_t entries)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t len = ((layouts[map].value_size + 7u) & ~(size_t)7) * entries;

	return (len + page - 1) & ~(page - 1);
}

static size_t map_entries(const struct sl_xdp *x, enum sl_xdp_map map)
{
	switch (map) {
	case SL_MAP_QUEUES: return SL_MAX_QUEUES;
	case SL_MAP_SVC_HIST: return (size_t)x->worker_cnt * x->service_cnt * SL_STAGE_CNT;
	case SL_MAP_SVC_LIVE: return (size_t)x->worker_cnt * x->service_cnt;
	default: return x->service_cnt;
	}
}

static void *map_array(const struct sl_xdp *x, enum sl_xdp_map map, struct sl_err *err)
{
	void *p = mmap(NULL, mmap_len(map, map_entries(x, map)), PROT_READ | PROT_WRITE, MAP_SHARED,
		       x->map_fd[map], 0);

	if (p != MAP_FAILED)
		return p;
	sl_err_set(err, "%s: cannot map %s into memory: %s", x->ifname, layouts[map].name,
		   strerror(errno));
	return NULL;
}

int sl_xdp_map_memory(struct sl_xdp *x, const struct sl_xdp *share, struct sl_err *err)
{
	x->queues = map_array(x, SL_MAP_QUEUES, err);
	if (!x->queues)
		return -ENOMEM;
	if (share) {
		x->shared_svc = true;
		x->hist = share->hist;
		x->live = share->live;
		x->ctl = share->ctl;
		return 0;
	}
	x->hist = map_array(x, SL_MAP_SVC_HIST, err);
	if (x->hist)
		x->live = map_array(x, SL_MAP_SVC_LIVE, err);
	if (x->live)
		x->ctl = map_array(x, SL_MAP_SVC_CTL, err);
	return x->ctl ? 0 : -ENOMEM;
}

static void unmap_array(const struct sl_xdp *x, enum sl_xdp_map map, void *p)
{
	if (p)
		munmap(p, mmap_len(map, map_entries(x, map)));
}

void sl_xdp_unmap_memory(struct sl_xdp *x)
{
	unmap_array(x, SL_MAP_QUEUES, x->queues);
	if (!x->shared_svc) {
		unmap_array(x, SL_MAP_SVC_HIST, x->hist);
		unmap_array(x, SL_MAP_SVC_LIVE, x->live);
		unmap_array(x, SL_MAP_SVC_CTL, x->ctl);
	}
	x->queues = NULL;
	x->hist = NULL;
	x->live = NULL;
	x->ctl = NULL;
}

void sl_xdp_clear_listeners(const struct sl_xdp *x)
{
	struct sl_listener_key key;

	while (bpf_map_get_next_key(x->map_fd[SL_MAP_LISTENERS], NULL, &key) == 0) {
		if (bpf_map_delete_elem(x->map_fd[SL_MAP_LISTENERS], &key) < 0)
			break;
	}
}

void sl_xdp_clear_stages(const struct sl_xdp *x)
{
	struct sl_stage_key key;

	for (uint32_t i = 0; i < SL_MAX_SERVICES * SL_STAGE_CNT; i++) {
		if (bpf_map_get_next_key(x->map_fd[SL_MAP_STAGES], NULL, &key) < 0 ||
		    bpf_map_delete_elem(x->map_fd[SL_MAP_STAGES], &key) < 0)
			break;
	}
}

void sl_xdp_reset_maps(const struct sl_xdp *x)
{
	sl_xdp_clear_listeners(x);
	sl_xdp_clear_stages(x);
	(void)sl_xdp_edge_ports(x, 0, 0);
	(void)sl_xdp_offenders_tidy(x, NULL, NULL);
	memset(x->hist, 0, sizeof(*x->hist) * map_entries(x, SL_MAP_SVC_HIST));
	memset(x->live, 0, sizeof(*x->live) * map_entries(x, SL_MAP_SVC_LIVE));
	/* sl_svc_ctl belongs to the operator. */
}

static int result(int res)
{
	return res < 0 ? -errno : 0;
}

int sl_xdp_listen(const struct sl_xdp *x, const struct sl_listener_key *key,
		  const struct sl_listener *l)
{
	return result(bpf_map_update_elem(x->map_fd[SL_MAP_LISTENERS], key, l, BPF_ANY));
}

int sl_xdp_set_stage(const struct sl_xdp *x, const struct sl_stage_key *key,
		     const struct sl_stage_times *v)
{
	return result(bpf_map_update_elem(x->map_fd[SL_MAP_STAGES], key, v, BPF_ANY));
}

int sl_xdp_unlisten(const struct sl_xdp *x, const struct sl_listener_key *key)
{
	return result(bpf_map_delete_elem(x->map_fd[SL_MAP_LISTENERS], key));
}

int sl_xdp_compare_listeners(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct sl_listener_key));
}

/* Bounded, even if another process adds entries. */
static int remove_others(const struct sl_xdp *x, const struct sl_xdp_listener *list, uint32_t cnt)
{
	const int fd = x->map_fd[SL_MAP_LISTENERS];
	struct sl_listener_key key, next;
	bool more = bpf_map_get_next_key(fd, NULL, &next) == 0;

	for (uint32_t i = 0; more && i < 2 * SL_MAX_LISTENER_KEYS; i++) {
		key = next;
		more = bpf_map_get_next_key(fd, &key, &next) == 0;
		if (bsearch(&key, list, cnt, sizeof(*list), sl_xdp_compare_listeners))
			continue;
		if (bpf_map_delete_elem(fd, &key) < 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

int sl_xdp_set_listeners(const struct sl_xdp *x, const struct sl_xdp_listener *list, uint32_t cnt)
{
	int rc = 0;

	for (uint32_t i = 0; i < cnt && !rc; i++)
		rc = sl_xdp_listen(x, &list[i].key, &list[i].value);
	return rc ? rc : remove_others(x, list, cnt);
}

int sl_xdp_set_socket(const struct sl_xdp *x, uint16_t queue, uint32_t worker, int xsk_fd)
{
	const uint32_t key = queue, fd = (uint32_t)xsk_fd;

	x->queues[queue].worker = worker;
	return result(bpf_map_update_elem(x->map_fd[SL_MAP_XSKS], &key, &fd, BPF_ANY));
}

void sl_xdp_clear_socket(const struct sl_xdp *x, uint16_t queue)
{
	const uint32_t key = queue;

	if (x->map_fd[SL_MAP_XSKS] >= 0)
		bpf_map_delete_elem(x->map_fd[SL_MAP_XSKS], &key);
}

int sl_xdp_verdicts(const struct sl_xdp *x, uint64_t out[SL_RX_VERDICT_CNT])
{
	const int cpu_cnt = libbpf_num_possible_cpus();
	uint64_t *values;
	int res = 0;

	if (cpu_cnt < 0)
		return cpu_cnt;
	values = calloc((size_t)cpu_cnt, sizeof(*values));
	if (!values)
		return -ENOMEM;
	memset(out, 0, sizeof(*out) * SL_RX_VERDICT_CNT);
	for (uint32_t v = 0; v < SL_RX_VERDICT_CNT && !res; v++) {
		res = result(bpf_map_lookup_elem(x->map_fd[SL_MAP_RX_DROPS], &v, values));
		for (int i = 0; i < cpu_cnt && !res; i++)
			out[v] += values[i];
	}
	free(values);
	return res;
}
