/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch controllers read overrides at each tick. 0: auto; fields in which 0 is a value hold the
 * value plus one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/units.h"
#include "control/stats.h"
#include "sluice/types.h"

enum { SHED_ALL = 65536 };

/* Atomic, because controllers read concurrently. */
static void put32(uint32_t *at, uint32_t v)
{
	__atomic_store_n(at, v, __ATOMIC_RELAXED);
}

static void put64(uint64_t *at, uint64_t v)
{
	__atomic_store_n(at, v, __ATOMIC_RELAXED);
}

static bool set_size(struct sl_svc_ctl *ctl, const char *value)
{
	uint64_t n;

	if (sl_parse_u64_max(sl_span_cstr(value), SL_RPC_MAX_BATCH, &n) || !n)
		return false;
	put32(&ctl->batch_size, (uint32_t)n);
	return true;
}

static bool set_shed(struct sl_svc_ctl *ctl, const char *value)
{
	char *end;
	double d;

	if (!value[0] || value[strspn(value, "0123456789.")])
		return false;
	d = strtod(value, &end);
	if (*end || !(d >= 0 && d <= 1))
		return false;
	put32(&ctl->shed_level, (uint32_t)(d * SHED_ALL) + 1);
	return true;
}

static bool set_time(uint64_t *at, const char *value, uint64_t plus)
{
	uint64_t ns;

	if (sl_parse_duration(sl_span_cstr(value), &ns) || (!ns && !plus) ||
	    ns > 86400 * UINT64_C(1000000000))
		return false;
	put64(at, ns + plus);
	return true;
}

static bool set_delay(struct sl_svc_ctl *ctl, const char *value)
{
	return set_time((uint64_t *)&ctl->hold_ns, value, 1);
}

static bool set_bound(struct sl_svc_ctl *ctl, const char *value)
{
	return set_time((uint64_t *)&ctl->bound_ns, value, 0);
}

static bool set_deadline(struct sl_svc_ctl *ctl, const char *value)
{
	return set_time((uint64_t *)&ctl->deadline_ns, value, 0);
}

static const struct {
	const char *name;
	bool (*set)(struct sl_svc_ctl *ctl, const char *value);
	size_t offset, size;
	const char *allowed;
} overrides[] = {
	{"size", set_size, offsetof(struct sl_svc_ctl, batch_size), 4, "1 to 1024"},
	{"shed", set_shed, offsetof(struct sl_svc_ctl, shed_level), 4, "a share from 0 to 1"},
	{"delay", set_delay, offsetof(struct sl_svc_ctl, hold_ns), 8,
	 "a duration like 500us, or 0"},
	{"bound", set_bound, offsetof(struct sl_svc_ctl, bound_ns), 8, "a duration like 20ms"},
	{"deadline", set_deadline, offsetof(struct sl_svc_ctl, deadline_ns), 8,
	 "a duration like 1s"},
};

int sl_override_set(struct sl_svc_ctl *ctl, const char *name, const char *value, struct sl_err *err)
{
	if (strcmp(name, "hold") == 0)
		name = "delay";
	for (size_t i = 0; i < SL_ARRAY_LEN(overrides); i++) {
		if (strcmp(overrides[i].name, name) != 0)
			continue;
		if (strcmp(value, "auto") == 0) {
			if (overrides[i].size == 4)
				put32((uint32_t *)(void *)((char *)ctl + overrides[i].offset), 0);
			else
				put64((uint64_t *)(void *)((char *)ctl + overrides[i].offset), 0);
			return 0;
		}
		if (overrides[i].set(ctl, value))
			return 0;
		return sl_fail(err, -EINVAL, "found %s = \"%.64s\"; allowed: %s, or auto", name,
			       value, overrides[i].allowed);
	}
	return sl_fail(err, -EINVAL,
		       "found \"%.64s\"; allowed: pool, size, shed, delay, bound, deadline", name);
}

json_t *sl_override_json(const struct sl_svc_ctl *ctl)
{
	json_t *o = json_object();

	if (ctl->batch_size)
		json_object_set_new(o, "size", json_integer(ctl->batch_size));
	if (ctl->shed_level)
		json_object_set_new(o, "shed", json_real((double)(ctl->shed_level - 1) / SHED_ALL));
	if (ctl->hold_ns)
		json_object_set_new(o, "hold_ns", json_integer((json_int_t)ctl->hold_ns - 1));
	if (ctl->bound_ns)
		json_object_set_new(o, "bound_ns", json_integer((json_int_t)ctl->bound_ns));
	if (ctl->deadline_ns)
		json_object_set_new(o, "deadline_ns", json_integer((json_int_t)ctl->deadline_ns));
	return o;
}
