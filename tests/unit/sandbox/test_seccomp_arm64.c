/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arm64 lacks old system calls, and its C library makes newer ones in their place. Each list with an
 * old call must have the newer one too.
 */
#include "sandbox/seccomp.c"
#include "suite.h"

static const char *const newer[][2] = {
	{"access", "faccessat"},    {"chmod", "fchmodat"},         {"chown", "fchownat"},
	{"dup2", "dup3"},           {"epoll_wait", "epoll_pwait"}, {"poll", "ppoll"},
	{"readlink", "readlinkat"}, {"rmdir", "unlinkat"},         {"select", "pselect6"},
	{"unlink", "unlinkat"},     {"mkdir", "mkdirat"},          {"rename", "renameat"},
	{"open", "openat"},         {"stat", "newfstatat"},        {"lstat", "newfstatat"},
	{"pipe", "pipe2"},
};

static bool is_in(const struct seccomp_rule *rules, size_t cnt, const char *name)
{
	int call = seccomp_syscall_resolve_name(name);

	for (size_t i = 0; i < cnt; i++) {
		if (rules[i].call == call)
			return true;
	}
	return false;
}

/* As compile() joins the lists: those above a kind's are its own too, but for the control thread's. */
static bool may(enum sl_thread_kind kind, const char *name)
{
	for (unsigned k = 0; k <= (unsigned)kind; k++) {
		if ((k != SL_THREAD_CONTROL || kind == SL_THREAD_CONTROL) &&
		    is_in(lists[k].rules, lists[k].cnt, name))
			return true;
	}
	return false;
}

static bool arm64_has(const char *name)
{
	return seccomp_syscall_resolve_name_arch(SCMP_ARCH_AARCH64, name) >= 0;
}

static const char *newer_than(const char *name)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(newer); i++) {
		if (strcmp(newer[i][0], name) == 0)
			return newer[i][1];
	}
	ck_abort_msg("arm64 has no %s, and the table no newer call", name);
	return NULL;
}

TEST(calls_that_arm64_lacks_are_allowed_by_their_newer_names)
{
	unsigned old = 0;

	for (unsigned k = 0; k < SL_THREAD_KIND_CNT; k++) {
		for (size_t i = 0; i < lists[k].cnt; i++) {
			char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE,
								      lists[k].rules[i].call);
			const char *want;

			ck_assert_msg(name, "%s: rule %zu", lists[k].name, i);
			if (!arm64_has(name)) {
				old++;
				want = newer_than(name);
				ck_assert_msg(arm64_has(want), "%s", want);
				ck_assert_msg(may((enum sl_thread_kind)k, want),
					      "%s: %s without %s", lists[k].name, name, want);
			}
			free(name);
		}
	}
	ck_assert_uint_gt(old, 0);
}
