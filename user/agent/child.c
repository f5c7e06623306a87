/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/child.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/list.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "sandbox/sandbox.h"
#include "sandbox/supervise.h"

enum { RETRY_MS = 200 };

struct child_lists {
	struct agent *agent;
	int fd;
	uint32_t number;
	struct agent_list_line *now;
	uint32_t cnt;
	char *text;
	int files[SL_CFG_MAX_SERVER_FILES];
	unsigned file_cnt;
	int timer;
	bool told;
};

/* Replaces numbers of files by descriptors; -2: it did not arrive. */
static struct sl_agent_tls find_files(const struct child_lists *l, const struct sl_agent_tls *tls)
{
	struct sl_agent_tls found = *tls;
	int *all[] = {&found.ca, &found.certificate, &found.key};

	for (unsigned i = 0; i < SL_ARRAY_LEN(all); i++) {
		int number = *all[i];

		*all[i] = number > 0 ? -2 : -1;
		if (number > 0 && (unsigned)number <= l->file_cnt)
			*all[i] = l->files[number - 1];
	}
	return found;
}

static struct agent_list_line *find_line(struct agent_list_line *list, uint32_t cnt,
					 const char *listen)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (strcmp(list[i].listen, listen) == 0)
			return &list[i];
	}
	return NULL;
}

static void close_files(struct child_lists *l)
{
	while (l->file_cnt)
		close(l->files[--l->file_cnt]);
}

/*
 * Tries failed lines again: the former agent may still hold the endpoint, or the folder may be
 * missing.
 */
static void serve_lines(struct child_lists *l)
{
	const struct itimerspec retry = {.it_value.tv_nsec = RETRY_MS * SL_NS_PER_MS};
	struct sl_err err = SL_ERR(300);
	bool failed = false;

	for (uint32_t i = 0; i < l->cnt; i++) {
		struct agent_list_line *s = &l->now[i];
		struct sl_agent_options o = {.listen = s->listen,
					     .to = s->to,
					     .name = s->name,
					     .host = s->host,
					     .concurrency = s->concurrency,
					     .health = s->health,
					     .tls = find_files(l, &s->tls),
					     .number = l->number};

		if (s->served)
			continue;
		s->served = sl_agent_add(l->agent, &o, &err) == 0;
		failed |= !s->served;
		if (!s->served && !l->told)
			sl_log_err("agent %u: %s: %s; it is tried again", l->number, s->name,
				   err.text);
	}
	l->told = failed;
	if (failed)
		(void)timerfd_settime(l->timer, 0, &retry, NULL);
	else
		close_files(l);
}

static void on_retry(void *arg)
{
	struct child_lists *l = arg;
	uint64_t times;

	if (read(l->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
		serve_lines(l);
}

static void apply_list(struct child_lists *l, struct agent_list_line *next, uint32_t cnt)
{
	for (uint32_t i = 0; i < l->cnt; i++) {
		struct agent_list_line *same = find_line(next, cnt, l->now[i].listen);
		struct sl_agent_tls tls;

		if (!l->now[i].served)
			continue;
		if (!same) {
			sl_agent_remove(l->agent, l->now[i].listen);
			continue;
		}
		tls = find_files(l, &same->tls);
		same->served = true;
		sl_agent_renew(l->agent, same->listen, &tls);
	}
}

static ssize_t receive_list(struct child_lists *l, char *text)
{
	union agent_list_control control;
	struct iovec iov = {text, AGENT_LIST_MAX};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(l->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n <= 0)
		return n;
	close_files(l);
	l->file_cnt = agent_list_detach(&msg, l->files);
	return n;
}

static void on_list(void *arg)
{
	struct child_lists *l = arg;
	struct agent_list_line *next = calloc(SL_CFG_MAX_SERVERS, sizeof(*next));
	char *text = calloc(1, AGENT_LIST_MAX + 1);
	ssize_t n = text && next ? receive_list(l, text) : -1;
	uint32_t cnt;

	if (n <= 0) {
		free(text);
		free(next);
		if (n == 0)
			sl_agent_stop(l->agent);
		return;
	}
	cnt = agent_list_parse(text, l->number, next, SL_CFG_MAX_SERVERS);
	apply_list(l, next, cnt);
	free(l->now);
	free(l->text);
	l->now = next;
	l->text = text;
	l->cnt = cnt;
	l->told = false;
	serve_lines(l);
	sl_agent_look_up(l->agent);
}

static void pin_cpu(const struct sl_cfg_agents *a, uint32_t number)
{
	cpu_set_t set;

	if (number >= a->cpu_cnt)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned)a->cpus[number], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		sl_log_warn("agent %u: cpu %d: %s", number, a->cpus[number], strerror(errno));
}

static int restrict_paths(const char *folder, struct sl_err *err)
{
	struct sl_sandbox_place places[1 + SL_SANDBOX_RESOLVER_CNT] = {
		{folder, SL_SANDBOX_SOCKETS}};

	memcpy(places + 1, sl_sandbox_resolver, sizeof(sl_sandbox_resolver));
	return sl_sandbox_narrow(places, SL_ARRAY_LEN(places), err);
}

void agent_child_run(const struct agent_child_options *o)
{
	struct child_lists lists = {.fd = o->fd, .number = o->number};
	struct sl_err err = SL_ERR(200);
	char name[sizeof("agent-4294967295")];

	sl_supervise_under(o->zygote);
	snprintf(name, sizeof(name), "agent-%u", o->number);
	sl_thread_name_set(name);
	pin_cpu(&o->cfg->agents, o->number);
	if (restrict_paths(o->folder, &err)) {
		sl_log_err("agent %u: %s", o->number, err.text);
		_exit(1);
	}
	lists.agent = sl_agent_open(&err);
	if (lists.agent && sl_agent_start(lists.agent))
		sl_log_err("agent %u: names cannot be looked up", o->number);
	sl_sandbox_thread(SL_THREAD_AGENT);
	lists.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (!lists.agent || lists.timer < 0 ||
	    sl_agent_watch(lists.agent, lists.timer, on_retry, &lists) ||
	    sl_agent_watch(lists.agent, o->fd, on_list, &lists)) {
		sl_log_err("agent %u: %s", o->number, lists.agent ? "out of memory" : err.text);
		_exit(1);
	}
	sl_agent_run(lists.agent);
	_exit(0);
}
