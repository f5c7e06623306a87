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
	int timer;
	bool told;
};

static struct agent_list_line *find_line(struct agent_list_line *list, uint32_t cnt,
					 const char *listen)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (strcmp(list[i].listen, listen) == 0)
			return &list[i];
	}
	return NULL;
}

/*
 * Serves new lines. A failed line is tried again: the former agent may still hold the endpoint, or
 * the folder may be missing.
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
}

static void on_retry(void *arg)
{
	struct child_lists *l = arg;
	uint64_t times;

	if (read(l->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
		serve_lines(l);
}

/* Servers that are not in the list are removed. */
static void apply_list(struct child_lists *l, struct agent_list_line *next, uint32_t cnt)
{
	for (uint32_t i = 0; i < l->cnt; i++) {
		struct agent_list_line *same = find_line(next, cnt, l->now[i].listen);

		if (same)
			same->served = l->now[i].served;
		else if (l->now[i].served)
			sl_agent_remove(l->agent, l->now[i].listen);
	}
}

static void on_list(void *arg)
{
	struct child_lists *l = arg;
	struct agent_list_line *next = calloc(SL_CFG_MAX_SERVERS, sizeof(*next));
	char *text = calloc(1, AGENT_LIST_MAX + 1);
	ssize_t n = text && next ? recv(l->fd, text, AGENT_LIST_MAX, MSG_DONTWAIT) : -1;
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
	sl_agent_look_up(l->agent); /* a reload also renews addresses */
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

/* Restricts the file system to the agent's sockets and the resolver's files. */
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
